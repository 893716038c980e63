"""Values of type VARIANT: plain Python values, and the text that stands for one inside the engine.

A variant is NULL, a boolean, an integer of 64 bits, a DECIMAL, a DOUBLE or FLOAT, a text, bytes, a date, a timestamp
with or without a zone, an array of variants, or an object of them by name. The text inside is canonical, so equal
variants are equal texts: JSON in which an array begins with 0, members stand in order of their names, and a value that
JSON does not have is a list of a letter and a text.

=============== ========================= ====================
value           in Python                 inside
=============== ========================= ====================
NULL            None                      null
BOOLEAN         bool                      true
BIGINT          int                       1
STRING          str                       "x"
DECIMAL         decimal.Decimal           ["m","1.5"]
DOUBLE          float                     ["d","1.5"]
FLOAT           Single                    ["f","1.5"]
BINARY          bytes                     ["b","00ff"]
DATE            datetime.date             ["D","2024-02-29"]
TIMESTAMP       datetime with a zone      ["t","2024-02-29T..."]
TIMESTAMP_NTZ   datetime without one      ["n","2024-02-29T..."]
array           list                      [0,1,2]
object          dict                      {"a":1}
=============== ========================= ====================
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Mapping
from typing import Any

MAX_DEPTH = 200
"""Objects and arrays within each other that a variant may have."""

MAX_DIGITS = 38
INTEGER_LIMIT = 1 << 63


class NotVariant(ValueError):
    """A value that no variant holds."""


class Single(float):
    """A number of 32 bits within a variant."""

    __slots__ = ()


def encode_variant(value: Any, depth: int = 0) -> str:
    """The text of a Python value.

    >>> encode_variant({"b": [1, None], "a": decimal.Decimal("1.50")})
    '{"a":["m","1.5"],"b":[0,1,null]}'
    """
    if depth > MAX_DEPTH:
        raise NotVariant(f"it has more than {MAX_DEPTH} levels")
    match value:
        case None | True | False:
            return _WORDS[value]
        case list() | tuple():
            return encoded_array([encode_variant(each, depth + 1) for each in value])
        case Mapping():
            return encoded_object({_name(name): encode_variant(each, depth + 1) for name, each in value.items()})
    return _encode_scalar(value)


def _encode_scalar(value: Any) -> str:
    match value:
        case int():
            return (
                str(int(value)) if -INTEGER_LIMIT <= value < INTEGER_LIMIT else _encode_decimal(decimal.Decimal(value))
            )
        case decimal.Decimal():
            return _encode_decimal(value)
        case Single():
            return _tagged("f", repr(float(value) + 0.0))
        case float():
            return _tagged("d", repr(float(value) + 0.0))
        case str():
            return encoded_text(value)
        case bytes() | bytearray() | memoryview():
            return _tagged("b", bytes(value).hex())
        case datetime.datetime() if value.tzinfo is not None:
            return _tagged("t", value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat())
        case datetime.datetime():
            return _tagged("n", value.isoformat())
        case datetime.date():
            return _tagged("D", value.isoformat())
    raise NotVariant(f"a {type(value).__name__} is no part of a variant")


_WORDS = {None: "null", True: "true", False: "false"}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise NotVariant("the name of a member is a text")
    return name


def _tagged(letter: str, text: str) -> str:
    return f'["{letter}","{text}"]'


def _encode_decimal(value: decimal.Decimal) -> str:
    if not value.is_finite():
        raise NotVariant(f"a DECIMAL cannot be {value}")
    sign, digits, exponent = value.as_tuple()
    kept = "".join(map(str, digits)).lstrip("0") or "0"
    places = -int(exponent)
    while places > 0 and kept.endswith("0"):
        kept, places = kept[:-1] or "0", places - 1
    if places < 0:
        kept, places = kept + "0" * -places, 0
    if max(len(kept), places) > MAX_DIGITS:
        raise NotVariant(f"a DECIMAL has at most {MAX_DIGITS} digits")
    plain = decimal.Decimal((sign if kept != "0" else 0, tuple(map(int, kept)), -places))
    return _tagged("m", format(plain, "f"))


def encoded_text(text: str) -> str:
    """The text of a variant that is a text."""
    return json.dumps(text, ensure_ascii=False)


def encoded_array(elements: list[str]) -> str:
    """The text of an array of variants, from theirs."""
    return f"[0,{','.join(elements)}]" if elements else "[0]"


def encoded_object(members: Mapping[str, str]) -> str:
    """The text of an object of variants, from theirs; members are in order of their names."""
    names = sorted(members, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(f"{encoded_text(name)}:{members[name]}" for name in names) + "}"


Node = Any
"""A variant as ``json`` reads its text."""


def read_node(text: str) -> Node:
    """The node of a variant's text."""
    return json.loads(text)


def write_node(node: Node) -> str:
    """The text of a variant, from its node."""
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"))


def is_array(node: Node) -> bool:
    """True for an array of variants."""
    return isinstance(node, list) and node[0] == 0


def scalar_of(node: Node) -> Any:
    """The Python value of a variant that is no array and no object.

    >>> scalar_of(read_node('["m","1.5"]'))
    Decimal('1.5')
    """
    return _READERS[node[0]](node[1]) if isinstance(node, list) else node


def _single(text: str) -> Single:
    return Single(text)


def _instant(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


_READERS: dict[str, Callable[[str], Any]] = {
    "m": decimal.Decimal,
    "d": float,
    "f": _single,
    "b": bytes.fromhex,
    "D": datetime.date.fromisoformat,
    "t": _instant,
    "n": datetime.datetime.fromisoformat,
}


def decode_variant(text: str) -> Any:
    """The Python value of a variant's text.

    >>> decode_variant('{"a":["m","1.5"],"b":[0,1,null]}')
    {'a': Decimal('1.5'), 'b': [1, None]}
    """
    return _decoded(read_node(text))


def _decoded(node: Node) -> Any:
    if isinstance(node, dict):
        return {name: _decoded(each) for name, each in node.items()}
    return [_decoded(each) for each in node[1:]] if is_array(node) else scalar_of(node)
