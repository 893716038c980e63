"""Objects of ODL classes, stored in tables: created, changed and deleted in epochs, with references and keys enforced.

- ``database``: ``Objects``, the public class
- ``draft``: the uncommitted changes of an epoch of objects; ``draft_commit``: its checks, and the rows it changes
- ``class_changes``: classes declared anew: the tables that are altered, and what does not fit them
- ``view_instances``: rows of views with identities, and their events
- ``events``: the events of a committed epoch of objects
- ``stored_objects``: objects as of the last epoch, by identity, key and reference
- ``bulk_load``: many new objects at once; ``object_columns``: their columns
- ``nested_records``: nested records as new objects; ``record_input``: files, frames and dicts as records
- ``attribute_values``: values of attributes, converted and normalized
"""
