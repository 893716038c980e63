"""Expressions of a recorded plan as Spark SQL, each with the parentheses that keep its meaning."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

__all__ = ["Untranslatable", "expression", "quoted", "sort_order", "top_level"]

_INFIX = {
    "==": "=", "=": "=", "<=>": "<=>", "<": "<", ">": ">", "<=": "<=", ">=": ">=",
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "&": "&", "|": "|", "^": "^",
    "and": "AND", "or": "OR", "like": "LIKE", "rlike": "RLIKE", "ilike": "ILIKE",
}  # fmt: skip
_POSTFIX = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_WHOLE = {"byte": "TINYINT", "short": "SMALLINT", "long": "BIGINT"}
_EPOCH = datetime.datetime(1970, 1, 1)

Resolve = Callable[[str, int | None], str]
"""The text of a column by its name and the number of the plan that it is a column of, if one is given."""


class Untranslatable(Exception):
    """The reason why a plan has no text in SQL."""


def quoted(name: str) -> str:
    """A name of one part in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def top_level(node: Any, resolve: Resolve) -> str:
    """An item of a SELECT list. One whose name depends on how Spark prints it is refused."""
    kind = node.WhichOneof("expr_type")
    if kind == "expression_string":
        return str(node.expression_string.expression)
    if kind in ("unresolved_attribute", "unresolved_star", "alias") or _is_plain_call(node):
        return expression(node, resolve)
    raise Untranslatable("it selects an expression without a name; give it one with alias()")


def _is_plain_call(node: Any) -> bool:
    """True for a function of columns and numbers, whose name Spark writes as SQL does: ``sum(amount)``."""
    call = node.unresolved_function
    if node.WhichOneof("expr_type") != "unresolved_function" or not re.fullmatch(r"[a-z_]\w*", call.function_name):
        return False
    kinds = {argument.WhichOneof("expr_type") for argument in call.arguments}
    named = call.function_name not in (*_INFIX, *_POSTFIX, "not", "negative", "in", "when")
    return named and kinds <= {"unresolved_attribute", "literal", "unresolved_star"}


def expression(node: Any, resolve: Resolve) -> str:
    """An expression as SQL."""
    kind = node.WhichOneof("expr_type")
    if kind not in _WRITERS:
        raise Untranslatable(f"it uses {_SAID.get(kind, kind)}")
    return _WRITERS[kind](getattr(node, kind), resolve)


def sort_order(order: Any, resolve: Resolve) -> str:
    """``x DESC NULLS LAST``."""
    direction = "ASC" if order.direction == 1 else "DESC"
    return f"{expression(order.child, resolve)} {direction} NULLS {'FIRST' if order.null_ordering == 1 else 'LAST'}"


def _attribute(node: Any, resolve: Resolve) -> str:
    if node.is_metadata_column:
        raise Untranslatable("it reads a metadata column")
    return resolve(node.unparsed_identifier, node.plan_id if node.HasField("plan_id") else None)


def _star(node: Any, resolve: Resolve) -> str:
    if node.HasField("plan_id"):
        raise Untranslatable("it selects all columns of one of several DataFrames")
    return node.unparsed_target if node.HasField("unparsed_target") else "*"


def _alias(node: Any, resolve: Resolve) -> str:
    if len(node.name) != 1:
        raise Untranslatable("it gives several names to one expression")
    return f"{expression(node.expr, resolve)} AS {quoted(node.name[0])}"


def _function(node: Any, resolve: Resolve) -> str:
    name, arguments = node.function_name, [expression(argument, resolve) for argument in node.arguments]
    folded = name.lower()
    if folded in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[folded]} {arguments[1]})"
    if folded in _POSTFIX and len(arguments) == 1:
        return f"({arguments[0]} {_POSTFIX[folded]})"
    if folded == "not":
        return f"(NOT {arguments[0]})"
    if folded == "negative":
        return f"(- {arguments[0]})"
    if folded == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if folded == "when":
        return _case(arguments)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise Untranslatable(f"it uses the operator {name}")
    return f"{name}({'DISTINCT ' if node.is_distinct else ''}{', '.join(arguments)})"


def _case(arguments: list[str]) -> str:
    pairs = zip(arguments[0::2], arguments[1::2], strict=False)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    otherwise = f" ELSE {arguments[-1]}" if len(arguments) % 2 else ""
    return f"CASE {branches}{otherwise} END"


def _cast(node: Any, resolve: Resolve) -> str:
    if node.eval_mode == 1:
        raise Untranslatable("it casts by other rules than those of ANSI")
    type_ = node.type_str if node.WhichOneof("cast_to_type") == "type_str" else _type_name(node.type)
    return f"{'TRY_CAST' if node.eval_mode == 3 else 'CAST'}({expression(node.expr, resolve)} AS {type_})"


def _type_name(type_: Any) -> str:
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

    return str(proto_schema_to_pyspark_data_type(type_).simpleString())


def _window(node: Any, resolve: Resolve) -> str:
    parts = []
    if node.partition_spec:
        parts.append("PARTITION BY " + ", ".join(expression(one, resolve) for one in node.partition_spec))
    if node.order_spec:
        parts.append("ORDER BY " + ", ".join(sort_order(one, resolve) for one in node.order_spec))
    if node.HasField("frame_spec"):
        frame = node.frame_spec
        kind = "ROWS" if frame.frame_type == 1 else "RANGE"
        parts.append(f"{kind} BETWEEN {_bound(frame.lower, 'PRECEDING')} AND {_bound(frame.upper, 'FOLLOWING')}")
    return f"{expression(node.window_function, resolve)} OVER ({' '.join(parts)})"


def _bound(bound: Any, unbounded: str) -> str:
    kind = bound.WhichOneof("boundary")
    if kind == "current_row":
        return "CURRENT ROW"
    if kind == "unbounded":
        return f"UNBOUNDED {unbounded}"
    literal = bound.value.literal
    offset = getattr(literal, str(literal.WhichOneof("literal_type")))
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def _lambda(node: Any, resolve: Resolve) -> str:
    names = ", ".join(quoted(part) for argument in node.arguments for part in argument.name_parts)
    return f"({names}) -> {expression(node.function, resolve)}"


def _variable(node: Any, resolve: Resolve) -> str:
    return ".".join(map(quoted, node.name_parts))


def _extract(node: Any, resolve: Resolve) -> str:
    return f"{expression(node.child, resolve)}[{expression(node.extraction, resolve)}]"


def _literal(node: Any, resolve: Resolve) -> str:
    kind = node.WhichOneof("literal_type")
    value = getattr(node, kind)
    match kind:
        case "null":
            return "NULL" if value.WhichOneof("kind") == "null" else f"CAST(NULL AS {_type_name(value)})"
        case "boolean":
            return "true" if value else "false"
        case "integer":
            return str(value) if value >= 0 else f"({value})"
        case "byte" | "short" | "long":
            return f"CAST({value} AS {_WHOLE[kind]})"
        case "float" | "double":
            return f"CAST('{value!r}' AS {kind.upper()})"
        case "decimal":
            return f"CAST('{value.value}' AS DECIMAL({value.precision}, {value.scale}))"
        case "string":
            return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
        case "binary":
            return f"X'{value.hex()}'"
        case "date":
            return f"DATE'{(_EPOCH + datetime.timedelta(days=value)).date().isoformat()}'"
        case "timestamp" | "timestamp_ntz":
            moment = (_EPOCH + datetime.timedelta(microseconds=value)).isoformat(sep=" ")
            return f"TIMESTAMP_NTZ'{moment}'" if kind == "timestamp_ntz" else f"TIMESTAMP'{moment} UTC'"
    raise Untranslatable(f"it uses a constant of type {kind}")


_WRITERS: dict[str, Callable[[Any, Resolve], str]] = {
    "literal": _literal,
    "unresolved_attribute": _attribute,
    "unresolved_function": _function,
    "call_function": lambda node, resolve: (
        f"{node.function_name}({', '.join(expression(argument, resolve) for argument in node.arguments)})"
    ),
    "expression_string": lambda node, resolve: f"({node.expression})",
    "unresolved_star": _star,
    "alias": _alias,
    "cast": _cast,
    "window": _window,
    "lambda_function": _lambda,
    "unresolved_named_lambda_variable": _variable,
    "unresolved_extract_value": _extract,
    "sort_order": sort_order,
}

_SAID = {
    "common_inline_user_defined_function": "a function in Python",
    "subquery_expression": "a subquery that is a DataFrame",
    "unresolved_regex": "columns chosen by a pattern",
    "update_fields": "withField or dropFields",
}
"""Expressions that have no text, as people call them."""
