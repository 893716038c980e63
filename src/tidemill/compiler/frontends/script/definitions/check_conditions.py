"""``CHECK (condition)`` as algebra: a condition over the columns of one row, by their bare names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from sqlglot import exp

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.expressions.scalars import column as column_of
from tidemill.algebra.relational.walk import substitute
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_untranslated
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.compiler.frontends.sql.table_references import quoted
from tidemill.model.errors import TidemillError, Unsupported
from tidemill.model.schema import CheckConstraint, Table


def translate_check(node: exp.Expr, source: SqlText, table: Table) -> Scalar:
    """The condition ``node`` over the columns of ``table``.

    It is a property of that row alone: subqueries, aggregates, window functions and functions that users have
    registered are refused.
    """
    scope = Scope(tuple(Binding(table.name, field.name, column_of(field)) for field in table.fields))
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


def with_renamed_column(check: CheckConstraint, before: Table, after: Table, column: str, to: str) -> CheckConstraint:
    """A check of a table in which a column has another name; the rest of its text stays as it was written.

    >>> from tidemill.model.types import INT, Field
    >>> tables = [Table("t", (Field(name, INT),)) for name in ("a", "total")]
    >>> with_renamed_column(CheckConstraint("t_check", "t.a > 0 OR a IS NULL"), *tables, "a", "total").text
    't.`total` > 0 OR `total` IS NULL'
    """
    new = _edited(check, [(name, to) for _, name in _names(check, before) if name.name.lower() == column])
    (field,) = (field for field in after.fields if field.name == to)
    if check_condition(after, new) != substitute(check_condition(before, check), {column: column_of(field)}):
        raise Unsupported(
            f'column "{column}" of "{before.name}" cannot be renamed',
            detail=f'The check "{check.name}" would mean something else.',
            hint=f"ALTER TABLE {before.name} DROP CONSTRAINT {check.name} first, and add it again.",
        )
    return new


def with_renamed_table(check: CheckConstraint, before: Table, to: str) -> CheckConstraint:
    """A check of a table that has another name.

    >>> from tidemill.model.types import INT, Field
    >>> with_renamed_table(CheckConstraint("t_check", "t.a > 0"), Table("t", (Field("a", INT),)), "sales").text
    '`sales`.a > 0'
    """
    return _edited(check, [(qualifier, to) for qualifier, _ in _names(check, before) if qualifier is not None])


def _names(check: CheckConstraint, table: Table) -> Iterator[tuple[exp.Identifier | None, exp.Identifier]]:
    """Where the text of a check names a column of its table, before a member or not, and the table before it."""
    columns = {field.name for field in table.fields}
    for node in SqlText.of(f"SELECT {check.text}", check.name).parse().find_all(exp.Column):
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        if len(parts) > 1 and parts[0].name.lower() == table.name and parts[1].name.lower() in columns:
            yield parts[0], parts[1]
        else:
            yield None, parts[0]


def _edited(check: CheckConstraint, edits: Sequence[tuple[exp.Identifier, str]]) -> CheckConstraint:
    """A check with other names in its text."""
    text = f"SELECT {check.text}"
    for start, end, name in sorted(((old.meta["start"], old.meta["end"], new) for old, new in edits), reverse=True):
        text = f"{text[:start]}{quoted(name)}{text[end + 1 :]}"
    return replace(check, text=text.removeprefix("SELECT "))
