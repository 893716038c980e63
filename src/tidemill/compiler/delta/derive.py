"""The change of each relation when one of the relations it reads changes: one rule for each node.

``derive(view, "orders")`` is again algebra, over the relations as they are *before* the change and over ``Change``
leaves. The rules are linear, or the product rule for joins, so they are exact for changes of any size: inserts, deletes
and updates in bulk. Aggregates and DISTINCT are not linear; they never stand inside a stage's body (see ``stages``).

==============  ==========================================
node            its change
==============  ==========================================
scan of R       the change of R
filter, project the same filter or project of the change
unnest          the elements of the change's arrays
union all       the sum of the inputs' changes
join            dL * R + L * dR + dL * dR
==============  ==========================================
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Change, Filter, Join, Project, Scan, UnionAll, Unnest, Values
from tidemill.compiler.analysis.rename import rename


def derive(relation: Relation, changed: str) -> Relation | None:
    """The change of ``relation`` when ``changed`` changes; None if it does not read ``changed``.

    >>> derive(Scan("orders", "o", ()), "orders")
    Change(relation='orders', alias='o', columns=())
    >>> derive(Scan("orders", "o", ()), "customers") is None
    True
    """
    match relation:
        case Scan():
            return derive_scan(relation, changed)
        case Filter() | Project() | Unnest():
            return derive_row_wise(relation, changed)
        case Join():
            return derive_join(relation, changed)
        case UnionAll():
            return derive_union_all(relation, changed)
        case Values():
            return None
    raise TypeError(f"{type(relation).__name__} has no linear change; it begins a stage of its own")


def derive_scan(scan: Scan, changed: str) -> Relation | None:
    """A scan changes by what its relation changes by."""
    return Change(scan.relation, scan.alias, scan.columns) if scan.relation == changed else None


def derive_row_wise(relation: Filter | Project | Unnest, changed: str) -> Relation | None:
    """Filters, projections and arrays work row by row: the same node over the change of the input."""
    change = derive(relation.input, changed)
    return None if change is None else replace(relation, input=change)


def derive_union_all(union: UnionAll, changed: str) -> Relation | None:
    """A sum changes by the sum of the changes; the output keeps the names of the first input."""
    names = [f.name for f in union.fields]
    changes = [derive(part, changed) for part in union.inputs]
    return _sum([rename(change, names) for change in changes if change is not None])


def derive_join(join: Join, changed: str) -> Relation | None:
    """The product rule. Its third term is empty unless both sides read ``changed``, as in a self join."""
    left, right = derive(join.left, changed), derive(join.right, changed)
    terms: list[Relation] = []
    if left is not None:
        terms.append(replace(join, left=left))
    if right is not None:
        terms.append(replace(join, right=right))
    if left is not None and right is not None:
        terms.append(replace(join, left=left, right=right))
    return _sum(terms)


def _sum(terms: list[Relation]) -> Relation | None:
    if len(terms) > 1:
        return UnionAll(tuple(terms))
    return terms[0] if terms else None
