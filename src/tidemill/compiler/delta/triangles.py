"""Triangles: COUNT and SUM over a cycle of three relations, with O(sqrt N) work for a change, amortized (IVM-epsilon).

Of the relations R(a, b), S(b, c) and T(c, a), each is partitioned by its first variable into rows of heavy and of light
values (``degree_partition``). A changed row of R needs the sum over c of S(b, c) times T(c, a), which is made of three:

- S light: b has few rows in S, and each is looked up in T;
- S and T heavy: of T there are few heavy values of c, and each is looked up in S;
- S heavy, T light: the *paths* over c, which a map keeps by b and a.

The map of paths follows a change of S by the few rows of a light c, and one of T by the few heavy values of b. All
three relations have the same form, so what is said of R here is done for each in turn. A relation that is read twice is
partitioned for each alias by a stage of its own: the stage of the join then sees three relations, which change one
after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.blocks import AliasPair, QueryBlock, meetings
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.analysis.ring import plus, ring_type, times
from tidemill.compiler.delta.degree_partition import DegreePartition, threshold_stage
from tidemill.compiler.delta.nested_loops import narrow
from tidemill.compiler.delta.sum_pushdown import Terms, TermsOf, null_as_zero, sum_terms
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, Field
from tidemill.program.maps import Map, RingField
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, Query, RelationLoop, Trigger, Version

Amounts = tuple[int, ...]
"""One number of each of some relations: 0 is the count of its rows, and i its i-th factor."""


@dataclass(frozen=True, slots=True)
class Corner:
    """One relation of a triangle: its partition, the columns of its two variables, and the factors that are summed."""

    partition: DegreePartition
    first: tuple[Field, ...]
    second: tuple[Field, ...]
    factors: tuple[Scalar, ...]

    @property
    def alias(self) -> str:
        """The alias of the relation in the query."""
        return self.partition.scan.alias

    @property
    def sums(self) -> tuple[RingField, ...]:
        """The values of its maps: its factors, summed for each pair of values."""
        # Files add suffixes to the names of values.
        taken = {f.name.partition(".")[0] for f in (*self.first, *self.second)}
        return tuple(RingField(fresh(f"sum_{i}", taken), ring_type(f.type)) for i, f in enumerate(self.factors))

    def amounts(self, *, changed: bool) -> tuple[Scalar, ...]:
        """Its count and its factors: of one changed row, or as its maps have them."""
        weight = Column(f"{self.alias}.{WEIGHT}", BIGINT, nullable=False)
        if changed:
            return weight, *(times(null_as_zero(factor), weight) for factor in self.factors)
        return weight, *(Column(f"{self.alias}.{sum_.name}", sum_.type, nullable=False) for sum_ in self.sums)

    def columns(self, fields: Sequence[Field]) -> tuple[Scalar, ...]:
        """Some of its columns as expressions."""
        return tuple(Column(f"{self.alias}.{f.name}", f.type, f.nullable) for f in fields)


@dataclass(frozen=True, slots=True)
class Triangle:
    """A join of three relations in a cycle, and the values of its target as terms over their factors."""

    name: str
    target: Map
    corners: tuple[Corner, Corner, Corner]
    values: tuple[tuple[tuple[int, Amounts], ...], ...]

    def triggers(self) -> tuple[Trigger, ...]:
        """For each relation: the target, the two maps of paths that it is a part of, and then its own rows."""
        found = []
        for i, corner in enumerate(self.corners):
            change = self._changed(i)
            statements = (*self._sums(i, change), *self._paths(i, change), *self._growth(i, change))
            found.append(Trigger(corner.partition.name, statements))
        return tuple(found)

    def load(self) -> tuple[Add, ...]:
        """All rows, then all paths over them, then the target by what changes would add: each by O(sqrt N) lookups."""
        rows = [replace(self._changed(i), version=Version.STATE) for i in range(3)]
        return (
            *(add for i in range(3) for add in self._growth(i, rows[i])),
            *(self._paths(i, rows[i])[1] for i in range(3)),
            *self._sums(0, rows[0]),
        )

    def maps(self) -> tuple[Map, ...]:
        """Of each relation the light rows, the heavy ones, and the paths over the other two."""
        rows = [self._rows(i, heavy=heavy) for i in range(3) for heavy in (False, True)]
        return (*rows, *map(self._path_map, range(3)))

    # ------------------------------------------------------------------------------------------------------------ maps

    def _rows(self, i: int, *, heavy: bool) -> Map:
        corner = self.corners[i % 3]
        part = "heavy" if heavy else "light"
        # Heavy rows are looked up by their second variable, light ones by the first.
        keys = (*corner.second, *corner.first) if heavy else (*corner.first, *corner.second)
        return Map(f"{self.name}/{part}_{corner.alias}", keys, corner.sums)

    def _path_map(self, i: int) -> Map:
        """Paths that a change of relation ``i`` looks up: over heavy rows of the next and light ones of the last."""
        after, last = self.corners[(i + 1) % 3], self.corners[(i + 2) % 3]
        ends = (*after.first, *last.second)
        keys = tuple(Field(f"end_{n}", f.type, f.nullable) for n, f in enumerate(ends))
        pairs = self._pairs(i)
        products = [_product(after.amounts(changed=False)[a], last.amounts(changed=False)[b]) for a, b in pairs]
        values = tuple(RingField(f"sum_{n}", amount.type) for n, amount in enumerate(products))
        return Map(f"{self.name}/paths_{self.corners[i % 3].alias}", keys, values)

    def _pairs(self, i: int) -> list[Amounts]:
        """The pairs of amounts, of the next relation and of the last, whose products some value sums over paths."""
        read = {(term[(i + 1) % 3], term[(i + 2) % 3]) for terms in self.values for _, term in terms}
        return sorted(read - {(0, 0)})

    # ------------------------------------------------------------------------------------------------------ statements

    def _changed(self, i: int) -> RelationLoop:
        partition = self.corners[i].partition
        return RelationLoop(partition.name, partition.scan.alias, Version.CHANGE, (*partition.columns, partition.flag))

    def _growth(self, i: int, change: RelationLoop) -> Iterator[Add]:
        corner = self.corners[i]
        for heavy in (False, True):
            held = self._rows(i, heavy=heavy)
            keys = zip(held.keys, corner.columns(held.keys), strict=True)
            weight, *sums = corner.amounts(changed=True)
            outputs = (*(Named(f.name, key) for f, key in keys), *_named(held, sums))
            yield Add(held.name, narrow(Query((self._part(change, heavy=heavy),), outputs, weight=weight)))

    def _part(self, change: RelationLoop, *, heavy: bool) -> RelationLoop:
        """The rows of a change that belong to one part."""
        flag = change.columns[-1]
        is_heavy = Column(f"{change.alias}.{flag.name}", flag.type, nullable=False)
        return replace(change, filters=(is_heavy if heavy else _not(is_heavy),))

    def _sums(self, i: int, change: RelationLoop) -> Iterator[Add]:
        """A row of relation ``i`` with what it meets of the next one and of the last."""
        own, after, last = (self.corners[(i + n) % 3] for n in range(3))
        by_next = own.columns(own.second)
        by_last = own.columns(own.first)
        light = self._loop(i + 1, heavy=False, first=by_next)
        for heavy in (False, True):
            closing = self._loop(i + 2, heavy=heavy, first=after.columns(after.second), second=by_last)
            yield self._add((change, light, closing), i)
        few = self._loop(i + 2, heavy=True, second=by_last)
        yield self._add((change, few, self._loop(i + 1, heavy=True, first=by_next, second=last.columns(last.first))), i)
        yield self._add_paths(change, i)

    def _loop(
        self, i: int, *, heavy: bool, first: tuple[Scalar, ...] = (), second: tuple[Scalar, ...] = ()
    ) -> RelationLoop:
        """The rows of one part of a relation, by one of its variables or by both."""
        held, corner = self._rows(i, heavy=heavy), self.corners[i % 3]
        sought = dict(zip((f.name for f in corner.first), first, strict=False))
        sought |= dict(zip((f.name for f in corner.second), second, strict=False))
        lookup = tuple((f.name, sought[f.name]) for f in held.keys if f.name in sought)
        return RelationLoop(held.name, corner.alias, Version.STATE, held.keys, lookup, values=held.values)

    def _add(self, loops: tuple[RelationLoop, ...], changed: int) -> Add:
        amounts = [corner.amounts(changed=i == changed) for i, corner in enumerate(self.corners)]
        weight = _product(*(amount[0] for amount in amounts))
        return self._to_target(
            loops, weight, lambda term: _product(*(amounts[i][factor] for i, factor in enumerate(term)))
        )

    def _add_paths(self, change: RelationLoop, i: int) -> Add:
        held, pairs, own = self._path_map(i), self._pairs(i), self.corners[i]
        ends = (*own.columns(own.second), *own.columns(own.first))
        lookup = tuple((f.name, end) for f, end in zip(held.keys, ends, strict=True))
        alias = fresh("paths", {own.alias})
        paths = RelationLoop(held.name, alias, Version.STATE, held.keys, lookup, values=held.values)
        count = Column(f"{alias}.{WEIGHT}", BIGINT, nullable=False)
        sums = [Column(f"{alias}.{value.name}", value.type, nullable=False) for value in held.values]
        by_pair: dict[Amounts, Scalar] = {(0, 0): count, **dict(zip(pairs, sums, strict=True))}
        amounts = own.amounts(changed=True)
        return self._to_target(
            (change, paths),
            times(amounts[0], count),
            lambda term: times(amounts[term[i]], by_pair[term[(i + 1) % 3], term[(i + 2) % 3]]),
        )

    def _to_target(self, loops: tuple[RelationLoop, ...], weight: Scalar, amount: Callable[[Amounts], Scalar]) -> Add:
        sums = [
            reduce(plus, [times(Literal(coefficient, BIGINT), amount(term)) for coefficient, term in terms])
            for terms in self.values
        ]
        return Add(self.target.name, narrow(Query(loops, _named(self.target, sums), weight=weight)))

    def _paths(self, i: int, change: RelationLoop) -> tuple[Add, Add]:
        """Paths with a row of relation ``i``: a light one after heavy ones, or a heavy one before light ones."""
        own, after, last = (self.corners[(i + n) % 3] for n in range(3))
        heavy_before = self._loop(i + 2, heavy=True, second=own.columns(own.first))
        light_after = self._loop(i + 1, heavy=False, first=own.columns(own.second))
        return (
            self._add_path(i + 1, self._part(change, heavy=False), heavy_before, (last, own), changed=own),
            self._add_path(i + 2, self._part(change, heavy=True), light_after, (own, after), changed=own),
        )

    def _add_path(
        self, missing: int, change: RelationLoop, met: RelationLoop, path: tuple[Corner, Corner], *, changed: Corner
    ) -> Add:
        held = self._path_map(missing % 3)
        one, other = path
        left, right = one.amounts(changed=one is changed), other.amounts(changed=other is changed)
        ends = (*one.columns(one.first), *other.columns(other.second))
        keys = (Named(f.name, end) for f, end in zip(held.keys, ends, strict=True))
        sums = [_product(left[a], right[b]) for a, b in self._pairs(missing % 3)]
        outputs = (*keys, *_named(held, sums))
        return Add(held.name, narrow(Query((change, met), outputs, weight=times(left[0], right[0]))))


# ---------------------------------------------------------------------------------------------------- from a block


def triangle_of(stage: str, block: QueryBlock, target: Map | None, terms_of: TermsOf) -> Triangle | None:
    """The triangle that ``block`` sums into ``target``; None if it is none, or if rows come out by groups.

    Every condition is on one relation, or makes columns of two equal; every value is an exact sum of products.
    """
    if target is None or target.keys or len(block.leaves) != 3 or block.arrays:
        return None
    shared = _shared_columns(block)
    values = [sum_terms(output.scalar, block, terms_of) for output in block.outputs]
    terms = [found for found in values if found is not None]
    if shared is None or len(terms) < len(values):
        return None
    corners = [_corner(stage, block, i, shared, terms) for i in range(3)]
    if None in corners:
        return None
    one, other, third = (corner for corner in corners if corner is not None)
    numbered = tuple(_numbered(found, (one, other, third)) for found in terms)
    return Triangle(stage, target, (one, other, third), numbered)


def partition_stages(triangle: Triangle) -> tuple[Stage, ...]:
    """The stages that partition the relations of a triangle, after the one that gives them their threshold."""
    partitions = [corner.partition for corner in triangle.corners]
    relations = dict.fromkeys(partition.scan.relation for partition in partitions)
    return (threshold_stage(partitions[0].threshold, list(relations)), *(p.stage() for p in partitions))


def _shared_columns(block: QueryBlock) -> dict[AliasPair, list[AliasPair]] | None:
    """For each two leaves the pairs of columns that are equal; None if two have none, or for another condition."""
    aliases = [leaf.alias for leaf in block.leaves]
    shared: dict[AliasPair, list[AliasPair]] = {}
    for condition in block.conditions:
        met = list(meetings(condition, block, aliases))
        if not met and len(condition.needs) != 1:
            return None
        for pair, columns in met:
            shared.setdefault(pair, []).append(columns)
    return shared if len(shared) == 3 else None


def _corner(
    stage: str, block: QueryBlock, i: int, shared: dict[AliasPair, list[AliasPair]], values: Sequence[Terms]
) -> Corner | None:
    """Leaf ``i`` as a corner; None if its variables have a column in common, or columns of unequal types."""
    leaves = block.leaves
    own, after, last = leaves[i], leaves[(i + 1) % 3], leaves[(i + 2) % 3]
    first, second = _side(shared, own.alias, last.alias), _side(shared, own.alias, after.alias)
    fields = {f.name: f for f in own.columns}
    others = {f.name: f for f in after.columns}
    equal = _side(shared, after.alias, own.alias)
    alike = all(fields[x].type == others[y].type for x, y in zip(second, equal, strict=True))
    if len({*first, *second}) < len(first) + len(second) or not alike or not isinstance(own, Scan):
        return None
    factors = tuple(dict.fromkeys(f for terms in values for t in terms for alias, f in t.factors if alias == own.alias))
    read = {*first, *second, *(name.removeprefix(f"{own.alias}.") for f in factors for name in columns_in(f))}
    filters = [c.scalar for c in block.conditions if c.needs == {own.alias}]
    joined = {f"{own.alias}.{name}" for name in (*first, *second)}
    filters += [call("is_not_null", column(f)) for f in own.fields if f.nullable and f.name in joined]
    by = tuple(fields[name] for name in first)
    columns = tuple(f for f in own.columns if f.name in read)
    partition = DegreePartition(f"{stage}/parts_{own.alias}", own, tuple(filters), by, columns, f"{stage}/threshold")
    return Corner(partition, by, tuple(fields[name] for name in second), factors)


def _side(shared: dict[AliasPair, list[AliasPair]], own: str, other: str) -> list[str]:
    """The columns of ``own`` that are equal to columns of ``other``."""
    if (own, other) in shared:
        return [x for x, _ in shared[own, other]]
    return [y for _, y in shared[other, own]]


def _numbered(terms: Terms, corners: tuple[Corner, Corner, Corner]) -> tuple[tuple[int, Amounts], ...]:
    """Terms with their factors by number."""
    found = []
    for term in terms:
        factors = dict(term.factors)
        numbers = tuple(1 + c.factors.index(factors[c.alias]) if c.alias in factors else 0 for c in corners)
        found.append((term.coefficient, numbers))
    return tuple(found)


def _named(map_: Map, sums: Sequence[Scalar]) -> tuple[Named, ...]:
    return tuple(Named(value.name, amount) for value, amount in zip(map_.values, sums, strict=True))


def _product(*factors: Scalar) -> Scalar:
    return reduce(times, factors)


def _not(condition: Scalar) -> Scalar:
    return call("not", condition)
