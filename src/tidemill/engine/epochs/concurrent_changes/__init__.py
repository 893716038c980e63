"""Changes of several callers at the same time.

- ``combining``: epochs of several threads, run by one of them
- ``apply_each``: independent changes that share a sync; ``post_keys``: keys by which the same change is known again
"""
