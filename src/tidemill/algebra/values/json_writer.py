"""Values as JSON texts, as TO_JSON writes them: members that are NULL are left out, elements are not."""

from __future__ import annotations

import base64
from typing import Any

from tidemill.algebra.values.datetime_patterns import write_pattern
from tidemill.algebra.values.formats import write
from tidemill.algebra.values.json_reader import quoted
from tidemill.model import types as t
from tidemill.model.types import Type

LOCAL_PATTERN = "yyyy-MM-dd'T'HH:mm:ss[.SSS]"
TIMESTAMP_PATTERN = LOCAL_PATTERN + "[XXX]"


def write_json(value: Any, of: Type) -> str:
    """A value as JSON.

    >>> write_json((1, None), t.Struct((t.Field("a", t.INT), t.Field("b", t.INT))))
    '{"a":1}'
    """
    if value is None:
        return "null"
    match of:
        case t.Struct(fields):
            members = zip(fields, value, strict=True)
            texts = (f"{quoted(f.name)}:{write_json(member, f.type)}" for f, member in members if member is not None)
            return "{" + ",".join(texts) + "}"
        case t.Array(element):
            return "[" + ",".join(write_json(each, element) for each in value) + "]"
        case t.Boolean() | t.Integral():
            return write(value, of)
        case t.Decimal():
            return str(value if value else value.copy_abs())
        case t.Floating():
            text = write(value, of)
            return text if text[-1].isdigit() else quoted(text)
        case t.Map(key, element):
            texts = (f"{quoted(write(name, key))}:{write_json(member, element)}" for name, member in value)
            return "{" + ",".join(texts) + "}"
        case t.Binary():
            return quoted(base64.b64encode(value).decode())
        case t.TimestampNtz():
            return quoted(write_pattern(value, LOCAL_PATTERN))
        case t.Timestamp():
            return quoted(write_pattern(value, TIMESTAMP_PATTERN))
    return quoted(write(value, of))
