"""Cutting a view into stages.

A stage is a sum of select-project-join blocks, followed by at most one aggregation or DISTINCT with the filters and
projections above it (HAVING and the select list). A grouped subquery inside a block is a stage of its own, read by name
like a table; the same subquery used twice is one stage. A sum of many blocks that is joined with others is a stage,
too, so that the number of blocks stays small. Stages are named ``view/1``, ``view/2`` ...; the last has the view's own
name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from tidemill.algebra.aggregates import Part, finish, parts
from tidemill.algebra.relations import Aggregate, Distinct, Filter, Join, Project, Relation, Scan
from tidemill.algebra.scalars import Column, Named, Scalar, column
from tidemill.algebra.walk import (
    children,
    columns_in,
    conjunction,
    expressions,
    subqueries,
    substitute,
    walk,
    walk_all,
    with_children,
)
from tidemill.compiler.blocks import blocks, count_blocks, used_columns
from tidemill.compiler.rewrites.apart import apart
from tidemill.compiler.rewrites.canonical import canonical
from tidemill.compiler.rewrites.rename import fresh, rename
from tidemill.compiler.rewrites.repeats import core, is_grouped, repeats
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, Field
from tidemill.program.maps import Map, Value
from tidemill.program.statements import Finish


@dataclass(frozen=True, slots=True)
class Draft:
    """A stage before a strategy makes its triggers.

    ``body`` is what the stage sums up: a tree without aggregates, whose columns are the keys of ``map`` and then its
    values, or the stage's output where there is no map.
    """

    name: str
    output: tuple[Field, ...]
    body: Relation
    map: Map | None = None
    finish: Finish | None = None

    @property
    def target(self) -> str:
        """The map that the body is summed into."""
        return self.name if self.map is None else self.map.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The relations that the body reads, each once."""
        return tuple(dict.fromkeys(leaf.relation for leaf in walk_all(self.body) if isinstance(leaf, Scan)))

    @property
    def nests(self) -> bool:
        """Whether an expression of the stage holds a subquery."""
        inside = [scalar for node in walk(self.body) for scalar in expressions(node)]
        return any(map(subqueries, inside)) or self.nests_above

    @property
    def nests_above(self) -> bool:
        """Whether a subquery stands in what is computed from the stage's sums: in HAVING, or beside aggregates."""
        if self.finish is None:
            return False
        above = [output.scalar for output in self.finish.outputs]
        above += [] if self.finish.condition is None else [self.finish.condition]
        return any(map(subqueries, above))

    @property
    def key(self) -> frozenset[str] | None:
        """Output columns of which no two rows have the same values: the map's keys, where all of them come out."""
        if self.map is None or self.finish is None:
            return None
        names = {o.scalar.name: o.name for o in self.finish.outputs if isinstance(o.scalar, Column)}
        keys = [f.name for f in self.map.keys]
        return frozenset(names[key] for key in keys) if all(key in names for key in keys) else None


def draft_stages(view: str, relation: Relation) -> list[Draft]:
    """The stages of ``view`` in the order in which changes pass through them.

    They are drafted from the last to the first, because a stage gives out only what later ones read: an aggregate that
    nobody asks for is not even summed.
    """
    drafts: list[Draft] = []
    needed: dict[str, set[str]] = {}
    for name, tree in reversed(_cut(view, relation)):
        draft = _draft(name, tree, needed.get(name))
        for read, columns in _reads(draft.body):
            needed.setdefault(read, set()).update(columns)
        drafts.append(draft)
    return drafts[::-1]


def _reads(body: Relation) -> Iterator[tuple[str, set[str]]]:
    """Each relation that a body reads, with the columns that it reads of it; a relation may come several times."""
    for block in blocks(body):
        used = set(used_columns(block))
        for leaf in block.leaves:
            yield leaf.relation, {f.name for f in leaf.columns if f"{leaf.alias}.{f.name}" in used}


# --------------------------------------------------------------------------------------------------------- cutting


def _cut(view: str, relation: Relation) -> list[tuple[str, Relation]]:
    """Name and tree of each stage; a tree reads earlier stages by scans."""
    cutter = _Cutter(view, relation)
    last = cutter.opened(relation)
    return [*cutter.stages, (view, last)]


MOST_BLOCKS = 8
"""A join whose sides are sums is the sum of the joins of all pairs; with more of them, a side becomes a stage."""


class _Cutter:
    """Takes grouped subqueries out of a tree, innermost first, and sums that would multiply too often."""

    def __init__(self, view: str, relation: Relation) -> None:
        self._view = view
        self._occurrences = repeats(relation)
        self._scans: dict[Relation, Scan] = {}
        self.stages: list[tuple[str, Relation]] = []

    def opened(self, node: Relation) -> Relation:
        """The tree of one stage: its own grouping stays, the grouped subqueries below it are cut out."""
        if isinstance(node, Aggregate | Distinct):
            return replace(node, input=self._closed(node.input))
        if isinstance(node, Filter | Project):
            return replace(node, input=self.opened(node.input))
        return self._closed(node)

    def _closed(self, node: Relation) -> Relation:
        if is_grouped(node) and self._is_whole(node):
            return rename(self._stage(node), [f.name for f in node.fields])
        below = [self._closed(child) for child in children(node)]
        if isinstance(node, Join):
            below = self._few(*below)
        return with_children(node, below)

    def _few(self, *sides: Relation) -> list[Relation]:
        """The sides of a join, cut out where their sums would multiply too often."""
        if prod(map(count_blocks, sides)) <= MOST_BLOCKS:
            return list(sides)
        sums = [count_blocks(side) > 1 for side in sides]
        return [
            rename(self._stage(s), [f.name for f in s.fields]) if cut else s for s, cut in zip(sides, sums, strict=True)
        ]

    def _is_whole(self, node: Relation) -> bool:
        """Whether all uses of the grouping at the core of ``node`` have these very filters and projections above it."""
        return self._occurrences[canonical(node)] == self._occurrences[canonical(core(node))]

    def _stage(self, node: Relation) -> Scan:
        """A scan of the stage that keeps ``node``, made when it is first met."""
        form = canonical(node)
        if form not in self._scans:
            names = _short(node.fields)
            tree = rename(self.opened(node), names)
            number = len(self.stages) + 1
            self.stages.append((f"{self._view}/{number}", tree))
            self._scans[form] = Scan(f"{self._view}/{number}", f"s{number}", tree.fields)
        return self._scans[form]


def _short(fields: Sequence[Field]) -> list[str]:
    """Column names for a stage's output: ``amount`` for ``o.amount`` where that is still clear."""
    names: list[str] = []
    for field in fields:
        qualifier, _, name = field.name.rpartition(".")
        names.append(fresh(name if qualifier.isidentifier() and name.isidentifier() else field.name, names))
    return names


# -------------------------------------------------------------------------------------------------------- drafting


def _draft(name: str, tree: Relation, needed: set[str] | None) -> Draft:
    """The stage of one tree, giving out the ``needed`` columns; None means all."""
    outputs, condition, node = peel(tree)
    if needed is not None:
        # A row must keep one column at least, if only to carry its weight through files and frames.
        outputs = tuple(o for o in outputs if o.name in needed) or outputs[:1]
    if not isinstance(node, Aggregate | Distinct):
        kept = [Named(f.name, column(f)) for f in tree.fields if f.name in {o.name for o in outputs}]
        body = tree if len(kept) == len(tree.fields) else Project(tree, tuple(kept))
        return Draft(name, body.fields, apart(body))
    if isinstance(node, Distinct):
        return _draft_distinct(name, node, outputs, condition)
    return _draft_aggregate(name, node, outputs, condition)


def _draft_distinct(name: str, node: Distinct, outputs: tuple[Named, ...], condition: Scalar | None) -> Draft:
    """DISTINCT is a map with no values: a row is out while its weight is positive."""
    map_ = Map(f"{name}/distinct", node.fields)
    return Draft(name, _fields(outputs), apart(node.input), map_, Finish(map_.name, outputs, condition))


def _draft_aggregate(name: str, node: Aggregate, outputs: tuple[Named, ...], condition: Scalar | None) -> Draft:
    """GROUP BY is a map of sums: each aggregate that is asked for comes from its parts, and equal parts are one sum."""
    asked = {n for o in outputs for n in columns_in(o.scalar)} | (columns_in(condition) if condition else set())
    keys = tuple(key.field for key in node.keys)
    sums: dict[Part, Value] = {}
    results: dict[str, Scalar] = {}
    weight = Column(WEIGHT, BIGINT, nullable=False)
    for call in node.aggregates:
        if call.name in asked:
            values = [sums.setdefault(part, Value(_sum_name(len(sums), keys), part.of)) for part in parts(call)]
            results[call.name] = finish(call, [Column(v.name, v.type, nullable=False) for v in values], weight)
    map_ = Map(f"{name}/groups", keys, tuple(sums.values()))
    body = Project(node.input, (*node.keys, *(Named(value.name, part.argument) for part, value in sums.items())))
    outputs = tuple(Named(o.name, substitute(o.scalar, results)) for o in outputs)
    condition = None if condition is None else substitute(condition, results)
    return Draft(name, _fields(outputs), apart(body), map_, Finish(map_.name, outputs, condition, always=not node.keys))


def _sum_name(number: int, keys: Sequence[Field]) -> str:
    """A name for the next ring value that no grouping column has, nor begins with (files add suffixes to it)."""
    return fresh(f"sum_{number}", {f.name.partition(".")[0] for f in keys})


def peel(relation: Relation) -> tuple[tuple[Named, ...], Scalar | None, Relation]:
    """The select list and the condition above a grouping, both over its columns, and the grouping itself."""
    match relation:
        case Filter(input=input_):
            outputs, condition, node = peel(input_)
            added = substitute(relation.condition, {o.name: o.scalar for o in outputs})
            return outputs, conjunction([*([] if condition is None else [condition]), added]), node
        case Project(input=input_):
            outputs, condition, node = peel(input_)
            values = {o.name: o.scalar for o in outputs}
            return tuple(Named(o.name, substitute(o.scalar, values)) for o in relation.outputs), condition, node
    return tuple(Named(f.name, column(f)) for f in relation.fields), None, relation


def _fields(outputs: tuple[Named, ...]) -> tuple[Field, ...]:
    return tuple(output.field for output in outputs)
