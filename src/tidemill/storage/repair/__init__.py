"""Repair: examining every file of a folder, and a manifest that says what is left.

- ``examine``: reads manifests, log and runs, and lists all that is damaged.
- ``salvage``: the row groups of a damaged run whose bytes are what was written.
- ``write_repair``: commits what can be read, and moves damaged files to quarantine.
"""
