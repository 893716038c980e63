"""Limit on the nesting of a text: up to ``MAX_DEPTH`` levels are compiled, deeper text is refused.

The parser and the passes recurse once or a few times for each level. Python's default limit of 1,000 nested calls is
enough for some fifty parentheses, so ``raise_recursion_limit`` raises it. It stays below the capacity of the C stack:
JSON of 60,000 levels would take all of its eight megabytes, and must end in a Python error at any limit set here.
"""

from __future__ import annotations

import sys

from tidemill.model.errors import Unsupported

__all__ = ["MAX_DEPTH", "raise_recursion_limit", "too_deep"]

MAX_DEPTH = 1_200
"""Maximum number of nested levels: operators and parentheses, or operands in a row."""

CALLS_PER_LEVEL, BASE_CALLS = 25, 1_000
"""Calls within each other that one level takes at most, and those around them."""

DEFAULT_DEPTH = 25
"""Levels for which Python's own limit is enough: the deepest of the TPC-H queries has 19."""

DEPTH_STEPS = (250, MAX_DEPTH)
"""Depths to which the limit is rounded up: it applies to the whole process, so it is changed rarely."""


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
