"""A long life: thousands of partitions with late rows, corrections, deaths and retention, and what is left of it.

Each partition is a file that comes to the folder of a feed, and an epoch of a warehouse on disk. Rows are out of order,
a part of them too late; some are taken back. Late ones are replayed now and then, as far as that is possible, and the
rest is thrown away. The process that keeps the warehouse is killed at any moment. In the end every view is compared
with one that is computed, from all rows that were accepted, by running the query again for each partition.
"""

from __future__ import annotations

import csv
import random
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import tidemill
from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.viewdf.keeper import Answer, Deed, Keeper
from tidemill.engine.partitions.late_replay import LateReplay
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.cli.bench_runner import Figure

LATENESS, RETAIN = 30, 60
"""In minutes, which are partitions."""

COLUMNS = "s (ts TIMESTAMP, src STRING, loss INT) PARTITION BY ts EVERY 1 MINUTE"
BOUNDS = f"LATENESS {LATENESS} MINUTES RETAIN {RETAIN} MINUTES"

VIEWS = """
CREATE MATERIALIZED VIEW summed {options} AS
  SELECT src, SUM(loss) AS loss FROM s [WINDOW 60 MINUTES] GROUP BY src;
CREATE MATERIALIZED VIEW highest {options} AS
  SELECT src, MAX(loss) AS loss FROM s [WINDOW 10 MINUTES] GROUP BY src;
CREATE VIEW running AS
INITIALIZE running[k] AS SELECT src, COUNT(*) AS n FROM s[k] GROUP BY src
UPDATE running[i] AS
  SELECT src, SUM(n) AS n FROM (SELECT * FROM running[i-1] UNION ALL SELECT src, 1 FROM s[i]) AS x GROUP BY src
PARTITION BY 1 MINUTE
"""
SHOWN = ("summed", "highest", "running")

FIRST = datetime(2024, 1, 1)
ROWS = 6
"""A partition has up to so many rows."""

LATE, TARDY = 0.05, 0.1
"""The share of rows that come too late, and of those that are late, but not too late."""

REPLAYS, UPKEEPS, RESTARTS, DEATHS = 1 / 50, 1 / 200, 1 / 1000, 1 / 250
"""How often, after a partition, late rows are replayed, files are merged and swept, the warehouse is closed and opened
again, and the process that keeps it is to die."""

IN_COMMITS = ("before-log", "torn-log", "after-log", "fed", "put-away")
IN_UPKEEP = ("between-files", "before-manifest", "after-manifest", "during-compaction", "during-vacuum")
"""Points at which half of those die that are to die; the others do at a random moment."""

SAMPLES = 20
"""So often the state is looked at."""

Row = tuple[datetime, str, int]


@dataclass(frozen=True)
class Sample:
    """How things stood after so many partitions: rows so far, and entries of the state of all views."""

    partition: int
    accepted: int
    late: int
    entries: int

    def __str__(self) -> str:
        rows = f"{self.accepted:,} changes accepted, {self.late:,} late"
        return f"soak, {self.partition:,} partitions: {rows}; {self.entries:,} entries of state"


@dataclass
class Soak:
    """So many partitions, and what has become of their rows; ``deaths`` is how often the keeper is to die."""

    partitions: int
    seed: int = 1
    deaths: float = DEATHS
    head: int | None = None
    replayed: int = 0
    restarts: int = 0
    epochs: int = 0
    seconds: float = 0.0
    died: Counter[str] = field(default_factory=Counter)
    accepted: Counter[Row] = field(default_factory=Counter)
    taken: int = 0
    late: int = 0
    _recent: deque[Row] = field(default_factory=lambda: deque(maxlen=40 * ROWS))
    _waiting: list[tuple[int, Row]] = field(default_factory=list)

    def run(self) -> Iterator[Sample]:
        """Bring all partitions, and compare what comes out; ``WrongAnswer`` where it is another."""
        draw = random.Random(self.seed)
        with TemporaryDirectory(prefix="tidemill-soak-") as folder:
            inbox, warehouse, begin = Path(folder) / "inbox", Path(folder) / "warehouse", time.perf_counter()
            inbox.mkdir()
            with Keeper(warehouse, random.Random(self.seed)) as keeper:
                self.died = keeper.deaths
                keeper.ask(create, str(inbox))
                for number in range(self.partitions):
                    self._bring(keeper, inbox, number, list(self._changes(number, draw)))
                    if (number + 1) % (self.partitions // SAMPLES) == 0:
                        yield Sample(number + 1, self.taken, self.late, keeper.ask(entries).value)
                    self._befall(keeper, draw)
                keeper.close()
            self.seconds = time.perf_counter() - begin
            self._compare(warehouse)

    def _bring(self, keeper: Keeper, inbox: Path, number: int, changes: list[tuple[int, Row]]) -> None:
        """Deliver a partition. Whether those who died had taken it in is not asked: the feed knows."""
        deliver(inbox, number, changes)
        self._take(changes)
        self._ask(keeper, take_in, epochs=1)

    def _ask(self, keeper: Keeper, deed: Deed, *, epochs: int = 0) -> Answer:
        """Ask for something that makes so many epochs, however often it is begun."""
        self.epochs += epochs
        answer = keeper.ask(deed)
        if answer.epoch != self.epochs:
            raise WrongAnswer(f"epoch {answer.epoch} after {deed.__name__}, which should have made it {self.epochs}")
        return answer

    def _befall(self, keeper: Keeper, draw: random.Random) -> None:
        """What happens after some partitions."""
        if draw.random() < REPLAYS:
            self._replay(keeper)
        if draw.random() < UPKEEPS:
            self._ask(keeper, tend)
        if draw.random() < RESTARTS:
            keeper.restart()
            self.restarts += 1
        if draw.random() < self.deaths:
            self._kill(keeper, draw)

    def _kill(self, keeper: Keeper, draw: random.Random) -> None:
        """Let the keeper die in upkeep, in a replay, or with the next partition."""
        in_upkeep = draw.random() < 1 / 3
        keeper.doom(draw.choice(IN_UPKEEP if in_upkeep else IN_COMMITS) if draw.random() < 0.5 else "")
        if in_upkeep:
            self._ask(keeper, tend)
        elif draw.random() < 0.5:
            self._replay(keeper)

    def _changes(self, number: int, draw: random.Random) -> Iterator[tuple[int, Row]]:
        """The rows that come with a partition, of which some belong to earlier ones, and those that are taken back."""
        for _ in range(draw.randint(1, ROWS)):
            kind = draw.random()
            reach = (0, 0) if kind > LATE + TARDY else (1, LATENESS) if kind > LATE else (LATENESS + 1, 2 * RETAIN)
            behind = draw.randint(*reach)
            instant = FIRST + timedelta(minutes=number - behind, seconds=draw.randint(0, 59))
            yield +1, (instant, f"s{draw.randint(0, 4)}", draw.randint(0, 100))
        if self._recent and draw.random() < 0.1:
            place = draw.randrange(len(self._recent))
            yield -1, self._recent[place]
            del self._recent[place]

    def _take(self, changes: list[tuple[int, Row]]) -> None:
        """Know what the warehouse should have made of a partition."""
        for weight, row in changes:
            if self.head is not None and _number(row) < self.head - LATENESS:
                self.late += 1
                self._waiting.append((weight, row))
            else:
                self._accept(weight, row)
        last = max(_number(row) for _, row in changes)
        self.head = last if self.head is None else max(self.head, last)

    def _accept(self, weight: int, row: Row) -> None:
        self.taken += 1
        self.accepted[row] += weight
        if weight > 0:
            self._recent.append(row)

    def _replay(self, keeper: Keeper) -> None:
        """Replay what is late and retained, and throw the rest away."""
        assert self.head is not None
        fine = [(weight, row) for weight, row in self._waiting if _number(row) >= self.head - RETAIN]
        left = len(self._waiting) - len(fine)
        replayed: LateReplay = self._ask(keeper, replay, epochs=1 if fine else 0).value
        # Where the first to be asked has died after its commit, the second finds nothing to take.
        if replayed.left != left or replayed.taken not in (len(fine), 0):
            raise WrongAnswer(f"{replayed} late rows where {len(fine)} of {len(self._waiting)} can be replayed")
        for weight, row in fine:
            self._accept(weight, row)
        self.replayed += len(fine)
        self._waiting.clear()
        if left:
            self._ask(keeper, throw_away, epochs=1)

    def _compare(self, folder: Path) -> None:
        """Hold every view, from the first partition on, against one that was computed from the accepted rows."""
        with tidemill.open(folder, runtime="native") as kept, tidemill.open(":memory:", runtime="native") as recomputed:
            recomputed.sql(f"CREATE TABLE {COLUMNS}")
            recomputed.apply({"s": [(weight, row) for row, weight in self.accepted.items() if weight]})
            recomputed.sql(VIEWS.format(options="WITH (method = 'direct')"))
            for name in SHOWN:
                if Counter(kept.view(name).rows()) != Counter(recomputed.view(name).rows()):
                    raise WrongAnswer(f'view "{name}" is not what it is when it is recomputed')
            late = [(weight, (*row,)) for *row, weight, _ in kept.table("s_late").rows()]
            if Counter(late) != Counter(self._waiting):
                raise WrongAnswer(f"{len(late)} changes in s_late where {len(self._waiting)} should be")


def deliver(inbox: Path, number: int, changes: list[tuple[int, Row]]) -> None:
    """Write a partition, and give it its name when it is whole."""
    draft = inbox / ".draft"
    with draft.open("w", newline="") as file:
        lines = [("ts", "src", "loss", "_weight"), *((*row, weight) for weight, row in changes)]
        csv.writer(file).writerows(lines)
    draft.rename(inbox / f"partition-{number}.csv")


def _number(row: Row) -> int:
    return (row[0] - FIRST) // timedelta(minutes=1)


# -- what keepers are asked, each such that once is as good as twice -----------------------------------------------


def create(warehouse: Warehouse, inbox: str) -> None:
    """Make the stream, its feed and the views."""
    warehouse.sql(f"CREATE STREAM {COLUMNS} {BOUNDS}; CREATE FEED minutes INTO s FROM '{inbox}'")
    warehouse.sql(VIEWS.format(options=""))


def take_in(warehouse: Warehouse) -> None:
    """Take in the partition that has come, unless that is done."""
    warehouse.sync("minutes")


def replay(warehouse: Warehouse) -> LateReplay:
    """Take in what is late and retained."""
    return warehouse.replay_late("s")


def throw_away(warehouse: Warehouse) -> None:
    """Delete late rows."""
    if warehouse.table("s_late").rows():
        warehouse.sql("DELETE FROM s_late")


def tend(warehouse: Warehouse) -> None:
    """Write a checkpoint, forget in files too, merge these, and delete old ones."""
    warehouse.compact()
    warehouse.vacuum()


def entries(warehouse: Warehouse) -> int:
    """How much the views keep."""
    return sum(size.entries for name in SHOWN for size in warehouse.view(name).sizes())


def figures_of(soak: Soak, samples: list[Sample]) -> Iterator[Figure]:
    """What there was, and how the state grew: the most of the last quarter of the time over that of the second."""
    case = f"soak/partitions{soak.partitions}/native"
    quarter = len(samples) // 4
    second, last = (max(one.entries for one in some) for some in (samples[quarter : 2 * quarter], samples[-quarter:]))
    counted = {
        "accepted_changes": soak.taken,
        "late_changes": soak.late,
        "replayed_changes": soak.replayed,
        "kills": soak.died.total(),
        "restarts": soak.restarts,
        "state_entries": max(one.entries for one in samples),
    }
    about = "equal to recomputation"
    yield from (Figure("viewdf", case, metric, value, "", about) for metric, value in counted.items())
    yield from (Figure("viewdf", case, f"killed {where}", value, "") for where, value in sorted(soak.died.items()))
    yield Figure("viewdf", case, "partition_s", soak.seconds / soak.partitions, "s", about)
    yield Figure("viewdf", "soak", "growth_ratio", last / second, "x", f"{second:,} entries, then {last:,}")
