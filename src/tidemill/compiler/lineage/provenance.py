"""Provenance: each row of a relation with the base rows that it comes from, one row for each derivation.

The result is a relation and is evaluated like any query. A row of a group is derived from all rows of the group, one of
a ranking or window from its own row; rows that a subquery in a condition reads are not included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    OuterJoin,
    Project,
    Repeat,
    Scan,
    TopK,
    UnionAll,
    Unnest,
    Values,
    Window,
)
from tidemill.compiler.analysis.rename import rename
from tidemill.compiler.rewrites.replace_set_operations import replace_set_operations
from tidemill.compiler.rewrites.row_identity import in_order
from tidemill.model.errors import Unsupported
from tidemill.model.types import Field


@dataclass(frozen=True, slots=True)
class BaseRowColumns:
    """The columns in which a derivation has a row of ``table``; all of them are NULL where it has none."""

    table: str
    columns: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class WithProvenance:
    """A relation whose own columns come first, and then the base rows it comes from."""

    relation: Relation
    base_rows: tuple[BaseRowColumns, ...]

    @property
    def added(self) -> tuple[Named, ...]:
        """The columns of the base rows, passed on."""
        return tuple(Named(f.name, column(f)) for base in self.base_rows for f in base.columns)


def provenance(relation: Relation, views: Mapping[str, Relation]) -> WithProvenance:
    """``relation`` with the base rows of each derivation; scans of ``views`` are replaced by their definitions."""
    return _Tracing(views).of(replace_set_operations(relation))


class _Tracing:
    """Carries base rows up through a tree, under names of their own."""

    def __init__(self, views: Mapping[str, Relation]) -> None:
        self._views = views
        self._numbers = count(1)
        self._rules: dict[type[Relation], Callable[..., WithProvenance]] = {
            Scan: self._scan,
            Values: lambda node: WithProvenance(node, ()),
            Filter: self._row_wise,
            Repeat: self._row_wise,
            Project: self._project,
            Unnest: self._unnest,
            Join: self._join,
            OuterJoin: self._join,
            UnionAll: self._union,
            Distinct: lambda node: self.of(node.input),
            Aggregate: self._aggregate,
            TopK: self._row_by_row,
            Window: self._row_by_row,
        }

    def of(self, node: Relation) -> WithProvenance:
        """A node with its derivations."""
        rule = self._rules.get(type(node))
        if rule is None:
            raise Unsupported(
                "the lineage of this view cannot be computed",
                detail=f"It has a {type(node).__name__.lower()}, whose rows come from rows of its own.",
                hint="Ask for the lineage of a view that it reads.",
            )
        return rule(node)

    def _scan(self, scan: Scan) -> WithProvenance:
        if scan.relation in self._views:
            below = self.of(replace_set_operations(self._views[scan.relation]))
            shown = {f.name: f for f in below.relation.fields}
            pairs = zip(scan.fields, scan.columns, strict=True)
            own = (Named(f.name, column(shown[declared.name])) for f, declared in pairs)
            return WithProvenance(Project(below.relation, (*own, *below.added)), below.base_rows)
        number = next(self._numbers)
        fields = tuple(replace(f, name=f"base {number}: {f.name}", nullable=True) for f in scan.columns)
        copies = (Named(to.name, column(f)) for to, f in zip(fields, scan.fields, strict=True))
        shown_columns = (Named(f.name, column(f)) for f in scan.fields)
        return WithProvenance(Project(scan, (*shown_columns, *copies)), (BaseRowColumns(scan.relation, fields),))

    def _row_wise(self, node: Filter | Repeat) -> WithProvenance:
        below = self.of(node.input)
        return replace(below, relation=replace(node, input=below.relation))

    def _project(self, node: Project) -> WithProvenance:
        below = self.of(node.input)
        return replace(below, relation=Project(below.relation, (*node.outputs, *below.added)))

    def _unnest(self, node: Unnest) -> WithProvenance:
        below = self.of(node.input)
        return replace(below, relation=in_order(replace(node, input=below.relation), node))

    def _join(self, node: Join | OuterJoin) -> WithProvenance:
        left, right = self.of(node.left), self.of(node.right)
        joined = replace(node, left=left.relation, right=right.relation)
        return WithProvenance(in_order(joined, node), (*left.base_rows, *right.base_rows))

    def _union(self, node: UnionAll) -> WithProvenance:
        """Each input with its own base rows, and NULLs for those of the others."""
        below = [self.of(part) for part in node.inputs]
        base_rows = tuple(base for part in below for base in part.base_rows)
        parts = []
        for source, part in zip(node.inputs, below, strict=True):
            own = {f.name: f for base in part.base_rows for f in base.columns}
            columns = [f for base in base_rows for f in base.columns]
            added = (Named(f.name, column(f) if f.name in own else Literal(None, f.type)) for f in columns)
            shown = (Named(f.name, column(f)) for f in source.fields)
            parts.append(Project(part.relation, (*shown, *added)))
        return WithProvenance(UnionAll(tuple(parts)), base_rows)

    def _aggregate(self, node: Aggregate) -> WithProvenance:
        """Each group with the rows that are in it."""
        return self._joined_with_input(node, self.of(node.input), [(key.field, key.scalar) for key in node.keys])

    def _row_by_row(self, node: TopK | Window) -> WithProvenance:
        """Each row with all input rows that equal it: which of the equal rows was chosen makes no difference."""
        below = self.of(node.input)
        return self._joined_with_input(node, below, [(f, column(f)) for f in node.input.fields])

    def _joined_with_input(
        self, node: Relation, below: WithProvenance, same: list[tuple[Field, Scalar]]
    ) -> WithProvenance:
        """The rows of ``node`` joined with those below it that have the same values."""
        number = next(self._numbers)
        values = [Named(f"same {number}: {i}", scalar) for i, (_, scalar) in enumerate(same)]
        rows = Project(below.relation, (*values, *below.added))
        pairs = zip((f for f, _ in same), values, strict=True)
        equal = [call("null_safe_eq", column(f), column(value.field)) for f, value in pairs]
        joined = Join(rename(node, [f.name for f in node.fields]), rows, conjunction(equal) if equal else None)
        shown = (Named(f.name, column(f)) for f in node.fields)
        return WithProvenance(Project(joined, (*shown, *below.added)), below.base_rows)
