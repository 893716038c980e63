"""Measures how long the front end and the compiler take, in CPU time, and counts what comes out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table

from benchmarks.compiling.cases import CASES, TABLES
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.program.reads import steps_of
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

STRATEGIES = ("auto", "recompute", "viewlet", "joingraph", "lineage")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a view took to compile, and how many stages, and steps of all triggers, its program has."""

    seconds: float
    stages: int
    steps: int


def measure(sql: str, strategy: str = "auto") -> Compiled:
    """Compile a view over the tables of ``cases``."""
    started = time.process_time()
    relation = translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation
    program = compile_view("v", relation, TABLES, strategy)
    seconds = time.process_time() - started
    return Compiled(seconds, len(program.stages), sum(1 for stage in program.stages for _ in steps_of(stage)))


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """Every family at each of its sizes; ``queries`` choose families, ``depths`` strategies."""
    for strategy in options.depths or STRATEGIES[: 1 if options.quick else None]:
        for name, (sql, numbers) in CASES.items():
            if options.queries and name not in options.queries:
                continue
            for n in numbers:
                found = measure(sql(n), strategy)
                size = f"{found.stages} stages, {found.steps} steps"
                yield Figure("compiling", f"{strategy}/{name}/{n}", "CPU time", found.seconds, "s", size)


def as_table(figures: list[Figure]) -> Table:
    """A line for each family and strategy."""
    table = Table(title="tidemill bench compiling: CPU seconds")
    lines: dict[str, list[str]] = defaultdict(list)
    for figure in figures:
        name, _, number = figure.case.rpartition("/")
        lines[name].append(f"{number}: {figure.value:.2f} s, {figure.baseline}")
    for heading in ("views", "small", "medium", "large"):
        table.add_column(heading)
    for name, cells in lines.items():
        table.add_row(name, *cells)
    return table
