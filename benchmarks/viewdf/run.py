"""Every figure with every method in one run; a time is given only after its answers were compared."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.viewdf.case import LARGE, OURS, Case, Outcome
from benchmarks.viewdf.experiments import EXPERIMENTS, Experiment, quick
from benchmarks.viewdf.measure import measure
from benchmarks.viewdf.regret import QUICK_SHAPES, SHAPES, regrets, told
from benchmarks.viewdf.results import BENCH, figure_of, ratios, slide_costs
from benchmarks.viewdf.soak import Soak, figures_of
from benchmarks.viewdf.soak_kinds import MINUTES, QUICK_MINUTES, QUICK_SAMPLES, SAMPLES, soak_kinds
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SECONDS, QUICK_SECONDS = 25.0, 2.0
"""How long a case may take, by default; the filling of its window is a part of that."""

PATIENCE = 4
"""So many times longer for the method that the engine chooses by itself."""

LARGE_PATIENCE = 4
"""And for partitions of up to ten million rows, of which making the rows alone takes seconds."""

SOAK, PARTITIONS, QUICK_PARTITIONS = "soak", 10_000, 100
"""The long life, and how many partitions it has."""

REGRET = "regret"
"""What it costs that a method is chosen by a cost model, over a grid of shapes."""

APART = (SOAK, REGRET)
"""What is no experiment of the thesis."""

ON_SPARK = tuple(name for name in EXPERIMENTS if name.startswith("spark"))


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures that were asked for, by ``queries``."""
    outcomes: list[Outcome] = []
    chosen = _chosen(options)
    if SOAK in (options.queries or (SOAK,)):
        yield from _soak(options)
    if REGRET in (options.queries or (REGRET,)):
        yield from _regret(options)
    for number, (name, experiment) in enumerate(chosen.items()):
        found = []
        for share, outcome in _outcomes(experiment, options):
            options.progress((number + share) / len(chosen), outcome.case.name)
            options.say(_told(outcome))
            found.append(outcome)
            yield figure_of(outcome)
        outcomes += found
        if not experiment.alone:
            _draw(name, experiment, found, options)
    yield from slide_costs(outcomes)
    yield from ratios(outcomes)


def _soak(options: BenchmarkOptions) -> Iterator[Figure]:
    """A long life, with what is said of it on the way."""
    soak, samples = Soak(QUICK_PARTITIONS if options.quick else PARTITIONS), []
    for sample in soak.run():
        options.progress(sample.partition / soak.partitions, SOAK)
        options.say(str(sample))
        samples.append(sample)
    yield from figures_of(soak, samples)
    yield from soak_kinds(*((QUICK_MINUTES, QUICK_SAMPLES) if options.quick else (MINUTES, SAMPLES)))


def _regret(options: BenchmarkOptions) -> Iterator[Figure]:
    """The regret of each shape of a grid, and the greatest."""
    shapes, worst = QUICK_SHAPES if options.quick else SHAPES, 0.0
    for number, (shape, found, regret) in enumerate(regrets(shapes), start=1):
        options.progress(number / len(shapes), shape.name)
        options.say(told(shape, found, regret))
        worst = max(worst, regret)
        yield Figure(BENCH, shape.name, "regret_ratio", regret, "x", f"{shape.chosen} is chosen; answers compared")
    yield Figure(BENCH, REGRET, "regret_ratio", worst, "x", f"the greatest of {len(shapes)} shapes")


def _chosen(options: BenchmarkOptions) -> dict[str, Experiment]:
    """The experiments that were asked for; a quick look does not wait for Spark, unless it is asked to."""
    asked = tuple(name for name in options.queries if name not in APART)
    for name in asked:
        if name not in EXPERIMENTS:
            known = ", ".join((*EXPERIMENTS, *APART))
            raise UnknownName(f'there is no experiment "{name}"', hint=f"There is: {known}.")
    if options.queries and not asked:
        return {}
    wanted = asked or tuple(name for name in EXPERIMENTS if not (options.quick and name in ON_SPARK))
    return {name: quick(EXPERIMENTS[name]) if options.quick else EXPERIMENTS[name] for name in wanted}


def _outcomes(experiment: Experiment, options: BenchmarkOptions) -> Iterator[tuple[float, Outcome]]:
    """Each outcome with the share of the work that is done. Who was too slow once is not asked for more."""
    limit = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    before: dict[tuple[str, str], Outcome] = {}
    cases = list(experiment.cases())
    for number, case in enumerate(cases, start=1):
        last = before.get((case.runtime, case.method))
        patience = limit * (PATIENCE if case.method == OURS[case.query] else 1)
        patience *= LARGE_PATIENCE if case.axis == LARGE else 1
        reason = hopeless(case, last, patience) if last is not None and experiment.grows else ""
        outcome = Outcome(case, reason=reason) if reason else measure(case, patience)
        before[case.runtime, case.method] = outcome
        yield number / len(cases), outcome


def hopeless(case: Case, last: Outcome, limit: float) -> str:
    """Why ``case`` need not be tried, as far as the point before it on its axis tells."""
    if last.reason:
        return f"not at {last.case.axis} {last.case.at:g} either"
    taken = 0.0 if case.outside else last.seconds * case.rows / last.case.rows * case.fill
    return f"its window would take about {taken:,.0f} s to fill" if taken > limit else ""


def _draw(name: str, experiment: Experiment, found: list[Outcome], options: BenchmarkOptions) -> None:
    # The plotting library takes a second to load, which only those who plot should wait for.
    from benchmarks.viewdf.plots import draw

    file = draw(name, experiment, found, options.folder / "viewdf" / ("quick" if options.quick else "measured"))
    if file is not None:
        options.say(f"drawn: {file}")


def _told(outcome: Outcome) -> str:
    if outcome.reason:
        return f"{outcome.case.name}: {outcome.reason}"
    return f"{outcome.case.name}: {outcome.seconds * 1e3:,.1f} ms a slide, {outcome.slides} slides; answers compared"
