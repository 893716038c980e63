"""Polynomials: what statements add to maps, as sums of products.

The numbers of a map form a ring, so ``SUM(a.volume - b.volume)`` over a join is ``SUM(a.volume) * COUNT(b)`` less
``COUNT(a) * SUM(b.volume)``: four sums, each over one relation alone. A *term* is a whole coefficient times factors; a
factor is an exact number of one row (or of one map), or a condition, which counts 1 where it is true and 0 elsewhere.
NULL counts 0, which is what adding nothing means.

Products and sums are those of ``algebra.functions.ring_arithmetic``: exact, where SQL's own would round or overflow. So
an overflow of a single product is no error here, as long as its sum fits; what leaves a program is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import product

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction, conjuncts
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Literal, Scalar, is_nullable
from tidemill.algebra.functions.numbers.ring_arithmetic import scale_of
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.algebra.text import text_of
from tidemill.algebra.values.decimals import unit
from tidemill.compiler.analysis.failures import is_exact
from tidemill.compiler.analysis.ring import ONE, ZERO, is_ring, plus, times
from tidemill.compiler.viewlets.ring_calculus.conditions import is_fragile
from tidemill.model import types as t
from tidemill.model.types import BIGINT, BOOLEAN, Type


@dataclass(frozen=True, slots=True)
class ProductTerm:
    """``coefficient`` times the product of ``factors``: exact numbers, and conditions that count 1 or 0."""

    coefficient: int
    factors: tuple[Scalar, ...] = ()


Polynomial = tuple[ProductTerm, ...]

UNIT: Polynomial = (ProductTerm(1),)
"""The constant one: what a row adds to the weight."""

ColumnOwner = Callable[[str], object]
"""The part of a product that a column belongs to. Factors are kept whole within one part and split between parts."""


# ---------------------------------------------------------------------------------------------------- arithmetic


def as_ring(scalar: Scalar, type_: Type) -> Scalar:
    """``scalar`` as a number of the ring ``type_``: an INT is widened, a DECIMAL gets the digits that it lacks."""
    if scalar == ZERO:
        return _zero(type_)
    lacking = scale_of(type_) - scale_of(scalar.type)
    if isinstance(type_, t.Decimal) and (lacking > 0 or not isinstance(scalar.type, t.Decimal)):
        return times(scalar, Literal(Decimal(1).quantize(unit(lacking)), t.Decimal(lacking + 1, lacking)))
    return scalar


def exact(scalar: Scalar) -> Scalar:
    """``scalar`` with the ring's sums and products in place of SQL's, wherever SQL's do not round.

    >>> from tidemill.algebra.expressions.scalars import Column
    >>> text_of(exact(Cast(call("add", Column("x", t.INT), Literal(1, t.INT)), BIGINT)))
    'CAST(x AS BIGINT) + 1'
    """
    match scalar:
        case Cast(input=input_) if is_exact(scalar):
            return exact(input_)
        case Call(function="multiply", arguments=(left, right)) if _multiplies(scalar):
            return times(exact(left), exact(right))
        case Call(function="add", arguments=(left, right)) if _adds(scalar):
            return plus(exact(left), exact(right))
        case Call(function="subtract", arguments=(left, right)) if _adds(scalar):
            return plus(exact(left), times(Literal(-1, BIGINT), exact(right)))
        case Call(function="negate", arguments=(input_,)) if is_ring(scalar.type):
            return times(Literal(-1, BIGINT), exact(input_))
    return scalar


def _multiplies(node: Call) -> bool:
    """True if SQL's product is the exact one, but for overflow: a DECIMAL that outgrows 38 digits may be rounded."""
    return is_ring(node.of) and scale_of(node.of) == sum(scale_of(argument.type) for argument in node.arguments)


def _adds(node: Call) -> bool:
    return is_ring(node.of) and scale_of(node.of) == max(scale_of(argument.type) for argument in node.arguments)


# ----------------------------------------------------------------------------------------------------- expansion


def expand(scalar: Scalar, owner: ColumnOwner) -> Polynomial:
    """``scalar`` as a polynomial whose factors each belong to one part, as far as its arithmetic allows that.

    >>> from tidemill.algebra.expressions.scalars import Column
    >>> volume = {name: Column(f"{name}.volume", BIGINT, nullable=False) for name in "ab"}
    >>> part = lambda name: name.partition(".")[0]
    >>> [(term.coefficient, *map(text_of, term.factors)) for term in expand(call("subtract", *volume.values()), part)]
    [(1, 'a.volume'), (-1, 'b.volume')]
    """
    match scalar:
        case Literal(value=None):
            return ()
        case Literal(value=value, of=of) if is_ring(of) and value == int(value):
            return (ProductTerm(int(value)),) if value else ()
        case Case(branches=((condition, value),), default=Literal(value=None | 0 | Decimal(), of=of) as default) if (
            is_ring(of) and not default.value
        ):
            return multiplied((ProductTerm(1, tuple(indicators(condition))),), expand(value, owner))
        case Cast(input=input_) if is_exact(scalar):
            return expand(input_, owner)
        case Call(function="multiply", arguments=(left, right)) if _multiplies(scalar):
            return multiplied(expand(left, owner), expand(right, owner))
    if not is_ring(scalar.type) or len({owner(name) for name in columns_in(scalar)}) <= 1:
        return (ProductTerm(1, (exact(scalar),)),)
    match scalar:
        case Call(function="add" | "subtract" as name, arguments=(left, right)) if _adds(scalar):
            sign = 1 if name == "add" else -1
            # A NULL on one side makes the whole sum NULL, so each side counts only where the other is known.
            ours = multiplied(expand(left, owner), (ProductTerm(1, tuple(known(right))),))
            theirs = multiplied(expand(right, owner), (ProductTerm(sign, tuple(known(left))),))
            return collected((*ours, *theirs))
        case Call(function="negate", arguments=(input_,)):
            return scaled(expand(input_, owner), -1)
    return (ProductTerm(1, (scalar,)),)


def indicators(condition: Scalar) -> list[Scalar]:
    """Conditions whose product is ``condition``, in parts as small as they come."""
    parts: list[Scalar] = []
    for part in conjuncts(condition):
        match part:
            case Call(function="is_not_null", arguments=(value,)):
                parts += known(value)
            case _:
                parts.append(part)
    return list(dict.fromkeys(parts))


def known(scalar: Scalar) -> list[Scalar]:
    """Conditions that are all true where ``scalar`` is not NULL: one for each column, where it is strict in them."""
    if not is_nullable(scalar):
        return []
    match scalar:
        case Cast(input=input_) if is_exact(scalar):
            return known(input_)
        case Call(function=name, arguments=arguments) if FUNCTIONS[name].strict and FUNCTIONS[name].null_when is any:
            return list(dict.fromkeys(part for argument in arguments for part in known(argument)))
    return [Call("is_not_null", (scalar,), BOOLEAN)]


def multiplied(left: Polynomial, right: Polynomial) -> Polynomial:
    """The product, term by term. A condition need not be counted twice."""
    terms = (_product(one, other) for one, other in product(left, right))
    return collected(terms)


def _product(left: ProductTerm, right: ProductTerm) -> ProductTerm:
    factors = list(left.factors)
    factors += [f for f in right.factors if not (f.type == BOOLEAN and f in factors)]
    return ProductTerm(left.coefficient * right.coefficient, tuple(factors))


def scaled(polynomial: Polynomial, factor: int) -> Polynomial:
    """Every coefficient times ``factor``."""
    return tuple(ProductTerm(term.coefficient * factor, term.factors) for term in polynomial if factor)


def collected(terms: Iterable[ProductTerm]) -> Polynomial:
    """Like terms added up; those that cancel are dropped."""
    sums: dict[tuple[Scalar, ...], int] = {}
    for term in terms:
        factors = tuple(sorted(term.factors, key=rank))
        sums[factors] = sums.get(factors, 0) + term.coefficient
    return tuple(ProductTerm(coefficient, factors) for factors, coefficient in sums.items() if coefficient)


def rank(factor: Scalar) -> tuple[bool, str]:
    """Sort key of a factor in a product: by its text, but factors that can fail come last."""
    return is_fragile(factor), text_of(factor)


def substituted(polynomial: Polynomial, values: Mapping[str, Scalar]) -> Polynomial:
    """The polynomial with expressions in place of the columns of those names."""
    return tuple(
        ProductTerm(term.coefficient, tuple(substitute(f, values) for f in term.factors)) for term in polynomial
    )


def columns_of(polynomial: Polynomial) -> set[str]:
    """The columns that a polynomial reads."""
    return {name for term in polynomial for factor in term.factors for name in columns_in(factor)}


# -------------------------------------------------------------------------------------------------- factorization


def product_of(factors: Sequence[Scalar]) -> Scalar:
    """The factors multiplied; conditions guard the product of the numbers."""
    numbers = [factor for factor in factors if factor.type != BOOLEAN]
    condition = conjunction([factor for factor in factors if factor.type == BOOLEAN])
    number = reduce(times, numbers, ONE)
    return number if condition is None else where(condition, number)


def scalar_of(polynomial: Polynomial) -> Scalar:
    """The polynomial as one expression, with common factors taken out of its sums: ``a*(b + c)`` for ``a*b + a*c``.

    A factor of a sum counts 0 where it is NULL; where there is but one term, the whole may be NULL, which adds nothing.
    """
    return _factorized(polynomial) if len(polynomial) == 1 else number_of(polynomial)


def number_of(polynomial: Polynomial) -> Scalar:
    """The polynomial as an expression that is never NULL: NULL terms are 0."""
    if not polynomial:
        return ZERO
    return _factorized([ProductTerm(term.coefficient, tuple(map(_counted, term.factors))) for term in polynomial])


def as_value(polynomial: Polynomial, type_: Type) -> Scalar:
    """The polynomial as an expression that a value of ``type_`` sums up."""
    if not polynomial and not is_ring(type_):
        return Literal(None, type_)
    scalar = scalar_of(polynomial)
    return as_ring(scalar, type_) if is_ring(type_) else scalar


def _factorized(terms: Sequence[ProductTerm]) -> Scalar:
    if len(terms) == 1:
        return times(Literal(terms[0].coefficient, BIGINT), product_of(terms[0].factors))
    counts = Counter(factor for term in terms for factor in dict.fromkeys(term.factors))
    factor, count = max(counts.items(), key=lambda pair: pair[1], default=(ONE, 0))
    if count < 2:
        return reduce(plus, [_factorized([term]) for term in terms])
    inside = [_without(term, factor) for term in terms if factor in term.factors]
    outside = [term for term in terms if factor not in term.factors]
    taken = _taken_out(factor, _factorized(inside))
    return plus(taken, _factorized(outside)) if outside else taken


def _taken_out(factor: Scalar, rest: Scalar) -> Scalar:
    return where(factor, rest) if factor.type == BOOLEAN else times(factor, rest)


def _without(term: ProductTerm, factor: Scalar) -> ProductTerm:
    factors = list(term.factors)
    factors.remove(factor)
    return ProductTerm(term.coefficient, tuple(factors))


def where(condition: Scalar, number: Scalar) -> Scalar:
    """``number`` where ``condition`` is true, else 0."""
    of = number.type if isinstance(number.type, t.Decimal) else BIGINT
    number = Cast(number, BIGINT) if number.type == t.INT else number
    return Case(((condition, number),), _zero(of), of)


def _counted(factor: Scalar) -> Scalar:
    """A number that is 0 where it would be NULL."""
    if factor.type == BOOLEAN or not is_nullable(factor):
        return factor
    return call("coalesce", factor, _zero(factor.type))


def _zero(type_: Type) -> Literal:
    return Literal(Decimal(0).scaleb(-scale_of(type_)) if isinstance(type_, t.Decimal) else 0, type_)
