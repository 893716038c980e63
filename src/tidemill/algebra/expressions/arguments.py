"""Arguments of derived functions: how many there are, and constants among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.algebra.functions.function import expect_count
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type

Builder = Callable[..., Scalar]
"""The function ``call``, which derived functions build others with."""

DerivedFunction = Callable[[Builder, Sequence[Scalar]], Scalar]


def expect_arguments(arguments: Sequence[Scalar], least: int, most: int | None = None) -> None:
    """Refuse too few or too many arguments."""
    expect_count([argument.type for argument in arguments], least, most)


def constant(scalar: Scalar, type_: Type, meaning: str) -> Any:
    """The value of an argument that has to be a constant, and not NULL."""
    value = convert(scalar, type_)
    if isinstance(value, Literal) and value.value is not None:
        return value.value
    raise TypeMismatch(f"{meaning} must be a constant")
