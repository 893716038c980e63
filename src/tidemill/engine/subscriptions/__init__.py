"""Publish-subscribe: what each epoch changed in a view, handed to those who asked for it.

- ``subscription``: ``Subscription``, an iterator of batches that catches up from the store
- ``change_batches``: ``ChangeBatch``: inserts, deletes and updates of one epoch
- ``publisher``: one bounded queue for each view, shared by its listeners
- ``listener_index``: from the values of a row to the listeners that filter by them
- ``row_filter``: rows with given values in given columns
"""
