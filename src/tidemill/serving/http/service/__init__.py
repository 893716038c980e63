"""State that all requests share: the warehouse, and the threads between it and the event loop.

- ``service``: the warehouse and its pools of threads
- ``post_queue``: the posts that wait, and the thread that commits them together
- ``change_hub``: the thread that follows the changes of all views that somebody reads
- ``request_times``: how long requests wait for their answer
- ``caller_watch``: who still listens, and may no longer
- ``topic``: the changes of a view with one filter, and the queues of its readers
"""
