"""``CHECK (condition)`` as algebra: a condition over the columns of one row, by their bare names."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from tidemill.algebra.expressions.scalars import Scalar, column
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_untranslated
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.model.errors import TidemillError
from tidemill.model.schema import CheckConstraint, Table


def translate_check(node: exp.Expr, source: SqlText, table: Table) -> Scalar:
    """The condition ``node`` over the columns of ``table``.

    It is a property of that row alone: subqueries, aggregates, window functions and functions that users have
    registered are refused.
    """
    scope = Scope(tuple(Binding(table.name, field.name, column(field)) for field in table.fields))
    try:
        condition = ExpressionTranslator(EXPRESSION_RULES, source, scope).condition(node)
        refuse_untranslated(node, source)
        return condition
    except TidemillError as error:
        error.detail = error.detail or "A CHECK can only read the columns of one row."
        raise


@lru_cache(maxsize=1024)
def check_condition(table: Table, check: CheckConstraint) -> Scalar:
    """The condition of a declared check.

    >>> from tidemill.model.types import INT, Field
    >>> check_condition(Table("t", (Field("a", INT),)), CheckConstraint("t_check", "a > 0")).arguments
    (Column(name='a', of=Int(), nullable=True), Literal(value=0, of=Int()))
    """
    source = SqlText.of(f"SELECT {check.text}", check.name)
    return translate_check(source.parse().expressions[0], source, table)
