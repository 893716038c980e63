"""Data in: what users hand over, files, and the change records of other databases. One outside system a module."""
