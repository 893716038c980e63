"""Functions that make a table in FROM: ``range(start, end, step)``, of constants, and those defined in SQL."""

from __future__ import annotations

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.functions.function import expect
from tidemill.algebra.relational.relations import Values
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.compiler.frontends.sql.query.context import NamedRelation, QueryContext
from tidemill.compiler.frontends.sql.query.from_items.window_table_functions import WINDOWING, from_windowing_function
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, Field

MAX_ROWS = 100_000
"""Maximum number of rows of RANGE, which are constants of the query."""

PARAMETERS = ("start", "end", "step", "partitions")


def from_table_function(context: QueryContext, node: exp.Table | exp.Lateral, alias: str) -> NamedRelation:
    """``range([start,] end [, step [, partitions]])``: numbers, each a row with the column ``id``; or another one."""
    call = node.this
    defined = context.table_functions.get(call.name.lower()) if isinstance(call, exp.Anonymous) else None
    if defined is not None:
        mark_translated(call)
        with context.source.locating(call):
            return defined(context.expressions(Scope()), call, alias)
    if isinstance(call, exp.Anonymous) and call.name.lower() in WINDOWING:
        with context.source.locating(call):
            return from_windowing_function(context, call, alias)
    if not isinstance(call, exp.Anonymous) or call.name.lower() != "range":
        raise Unsupported(
            "this function does not make a table",
            where=context.source.place(node),
            hint="RANGE and the generators do, such as EXPLODE. Put other rows into a table, or list them with VALUES.",
        )
    mark_translated(call)
    with context.source.locating(call):
        numbers = _range(_arguments(context, call))
    column = Field(f"{alias}.id", BIGINT, nullable=False)
    return NamedRelation(Values(tuple((number,) for number in numbers), (column,)), ("id",))


def called_function(context: QueryContext, node: exp.Expr) -> str:
    """The name of a user's function in FROM, by which its columns are called where it has no alias."""
    name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else ""
    return name if name in context.table_functions else ""


def _arguments(context: QueryContext, call: exp.Anonymous) -> dict[str, int]:
    """The arguments by name; one alone is the end."""
    given = call.expressions
    if not 1 <= len(given) <= len(PARAMETERS):
        raise TypeMismatch("RANGE takes an end, or a start, an end, a step and a number of partitions")
    names = ("end",) if len(given) == 1 else PARAMETERS
    return {name: _constant(context, argument) for name, argument in zip(names, given, strict=False)}


def _constant(context: QueryContext, node: exp.Expr) -> int:
    scalar = context.expressions(Scope()).scalar(node)
    if columns_in(scalar):
        raise TypeMismatch("an argument of RANGE is a constant")
    value = evaluate_scalar(convert(scalar, expect(scalar.type, BIGINT)), {})
    if value is None:
        raise TypeMismatch("an argument of RANGE is NULL")
    return int(value)


def _range(arguments: dict[str, int]) -> range:
    step = arguments.get("step", 1)
    if step == 0:
        raise TypeMismatch("the step of RANGE is 0")
    numbers = range(arguments.get("start", 0), arguments["end"], step)
    if len(numbers) > MAX_ROWS:
        raise Unsupported(
            f"RANGE of {len(numbers):,} rows",
            detail=f"They are constants of the query, {MAX_ROWS:,} at most.",
            hint="Put them into a table, or use EXPLODE(SEQUENCE(start, end)).",
        )
    return numbers
