"""LATENESS BY a column: each source is late by its own clock, and what is retained follows from all of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill
from tidemill.engine.partitions.late_replay import LateReplay
from tidemill.engine.partitions.source_heads import SLOTS, SOURCE_HEADS
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SqlError, Unsupported

START = datetime(2024, 1, 1, 9)
LATENESS, RETAIN = 90, 600
"""In seconds."""

Row = tuple[datetime | None, str | None, int]
Change = tuple[int, Row]

DECLARED = "(ts TIMESTAMP, k STRING, n INT)"
BOUNDS = f"LATENESS {LATENESS} SECONDS BY k ON ts RETAIN {RETAIN} SECONDS"
VIEWS = {
    "minutes": "SELECT window.start AS w, k, SUM(n) AS n, COUNT(DISTINCT n) AS d FROM s "
    "GROUP BY window(ts, '1 minute'), k",
    "pairs": "SELECT a.ts, a.n, b.n AS m FROM s a JOIN s b "
    "ON a.n = b.n AND a.ts BETWEEN b.ts - INTERVAL 2 MINUTES AND b.ts",
    "before": "SELECT ts, k, n, LAG(n) OVER (PARTITION BY k ORDER BY ts, n) AS p FROM s",
    "total": "SELECT COUNT(*) AS c, SUM(n) AS n FROM s",
}  # fmt: skip


def at(seconds: float, k: str | None = "a", n: int = 1) -> Row:
    return START + timedelta(seconds=seconds), k, n


@dataclass
class Fleet:
    """Devices whose clocks are apart, and some of which have been away for long; NULL is one, too."""

    seed: int
    devices: tuple[str | None, ...] = ("a", "b", "ä\n", None)
    now: int = 0
    heads: dict[str | None, datetime] = field(default_factory=dict)
    accepted: list[Row] = field(default_factory=list)
    late: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.behind = {device: 100 * number for number, device in enumerate(self.devices)}

    def changes(self) -> list[Change]:
        self.now += self.random.choice([5, 20, 60])
        rows = [(+1, self._row()) for _ in range(self.random.randint(1, 5))]
        recent = [row for row in self.accepted[-20:] if self.random.random() < 0.05]
        return [*rows, *((-1, row) for row in recent)]

    def _row(self) -> Row:
        device = self.random.choice(self.devices)
        if self.random.random() < 0.05:
            self.behind[device] = self.random.choice([0, 100, 300, 1000])
        late = self.random.choice([0, 0, 10, 60, 100, 300])
        when = START + timedelta(seconds=self.now - self.behind[device] - late)
        return None if self.random.random() < 0.03 else when, device, self.random.randint(0, 9)

    def take(self, changes: list[Change]) -> list[Change]:
        """The changes that are not late, judged by the heads before them."""
        least = max(self.heads.values()) - timedelta(seconds=RETAIN) if self.heads else None
        fine = [one for one in changes if self._fits(one[1], least)]
        self.late += [one for one in changes if one not in fine]
        for weight, (when, device, n) in fine:
            if when is not None:
                self.heads[device] = max(when, self.heads.get(device, when))
            if weight > 0:
                self.accepted.append((when, device, n))
            else:
                self.accepted.remove((when, device, n))
        return fine

    def _fits(self, row: Row, least: datetime | None) -> bool:
        when, device, _ = row
        if when is None or least is None:
            return True
        head = self.heads.get(device)
        return when >= least and (head is None or when >= head - timedelta(seconds=LATENESS))


def as_arrow(changes: list[Change]) -> pa.Table:
    times, devices, numbers = (list(column) for column in zip(*(row for _, row in changes), strict=True))
    coded = pa.array(devices, pa.string()).dictionary_encode()
    weights = [weight for weight, _ in changes]
    return pa.table({"ts": times, "k": coded, "n": numbers, "_weight": weights})


def shown(warehouse: Warehouse, view: str) -> Counter[str]:
    return Counter(map(repr, warehouse.view(view).rows()))


def created(warehouse: Warehouse, bounds: str) -> None:
    warehouse.sql(f"CREATE {'STREAM' if bounds else 'TABLE'} s {DECLARED} {bounds}")
    for name, query in VIEWS.items():
        options = "WITH (require = 'bounded')" if bounds and name != "before" else ""
        warehouse.sql(f"CREATE MATERIALIZED VIEW {name} {options} AS {query}")


@pytest.mark.parametrize("form", ["pairs", "arrow", "fed"])
def test_each_source_is_late_by_its_own_clock(tmp_path: Path, form: str) -> None:
    """Views are what the accepted rows make of them, the late ones are kept, and state is flat; over restarts too."""
    fleet, sizes = Fleet(len(form)), []
    with tidemill.open(":memory:", runtime="native") as whole:
        created(whole, bounds="")
        with tidemill.open(tmp_path / "wh", runtime="native") as bounded:
            created(bounded, BOUNDS)
        for session in range(12):
            with tidemill.open(tmp_path / "wh", runtime="native") as bounded:
                for _ in range(12):
                    changes = fleet.changes()
                    if form == "fed":
                        feed = bounded.feed("s")
                        for weight, row in changes:
                            feed(weight, *row)
                            whole.apply({"s": fleet.take([(weight, row)])})
                        bounded.flush()
                    else:
                        bounded.apply({"s": as_arrow(changes) if form == "arrow" else changes})
                        whole.apply({"s": fleet.take(changes)})
                bounded.compact()
                late = Counter(tuple(row[:4]) for row in bounded.table("s_late").rows())
                assert late == Counter((*row, weight) for weight, row in fleet.late), session
                assert [view for view in VIEWS if shown(bounded, view) != shown(whole, view)] == [], session
                sizes.append(
                    sum(one.entries for view in VIEWS for one in bounded.view(view).sizes() if one.map != view)
                )
        held = sum(one.entries for view in VIEWS for one in whole.view(view).sizes() if one.map != view)
    assert fleet.late and max(fleet.heads.values()) - min(fleet.heads.values()) > timedelta(seconds=LATENESS)
    assert max(sizes[-3:]) <= 1.5 * max(sizes[3:6]) and max(sizes) < held / 2, (sizes, held)


@pytest.fixture
def warehouse() -> Warehouse:
    warehouse = tidemill.open(":memory:", runtime="native")
    warehouse.sql(f"CREATE STREAM s {DECLARED} {BOUNDS}; CREATE MATERIALIZED VIEW total AS SELECT SUM(n) AS n FROM s")
    return warehouse


def test_rows_that_are_replayed_and_far_ahead(warehouse: Warehouse) -> None:
    """A late change is replayed as far as RETAIN; a clock that went wrong moves the head of nobody."""
    warehouse.apply({"s": [(+1, at(2000, "a")), (+1, at(1600, "b"))]})
    warehouse.apply({"s": [(+1, at(1880, "a", 10)), (+1, at(1520, "b", 100)), (+1, at(1450, "b", 1000))]})
    assert warehouse.view("total").rows() == [(102,)]
    far = (datetime(9024, 1, 1), "b", 10_000)
    warehouse.apply({"s": [(+1, far), (+1, at(1399, "c", 10_000))]})
    assert warehouse.view("total").rows() == [(102,)], "c has come never before, but is more than RETAIN behind"
    assert warehouse.replay_late("s") == LateReplay(4, 2, 2) and warehouse.view("total").rows() == [(1112,)]
    assert warehouse.replay_late("s", ahead=True, where="k = 'b'") == LateReplay(5, 1, 0)
    warehouse.apply({"s": [(+1, at(2000, "b", 5))]})
    assert warehouse.view("total").rows() == [(11112,)], "all else is late now"


def test_heads_of_sources_that_have_fallen_behind_are_dropped(warehouse: Warehouse) -> None:
    """As many positions as slots, however many sources there were; a table of the same name begins without heads."""
    for number in range(400):
        warehouse.apply({"s": [(+1, at(60 * number, f"device {number}"))]})
    slots = {name: text for name, text in warehouse._engine.store.positions.items() if name.startswith(SOURCE_HEADS)}
    warehouse.apply({"s": [(+1, at(24_100, f"device {number}")) for number in range(400, 4_400)]})
    warehouse.apply({"s": [(+1, at(60_000, f"device {number}")) for number in range(4_400, 8_400)]})
    heads = {name: text for name, text in warehouse._engine.store.positions.items() if name.startswith(SOURCE_HEADS)}
    assert len(slots) <= len(heads) <= SLOTS
    assert sum(text.count("device") for text in heads.values()) == 4_000
    assert warehouse.positions == {}
    warehouse.sql(f"DROP VIEW total; DROP STREAM s; CREATE STREAM s {DECLARED} {BOUNDS}")
    warehouse.apply({"s": [(+1, at(10, "device 5000"))]})
    assert warehouse.table("s_late").rows() == []


def test_declared_shown_and_altered(warehouse: Warehouse) -> None:
    assert "LATENESS 90 SECONDS BY `k` ON `ts` RETAIN 10 MINUTES" in str(warehouse.sql("SHOW CREATE TABLE s").rows())
    told = "more than 90 SECONDS behind the others of their k go to s_late, to be replayed up to 10 MINUTES behind"
    assert told in warehouse.view("total").explain()
    with pytest.raises(Unsupported, match="cannot be without RETAIN"):
        warehouse.sql("ALTER STREAM s DROP RETAIN")
    with pytest.raises(Unsupported, match="cannot be dropped"):
        warehouse.sql("ALTER STREAM s DROP COLUMN k")
    warehouse.sql("ALTER STREAM s RENAME COLUMN k TO device; ALTER STREAM s SET LATENESS 2 MINUTES")
    assert "LATENESS 2 MINUTES BY `device`" in str(warehouse.sql("SHOW CREATE TABLE s").rows())
    warehouse.apply({"s": [(+1, at(600)), (+1, at(300, "b"))]})
    warehouse.apply({"s": [(+1, at(490)), (+1, at(470)), (+1, at(190, "b")), (+1, at(170, "b"))]})
    assert sorted(row[0] for row in warehouse.table("s_late").rows()) == [at(170)[0], at(470)[0]]
    warehouse.sql("DELETE FROM s_late; DROP VIEW total; ALTER STREAM s DROP LATENESS")
    assert "BY" not in str(warehouse.sql("SHOW CREATE TABLE s").rows())
    warehouse.apply({"s": [(+1, at(-5000))]})


def test_by_partitions_and_integers() -> None:
    """Where bounds are whole partitions, the head of a source is the last partition that it has come to."""
    with tidemill.open(":memory:", runtime="native") as warehouse:
        clause = "PARTITION BY ts EVERY 1 MINUTE LATENESS 1 MINUTE BY n RETAIN 5 MINUTES"
        warehouse.sql(f"CREATE TABLE s {DECLARED} {clause}")
        warehouse.sql("CREATE VIEW panes AS UPDATE panes[i] AS SELECT k, SUM(n) AS n FROM s[i] GROUP BY k")
        warehouse.apply({"s": [(+1, at(630, n=1)), (+1, at(330, n=2))]})
        warehouse.apply({"s": [(+1, at(540, n=1)), (+1, at(539, n=1)), (+1, at(300, n=2)), (+1, at(299, n=3))]})
        assert sorted((when, n) for when, _, n, *_ in warehouse.table("s_late").rows()) == [
            (at(299)[0], 3),
            (at(539)[0], 1),
        ]
        assert sorted(warehouse.view("panes").rows()) == [
            (at(300)[0], "a", 4),
            (at(540)[0], "a", 1),
            (at(600)[0], "a", 1),
        ]
        assert [one.state for one in warehouse.table("s").partitions()] == ["open"] * 3, (
            "of some source each may change"
        )


@pytest.mark.parametrize(
    ("clause", "told"),
    [
        ("LATENESS 90 SECONDS BY k ON ts", "needs RETAIN"),
        ("LATENESS 90 SECONDS BY ts ON ts RETAIN 1 HOUR", "cannot name the source"),
        ("LATENESS 90 SECONDS BY device ON ts RETAIN 1 HOUR", 'no column "device"'),
        ("RETAIN 1 HOUR BY k ON ts", "ON was expected"),
    ],
)
def test_refused(clause: str, told: str) -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse, pytest.raises(SqlError, match=told) as refused:
        warehouse.sql(f"CREATE STREAM s {DECLARED} {clause}")
    assert refused.value.where
