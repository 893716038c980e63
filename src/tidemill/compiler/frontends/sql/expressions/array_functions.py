"""Array functions whose types depend on more than the types of their arguments: column names and intervals."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.algebra.functions.nested.structs import element_of
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.expressions.intervals import DAY
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import INTERVAL_DAY, Array, Date, Field, Struct, Timestamp


def from_sequence(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``SEQUENCE(start, stop[, step])`` over integers, or over dates or timestamps by an interval or else by days."""
    if not 2 <= len(node.expressions) <= 3:
        raise TypeMismatch("SEQUENCE takes a start, a stop, and perhaps a step")
    bounds, steps = [expressions.scalar(bound) for bound in node.expressions[:2]], node.expressions[2:]
    of = common_type([bound.type for bound in bounds])
    if not isinstance(of, Date | Timestamp):
        return call("sequence", *bounds, *map(expressions.scalar, steps))
    start, stop = (convert(bound, of) for bound in bounds)
    if steps:
        return call("sequence_of_moments", start, stop, expressions.scalar(steps[0]))
    # Without a step it goes day by day, in whichever direction that is.
    forward, back = (call("sequence_of_moments", start, stop, Literal(step, INTERVAL_DAY)) for step in (DAY, -DAY))
    return call("if", call("le", start, stop), forward, back)


def from_arrays_zip(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``ARRAYS_ZIP(a, b)``: structs whose members are called like the arrays, or by number where these have no name."""
    arrays = [expressions.scalar(argument) for argument in node.expressions]
    names = [_name(argument, place) for place, argument in enumerate(node.expressions)]
    if len(set(names)) < len(names):
        raise Unsupported("ARRAYS_ZIP of two arrays of one name", hint="Its structs would have two members of it.")
    members = (Field(name, element_of(array.type)) for name, array in zip(names, arrays, strict=True))
    return convert(call(node.name, *arrays), Array(Struct(tuple(members))))


def _name(node: exp.Expr, place: int) -> str:
    named = isinstance(node, exp.Column | exp.Dot)
    return str(node.expression.name if isinstance(node, exp.Dot) else node.name).lower() if named else str(place)


ARRAY_FUNCTIONS: dict[str, Callable[[ExpressionTranslator, exp.Anonymous], Scalar]] = {
    "arrays_zip": from_arrays_zip,
    "sequence": from_sequence,
}
"""Functions of arrays with a rule of their own, by name."""
