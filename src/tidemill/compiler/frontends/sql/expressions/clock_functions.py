"""NOW() and its kin in statements that are run once: all of them are the time at which the statement began."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sqlglot import exp

from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionRules, ExpressionTranslator
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import DATE, TIMESTAMP, TIMESTAMP_NTZ

CLOCK_FUNCTIONS: dict[str, Callable[[datetime.datetime], Literal]] = {
    **dict.fromkeys(("current_timestamp", "now"), lambda moment: Literal(moment, TIMESTAMP)),
    **dict.fromkeys(("curdate", "current_date"), lambda moment: Literal(moment.date(), DATE)),
    "localtimestamp": lambda moment: Literal(moment, TIMESTAMP_NTZ),
}
"""The functions of the clock, each as a constant at a moment, which is in UTC as every session is."""


def rules_at(rules: ExpressionRules, moment: datetime.datetime) -> ExpressionRules:
    """``rules`` in which functions of the clock are constants of ``moment``."""
    clock = {name: partial(_from_clock, read(moment)) for name, read in CLOCK_FUNCTIONS.items()}
    return replace(rules, functions={**rules.functions, **clock})


def _from_clock(value: Literal, expressions: ExpressionTranslator, node: exp.Expr) -> Scalar:
    if node.expressions:
        raise TypeMismatch(f"{node.name.lower()} takes no arguments")
    return value
