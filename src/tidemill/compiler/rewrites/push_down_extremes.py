"""MIN and MAX over a join, from the least and greatest values of its single relations.

``SELECT r.house, MIN(m.value) FROM rooms r, sensors s, readings m WHERE ... GROUP BY r.house`` needs of the readings of
a sensor the least alone, of the sensors of a room the least of these, and so on::

    SELECT r.house, MIN(x.least) FROM rooms r JOIN (
        SELECT s.room, MIN(y.least) AS least FROM sensors s JOIN (
            SELECT sensor, MIN(value) AS least FROM readings GROUP BY sensor) y ON s.id = y.sensor GROUP BY s.room
    ) x ON r.id = x.room GROUP BY r.house

So values are kept once for each row of a relation, where the rows of the join would have them again and again, and a
value that is not the least of its group goes no further. How often a row occurs is lost on the way, so all aggregates
must be MIN or MAX: these do not ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.scalars import Call, Cast, Column, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Join
from tidemill.algebra.relational.walk import columns_in, substitute, transform
from tidemill.compiler.analysis.blocks import Leaf, QueryBlock, indexable
from tidemill.compiler.analysis.failures import is_exact, may_fail
from tidemill.compiler.analysis.filters import filtered
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.rewrites.plain_joins import key_of, plain_join, reads_streams
from tidemill.model.schema import Table
from tidemill.model.types import Floating

EXTREMES = ("min", "max")


def push_down_extremes(relation: Relation, tables: Mapping[str, Table]) -> Relation:
    """``relation`` with MIN and MAX over joins computed relation by relation.

    Rows of streams may leave before they have come, so that a relation has rows of negative weight for a while: there
    the least of a part says nothing about the whole.
    """
    if reads_streams(relation, tables):
        return relation
    return transform(relation, lambda node: _changed(node, tables))


def _changed(node: Relation, tables: Mapping[str, Table]) -> Relation:
    if not isinstance(node, Aggregate) or not node.aggregates or not all(map(_is_extreme, node.aggregates)):
        return node
    block = plain_join(node.input)
    if block is None or any(may_fail(scalar) for scalar in _scalars(node, block)):
        return node
    join = _JoinOfUnits(node, block, tables)
    join.prune_all()
    while join.contract():
        pass
    return join.aggregate if join.is_changed else node


def _is_extreme(call: AggregateCall) -> bool:
    return call.function in EXTREMES


def _scalars(node: Aggregate, block: QueryBlock) -> Iterator[Scalar]:
    """The expressions that are computed for other rows than before."""
    yield from (condition.scalar for condition in block.conditions)
    yield from (output.scalar for output in block.outputs)
    yield from (scalar for call in node.aggregates for scalar in call.scalars)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A relation of the join; no two of its rows are equal in the columns ``unique``, if these are known."""

    relation: Relation
    unique: frozenset[str] | None

    @property
    def names(self) -> frozenset[str]:
        return frozenset(f.name for f in self.relation.fields)


class _JoinOfUnits:
    """A join under an aggregation, whose relations are replaced by groupings of themselves, one after the other."""

    def __init__(self, node: Aggregate, block: QueryBlock, tables: Mapping[str, Table]) -> None:
        values = {output.name: output.scalar for output in block.outputs}
        self._node = node
        self._keys = [Named(key.name, substitute(key.scalar, values)) for key in node.keys]
        self._calls = [call.over(substitute(scalar, values) for scalar in call.scalars) for call in node.aggregates]
        self._conditions = [condition.scalar for condition in block.conditions]
        self._units = [self._unit(leaf, tables) for leaf in block.leaves]
        self._taken = {name for unit in self._units for name in unit.names} | {f.name for f in node.fields}
        self.is_changed = False

    @property
    def aggregate(self) -> Aggregate:
        """The aggregation over the join as it is now."""
        joined = reduce(Join, (unit.relation for unit in self._units))
        return replace(
            self._node,
            input=filtered(joined, *self._conditions),
            keys=tuple(self._keys),
            aggregates=tuple(self._calls),
        )

    def prune_all(self) -> None:
        """Group each relation that holds the argument of an aggregate by the columns that others need."""
        for unit in list(self._units):
            pruned = self._pruned(unit)
            if pruned is not None:
                self._replace([unit], pruned)

    def contract(self) -> bool:
        """Join a relation that holds an argument with the only one that it meets, and group these; False if none can.

        It must have one row for each row of the other, so that the two together have no more rows than that one. The
        last two are joined by the aggregation itself.
        """
        if len(self._units) < 3:
            return False
        for unit in self._units:
            other = self._only_neighbour(unit)
            if other is None or not self._local_calls(unit):
                continue
            both = [c for c in self._conditions if columns_in(c) <= unit.names | other.names]
            merged = _Unit(filtered(Join(other.relation, unit.relation), *both), other.unique)
            self._conditions = [c for c in self._conditions if c not in both]
            pruned = self._pruned(merged)
            if pruned is not None:
                self._replace([unit, other], pruned)
                return True
            self._conditions += both
        return False

    def _unit(self, leaf: Leaf, tables: Mapping[str, Table]) -> _Unit:
        """A leaf under the conditions that it alone decides."""
        names = {f.name for f in leaf.fields}
        own = [c for c in self._conditions if columns_in(c) and columns_in(c) <= names]
        self._conditions = [c for c in self._conditions if c not in own]
        return _Unit(filtered(leaf, *own), key_of(leaf, tables))

    def _pruned(self, unit: _Unit) -> _Unit | None:
        """The unit grouped by the columns that are needed elsewhere; None if it has no argument, or gains nothing."""
        local = self._local_calls(unit)
        elsewhere: list[Scalar] = [*(key.scalar for key in self._keys), *self._conditions]
        elsewhere += [scalar for call in self._calls if call not in local for scalar in call.scalars]
        read = _read(elsewhere)
        calls = [call for call in local if not _read(call.scalars) <= read]
        columns = [column(f) for f in unit.relation.fields if f.name in read]
        is_one_row = unit.unique is not None and unit.unique <= {c.name for c in columns}
        # Without columns it would have a row even if it is empty. Grouping makes the two zeros of DOUBLE one.
        groups = columns and all(indexable(c) and not isinstance(c.type, Floating) for c in columns)
        if not calls or is_one_row or not groups:
            return None
        extremes = {call: replace(call, name=self._fresh(call.name)) for call in calls}
        keys = tuple(Named(c.name, c) for c in columns)
        grouped = Aggregate(unit.relation, keys, tuple(extremes.values()))
        found = {f.name: column(f) for f in grouped.fields}
        self._calls = [
            replace(call, argument=found[extremes[call].name], filter=None) if call in extremes else call
            for call in self._calls
        ]
        return _Unit(grouped, frozenset(key.name for key in keys))

    def _fresh(self, name: str) -> str:
        self._taken.add(found := fresh(name, self._taken))
        return found

    def _local_calls(self, unit: _Unit) -> list[AggregateCall]:
        """The aggregates whose arguments and filters are in ``unit``."""
        names = unit.names
        return [call for call in self._calls if (read := _read(call.scalars)) and read <= names]

    def _only_neighbour(self, unit: _Unit) -> _Unit | None:
        """The one other unit that conditions connect with ``unit``, if its columns determine a row of ``unit``."""
        touching = [c for c in self._conditions if not columns_in(c).isdisjoint(unit.names)]
        met = [one for one in self._units if one is not unit and not one.names.isdisjoint(_read(touching))]
        equal = {name for c in touching for name in _equal_columns(c) if name in unit.names}
        if len(met) != 1 or unit.unique is None or not unit.unique <= equal:
            return None
        return met[0]

    def _replace(self, old: Sequence[_Unit], new: _Unit) -> None:
        place = min(self._units.index(unit) for unit in old)
        self._units = [unit for unit in self._units if unit not in old]
        self._units.insert(place, new)
        self.is_changed = True


def _read(scalars: Iterable[Scalar]) -> Set[str]:
    return {name for scalar in scalars for name in columns_in(scalar)}


def _equal_columns(condition: Scalar) -> Iterator[str]:
    """The plain columns that an equality compares."""
    match condition:
        case Call(function="eq", arguments=sides):
            for side in sides:
                found = side.input if isinstance(side, Cast) and is_exact(side) else side
                if isinstance(found, Column):
                    yield found.name
