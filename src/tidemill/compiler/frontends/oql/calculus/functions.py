"""Functions and operators of terms: the type of each, and the scalar that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tidemill.algebra.aggregates.registry import aggregate_type
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import cast, convert, typed
from tidemill.algebra.expressions.scalars import Case, Column, Literal, Scalar
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.oql.calculus.terms import CalculusTerm, ConstantTerm, Monoid, Operation
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, OqlType, RecordType, ReferenceType, ValueType
from tidemill.compiler.frontends.sql.expressions.function_calls import special_moment
from tidemill.compiler.frontends.sql.expressions.literals import from_integer
from tidemill.model.classes import Collection
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, VOID, Date, Timestamp, Type

TRUE = ConstantTerm(Literal(True, BOOLEAN))

OBJECT_FUNCTIONS = frozenset(("eq", "ne", "is_null", "is_not_null", "in_collection", "count_elements"))
"""Functions of references; all others are for values."""


def integer(value: int) -> ConstantTerm:
    """A whole number."""
    return ConstantTerm(from_integer(value))


def operation(function: str, *arguments: CalculusTerm) -> Operation:
    """``function`` of ``arguments``, typed by the algebra; a comparison with nil is a test for nil."""
    if function in ("eq", "ne") and any(_is_nil(argument) for argument in arguments):
        other = arguments[0] if _is_nil(arguments[1]) else arguments[1]
        return operation("is_null" if function == "eq" else "is_not_null", other)
    _check_objects(function, arguments)
    of = apply_function(function, [probe(argument) for argument in arguments]).type
    return Operation(function, arguments, ValueType(of))


def _is_nil(term: CalculusTerm) -> bool:
    return isinstance(term, ConstantTerm) and term.literal.value is None


def _check_objects(function: str, arguments: Sequence[CalculusTerm]) -> None:
    classes = [argument.type for argument in arguments if isinstance(argument.type, ReferenceType)]
    if classes and function not in OBJECT_FUNCTIONS:
        raise TypeMismatch(f"{function} takes values, not {classes[0]}", hint="Name one of its attributes after a dot.")


def probe(term: CalculusTerm) -> Scalar:
    """An expression of the same type, from which the type of a call is inferred."""
    return term.literal if isinstance(term, ConstantTerm) else Column("?", term.type.stored)


def apply_cast(value: Scalar, target: Type) -> Scalar:
    """A value as another type, by the rules of CAST; a constant is converted at once."""
    if isinstance(target, Date | Timestamp) and isinstance(value, Literal) and value.of == STRING:
        value = special_moment(value, target)
    return typed(cast(value, target))


def apply_function(function: str, arguments: Sequence[Scalar]) -> Scalar:
    """A function as a scalar: a call of the algebra, or several."""
    special = OQL_SCALARS.get(function)
    return call(function, *arguments) if special is None else special(*arguments)


def count_elements(array: Scalar) -> Scalar:
    """The number of elements of a collection."""
    return convert(call("size", array), BIGINT)


def in_collection(value: Scalar, array: Scalar) -> Scalar:
    """True for a value that is among the elements; false for an undefined one."""
    return call("coalesce", call("array_contains", array, value), Literal(False, BOOLEAN))


def element(array: Scalar) -> Scalar:
    """The only element of a collection; an error if there is none or several."""
    one = call("eq", call("size", array), Literal(1, INT))
    return call("get_item", array, Case(((one, Literal(0, INT)),), Literal(-1, INT), INT))


def is_subset(part: Scalar, whole: Scalar) -> Scalar:
    """True if all elements of a set are in another one."""
    return call("eq", call("size", call("array_except", part, whole)), Literal(0, INT))


def sorted_of(function: str) -> Callable[..., Scalar]:
    """A function of two arrays with a sorted result, so that equal collections are equal arrays."""

    def rule(one: Scalar, other: Scalar) -> Scalar:
        return call("sort_array", call(function, one, other))

    return rule


OQL_SCALARS: dict[str, Callable[..., Scalar]] = {
    "except_set": sorted_of("array_except"),
    "intersect_set": sorted_of("array_intersect"),
    "union_bag": sorted_of("concat"),
    "union_set": sorted_of("array_union"),
    "count_elements": count_elements,
    "element": element,
    "in_collection": in_collection,
    "is_subset": is_subset,
}


def condition(term: CalculusTerm) -> CalculusTerm:
    """``term`` checked to be a condition."""
    if term.type == ValueType(VOID):
        return ConstantTerm(Literal(None, BOOLEAN))
    if term.type != ValueType(BOOLEAN):
        raise TypeMismatch(f"a condition is expected here, not {term.type}")
    return term


def element_type(term: CalculusTerm) -> OqlType:
    """The type of the elements of a collection."""
    if not isinstance(term.type, CollectionType):
        raise TypeMismatch(f"a collection is expected here, not {term.type}")
    return term.type.element


def conjuncts(term: CalculusTerm) -> list[CalculusTerm]:
    """The conditions joined by ``and``, without those that are always true."""
    if isinstance(term, Operation) and term.function == "and":
        return [one for argument in term.arguments for one in conjuncts(argument)]
    return [] if term == TRUE else [term]


def aggregate_oql_type(monoid: Monoid, element: OqlType) -> OqlType:
    """The type of an aggregate of elements of a type."""
    if monoid is Monoid.COUNT:
        return ValueType(BIGINT)
    if not isinstance(element, ValueType):
        raise TypeMismatch(f"{monoid.value} takes values, not {element}")
    numeric = monoid in (Monoid.SUM, Monoid.AVG) and element.type in (STRING, VOID)
    return ValueType(aggregate_type(monoid.value, DOUBLE if numeric else element.type))


def common_oql_type(types: Sequence[OqlType]) -> OqlType:
    """The type of values of several types when they are elements of one collection."""
    return reduce(_common, types) if types else ValueType(VOID)


def _common(one: OqlType, other: OqlType) -> OqlType:
    match one, other:
        case _ if one == other:
            return one
        case ValueType(a), ValueType(b):
            return ValueType(common_type([a, b]))
        case CollectionType(a, x), CollectionType(b, y):
            return CollectionType(a if a is b else Collection.BAG, _common(x, y))
        case RecordType(a), RecordType(b) if [name for name, _ in a] == [name for name, _ in b]:
            return RecordType(tuple((name, _common(x, y)) for (name, x), (_, y) in zip(a, b, strict=True)))
        case (ReferenceType(), ValueType()) | (ValueType(), ReferenceType()) | (ReferenceType(), ReferenceType()):
            return ValueType(common_type([one.stored, other.stored]))
    raise TypeMismatch(f"{one} and {other} cannot be elements of one collection")
