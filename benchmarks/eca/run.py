"""Costs beside the formulas of the paper in memory, then protocols on a real PostgreSQL; answers are compared first."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from benchmarks.eca.experiments import AXES, QUICK_AXES, measure_all
from benchmarks.eca.outcomes import Kept, Outcome
from benchmarks.eca.results import crossovers, figures, kept_figures
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

POSTGRES, COMPLETE, FETCH = "postgres", "complete", "fetch"
SIZE, QUICK_SIZE = 1_000_000, 10_000
"""Rows of each relation in PostgreSQL."""

UPDATES, QUICK_UPDATES = 45, 9
BACKLOG, QUICK_BACKLOG = 1_000, 50
"""Transactions that a complete view takes in, each as an epoch."""

RECOMPUTED = 3
"""For how many updates the whole view is fetched: once is enough to know its bytes, its time wants a median."""

FORMULAS_SHARE = 0.3
"""Of all work, about so much is done when PostgreSQL's turn comes."""


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of the axes that were asked for, by ``queries``, and of PostgreSQL."""
    axes = QUICK_AXES if options.quick else AXES
    known = (*axes, POSTGRES, COMPLETE, FETCH)
    wanted = options.queries or known
    for name in wanted:
        if name not in known:
            raise UnknownName(f'there is no experiment "{name}"', hint=f"There is: {', '.join(known)}.")
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
    if {POSTGRES, COMPLETE, FETCH}.intersection(wanted):
        yield from _on_postgres(options, wanted)


def _on_postgres(options: BenchmarkOptions, wanted: Collection[str]) -> Iterator[Figure]:
    """What is wanted on a server of our own; where none can be had, that is said and nothing is measured."""
    size = int((QUICK_SIZE if options.quick else SIZE) * (options.scale or 1))
    options.progress(FORMULAS_SHARE, f"PostgreSQL with {size:,} rows a relation")
    try:
        # Neither the driver nor a server is needed for anything else here.
        from benchmarks.eca.backlog import complete, fetch
        from benchmarks.eca.postgres import NoServer, opened
        from benchmarks.eca.protocols import MAINTAINERS, Extent, keep_all
    except ImportError as missing:
        options.say(f"no driver for PostgreSQL, so nothing is measured on one: {missing}")
        return
    extent = Extent(size, QUICK_UPDATES if options.quick else UPDATES, RECOMPUTED)
    recomputed: Kept | None = None
    try:
        with opened(size) as database:
            if FETCH in wanted:
                yield from fetch(database)
            if COMPLETE in wanted:
                yield from complete(database, QUICK_BACKLOG if options.quick else BACKLOG)
            protocols = keep_all(database, extent, options.say) if POSTGRES in wanted else iter(())
            for number, kept in enumerate(protocols, start=1):
                recomputed = recomputed or kept
                share = number / (2 * len(MAINTAINERS))
                options.progress(FORMULAS_SHARE + (1 - FORMULAS_SHARE) * share, kept.protocol)
                yield from kept_figures(kept, recomputed)
    except NoServer as reason:
        options.say(f"no PostgreSQL, so nothing is measured on one: {reason}")
