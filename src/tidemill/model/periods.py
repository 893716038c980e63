"""Periods of time in words, as options and statements have them."""

from __future__ import annotations

import re

__all__ = ["parse_period"]

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


def parse_period(text: str) -> float | None:
    """The seconds of a period such as ``10 minutes``; None for any other text.

    >>> parse_period("10 minutes"), parse_period(" 1.5 hour "), parse_period("ten minutes")
    (600.0, 5400.0, None)
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?) *(second|minute|hour|day)s?", text.strip().lower())
    return None if found is None else float(found[1]) * SECONDS[found[2]]
