"""The golden matrix: each file x strategy x way of a runtime x form of epochs, many files in one warehouse.

A file whose program with one strategy equals that with another, for all of its views, runs once on a way in a form and
counts for both. Whether programs are equal is seen when the second one's turn comes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conversation import Conversation, Gap, read
from tests.matrix.expected import expected
from tests.matrix.programs import compiling_once, programs
from tests.matrix.table import TABLE
from tests.matrix.together import Talk, hold, verdict
from tests.ways import SPARK, interpreted, opened
from tidemill import Warehouse
from tidemill.program.stages import Program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = sorted((Path(__file__).parents[1] / "golden").glob("*.test"))
TOGETHER = 50
"""Number of files that share a warehouse: few enough to find a failure, and many views in one epoch."""


@dataclass(frozen=True)
class Way:
    """How files are run: strategy, way of a runtime, and each block as one epoch (``whole``), row by row, or ``cut``
    into epochs at places that ``seed`` gives.

    On Spark queries are interpreted, but in the way ``bulk``, where compiling them takes most of the time.
    """

    strategy: str
    way: str
    form: str
    seed: int = 0

    @property
    def runtime(self) -> str:
        return "spark" if self.way in SPARK else "native"

    def session(self, spark: SparkSession | None) -> AbstractContextManager[None]:
        """The session that the warehouse takes."""
        return nullcontext() if spark is None or self.way == "bulk" else interpreted(spark)

    def takes(self, conversation: Conversation) -> bool:
        """Whether the strategy is for such views, and the form for such blocks. What makes sense whole is not cut."""
        fits = self.strategy != "partition" or conversation.by_partitions
        return fits and (self.form != "rows" or "batch" not in conversation.settings)


LEADING = 1
"""Of files that begin with the same word, `make test` gives so many to Spark's DataFrames."""

_ran: dict[tuple[Path, str], list[tuple[str, tuple[Program | str, ...], str | None]]] = {}
"""The programs that have run for a file on a way, each with its form, and what was wrong."""


def groups(files: Sequence[Path] = FILES) -> list[list[Path]]:
    """The files that share a warehouse: neighbours, but for those that say that they must be alone."""
    alone = [path for path in files if _is_alone(path)]
    others = [path for path in files if not _is_alone(path)]
    return [others[start : start + TOGETHER] for start in range(0, len(others), TOGETHER)] + [[path] for path in alone]


def _is_alone(path: Path) -> bool:
    return any(line.startswith("alone:") for line in path.read_text().splitlines())


def leading(files: Sequence[Path], most: int = LEADING) -> list[Path]:
    """Those of ``files`` that come first among all that begin with the same word, so many of each."""
    families: dict[str, list[Path]] = {}
    for path in FILES:
        families.setdefault(path.stem.partition("_")[0], []).append(path)
    first = {path for family in families.values() for path in family[:most]}
    return [path for path in files if path in first]


def drawn(files: Sequence[Path], parts: int, seed: int) -> list[Path]:
    """One of so many of ``files``, others in each run."""
    return [path for path in files if random.Random(f"{seed} {parts} {path.name}").randrange(parts) == 0]


def turn(ways: Sequence[Way], files: Sequence[Path], at: int, seed: int) -> list[Path]:
    """Those of ``files`` that run in the one of ``ways`` that is asked for: each in half of them, drawn in each run."""
    chosen = {path: random.Random(f"{seed} {path.name} ways").sample(ways, len(ways) // 2) for path in files}
    taken = [path for path in files if ways[at] in chosen[path]]
    for _ in range(len(files) - len(taken)):
        _count(ways[at], "left", None)
    return taken


def run(way: Way, files: Sequence[Path], spark: SparkSession | None = None, *, costly: bool = True) -> list[str]:
    """Hold the conversations of ``files`` that there are in that way; what went wrong, a text for each.

    Without ``costly`` those are left that would need a run of their own and do not ask for it.
    """
    taken = [path for path in files if way.takes(read(path))]
    before = {path: known for path in taken for known in _known(path, way)}
    own = [path for path in taken if path not in before]
    asked = [path for path in own if costly or way.strategy in read(path).settings.get(way.way, "").split(", ")]
    for failure in before.values():
        _count(way, "shared", failure)
    for _ in range(len(own) - len(asked)):
        _count(way, "left", None)
    ways = dict.fromkeys(asked, way)
    return [*_run(ways, way, spark), *(failure for failure in before.values() if failure is not None)]


def run_drawn(
    way: Way,
    strategies: Sequence[str],
    files: Sequence[Path],
    seed: int,
    *,
    parts: int = 1,
    spark: SparkSession | None = None,
) -> list[str]:
    """Hold the conversations of one of so many ``parts`` of ``files`` in that way, each with one of its programs.

    Files and programs are other ones in each run. All strategies that give a program count; what is not drawn is left.
    """
    ways: dict[Path, Way] = {}
    equal: dict[Path, list[Way]] = {}
    chosen = drawn(files, parts, seed)
    for path in files:
        left = [own for own in (replace(way, strategy=name) for name in strategies) if own.takes(read(path))]
        if path in chosen:
            ways[path], equal[path] = _draw(path, left, seed)
            left = [own for own in left if own not in (ways[path], *equal[path])]
        for own in left:
            _count(own, "left", None)
    failures = dict(_run_each(ways, way, spark))
    for path, others in equal.items():
        for own in others:
            _count(own, "shared", failures.get(path))
    return list(failures.values())


def _draw(path: Path, ways: Sequence[Way], seed: int) -> tuple[Way, list[Way]]:
    """One of the programs that a file has in these ways, by the first of them that gives it, and what else does.

    A way with a gap is tried on its own.
    """
    programs_: list[tuple[tuple[Program | str, ...] | Way, list[Way]]] = []
    for way in ways:
        own = programs(path, way.strategy) if _gap(path, way) is None else way
        same = next((same for other, same in programs_ if other == own), None)
        if same is None:
            programs_.append((own, [way]))
        else:
            same.append(way)
    _, (first, *others) = random.Random(f"{seed} {path.name} {ways[0].way}").choice(programs_)
    return first, others


def _gap(path: Path, way: Way) -> Gap | None:
    return expected(path).conversation.gap(way.strategy, way.runtime, way.way, way.form)


def _known(path: Path, way: Way) -> Iterator[str | None]:
    """What came of a run with an equal program, if there was one; a block need not be cut that ran in another form.

    What a gap is declared for is tried on its own.
    """
    if _gap(path, way) is None:
        for form, other, failure in _ran.get((path, way.way), ()):
            if way.form in (form, "cut") and programs(path, way.strategy) == other:
                yield failure
                return


def _run(ways: Mapping[Path, Way], way: Way, spark: SparkSession | None) -> list[str]:
    return [failure for _, failure in _run_each(ways, way, spark)]


def _run_each(ways: Mapping[Path, Way], way: Way, spark: SparkSession | None) -> Iterator[tuple[Path, str]]:
    """Hold the conversations of files in one warehouse, each with its own strategy; which failed, and how."""
    if not ways:
        return
    with compiling_once(), way.session(spark), opened(way.way, spark) as warehouse:
        talks = [Talk(warehouse, expected(path), own.strategy, own.form, own.seed) for path, own in ways.items()]
        hold(talks)
        _count_stages(warehouse, ways)
    for (path, own), talk in zip(ways.items(), talks, strict=True):
        gap = _gap(path, own)
        failure = verdict(talk, gap)
        if gap is None:
            _ran.setdefault((path, own.way), []).append((own.form, programs(path, own.strategy), failure))
        _count(own, "run" if gap is None else "gaps", failure)
        if failure is not None:
            yield path, failure


def _count(way: Way, what: str, failure: str | None) -> None:
    TABLE.at(way.strategy, way.way).forms[way.form]["failed" if failure else what] += 1


def _count_stages(warehouse: Warehouse, ways: Mapping[Path, Way]) -> None:
    """How many stages there are, and how many of them have run as compiled code."""
    native, by_file = warehouse._engine.placement.native, {path.stem: way for path, way in ways.items()}
    for name, view in warehouse._engine.catalog.views.items():
        way = by_file[name.partition("__")[0]]
        if way.way == "llvm":
            cases = TABLE.at(way.strategy, way.way)
            cases.stages += len(view.program.stages)
            cases.compiled += sum(native._backends.runner(stage.name) is not None for stage in view.program.stages)
