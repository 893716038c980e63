"""Refresh modes: a view is refreshed in the same epoch, on request, periodically, or when it is the most urgent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.model.errors import Unsupported
from tidemill.model.periods import parse_period

MANUAL = "manual"
CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True)
class RefreshMode:
    """Refresh mode: ``every`` is None for an immediate view, infinite for a deferred one, and else a period in seconds.

    A ``scheduled`` view is deferred, and refreshed by the scheduler (see ``engine.refresh.scheduler``).

    >>> RefreshMode.parse("every 10 minutes").every
    600.0
    >>> RefreshMode.parse("immediate").deferred, RefreshMode.parse("scheduled").deferred
    (False, True)
    """

    every: float | None
    scheduled: bool = False

    @property
    def deferred(self) -> bool:
        """True if the view may be behind its inputs."""
        return self.every is not None

    @classmethod
    def parse(cls, text: str) -> RefreshMode:
        """Parse ``immediate``, ``deferred``, ``scheduled`` or ``every N seconds | minutes | hours | days``."""
        words = text.strip().lower()
        if words == "immediate":
            return cls(None)
        if words in ("deferred", "scheduled"):
            return cls(float("inf"), scheduled=words == "scheduled")
        every = parse_period(words.removeprefix("every ")) if words.startswith("every ") else None
        if not every:
            raise Unsupported(
                f'"{text}" is no refresh rule',
                hint="Use 'immediate', 'deferred', 'scheduled' or, say, 'every 10 minutes'.",
            )
        return cls(every)


def staleness_weight(options: Mapping[str, str], name: str) -> float:
    """The weight of a view's staleness relative to other scheduled views, by the option ``weight``.

    >>> staleness_weight({"weight": "2.5"}, "v"), staleness_weight({}, "v")
    (2.5, 1.0)
    """
    text = options.get("weight", "1")
    if not re.fullmatch(r"\d+(\.\d+)?", text) or float(text) == 0:
        raise Unsupported(f'view "{name}" cannot have the weight "{text}"', hint="Use a number above 0.")
    return float(text)


def sync_interval(options: Mapping[str, str], option: str = "sync") -> float:
    """Seconds between syncs of views over a source with these options: 0 is continuous, infinite is on request only.

    >>> sync_interval({"sync": "every 5 minutes"}), sync_interval({"sync": "continuous"}), sync_interval({})
    (300.0, 0.0, inf)
    """
    text = options.get(option, MANUAL)
    if text in (MANUAL, CONTINUOUS):
        return math.inf if text == MANUAL else 0.0
    every = parse_period(text.removeprefix("every ")) if text.startswith("every ") else None
    if not every:
        raise Unsupported(
            f'"{text}" is no value of the option {option}', hint="continuous, manual or, say, every 5 minutes"
        )
    return every
