"""Names apart: every scan gets an alias that no other scan has."""

from __future__ import annotations

from tidemill.algebra.relations import Relation, Scan
from tidemill.algebra.walk import transform
from tidemill.compiler.rewrites.rename import fresh, rename


def apart(relation: Relation) -> Relation:
    """``relation`` with an alias of its own for each scan; its columns keep their names.

    A subquery that is used twice brings the same aliases twice, and once its projections are merged away the columns of
    the two uses would be one. A projection above the renamed scan gives back the old names, so nothing above notices.

    >>> from tidemill.algebra.relations import Join
    >>> pairs = apart(Join(Scan("t", "a", ()), Scan("t", "a", ())))
    >>> pairs.left.alias, pairs.right.alias
    ('a', 'a_2')
    """
    taken: set[str] = set()

    def set_apart(node: Relation) -> Relation:
        if not isinstance(node, Scan):
            return node
        alias = fresh(node.alias, taken)
        taken.add(alias)
        return rename(Scan(node.relation, alias, node.columns), [f.name for f in node.fields])

    return transform(relation, set_apart)
