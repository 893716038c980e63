"""The choice, for one large change, between maintaining a view by its triggers and computing it again.

Both sides are predicted in seconds (``statistics.epoch_costs``). In machine code a visit costs a fiftieth of what it
costs in Python, so what is worth computing again in this process are stages that have no native form: windows above
all, in which few rows touch all partitions. On Spark it is whatever a change touches most of.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.algebra.relational.relations import Window
from tidemill.program.stages import PartitionEmission, Stage

WORTH = 1.1
"""Factor by which triggers must be predicted to be slower: the next change looks the maps up in the store."""

LEAST_CHANGED = 50
"""Rows of a change below which only window functions can be worth it."""


def is_window(stage: Stage) -> bool:
    """True if the rows of a stage come from window functions: one changed row may change all rows of its partition."""
    return isinstance(stage.finish, PartitionEmission) and isinstance(stage.finish.rows, Window)


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


def cheapest(predicted: Mapping[str, float]) -> tuple[str, str]:
    """The runtime that is predicted to take least for the changes of an epoch, and why; the first of those that take
    the same.

    >>> cheapest({"spark driver": 2.0, "spark tasks": 1.5})
    ('spark tasks', 'predicted to take 1,500 ms, spark driver 2,000 ms')
    >>> cheapest({"spark dataframes": 2.0})
    ('spark dataframes', 'predicted to take 2,000 ms')
    """
    name = min(predicted, key=lambda one: predicted[one])
    others = [f"{other} {1e3 * seconds:,.0f} ms" for other, seconds in predicted.items() if other != name]
    return name, ", ".join([f"predicted to take {1e3 * predicted[name]:,.0f} ms", *others])
