"""What cases have shown: as figures, and kept in a folder so that a plot can show what several runs have measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.graphivm.case import SERVES, Case, Outcome
from tidemill.serving.cli.bench_runner import Figure

BENCH = "graphivm"

WEIGHED = ("fanout", "joins")
"""The experiments whose memory and reading the thesis looks at (Figures 9.10 and 9.11)."""


def figures(outcome: Outcome) -> Iterator[Figure]:
    """The figures of one case. One that did not come to its end, or to nothing, says so.

    What stores its rows publishes them by the same step: its figure stands for both scenarios.
    """
    if outcome.case.experiment == "subscribers":
        name = outcome.case.query
        yield Figure(BENCH, name, "events/s", outcome.rate, "1/s", _against(outcome) or f"{outcome.rows:,} rows taken")
        return
    serves = SERVES if outcome.case.serve == "both" else (outcome.case.serve,)
    for serve in serves:
        name = replace(outcome.case, serve=serve).name
        yield Figure(BENCH, name, "events/s", outcome.rate, "1/s", _against(outcome))
    if outcome.plain_s and outcome.case.encodes:
        name, against = outcome.case.name, "with all rows written out in plain columns"
        yield Figure(BENCH, name, "plain_events/s", outcome.plain_rate, "1/s", against)
    if outcome.events and outcome.case.experiment in WEIGHED:
        name = replace(outcome.case, serve=serves[-1]).name
        yield Figure(BENCH, name, "view_rows", outcome.rows, "rows")
        yield Figure(BENCH, name, "read_s", outcome.read_s, "s", f"{outcome.rows:,} rows")
        if outcome.state is not None:
            yield Figure(BENCH, name, "bytes", outcome.state, "B", f"and {outcome.stored:,} B of rows")


def _against(outcome: Outcome) -> str:
    """What a rate must be read with."""
    if not outcome.events:
        return f"not run: {outcome.reason}"
    return "" if outcome.complete else f"first {outcome.events:,} of {outcome.stream:,} events"


def ratios(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """What cases of one run say together."""
    yield from _memory_ratios(outcomes)
    yield from _cost_ratios([o for o in outcomes if o.case.experiment == "subscribers" and o.events])


def _cost_ratios(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """What an event costs with many subscribers, over what it costs with the first."""
    for outcome in outcomes:
        against = f"{outcomes[0].case.query} {outcomes[0].rate:,.0f} events/s"
        yield Figure(BENCH, outcome.case.query, "cost_ratio", outcomes[0].rate / outcome.rate, "x", against)


def _memory_ratios(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """The memory of a join graph's maps over those of viewlets, for the same view in the same run."""
    sizes = {_key(outcome.case): outcome.state for outcome in outcomes if outcome.state and outcome.events}
    for outcome in outcomes:
        case = outcome.case
        if case.experiment not in WEIGHED or case.strategy != "joingraph" or not outcome.state:
            continue
        viewlets = sizes.get(_key(replace(case, strategy="viewlet", serve="both")))
        if viewlets is not None:
            against = f"viewlet {viewlets:,} B in maps"
            yield Figure(BENCH, case.name, "memory_ratio", outcome.state / viewlets, "x", against)


def _key(case: Case) -> str:
    return f"{case.experiment}/{case.name}"


class Results:
    """Outcomes in a folder, one file a case; the newest run of a case is what counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, outcome: Outcome) -> None:
        """Write an outcome down."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{_key(outcome.case).replace('/', '-')}.json"
        file.write_text(json.dumps(asdict(outcome)), encoding="utf-8")

    def outcomes(self) -> list[Outcome]:
        """All that was written down."""
        found = (json.loads(file.read_text(encoding="utf-8")) for file in sorted(self._folder.glob("*.json")))
        return [Outcome(Case(**fields.pop("case")), **fields) for fields in found]

    def draw(self) -> list[Path]:
        """Plots of everything kept; gives their files."""
        # The plotting library takes a second to load, which only those who plot should wait for.
        from benchmarks.graphivm.plots import draw

        return draw([outcome for outcome in self.outcomes() if outcome.events], self._folder)
