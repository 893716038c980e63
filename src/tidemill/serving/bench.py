"""``tidemill bench``: runs a benchmark of the checkout, prints its figures beside baselines, writes JSON lines."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tidemill.model.errors import SetupError, UnknownName


@dataclass(frozen=True)
class Figure:
    """One measured value: ``case`` is words joined by ``/``, ``baseline`` what it is held against and its value."""

    bench: str
    case: str
    metric: str
    value: float
    unit: str
    baseline: str = ""


@dataclass(frozen=True)
class Options:
    """How to run a benchmark: at which scale, small enough for a look, with which folder for data."""

    scale: float | None = None
    quick: bool = False
    folder: Path = Path(".bench")
    say: Callable[[str], None] = lambda line: None


def run(name: str, options: Options, json_file: Path | None = None) -> list[Figure]:
    """Run benchmark ``name``; figures are printed as a table and, where asked for, written as JSON lines."""
    figures = []
    with json_file.open("w", encoding="utf-8") if json_file is not None else nullcontext() as lines:
        for figure in _load(name)(options):
            figures.append(figure)
            if lines is not None:
                # Written as it comes: a long run that is interrupted has not been for nothing.
                print(json.dumps(asdict(figure)), file=lines, flush=True)
    Console().print(as_table(name, figures))
    return figures


def as_table(name: str, figures: list[Figure]) -> Table:
    """The figures as people read them."""
    table = Table(title=f"tidemill bench {name}")
    for heading in ("case", "metric"):
        table.add_column(heading)
    table.add_column("value", justify="right")
    table.add_column("baseline")
    for figure in figures:
        table.add_row(figure.case, figure.metric, f"{figure.value:,.3g} {figure.unit}", figure.baseline)
    return table


def _load(name: str) -> Callable[[Options], Iterator[Figure]]:
    """The ``run`` of the benchmark package; the packages stand beside ``src`` in a checkout."""
    root = Path(__file__).parents[3]
    known = sorted(p.parent.name for p in (root / "benchmarks").glob("*/__init__.py"))
    if not known:
        raise SetupError("the benchmarks are not here", hint="They come with a checkout of the source.")
    if name not in known:
        raise UnknownName(f'there is no benchmark "{name}"', hint=f"There is: {', '.join(known)}.")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    module: Any = importlib.import_module(f"benchmarks.{name}")
    return module.run  # type: ignore[no-any-return]
