"""Expressions, literals and types as Spark SQL text.

A column such as ``o.amount`` is one name here, never a path: every identifier is quoted. All text is built from parsed
and typed expressions, so nothing is left for Spark to infer: casts are written out, literals have their type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Lambda, Literal, Scalar
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.values.variants import has_variant
from tidemill.model import types as t
from tidemill.model.errors import Unsupported
from tidemill.model.intervals import write_calendar, write_interval
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field, Type


def quote(name: str) -> str:
    """An identifier that Spark takes as it is.

    >>> quote("o.amount"), quote("odd`name")
    ('`o.amount`', '`odd``name`')
    """
    return "`" + name.replace("`", "``") + "`"


def aliased(text: str, name: str) -> str:
    """An expression under a name. One that has it already is left alone: a redundant alias makes equal plans look
    different, and Spark then computes both."""
    return text if text == quote(name) else f"{text} AS {quote(name)}"


def expression_sql(scalar: Scalar, names: Mapping[str, str] | None = None) -> str:
    """The Spark SQL text of an expression; ``names`` gives the text of columns that are not written by their own name.

    >>> from tidemill.algebra.expressions.call import call
    >>> expression_sql(call("add", Column("o.n", t.BIGINT), Literal(1, t.BIGINT)))
    '(`o.n` + 1L)'
    """
    match scalar:
        case Column(name=name):
            return names[name] if names and name in names else quote(name)
        case Literal(value=value, of=of):
            return literal_sql(value, of)
        case Call(function=function, arguments=arguments, of=of):
            _refuse_variants(function, of, *(argument.type for argument in arguments))
            texts = [expression_sql(argument, names) for argument in arguments]
            return FUNCTIONS[function].spell(texts, of, [argument.type for argument in arguments])
        case Cast(input=input_, of=of, lenient=lenient):
            _refuse_variants("CAST", of, input_.type)
            return f"{'TRY_CAST' if lenient else 'CAST'}({expression_sql(input_, names)} AS {type_sql(of)})"
        case Case(branches=branches, default=default):
            whens = " ".join(
                f"WHEN {expression_sql(when, names)} THEN {expression_sql(then, names)}" for when, then in branches
            )
            return f"CASE {whens} ELSE {expression_sql(default, names)} END"
        case Lambda(parameters=parameters, body=body):
            given = comma_list(quote(parameter.name) for parameter in parameters)
            return f"{given if len(parameters) == 1 else f'({given})'} -> {expression_sql(body, names)}"
    raise TypeError(f"no Spark spelling for {type(scalar).__name__}")


def literal_sql(value: Any, of: Type) -> str:
    """A constant of exactly the type ``of``.

    >>> literal_sql("it's", t.STRING), literal_sql(-1, t.BIGINT), literal_sql(None, t.INT)
    ("'it\\\\'s'", '-1L', 'CAST(NULL AS INT)')
    """
    if value is None:
        return "NULL" if of == t.VOID else f"CAST(NULL AS {type_sql(of)})"
    match of:
        case t.Boolean():
            return "true" if value else "false"
        case t.Int():
            return f"CAST({value} AS INT)" if value < 0 else str(value)
        case t.BigInt():
            return f"{value}L"
        case t.Integral():
            return f"CAST({value} AS {of})"
        case t.String() | t.Variant():
            return _string_sql(value)
        case t.Date():
            return f"DATE '{value.isoformat()}'"
        case t.Time():
            exact = f"TIME '{value.isoformat()}'"
            return exact if of == t.TIME else f"CAST({exact} AS {of})"
        case t.Binary():
            return f"X'{value.hex()}'"
        case t.TimestampNtz():
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case t.Timestamp():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}Z'"
        case t.AnsiInterval():
            return write_interval(value, of)
        case t.CalendarInterval():
            return f"CAST('{write_calendar(value)}' AS INTERVAL)"
        case t.Floating():
            return f"CAST('{_DOUBLE_WORDS.get(repr(value), repr(value))}' AS {of})"
        case t.Array(element):
            return f"CAST(array({comma_list(literal_sql(v, element) for v in value)}) AS {type_sql(of)})"
        case t.Map(key, element):
            entries = comma_list(f"{literal_sql(k, key)}, {literal_sql(v, element)}" for k, v in value)
            return f"CAST(map({entries}) AS {type_sql(of)})"
        case t.Struct(fields):
            parts = zip(fields, value, strict=True)
            members = comma_list(f"{_string_sql(f.name)}, {literal_sql(v, f.type)}" for f, v in parts)
            return f"named_struct({members})"
    return f"CAST('{value}' AS {type_sql(of)})"


PASSING = frozenset(("is_null", "is_not_null", "coalesce", "array", "named_struct", "get_field", "get_item"))
"""Functions that hand on a variant as it is."""


def _refuse_variants(function: str, *types: Type) -> None:
    """Refuse a function of variants: Spark hands them on as they are stored, in a form that it cannot read."""
    if function not in PASSING and any(map(has_variant, types)):
        raise Unsupported(
            f"{function} of VARIANT on Spark",
            detail="Variants are stored in a form of Tidemill's.",
            hint="Use the runtime native for this view.",
        )


_DOUBLE_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def join_hint(smaller: str, *, single_task: bool = False) -> str:
    """The hint for a join: broadcast its smaller side, or state that its rows are one partition.

    In a single task both sides are there anyway. Of a join over a join, of a product and of a union with a join Spark
    does not know that, and would move their rows from that partition to another one.
    """
    return "/*+ COALESCE(1) */" if single_task else f"/*+ BROADCAST({smaller}) */"


def type_sql(type_: Type) -> str:
    """The Spark spelling of a type; the names of struct members are quoted.

    >>> type_sql(t.Struct((Field("a b", t.Array(t.INT)),)))
    'STRUCT<`a b`: ARRAY<INT>>'
    """
    match type_:
        case t.Array(element):
            return f"ARRAY<{type_sql(element)}>"
        case t.Map(key, value):
            return f"MAP<{type_sql(key)}, {type_sql(value)}>"
        case t.Collated():
            return "STRING"
        case t.Struct(fields):
            return f"STRUCT<{comma_list(f'{quote(f.name)}: {type_sql(f.type)}' for f in fields)}>"
        case t.Variant():
            return "STRING"  # as it is stored
    return str(type_)


def with_nullable_members(text: str, type_: Type) -> str:
    """An expression of type ``type_`` whose structs may have NULL members, as Arrow needs if the struct is NULL."""
    return f"CAST({text} AS {type_sql(type_)})" if _has_struct(type_) else text


def _has_struct(type_: Type) -> bool:
    match type_:
        case t.Array(element):
            return _has_struct(element)
        case t.Map(key, value):
            return _has_struct(key) or _has_struct(value)
    return isinstance(type_, t.Struct)


def schema_sql(fields: Iterable[Field]) -> str:
    """Columns as a schema text, as ``spark.read.schema`` takes it."""
    return comma_list(f"{quote(f.name)} {type_sql(f.type)}" for f in fields)


def no_rows_sql(fields: Iterable[Field]) -> str:
    """A query for no weighted rows."""
    columns = (*fields, Field(WEIGHT, t.BIGINT))
    return f"SELECT {comma_list(f'{literal_sql(None, f.type)} AS {quote(f.name)}' for f in columns)} WHERE false"


def struct_sql(members: Mapping[str, str]) -> str:
    """A struct of named expression texts."""
    return f"named_struct({comma_list(f'{_string_sql(name)}, {text}' for name, text in members.items())})"


def comma_list(texts: Iterable[str]) -> str:
    """Texts separated by commas."""
    return ", ".join(texts)


def _string_sql(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
