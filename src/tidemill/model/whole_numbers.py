"""Whole numbers from texts of any length: Python refuses to read more than 4,300 digits, as that takes long."""

from __future__ import annotations

__all__ = ["MOST_DIGITS", "whole_number"]

MOST_DIGITS = 4_000
"""Digits of a number that are read."""

BEYOND = 10**MOST_DIGITS
"""Number that is returned instead of any greater one; no type holds either."""


def whole_number(text: str) -> int:
    """The number that an optional sign and digits are.

    >>> whole_number("-0012"), whole_number("0" * 5_000 + "7"), whole_number("9" * 5_000) == BEYOND
    (-12, 7, True)
    """
    if len(text) <= MOST_DIGITS:
        return int(text)
    digits = text.lstrip("+-").lstrip("0")
    size = int(digits or "0") if len(digits) <= MOST_DIGITS else BEYOND
    return -size if text.startswith("-") else size
