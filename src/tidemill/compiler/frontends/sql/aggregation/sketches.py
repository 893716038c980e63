"""Aggregates that make or combine sketches: the types that they take, and their sizes."""

from __future__ import annotations

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.parameters import ParameterType, bitmap, flag
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.functions.semistructured.sketches import KLL_FORMS
from tidemill.algebra.sketches import hyperloglog, kll, theta
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


def from_count_min(given: AggregateArguments) -> AggregateCall:
    """``COUNT_MIN_SKETCH(x, error, confidence, seed)``."""
    argument, *constants = given.arguments
    error, confidence, seed = (
        given.constant(one, of) for one, of in zip(constants, (DOUBLE, DOUBLE, INT), strict=True)
    )
    if error is None or confidence is None or seed is None or error <= 0 or not 0 < confidence < 1:
        raise TypeMismatch("COUNT_MIN_SKETCH takes an error above 0, a confidence between 0 and 1, and a seed")
    return given.to_call("count_min_sketch", argument, parameters=[error, confidence, seed])


_hashed = one_of(INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, Array(INT), Array(BIGINT), Array(VOID))
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
