"""``CHECK (condition)`` as algebra: a condition over the columns of one row, by their bare names."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from tidemill.algebra.scalars import Scalar, column
from tidemill.compiler.frontends.expressions import Expressions
from tidemill.compiler.frontends.names import Binding, Scope
from tidemill.compiler.frontends.places import Source
from tidemill.compiler.frontends.unread import refuse_unread
from tidemill.model.errors import TidemillError
from tidemill.model.schema import Check, Table


def from_check(node: exp.Expr, source: Source, table: Table) -> Scalar:
    """The condition that ``node`` means for a row of ``table``.

    It is a property of that row alone: subqueries, aggregates, window functions and functions that users have
    registered are refused.
    """
    scope = Scope(tuple(Binding(table.name, field.name, column(field)) for field in table.fields))
    try:
        condition = Expressions(source, scope).condition(node)
        refuse_unread(node, source)
        return condition
    except TidemillError as error:
        error.detail = error.detail or "A CHECK looks at the columns of one row."
        raise


@lru_cache(maxsize=1024)
def condition_of(table: Table, check: Check) -> Scalar:
    """The condition of a declared check.

    >>> from tidemill.model.types import INT, Field
    >>> condition_of(Table("t", (Field("a", INT),)), Check("t_check", "a > 0")).arguments
    (Column(name='a', of=Int(), nullable=True), Literal(value=0, of=Int()))
    """
    source = Source.of(f"SELECT {check.text}", check.name)
    return from_check(source.parse().expressions[0], source, table)
