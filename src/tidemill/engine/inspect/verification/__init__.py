"""Views compared with what they must be.

- ``verify``: with their recomputation by Spark or the evaluator; ``differences``: two multisets compared
- ``audit``: a view over sources with the answers of these
- ``lineage``: the base rows of a row
"""
