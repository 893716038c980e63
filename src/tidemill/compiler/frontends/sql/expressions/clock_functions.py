"""NOW() and its kin: the time at which a statement that is run once began, or the clock of a materialized view."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sqlglot import exp

from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionRules, ExpressionTranslator
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, Type

CLOCK_FUNCTIONS: dict[str, Type] = {
    **dict.fromkeys(("current_timestamp", "now"), TIMESTAMP),
    **dict.fromkeys(("curdate", "current_date"), DATE),
    "localtimestamp": TIMESTAMP_NTZ,
}
"""The functions of the clock, and the type of each. The moment is in UTC, as every session is."""


def rules_at(rules: ExpressionRules, moment: datetime.datetime) -> ExpressionRules:
    """``rules`` in which functions of the clock are constants of ``moment``."""
    return _with_clock(rules, lambda expressions, node: Literal(moment, TIMESTAMP))


def rules_of_view(rules: ExpressionRules) -> ExpressionRules:
    """``rules`` in which functions of the clock read that of the view, in WHERE alone."""
    return _with_clock(rules, _read)


def _with_clock(
    rules: ExpressionRules, moment: Callable[[ExpressionTranslator, exp.Anonymous], Scalar]
) -> ExpressionRules:
    clock = {name: partial(_from_clock, of, moment) for name, of in CLOCK_FUNCTIONS.items()}
    return replace(rules, functions={**rules.functions, **clock})


def _from_clock(
    of: Type,
    moment: Callable[[ExpressionTranslator, exp.Anonymous], Scalar],
    expressions: ExpressionTranslator,
    node: exp.Anonymous,
) -> Scalar:
    if node.expressions:
        raise TypeMismatch(f"{node.name.lower()} takes no arguments")
    return convert(moment(expressions, node), of)


def _read(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    if expressions.clock is None:
        raise Unsupported(
            f"{node.name.lower()}() cannot be used here in a view",
            detail="Every row would change whenever the clock advances. In a comparison in WHERE a row comes and goes "
            "at instants that are known beforehand.",
            hint="Write WHERE ts > now() - INTERVAL 1 HOUR, or compute it when the view is read: "
            "SELECT now() - ts FROM the_view.",
        )
    return expressions.clock.read(expressions.source.place(node))
