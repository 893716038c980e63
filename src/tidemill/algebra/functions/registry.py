"""All scalar functions by name."""

from __future__ import annotations

from tidemill.algebra.functions.comparison import COMPARISON, RELATIONS
from tidemill.algebra.functions.datetime.intervals import INTERNAL_INTERVALS, INTERVALS
from tidemill.algebra.functions.datetime.time import TIME
from tidemill.algebra.functions.datetime.time_formats import TIME_FORMATS
from tidemill.algebra.functions.datetime.time_units import TIME_UNIT_FUNCTIONS
from tidemill.algebra.functions.datetime.time_windows import TIME_WINDOWS
from tidemill.algebra.functions.datetime.times_of_day import TIMES_OF_DAY
from tidemill.algebra.functions.function import Function
from tidemill.algebra.functions.nested.arrays import ARRAYS
from tidemill.algebra.functions.nested.higher_order import LAMBDAS
from tidemill.algebra.functions.nested.maps import MAPS
from tidemill.algebra.functions.nested.structs import STRUCTS
from tidemill.algebra.functions.nested.vectors import VECTORS
from tidemill.algebra.functions.numbers.arithmetic import ARITHMETIC
from tidemill.algebra.functions.numbers.bitmaps import BITMAPS
from tidemill.algebra.functions.numbers.bits import BITS
from tidemill.algebra.functions.numbers.integer_bounds import INTEGER_BOUNDS
from tidemill.algebra.functions.numbers.mathematics import MATHEMATICS
from tidemill.algebra.functions.numbers.number_formats import NUMBER_FORMATS
from tidemill.algebra.functions.numbers.number_text import NUMBER_TEXT
from tidemill.algebra.functions.numbers.numerals import NUMERALS
from tidemill.algebra.functions.numbers.ring_arithmetic import RING
from tidemill.algebra.functions.numbers.variance import VARIANCE_FUNCTIONS
from tidemill.algebra.functions.semistructured.csv import CSV
from tidemill.algebra.functions.semistructured.json import JSON
from tidemill.algebra.functions.semistructured.sketches import SKETCHES
from tidemill.algebra.functions.semistructured.tuple_sketches import TUPLE_SKETCHES
from tidemill.algebra.functions.semistructured.variant import VARIANTS
from tidemill.algebra.functions.semistructured.xml import XML
from tidemill.algebra.functions.text.binary import BYTES
from tidemill.algebra.functions.text.collations import COLLATIONS
from tidemill.algebra.functions.text.encryption import ENCRYPTION
from tidemill.algebra.functions.text.format_strings import FORMAT_STRINGS
from tidemill.algebra.functions.text.hash_registers import HASH_REGISTERS
from tidemill.algebra.functions.text.hashes import HASHES
from tidemill.algebra.functions.text.regexp import PATTERNS
from tidemill.algebra.functions.text.sentences import SENTENCES
from tidemill.algebra.functions.text.similarity import SIMILARITY
from tidemill.algebra.functions.text.strings import STRINGS
from tidemill.algebra.functions.text.text_parts import TEXT_PARTS
from tidemill.algebra.functions.text.urls import URLS

THEMES = (
    ARITHMETIC,
    BITS,
    BITMAPS,
    COMPARISON,
    MATHEMATICS,
    NUMERALS,
    NUMBER_TEXT,
    STRINGS,
    COLLATIONS,
    TEXT_PARTS,
    FORMAT_STRINGS,
    SENTENCES,
    SIMILARITY,
    PATTERNS,
    URLS,
    NUMBER_FORMATS,
    BYTES,
    HASHES,
    HASH_REGISTERS,
    ENCRYPTION,
    TIME,
    TIME_FORMATS,
    TIME_UNIT_FUNCTIONS,
    TIMES_OF_DAY,
    TIME_WINDOWS,
    INTERVALS,
    STRUCTS,
    ARRAYS,
    VECTORS,
    MAPS,
    JSON,
    CSV,
    VARIANTS,
    XML,
    SKETCHES,
    TUPLE_SKETCHES,
    LAMBDAS,
    RING,
    INTEGER_BOUNDS,
    VARIANCE_FUNCTIONS,
)


FUNCTIONS: dict[str, Function] = {function.name: function for theme in THEMES for function in theme}
"""Every function that a ``Call`` may name."""


INTERNAL = frozenset({
    "collated", "collation_key", "search_key",
    *(function.name for theme in (TIME_WINDOWS, INTERNAL_INTERVALS, RING, INTEGER_BOUNDS, VARIANCE_FUNCTIONS)
      for function in theme),
    *(function.name for function in HASH_REGISTERS),
    *(function.name for function in RELATIONS), "add", "subtract", "multiply", "divide", "remainder", "negate",
    "is_null", "is_not_null", "average", "try_average", "mean", "bigint_checked", "add_days", "add_months_to",
    "add_microseconds",
    "ceil_places", "ceil_whole", "floor_places", "floor_whole", "dayofweek_iso", "second_with_fraction",
    "filter_placed", "transform_placed", "sort_by", "get_field", "get_item", "numbered", "log_base", "decode_bytes",
    "map_element", "map_size", "map_value", "sequence_of_moments", "week", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_not", "instr_from", "levenshtein_within", "parse_timestamp", "try_parse_timestamp", "parse_time",
    "try_parse_time", "write_time", "write_timestamp", "parse_local_timestamp", "move_timezone",
    "timestamp_at", "local_timestamp_at", "timestamp_add",
    "timestamp_difference", "year_of_week", "whole_seconds", "timestamp_of_parts", "try_timestamp_of_parts",
    "json_member", "variant_entries",
    "number_to_char", "time_plus", "time_minus", "try_time_plus", "try_time_minus",
})  # fmt: skip
"""Internal functions that operators and other functions expand to; users cannot call them by these names."""


OPERATORS = frozenset(function.name for function in (*ARITHMETIC, *RELATIONS))
"""Functions beside which an integer literal is as narrow as its digits."""
