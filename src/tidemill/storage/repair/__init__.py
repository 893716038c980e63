"""Repair: examining every file of a folder, and committing a manifest of what is intact.

- ``examine``: reads manifests, log and runs, and lists all that is damaged.
- ``salvage``: the intact row groups of a damaged run.
- ``write_repair``: commits what can be read, and moves damaged files to quarantine.
"""
