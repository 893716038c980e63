"""What cases have shown: as figures, and kept in a folder so that a plot can show what several runs have measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.dbtoaster.case import SCALE, Case, Outcome, Sample
from benchmarks.dbtoaster.paper import FIGURES, TPCH, baseline
from tidemill.serving.cli.bench_runner import Figure

BENCH = "dbtoaster"


def figures(outcome: Outcome) -> Iterator[Figure]:
    """The figures of one case. One that did not come to the end of its stream says how far it came."""
    case = outcome.case
    against = baseline(case.query, case.depth)
    if not outcome.complete:
        against += f"; first {outcome.events:,} of {outcome.stream:,} events"
    if case.single:
        yield Figure(BENCH, case.name, "events/s", outcome.rate, "1/s", f"one call an event; {against}")
        return
    yield Figure(BENCH, case.name, "refreshes/s", outcome.rate, "1/s", against)
    yield Figure(BENCH, case.name, "compile_s", outcome.compile_s, "s", "definition to first answer")
    if outcome.bytes_per_entry is not None:
        yield Figure(BENCH, case.name, "bytes/entry", outcome.bytes_per_entry, "B", f"{outcome.entries:,} entries")


class Results:
    """Outcomes in a folder, one file a case; the newest run of a case is what counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, outcome: Outcome) -> None:
        """Write an outcome down."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{outcome.case.name.replace('/', '-')}.json"
        file.write_text(json.dumps(asdict(outcome)), encoding="utf-8")

    def outcomes(self) -> list[Outcome]:
        """All that was written down."""
        texts = (file.read_text(encoding="utf-8") for file in sorted(self._folder.glob("*.json")))
        return [_outcome(**json.loads(text)) for text in texts]

    def draw(self) -> list[Path]:
        """Plots of everything kept; gives their files."""
        # The plotting library takes a second to load, which only those who plot should wait for.
        from benchmarks.dbtoaster.plots import draw_scaling, draw_traces

        outcomes = [outcome for outcome in self.outcomes() if not outcome.case.single]
        drawn = []
        for name, queries in FIGURES.items():
            shown = [o for o in outcomes if o.case.query in queries and o.case.scale == SCALE]
            if shown:
                drawn.append(self._folder / f"{name}.svg")
                draw_traces(shown, queries, drawn[-1])
        grown = [o for o in outcomes if o.case.query in TPCH and (o.case.depth, o.case.backend) == ("full", "llvm")]
        if any(o.case.scale != SCALE for o in grown):
            drawn.append(self._folder / "figure11.svg")
            draw_scaling(grown, drawn[-1])
        return drawn


def _outcome(case: dict[str, Any], samples: list[dict[str, Any]], **rest: Any) -> Outcome:
    return Outcome(Case(**case), samples=tuple(Sample(**sample) for sample in samples), **rest)
