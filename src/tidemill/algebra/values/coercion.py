"""Spark's implicit conversions, in ANSI mode: the common type of several, and the arguments that fit a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tidemill.algebra.values.decimals import decimal_for, wider
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Field, Type

ATOMIC = (t.Boolean, t.Integral, t.Decimal, t.Floating, t.String, t.Binary, t.Date, t.Timestamp)


def common_type(types: Sequence[Type]) -> Type:
    """The type to which values that stand side by side are brought: in comparisons, CASE, IN, arrays and unions.

    >>> str(common_type([t.INT, t.Decimal(4, 2), t.VOID]))
    'DECIMAL(12,2)'
    """
    void: Type = t.VOID
    return reduce(_common, types, void)


def widest_type(types: Sequence[Type]) -> Type:
    """The common type of values of which either all or none are texts: GREATEST does not read text as a number.

    >>> str(widest_type([t.INT, t.BIGINT, t.VOID]))
    'BIGINT'
    """
    kinds = {type_ == t.STRING for type_ in types if type_ != t.VOID}
    if len(kinds) > 1:
        raise _apart(t.STRING, next(type_ for type_ in types if type_ not in (t.STRING, t.VOID)))
    return common_type(types)


def tightest_type(left: Type, right: Type) -> Type:
    """The later of two types, as functions of arrays want it: no DECIMAL is widened, and FLOAT comes after integers.

    >>> str(tightest_type(t.INT, t.DOUBLE)), str(tightest_type(t.BIGINT, t.FLOAT))
    ('DOUBLE', 'FLOAT')
    """
    if isinstance(left, t.Integral | t.Float) and isinstance(right, t.Integral | t.Float) and t.FLOAT in (left, right):
        return t.FLOAT
    of = widest_type((left, right))
    if isinstance(of, t.Decimal) and of not in (left, right):
        raise _apart(left, right)
    return of


def _apart(left: Type, right: Type) -> TypeMismatch:
    return TypeMismatch(f"{left} and {right} have no common type", hint="Convert one of them with CAST.")


def _common(left: Type, right: Type) -> Type:
    if left == right:
        return left
    match left, right:
        case (t.Void(), other) | (other, t.Void()):
            return other
        case (t.String(), other) | (other, t.String()) if isinstance(other, ATOMIC):
            return beside_string(other)
        case (t.Floating(), other) | (other, t.Floating()) if t.is_numeric(other):
            return t.DOUBLE
        case (t.Decimal(), other) | (other, t.Decimal()) if t.is_numeric(other):
            return wider(decimal_for(left), decimal_for(right))
        case t.Integral(), t.Integral():
            return max(left, right, key=lambda type_: type_.bits)
        case ((t.Date() | t.Timestamp()), (t.Date() | t.Timestamp())):
            return t.TIMESTAMP if t.TIMESTAMP in (left, right) else t.TIMESTAMP_NTZ
        case (t.Array(one), t.Array(other)):
            return t.Array(_common(one, other))
        case (t.Map(), t.Map()):
            return t.Map(_common(left.key, right.key), _common(left.value, right.value))
        case (t.Struct(one), t.Struct(other)) if len(one) == len(other):
            return t.Struct(tuple(_common_field(a, b) for a, b in zip(one, other, strict=True)))
    raise _apart(left, right)


def _common_field(left: Field, right: Field) -> Field:
    return Field(left.name, _common(left.type, right.type), left.nullable or right.nullable)


def beside_string(other: Type) -> Type:
    """The type that a STRING becomes next to ``other``: Spark reads it as a value of that kind, in its widest form."""
    match other:
        case t.Integral():
            return t.BIGINT
        case t.Decimal() | t.Floating():
            return t.DOUBLE
    return other


def fits(source: Type, target: Type) -> bool:
    """True if Spark implicitly converts an argument of type ``source`` to a parameter of type ``target``."""
    match source, target:
        case _ if source == target:
            return True
        case t.Void(), _:
            return True
        case (t.String(), _) | (_, t.String()):
            return isinstance(source, ATOMIC) and isinstance(target, ATOMIC)
        case ((t.Date() | t.Timestamp()), (t.Date() | t.Timestamp())):
            return True
        case t.Array(one), t.Array(other):
            return fits(one, other)
        case t.Map(), t.Map():
            return fits(source.key, target.key) and fits(source.value, target.value)
    return t.is_numeric(source) and t.is_numeric(target)
