"""Lineage, as MOVIE defines it: where rows come from, and which events are handled without base data.

- ``provenance``: each row of a relation with the base rows that it comes from
- ``self_maintenance``: the events of a view, the plan for each, and the base relations that it reads
"""
