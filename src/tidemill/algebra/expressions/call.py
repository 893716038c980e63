"""A function applied by name: types resolved, conversions inserted as Spark inserts them."""

from __future__ import annotations

import difflib

from tidemill.algebra.expressions.characters import COMPARISONS, padded_to_compare
from tidemill.algebra.expressions.collations import call_collated, is_collated
from tidemill.algebra.expressions.conversions import convert, narrow_literals
from tidemill.algebra.expressions.derived_functions import ALIASES, DERIVED_FUNCTIONS, VOLATILE
from tidemill.algebra.expressions.interval_operators import resolve_operator
from tidemill.algebra.expressions.scalars import Call, Literal, Scalar
from tidemill.algebra.functions.function import USER_FUNCTION_MARK
from tidemill.algebra.functions.registry import FUNCTIONS, INTERNAL, OPERATORS
from tidemill.model.errors import TypeMismatch, UnknownName, Unsupported
from tidemill.model.types import VOID, Map

OF_MAPS = {
    "size": "map_size",
    "cardinality": "map_size",
    "element_at": "map_element",
    "try_element_at": "map_element",
}
"""Functions of arrays that are others of maps."""


def call_named(name: str, *arguments: Scalar) -> Scalar:
    """As ``call``, by a name that a user wrote."""
    if name.lower() in INTERNAL:
        raise _unknown(name.lower())
    return call(name, *arguments)


def call(name: str, *arguments: Scalar) -> Scalar:
    """``name`` applied to ``arguments``: types resolved, conversions inserted as Spark inserts them.

    Most names give a ``Call``; forms such as IF, NVL and BETWEEN give what they stand for.
    """
    name = name.lower()
    if name in OF_MAPS and arguments and isinstance(arguments[0].type, Map):
        name = OF_MAPS[name]
    name = ALIASES.get(name, name)
    if name in VOLATILE:
        raise Unsupported(
            f"{name}() cannot be used in a view",
            detail="Its value changes although no row changes, so no change would ever carry the new value.",
            hint="Keep the value in a column or a table, and change it there.",
        )
    try:
        return _apply(name, arguments)
    except TypeMismatch as error:
        what = f"{name.partition(USER_FUNCTION_MARK)[0]}: {error.what}"
        raise TypeMismatch(what, where=error.where, detail=error.detail, hint=error.hint) from None


def _is_constant(scalar: Scalar) -> bool:
    """True for a literal, and for an array of literals."""
    if isinstance(scalar, Call) and scalar.function == "array":
        return all(map(_is_constant, scalar.arguments))
    return isinstance(scalar, Literal)


def _apply(name: str, arguments: tuple[Scalar, ...]) -> Scalar:
    if any(is_collated(argument.type) for argument in arguments):
        found = call_collated(call, name, arguments)
        if found is not None:
            return found
    if (resolved := resolve_operator(name, arguments)) is not None:
        return resolved
    if form := DERIVED_FUNCTIONS.get(name):
        return form(call, arguments)
    function = FUNCTIONS.get(name)
    if function is None:
        raise _unknown(name)
    for position in function.constants:
        if position < len(arguments) and not _is_constant(arguments[position]):
            raise TypeMismatch(f"argument {position + 1} must be a constant")
    given = narrow_literals(arguments) if name in OPERATORS else arguments
    if name in COMPARISONS:
        given = padded_to_compare(given)
    try:
        types, of = function.infer([argument.type for argument in given])
    except (IndexError, ValueError):
        types, of = (), VOID
    if len(types) != len(given):
        raise TypeMismatch(f"it cannot take {len(given)} arguments")
    null = function.strict and any(isinstance(argument, Literal) and argument.value is None for argument in given)
    if function.check is not None and not null:
        function.check([argument.value if isinstance(argument, Literal) else None for argument in given])
    converted = (convert(argument, type_) for argument, type_ in zip(given, types, strict=True))
    return Call(name, tuple(converted), of)


def _unknown(name: str) -> UnknownName:
    known = {*FUNCTIONS, *DERIVED_FUNCTIONS, *ALIASES} - INTERNAL
    near = difflib.get_close_matches(name, sorted(known), n=3)
    return UnknownName(f"there is no function {name}", hint=f"Did you mean {' or '.join(near)}?" if near else None)
