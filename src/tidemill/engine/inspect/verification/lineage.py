"""Lineage of a row of a view: the base rows of its derivations, for audits."""

from __future__ import annotations

from typing import Any

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Literal, column
from tidemill.algebra.relational.relations import Filter, Project
from tidemill.compiler.lineage.provenance import provenance
from tidemill.engine.engine import Engine
from tidemill.engine.results import present_rows
from tidemill.model.coerce import coerce_row
from tidemill.model.errors import DataError

Lineage = dict[str, list[tuple[Any, ...]]]
"""For each table the rows that a row derives from, each once."""


def lineage_of(engine: Engine, name: str, row: Any) -> Lineage:
    """The base rows that a row of a view derives from; rows of views that it reads are resolved recursively."""
    view = engine.catalog.view(name)
    wanted = coerce_row(row, view.fields, view.name)
    derived = provenance(view.relation, {other.name: other.relation for other in engine.catalog.views.values()})
    pairs = zip(derived.relation.fields, wanted, strict=False)
    condition = conjunction([call("null_safe_eq", column(f), Literal(value, f.type)) for f, value in pairs])
    assert condition is not None, "a view has columns"
    found = list(engine.answer(Project(Filter(derived.relation, condition), derived.added)).zset())
    if not found:
        raise DataError(
            f'view "{view.name}" has no row {tuple(row.values()) if isinstance(row, dict) else tuple(row)}',
            hint="Give a row as rows() returns it.",
        )
    lineage: Lineage = {}
    first = 0
    for base in derived.base_rows:
        last = first + len(base.columns)
        fields = engine.catalog.table(base.table).fields
        rows = dict.fromkeys(row[first:last] for row in found if any(value is not None for value in row[first:last]))
        known = lineage.setdefault(base.table, [])
        known += [shown for shown in present_rows(rows, fields) if shown not in known]
        first = last
    return lineage
