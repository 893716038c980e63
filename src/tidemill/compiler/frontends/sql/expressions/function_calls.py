"""Calls: functions by the names that users write, casts, and aggregates on their way to the grouping."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.expressions.call import call, call_named
from tidemill.algebra.expressions.collations import collate
from tidemill.algebra.expressions.conversions import convert, typed
from tidemill.algebra.expressions.scalars import Cast, Literal, Scalar
from tidemill.algebra.functions.datetime.time_units import DIFFERENCE_UNITS, UNITS
from tidemill.algebra.functions.text.binary import unhex
from tidemill.algebra.values.casts import can_cast, cast_value
from tidemill.algebra.values.formats import BLANKS
from tidemill.compiler.frontends.sql.aggregation.aggregates import read_aggregate
from tidemill.compiler.frontends.sql.expressions.stars import expand_stars
from tidemill.compiler.frontends.sql.expressions.translator import POSITION, ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar import refusals
from tidemill.compiler.frontends.sql.grammar.named_arguments import by_position
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.column_labels import is_star
from tidemill.compiler.frontends.sql.names.data_types import from_type
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.model.errors import ParseError, TypeMismatch, UnknownName, Unsupported
from tidemill.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIME,
    TIMESTAMP,
    TINYINT,
    Date,
    Decimal,
    Timestamp,
    Type,
)


def from_cast(expressions: ExpressionTranslator, node: exp.Cast) -> Scalar:
    """CAST, TRY_CAST, ``::`` and typed literals such as ``DATE '2024-01-01'``."""
    value, target = expressions.scalar(node.this), from_type(node.to, expressions.source)
    check_castable(value.type, target)
    if isinstance(target, Date | Timestamp) and isinstance(value, Literal) and value.of == STRING:
        value = special_moment(value, target)
    lenient = isinstance(node, exp.TryCast)
    if lenient and not isinstance(value, Literal):
        return Cast(value, target, lenient=True)
    converted = convert(value, target)
    if _is_suffixed(node.this) and isinstance(converted, Literal) and converted.value in (math.inf, -math.inf):
        raise ParseError(f"a number does not fit {target}", where=expressions.source.place(node))
    if lenient and isinstance(converted, Cast):
        return Cast(value, target, lenient=True)
    return converted if _is_suffixed(node.this) else typed(converted)


def special_moment(text: Literal, of: Type) -> Literal:
    """A constant text, or the moment for which it stands: Spark knows ``epoch``, and names of days that pass.

    >>> special_moment(Literal("epoch", STRING), DATE)
    Literal(value=datetime.date(1970, 1, 1), of=Date())
    """
    word = str(text.value or "").strip(BLANKS).lower()
    if word == "epoch":
        return Literal(cast_value("1970-01-01", STRING, of), of)
    if word in ("now", "today", "tomorrow", "yesterday"):
        raise Unsupported(
            f"{text.value!r} cannot be used in a view",
            detail="Its value changes although no row changes, so no change would ever carry the new value.",
            hint="Keep the value in a column or a table, and change it there.",
        )
    return text


def from_collate(expressions: ExpressionTranslator, node: exp.Collate) -> Scalar:
    """``text COLLATE name``."""
    mark_translated(node.expression, *node.expression.expressions)
    with expressions.source.locating(node):
        return collate(expressions.scalar(node.this), ".".join(part.name for part in node.expression.expressions))


def _is_suffixed(node: exp.Expr) -> bool:
    """True for a cast that is the suffix of a number: the parser makes one of ``3L``, longer than its 3."""
    return (
        isinstance(node, exp.Literal)
        and "end" in node.meta
        and (not node.is_string and node.meta["end"] - node.meta["start"] + 1 > len(node.name))
    )


def from_hex_string(expressions: ExpressionTranslator, node: exp.HexString) -> Scalar:
    """``X'1F'``: bytes; of an odd number of digits the first stands alone."""
    value = unhex(node.this)
    if value is None:
        raise ParseError(f"{node.this!r} are not hexadecimal digits", where=expressions.source.place(node))
    return Literal(value, BINARY)


def check_castable(source: Type, target: Type) -> None:
    """Refuse a cast between types that have no conversion."""
    if not can_cast(source, target):
        raise TypeMismatch(f"{source} cannot be cast to {target}")


def from_extract(expressions: ExpressionTranslator, node: exp.Extract) -> Scalar:
    """``EXTRACT(YEAR FROM date)``."""
    if not isinstance(node.this, exp.Var):
        raise ParseError(
            "EXTRACT takes the name of a part", where=expressions.source.place(node), hint="EXTRACT(YEAR FROM x)"
        )
    return call("extract", Literal(node.name, STRING), expressions.scalar(node.expression))


def from_trim(expressions: ExpressionTranslator, node: exp.Trim) -> Scalar:
    """``TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)``."""
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "BOTH", "trim")
    return call(name, *expressions.present(node.this, node.args.get("expression")))


def from_substring(expressions: ExpressionTranslator, node: exp.Substring) -> Scalar:
    """``SUBSTRING(text, start, length)``, also with FROM and FOR."""
    return call("substring", *expressions.present(node.this, node.args.get("start"), node.args.get("length")))


def from_position(expressions: ExpressionTranslator, node: exp.StrPosition) -> Scalar:
    """``POSITION(part IN text)``, or ``POSITION(part, text, start)``."""
    return call("position", *expressions.present(node.args["substr"], node.this, node.args.get("position")))


def from_overlay(expressions: ExpressionTranslator, node: exp.Overlay) -> Scalar:
    """``OVERLAY(text PLACING replacement FROM start FOR length)``, or with commas."""
    parts = (node.this, node.expression, node.args.get("from_"), node.args.get("for_"))
    return call("overlay", *expressions.present(*parts))


def from_function(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """A function by the name that the user wrote; an aggregate goes to the grouping."""
    name = node.name.lower()
    node = expand_stars(expressions, node)
    if read_aggregate(node):
        return from_aggregate(expressions, node)
    if rule := expressions.rules.functions.get(name):
        return rule(expressions, node)
    if refusal := refusals.REFUSED_FUNCTIONS.get(name):
        raise refusal.at(expressions.source.head(node))
    node = by_position(node)
    return call_named(name, *map(expressions.scalar, node.expressions))


def from_time_unit(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``TIMESTAMPADD(DAY, 1, x)``, whose unit is a word; ``DATEADD`` and ``DATEDIFF`` also have two arguments."""
    name, arguments = node.name.lower(), node.expressions
    unit = arguments[0] if len(arguments) == 3 else None
    if not isinstance(unit, exp.Column) or unit.table:
        return call_named(name, *map(expressions.scalar, arguments))
    mark_translated(unit, unit.this)
    function, units = ("timestamp_add", UNITS) if name.endswith("add") else ("timestamp_difference", DIFFERENCE_UNITS)
    if unit.name.upper() not in units:
        raise UnknownName(f"there is no unit {unit.name}", hint=f"Units are {', '.join(units)}.")
    return call(function, Literal(unit.name.upper(), STRING), *map(expressions.scalar, arguments[1:]))


def from_side_trim(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``LTRIM(characters, text)``: as a plain call Spark takes the characters first."""
    return call(node.name, *map(expressions.scalar, reversed(node.expressions)))


def from_cast_function(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``DATE(x)``, ``INT(x)``: a cast that looks like a function."""
    if len(node.expressions) != 1:
        raise TypeMismatch(f"{node.name.upper()} takes one argument")
    value, target = expressions.scalar(node.expressions[0]), CAST_FUNCTIONS[node.name.lower()]
    check_castable(value.type, target)
    return typed(convert(value, target))


def from_current_time(expressions: ExpressionTranslator, node: exp.Func) -> Scalar:
    """``CURRENT_DATE`` and the like, which need no parentheses; a column of that name comes first."""
    name = node.sql_name().lower()
    found = None if node.this else expressions.scope.find([name])
    if found:
        return found[0]
    rule = None if node.this else expressions.rules.functions.get(name)
    return rule(expressions, exp.Anonymous(this=name)) if rule else call(name)


def from_row(expressions: ExpressionTranslator, node: exp.Tuple) -> Scalar:
    """``(a, b)``: a struct of several values."""
    return from_struct(expressions, expand_stars(expressions, node))


def from_paren(expressions: ExpressionTranslator, node: exp.Paren) -> Scalar:
    """An expression in parentheses; a star is a struct there."""
    if is_star(node.this):
        return from_row(expressions, exp.Tuple(expressions=[node.this]))
    return expressions.scalar(node.this)


def from_struct(expressions: ExpressionTranslator, node: exp.Anonymous | exp.Tuple) -> Scalar:
    """``struct(a, b AS c)``: members are called as in a SELECT list, or ``col1``, ``col2`` ..."""
    arguments: list[Scalar] = []
    for position, item in enumerate(node.expressions, start=1):
        named = item.expression if isinstance(item, exp.Dot) else item
        name = named.alias_or_name if isinstance(named, NAMED_MEMBERS) else f"col{item.meta.get(POSITION, position)}"
        arguments += [Literal(name, STRING), expressions.scalar(item.unalias())]
    return call("named_struct", *arguments)


NAMED_MEMBERS = (exp.Alias, exp.Column, exp.Identifier)
"""The nodes that give a member of a struct its name: an alias, a column, or a parameter of a lambda."""


def from_aggregate(expressions: ExpressionTranslator, node: exp.Expr) -> Scalar:
    """An aggregate with its FILTER and WITHIN GROUP, as a column of the groups."""
    written = read_aggregate(node)
    if written is None:
        raise Unsupported(
            "FILTER, WITHIN GROUP, IGNORE NULLS and RESPECT NULLS belong to an aggregate",
            where=expressions.source.head(node),
            hint="Put a condition on other expressions into CASE WHEN.",
        )
    outer = expressions.scope.outer
    if (
        outer is not None
        and outer.group_aggregate is not None
        and _is_of_outer_columns(expressions.scope, written.node)
    ):
        return outer.group_aggregate(written)
    if expressions.grouping is None:
        raise Unsupported(
            f"{written.name.upper()} is not allowed here",
            where=expressions.source.head(node),
            detail="An aggregate belongs to the SELECT list or HAVING, and not within another one.",
        )
    return expressions.grouping.aggregate(replace(written, node=by_position(expand_stars(expressions, written.node))))


def _is_of_outer_columns(scope: Scope, node: exp.Expr) -> bool:
    """True if ``node`` reads columns, and all of them are of the query right around this one."""
    names = [[part.name.lower() for part in column.parts] for column in node.find_all(exp.Column)]
    return bool(names) and all(scope.find(name) is None and scope.outer and scope.outer.find(name) for name in names)


def from_grouping(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """GROUPING(key) and GROUPING_ID(): which keys of GROUP BY a group has left out."""
    if expressions.grouping is None:
        raise Unsupported(
            f"{node.name.upper()} belongs to GROUPING SETS, ROLLUP or CUBE", where=expressions.source.head(node)
        )
    return expressions.grouping.grouping_call(node)


def from_array(expressions: ExpressionTranslator, node: exp.Array) -> Scalar:
    """Refuse ``[a, b]``, which is no expression in Spark."""
    raise ParseError(
        "a list in brackets is not an expression", where=expressions.source.place(node), hint="Write ARRAY(a, b)."
    )


CAST_FUNCTIONS = {
    "bigint": BIGINT,
    "binary": BINARY,
    "boolean": BOOLEAN,
    "date": DATE,
    "decimal": Decimal(),
    "double": DOUBLE,
    "float": FLOAT,
    "int": INT,
    "smallint": SMALLINT,
    "string": STRING,
    "time": TIME,
    "timestamp": TIMESTAMP,
    "tinyint": TINYINT,
}
"""Types whose names are functions, too."""

CALL_FUNCTIONS: dict[str, Callable[[ExpressionTranslator, exp.Anonymous], Scalar]] = {
    **dict.fromkeys(CAST_FUNCTIONS, from_cast_function),
    "grouping": from_grouping,
    "grouping_id": from_grouping,
    "ltrim": from_side_trim,
    "rtrim": from_side_trim,
    "struct": from_struct,
    **dict.fromkeys(("date_add", "date_diff", "dateadd", "datediff", "timestampadd", "timestampdiff"), from_time_unit),
}
"""Functions with a rule of their own, by name."""

CALL_RULES: dict[type[exp.Expr], Callable[[ExpressionTranslator, Any], Scalar]] = {
    exp.Anonymous: from_function,
    exp.Array: from_array,
    exp.Cast: from_cast,
    exp.Collate: from_collate,
    exp.CurrentDate: from_current_time,
    exp.CurrentTime: from_current_time,
    exp.CurrentTimestamp: from_current_time,
    exp.CurrentUser: from_current_time,
    exp.Extract: from_extract,
    exp.Filter: from_aggregate,
    exp.HexString: from_hex_string,
    exp.Overlay: from_overlay,
    exp.Paren: from_paren,
    exp.StrPosition: from_position,
    exp.Substring: from_substring,
    exp.Trim: from_trim,
    exp.TryCast: from_cast,
    exp.Tuple: from_row,
    exp.WithinGroup: from_aggregate,
    exp.IgnoreNulls: from_aggregate,
    exp.RespectNulls: from_aggregate,
}
