"""Values at the edges of every type, and which functions to try on which of them."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.values.singles import single
from tidemill.model import types as t
from tidemill.model.types import Field, Type

Row = tuple[Any, ...]

PRICE = t.Decimal(5, 2)
WIDE = t.Decimal(38, 10)
TEXTS = t.Array(t.STRING)
NUMBERS = t.Array(t.INT)
RECORD = t.Struct((Field("id", t.INT), Field("name", t.STRING)))

EDGES: dict[Type, list[Any]] = {
    t.BOOLEAN: [None, True, False],
    t.TINYINT: [None, 0, 3, 127, -128],
    t.SMALLINT: [None, 0, 5, 2**15 - 1, -(2**15)],
    t.INT: [None, 0, 1, -7, 25, 2**31 - 1, -(2**31)],
    t.BIGINT: [None, 0, 3, -5, 2**63 - 1, -(2**63)],
    PRICE: [None, Decimal("0.00"), Decimal("1.25"), Decimal("-7.50"), Decimal("2.35"), Decimal("999.99")],
    WIDE: [None, Decimal("0E-10"), Decimal("-3.3333333333"), Decimal("9876543210987654321098765432.1234567891")],
    t.FLOAT: [None, 0.0, 1.5, *map(single, (-0.1, 1.005, 3e38)), math.inf, math.nan],
    t.DOUBLE: [None, 0.0, 1.5, -2.5, 0.1, 1.005, 1e300, math.inf, -math.inf, math.nan],
    t.STRING: [None, "", "tide", "Tide mill", "a,b,,c", "ÄÖ ß", "  pad ", "it's 50%", "x_y\\z"],
    t.DATE: [
        None,
        *(datetime.date(*d) for d in ((2024, 2, 29), (2023, 12, 31), (2021, 1, 3), (1969, 7, 20), (1, 1, 1))),
    ],
    t.TIME: [None, datetime.time(), datetime.time(12, 34, 56, 789_000), datetime.time(23, 59, 59, 999_999)],
    t.TIMESTAMP: [
        None,
        datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999),
        datetime.datetime(2021, 1, 3, 0, 0),
        datetime.datetime(1969, 7, 20, 20, 17, 40, 500_000),
    ],
    NUMBERS: [None, (), (3, None, 1), (1, 2, 3), (2, 2)],
    TEXTS: [None, (), ("b", None, "a"), ("x", "x")],
    RECORD: [None, (1, "ann"), (None, None)],
}

NUMERIC = (t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, PRICE, WIDE, t.FLOAT, t.DOUBLE)

READABLE = [
    *EDGES[t.STRING],
    "true", "No", " 12 ", "-7", "+3", "12.5", ".5", "1e3", "1.5d", "1_000", "NaN", "-Infinity", "inf", "12a",
    "9999999999", "9223372036854775808", "2024", "2024-2", "2024-02-30", "2024-2-9", "2024-02-09 1:2:3",
    "2024-02-09T10:20:30.1234567", "2024-02-09 10:20", "2024-02-09 10:20:30+02:00", "2024-02-09 10:20:30Z",
    "2024-02-09 25:00:00", "2024-02-09 rest", "\t5\n",
]  # fmt: skip
"""Texts that some cast reads."""


@dataclass(frozen=True)
class Group:
    """Functions to try on the same rows of arguments, which may be followed by constants."""

    types: tuple[Type, ...]
    names: tuple[str, ...]
    rows: Sequence[Row] = field(default=())
    constants: tuple[Literal, ...] = ()

    def grid(self) -> list[Row]:
        """The rows: those given, or all combinations of edge values."""
        return list(self.rows) or list(itertools.product(*(EDGES[type_] for type_ in self.types)))


def names(text: str) -> tuple[str, ...]:
    """Words."""
    return tuple(text.split())


COMPARISONS = names("eq ne lt le gt ge null_safe_eq in coalesce")
CHOICES = names("greatest least nvl nullif")
OPERATORS = names("add subtract multiply divide remainder pmod")
ATTEMPTS = names("try_add try_subtract try_multiply try_divide try_mod")

ARITHMETIC = [
    *(Group(pair, OPERATORS + COMPARISONS) for pair in itertools.permutations(NUMERIC, 2)),
    *(Group((type_, type_), OPERATORS + ATTEMPTS + COMPARISONS + CHOICES) for type_ in NUMERIC),
    *(Group(pair, names("div")) for pair in itertools.product((t.INT, t.BIGINT, PRICE), (t.BIGINT, PRICE, WIDE))),
]

UNARY = names("negate positive abs round bround floor ceil sign is_null is_not_null")
REAL = names(
    "sqrt cbrt exp ln log10 log2 log1p sin cos tan asin acos atan degrees radians isnan "
    "tanh asinh atanh cot sec expm1 rint"
)

NUMBERS_ALONE = [
    *(Group((type_,), UNARY + REAL) for type_ in NUMERIC),
    *(
        Group((type_,), names("round bround floor ceil"), constants=(Literal(places, t.INT),))
        for type_, places in [(t.INT, -1), (t.BIGINT, -2), (PRICE, 1), (PRICE, -1), (PRICE, 5), (WIDE, 3)]
    ),
    *(
        Group((type_,), names("round bround"), constants=(Literal(places, t.INT),))
        for type_, places in itertools.product((t.FLOAT, t.DOUBLE), (2, -1, 400))
    ),
]

INTEGERS = (t.TINYINT, t.SMALLINT, t.INT, t.BIGINT)

BITS = [
    *(Group((type_, type_), names("bitwise_and bitwise_or bitwise_xor")) for type_ in INTEGERS),
    *(Group((type_,), names("bitwise_not bit_count hex bin")) for type_ in INTEGERS),
    *(Group((type_, t.INT), names("shiftleft shiftright shiftrightunsigned")) for type_ in (t.INT, t.BIGINT)),
    *(Group((type_, t.INT), names("bit_get"), [(5, 0), (5, 1), (-1, 7), (5, 64), (None, 1)]) for type_ in INTEGERS),
]

MORE_NUMBERS = [
    Group((t.DOUBLE, t.DOUBLE), names("hypot nanvl")),
    Group((t.INT,), names("factorial"), [(-1,), (0,), (20,), (21,), (None,)]),
    Group((), names("pi e")),
    Group(
        (t.DOUBLE, t.DOUBLE, t.DOUBLE, t.BIGINT),
        names("width_bucket"),
        [(5.3, 0.2, 10.6, 5), (-0.9, 5.2, 0.5, 2), (1.0, 2.0, 2.0, 3), (math.nan, 0.0, 1.0, 2), (0.5, 0.0, 1.0, None)],
    ),
    Group(
        (t.STRING, t.INT, t.INT),
        names("conv"),
        [("100", 2, 10), ("-10", 16, -10), ("zz", 36, 16), ("", 10, 2), ("1", 1, 2), (None, 10, 2)],
    ),
    *(
        Group((type_, t.INT), names("format_number"), [*itertools.product(EDGES[type_], (None, -1, 0, 3))])
        for type_ in NUMERIC
    ),
]

BESIDE_LITERALS = [
    Group((type_,), OPERATORS + names("gt coalesce in"), constants=(literal,))
    for type_ in (t.INT, PRICE, WIDE, t.DOUBLE)
    for literal in (Literal(2, t.INT), Literal(1000, t.BIGINT), Literal(Decimal("0.05"), t.Decimal(2, 2)))
]
"""An integer literal beside a DECIMAL is as narrow as its digits, unlike a column."""


def spark_errs(name: str, values: Row) -> bool:
    """Where Spark is wrong and we do not follow it."""
    if name in ("negate", "abs"):
        return any(isinstance(value, Decimal) and len(value.as_tuple().digits) > 34 for value in values)  # it rounds
    return name == "pmod" and values[-1] in (-128, -(2**15), -(2**31), -(2**63))  # it wraps around


SAME_TYPE = [
    Group((type_, type_), COMPARISONS + CHOICES)
    for type_ in (t.BOOLEAN, t.STRING, t.DATE, t.TIMESTAMP, NUMBERS, TEXTS, RECORD)
]

MIXED = [
    Group((t.STRING, t.INT), names("eq lt add in coalesce"), [("12", 12), (" 7", 8), (None, 1), ("x", 1), ("2.5", 2)]),
    Group((t.STRING, PRICE), names("eq lt multiply"), [("12.5", Decimal("1.25")), (None, None), ("", Decimal("0.10"))]),
    Group((t.DOUBLE, t.STRING), names("ge subtract coalesce"), [(1.5, "1.5"), (None, "NaN"), (2.0, "z")]),
    Group((t.DATE, t.STRING), names("eq lt coalesce"), [(datetime.date(2024, 2, 29), "2024-2-29"), (None, "2024")]),
    Group((t.DATE, t.TIMESTAMP), names("eq lt ge coalesce")),
    Group((t.BOOLEAN, t.STRING), names("eq"), [(True, "yes"), (False, "f"), (True, None)]),
    Group((t.BOOLEAN, t.INT, t.DOUBLE), names("if"), [(True, 1, 2.5), (False, 1, 2.5), (None, 1, None)]),
    Group((t.INT, t.STRING, t.STRING), names("nvl2"), [(1, "a", "b"), (None, "a", "b"), (None, "a", None)]),
    Group((t.INT, t.INT, t.BIGINT), names("between"), [(1, 0, 2), (1, None, 0), (1, 2, None), (None, 1, 1)]),
]

LOGIC = [Group((t.BOOLEAN, t.BOOLEAN), names("and or eq")), Group((t.BOOLEAN,), names("not is_null"))]

_PATTERNS = [
    ("tidemill", "tide%"),
    ("tidemill", "t_de____"),
    ("50%", "50\\%"),
    ("a\nb", "a%b"),
    ("Tide", "tIDE"),
    (None, "%"),
    ("x", None),
    ("a.c", "a.c"),
    ("abc", "a.c"),
    ("bad", "a\\b"),
    ("end", "end\\"),
]

TEXT = [
    Group((t.STRING,), names("length upper lower initcap reverse trim ltrim rtrim ascii md5 sha1 is_null")),
    Group((t.STRING, t.STRING), names("concat concat_ws instr locate position startswith endswith contains")),
    Group(
        (t.STRING, t.STRING), names("concat_ws startswith endswith contains instr"), [("tide", "de"), ("tide", "ti")]
    ),
    Group((t.STRING, t.STRING), names("like ilike"), _PATTERNS),
    Group((t.STRING, t.STRING), names("like"), [("50%", "50/%"), ("a\\b", "a\\b")], (Literal("/", t.STRING),)),
    Group((t.STRING, t.STRING), names("trim ltrim rtrim"), [("xxaxyx", "xy"), ("abc", ""), (" a ", " "), (None, "x")]),
    Group(
        (t.STRING, t.INT),
        names("substring left right repeat lpad rpad"),
        [
            *itertools.product(("tidemill", "", "ÄÖß"), (-20, -3, -1, 0, 1, 2, 5, 20)),
            (None, 1),
            ("a", None),
        ],
    ),
    Group(
        (t.STRING, t.INT, t.INT),
        names("substring"),
        [("tidemill", *pair) for pair in itertools.product((-20, -10, -3, 0, 1, 3, 9), (-1, 0, 2, 9, 2**31 - 1))],
    ),
    Group(
        (t.STRING, t.INT, t.STRING),
        names("lpad rpad"),
        [
            ("mill", 7, "ab"),
            ("mill", 2, "ab"),
            ("mill", 9, ""),
            ("", 3, "x"),
            ("m", -1, "x"),
            ("m", None, "x"),
        ],
    ),
    Group(
        (t.STRING, t.STRING, t.STRING),
        names("replace translate"),
        [
            ("banana", "an", "AN"),
            ("banana", "", "x"),
            ("banana", "anb", "A"),
            ("aab", "aab", "xyz"),
            (None, "a", "b"),
        ],
    ),
    Group(
        (t.STRING, t.STRING, t.INT),
        names("locate position"),
        [
            ("a", "banana", 1),
            ("a", "banana", 3),
            ("a", "banana", 0),
            ("a", "banana", -1),
            ("", "abc", 2),
            ("z", "abc", 1),
            ("", "", 1),
            ("", "abc", 9),
        ],
    ),
    Group(
        (t.STRING, t.STRING, t.INT),
        names("split_part"),
        [
            ("a,b,c", ",", 2),
            ("a,b,c", ",", -1),
            ("a,b,c", ",", 9),
            ("a,b,c", ",", 0),
            ("abc", "", 1),
            ("a||b", "||", 2),
        ],
    ),
    Group((t.BIGINT,), names("chr"), [(65,), (228,), (300,), (-1,), (0,), (256,), (None,)]),
    Group((t.STRING, t.INT), names("sha2"), [("tide", bits) for bits in (0, 224, 256, 384, 512, 1)]),
    Group((t.INT,), names("space"), [(3,), (0,), (-1,), (None,)]),
    Group(
        (t.INT, PRICE, t.BOOLEAN, t.DATE, t.DOUBLE),
        names("concat concat_ws"),
        [
            (1, Decimal("2.50"), True, datetime.date(2024, 2, 29), 1e7),
            (None, None, None, None, None),
        ],
    ),
]

PARTS = [
    Group((t.STRING,), names("octet_length bit_length soundex mask quote luhn_check hex crc32 url_encode")),
    Group((t.STRING,), names("url_decode try_url_decode"), [("a%20b+c",), ("%C3%A9",), ("%4",), ("",), (None,)]),
    Group((t.STRING, t.STRING), names("find_in_set levenshtein jaro_winkler_similarity")),
    Group(
        (t.STRING, t.STRING, t.INT),
        names("substring_index levenshtein"),
        [
            ("a,b,,c", ",", 2),
            ("a,b,,c", ",", -1),
            ("aaa", "aa", 1),
            ("abc", "", 1),
            (None, ",", 1),
            ("abc", "abd", None),
        ],
    ),
    Group(
        (t.STRING,),
        names("to_number try_to_number"),
        [("12,454.8-",), ("5",), ("-5",), ("1,2,3",), ("454+",), (".5",), ("",), (None,)],
        (Literal("99,999.9S", t.STRING),),
    ),
    Group((t.INT, t.STRING, t.STRING), names("elt"), [(1, "a", "b"), (2, "a", None), (3, "a", "b"), (None, "a", "b")]),
    Group(
        (t.STRING, t.STRING, t.INT, t.INT),
        names("overlay instr"),
        [("banana", "an", 2, 1), ("banana", "an", -1, 2), ("ÄÖß", "Ö", 1, 1), ("", "a", 1, 1), (None, "a", 1, 1)],
    ),
    Group(
        (t.STRING, t.STRING),
        names("parse_url try_parse_url"),
        [
            *itertools.product(
                ("https://ann:x@example.com:80/a/b?c=1&d=2#top", "mailto:a@b.c", "a b", "/a"),
                names("HOST PATH QUERY REF PROTOCOL FILE AUTHORITY USERINFO host"),
            )
        ],
    ),
    *(Group((type_, t.INT), names("hash xxhash64")) for type_ in EDGES),
    Group(
        (t.BIGINT, t.INT),
        names("hash_register"),
        [(-1, 9), (0, 4), (2**63 - 1, 18), (-(2**63), 9), (12345678987654321, 12)],
    ),
]

EXPRESSIONS = [
    Group(
        (t.STRING, t.STRING),
        names("regexp_count regexp_substr regexp_instr regexp_extract_all"),
        [("tide12mill", "([0-9]+)"), ("a1b22c", "([0-9])"), ("", "(x)"), (None, "a"), ("ÄX ÄX", "(X)")],
    ),
    Group(
        (t.STRING, t.STRING),
        names("rlike split regexp_extract"),
        [
            ("tide12mill", "([0-9]+)"),
            ("a1b22c", "([0-9])"),
            ("abc", "()"),
            ("", "(x)"),
            ("a b", "(\\s)"),
            ("x", "(["),
            (None, "a"),
            ("aXbX", "(X)"),
            ("ß", "(\\w)"),
        ],
    ),
    Group(
        (t.STRING, t.STRING, t.INT),
        names("split regexp_extract"),
        [
            ("a1b2c", "([0-9])", 2),
            ("a1b2c", "([0-9])", 0),
            ("a1b2c", "([0-9])", 1),
            ("abc", "(z)?b", 1),
            ("a", "a", -1),
        ],
    ),
    Group(
        (t.STRING, t.STRING, t.STRING),
        names("regexp_replace"),
        [
            ("a1b22", "([0-9]+)", "<$1>"),
            ("abc", "", "-"),
            ("a.b", "\\.", "\\$"),
            ("abc", "b", ""),
            ("ab", "(z)?a", "[$1]"),
        ],
    ),
    *(
        Group(
            (t.STRING,) * 3,
            names("regexp_replace"),
            [("a1b22", "[0-9]", "#"), (None, "", "")],
            (Literal(start, t.INT),),
        )
        for start in (1, 3, 9)
    ),
]

_DAY = datetime.date(2024, 2, 29)
_MOMENT = datetime.datetime(2024, 2, 29, 13, 14, 15, 123_456)
_UNITS = names("year YYYY yy quarter Month MON mm week day dd hour minute second millisecond microsecond century")

TIME = [
    Group((t.DATE,), names("year quarter month day week dayofweek weekday dayofyear last_day unix_date")),
    Group(
        (t.TIMESTAMP,),
        names("year hour minute second second_with_fraction unix_seconds unix_millis unix_micros last_day"),
    ),
    Group((t.DATE,), names("hour dayofweek_iso")),
    Group((t.DATE, t.INT), names("date_add date_sub add_days"), [*itertools.product(EDGES[t.DATE], (None, 0, 1, 366))]),
    Group(
        (t.DATE, t.INT),
        names("add_months add_months_to"),
        [
            *itertools.product(EDGES[t.DATE], (None, 0, 1, 12, 25)),
            (_DAY, -12),
            (_DAY, -1),
            (datetime.date(2024, 1, 31), 1),
        ],
    ),
    Group(
        (t.TIMESTAMP, t.INT),
        names("add_months_to add_months"),
        [
            *itertools.product(EDGES[t.TIMESTAMP], (None, 1, -12)),
        ],
    ),
    Group((t.TIMESTAMP, t.BIGINT), names("add_microseconds"), [(_MOMENT, 1), (_MOMENT, -86_400_000_000), (None, 1)]),
    Group((t.DATE, t.DATE), names("datediff")),
    Group((t.TIMESTAMP, t.TIMESTAMP), names("months_between datediff")),
    Group(
        (t.DATE, t.DATE),
        names("months_between"),
        [(datetime.date(2024, 3, 31), _DAY), (_DAY, datetime.date(2023, 1, 1))],
    ),
    Group((t.DATE, t.STRING), names("trunc"), [*itertools.product((_DAY, None, datetime.date(2021, 1, 3)), _UNITS)]),
    Group((t.STRING, t.TIMESTAMP), names("date_trunc"), [*itertools.product(_UNITS, EDGES[t.TIMESTAMP])]),
    Group((t.INT, t.INT, t.INT), names("make_date"), [(2024, 2, 29), (2023, 2, 29), (None, 1, 1), (2024, 13, 1)]),
    Group((t.INT,), names("date_from_unix_date timestamp_seconds timestamp_millis"), [(0,), (-1,), (19_782,), (None,)]),
    Group(
        (t.BIGINT,),
        names("timestamp_seconds timestamp_millis timestamp_micros"),
        [(0,), (-1,), (1_700_000_000,), (None,)],
    ),
    Group((t.DOUBLE,), names("timestamp_seconds"), [(1.5,), (-0.25,), (None,)]),
    Group((PRICE,), names("timestamp_seconds"), [(Decimal("1.25"),), (Decimal("-7.50"),)]),
    Group(
        (t.STRING,),
        names("year to_date to_timestamp hour"),
        [("2024-02-29 10:00:00",), ("2024-2-9",), ("no",), (None,)],
    ),
]

_PATTERNS_OF_TIME = names("yyyy-MM-dd EEEE,d.MMMM.yy h:mm:ss.SSSa DDD/q G QQQQ XXX,xx,Z,VV,O [yyyy] www yyyyyyy")
_ZONES = names("UTC Europe/Berlin -03:30 nowhere")

TIME_FORMATS = [
    Group(
        (t.TIMESTAMP, t.STRING), names("write_timestamp"), [*itertools.product(EDGES[t.TIMESTAMP], _PATTERNS_OF_TIME)]
    ),
    Group((t.BIGINT, t.STRING), names("from_unixtime"), [(0, "yyyy"), (-1, "HH:mm"), (None, "y"), (1, None), (1, "w")]),
    Group((t.BIGINT,), names("from_unixtime"), [(0,), (-1,), (1_700_000_000,), (None,)]),
    Group(
        (t.STRING, t.STRING),
        names("to_timestamp try_to_timestamp to_date try_to_date unix_timestamp"),
        [
            ("2024-02-29", "yyyy-MM-dd"),
            ("29.2.24 1:05 PM", "d.M.yy h:mm a"),
            ("2024-02-30", "yyyy-MM-dd"),
            ("1969-12-31 23:59:59.25+01:00", "yyyy-MM-dd HH:mm:ss.SSSXXX"),
            ("2024", "w"),
            (None, "yyyy"),
            ("2024", None),
        ],
    ),
    Group((t.TIMESTAMP,), names("unix_timestamp year_of_week")),
    Group(
        (t.TIMESTAMP, t.STRING),
        names("to_utc_timestamp from_utc_timestamp"),
        [*itertools.product((*EDGES[t.TIMESTAMP], datetime.datetime(2024, 3, 31, 2, 30)), _ZONES)],
    ),
    Group((t.DATE, t.STRING), names("next_day"), [(_DAY, "MO"), (_DAY, "thursday"), (_DAY, "x"), (None, "su")]),
    Group((t.DATE,), names("dayname monthname year_of_week")),
    Group(
        (t.INT, t.INT, t.INT, t.INT, t.INT, t.Decimal(16, 6), t.STRING),
        names("make_timestamp try_make_timestamp"),
        [
            (2024, 3, 31, 2, 30, Decimal("1.500000"), "Europe/Berlin"),
            (2019, 6, 30, 23, 59, Decimal("60.000000"), "UTC"),
            (2019, 6, 30, 23, 59, Decimal("60.500000"), "UTC"),
            (2019, 2, 29, 0, 0, Decimal("0.000000"), "UTC"),
            (None, 2, 28, 0, 0, Decimal("0.000000"), "UTC"),
        ],
    ),
]

_CLOCK_UNITS = names("HOUR minute SECOND millisecond MICROSECOND day")

TIMES_OF_DAY = [
    Group((t.TIME,), names("hour minute second time_to_seconds time_to_millis time_to_micros")),
    Group((t.TIME, t.TIME), names("eq lt null_safe_eq coalesce greatest nullif")),
    Group((t.STRING, t.TIME), names("time_trunc"), [*itertools.product(_CLOCK_UNITS, EDGES[t.TIME])]),
    Group(
        (t.STRING, t.TIME, t.TIME),
        names("time_diff"),
        [*itertools.product(_CLOCK_UNITS, EDGES[t.TIME], EDGES[t.TIME])],
    ),
    Group(
        (t.INT, t.INT, t.Decimal(16, 6)),
        names("make_time"),
        [(6, 30, Decimal("45.887000")), (24, 0, Decimal("0.000000")), (None, 1, Decimal("1.000000"))],
    ),
    Group((t.BIGINT,), names("time_from_seconds time_from_millis time_from_micros"), [(0,), (86_399,), (-1,), (None,)]),
    Group((t.DOUBLE,), names("time_from_seconds"), [(1.5,), (86_400.0,), (None,)]),
    Group(
        (t.STRING, t.STRING),
        names("to_time try_to_time"),
        [("12.10.05", "HH.mm.ss"), ("1 PM", "h a"), ("25", "HH"), (None, "HH"), ("12", None)],
    ),
    Group((t.STRING,), names("to_time try_to_time"), [("12:10",), ("1:2:3.4567 pm",), ("24:00",), (None,)]),
    Group((t.TIME, t.STRING), names("date_format"), [*itertools.product(EDGES[t.TIME], names("HH:mm h,mm,a ss.SSS"))]),
    Group((t.DATE, t.TIME), names("make_timestamp make_timestamp_ntz try_make_timestamp")),
    Group(
        (t.DATE, t.TIME, t.STRING),
        names("make_timestamp_ltz"),
        [(datetime.date(2024, 3, 31), datetime.time(2, 30), "Europe/Berlin"), (None, datetime.time(), "UTC")],
    ),
    Group(
        (t.STRING, t.STRING),
        names("to_timestamp_ntz"),
        [("2024-02-29 10:00+02:00", "yyyy-MM-dd HH:mmXXX"), ("x", "yyyy"), (None, "y")],
    ),
    Group(
        (t.STRING, t.STRING, t.TIMESTAMP_NTZ),
        names("convert_timezone"),
        [("Europe/Berlin", "UTC", datetime.datetime(2024, 3, 31, 2, 30)), ("UTC", "nowhere", None)],
    ),
]

COLLATIONS = [
    Group((t.STRING,), names("collated search_key"), [("Tide Mill",), ("ΣΑΣ",), ("",), (None,)]),
    *(
        Group((t.STRING,), names("collation_key"), [("Tide  ",), ("ΑΣ",), ("İß",), (None,)], (Literal(name, t.STRING),))
        for name in names("UTF8_BINARY UTF8_LCASE UTF8_BINARY_RTRIM UTF8_LCASE_RTRIM")
    ),
]

JSON = [
    Group(
        (t.STRING, t.STRING),
        names("get_json_object"),
        [
            *itertools.product(('{"a": [1, {"b": "x"}], "c": 1.50}', "[1", "", None), ("$", "$.a[*]", "$.a[1].b", "a")),
        ],
    ),
    Group((t.STRING,), names("json_array_length json_object_keys"), [("[1, [2]]",), ('{"a": 1}',), ("x",), (None,)]),
    Group((RECORD,), names("to_json")),
    Group((NUMBERS,), names("to_json")),
    Group((t.Array(t.TIMESTAMP),), names("to_json"), [((_MOMENT, None),), (None,)]),
]

NESTED = [
    Group((NUMBERS,), names("size sort_array array_distinct array_max array_min is_null")),
    Group((TEXTS,), names("size sort_array array_distinct array_max array_min")),
    Group((NUMBERS,), names("sort_array"), constants=(Literal(False, t.BOOLEAN),)),
    Group(
        (NUMBERS, t.INT),
        names("get_item get element_at try_element_at array_contains"),
        [
            *itertools.product(EDGES[NUMBERS], (None, 0, 1, 2, 3, -1, -3, -4)),
        ],
    ),
    Group(
        (TEXTS, t.STRING), names("array_join array_contains"), [*itertools.product(EDGES[TEXTS], (None, "", "a", ", "))]
    ),
    Group((TEXTS, t.STRING, t.STRING), names("array_join"), [(("b", None), ",", "?"), (("b", None), ",", None)]),
    Group((t.STRING, TEXTS), names("concat_ws"), [*itertools.product((None, ","), EDGES[TEXTS])]),
    Group((NUMBERS, NUMBERS), names("concat array_union array_intersect array_except arrays_overlap")),
    Group((TEXTS, TEXTS), names("array_union array_intersect array_except arrays_overlap")),
    Group((NUMBERS, t.Array(t.BIGINT)), names("concat array_union array_except"), [((1, None), (1, 2**40)), ((), ())]),
    Group((t.Array(t.DOUBLE), t.Array(t.DOUBLE)), names("array_union array_except"), [((math.nan, 1.5), (math.nan,))]),
    Group((NUMBERS,), names("reverse array_compact array_sort numbered")),
    Group((TEXTS,), names("reverse array_compact array_sort numbered")),
    Group((t.Array(t.DOUBLE),), names("array_sort array_distinct numbered"), [((math.nan, None, 1.5, math.nan),)]),
    Group((NUMBERS, t.INT), names("array_position array_remove array_append array_prepend")),
    Group((NUMBERS, t.BIGINT), names("array_position array_append"), [((1, 2), 2), ((1, 2), 2**40), (None, 1)]),
    Group((NUMBERS, t.INT, t.INT), names("array_insert"), [((1, 2), 3, 9), ((), -2, 9), ((1,), 0, 9), (None, 1, None)]),
    Group((t.STRING, t.INT), names("array_repeat"), [("a", 2), (None, 2), ("a", 0), ("a", -1), ("a", None)]),
    Group(
        (NUMBERS, t.INT, t.INT),
        names("slice"),
        [*itertools.product(EDGES[NUMBERS], (None, 0, 1, 3, 9, -1, -3, -9), (None, 0, 2, 9, -1))],
    ),
    Group((t.Array(NUMBERS),), names("flatten"), [(((1, None), ()),), (((1,), None),), ((),), (None,)]),
    Group((t.INT, t.INT), names("sequence"), [(1, 3), (3, 1), (2, 2), (None, 1)]),
    Group((t.INT, t.BIGINT, t.INT), names("sequence"), [(1, 9, 4), (9, 1, -3), (1, 9, -1), (1, 2, 0), (1, 1, 0)]),
    Group((t.INT, PRICE, t.DOUBLE), names("array"), [(1, Decimal("2.50"), 3.5), (None, None, None)]),
    Group((t.INT, t.STRING), names("array"), [(1, "2"), (None, None)]),
    Group((t.DOUBLE, t.DOUBLE), names("power atan2 log")),
    Group((RECORD,), names("get_field"), constants=(Literal("name", t.STRING),)),
]

_FLOATS = t.Array(t.FLOAT)
_VECTORS = [None, (), (3.0, -4.0), (0.0, 0.0), (1.5, None), (*map(single, (0.1, 0.2, 0.3)), 7.0), (1e30, 1e-30)]
_LONGER = [tuple(single(0.1 * place + start) for place in range(11)) for start in (0.3, -0.7)]

MORE_SCALARS = [
    Group((t.BIGINT,), names("bitmap_bit_position bitmap_bucket_number")),
    Group((t.BINARY,), names("bitmap_count"), [(b"",), (b"\x10\xff",), (None,)]),
    Group((_FLOATS,), names("vector_norm vector_normalize"), [(one,) for one in (*_VECTORS, *_LONGER)]),
    Group(
        (_FLOATS, _FLOATS),
        names("vector_l2_distance vector_cosine_similarity"),
        [*itertools.product(_VECTORS, _VECTORS), tuple(_LONGER)],
    ),
    Group((PRICE,), names("to_char"), constants=(Literal("S9,990.9", t.STRING),)),
    Group((t.INT,), names("to_char"), constants=(Literal("999PR", t.STRING),)),
    Group((t.STRING, t.STRING), names("hmac"), [("key", "message"), ("k", ""), (None, "a"), ("a", None)]),
    Group(
        (t.STRING, t.BIGINT, t.DOUBLE, t.STRING),
        names("format_string"),
        [
            ("%,d|%8.2f|%-5s|", 1234567, -2.345, "ab"),
            ("%3$S", 1, 2.0, "ab"),
            ("%s %s %s", None, None, None),
            ("%d", None, None, None),
        ],
    ),
    Group((t.STRING,), names("sentences"), [("Hi there! It's 9.30 a.m. in York.",), ("",), (None,)]),
    Group(
        (t.STRING, t.STRING, t.TIMESTAMP_NTZ),
        names("convert_timezone"),
        [*itertools.product(_ZONES, _ZONES, (_MOMENT, datetime.datetime(2024, 3, 31, 2, 30), None))],
    ),
    Group(
        (t.INT, t.INT, t.INT, t.INT, t.INT, t.Decimal(16, 6)),
        names("make_timestamp_ntz try_make_timestamp_ntz"),
        [(2019, 6, 30, 23, 59, Decimal("60.000000")), (2019, 2, 29, 0, 0, Decimal("0.000000")), (None,) * 6],
    ),
    Group((t.STRING, t.STRING), names("to_timestamp_ntz"), [("2.1.2024", "d.M.yyyy"), ("x", "yyyy"), (None, "yyyy")]),
]

NUMERIC_GROUPS = ARITHMETIC + NUMBERS_ALONE + BITS + MORE_NUMBERS + BESIDE_LITERALS
GROUPS = (
    NUMERIC_GROUPS
    + SAME_TYPE
    + MIXED
    + LOGIC
    + TEXT
    + PARTS
    + EXPRESSIONS
    + TIME
    + TIME_FORMATS
    + TIMES_OF_DAY
    + COLLATIONS
    + COLLATIONS
    + NESTED
    + JSON
    + MORE_SCALARS
)
