"""Values as Kafka Connect and Debezium write them in JSON: dates and timestamps as numbers, decimals as bytes.

If a record has a schema, the schema's type names decide. If not, the column's own type does, and the unit of a
timestamp is inferred from its magnitude.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tidemill.model import types as t
from tidemill.model.errors import BadValue
from tidemill.model.types import Type

__all__ = ["columns_of", "decode"]

ConnectColumn = Mapping[str, Any]

_EPOCH = datetime.datetime(1970, 1, 1)
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_PER_SECOND = {
    "io.debezium.time.Timestamp": 10**3,
    "org.apache.kafka.connect.data.Timestamp": 10**3,
    "io.debezium.time.MicroTimestamp": 10**6,
    "io.debezium.time.NanoTimestamp": 10**9,
}


def columns_of(schema: Any) -> dict[str, ConnectColumn]:
    """The columns in an envelope's schema: the type's ``name`` and ``parameters`` of each."""
    sides = schema.get("fields", ()) if isinstance(schema, Mapping) else ()
    rows = [side for side in sides if side.get("field") in ("before", "after")]
    return {column["field"].lower(): column for row in rows for column in row.get("fields", ())}


def decode(value: Any, type_: Type, column: ConnectColumn) -> Any:
    """A value of a column of ``type_`` as ``model.coerce`` takes it.

    >>> decode(19723, t.DATE, {})
    datetime.date(2024, 1, 1)
    >>> decode(1704067200000, t.TIMESTAMP, {}) == decode(1704067200000000, t.TIMESTAMP, {})
    True
    >>> decode("AfQ=", t.Decimal(9, 2), {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}})
    Decimal('5.00')
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if isinstance(type_, t.Date):
            return _instant(value, 1, 86_400).date()
        if isinstance(type_, t.Timestamp):
            return _instant(value, _PER_SECOND.get(column.get("name", "")) or _likely_unit(value))
    if isinstance(type_, t.Decimal):
        if isinstance(value, Mapping):  # a NUMERIC without a declared scale has its own
            return _unscaled(value.get("value"), int(value.get("scale", 0)))
        if isinstance(value, str) and column.get("name") == _DECIMAL:
            return _unscaled(value, int(column.get("parameters", {}).get("scale", type_.scale)))
    return value


def _instant(value: int, per_second: int, seconds: int = 1) -> datetime.datetime:
    """``value`` units after 1970, where a unit is ``seconds / per_second``."""
    microseconds, rest = divmod(value * seconds * 10**6, per_second)
    if rest:
        raise BadValue(f"{value} is not a whole number of microseconds", hint="Timestamps have microseconds.")
    try:
        return _EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        raise BadValue(f"{value} is beyond the calendar", detail="It ends with the year 9999.") from None


def _likely_unit(value: int) -> int:
    """Milliseconds until the year 5138; a larger number is microseconds after March 1973, or nanoseconds."""
    size = abs(value)
    return 10**3 if size < 10**14 else 10**6 if size < 10**17 else 10**9


def _unscaled(value: Any, scale: int) -> Decimal:
    """The decimal whose digits are a big-endian integer in Base64."""
    try:
        digits = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadValue(f"{value!r} is not the Base64 of a decimal") from None
    return Decimal(digits).scaleb(-scale)
