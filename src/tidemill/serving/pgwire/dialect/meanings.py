"""Expressions that Spark SQL reads otherwise, depending on types: rewritten to mean the same, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from tidemill.serving.pgwire.errors import PgError

__all__ = ["same_meaning"]

T = exp.DataType.Type
INTEGERS = {T.TINYINT, T.SMALLINT, T.INT, T.BIGINT}
EXACT = {T.DECIMAL, T.BIGDECIMAL}
FLOATS = {T.FLOAT, T.DOUBLE}
NUMBERS = INTEGERS | EXACT | FLOATS
DATES = {T.DATE, T.DATE32}
INSTANTS = {T.TIMESTAMP, T.TIMESTAMPTZ, T.TIMESTAMPNTZ, T.TIMESTAMPLTZ}
TEXTS = {T.VARCHAR, T.CHAR, T.TEXT, T.NVARCHAR, T.NCHAR}
INTERVALS = {T.INTERVAL}


def same_meaning(node: exp.Expr) -> exp.Expr:
    """A node of an annotated tree as Spark has to have it."""
    change = _CHANGES.get(type(node))
    return node if change is None else change(node)


def _type(node: exp.Expr | None) -> Any:
    if isinstance(node, exp.Paren | exp.Neg):
        return _type(node.this)
    if node is None:
        return None
    if node.type is None and isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        left, right = _type(node.left), _type(node.right)
        return next(
            (kind for kind in (T.DOUBLE, T.DECIMAL) if kind in (left, right)), left if right in INTEGERS else None
        )
    if node.type is None:
        return None
    found = node.type.this
    return T.DECIMAL if found in FLOATS and not _is_float(node) else found


FLOAT_FUNCTIONS = (exp.Sqrt, exp.Cbrt, exp.Pow, exp.Exp, exp.Ln, exp.Log, exp.Stddev, exp.StddevPop, exp.Variance)


def _is_float(node: exp.Expr) -> bool:
    """True if a float column, cast or function is in it: numbers with a point, and averages, are exact."""
    return any(
        isinstance(one, FLOAT_FUNCTIONS)
        or (isinstance(one, exp.Column | exp.Cast) and one.type is not None and one.type.this in FLOATS)
        for one in node.walk()
    )


def _unsure(what: str, hint: str) -> PgError:
    return PgError(
        "0A000",
        f"{what} means something else in Spark SQL for some types, and those of its operands are not known here",
        hint=hint,
    )


def _division(node: Any) -> exp.Expr:
    """Integers are divided to an integer in PostgreSQL."""
    left, right = _type(node.left), _type(node.right)
    if left in INTEGERS and right in INTEGERS:
        return exp.IntDiv(this=_wrapped(node.left), expression=_wrapped(node.right))
    if left in (EXACT | FLOATS) or right in (EXACT | FLOATS):
        return exp.Div(this=_wrapped(node.left), expression=_wrapped(node.right), typed=False, safe=False)
    raise _unsure("/", "Cast an operand: a::numeric / b.")


def _wrapped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Binary) else node.copy()


def _subtraction(node: Any) -> exp.Expr:
    """The difference of dates is a number of days in PostgreSQL."""
    left, right = _type(node.left), _type(node.right)
    if left in DATES and right in DATES:
        return exp.Anonymous(this="datediff", expressions=[node.left.copy(), node.right.copy()])
    return _with_interval(node, left, right)


def _with_interval(node: Any, left: Any, right: Any) -> exp.Expr:
    """A date with an interval is a timestamp in PostgreSQL."""
    if left in DATES and (right in INTERVALS or isinstance(node.right, exp.Interval)):
        inner = node.copy()
        inner.left.replace(exp.cast(node.left.copy(), "TIMESTAMPNTZ"))
        return exp.Paren(this=inner)
    unknown = left in (None, T.UNKNOWN) or right in (None, T.UNKNOWN)
    parameters = isinstance(node.left, exp.Placeholder) or isinstance(node.right, exp.Placeholder)
    if unknown and not parameters and isinstance(node, exp.Sub):
        raise _unsure("-", "Cast an operand: a::numeric - b.")
    return node  # type: ignore[no-any-return]


def _addition(node: Any) -> exp.Expr:
    return _with_interval(node, _type(node.left), _type(node.right))


def _cast(node: Any) -> exp.Expr:
    """Fractions are rounded, not cut, where PostgreSQL makes an integer of them."""
    target, source = node.to.this, _type(node.this)
    if target not in INTEGERS or isinstance(node.this, exp.Placeholder | exp.Null):
        return node  # type: ignore[no-any-return]
    if source in EXACT:
        return _rounded(node, "round")
    if source in FLOATS:
        return _rounded(node, "bround")
    if source in INTEGERS | TEXTS | {T.BOOLEAN, T.NULL}:
        return node  # type: ignore[no-any-return]
    raise _unsure("a cast to an integer", "Cast to numeric first.")


def _rounded(node: Any, function: str) -> exp.Expr:
    rounded = node.copy()
    rounded.set("this", exp.Anonymous(this=function, expressions=[node.this.copy()]))
    return rounded  # type: ignore[no-any-return]


def _round(node: Any) -> exp.Expr:
    """Doubles are rounded half to even."""
    source = _type(node.this)
    if source in FLOATS:
        return exp.Anonymous(this="bround", expressions=[node.this.copy()])
    if source in EXACT | INTEGERS:
        return node  # type: ignore[no-any-return]
    raise _unsure("round", "Cast its argument to numeric.")


def _substring(node: Any) -> exp.Expr:
    """A start before the first character counts from the end in Spark."""
    start = node.args.get("start")
    if start is None or (isinstance(start, exp.Literal) and start.name.isdigit() and int(start.name) > 0):
        return node  # type: ignore[no-any-return]
    raise PgError(
        "0A000",
        "substring means something else in Spark SQL where it starts before the first character",
        hint="Let it start at a number above 0.",
    )


def _json(node: Any) -> exp.Expr:
    raise PgError("0A000", "operators of json are not translated", hint="Use Spark's get_json_object or variant_get.")


def _initcap(node: Any) -> exp.Expr:
    return exp.Anonymous(this="initcap", expressions=[node.this.copy()])


_CHANGES: dict[type[exp.Expr], Callable[[Any], exp.Expr]] = {
    exp.Div: _division,
    exp.Sub: _subtraction,
    exp.Add: _addition,
    exp.Cast: _cast,
    exp.Round: _round,
    exp.Substring: _substring,
    exp.Initcap: _initcap,
    exp.JSONExtract: _json,
    exp.JSONExtractScalar: _json,
}
