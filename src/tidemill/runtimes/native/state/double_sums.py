"""DOUBLE sums that deletions reverse exactly: a double-double of the finite terms, and counts of the others.

Two floats, high and low, hold about 107 bits of a sum. Terms are added with ``math.fsum``, which is exact, so a sum
whose bits fit does not depend on the order of its terms, and a deleted row subtracts precisely what it added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from tidemill.changes.arrow import NAN
from tidemill.model.errors import ArithmeticFault

DoubleSumState = tuple[float, float, int]
"""High part, low part, and the packed counts of NaN, +inf and -inf."""

ZERO: DoubleSumState = (0.0, 0.0, 0)

# One integer holds the three counts: for most sums it is 0, an object that all entries share.
_STEP = 1 << 64


def pack(nans: int, infinities: int, negative_infinities: int) -> int:
    """Three signed counts as one integer; packed counts add up like the counts themselves.

    >>> unpack(pack(2, 0, 1) + pack(-2, 3, 0))
    (0, 3, 1)
    """
    return nans + infinities * _STEP + negative_infinities * _STEP * _STEP


def unpack(packed: int) -> tuple[int, int, int]:
    """The counts of NaN, +inf and -inf."""
    counts = []
    for _ in range(3):
        low = (packed + _STEP // 2) % _STEP - _STEP // 2
        counts.append(low)
        packed = (packed - low) // _STEP
    return counts[0], counts[1], counts[2]


def plus(
    high: float, low: float, special: int, once: Sequence[float], weighted: Sequence[tuple[float, int]]
) -> DoubleSumState:
    """A sum after the terms of ``once`` and the terms of ``weighted``, each multiplied by its weight.

    >>> tiny = plus(*ZERO, [1e16, 1.0], [])
    >>> tiny, plus(*tiny, [], [(1e16, -1)])
    ((1e+16, 1.0, 0), (1.0, 0.0, 0))
    """
    terms = [high, low, *once]
    for term, weight in weighted:
        if weight == -1:
            terms.append(-term)
        else:
            terms.extend(_multiples(term, weight))
    try:
        total = math.fsum(terms)
        if total - total == 0.0:
            return *_normal(total, math.fsum([*terms, -total])), special
    except (OverflowError, ValueError):  # infinite terms, or finite ones whose sum overflows DOUBLE
        pass
    return _plus_specials(high, low, special, once, weighted)


def _plus_specials(
    high: float, low: float, special: int, once: Sequence[float], weighted: Sequence[tuple[float, int]]
) -> DoubleSumState:
    finite: list[tuple[float, int]] = []
    for term, weight in (*((term, 1) for term in once), *weighted):
        if math.isfinite(term):
            finite.append((term, weight))
        else:
            special += weight * pack(term != term, term == math.inf, term == -math.inf)
    exact = Fraction(high) + Fraction(low) + sum(weight * Fraction(term) for term, weight in finite)
    try:
        total = float(exact)
    except OverflowError:
        raise ArithmeticFault("a sum of DOUBLE leaves the range of DOUBLE") from None
    return *_normal(total, float(exact - Fraction(total))), special


def _normal(high: float, low: float) -> tuple[float, float]:
    """The sum renormalized: rounding may have left the low part at exactly half a unit of the high part."""
    nearest = high + low
    return nearest, low - (nearest - high)


def _multiples(term: float, weight: int) -> Iterator[float]:
    """``weight * term`` as terms that floats hold exactly: a power of two for each bit of the weight."""
    if term - term != 0.0:
        yield term
        return
    signed = term if weight > 0 else -term
    for bit in range(abs(weight).bit_length()):
        if abs(weight) >> bit & 1:
            yield signed * (1 << bit)


def seen(high: float, special: int) -> float:
    """The value of the sum, as expressions see it: rounded to one DOUBLE.

    >>> seen(1.5, 0), seen(1.5, pack(0, 1, 0)), seen(1.5, pack(0, 1, 1))
    (1.5, inf, nan)
    """
    if not special:
        return high
    nans, infinities, negative_infinities = unpack(special)
    if nans or (infinities and negative_infinities):
        return NAN
    return math.inf if infinities else -math.inf


def difference(new: DoubleSumState, old: DoubleSumState) -> DoubleSumState | None:
    """The double-double that added to ``old`` gives exactly ``new``; None if there is none."""
    change = plus(0.0, 0.0, new[2] - old[2], [new[0], new[1], -old[0], -old[1]], [])
    return change if combine(old, change) == new else None


def combine(one: DoubleSumState, other: DoubleSumState) -> DoubleSumState:
    """The sum of two sums."""
    return plus(one[0], one[1], one[2] + other[2], [other[0], other[1]], [])
