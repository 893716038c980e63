"""Functions and operators of terms: which kind they have, and the scalar that each becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tidemill.algebra.aggregates import aggregate_type
from tidemill.algebra.coercion import common_type, convert
from tidemill.algebra.functions import call
from tidemill.algebra.scalars import Case, Column, Literal, Scalar
from tidemill.compiler.frontends.literals import from_integer
from tidemill.compiler.frontends.oql.calculus import Constant, Monoid, Operation, Term
from tidemill.compiler.frontends.oql.kinds import Kind, Many, Plain, Reference, Structure
from tidemill.model.classes import Collection
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, VOID

TRUE = Constant(Literal(True, BOOLEAN))

ON_OBJECTS = frozenset(("eq", "ne", "is_null", "is_not_null", "in_collection", "count_elements"))
"""What can be done with references; everything else is for values."""


def integer(value: int) -> Constant:
    """A whole number."""
    return Constant(from_integer(value))


def operation(function: str, *arguments: Term) -> Operation:
    """``function`` of ``arguments``, with the type that the algebra gives it; comparing with nil asks whether it is."""
    if function in ("eq", "ne") and any(_is_nil(argument) for argument in arguments):
        other = arguments[0] if _is_nil(arguments[1]) else arguments[1]
        return operation("is_null" if function == "eq" else "is_not_null", other)
    _check_objects(function, arguments)
    of = applied(function, [_probe(argument) for argument in arguments]).type
    return Operation(function, arguments, Plain(of))


def _is_nil(term: Term) -> bool:
    return isinstance(term, Constant) and term.literal.value is None


def _check_objects(function: str, arguments: Sequence[Term]) -> None:
    classes = [argument.kind for argument in arguments if isinstance(argument.kind, Reference)]
    if classes and function not in ON_OBJECTS:
        raise TypeMismatch(
            f"{function} takes values, and this is {classes[0]}", hint="Name one of its attributes after a dot."
        )


def _probe(term: Term) -> Scalar:
    """Something of the same type, to ask for the type of what is made of it."""
    return term.literal if isinstance(term, Constant) else Column("?", term.kind.stored)


def applied(function: str, arguments: Sequence[Scalar]) -> Scalar:
    """The scalar that a function is: one of the algebra's, or made of them."""
    special = SPECIAL.get(function)
    return call(function, *arguments) if special is None else special(*arguments)


def count_elements(array: Scalar) -> Scalar:
    """How many elements a collection has."""
    return convert(call("size", array), BIGINT)


def in_collection(value: Scalar, array: Scalar) -> Scalar:
    """Whether a value is among the elements; what is undefined is not."""
    return call("coalesce", call("array_contains", array, value), Literal(False, BOOLEAN))


def element(array: Scalar) -> Scalar:
    """The one element; of none, or of several, there is no such place, which is an error."""
    one = call("eq", call("size", array), Literal(1, INT))
    return call("get_item", array, Case(((one, Literal(0, INT)),), Literal(-1, INT), INT))


def sorted_of(function: str) -> Callable[..., Scalar]:
    """A function of two arrays, whose elements are then in order: so equal collections are equal arrays."""

    def rule(one: Scalar, other: Scalar) -> Scalar:
        return call("sort_array", call(function, one, other))

    return rule


SPECIAL: dict[str, Callable[..., Scalar]] = {
    "except_set": sorted_of("array_except"),
    "intersect_set": sorted_of("array_intersect"),
    "union_bag": sorted_of("concat"),
    "union_set": sorted_of("array_union"),
    "count_elements": count_elements,
    "element": element,
    "in_collection": in_collection,
}


def condition(term: Term) -> Term:
    """``term`` where a condition is wanted."""
    if term.kind == Plain(VOID):
        return Constant(Literal(None, BOOLEAN))
    if term.kind != Plain(BOOLEAN):
        raise TypeMismatch(f"a condition is true or false, and this is {term.kind}")
    return term


def element_of(term: Term) -> Kind:
    """What the elements of a collection stand for."""
    if not isinstance(term.kind, Many):
        raise TypeMismatch(f"a collection is wanted here, and this is {term.kind}")
    return term.kind.element


def conjuncts(term: Term) -> list[Term]:
    """The conditions that ``and`` joins; what is always true is none."""
    if isinstance(term, Operation) and term.function == "and":
        return [one for argument in term.arguments for one in conjuncts(argument)]
    return [] if term == TRUE else [term]


def aggregate_kind(monoid: Monoid, element: Kind) -> Kind:
    """What an aggregate of elements of a kind stands for."""
    if monoid is Monoid.COUNT:
        return Plain(BIGINT)
    if not isinstance(element, Plain):
        raise TypeMismatch(f"{monoid.value} takes values, and these are each {element}")
    numeric = monoid in (Monoid.SUM, Monoid.AVG) and element.type in (STRING, VOID)
    return Plain(aggregate_type(monoid.value, DOUBLE if numeric else element.type))


def common_kind(kinds: Sequence[Kind]) -> Kind:
    """What values of several kinds stand for when they are elements of one collection."""
    return reduce(_common, kinds) if kinds else Plain(VOID)


def _common(one: Kind, other: Kind) -> Kind:
    match one, other:
        case _ if one == other:
            return one
        case Plain(a), Plain(b):
            return Plain(common_type([a, b]))
        case Many(a, x), Many(b, y):
            return Many(a if a is b else Collection.BAG, _common(x, y))
        case Structure(a), Structure(b) if [name for name, _ in a] == [name for name, _ in b]:
            return Structure(tuple((name, _common(x, y)) for (name, x), (_, y) in zip(a, b, strict=True)))
        case (Reference(), Plain()) | (Plain(), Reference()) | (Reference(), Reference()):
            return Plain(BIGINT)
    raise TypeMismatch(f"{one} and {other} cannot be elements of one collection")
