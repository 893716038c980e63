"""CHECK conditions as generated Python functions: they tell which one a row violates, if any."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from functools import lru_cache

from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.zset import Row
from tidemill.model.errors import ArithmeticFault
from tidemill.program.constraints import CheckCondition
from tidemill.runtimes.integrity import check_violated
from tidemill.runtimes.native.python.scalar_functions import compile_scalar

ConditionIsFalse = Callable[[Row], bool]
"""True of a row for which a condition is false."""


def check_rows(conditions: Sequence[CheckCondition], rows: Sequence[Row]) -> None:
    """Refuse the first of ``rows`` for which a condition is false."""
    with decimal.localcontext(EXACT):
        for condition in conditions:
            is_false, row = compile_condition(condition), ()
            try:
                for row in rows:
                    if is_false(row):
                        raise check_violated(condition, row)
            except (ArithmeticFault, ArithmeticError) as fault:
                raise _located(fault, condition, row) from fault


def row_checker(conditions: Sequence[CheckCondition]) -> Callable[[Row], None] | None:
    """A function that refuses a row for which one of ``conditions`` is false; None if there are none."""
    return (lambda row: check_rows(conditions, [row])) if conditions else None


@lru_cache(maxsize=1024)
def compile_condition(condition: CheckCondition) -> ConditionIsFalse:
    """The generated function of a condition.

    >>> from tidemill.algebra.expressions.call import call
    >>> from tidemill.algebra.expressions.scalars import Column, Literal
    >>> from tidemill.model.schema import CheckConstraint, Table
    >>> from tidemill.model.types import INT, Field
    >>> positive = call("gt", Column("a", INT), Literal(0, INT))
    >>> table, check = Table("t", (Field("a", INT),)), CheckConstraint("t_check", "a > 0")
    >>> is_false = compile_condition(CheckCondition(table, check, positive))
    >>> [is_false((value,)) for value in (1, 0, None)]
    [False, True, False]
    """
    compute = compile_scalar(condition.scalar, [field.name for field in condition.table.fields])
    return lambda row: compute(*row) is False


def _located(fault: ArithmeticFault | ArithmeticError, condition: CheckCondition, row: Row) -> ArithmeticFault:
    what = fault.what if isinstance(fault, ArithmeticFault) else f"an expression cannot be computed: {fault}"
    return ArithmeticFault(
        what,
        where=f"{condition.table.name} {row!r}",
        detail=f'It happens in "{condition.check.name}", CHECK ({condition.check.text}).',
    )
