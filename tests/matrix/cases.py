"""The golden matrix: each file x strategy x way of a runtime x form of epochs, many files in one warehouse.

A file whose program with one strategy equals that with another, for all of its views, runs once on a way in a form and
counts for both. Whether programs are equal is seen when the second one's turn comes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conversation import Conversation, read
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
    """Those of ``files`` that lead, one of so many, another one in each run."""
    return [path for path in leading(files) if random.Random(f"{seed} {path.name}").randrange(parts) == 0]


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
    return [*_run(asked, way, spark), *(failure for failure in before.values() if failure is not None)]


def _known(path: Path, way: Way) -> Iterator[str | None]:
    """What came of a run with an equal program, if there was one; a block need not be cut that ran in another form.

    What a gap is declared for is tried on its own.
    """
    if expected(path).conversation.gap(way.strategy, way.runtime, way.way, way.form) is None:
        for form, other, failure in _ran.get((path, way.way), ()):
            if way.form in (form, "cut") and programs(path, way.strategy) == other:
                yield failure
                return


def _run(files: Sequence[Path], way: Way, spark: SparkSession | None) -> Iterator[str]:
    if not files:
        return
    with compiling_once(), way.session(spark), opened(way.way, spark) as warehouse:
        talks = [Talk(warehouse, expected(path), way.strategy, way.form, way.seed) for path in files]
        hold(talks)
        _count_stages(warehouse, way)
    for path, talk in zip(files, talks, strict=True):
        gap = talk.expected.conversation.gap(way.strategy, way.runtime, way.way, way.form)
        failure = verdict(talk, gap)
        if gap is None:
            _ran.setdefault((path, way.way), []).append((way.form, programs(path, way.strategy), failure))
        _count(way, "run" if gap is None else "gaps", failure)
        if failure is not None:
            yield failure


def _count(way: Way, what: str, failure: str | None) -> None:
    TABLE.at(way.strategy, way.way).forms[way.form]["failed" if failure else what] += 1


def _count_stages(warehouse: Warehouse, way: Way) -> None:
    """How many stages there are, and how many of them have run as compiled code."""
    if way.way == "llvm":
        native = warehouse._engine.placement.native
        stages = [stage for view in warehouse._engine.catalog.views.values() for stage in view.program.stages]
        cases = TABLE.at(way.strategy, way.way)
        cases.stages += len(stages)
        cases.compiled += sum(native._backends.runner(stage.name) is not None for stage in stages)
