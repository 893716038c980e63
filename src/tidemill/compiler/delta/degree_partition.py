"""Relations in heavy and light parts: each row says if the value that it is partitioned by occurs in many rows.

With a threshold of about the root of N, the number of rows of all partitioned relations, a light value has few rows and
there are few heavy values: both numbers are O(sqrt N), as IVM-epsilon needs them (see ``docs/design/joins.md``).

*Hysteresis*: a light value becomes heavy at twice the threshold, a heavy one light below half of it. So it takes as
many changes to move a value again as it has rows to move. The threshold is doubled once N is four times its square, and
halved below a quarter of that; then all values are looked at again, which as many changes as there are rows pay for.
Which values are heavy therefore depends on the order in which rows came and went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Case, Column, Literal, Named, Scalar, column
from tidemill.algebra.relational.relations import Scan
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.analysis.ring import ONE, ZERO, plus, times
from tidemill.compiler.delta.nested_loops import narrow
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, BOOLEAN, Field
from tidemill.program.joins import DegreeRole
from tidemill.program.maps import Map, RingField
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, MapRead, Query, RelationLoop, Trigger, Version

LEAST_THRESHOLD = 8
"""The threshold of small relations, which is not stored."""

STRATEGY = "joingraph"

THRESHOLD = "threshold"
ABOVE = RingField("above", BIGINT)
"""By how much the threshold is above the least one, which small relations have without any entry."""


def threshold_stage(name: str, relations: Sequence[str]) -> Stage:
    """The stage whose one row is the threshold for ``relations``, while it is above the least one."""
    size = Map(f"{name}/size", (), (ABOVE,))
    return Stage(
        name=name,
        output=(_threshold(),),
        inputs=tuple(relations),
        maps=(size,),
        load=(),
        triggers=tuple(Trigger(relation, tuple(_counts(name, relation, size)), each=True) for relation in relations),
        finish=None,
        strategy=STRATEGY,
        degrees=DegreeRole.THRESHOLD,
    )


def _counts(name: str, relation: str, size: Map) -> list[Add]:
    """A row of ``relation`` is counted, and may change the threshold: the old row goes, and the new one comes."""
    change = RelationLoop(relation, "row", Version.CHANGE, ())
    old = _threshold_in("size")
    new = _next_threshold(plus(_number("size", WEIGHT), _number("row", WEIGHT)), old)

    def row(threshold: Scalar, weight: int) -> Add:
        moves = (call("ne", new, old), call("gt", threshold, _least()))
        read = MapRead(size.name, "size", (), size.values, filters=moves)
        return Add(name, Query((change, read), (Named(THRESHOLD, threshold),), weight=Literal(weight, BIGINT)))

    read = MapRead(size.name, "size", (), size.values)
    counted = Query((change, read), (Named(ABOVE.name, _minus(new, old)),), weight=_number("row", WEIGHT))
    return [row(new, 1), row(old, -1), Add(size.name, counted)]


def _next_threshold(rows: Scalar, threshold: Scalar) -> Scalar:
    """Twice or half the threshold, where its square is no longer near the number of rows."""
    square = times(threshold, threshold)
    few = call("lt", rows, Literal(LEAST_THRESHOLD * LEAST_THRESHOLD // 4, BIGINT))
    branches = (
        (call("ge", rows, times(Literal(4, BIGINT), square)), times(Literal(2, BIGINT), threshold)),
        (few, _least()),
        (call("lt", times(Literal(4, BIGINT), rows), square), call("div", threshold, Literal(2, BIGINT))),
    )
    return Case(branches, threshold, BIGINT)


Steps = tuple[RelationLoop | MapRead, ...]
Lookup = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class DegreePartition:
    """The rows of ``scan`` that pass ``filters``, reduced to ``columns``, as relation ``name`` with one more column.

    That column, ``flag``, is true where the value of the columns ``by`` is heavy.
    """

    name: str
    scan: Scan
    filters: tuple[Scalar, ...]
    by: tuple[Field, ...]
    columns: tuple[Field, ...]
    threshold: str

    @property
    def flag(self) -> Field:
        """The column that tells heavy rows from light ones."""
        return Field(fresh("heavy", {f.name for f in self.columns}), BOOLEAN, nullable=False)

    def stage(self) -> Stage:
        """The stage whose rows these are. It keeps them by value, the degrees, the heavy values and the threshold."""
        return Stage(
            name=self.name,
            output=(*self.columns, self.flag),
            # The threshold comes first: a stage that is filled then partitions its rows once.
            inputs=(self.threshold, self.scan.relation),
            maps=(self._rows, self._degrees, self._heavy, self._limit),
            load=(),
            triggers=(
                Trigger(self.threshold, tuple(self._on_threshold()), each=True),
                Trigger(self.scan.relation, tuple(self._on_change()), each=True),
            ),
            finish=None,
            strategy=STRATEGY,
            degrees=DegreeRole.PARTITION,
        )

    @property
    def _rows(self) -> Map:
        return Map(f"{self.name}/rows", self.columns)

    @property
    def _degrees(self) -> Map:
        return Map(f"{self.name}/degrees", self.by)

    @property
    def _heavy(self) -> Map:
        """The heavy values, of which there are few."""
        return Map(f"{self.name}/heavy", self.by)

    @property
    def _limit(self) -> Map:
        return Map(f"{self.name}/limit", (), (ABOVE,))

    # ------------------------------------------------------------------------------------------------------ statements

    def _on_change(self) -> list[Add]:
        """A row comes or goes, and with it its value may become heavy or light: then all rows of the value move."""
        alias = self.scan.alias
        change = RelationLoop(self.scan.relation, alias, Version.CHANGE, self.scan.columns, filters=self.filters)
        degree, heavy, limit = (self._alias(name) for name in ("degree", "heavy", "limit"))
        lookup = self._by(alias)
        was, weight = _number(heavy, WEIGHT), _number(alias, WEIGHT)
        now = _is_heavy(plus(_number(degree, WEIGHT), weight), was, _threshold_in(limit))
        known = (
            change,
            MapRead(self._degrees.name, degree, lookup, ()),
            MapRead(self._limit.name, limit, (), (ABOVE,)),
            MapRead(self._heavy.name, heavy, lookup, ()),
        )
        moved = self._where_moved(known, now, was)
        own = tuple(Named(f.name, column(_of(alias, f))) for f in self.columns)
        return [
            Add(self.name, narrow(Query(known, (*own, Named(self.flag.name, call("gt", now, ZERO)))))),
            *self._moves(moved, lookup, _minus(now, was)),
            Add(self._heavy.name, narrow(Query(moved, _keys(lookup), weight=_minus(now, was)))),
            Add(self._degrees.name, narrow(Query((change,), _keys(lookup)))),
            Add(self._rows.name, narrow(Query((change,), own))),
        ]

    def _on_threshold(self) -> list[Add]:
        """Another threshold: every value is looked at, and rows move whose value becomes heavy or light by it."""
        change = RelationLoop(self.threshold, "new", Version.CHANGE, (_threshold(),))
        threshold, weight = column(_of("new", _threshold())), _number("new", WEIGHT)
        lookup = self._by("value")
        was = _number("heavy", WEIGHT)
        now = _is_heavy(_number("value", WEIGHT), was, threshold)
        known = (
            replace(change, filters=(call("gt", weight, ZERO),)),
            RelationLoop(self._degrees.name, "value", Version.STATE, self.by),
            MapRead(self._heavy.name, "heavy", lookup, ()),
        )
        moved = self._where_moved(known, now, was)
        limit = Query((change,), (Named(ABOVE.name, times(_minus(threshold, _least()), weight)),), weight=weight)
        return [
            *self._moves(moved, lookup, _minus(now, was)),
            Add(self._heavy.name, narrow(Query(moved, _keys(lookup), weight=_minus(now, was)))),
            Add(self._limit.name, limit),
        ]

    def _where_moved(self, steps: Steps, now: Scalar, was: Scalar) -> Steps:
        """The same steps, for values that do not stay what they are."""
        *others, last = steps
        return *others, replace(last, filters=(call("ne", now, was),))

    def _by(self, alias: str) -> Lookup:
        return tuple((f.name, column(_of(alias, f))) for f in self.by)

    def _moves(self, steps: Steps, lookup: Lookup, moved: Scalar) -> list[Add]:
        """All rows of a value from one part to the other: ``moved`` is 1 if it becomes heavy, and -1 if light."""
        alias = self._alias("moving")
        rows = RelationLoop(self._rows.name, alias, Version.STATE, self.columns, lookup)
        columns = tuple(Named(f.name, column(_of(alias, f))) for f in self.columns)
        amount = times(moved, _number(alias, WEIGHT))
        adds = []
        for heavy, weight in ((True, amount), (False, times(Literal(-1, BIGINT), amount))):
            outputs = (*columns, Named(self.flag.name, Literal(heavy, BOOLEAN)))
            adds.append(Add(self.name, narrow(Query((*steps, rows), outputs, weight=weight))))
        return adds

    def _alias(self, name: str) -> str:
        return fresh(name, {self.scan.alias})


def _keys(lookup: Lookup) -> tuple[Named, ...]:
    return tuple(Named(name, value) for name, value in lookup)


def _is_heavy(degree: Scalar, heavy: Scalar, threshold: Scalar) -> Scalar:
    """1 if a value of that degree is heavy, 0 if it is light; between the two bounds it stays what it is."""
    two = Literal(2, BIGINT)
    rises = call("ge", degree, times(two, threshold))
    falls = call("lt", times(two, degree), threshold)
    return Case(((rises, ONE), (falls, ZERO)), heavy, BIGINT)


def _threshold_in(alias: str) -> Scalar:
    return plus(_number(alias, ABOVE.name), _least())


def _minus(left: Scalar, right: Scalar) -> Scalar:
    return plus(left, times(Literal(-1, BIGINT), right))


def _least() -> Scalar:
    return Literal(LEAST_THRESHOLD, BIGINT)


def _threshold() -> Field:
    return Field(THRESHOLD, BIGINT, nullable=False)


def _number(alias: str, name: str) -> Scalar:
    return Column(f"{alias}.{name}", BIGINT, nullable=False)


def _of(alias: str, f: Field) -> Field:
    return Field(f"{alias}.{f.name}", f.type, f.nullable)
