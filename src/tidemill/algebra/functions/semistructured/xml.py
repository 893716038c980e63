"""XML in texts: records read by a schema and written, and XPath 1.0.

An element is a member by its name, an attribute one with `_` before its name, and the text beside attributes `_VALUE`.
`schema_of_xml` gives the schema of a constant text.
`from_xml` takes the mode and the patterns of dates as options, `to_xml` also `rowTag`, `indent` and `nullValue`. Of
XPath there are paths, predicates, operators and the core functions, but no prefixes of names.

The path is a constant. `xpath` gives the values of texts and attributes; an element itself has none, and is NULL, so
ask for `a/b/text()`. The others give one value: of several nodes the first counts. A text that is no XML is an error,
and so is one with a document type, namespaces or CDATA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, StrictParameter, always, expect_count, takes
from tidemill.algebra.functions.semistructured.json import needs_schema, with_options
from tidemill.algebra.values.documents.xml_nodes import XmlNode, read_xml
from tidemill.algebra.values.documents.xpath import Context, Value, read_xpath, to_boolean, to_number, to_text
from tidemill.algebra.values.records.xml_values import check_writable, xml_record_reader, xml_writer
from tidemill.algebra.values.singles import single
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type

_ELEMENTS = ("element", "document")


def _evaluated(convert: Callable[[Value], Any]) -> Callable[[str, str], Any]:
    def apply(xml: str, path: str) -> Any:
        document = read_xml(xml) if xml and path else None
        return None if document is None else convert(read_xpath(path)(Context(document)))

    return apply


def _values(value: Value) -> tuple[str | None, ...]:
    if not isinstance(value, list):
        raise TypeMismatch("a path to nodes was expected")
    return tuple(_value(node) for node in value)


def _value(node: XmlNode) -> str | None:
    return None if node.kind in _ELEMENTS else node.value


def _whole(of: t.Integral) -> Callable[[Value], int]:
    """A number without its fraction; one beyond the type is the nearest, and no number is 0."""

    def convert(value: Value) -> int:
        number = to_number(value)
        if math.isnan(number):
            return 0
        wide = t.INT if of == t.SMALLINT else of
        whole = int(min(max(number, -wide.limit), wide.limit - 1))
        whole = min(max(whole, -wide.limit), wide.limit - 1)
        return (whole + of.limit) % (2 * of.limit) - of.limit

    return convert


def _double(value: Value) -> float:
    return canonical_double(to_number(value))


def _float(value: Value) -> float:
    return single(to_number(value))


def _check(values: Sequence[Any]) -> None:
    if isinstance(values[1], str) and values[1]:
        read_xpath(values[1])


def _check_nodes(values: Sequence[Any]) -> None:
    _check(values)
    if isinstance(values[1], str) and values[1] and not isinstance(read_xpath(values[1])(Context(_NOTHING)), list):
        raise TypeMismatch("a path to nodes was expected")


def from_xml(of: Type, text: str, schema: str, *options: str) -> Any:
    """The record of an XML text."""
    assert isinstance(of, t.Struct)
    return xml_record_reader(of, options).read(text)


def to_xml(types: Sequence[Type], record: tuple[Any, ...], *options: str) -> str:
    """A record as XML."""
    assert isinstance(types[0], t.Struct)
    return xml_writer(options).write(record, types[0])


def _record_type(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    if isinstance(types[0], t.Void):
        return (types[0],), t.STRING
    if not isinstance(types[0], t.Struct):
        raise TypeMismatch(f"a STRUCT was expected, not {types[0]}")
    check_writable(types[0])
    return (types[0],), t.STRING


def _check_options(values: Sequence[Any]) -> None:
    xml_writer(tuple(values[1:]))


_NOTHING = XmlNode("document", "", "", 0)
_TEXT = StrictParameter(t.STRING)


def _function(name: str, of: Type, convert: Callable[[Value], Any], check: Any = _check) -> Function:
    infer = takes(_TEXT, _TEXT, gives=of)
    return Function(
        name, infer, _evaluated(convert), f"{name}({{args}})", null_when=always, constants=(1,), check=check
    )


XML = (
    Function(
        "from_xml",
        needs_schema,
        from_xml,
        "from_xml({args})",
        typed=True,
        null_when=always,
        spelling=with_options("from_xml", 2),
    ),
    Function(
        "to_xml",
        _record_type,
        to_xml,
        "to_xml({args})",
        of_types=True,
        check=_check_options,
        spelling=with_options("to_xml", 1),
    ),
    _function("xpath", t.Array(t.STRING), _values, _check_nodes),
    _function("xpath_boolean", t.BOOLEAN, to_boolean),
    _function("xpath_double", t.DOUBLE, _double),
    _function("xpath_number", t.DOUBLE, _double),
    _function("xpath_float", t.FLOAT, _float),
    _function("xpath_int", t.INT, _whole(t.INT)),
    _function("xpath_long", t.BIGINT, _whole(t.BIGINT)),
    _function("xpath_short", t.SMALLINT, _whole(t.SMALLINT)),
    _function("xpath_string", t.STRING, to_text),
)
