"""Types that go together: keys that can be equal, and arguments that a ring sums up."""

from __future__ import annotations

from tidemill.model import types as t
from tidemill.model.types import Type


def comparable(column: Type | None, key: Type | None) -> bool:
    """True if columns of two types can be equal: exact numbers of any width, everything else of one type, not None.

    >>> comparable(t.INT, t.BIGINT), comparable(t.INT, t.STRING)
    (True, False)
    """
    exact = (t.Integral, t.Decimal)
    return column is not None and (column == key or (isinstance(column, exact) and isinstance(key, exact)))


def sums_up(argument: Type, ring: Type) -> bool:
    """True if values of type ``argument`` can be summed in ``ring`` without loss.

    >>> sums_up(t.INT, t.BIGINT), sums_up(t.Decimal(8, 2), t.Decimal(38, 3))
    (True, False)
    """
    if isinstance(argument, t.Decimal) and isinstance(ring, t.Decimal):
        return argument.scale == ring.scale
    return argument == ring or (ring == t.BIGINT and isinstance(argument, t.Integral))
