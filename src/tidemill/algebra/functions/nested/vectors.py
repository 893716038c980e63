"""Vectors, which are arrays of FLOATs: products, distances and norms.

A vector that has a NULL in it has no product, distance or norm: NULL. Two vectors of different lengths are an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add

from tidemill.algebra.functions.function import Function, Inference, always, expect_count
from tidemill.algebra.values.singles import single
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

Vector = tuple[float, ...]
VECTOR = t.Array(t.FLOAT)


def l2_distance(one: Vector, other: Vector) -> float | None:
    """The Euclidean distance.

    >>> l2_distance((0.0, 0.0), (3.0, 4.0))
    5.0
    """
    squares = _sum_of_pairs(one, other, lambda a, b: (a - b) * (a - b))
    return None if squares is None else _single(math.sqrt(squares))


def cosine_similarity(one: Vector, other: Vector) -> float | None:
    """The cosine of the angle between two vectors; NULL if one of them has no length.

    >>> cosine_similarity((1.0, 0.0), (0.0, 1.0)), cosine_similarity((0.0,), (1.0,))
    (0.0, None)
    """
    product = _sum_of_pairs(one, other, lambda a, b: a * b)
    if product is None:
        return None
    squares = _sum(a * a for a in one) * _sum(b * b for b in other)
    length = squares if math.isnan(squares) else math.sqrt(squares)
    return _single(product / length) if length else None


def norm(vector: Vector, degree: float = 2.0) -> float | None:
    """The norm of degree 1, 2 or infinity.

    >>> norm((3.0, 4.0)), norm((3.0, -4.0), 1.0), norm((3.0, -4.0), math.inf)
    (5.0, 7.0, 4.0)
    """
    return _single(_norm(vector, degree))


def normalize(vector: Vector, degree: float = 2.0) -> Vector | None:
    """The vector divided by its norm; NULL if that is zero."""
    length = _norm(vector, degree)
    if length is None or not vector:
        return None if length is None else ()
    return tuple(single(element / length) for element in vector) if length else None


def _norm(vector: Vector, degree: float) -> float | None:
    if degree not in (1.0, 2.0, math.inf):
        raise ArithmeticFault(f"there is no norm of degree {degree}", hint="Use 1.0F, 2.0F or float('inf').")
    if None in vector:
        return None
    if degree == 1.0:
        return _sum(map(abs, vector))
    if degree == 2.0:
        return math.sqrt(_sum(element * element for element in vector))
    return math.nan if any(map(math.isnan, vector)) else max(map(abs, vector), default=0.0)


def _sum_of_pairs(one: Vector, other: Vector, term: Callable[[float, float], float]) -> float | None:
    if len(one) != len(other):
        raise ArithmeticFault(f"a vector of {len(one)} elements beside one of {len(other)}")
    return None if None in one or None in other else _sum(map(term, one, other))


def _sum(terms: Iterable[float]) -> float:
    """The sum in 64 bits, eight terms at a time, as Spark adds them."""
    total, eight = 0.0, list[float]()
    for value in terms:
        eight.append(value)
        if len(eight) == UNROLLED:
            total += reduce(add, eight)
            eight.clear()
    return reduce(add, eight, total)


UNROLLED = 8
"""Number of terms that are added to each other before they are added to the sum."""


def _single(value: float | None) -> float | None:
    return None if value is None else single(value)


def _vectors(count: int, gives: Type, degree: bool = False) -> Inference:
    """The signature of ``count`` vectors and perhaps a degree; nothing is converted to them."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, count, count + degree)
        for given, wanted in zip(types, (*[VECTOR] * count, t.FLOAT), strict=False):
            if given != wanted:
                raise TypeMismatch(
                    f"an argument of type {wanted} was expected, not {given}", hint="Convert it with CAST."
                )
        return tuple(types), gives

    return infer


_PAIR = _vectors(2, t.FLOAT)

VECTORS = (
    Function("vector_l2_distance", _PAIR, l2_distance, "vector_l2_distance({args})", null_when=always),
    Function(
        "vector_cosine_similarity", _PAIR, cosine_similarity, "vector_cosine_similarity({args})", null_when=always
    ),
    Function("vector_norm", _vectors(1, t.FLOAT, degree=True), norm, "vector_norm({args})", null_when=always),
    Function(
        "vector_normalize", _vectors(1, VECTOR, degree=True), normalize, "vector_normalize({args})", null_when=always
    ),
)
