"""When a view follows its inputs: in the same epoch, when asked, or every so often."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.model.errors import Unsupported

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True, slots=True)
class Refresh:
    """``every`` is None for an immediate view, infinite for a deferred one, and else a number of seconds.

    >>> Refresh.parse("every 10 minutes").every
    600.0
    >>> Refresh.parse("immediate").deferred
    False
    """

    every: float | None

    @property
    def deferred(self) -> bool:
        """Whether the view may be behind its inputs."""
        return self.every is not None

    @classmethod
    def parse(cls, text: str) -> Refresh:
        """Read ``immediate``, ``deferred`` or ``every N seconds | minutes | hours | days``."""
        words = text.strip().lower()
        if words == "immediate":
            return cls(None)
        if words == "deferred":
            return cls(float("inf"))
        match = re.fullmatch(r"every (\d+(?:\.\d+)?) (second|minute|hour|day)s?", words)
        if match is None:
            raise Unsupported(
                f'"{text}" is no refresh rule', hint="Use 'immediate', 'deferred' or, say, 'every 10 minutes'."
            )
        return cls(float(match[1]) * _SECONDS[match[2]])
