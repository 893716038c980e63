"""Spark's implicit conversions, in ANSI mode: the common type of several, and the arguments that fit a parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tidemill.algebra.values.decimals import decimal_for, wider
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Field, Type

ATOMIC = (
    *(t.Boolean, t.Integral, t.Decimal, t.Floating, t.String, t.Binary),
    *(t.Date, t.Time, t.Timestamp, t.AnsiInterval),
)


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
    void: Type = t.VOID
    return reduce(_widest, types, void)


def _widest(left: Type, right: Type) -> Type:
    if left != right and t.VOID not in (left, right) and t.STRING in (left, right):
        raise _apart(left, right)
    return _piecewise(left, right, _widest) or common_type((left, right))


def tightest_type(left: Type, right: Type) -> Type:
    """The later of two types, as functions of arrays want it: no DECIMAL is widened, and FLOAT comes after integers.

    >>> str(tightest_type(t.INT, t.DOUBLE)), str(tightest_type(t.BIGINT, t.FLOAT))
    ('DOUBLE', 'FLOAT')
    """
    if isinstance(left, t.Integral | t.Float) and isinstance(right, t.Integral | t.Float) and t.FLOAT in (left, right):
        return t.FLOAT
    of = _piecewise(left, right, tightest_type) or widest_type((left, right))
    exact = t.Decimal | t.AnsiInterval
    both = isinstance(left, exact) and isinstance(right, exact) and left != right
    if both or (isinstance(of, t.Decimal) and of not in (left, right)):
        raise _apart(left, right)
    return of


def compared_type(left: Type, right: Type) -> Type:
    """The type in which two values are compared: nested ones must have pieces of one kind, and fields of one name.

    Where all fields have the same types, their names mean nothing: ``(a, b) = (1, 'x')``.

    >>> str(compared_type(t.Array(t.INT), t.Array(t.BIGINT))), str(compared_type(t.INT, t.STRING))
    ('ARRAY<BIGINT>', 'BIGINT')
    """
    match left, right:
        case t.Struct(one), t.Struct(other) if [f.type for f in one] == [f.type for f in other]:
            return left
    return _piecewise(left, right, tightest_type) or common_type((left, right))


def _piecewise(left: Type, right: Type, common: Callable[[Type, Type], Type]) -> Type | None:
    """The type of two arrays, maps or structs whose pieces are brought to ``common`` types; None for other types."""
    match left, right:
        case _ if left == right:
            return left
        case t.Array(one), t.Array(other):
            return t.Array(common(one, other))
        case t.Map(), t.Map():
            return t.Map(common(left.key, right.key), common(left.value, right.value))
        case t.Struct(one), t.Struct(other):
            if [f.name.lower() for f in one] != [f.name.lower() for f in other]:
                raise _apart(left, right)
            pairs = zip(one, other, strict=True)
            return t.Struct(tuple(Field(a.name, common(a.type, b.type), a.nullable or b.nullable) for a, b in pairs))
    return None


def _apart(left: Type, right: Type) -> TypeMismatch:
    return TypeMismatch(f"{left} and {right} have no common type", hint="Convert one of them with CAST.")


def _common(left: Type, right: Type) -> Type:
    if left == right:
        return left
    match left, right:
        case (t.Void(), other) | (other, t.Void()):
            return other
        case t.String(), t.String():
            raise _apart(left, right)
        case (t.String(), t.Variant()) | (t.Variant(), t.String()):
            return t.VARIANT
        case (t.String(), other) | (other, t.String()) if isinstance(other, ATOMIC) and not t.holds_interval(other):
            return beside_string(other)
        case (t.Floating(), other) | (other, t.Floating()) if t.is_numeric(other):
            return t.DOUBLE
        case (t.Decimal(), other) | (other, t.Decimal()) if t.is_numeric(other):
            return wider(decimal_for(left), decimal_for(right))
        case t.Integral(), t.Integral():
            return max(left, right, key=lambda type_: type_.bits)
        case ((t.Date() | t.Timestamp()), (t.Date() | t.Timestamp())):
            return t.TIMESTAMP if t.TIMESTAMP in (left, right) else t.TIMESTAMP_NTZ
        case t.AnsiInterval(), t.AnsiInterval() if type(left) is type(right):
            return wider_interval(left, right)
        case t.Time(one), t.Time(other):
            return t.Time(max(one, other))
        case (t.Array(one), t.Array(other)):
            return t.Array(_common(one, other))
        case (t.Map(), t.Map()):
            return t.Map(_common(left.key, right.key), _common(left.value, right.value))
        case (t.Struct(one), t.Struct(other)) if len(one) == len(other):
            return t.Struct(tuple(_common_field(a, b) for a, b in zip(one, other, strict=True)))
    raise _apart(left, right)


def wider_interval(left: t.AnsiInterval, right: t.AnsiInterval) -> t.AnsiInterval:
    """The interval type with all fields of two of one kind.

    >>> str(wider_interval(t.INTERVAL_DAY, t.DayTimeInterval("MINUTE", "MINUTE")))
    'INTERVAL DAY TO MINUTE'
    """
    order = left.FIELDS.index
    return type(left)(min(left.start, right.start, key=order), max(left.end, right.end, key=order))


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
        case t.AnsiInterval(), t.AnsiInterval():
            return type(source) is type(target)
        case t.Array(one), t.Array(other):
            return fits(one, other)
        case t.Map(), t.Map():
            return fits(source.key, target.key) and fits(source.value, target.value)
    return t.is_numeric(source) and t.is_numeric(target)


def decimal_argument(given: Type) -> t.Decimal:
    """The DECIMAL to which Spark converts an argument that has to be one, of whatever precision.

    >>> str(decimal_argument(t.INT)), str(decimal_argument(t.DOUBLE))
    ('DECIMAL(10,0)', 'DECIMAL(30,15)')
    """
    match given:
        case t.Integral() | t.Decimal():
            return decimal_for(given)
        case t.Float():
            return t.Decimal(14, 7)
        case t.Double():
            return t.Decimal(30, 15)
        case t.String() | t.Void():
            return t.Decimal(t.MAX_PRECISION, 18)
    raise TypeMismatch(f"a number was expected, not {given}", hint="Convert it with CAST.")
