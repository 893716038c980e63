"""Expressions that can fail. ANSI SQL makes overflow, division by zero and impossible casts errors."""

from __future__ import annotations

from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Lambda,
    Literal,
    Quantified,
    Scalar,
    Subquery,
)
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.relational.walk import children
from tidemill.algebra.values.casts import widens
from tidemill.model import types as t


def may_fail(scalar: Scalar) -> bool:
    """True if ``scalar`` can raise an error for some row. Errs towards yes.

    A condition that can fail must not be evaluated for rows that an earlier condition removes, as in ``x <> 0 AND 10 /
    x > 1``; one that cannot fail may be evaluated wherever its columns are bound. The sum of a subquery is over all
    rows of its tables, as in Spark, so no condition around it prevents an overflow.

    >>> from tidemill.model.types import BOOLEAN, INT
    >>> x, one = Column("x", INT), Literal(1, INT)
    >>> may_fail(Call("gt", (x, one), BOOLEAN)), may_fail(Call("add", (x, one), INT))
    (False, True)
    """
    match scalar:
        case Column() | Literal() | Case() | Lambda() | Subquery() | Exists() | Quantified():
            fails = False
        case Cast(input=input_, of=of, lenient=lenient):
            fails = not (lenient or widens(input_.type, of))
        case Call(function=name, of=of):
            fails = FUNCTIONS[name].can_fail(of)
        case _:
            fails = True
    return fails or any(may_fail(child) for child in children(scalar))


def is_exact(cast: Cast) -> bool:
    """True if ``cast`` widens an exact numeric type and so keeps every value.

    >>> from tidemill.model.types import BIGINT, DOUBLE, INT
    >>> is_exact(Cast(Column("x", INT), BIGINT)), is_exact(Cast(Column("x", BIGINT), DOUBLE))
    (True, False)
    """
    exact = (t.Integral, t.Decimal)
    return isinstance(cast.input.type, exact) and isinstance(cast.of, exact) and widens(cast.input.type, cast.of)
