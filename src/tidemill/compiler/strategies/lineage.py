"""Lineage: every row of a join is kept with the keys of the rows that it comes from.

That map is ``OIDs_for_v`` of MOVIE; besides the keys it has the columns that the view shows. A deleted row, and an
updated one whose *condition attributes* (the columns in conditions) stay the same, is joined with the lineage: its join
partners are those of the old row, and their columns are stored there. So neither
deletions nor most modifications read a table. Only rows that arrive are joined with the other tables, as in ``delta``,
which MOVIE calls *planting the delta*.

For an updated row the contribution of the old row is subtracted and that of the new one added, to the rows of a join or
to the sums of an aggregate alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Named, Scalar
from tidemill.algebra.relational.relations import Change
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.compiler.analysis.blocks import Leaf, QueryBlock, RelationKeys, blocks
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.delta.nested_loops import narrow, nested_loops
from tidemill.compiler.delta.triggers import load_of
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies.strategy import (
    NotAccepted,
    Reason,
    StageContext,
    Strategy,
    reason_of_emission,
)
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.reads import sources_of
from tidemill.program.stages import GroupEmission, IterationEmission, Stage
from tidemill.program.statements import Add, ChangeSubset, Query, RelationLoop, Split, Step, Trigger, Version

LINEAGE = Reason("LINEAGE", "rows are stored with the keys they come from, so deletions and most updates read no table")


@dataclass(frozen=True, slots=True)
class JoinLineage:
    """The lineage of one join: a row of ``map`` for each row of ``block``, whose leaves have the keys ``keys``.

    ``held`` maps the stored columns of the leaves to those of ``map``.
    """

    target: str
    block: QueryBlock
    map: Map
    keys: RelationKeys
    held: Mapping[str, str]

    def load(self) -> Add:
        """Statements that load the lineage."""
        return Add(self.map.name, nested_loops(self._rows(), self.keys))

    def on_change(self, relation: str, *, shown: bool) -> Iterator[Add]:
        """Statements for a change of ``relation``: first to the rows ``shown``, then to the lineage."""
        targets = [*([(self.target, self.block)] if shown else []), (self.map.name, self._rows())]
        for leaf in self.block.leaves:
            if leaf.relation == relation:
                for target, block in targets:
                    yield Add(target, self._staying(leaf, block))
                    yield Add(target, self._arriving(leaf, block))

    def rows(self) -> GroupEmission:
        """The rows of the block, read from its lineage."""
        columns = {f.name: Column(f.name, f.type, f.nullable) for f in self.map.keys}
        values: dict[str, Scalar] = {name: columns[own] for name, own in self.held.items()}
        outputs = (Named(output.name, substitute(output.scalar, values)) for output in self.block.outputs)
        return GroupEmission(self.map.name, tuple(outputs))

    def _rows(self) -> QueryBlock:
        """The block that gives rows of the lineage."""
        fields = {f"{leaf.alias}.{f.name}": f for leaf in self.block.leaves for f in leaf.columns}
        outputs = (Named(own, Column(n, fields[n].type, fields[n].nullable)) for n, own in self.held.items())
        return replace(self.block, outputs=tuple(outputs))

    def _staying(self, leaf: Leaf, block: QueryBlock) -> Query:
        """The rows that stay, joined with the lineage of those that they replace."""
        alias = fresh("vx", [known.alias for known in block.leaves])
        changed = replace(self._changed(leaf), split=self._split(leaf, ChangeSubset.STAYING))
        lookup, filters = [], []
        for f in leaf.columns:
            name = f"{leaf.alias}.{f.name}"
            if f.name not in self.keys[leaf.relation]:
                continue
            if f.nullable:
                # An element of an array may be NULL, and NULL equals NULL here.
                filters.append(call("null_safe_eq", self._kept(alias, name), Column(name, f.type)))
            else:
                lookup.append((self.held[name], Column(name, f.type, nullable=False)))
        vx = RelationLoop(self.map.name, alias, Version.STATE, self.map.keys, tuple(lookup), tuple(filters))
        own = {f"{leaf.alias}.{f.name}" for f in leaf.columns}
        others = {name: self._kept(alias, name) for name in self.held if name not in own}
        outputs = tuple(Named(output.name, substitute(output.scalar, others)) for output in block.outputs)
        return narrow(Query((changed, vx), outputs))

    def _arriving(self, leaf: Leaf, block: QueryBlock) -> Query:
        """The rows that arrive, joined with the other relations."""
        planted = (_as_change(leaf) if known is leaf else known for known in block.leaves)
        query = nested_loops(replace(block, leaves=tuple(planted)), self.keys)

        def parted(step: Step) -> Step:
            if step.alias != leaf.alias or not isinstance(step, RelationLoop):
                return step
            return replace(step, columns=leaf.columns, split=self._split(leaf, ChangeSubset.ARRIVING))

        return narrow(replace(query, sources=tuple(map(parted, query.sources))))

    def _changed(self, leaf: Leaf) -> RelationLoop:
        return RelationLoop(leaf.relation, leaf.alias, Version.CHANGE, leaf.columns)

    def _split(self, leaf: Leaf, part: ChangeSubset) -> Split:
        """The change of a leaf split by its key; a row stays if its columns in conditions stay the same."""
        tried = {name for condition in self.block.conditions for name in columns_in(condition.scalar)}
        key = self.keys[leaf.relation]
        own = [f.name for f in leaf.columns]
        fixed = tuple(name for name in own if f"{leaf.alias}.{name}" in tried and name not in key)
        return Split(part, tuple(name for name in own if name in key), fixed)

    def _kept(self, alias: str, name: str) -> Scalar:
        """A column of a leaf, as the lineage has it."""
        own = next(f for f in self.map.keys if f.name == self.held[name])
        return Column(f"{alias}.{own.name}", own.type, own.nullable)


def lineage(draft: StageDraft, context: StageContext) -> Stage:
    """The stage that stores the lineage of each of its joins; blocks without a join need only the change."""
    keys, streams = context.keys, context.streams
    if isinstance(draft.emission, IterationEmission) or draft.own_maps:
        raise NotAccepted("it is recursive")
    found = [(target, block) for target, body in draft.sums for block in blocks(body)]
    if not streams.isdisjoint(draft.inputs):
        raise NotAccepted("a stream keeps no rows to join with")
    joins = [_derivations(draft.name, n, target, block, keys) for n, (target, block) in enumerate(_joining(found), 1)]
    alone = [(target, block) for target, block in found if len(block.leaves) == 1]
    # With one join and nothing above it, each row of the lineage is a row of the view.
    traced = draft.map is None and len(found) == len(joins) == 1
    triggers = [
        Trigger(
            name,
            (
                *_change_alone(alone, name, keys),
                *(add for join in joins for add in join.on_change(name, shown=not traced)),
            ),
        )
        for name in draft.inputs
    ]
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=draft.inputs,
        maps=(*draft.maps, *(join.map for join in joins)),
        load=(*(() if traced else load_of(draft, keys, streams)), *(join.load() for join in joins)),
        triggers=tuple(triggers),
        finish=joins[0].rows() if traced else draft.emission,
        strategy="lineage",
    )


def _joining(found: list[tuple[str, QueryBlock]]) -> Iterator[tuple[str, QueryBlock]]:
    return ((target, block) for target, block in found if len(block.leaves) > 1)


def _change_alone(alone: list[tuple[str, QueryBlock]], name: str, keys: RelationKeys) -> Iterator[Add]:
    """Statements that read the change alone."""
    for target, block in alone:
        (leaf,) = block.leaves
        if leaf.relation == name:
            yield Add(target, nested_loops(replace(block, leaves=(_as_change(leaf),)), keys))


def _derivations(stage: str, number: int, target: str, block: QueryBlock, keys: RelationKeys) -> JoinLineage:
    """The lineage of a join: the keys of all that it joins, and what its outputs read."""
    _check(block, keys)
    shown = {name for output in block.outputs for name in columns_in(output.scalar)}
    held: dict[str, str] = {}
    fields: list[Field] = []
    for leaf in block.leaves:
        for f in leaf.columns:
            name = f"{leaf.alias}.{f.name}"
            if f.name in keys[leaf.relation] or name in shown:
                held[name] = fresh(f"{leaf.alias}_{f.name}", held.values())
                fields.append(replace(f, name=held[name]))
    called = f"{stage}:lineage" if number == 1 else f"{stage}:lineage_{number}"
    return JoinLineage(target, block, Map(called, tuple(fields)), keys, held)


def _check(block: QueryBlock, keys: RelationKeys) -> None:
    """Refuse a join whose rows the keys of its relations do not identify."""
    if block.arrays:
        raise NotAccepted("it unnests an array beside a join")
    seen: set[str] = set()
    for leaf in block.leaves:
        if leaf.relation not in keys or not keys[leaf.relation] <= {f.name for f in leaf.columns}:
            raise NotAccepted(f'rows of "{leaf.relation}" have no key')
        if leaf.relation in seen:
            raise NotAccepted(f'"{leaf.relation}" occurs twice in one join')
        seen.add(leaf.relation)


def _as_change(leaf: Leaf) -> Change:
    return Change(leaf.relation, leaf.alias, leaf.columns)


def _reason(stage: Stage) -> Reason:
    return LINEAGE if any(source.split is not None for source in sources_of(stage)) else reason_of_emission(stage)


STRATEGY = Strategy("lineage", lineage, missing="no lineage", reason=_reason, identifies_rows=True, lists_events=True)
