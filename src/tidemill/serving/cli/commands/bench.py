"""The command ``tidemill bench`` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

BENCHMARK_NAMES = (
    "tpch, dbtoaster, graphivm, eca, viewdf, movie, sql, compiling, epochs, apply, nexmark, choose, cluster, lake, "
    "evolve, serve"
)


def bench(
    name: Annotated[str, typer.Argument(help=f"Which one: {BENCHMARK_NAMES}.")],
    scale: Annotated[float | None, typer.Option(help="Size of the data, for benchmarks that have one.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller data, within a minute.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there.")] = None,
    queries: Annotated[str, typer.Option(help="Only these, as in q3,vwap.", show_default=False)] = "",
    depths: Annotated[str, typer.Option(help="Only these, as in 1,full.", show_default=False)] = "",
    backends: Annotated[str, typer.Option(help="Only these, as in llvm.", show_default=False)] = "",
    seconds: Annotated[float | None, typer.Option(help="How long each case may run.")] = None,
    scaling: Annotated[bool, typer.Option("--scaling", help="The same over growing data.")] = False,
    changes: Annotated[str, typer.Option(help="Only these, in percent, as in 0.1,5.", show_default=False)] = "",
    runtimes: Annotated[str, typer.Option(help="Only these, as in spark.", show_default=False)] = "",
) -> None:
    """Run a benchmark and print its figures.

    Its answers are checked first. Figures are printed beside their baselines.

    \b
    Examples:
      tidemill bench tpch --quick
      tidemill bench tpch --scale 1 --json tpch.jsonl
      tidemill bench tpch --scale 1 --changes 0.1,5 --runtimes spark
      tidemill bench dbtoaster --queries q3,vwap --depths full --seconds 10
    """
    from tidemill.serving.cli.bench_runner import BenchmarkOptions, run, with_progress_bar

    options = BenchmarkOptions(
        scale=scale,
        quick=quick,
        queries=_words(queries),
        depths=_words(depths),
        backends=_words(backends),
        seconds=seconds,
        scaling=scaling,
        changes=_percents(changes),
        runtimes=_words(runtimes),
    )
    with with_progress_bar(options, name) as options:
        run(name, options, json_file)


def _percents(text: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, _words(text)))
    except ValueError:
        raise typer.BadParameter(f'"{text}" is not a list of numbers, as in 0.1,5') from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip().lower() for word in text.split(",") if word.strip())
