"""Costs beside the formulas of the paper in memory, then protocols on a real PostgreSQL; answers are compared first."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.eca.experiments import AXES, QUICK_AXES, measure_all
from benchmarks.eca.outcomes import Kept, Outcome
from benchmarks.eca.results import crossovers, figures, kept_figures
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

POSTGRES = "postgres"
SIZE, QUICK_SIZE = 1_000_000, 10_000
"""Rows of each relation in PostgreSQL."""

UPDATES, QUICK_UPDATES = 45, 9
RECOMPUTED = 3
"""For how many updates the whole view is fetched: once is enough to know its bytes, its time wants a median."""

FORMULAS_SHARE = 0.3
"""Of all work, about so much is done when PostgreSQL's turn comes."""


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of the axes that were asked for, by ``queries``, and of PostgreSQL."""
    axes = QUICK_AXES if options.quick else AXES
    wanted = options.queries or (*axes, POSTGRES)
    for name in wanted:
        if name not in (*axes, POSTGRES):
            raise UnknownName(f'there is no experiment "{name}"', hint=f"There is: {', '.join((*axes, POSTGRES))}.")
    found: list[Outcome] = []
    chosen = {axis: some for axis, some in axes.items() if axis in wanted}
    for outcome in measure_all(chosen, lambda share, what: options.progress(share * FORMULAS_SHARE, what)):
        found.append(outcome)
        yield from figures(outcome)
    yield from crossovers(found)
    if found:
        # The plotting library takes a second to load, which only those who plot should wait for.
        from benchmarks.eca.plots import draw

        for file in draw(found, options.folder / "eca" / ("quick" if options.quick else "measured")):
            options.say(f"drawn: {file}")
    if POSTGRES in wanted:
        yield from _on_postgres(options)


def _on_postgres(options: BenchmarkOptions) -> Iterator[Figure]:
    """Every protocol on a server of our own; where none can be had, that is said and nothing is measured."""
    size = int((QUICK_SIZE if options.quick else SIZE) * (options.scale or 1))
    options.progress(FORMULAS_SHARE, f"PostgreSQL with {size:,} rows a relation")
    try:
        # Neither the driver nor a server is needed for anything else here.
        from benchmarks.eca.postgres import NoServer, opened
        from benchmarks.eca.protocols import MAINTAINERS, Extent, keep_all
    except ImportError as missing:
        options.say(f"no driver for PostgreSQL, so nothing is measured on one: {missing}")
        return
    extent = Extent(size, QUICK_UPDATES if options.quick else UPDATES, RECOMPUTED)
    recomputed: Kept | None = None
    try:
        with opened(size) as database:
            for number, kept in enumerate(keep_all(database, extent, options.say), start=1):
                recomputed = recomputed or kept
                share = number / (2 * len(MAINTAINERS))
                options.progress(FORMULAS_SHARE + (1 - FORMULAS_SHARE) * share, kept.protocol)
                yield from kept_figures(kept, recomputed)
    except NoServer as reason:
        options.say(f"no PostgreSQL, so nothing is measured on one: {reason}")
