"""Maps against dictionaries: whatever is added, found, summed, rolled back or restored, both must agree."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.runtimes.native.llvm.map_harness import ENDS, Lab, Shape
from tidemill.model import types as t
from tidemill.model.types import Field
from tidemill.program.maps import Map, RingField
from tidemill.runtimes.native.llvm.containers.ordered_groups import ARRAY_LIMIT
from tidemill.runtimes.native.llvm.io import native_map

Key = tuple[Any, ...]

FEW = st.sampled_from((0, native_map.FEW_RECORDS))
"""How many records are read one by one: none, or all of these tests."""

PLAIN = Shape(
    Map("plain", (Field("a", t.INT), Field("b", t.BIGINT, nullable=False)), (RingField("n", t.BIGINT),)),
)
SINGLE = Shape(Map("single", (), (RingField("n", t.BIGINT), RingField("x", t.DOUBLE))))
SLICED = Shape(
    Map(
        "sliced",
        (Field("a", t.INT), Field("b", t.BIGINT), Field("c", t.Decimal(30, 2), nullable=False)),
        (RingField("n", t.BIGINT),),
    ),
    indexes=(("a",), ("a", "b"), ("c",)),
    guarded=("n", "_weight"),
)
ORDERED = Shape(
    Map(
        "ordered",
        (Field("a", t.INT), Field("b", t.BIGINT)),
        (RingField("n", t.BIGINT), RingField("d", t.Decimal(38, 2))),
    ),
    orders=((("a",), "b"), ((), "b"), (("b",), "a")),
    guarded=("n",),
)
CLUSTERED = Shape(
    Map(
        "clustered",
        (Field("a", t.INT, nullable=False), Field("b", t.BIGINT, nullable=False)),
        (RingField("n", t.BIGINT), RingField("d", t.Decimal(38, 2))),
    ),
    orders=((("a",), "b"), ((), "b"), (("b",), "a")),
    guarded=("n",),
)
BOTH = Shape(
    Map(
        "both",
        (Field("a", t.BIGINT, nullable=False), Field("b", t.INT, nullable=False), Field("c", t.DATE)),
        (RingField("n", t.BIGINT),),
    ),
    indexes=(("a",), ("c",)),
    orders=((("a", "b"), "c"), ((), "c"), (("a",), "b")),
)
DOUBLES = Shape(
    Map("doubles", (Field("a", t.DOUBLE),), (RingField("x", t.DOUBLE), RingField("n", t.BIGINT))),
    orders=(((), "a"),),
)

SHAPES = {shape.map.name: shape for shape in (PLAIN, SINGLE, SLICED, ORDERED, CLUSTERED, BOTH, DOUBLES)}


@cache
def cells(field: Field) -> st.SearchStrategy[Any]:
    if field.type == t.DOUBLE:
        some: st.SearchStrategy[Any] = st.sampled_from([-1.5, 0.0, 0.25, 3.0, float("inf"), float("-inf")])
    else:
        some = st.integers(-3, 3) | st.integers(-200, 200)
    return some | st.none() if field.nullable else some


@cache
def amounts(value: RingField) -> st.SearchStrategy[Any]:
    if value.type == t.DOUBLE:
        return st.integers(-64, 64).map(lambda n: n / 8)
    return (
        st.integers(-5, 5) | st.integers(-(2**90), 2**90) if isinstance(value.type, t.Decimal) else st.integers(-5, 5)
    )


class Model:
    """A dictionary that does what the map should."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.entries: dict[Key, list[Any]] = {}

    def add(self, key: Key, weight: int, values: Sequence[Any]) -> None:
        entry = self.entries.setdefault(key, [0] * (1 + len(values)))
        entry[0] += weight
        for i, (value, amount) in enumerate(zip(self.shape.map.values, values, strict=True), 1):
            entry[i] += weight * Fraction(amount) if value.type == t.DOUBLE else amount
        if not any(entry):
            del self.entries[key]

    def sweep(self) -> None:
        self.entries = {key: entry for key, entry in self.entries.items() if entry[0]}

    def copy(self) -> dict[Key, list[Any]]:
        return {key: list(entry) for key, entry in self.entries.items()}

    def places(self, names: Sequence[str]) -> list[int]:
        all_names = [field.name for field in self.shape.map.keys]
        return [all_names.index(name) for name in names]

    def under(self, names: Sequence[str], cells_: Sequence[Any]) -> dict[Key, list[Any]]:
        places = self.places(names)
        if None in cells_:
            return {}
        return {k: e for k, e in self.entries.items() if [k[i] for i in places] == list(cells_)}

    def summed(self, order: Any, prefix: Sequence[Any]) -> dict[Any, list[int]]:
        """The items of an order under a prefix, in its order."""
        (column,) = self.places([order[1]])
        keep = [0, *(i for i, value in enumerate(self.shape.map.values, 1) if value.type != t.DOUBLE)]
        found: dict[Any, list[int]] = {}
        for key, entry in self.under(order[0], prefix).items():
            if key[column] is not None:
                sums = found.setdefault(key[column], [0] * len(keep))
                found[key[column]] = [a + entry[i] for a, i in zip(sums, keep, strict=True)]
        return {cell: found[cell] for cell in sorted(found) if any(found[cell])}


def rows_of(table: pa.Table, shape: Shape) -> dict[Key, list[Any]]:
    """Stored rows, summed by key; a DOUBLE as the exact sum of its parts."""
    found: dict[Key, list[Any]] = {}
    for row in table.to_pylist():
        key = tuple(_cell(row[field.name], field.type) for field in shape.map.keys)
        numbers = [row["_weight"]]
        for value in shape.map.values:
            number = row[value.name]
            if value.type == t.DOUBLE:
                number = Fraction(number) + Fraction(row[f"{value.name}.lo"])
            elif isinstance(value.type, t.Decimal):
                number = int(number.scaleb(value.type.scale))
            numbers.append(number)
        held = found.setdefault(key, [0] * len(numbers))
        found[key] = [a + b for a, b in zip(held, numbers, strict=True)]
    return {key: entry for key, entry in found.items() if any(entry)}


def _cell(value: Any, type_: t.Type) -> Any:
    if value is None:
        return None
    if type_ == t.DATE:
        return (value - datetime.date(1970, 1, 1)).days
    return int(value.scaleb(type_.scale)) if isinstance(type_, t.Decimal) else value


class MapMachine(RuleBasedStateMachine):
    """Any sequence of what statements and epochs do to a map."""

    shape: Shape

    def __init__(self) -> None:
        super().__init__()
        self.lab, self.model = Lab(self.shape), Model(self.shape)
        self.before: dict[Key, list[Any]] = {}

    def _key(self, data: st.DataObject) -> Key:
        return tuple(data.draw(cells(field)) for field in self.shape.map.keys)

    def _add(self, key: Key, weight: int, values: Sequence[Any]) -> None:
        assert self.lab.add(key, weight, values) == 0
        self.model.add(key, weight, values)

    @rule(data=st.data(), weight=st.integers(-3, 3))
    def add(self, data: st.DataObject, weight: int) -> None:
        self._add(self._key(data), weight, [data.draw(amounts(value)) for value in self.shape.map.values])

    @rule(data=st.data(), count=st.integers(20, 400), step=st.integers(1, 7), start=st.integers(-300, 300))
    def add_many(self, data: st.DataObject, count: int, step: int, start: int) -> None:
        varied = data.draw(st.integers(0, max(len(self.shape.map.keys) - 1, 0)))
        key = self._key(data)
        values = [data.draw(amounts(value)) for value in self.shape.map.values]
        for i in range(count if key else 1):
            cell: Any = start + i * step
            if key and self.shape.map.keys[varied].type == t.DOUBLE:
                cell = float(cell)
            self._add((*key[:varied], cell, *key[varied + 1 :]) if key else key, 1, values)

    @rule(data=st.data(), part=st.integers(1, 5))
    def take_back(self, data: st.DataObject, part: int) -> None:
        """Remove entries exactly, as deletions of all their rows do."""
        for i, (key, entry) in enumerate(sorted(self.model.copy().items(), key=repr)):
            doubles = any(value.type == t.DOUBLE for value in self.shape.map.values)
            if i % part == 0 and not doubles:
                self._add(key, -entry[0], [-amount for amount in entry[1:]])

    @rule()
    def sweep(self) -> None:
        assert self.lab.sweep() == 0
        self.model.sweep()

    @rule()
    def settle(self) -> None:
        self.lab.native.settle()
        self.model.sweep()
        self.before = self.model.copy()

    @rule()
    def rollback(self) -> None:
        self.lab.native.rollback()
        self.model.entries = {key: list(entry) for key, entry in self.before.items()}

    @rule()
    def store_and_restore(self) -> None:
        """A map restored from its entries and the changes since behaves as if nothing had happened."""
        entries = self.lab.native.entries()
        self.model.sweep()
        self.lab = Lab(self.shape)
        self.lab.native.restore(entries)
        self.before = self.model.copy()

    @rule(data=st.data(), count=st.integers(0, 40))
    def assign(self, data: st.DataObject, count: int) -> None:
        fresh = Model(self.shape)
        kept = [key for key in sorted(self.model.entries, key=repr) if data.draw(st.booleans())][:20]
        for key in [*kept, *(self._key(data) for _ in range(count))]:
            values = [data.draw(amounts(value)) for value in self.shape.map.values]
            assert self.lab.add(key, 1, values, scratch=True) == 0
            fresh.add(key, 1, values)
        assert self.lab.assign() == 0
        self.model.entries = fresh.entries
        assert len(self.lab.scratch) == 0

    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        key = self._key(data)
        entry = None if None in key else self.model.entries.get(key)
        found = self.lab.find(key)
        assert (found is None) == (entry is None)
        if entry is not None:
            assert found == tuple(float(v) if isinstance(v, Fraction) else v for v in entry)

    @rule(data=st.data())
    def loop(self, data: st.DataObject) -> None:
        for index in self.shape.indexes:
            places = self.model.places(index)
            prefix = [data.draw(cells(self.shape.map.keys[place])) for place in places]
            found = self.lab.loop(index, prefix)
            expected = [(*key, entry[0]) for key, entry in self.model.under(index, prefix).items()]
            assert sorted(found, key=repr) == sorted(expected, key=repr)

    @rule(data=st.data())
    def sum_range(self, data: st.DataObject) -> None:
        for order in self.shape.orders:
            field, prefix = self._place(data, order)
            ends = [data.draw(st.sampled_from(ENDS)) for _ in range(2)]
            lower, upper = (None if end is None else (data.draw(cells(field)), end) for end in ends)
            found = self.lab.sum_range(order, prefix, lower, upper)
            items = self.model.summed(order, prefix)
            inside = [sums for cell, sums in items.items() if _within(cell, lower, upper)]
            width = len(found)
            assert list(found) == [sum(sums[i] for sums in inside) for i in range(width)]

    @rule(data=st.data(), after=st.booleans(), threshold=st.integers(-5, 60))
    def seek(self, data: st.DataObject, after: bool, threshold: int) -> None:
        for order in self.shape.orders:
            _, prefix = self._place(data, order)
            items = self.model.summed(order, prefix)
            if any(sums[0] < 0 for sums in items.values()):
                continue
            assert self.lab.seek(order, prefix, after, threshold) == _sought(list(items.items()), after, threshold)

    def _place(self, data: st.DataObject, order: Any) -> tuple[Field, list[Any]]:
        by_name = {field.name: field for field in self.shape.map.keys}
        if self.model.entries and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(sorted(self.model.entries, key=repr)))
            return by_name[order[1]], [key[place] for place in self.model.places(order[0])]
        return by_name[order[1]], [data.draw(cells(by_name[name])) for name in order[0]]

    @invariant()
    def entries_agree(self) -> None:
        assert len(self.lab.native) == len(self.model.entries)
        found = self.lab.loop(None, ())
        assert sorted(found, key=repr) == sorted(((*k, e[0]) for k, e in self.model.entries.items()), key=repr)
        for value in self.shape.guarded:
            place = 0 if value == "_weight" else 1 + [v.name for v in self.shape.map.values].index(value)
            assert self.lab.negatives(value) == sum(entry[place] < 0 for entry in self.model.entries.values())

    @rule(few=FEW)
    def changes_lead_from_old_to_new(self, few: int) -> None:
        with mock.patch.object(native_map, "FEW_RECORDS", few):
            changes = rows_of(self.lab.native.changes().arrow(), self.shape)
        self.model.sweep()
        width = 1 + len(self.shape.map.values)
        after = {key: list(entry) for key, entry in self.before.items()}
        for key, entry in changes.items():
            after[key] = [a + b for a, b in zip(after.get(key, [0] * width), entry, strict=True)]
        assert {key: entry for key, entry in after.items() if any(entry)} == self.model.entries
        assert rows_of(self.lab.native.entries(), self.shape) == self.model.entries

    @rule(few=FEW)
    def touched_tells_old_and_new(self, few: int) -> None:
        with mock.patch.object(native_map, "FEW_RECORDS", few):
            touched = list(self.lab.native.touched())
        self.model.sweep()
        told = [key for key, _, _ in touched]
        assert len(set(told)) == len(told)
        assert {k for k in {*self.before, *self.model.entries} if self.before.get(k) != self.model.entries.get(k)} <= {
            tuple(_cell(cell, field.type) for cell, field in zip(key, self.shape.map.keys, strict=True)) for key in told
        }
        for key, old, new in touched:
            inner = tuple(_cell(cell, field.type) for cell, field in zip(key, self.shape.map.keys, strict=True))
            assert _flat(old, self.shape) == self.before.get(inner)
            assert _flat(new, self.shape) == self.model.entries.get(inner)


def _flat(entry: Any, shape: Shape) -> list[Any] | None:
    """An entry as the model has it."""
    if entry is None:
        return None
    if not shape.map.values:
        return [entry]
    weight, *rest = entry
    found = [weight]
    for value in shape.map.values:
        if value.type == t.DOUBLE:
            found.append(Fraction(rest[0]) + Fraction(rest[1]))
            rest = rest[3:]
        else:
            found.append(int(rest[0].scaleb(value.type.scale)) if isinstance(value.type, t.Decimal) else rest[0])
            rest = rest[1:]
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [ORDERED, CLUSTERED], ids=lambda shape: shape.map.name)
def test_ordered_maps_of_several_levels(shape: Shape, seed: int) -> None:
    """Trees that grow and shrink by hundreds, in any order; sums and seeks at many places after each round."""
    draw = random.Random(seed)
    lab, model = Lab(shape), Model(shape)
    for _ in range(6):
        keys = [(draw.choice([0, 0, 1]), draw.randrange(1500)) for _ in range(draw.choice([20, 400, 1500]))]
        for key in sorted(keys) if draw.random() < 0.3 else keys:
            amounts_ = [draw.randrange(9), draw.randrange(2**80)]
            assert lab.add(key, 1, amounts_) == 0
            model.add(key, 1, amounts_)
        leaving = draw.choice([lambda key: draw.random() < 0.9, lambda key: key[1] % 50, lambda key: key[1] > 700])
        for key, (weight, *values) in list(model.entries.items()):
            if leaving(key):
                assert lab.add(key, -weight, [-value for value in values]) == 0
                del model.entries[key]
        for order, prefix in [(shape.orders[0], [0]), (shape.orders[0], [1]), (shape.orders[1], [])]:
            _compare_order(lab, model, order, prefix, draw)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [ORDERED, CLUSTERED], ids=lambda shape: shape.map.name)
def test_groups_of_every_length(shape: Shape, seed: int) -> None:
    """Hundreds of prefixes with a few entries each or some more than an array holds, which come, go and are undone."""
    draw = random.Random(seed)
    lab, model = Lab(shape), Model(shape)
    lengths = [
        draw.choice([1, 2, 3, 8, 31, ARRAY_LIMIT - 1, ARRAY_LIMIT, ARRAY_LIMIT + 1, 2 * ARRAY_LIMIT]) for _ in range(60)
    ]
    for _ in range(4):
        keys = [
            (a, b) for a, length in enumerate(lengths) for b in draw.sample(range(1500), draw.randrange(length + 1))
        ]
        draw.shuffle(keys)
        for key in keys:
            assert lab.add(key, 1, [1, 2]) == 0
            model.add(key, 1, [1, 2])
        lab.native.settle()
        before = model.copy()
        for key, (weight, *values) in model.copy().items():
            if draw.random() < 0.7:
                assert lab.add(key, -weight, [-value for value in values]) == 0
                del model.entries[key]
        for undo in (False, True):
            if undo:
                lab.native.rollback()
                model.entries = before
            found = lab.loop(None, ())
            assert sorted(found) == sorted((*key, entry[0]) for key, entry in model.entries.items())
            for a in draw.sample(range(60), 15):
                _compare_order(lab, model, shape.orders[0], [a], draw)


def test_many_prefixes_of_one_entry_are_small() -> None:
    """A prefix costs a slot and one record, not a node of a tree."""
    lab = Lab(Shape(CLUSTERED.map, orders=CLUSTERED.orders[:1]))
    lab.native.settle()
    for a in range(10_000):
        lab.add((a, 0), 1, [1, 1])
        if a % 100 == 0:
            lab.native.settle()
    assert lab.native.bytes / 10_000 < 200


def _compare_order(lab: Lab, model: Model, order: Any, prefix: list[Any], draw: random.Random) -> None:
    items = list(model.summed(order, prefix).items())
    for _ in range(20):
        low, high = draw.randrange(-10, 1510), draw.randrange(-10, 1510)
        inside = [sums for cell, sums in items if low <= cell < high]
        found = lab.sum_range(order, prefix, (low, True), (high, False))
        assert list(found) == [sum(sums[i] for sums in inside) for i in range(3)]
    total = sum(sums[0] for _, sums in items)
    for after in (False, True):
        for threshold in {-1, 0, 1, total - 1, total, *(draw.randrange(total + 1) for _ in range(20))}:
            assert lab.seek(order, prefix, after, threshold) == _sought(items, after, threshold)


def _sought(items: list[tuple[Any, list[int]]], after: bool, threshold: int) -> Any:
    running, found = 0, None
    for cell, sums in reversed(items) if after else items:
        if running <= threshold:
            found = cell
        running += sums[0]
    return found


def _within(cell: Any, lower: tuple[Any, bool] | None, upper: tuple[Any, bool] | None) -> bool:
    if (lower is not None and lower[0] is None) or (upper is not None and upper[0] is None):
        return False
    above = lower is None or cell > lower[0] or (lower[1] and cell == lower[0])
    return above and (upper is None or cell < upper[0] or (upper[1] and cell == upper[0]))


@pytest.mark.parametrize("name", SHAPES)
def test_maps_agree_with_dictionaries(name: str) -> None:
    machine = type(f"{name.title()}Machine", (MapMachine,), {"shape": SHAPES[name]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
