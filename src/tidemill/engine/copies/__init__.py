"""Copies of a warehouse: backups, restored warehouses and clones.

- ``backup``: ``tidemill.backup``, ``tidemill.restore`` and ``tidemill.clone``
- ``detach``: what a copy no longer does, because the warehouse that it is of does it
- ``earlier_epoch``: the definitions of a copy as of an earlier epoch
"""
