"""Copies of a warehouse: backups, clones and restored ones.

- ``copied_files``: one file at its new place: linked, copied by the object store, or copied
- ``copied_state``: all files of a commit, whole or as of an earlier epoch, and the manifest that names them
- ``backup_place``: a folder of backups that share their files
- ``new_folder``: a folder that gets its name when it is complete
"""
