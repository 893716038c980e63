"""FLOAT: numbers of 32 bits, held as the doubles of the same value.

The sum, difference, product or quotient of two of them, computed in 64 bits and then rounded to 32, is the one that 32
bits give. Other numbers must be rounded to 32 bits at once: by way of 64 bits they could be rounded twice.
"""

from __future__ import annotations

import ctypes
import decimal
import math

import numpy as np

from tidemill.changes.arrow import canonical_double


def single(value: float) -> float:
    """The FLOAT nearest to a double; infinity if it is too large.

    >>> single(0.1), single(1e39)
    (0.10000000149011612, inf)
    """
    return canonical_double(ctypes.c_float(value).value)


def nearest_single(exact: int | decimal.Decimal) -> float:
    """The FLOAT nearest to an exact number.

    >>> nearest_single(2**24 + 1), nearest_single(2**54 + 2**30 + 1) == 2**54 + 2**31
    (16777216.0, True)
    """
    double = float(exact)
    found = single(double)
    if found == double or math.isinf(found) or decimal.Decimal(exact) == decimal.Decimal(double):
        return found
    other = float(np.nextafter(np.float32(found), np.float32(math.copysign(math.inf, double - found))))
    if double - found != other - double:
        return found
    # The double lies in the middle between two FLOATs, so the exact number decides.
    return other if (exact > decimal.Decimal(double)) == (other > found) else found


def shortest_text(value: float) -> str:
    """The shortest number in decimal that is nearer to this FLOAT than to any other.

    >>> shortest_text(single(0.1))
    '1e-01'
    """
    return np.format_float_scientific(np.float32(value), trim="-")
