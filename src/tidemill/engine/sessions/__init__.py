"""Sessions: what one user holds of a warehouse.

- ``session``: ``Session``, the public class
"""
