"""``tidemill bench``: runs a benchmark of the checkout, prints its figures beside baselines, writes JSON lines."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidemill.model.errors import SetupError, UnknownName
from tidemill.serving.render import console


@dataclass(frozen=True)
class Figure:
    """One measured value: ``case`` is words joined by ``/``, ``baseline`` a name and value to compare with."""

    bench: str
    case: str
    metric: str
    value: float
    unit: str
    baseline: str = ""


@dataclass(frozen=True)
class BenchmarkOptions:
    """Options of a benchmark: its scale, quick or not, and the folder for its data.

    A benchmark uses those that apply to it: ``queries``, ``depths``, ``backends``, ``changes`` (in percent) and
    ``runtimes`` choose cases (none: all), ``seconds`` limits each, ``scaling`` repeats it over growing data.
    ``progress`` is called with the current step and the share of the work done.
    """

    scale: float | None = None
    quick: bool = False
    folder: Path = Path(".bench")
    say: Callable[[str], None] = lambda line: None
    progress: Callable[[float, str], None] = lambda share, what: None
    queries: tuple[str, ...] = ()
    depths: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    seconds: float | None = None
    scaling: bool = False
    changes: tuple[float, ...] = ()
    runtimes: tuple[str, ...] = ()


def run(name: str, options: BenchmarkOptions, json_file: Path | None = None) -> list[Figure]:
    """Run benchmark ``name``; figures are printed as a table and, if requested, written as JSON lines."""
    figures = []
    benchmark = _load(name)
    with json_file.open("w", encoding="utf-8") if json_file is not None else nullcontext() as lines:
        for figure in benchmark.run(options):
            figures.append(figure)
            if lines is not None:
                # Written at once, so that the figures of an interrupted run are kept.
                print(json.dumps(asdict(figure)), file=lines, flush=True)
    # A benchmark may have its own table instead of one line for each figure.
    arrange = getattr(benchmark, "as_table", None)
    Console().print(arrange(figures) if arrange is not None else as_table(name, figures))
    return figures


@contextmanager
def with_progress_bar(options: BenchmarkOptions, name: str) -> Iterator[BenchmarkOptions]:
    """The options with a progress bar on a terminal; messages are printed above it, on standard error."""
    output = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output, transient=True, disable=not output.is_terminal) as bar:
        task = bar.add_task(name, total=1.0)

        def say(line: str) -> None:
            output.print(line, markup=False, highlight=False, soft_wrap=True)

        def advance(share: float, what: str) -> None:
            bar.update(task, completed=share, description=what)

        yield replace(options, say=say, progress=advance)


def as_table(name: str, figures: list[Figure]) -> Table:
    """The figures as a text table."""
    table = Table(title=f"tidemill bench {name}")
    for heading in ("case", "metric"):
        table.add_column(heading)
    table.add_column("value", justify="right")
    table.add_column("baseline")
    for figure in figures:
        table.add_row(figure.case, figure.metric, f"{figure.value:,.3g} {figure.unit}", figure.baseline)
    return table


def _load(name: str) -> Any:
    """The benchmark's package, which has ``run(options)``; the packages are beside ``src`` in a checkout."""
    root = Path(__file__).parents[4]
    known = sorted(p.parent.name for p in (root / "benchmarks").glob("*/__init__.py"))
    if not known:
        raise SetupError("the benchmarks are not installed", hint="Run them in a checkout of the source.")
    if name not in known:
        raise UnknownName(f'there is no benchmark "{name}"', hint=f"There is: {', '.join(known)}.")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(f"benchmarks.{name}")
