"""Differences of two multisets."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tidemill.changes.zset import Row, ZSet
from tidemill.model.types import Field, Floating

RELATIVE_TOLERANCE = 1e-9
"""Relative difference up to which doubles count as equal: SQL does not define the order of addition."""


def differences(expected: ZSet, actual: ZSet, fields: Sequence[Field]) -> tuple[ZSet, ZSet]:
    """Rows of ``expected`` that ``actual`` lacks, and rows of ``actual`` that ``expected`` lacks.

    >>> from tidemill.model.types import DOUBLE
    >>> differences(ZSet({(1, 0.3): 1}), ZSet({(1, 0.1 + 0.2): 1}), (Field("a", DOUBLE), Field("b", DOUBLE)))
    (ZSet({}), ZSet({}))
    """
    difference = expected - actual
    missing = ZSet({row: weight for row, weight in difference.items() if weight > 0})
    extra = ZSet({row: -weight for row, weight in difference.items() if weight < 0})
    inexact = tuple(isinstance(f.type, Floating) for f in fields)
    if any(inexact) and missing and extra:
        _forgive(missing, extra, inexact)
    return missing, extra


def _forgive(missing: ZSet, extra: ZSet, inexact: Sequence[bool]) -> None:
    """Remove pairs of rows from both sides that differ only by rounding of doubles."""
    by_exact_part: dict[Row, list[Row]] = defaultdict(list)
    for row in extra:
        by_exact_part[_exact_part(row, inexact)].append(row)
    for row in list(missing):
        for other in by_exact_part[_exact_part(row, inexact)]:
            if other in extra and all(map(_close, row, other)):
                common = min(missing.weight(row), extra.weight(other))
                missing.add(row, -common)
                extra.add(other, -common)
                if row not in missing:
                    break


def _exact_part(row: Row, inexact: Sequence[bool]) -> Row:
    return tuple(value for value, skip in zip(row, inexact, strict=True) if not skip)


def _close(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (
            left == right
            or math.isclose(left, right, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
            or left != left != right
        )
    return bool(left == right)
