"""Publish-subscribe: the changes of each epoch in a view, delivered to subscribers.

- ``subscription``: ``Subscription``, an iterator of batches that catches up from the store
- ``change_batches``: ``ChangeBatch``: inserts, deletes and updates of one epoch
- ``element_changes``: ``ElementChange``: what has changed inside of an updated row
- ``publisher``: one bounded queue for each view, shared by its listeners
- ``listener_index``: index from values of rows to the listeners that filter by them
- ``row_filter``: rows with given values in given columns
"""
