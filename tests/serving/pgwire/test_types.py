"""Values on the wire: the bytes that a real PostgreSQL sends for the same values, in both formats."""

from __future__ import annotations

import psycopg
import pytest

VALUES = [
    ("true", "true"),
    ("CAST(-7 AS SMALLINT)", "(-7)::int2"),
    ("CAST(2147483647 AS INT)", "2147483647::int4"),
    ("CAST(-9223372036854775807 AS BIGINT)", "(-9223372036854775807)::int8"),
    *(
        (f"CAST('{n}' AS DECIMAL(20,4))", f"'{n}'::numeric(20,4)")
        for n in ("0", "-12345.6", "0.0001", "10000", "99999999.5")
    ),
    ("CAST('123456789012345678' AS DECIMAL(18,0))", "'123456789012345678'::numeric(18,0)"),
    *(
        (f"CAST('{n}' AS DOUBLE)", f"'{n}'::float8")
        for n in ("0.1", "1e15", "123456789012345", "1.5e-7", "0.0001", "0.00001", "1e300", "NaN", "Infinity", "-2.5")
    ),
    *((f"CAST('{n}' AS FLOAT)", f"'{n}'::float4") for n in ("0.1", "1e6", "123456", "16777216", "1.5e-7", "-Infinity")),
    ("'it''s é \\\\'", "'it''s é \\'"),
    ("CAST('' AS STRING)", "''::text"),
    ("X'00ff41'", "'\\x00ff41'::bytea"),
    ("DATE '2024-02-29'", "date '2024-02-29'"),
    ("DATE '1970-01-01'", "date '1970-01-01'"),
    ("TIMESTAMP '2024-01-02 03:04:05.678'", "timestamptz '2024-01-02 03:04:05.678+00'"),
    ("TIMESTAMP_NTZ '1999-12-31 23:59:59'", "timestamp '1999-12-31 23:59:59'"),
    ("CAST('12:34:56.7' AS TIME(6))", "time '12:34:56.7'"),
    ("INTERVAL '1-2' YEAR TO MONTH", "interval '1 year 2 months'"),
    ("INTERVAL '-1 02:03:04.5' DAY TO SECOND", "interval '-1 days -02:03:04.5'"),
    ("INTERVAL '0' SECOND", "interval '0'"),
    ("array(1, NULL, 3)", "ARRAY[1, NULL, 3]"),
    ("array('a', '', 'x y', 'NULL', 'q\"', 'b\\\\')", "ARRAY['a', '', 'x y', 'NULL', 'q\"', 'b\\']"),
    ("array(true, false)", "ARRAY[true, false]"),
    ("array(CAST('1.50' AS DECIMAL(5,2)))", "ARRAY['1.50'::numeric(5,2)]"),
    ("array(DATE '2024-01-01')", "ARRAY[date '2024-01-01']"),
    ("named_struct('bb', 1, 'a', 'x\"')", '\'{"bb": 1, "a": "x\\""}\'::jsonb'),
    ("map('k', array(1, NULL))", "'{\"k\": [1, null]}'::jsonb"),
    ("CAST(NULL AS INT)", "NULL::int4"),
]


@pytest.fixture(scope="module")
def both(door, real_postgres):
    with door.connect() as client:
        yield client, real_postgres


def wire(client: psycopg.Connection, value: str, binary: bool) -> tuple[bytes | None, int, int]:
    """The bytes of a value, with the number of its type and its modifier."""
    found = client.execute(f"SELECT {value} AS v", binary=binary).pgresult
    assert found is not None
    return found.get_value(0, 0), found.ftype(0), found.fmod(0)


@pytest.mark.parametrize(("ours", "theirs"), VALUES, ids=[theirs for _, theirs in VALUES])
def test_a_value_is_sent_as_postgres_sends_it(both, ours, theirs):
    client, real = both
    for binary in (False, True):
        assert wire(client, ours, binary)[:2] == wire(real, theirs, binary)[:2]
    if "numeric" in theirs:
        assert wire(client, ours, False)[2] == wire(real, theirs, False)[2]


@pytest.mark.parametrize("binary", [False, True])
def test_parameters_come_back(client, binary):
    import datetime
    from decimal import Decimal

    marker = "%b" if binary else "%t"
    for value, of in (
        (True, "BOOLEAN"),
        (-7, "BIGINT"),
        (Decimal("-12345.6789"), "DECIMAL(12,4)"),
        (0.1, "DOUBLE"),
        ("it's", "STRING"),
        (b"\0\xff", "BINARY"),
        (datetime.date(2024, 2, 29), "DATE"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC), "TIMESTAMP"),
        (datetime.time(12, 34, 56), "TIME(6)"),
        (datetime.timedelta(days=-1, seconds=5), "INTERVAL DAY TO SECOND"),
        ([1, None, 3], "ARRAY<INT>"),
        (["a", 'q"', None], "ARRAY<STRING>"),
        (None, "INT"),
    ):
        assert client.execute(f"SELECT CAST({marker} AS {of})", [value]).fetchone() == (value,), of


@pytest.mark.parametrize("text", ["x", "1.5", "99999999999999999999", ""])
def test_a_value_of_another_type_is_refused(client, text):
    found = client.pgconn.exec_params(b"SELECT * FROM orders WHERE id = $1", [text.encode()])
    assert found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) in (b"22P02", b"22003", b"22000")
