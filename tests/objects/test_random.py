"""Random operations on random objects beside a plain model: rows, events and refusals agree after each epoch."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.objects.model import Model, Refused
from tidemill import Objects
from tidemill.model import types as t
from tidemill.model.classes import Attribute, Collection
from tidemill.model.errors import DataError, UnknownName
from tidemill.model.update_events import UpdateEvent
from tidemill.runtimes.native import runtime_state

HERE = Path(__file__).parent


class Play:
    """Draws operations, and does each of them twice."""

    def __init__(self, db: Objects, seed: int) -> None:
        self.db = db
        self.model = Model(db.schema)
        self.random = random.Random(seed)
        self.classes = [name for name in self.model.stored if not db.schema.classes[name].is_interface]

    def epoch(self) -> bool:
        """One epoch of a few operations; whether it was not refused."""
        before = self.model.copy()
        try:
            with self.db.epoch():
                for _ in range(self.random.choice([1, 1, 2, 5])):
                    self.operation()
        except Refused:
            self.model = before
            return False
        except DataError:
            assert not self.model.is_right()
            self.model = before
            return False
        assert self.model.is_right()
        self.check_events(before)
        return True

    def check_events(self, before: Model) -> None:
        happened = Counter((e.event, e.place, e.oid, e.element) for e in self.db.events)
        assert Counter({e: n for e, n in happened.items() if not self.reordered(e)}) == self.model.events(before)

    def reordered(self, event: tuple[UpdateEvent, str, int, Any]) -> bool:
        """The model does not know the order of partners, and so not that it changed."""
        cls, _, name = event[1].partition(".")
        return event[0] is UpdateEvent.MODIFY and self.listed(cls, name)

    def listed(self, cls: str, name: str) -> bool:
        attribute = self.db.schema.attributes(cls)[name]
        return attribute.collection is Collection.LIST and attribute.inverse is not None

    def operation(self) -> None:
        rng, model, db = self.random, self.model, self.db
        cls = rng.choice(self.classes)
        found = model.oids(cls)
        if not found or rng.random() < 0.35:
            given = self.values(cls, 0.6)
            self.both(lambda: model.check(cls, given), lambda: model.create(db.create(cls, **given), cls, given))
            return
        oid = rng.choice(found)
        collections = [n for n, a in db.schema.attributes(model.objects[oid][0]).items() if a.collection is not None]
        match rng.choice(["modify", "modify", "insert", "remove", "delete"]):
            case "modify":
                given = self.values(model.objects[oid][0], 0.3)
                self.both(lambda: model.modify(oid, given), lambda: db.modify(oid, **given))
            case "delete":
                clear = rng.random() < 0.5
                self.both(lambda: model.delete(oid, clear), lambda: db.delete(oid, clear=clear))
            case move if collections:
                name = rng.choice(collections)
                element = self.value(db.schema.attributes(model.objects[oid][0])[name])
                if move == "remove" and model.value(oid, name) and rng.random() < 0.9:
                    element = rng.choice(model.value(oid, name))
                if element is not None and move == "insert":
                    self.both(lambda: model.insert(oid, name, element), lambda: db.insert(oid, name, element))
                elif element is not None:
                    self.both(lambda: model.remove(oid, name, element), lambda: db.remove(oid, name, element))

    def both(self, model: Callable[[], None], real: Callable[[], None]) -> None:
        try:
            model()
        except Refused:
            with pytest.raises((DataError, UnknownName)):
                real()
            raise
        real()

    def value(self, attribute: Attribute) -> Any:
        rng = self.random
        if rng.random() < 0.01:
            return 10**6 if attribute.target else "Blue"  # a name and a number that no object has
        if attribute.target is not None:
            found = self.model.oids(attribute.target)
            return rng.choice(found) if found else None
        if attribute.among:
            return rng.choice(attribute.among)
        drawn = rng.randrange(40)
        match attribute.type:
            case t.String():
                return f"{drawn}"
            case t.Double():
                return drawn / 2
            case t.Decimal():
                return Decimal(drawn).quantize(Decimal("0.01"))
            case t.Date():
                return datetime.date(2024, 1, 1 + drawn % 28)
            case t.Struct(fields):
                return tuple(self.value(Attribute(f.name, f.type)) if rng.random() < 0.8 else None for f in fields)
        return drawn

    def values(self, cls: str, share: float) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, attribute in self.db.schema.attributes(cls).items():
            if self.random.random() > share:
                continue
            if attribute.collection is None:
                given[name] = None if self.random.random() < 0.2 else self.value(attribute)
            else:
                drawn = [self.value(attribute) for _ in range(self.random.choice([0, 1, 2, 3]))]
                given[name] = [value for value in drawn if value is not None]
        return given

    def check(self, wh: tidemill.Warehouse) -> None:
        for cls in self.model.stored:
            attributes = self.db.schema.attributes(cls)
            places = [i for i, name in enumerate(attributes, 1) if self.listed(cls, name)]
            rows = [list(map(plain, row)) for row in wh.table(self.db.schema.table_name(cls)).rows()]
            for row in rows:
                for place in places:
                    row[place] = sorted(row[place])
            assert sorted(map(tuple, rows), key=lambda row: row[0]) == self.model.rows(cls)


def plain(value: Any) -> Any:
    """A value with structs as tuples."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    return tuple(map(plain, value.values())) if isinstance(value, dict) else value


@pytest.mark.parametrize("module", ["oo7", "odd", "more"])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))])
def test_objects_are_what_a_plain_model_says(module: str, seed: int) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        play = Play(tidemill.objects(wh, HERE / f"{module}.odl"), seed)
        kept = 0
        for number in range(120):
            kept += play.epoch()
            if number % 10 == 0:
                play.check(wh)
        play.check(wh)
        assert 40 < kept < 119


def test_large_tables_stay_in_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored is not made into rows: objects, keys and references are found in the columns."""
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        play = Play(tidemill.objects(wh, HERE / "odd.odl"), seed=5)
        for _ in range(60):
            play.epoch()
    monkeypatch.setattr(runtime_state, "RESIDENT_ROWS", 2)
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        play.db = tidemill.objects(wh)
        for _ in range(60):
            play.epoch()
        play.check(wh)
