"""All scalar functions by name."""

from __future__ import annotations

from tidemill.algebra.functions.arithmetic import ARITHMETIC
from tidemill.algebra.functions.arrays import ARRAYS
from tidemill.algebra.functions.binary import BYTES
from tidemill.algebra.functions.bits import BITS
from tidemill.algebra.functions.comparison import COMPARISON, RELATIONS
from tidemill.algebra.functions.function import Function
from tidemill.algebra.functions.hashes import HASHES
from tidemill.algebra.functions.higher_order import LAMBDAS
from tidemill.algebra.functions.integer_bounds import INTEGER_BOUNDS
from tidemill.algebra.functions.json import JSON
from tidemill.algebra.functions.maps import MAPS
from tidemill.algebra.functions.mathematics import MATHEMATICS
from tidemill.algebra.functions.nested import NESTED
from tidemill.algebra.functions.number_formats import NUMBER_FORMATS
from tidemill.algebra.functions.number_text import NUMBER_TEXT
from tidemill.algebra.functions.numerals import NUMERALS
from tidemill.algebra.functions.regexp import PATTERNS
from tidemill.algebra.functions.ring_arithmetic import RING
from tidemill.algebra.functions.similarity import SIMILARITY
from tidemill.algebra.functions.strings import STRINGS
from tidemill.algebra.functions.text_parts import TEXT_PARTS
from tidemill.algebra.functions.time import TIME
from tidemill.algebra.functions.time_formats import TIME_FORMATS
from tidemill.algebra.functions.time_units import TIME_UNIT_FUNCTIONS
from tidemill.algebra.functions.time_windows import TIME_WINDOWS
from tidemill.algebra.functions.urls import URLS
from tidemill.algebra.functions.variance import VARIANCE_FUNCTIONS

THEMES = (
    ARITHMETIC, BITS, COMPARISON, MATHEMATICS, NUMERALS, NUMBER_TEXT, STRINGS, TEXT_PARTS, SIMILARITY, PATTERNS, URLS,
    NUMBER_FORMATS, BYTES, HASHES, TIME, TIME_FORMATS, TIME_UNIT_FUNCTIONS, TIME_WINDOWS, NESTED, ARRAYS, MAPS, JSON,
    LAMBDAS, RING, INTEGER_BOUNDS, VARIANCE_FUNCTIONS,
)  # fmt: skip


FUNCTIONS: dict[str, Function] = {function.name: function for theme in THEMES for function in theme}
"""Every function that a ``Call`` may name."""


INTERNAL = frozenset({
    *(function.name for theme in (TIME_WINDOWS, RING, INTEGER_BOUNDS, VARIANCE_FUNCTIONS) for function in theme),
    *(function.name for function in RELATIONS), "add", "subtract", "multiply", "divide", "remainder", "negate",
    "is_null", "is_not_null", "average", "try_average", "mean", "bigint_checked", "add_days", "add_months_to",
    "add_microseconds",
    "ceil_places", "ceil_whole", "floor_places", "floor_whole", "dayofweek_iso", "second_with_fraction",
    "filter_placed", "transform_placed", "sort_by", "get_field", "get_item", "numbered", "log_base", "decode_bytes",
    "map_element", "map_size", "map_value", "sequence_of_moments", "week", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_not", "instr_from", "levenshtein_within", "parse_timestamp", "try_parse_timestamp", "timestamp_add",
    "timestamp_difference", "year_of_week", "whole_seconds", "timestamp_of_parts", "try_timestamp_of_parts",
})  # fmt: skip
"""Internal functions that operators and other functions expand to; users cannot call them by these names."""


OPERATORS = frozenset(function.name for function in (*ARITHMETIC, *RELATIONS))
"""Functions beside which an integer literal is as narrow as its digits."""
