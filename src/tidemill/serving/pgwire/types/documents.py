"""Structs, maps, variants and nested arrays as jsonb prints them: keys by length, then in order."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

__all__ = ["document"]


def document(value: Any) -> str:
    """A value as the text of a jsonb.

    >>> document({"total": decimal.Decimal("1.50"), "at": datetime.date(2024, 1, 2), "n": None})
    '{"n": null, "at": "2024-01-02", "total": 1.50}'
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(decimal.Decimal(repr(value))) if math.isfinite(value) else f'"{_special(value)}"'
        case decimal.Decimal():
            return _number(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes() | bytearray():
            return json.dumps("\\x" + value.hex())
        case dict():
            members = {_key(name): member for name, member in value.items()}
            ordered = sorted(members, key=lambda name: (len(name.encode("utf-8", "replace")), name))
            return "{" + ", ".join(f"{document(name)}: {document(members[name])}" for name in ordered) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(document, value)) + "]"
        case datetime.datetime() | datetime.date() | datetime.time():
            return json.dumps(value.isoformat())
    return json.dumps(str(value), ensure_ascii=False)


def _number(value: decimal.Decimal) -> str:
    return format(value, "f")


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _key(name: Any) -> str:
    return name if isinstance(name, str) else document(name).strip('"')
