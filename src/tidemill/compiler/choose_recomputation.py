"""The choice, for one large change, between maintaining a view by its triggers and computing it again.

Both sides are predicted in seconds from the sizes of this change and of what is stored. Triggers cost what
``estimate_stage`` counts for a row, times the rows that arrive, but no window makes a partition twice in an epoch. In
machine code a visit costs a fiftieth of what it costs in Python, so what is worth computing again are stages that have
no native form: windows above all, in which few rows touch all partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from tidemill.algebra.relational.relations import Window
from tidemill.compiler.statistics.predictions import REPLACED, StageEstimate, estimate_stage
from tidemill.compiler.statistics.sizes import UPDATE, RelationSize
from tidemill.program.stages import PartitionEmission, Program, Stage, TimePartitionEmission

PYTHON_VISIT, MACHINE_VISIT = 4e-6, 1e-7
"""Seconds of a visit: a window over 40,000 rows took 0.93 s for 240,000 visits, TPC-H's Q2 0.2 s for 2 million."""

OPENING = 0.03
"""Seconds that it takes to open DuckDB."""

RECOMPUTED_ROW = 1.5e-6
"""Seconds to recompute a stage for each stored row of a view's inputs: those of TPC-H's queries took 0.5 to 2
microseconds, and windows 1.5 to 2.5."""

ARRIVAL = 4.0
"""Visits for a row that a partition takes in."""

WORTH = 1.1
"""How many times as long triggers must be predicted to take: the next change has to look the maps up in the store."""

LEAST_CHANGED = 50
"""Rows of a change below which only window functions can be worth it."""


def is_window(stage: Stage) -> bool:
    """True if the rows of a stage come from window functions: one changed row may change all rows of its partition."""
    return isinstance(stage.finish, PartitionEmission) and isinstance(stage.finish.rows, Window)


class _StageCost(NamedTuple):
    stage: Stage
    estimate: StageEstimate
    rows: float


class RecomputationModel:
    """Predicted seconds of changes to a view over inputs of given sizes, ``in_python`` being stages without machine
    code."""

    def __init__(self, program: Program, sizes: Mapping[str, RelationSize], in_python: Set[str]) -> None:
        self.stored = sum(size.rows for size in sizes.values())
        self._in_python = in_python
        self._stages: list[_StageCost] = []
        known = dict(sizes)
        for stage in program.stages:
            estimate, rows = estimate_stage(stage, known)
            known[stage.name] = rows
            self._stages.append(_StageCost(stage, estimate, max(rows.rows, estimate.entries)))

    def by_triggers(self, changed: Mapping[str, float]) -> float:
        """Predicted seconds of the triggers of all stages for so many changed rows of each input."""
        arrivals, seconds = dict(changed), 0.0
        for stage, estimate, rows in self._stages:
            arriving = {name: arrivals.get(name, 0.0) for name in estimate.work}
            emitted = sum(arriving[name] * each for name, each in estimate.emitted.items())
            emitted = arrivals[stage.name] = min(emitted, REPLACED * max(rows, 1.0))
            if isinstance(stage.finish, PartitionEmission | TimePartitionEmission):
                # Each row of a partition is made once, however many others have changed.
                visits = ARRIVAL * sum(arriving.values()) + UPDATE * emitted / REPLACED
            else:
                visits = sum(arriving[name] * work for name, work in estimate.work.items())
            seconds += visits * (PYTHON_VISIT if stage.name in self._in_python else MACHINE_VISIT)
        return seconds

    def again(self, stored: float) -> float:
        """Predicted seconds to compute all stages from so many rows."""
        return OPENING + RECOMPUTED_ROW * len(self._stages) * stored


def reason_to_recompute(triggers: float, again: float) -> str:
    """The reason to compute a view again rather than to run its triggers; empty if these are no slower.

    >>> reason_to_recompute(0.93, 0.12)
    'triggers were predicted to take 930 ms, computing it again 120 ms'
    >>> reason_to_recompute(0.1, 0.12)
    ''
    """
    if triggers <= WORTH * again:
        return ""
    return f"triggers were predicted to take {1e3 * triggers:,.0f} ms, computing it again {1e3 * again:,.0f} ms"
