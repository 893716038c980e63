"""Row pattern matching over ordered partitions, as code: a step of a deterministic automaton for each row.

- ``emit_match``: from the changed entries of a partition to the rows that come and leave.
- ``search_code``: the step, and the search that is kept beside the rows of a partition.
- ``run_values``: what is kept of the rows of a run for its measures.
"""
