"""Values for the parameter markers of a text: ``:name`` and ``?``.

A value becomes a constant of a type, and is never written into the text. Its type is that of the Python value alone,
so that a statement means the same whatever values it is given.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.grammar.markers import markers_in
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.model import types as t
from tidemill.model.coerce import coerce
from tidemill.model.converters import from_numpy
from tidemill.model.errors import BadValue, InvalidArgument, TextLocation, UnknownName, Unsupported
from tidemill.model.types import Type

__all__ = [
    "Parameters",
    "marker_named",
    "markers_of_query",
    "markers_of_script",
    "parameters_of",
    "refuse_markers",
    "refuse_parameters",
    "require_given",
]

Parameters = Mapping[str, Literal]
"""Values by marker: ``:name``, or ``?1`` for the first ``?``."""


UNDECLARED: Mapping[str, Type] = {}


def parameters_of(
    args: Mapping[str, Any] | Sequence[Any] | None, named: Mapping[str, Any], types: Mapping[str, Type] = UNDECLARED
) -> Parameters:
    """The values of a call: a mapping or keywords by name, or a sequence by place; of declared ``types``, by marker.

    >>> parameters_of([7, "ann"], {}, {"?1": t.BIGINT})
    {'?1': Literal(value=7, of=BigInt()), '?2': Literal(value='ann', of=String())}
    """
    if isinstance(args, Mapping):
        twice = args.keys() & named.keys()
        if twice:
            raise InvalidArgument(f'the parameter "{min(twice)}" is given twice')
        named = {**args, **named}
    elif isinstance(args, str | bytes):
        raise InvalidArgument("values of parameters come in a list or a dictionary", hint="sql(text, [value])")
    elif args is not None:
        if named:
            raise InvalidArgument("parameters are given by place or by name", hint="Use ? or :name in the whole text.")
        by_place = {f"?{place}": value for place, value in enumerate(args, start=1)}
        return {marker: _literal(value, marker, types.get(marker)) for marker, value in by_place.items()}
    by_name = {f":{name.lower()}": value for name, value in named.items()}
    return {marker: _literal(value, marker, types.get(marker)) for marker, value in by_name.items()}


def marker_named(name: str) -> str:
    """The marker of a parameter by its name, or by its place as ``?1``."""
    return name if name.startswith("?") else f":{name.lower()}"


def _literal(value: Any, marker: str, declared: Type | None) -> Literal:
    of = _type_of(from_numpy(value), marker) if declared is None else declared
    if value is None:
        return Literal(None, of, typed=True)
    return Literal(coerce(value, of, where=f"parameter {marker}"), of, typed=True)


def _type_of(value: Any, marker: str) -> Type:
    """The SQL type of a Python value."""
    match value:
        case None:
            return t.VOID
        case bool():
            return t.BOOLEAN
        case int():
            return _type_of_integer(value, marker)
        case decimal.Decimal() if value.is_finite():
            _, digits, exponent = value.as_tuple()
            scale = max(-int(exponent), 0)
            precision = max(len(digits) + max(int(exponent), 0), scale, 1)
            if precision <= t.MAX_PRECISION:
                return t.Decimal(precision, scale)
        case datetime.datetime():
            return t.TIMESTAMP
        case datetime.timedelta():
            return t.DAY_TIME
        case list() | tuple() if value:
            return t.Array(common_type([_type_of(from_numpy(one), marker) for one in value]))
    for kind, of in _TYPES.items():
        if isinstance(value, kind):
            return of
    raise BadValue(
        f"{value!r} cannot be the value of a parameter",
        where=f"parameter {marker}",
        hint="Numbers, texts, bytes, dates, times and lists of them can; pass the parts of others one by one.",
    )


_TYPES: dict[type, Type] = {
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BINARY,
    bytearray: t.BINARY,
    datetime.date: t.DATE,
    datetime.time: t.TIME,
}


def _type_of_integer(value: int, marker: str) -> Type:
    for of in (t.INT, t.BIGINT):
        if -of.limit <= value < of.limit:
            return of
    if abs(value) >= 10**t.MAX_PRECISION:
        raise BadValue(f"a number has at most {t.MAX_PRECISION} digits", where=f"parameter {marker}")
    return t.Decimal(len(str(abs(value))), 0)


def markers_of_script(statements: Iterable[sql.Statement]) -> dict[str, TextLocation]:
    """The markers of statements with their places; those of a definition are refused.

    >>> from tidemill.compiler.frontends.translate import parse
    >>> sorted(markers_of_script(parse("SELECT :a; DELETE FROM t WHERE b = :c")))
    [':a', ':c']
    """
    found: dict[str, TextLocation] = {}
    for statement in statements:
        match statement:
            case sql.CreateView():
                refuse_parameters(statement)
            case sql.CreateNamedQuery(query=query):
                refuse_markers("view", query.text)
            case sql.CreateFunction(function=function):
                refuse_markers("function", function.body)
        found |= _markers_of(statement)
    return found


def markers_of_query(query: sql.OqlText) -> dict[str, TextLocation]:
    """The markers of a query in OQL with their places."""
    from tidemill.compiler.frontends.oql.syntax.parse import (
        markers_of_oql,  # a front end of its own, which few warehouses need
    )

    return markers_of_oql(query.text, query.name)


def _markers_of(statement: sql.Statement) -> dict[str, TextLocation]:
    match statement:
        case sql.SelectOql(query=text) | sql.CreateView(tree=sql.OqlText() as text):
            return markers_of_query(text)
    return {marker: at for tree in sql.trees_of(statement) for marker, at in markers_in(tree).items()}


def refuse_parameters(statement: sql.CreateView) -> None:
    """Refuse a marker in the definition of a materialized view."""
    _refuse_in_definition("view", _markers_of(statement))


def require_given(markers: Mapping[str, TextLocation], given: Parameters, call: str = "sql") -> None:
    """Refuse a marker without a value, and a value without a marker; they were given with ``call``."""
    for marker, place in markers.items():
        if marker not in given:
            how = f'{call}(text, {{"{marker[1:]}": ...}})' if marker[0] == ":" else f"{call}(text, [...])"
            raise UnknownName(
                f'parameter "{marker}" has no value',
                where=place,
                hint=f"Give it with {how}, or with EXECUTE IMMEDIATE 'query' USING value AS name.",
            )
    for marker in given:
        if marker not in markers:
            known = ", ".join(markers) or "none"
            raise InvalidArgument(f'the text has no parameter "{marker}"', hint=f"Parameters: {known}.")


def refuse_markers(kind: str, text: str) -> None:
    """Refuse a marker in the text of a definition: a view that is not materialized, or a function."""
    source = SqlText.of(f"({text})", kind)
    _refuse_in_definition(kind, markers_in(ParsedText(source.parse(), source)))


def _refuse_in_definition(kind: str, markers: Mapping[str, TextLocation]) -> None:
    for marker, place in markers.items():
        raise Unsupported(
            f'the definition of a {kind} cannot hold the parameter "{marker}"',
            where=place,
            detail="It is stored as it is written, and a parameter has a value for one call only.",
            hint="Write the value itself, or let the view have a column for it and filter what you read.",
        )
