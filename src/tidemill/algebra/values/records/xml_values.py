"""Records read from XML and written as XML, as FROM_XML and TO_XML do it.

An element is a member by its name, in any case; an attribute is a member with an underscore before its name, and the
text beside attributes is ``_VALUE``. A value that is not of its type ends the reading: what came before it is kept.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tidemill.algebra.values import formats
from tidemill.algebra.values.documents.options import DateTimeFormats, Options, fails_fast, read_options
from tidemill.algebra.values.documents.xml_nodes import XmlNode, read_xml
from tidemill.algebra.values.records.csv_values import CsvConversions
from tidemill.algebra.values.records.json_values import CORRUPT
from tidemill.algebra.values.records.json_writer import LOCAL_PATTERN, TIMESTAMP_PATTERN
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch, Unsupported
from tidemill.model.types import Type

PREFIX, TEXT = "_", "_VALUE"
REFUSED_OPTIONS = (
    "attributeprefix", "valuetag", "excludeattribute", "ignoresurroundingspaces", "rowvalidationxsdpath",
    "ignorenamespace", "wildcardcolname", "declaration", "arrayelementname", "samplingratio", "validatename",
    "singlevariantcolumn", "columnnameofcorruptrecord", "usearrayelementname",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f]")


class _Unfit(Exception):
    """A value is not of its type."""


@lru_cache(maxsize=256)
def xml_record_reader(of: t.Struct, options: tuple[str, ...]) -> XmlRecordReader:
    """The reader of records of a type with options; refuses those that there are not."""
    return XmlRecordReader(of, read_options(options, (*REFUSED_OPTIONS, "nullvalue")))


class XmlRecordReader:
    """Reads XML texts as records of one type.

    >>> reader = xml_record_reader(t.Struct((t.Field("_id", t.INT), t.Field("a", t.Array(t.INT)))), ())
    >>> reader.read('<p id="7"><a>1</a><a>2</a></p>'), reader.read("<p>")
    ((7, (1, 2)), (None, None))
    """

    def __init__(self, of: t.Struct, options: Options) -> None:
        _check_readable(of)
        self._of = of
        self._fail = fails_fast(options, "from_xml")
        self._conversions = CsvConversions(options)

    def read(self, text: str) -> tuple[Any, ...]:
        """The record of a text."""
        row: dict[str, Any] = {}
        try:
            document = read_xml(text, lenient=True)
            root = next((node for node in document.children if node.kind == "element"), None) if document else None
            if root is None:
                raise _Unfit
            self._fill(row, root, self._of)
        except _Unfit:
            if self._fail:
                raise ArithmeticFault(
                    f"{text[:100]!r} is no XML of type {self._of}", hint="Leave the mode FAILFAST out to get NULLs."
                ) from None
        return _in_order(row, self._of)

    def _fill(self, row: dict[str, Any], node: XmlNode, of: t.Struct) -> None:
        """Put the members of an element into a row."""
        known = {field.name.lower(): field for field in of.fields}
        for name, part in _parts(node, any(field.name == TEXT for field in of.fields)):
            field = known.get(name.lower())
            if field is None:
                continue
            if isinstance(field.type, t.Array):
                # What was read before an element that does not fit is kept.
                row.setdefault(field.name, [])
                row[field.name].append(self._value(part, field.type.element))
            else:
                row[field.name] = self._value(part, field.type)

    def _value(self, node: XmlNode, of: Type) -> Any:
        match of:
            case t.Struct():
                row: dict[str, Any] = {}
                self._fill(row, node, of)
                return _in_order(row, of)
            case t.Map(_, value):
                return tuple((name, self._value(part, value)) for name, part in _parts(node, text=False))
        if any(child.kind == "element" for child in node.children):
            raise ArithmeticFault(f"the element {node.name} holds others, and {of} was expected")
        return self._scalar(node.text.strip(), of)

    def _scalar(self, text: str, of: Type) -> Any:
        if not text:
            return "" if of == t.STRING else None
        if of == t.BOOLEAN and text in ("0", "1"):
            return text == "1"
        found = self._conversions.of(of)(text)
        if found is None:
            raise _Unfit
        return found


def _parts(node: XmlNode, text: bool) -> list[tuple[str, XmlNode]]:
    """Attributes, elements and, where ``text``, the text of an element, by the names of members."""
    parts = [(PREFIX + attribute.name, attribute) for attribute in node.attributes]
    elements = [(child.name, child) for child in node.children if child.kind == "element"]
    words = [child for child in node.children if child.kind == "text" and child.value.strip()]
    if text and elements and words:
        raise ArithmeticFault(f"the element {node.name} holds text and other elements")
    return [*parts, *elements, *((TEXT, word) for word in words[:1] if text)]


def _in_order(row: dict[str, Any], of: t.Struct) -> tuple[Any, ...]:
    values = (row.get(field.name) for field in of.fields)
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def _check_readable(of: Type) -> None:
    match of:
        case t.Struct(fields):
            for field in fields:
                if field.name == CORRUPT:
                    raise Unsupported("a member for records that do not fit", hint="Leave it out.")
                _check_readable(field.type)
        case t.Array(t.Array() | t.Map()) | t.Map(_, t.Array() | t.Map()):
            raise Unsupported(f"{of} from XML", hint="Read structs instead.")
        case t.Array(element):
            _check_readable(element)
        case t.Map(key, value):
            if key != t.STRING:
                raise TypeMismatch(f"a map from XML has names, and not {key}")
            _check_readable(value)
        case t.AnsiInterval() | t.CalendarInterval():
            raise Unsupported(f"{of} from XML", hint="Read it as STRING.")
        case _:
            CsvConversions({}).of(of)


@lru_cache(maxsize=256)
def xml_writer(options: tuple[str, ...]) -> XmlWriter:
    """The writer with options; refuses those that there are not."""
    return XmlWriter(read_options(options, REFUSED_OPTIONS))


class XmlWriter:
    """Writes records as XML.

    >>> of = t.Struct((t.Field("_id", t.INT), t.Field("a", t.Array(t.STRING))))
    >>> xml_writer(("indent", "")).write((1, ("x", "<")), of)
    '<ROW id="1"><a>x</a><a>&lt;</a></ROW>\\n'
    """

    def __init__(self, options: Options) -> None:
        self._tag = options.get("rowtag", "ROW")
        self._indent = options.get("indent", "    ")
        self._null = options.get("nullvalue")
        given = {"timestampformat": TIMESTAMP_PATTERN, "timestampntzformat": LOCAL_PATTERN, **options}
        self._formats = DateTimeFormats.of(given, reading=False)
        if not _NAME.fullmatch(self._tag) or self._indent.strip():
            raise TypeMismatch("the row tag is a name, and the indent is blank")

    def write(self, record: tuple[Any, ...], of: t.Struct) -> str:
        """A record as XML: in lines, or where the indent is empty in one, which is ended."""
        lines = self._element(self._tag, record, of, 0)
        return "\n".join(lines) if self._indent else "".join(lines) + "\n"

    def _element(self, name: str, value: Any, of: Type, depth: int) -> list[str]:
        """The lines of an element; NULL has none, and an array as many elements as values."""
        start = self._indent * depth
        match of:
            case t.Array(element):
                return [line for each in value or () for line in self._element(name, each, element, depth)]
            case t.Struct(fields) if value is not None:
                pairs = [(f.name, member, f.type) for f, member in zip(fields, value, strict=True)]
                return self._container(name, pairs, depth)
            case t.Map(_, element) if value is not None:
                return self._container(name, [(key, member, element) for key, member in value], depth)
        text = self._null if value is None else self._text(value, of)
        return [] if text is None else [f"{start}<{name}>{_escaped(text)}</{name}>"]

    def _container(self, name: str, members: list[tuple[str, Any, Type]], depth: int) -> list[str]:
        start = self._indent * depth
        texts = [
            (key, self._null if value is None else self._text(value, of))
            for key, value, of in members
            if key[:1] == PREFIX
        ]
        attributes = "".join(
            f' {key[1:]}="{_escaped(text).replace(chr(34), "&quot;")}"'
            for key, text in texts
            if key != TEXT and text is not None
        )
        inner = [
            line for key, value, of in members if key[:1] != PREFIX for line in self._element(key, value, of, depth + 1)
        ]
        words = "".join(_escaped(text) for key, text in texts if key == TEXT and text is not None)
        if not inner and not any(key == TEXT and text is not None for key, text in texts):
            return [f"{start}<{name}{attributes}/>"]
        if not inner:
            return [f"{start}<{name}{attributes}>{words}</{name}>"]
        if words:
            raise ArithmeticFault(f"the element {name} would hold text and other elements")
        return [f"{start}<{name}{attributes}>", *inner, f"{start}</{name}>"]

    def _text(self, value: Any, of: Type) -> str:
        match of:
            case t.Date() | t.Timestamp() | t.Time():
                return self._formats.write(value, of)
            case t.Decimal():
                return str(value if value else value.copy_abs())
            case t.Binary():
                return f"[{value.hex(' ').upper()}]"
        return formats.write(value, of)


def _escaped(text: str) -> str:
    if _CONTROL.search(text):
        raise ArithmeticFault(f"{text[:100]!r} has characters that XML does not have")
    return text.replace("&", "&amp;").replace("<", "&lt;")


WRITTEN = (t.Boolean, t.Integral, t.Decimal, t.Floating, t.String, t.Binary, t.Date, t.Timestamp, t.Time, t.Void)


def check_writable(of: Type, top: bool = True) -> None:
    """Refuse a type that is not written as XML, and names that XML does not have."""
    match of:
        case t.Struct(fields):
            for field in fields:
                if not _NAME.fullmatch(field.name):
                    raise TypeMismatch(f"{field.name!r} is no name of an element")
                if field.name.startswith(PREFIX) and not isinstance(field.type, WRITTEN):
                    raise Unsupported(f"an attribute of type {field.type}")
                check_writable(field.type, top=False)
        case t.Array(t.Array()):
            raise Unsupported("arrays of arrays as XML", hint="Put them into structs.")
        case t.Array(element) if not top:
            check_writable(element, top=False)
        case t.Map() if not top:
            raise Unsupported("a map as XML", hint="Make a struct of it.")
        case _:
            if not isinstance(of, WRITTEN) or top:
                raise TypeMismatch(f"{of} cannot be written as XML")
