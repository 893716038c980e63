"""Aggregates that make or combine sketches: the types that they take, and their sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.parameters import ParameterType, anything, bitmap, count, flag, of_type
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.functions.function import expect
from tidemill.algebra.functions.semistructured.sketches import DEFAULT_TOP, KLL_FORMS, check_lg
from tidemill.algebra.functions.semistructured.tuple_sketches import TUPLE_FORMS, checked_mode
from tidemill.algebra.sketches import frequent_items, hyperloglog, kll, theta
from tidemill.compiler.frontends.sql.aggregation.arguments import AggregateArguments, AggregateRule, with_parameters
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    VOID,
    Array,
    Integral,
    SmallInt,
    TinyInt,
    Type,
    is_numeric,
)


def one_of(*types: Type, of: Type | None = None) -> ParameterType:
    """A value of one of these types as it is, or as ``of``."""

    def kind(scalar: Scalar) -> Scalar:
        if scalar.type not in types:
            raise TypeMismatch(f"{', '.join(map(str, types))} were expected, not {scalar.type}")
        return scalar if of is None else convert(scalar, of)

    return kind


def size(scalar: Scalar) -> Scalar:
    """The size of a sketch: a whole number of at most 32 bits."""
    if not isinstance(scalar.type, type(INT) | SmallInt | TinyInt):
        raise TypeMismatch(f"a constant of type INT was expected, not {scalar.type}")
    return scalar


def countable(scalar: Scalar) -> Scalar:
    """A whole number, a text or bytes."""
    if not (isinstance(scalar.type, Integral) or scalar.type in (STRING, BINARY)):
        raise TypeMismatch(f"a whole number, a text or bytes were expected, not {scalar.type}")
    return scalar


def sized(function: str, default: int | None, least: int, most: int) -> AggregateRule:
    """The rule of an aggregate whose second argument, if it is there, is a constant between two bounds."""

    def rule(given: AggregateArguments) -> AggregateCall:
        argument, *sizes = given.arguments
        found = given.constant(sizes[0], INT) if sizes else default
        if sizes and (found is None or not least <= found <= most):
            raise TypeMismatch(f"{given.name.upper()} takes a size between {least} and {most}")
        return given.to_call(function, argument, parameters=[found])

    return rule


def from_theta_intersection(given: AggregateArguments) -> AggregateCall:
    """THETA_INTERSECTION_AGG(sketch)."""
    return given.to_call("theta_intersection_agg", given.arguments[0])


def from_hll_union(given: AggregateArguments) -> AggregateCall:
    """``HLL_UNION_AGG(sketch, different sizes are allowed)``."""
    sketch, *allowed = given.arguments
    return given.to_call("hll_union_agg", sketch, parameters=[bool(allowed) and given.constant(allowed[0], BOOLEAN)])


def tuple_key(scalar: Scalar) -> Scalar:
    """The key of a tuple sketch: what is hashed as it is, other numbers as DOUBLE, and the rest as a text."""
    if scalar.type in KEY_TYPES or scalar.type == VOID:
        return convert(scalar, INT) if scalar.type == VOID else scalar
    return convert(scalar, DOUBLE if is_numeric(scalar.type) else expect(scalar.type, STRING))


def from_tuple_sketch(given: AggregateArguments) -> AggregateCall:
    """``TUPLE_SKETCH_AGG_DOUBLE(key, summary, size, mode)``, and that with whole numbers as summaries."""
    key, summary, *constants = given.arguments
    return given.to_call(
        given.name, key, [summary], parameters=[_lg(given, constants[:1]), _mode(given, constants[1:])]
    )


def from_tuple_union(given: AggregateArguments) -> AggregateCall:
    """``TUPLE_UNION_AGG_DOUBLE(sketch, size, mode)``, and that with whole numbers as summaries."""
    sketch, *constants = given.arguments
    return given.to_call(given.name, sketch, parameters=[_lg(given, constants[:1]), _mode(given, constants[1:])])


def from_tuple_intersection(given: AggregateArguments) -> AggregateCall:
    """``TUPLE_INTERSECTION_AGG_DOUBLE(sketch, mode)``, and that with whole numbers as summaries."""
    sketch, *constants = given.arguments
    return given.to_call(given.name, sketch, parameters=[_mode(given, constants)])


def _lg(given: AggregateArguments, constants: Sequence[Scalar]) -> int:
    if not constants:
        return theta.DEFAULT_LG
    found = given.constant(constants[0], INT)
    if found is None:
        raise TypeMismatch(f"{given.name.upper()} takes a size that is not NULL")
    check_lg(found)
    return int(found)


def _mode(given: AggregateArguments, constants: Sequence[Scalar]) -> str:
    found = given.constant(constants[0], STRING) if constants else "sum"
    if found is None:
        raise TypeMismatch(f"{given.name.upper()} takes a mode that is not NULL")
    return checked_mode(found)


def from_top_k(given: AggregateArguments) -> AggregateCall:
    """``APPROX_TOP_K(x, number of values, values tracked)``."""
    argument, *constants = given.arguments
    wanted = given.constant(constants[0], INT) if constants else DEFAULT_TOP
    tracked = _tracked(given, constants[1:])
    if wanted is None or wanted <= 0 or tracked < wanted:
        raise TypeMismatch("APPROX_TOP_K takes a number of values above 0, and tracks at least as many")
    return given.to_call(given.name, argument, parameters=[wanted, tracked])


def from_top_k_sketch(given: AggregateArguments) -> AggregateCall:
    """``APPROX_TOP_K_ACCUMULATE(x, values tracked)``."""
    argument, *constants = given.arguments
    return given.to_call(given.name, argument, parameters=[_tracked(given, constants)])


def from_top_k_combine(given: AggregateArguments) -> AggregateCall:
    """``APPROX_TOP_K_COMBINE(sketch, values tracked)``; without a number all sketches track as many."""
    argument, *constants = given.arguments
    return given.to_call(given.name, argument, parameters=[_tracked(given, constants) if constants else None])


def _tracked(given: AggregateArguments, constants: Sequence[Scalar]) -> int:
    found = given.constant(constants[0], INT) if constants else frequent_items.DEFAULT_TRACKED
    if found is None or not 0 < found <= frequent_items.MOST_TRACKED:
        raise TypeMismatch(f"{given.name.upper()} tracks between 1 and {frequent_items.MOST_TRACKED} values")
    return int(found)


def from_count_min(given: AggregateArguments) -> AggregateCall:
    """``COUNT_MIN_SKETCH(x, error, confidence, seed)``."""
    argument, *constants = given.arguments
    error, confidence, seed = (
        given.constant(one, of) for one, of in zip(constants, (DOUBLE, DOUBLE, INT), strict=True)
    )
    if error is None or confidence is None or seed is None or error <= 0 or not 0 < confidence < 1:
        raise TypeMismatch("COUNT_MIN_SKETCH takes an error above 0, a confidence between 0 and 1, and a seed")
    return given.to_call("count_min_sketch", argument, parameters=[error, confidence, seed])


KEY_TYPES = (INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, Array(INT), Array(BIGINT))
"""Types whose values are hashed as they are."""

_hashed = one_of(*KEY_TYPES, Array(VOID))
_text = of_type(STRING)
_counted = one_of(INT, BIGINT, STRING, BINARY)
_lg_theta = (theta.DEFAULT_LG, theta.LEAST_LG, theta.MOST_LG)
_lg_hll = (hyperloglog.DEFAULT_LG, hyperloglog.LEAST_LG, hyperloglog.MOST_LG)
_sampled: dict[str, ParameterType] = {
    "bigint": one_of(TINYINT, SMALLINT, INT, BIGINT, of=BIGINT),
    "double": one_of(FLOAT, DOUBLE, of=DOUBLE),
    "float": one_of(FLOAT),
}

SKETCH_RULES: dict[str, AggregateRule] = {
    "theta_sketch_agg": with_parameters(sized("theta_sketch_agg", *_lg_theta), _hashed, size, optional=1),
    "theta_union_agg": with_parameters(sized("theta_union_agg", *_lg_theta), bitmap, size, optional=1),
    "theta_intersection_agg": with_parameters(from_theta_intersection, bitmap),
    "approx_top_k": with_parameters(from_top_k, anything, count, count, optional=2),
    "approx_top_k_accumulate": with_parameters(from_top_k_sketch, anything, count, optional=1),
    "approx_top_k_combine": with_parameters(from_top_k_combine, anything, count, optional=1),
    **{
        f"tuple_sketch_agg_{kind}": with_parameters(
            from_tuple_sketch, tuple_key, of_type(of), count, _text, optional=2, distinct=False
        )
        for kind, (_, of) in TUPLE_FORMS.items()
    },
    **{
        f"tuple_union_agg_{kind}": with_parameters(from_tuple_union, bitmap, count, _text, optional=2)
        for kind in TUPLE_FORMS
    },
    **{
        f"tuple_intersection_agg_{kind}": with_parameters(from_tuple_intersection, bitmap, _text, optional=1)
        for kind in TUPLE_FORMS
    },
    "hll_sketch_agg": with_parameters(sized("hll_sketch_agg", *_lg_hll), _counted, size, optional=1),
    "hll_union_agg": with_parameters(from_hll_union, bitmap, flag, optional=1),
    **{
        f"kll_sketch_agg_{kind}": with_parameters(
            sized(f"kll_sketch_agg_{kind}", kll.DEFAULT_K, kll.LEAST_K, kll.MOST_K), _sampled[kind], size, optional=1
        )
        for kind in KLL_FORMS
    },
    **{
        f"kll_merge_agg_{kind}": with_parameters(
            sized(f"kll_merge_agg_{kind}", None, kll.LEAST_K, kll.MOST_K), bitmap, size, optional=1
        )
        for kind in KLL_FORMS
    },
    "count_min_sketch": with_parameters(from_count_min, countable, one_of(DOUBLE), one_of(DOUBLE), size),
}
"""The rules of aggregates over sketches."""
