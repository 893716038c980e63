"""When a view follows its inputs: in the same epoch, when asked, every so often, or when it is the most urgent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.model.errors import Unsupported

MANUAL = "manual"
CONTINUOUS = "continuous"

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True, slots=True)
class RefreshMode:
    """``every`` is None for an immediate view, infinite for a deferred one, and else a number of seconds.

    A ``scheduled`` view is deferred, and refreshed when its turn comes (see ``engine.refresh.scheduler``).

    >>> RefreshMode.parse("every 10 minutes").every
    600.0
    >>> RefreshMode.parse("immediate").deferred, RefreshMode.parse("scheduled").deferred
    (False, True)
    """

    every: float | None
    scheduled: bool = False

    @property
    def deferred(self) -> bool:
        """Whether the view may be behind its inputs."""
        return self.every is not None

    @classmethod
    def parse(cls, text: str) -> RefreshMode:
        """Read ``immediate``, ``deferred``, ``scheduled`` or ``every N seconds | minutes | hours | days``."""
        words = text.strip().lower()
        if words == "immediate":
            return cls(None)
        if words in ("deferred", "scheduled"):
            return cls(float("inf"), scheduled=words == "scheduled")
        match = re.fullmatch(r"every (\d+(?:\.\d+)?) (second|minute|hour|day)s?", words)
        if match is None:
            raise Unsupported(
                f'"{text}" is no refresh rule',
                hint="Use 'immediate', 'deferred', 'scheduled' or, say, 'every 10 minutes'.",
            )
        return cls(float(match[1]) * _SECONDS[match[2]])


def staleness_weight(options: Mapping[str, str], name: str) -> float:
    """How much the staleness of a view counts, beside that of others.

    >>> staleness_weight({"weight": "2.5"}, "v"), staleness_weight({}, "v")
    (2.5, 1.0)
    """
    text = options.get("weight", "1")
    if not re.fullmatch(r"\d+(\.\d+)?", text) or float(text) == 0:
        raise Unsupported(f'view "{name}" cannot have the weight "{text}"', hint="Use a number above 0.")
    return float(text)


def sync_interval(options: Mapping[str, str]) -> float:
    """How often views over a source with these options are synced: 0 is all the time, infinite is when asked.

    >>> sync_interval({"sync": "every 5 minutes"}), sync_interval({"sync": "continuous"}), sync_interval({})
    (300.0, 0.0, inf)
    """
    text = options.get("sync", MANUAL)
    if text in (MANUAL, CONTINUOUS):
        return math.inf if text == MANUAL else 0.0
    every = RefreshMode.parse(text).every if text.startswith("every ") else None
    if every is None:
        raise Unsupported(
            f'"{text}" is no value of the option sync', hint="continuous, manual or, say, every 5 minutes"
        )
    return every
