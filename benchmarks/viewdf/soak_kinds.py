"""State of every kind of stage over simulated hours: two streams, late rows, deletions, replays and restarts.

One warehouse forgets; another one has tables of what was accepted, and the same views. In the end all of them are
compared, and now and then on the way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import tidemill
from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.viewdf.bounded import QUERIES, World, create, differing, entries, step
from tidemill.serving.cli.bench_runner import Figure

MINUTES, QUICK_MINUTES = 1_440, 120
"""The simulated time: 24 hours."""

SAMPLES, QUICK_SAMPLES = 48, 12
"""So often the warehouse is closed and opened again, and its state looked at."""

COMPARED = 6
"""After so many looks the rows of the views are compared as well."""


def soak_kinds(minutes: int, looks: int, seed: int = 1) -> Iterator[Figure]:
    """For each kind of stage the most entries in the last quarter of the time over those in the second."""
    # Rows without a time stay for ever, so there are none here.
    world, samples, begun = World(seed, nulls=False), [], time.process_time()
    with TemporaryDirectory(prefix="tidemill-soak-") as folder, tidemill.open(":memory:", runtime="native") as whole:
        create(whole, bounded=False)
        with tidemill.open(Path(folder) / "wh", runtime="native") as bounded:
            create(bounded, bounded=True)
        for number in range(looks):
            with tidemill.open(Path(folder) / "wh", runtime="native") as bounded:
                until = (number + 1) * minutes // looks
                while world.minute < until:
                    step(world, bounded, whole)
                bounded.compact()
                samples.append(entries(bounded))
                if number % COMPARED == COMPARED - 1 and (wrong := differing(bounded, whole)):
                    raise WrongAnswer(f"after {world.minute} minutes {', '.join(wrong)} differ from what was accepted")
        held = entries(whole)
    seconds = time.process_time() - begun
    for kind in QUERIES:
        second, last = (
            max(sample[kind] for sample in samples[start : start + looks // 4])
            for start in (looks // 4, looks - looks // 4)
        )
        told = f"{second:,} entries, then {last:,}; {held[kind]:,} where nothing is forgotten"
        yield Figure("viewdf", f"soak/{kind}", "growth_ratio", last / max(second, 1), "x", told)
    yield Figure("viewdf", "soak/kinds", "cpu_s", seconds, "s", f"{minutes:,} minutes, equal to recomputation")
