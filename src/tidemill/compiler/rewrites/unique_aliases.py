"""Unique aliases for all scans and unnested arrays."""

from __future__ import annotations

from dataclasses import replace

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan, Unnest
from tidemill.algebra.relational.walk import transform
from tidemill.compiler.analysis.rename import fresh, rename


def unique_aliases(relation: Relation) -> Relation:
    """``relation`` with an alias of its own for each scan and each unnested array; its columns keep their names.

    A subquery that is used twice has the same aliases twice, and once its projections are merged the columns of the two
    uses would be the same. A projection above the renamed node restores the old names.

    >>> from tidemill.algebra.relational.relations import Join
    >>> pairs = unique_aliases(Join(Scan("t", "a", ()), Scan("t", "a", ())))
    >>> pairs.left.alias, pairs.right.alias
    ('a', 'a_2')
    """
    taken: set[str] = set()

    def set_apart(node: Relation) -> Relation:
        if not isinstance(node, Scan | Unnest):
            return node
        alias = fresh(node.alias if isinstance(node, Scan) else "each", taken)
        taken.add(alias)
        return rename(_under(alias, node), [f.name for f in node.fields])

    return transform(relation, set_apart)


def _under(alias: str, node: Scan | Unnest) -> Relation:
    if isinstance(node, Scan):
        return Scan(node.relation, alias, node.columns)
    words = ("position", "element")[-len(node.columns) :]
    columns = zip(node.columns, words, strict=True)
    return replace(node, columns=tuple(replace(f, name=f"{alias}.{word}") for f, word in columns))
