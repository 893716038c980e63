"""The limit on the nesting of a text. Up to ``MAX_DEPTH`` levels all of the compiler works; beyond, the text is refused
at once.

The parser and the passes over its trees call themselves, once or a few times for each level. Python allows 1,000 calls
within each other unless told otherwise, which some fifty parentheses use up, so ``raise_recursion_limit`` tells it
otherwise. It stays below what the processor's stack holds of calls that C makes: JSON of 60,000 levels takes all of its
eight megabytes, and must end in an error of ours at any limit that was set here.
"""

from __future__ import annotations

import sys

from tidemill.model.errors import Unsupported

__all__ = ["MAX_DEPTH", "raise_recursion_limit", "too_deep"]

MAX_DEPTH = 1_200
"""As many levels may be nested: operators and parentheses within each other, or operands in a row."""

CALLS_PER_LEVEL, BASE_CALLS = 25, 1_000
"""Calls within each other that one level takes at most, and those around them."""

DEFAULT_DEPTH = 25
"""Levels for which Python's own limit is enough: the deepest of the TPC-H queries has 19."""

DEPTH_STEPS = (250, MAX_DEPTH)
"""The limit is a matter of the whole process, so it is changed for few depths only."""


def raise_recursion_limit(depth: int) -> None:
    """Raise Python's recursion limit to what ``depth`` levels take; it is never lowered again."""
    if depth <= DEFAULT_DEPTH:
        return
    wanted = BASE_CALLS + CALLS_PER_LEVEL * next(step for step in DEPTH_STEPS if step >= depth)
    if wanted > sys.getrecursionlimit():
        sys.setrecursionlimit(wanted)


def too_deep() -> Unsupported:
    """The refusal of a text that is nested more deeply than ``MAX_DEPTH``."""
    return Unsupported(
        f"this is nested more than {MAX_DEPTH:,} levels deep",
        detail="Each parenthesis, and each operand of a row of operators, is a level.",
        hint="Cut it into views that read each other, or into several columns of one.",
    )
