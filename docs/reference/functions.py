"""``make reference``: writes ``functions.md`` from the registry of functions, so that it cannot fall behind."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Set
from types import ModuleType

from tidemill.algebra.expressions.derived_functions import ALIASES, DERIVED_FUNCTIONS, VOLATILE
from tidemill.algebra.functions import comparison
from tidemill.algebra.functions.datetime import intervals, time, time_formats, time_units, times_of_day
from tidemill.algebra.functions.function import Function
from tidemill.algebra.functions.nested import arrays, higher_order, maps, structs, vectors
from tidemill.algebra.functions.numbers import (
    arithmetic,
    bitmaps,
    bits,
    mathematics,
    number_formats,
    number_text,
    numerals,
)
from tidemill.algebra.functions.registry import INTERNAL
from tidemill.algebra.functions.semistructured import csv, json, sketches, tuple_sketches, variant, xml
from tidemill.algebra.functions.text import (
    binary,
    collations,
    encryption,
    format_strings,
    hashes,
    regexp,
    sentences,
    similarity,
    strings,
    text_parts,
    urls,
)
from tidemill.compiler.frontends.sql.expressions.clock_functions import CLOCK_FUNCTIONS

THEMES: tuple[tuple[str, ModuleType, tuple[Function, ...]], ...] = (
    ("Arithmetic", arithmetic, arithmetic.ARITHMETIC),
    ("Bits", bits, bits.BITS),
    ("Bitmaps", bitmaps, bitmaps.BITMAPS),
    ("Comparison and logic", comparison, comparison.COMPARISON),
    ("Mathematics", mathematics, mathematics.MATHEMATICS),
    ("Numerals", numerals, numerals.NUMERALS),
    ("Numbers as text", number_text, number_text.NUMBER_TEXT),
    ("Numbers by format", number_formats, number_formats.NUMBER_FORMATS),
    ("Text", strings, strings.STRINGS),
    ("Collations", collations, collations.COLLATIONS),
    ("Bytes", binary, binary.BYTES),
    ("Parts of text", text_parts, text_parts.TEXT_PARTS),
    ("Patterns of values", format_strings, format_strings.FORMAT_STRINGS),
    ("Sentences", sentences, sentences.SENTENCES),
    ("Similarity", similarity, similarity.SIMILARITY),
    ("Patterns", regexp, regexp.PATTERNS),
    ("URLs", urls, urls.URLS),
    ("Hashes", hashes, hashes.HASHES),
    ("Encryption", encryption, encryption.ENCRYPTION),
    ("Dates and timestamps", time, time.TIME),
    ("Patterns of timestamps, and zones", time_formats, time_formats.TIME_FORMATS),
    ("Units and parts of timestamps", time_units, time_units.TIME_UNIT_FUNCTIONS),
    ("Intervals", intervals, intervals.INTERVALS),
    ("Times of day", times_of_day, times_of_day.TIMES_OF_DAY),
    ("Arrays and structs", structs, structs.STRUCTS),
    ("More of arrays", arrays, arrays.ARRAYS),
    ("Vectors", vectors, vectors.VECTORS),
    ("Maps", maps, maps.MAPS),
    ("JSON", json, json.JSON),
    ("CSV", csv, csv.CSV),
    ("Variants", variant, variant.VARIANTS),
    ("XML", xml, xml.XML),
    ("Sketches", sketches, sketches.SKETCHES),
    ("Tuple sketches", tuple_sketches, tuple_sketches.TUPLE_SKETCHES),
    ("Functions of the elements of an array", higher_order, higher_order.LAMBDAS),
)

HIDDEN = frozenset(
    {
        "average",
        "bigint_checked",
        "filter_placed",
        "instr_from",
        "json_member",
        "interval_average",
        "interval_of_sum",
        "interval_units",
        "levenshtein_within",
        "mean",
        "numbered",
        "sequence_of_moments",
        "sort_by",
        "transform_placed",
        "try_average",
        "variant_entries",
        "try_interval_average",
        "try_interval_of_sum",
    }
)
"""Internal functions, which queries cannot call: the last step of AVG and SUM, and those with another name in SQL."""

_HEAD = """# Functions

What expressions in views may call, written from the registry by `make reference`. Types, NULLs and answers are those
of Spark 4 in ANSI mode. *NULL* says when the result is NULL: `any` means whenever an argument is, `own rule` that the
function decides. Arguments are shown as `a`, `b`, `c`. Each function takes the types that Spark's takes, with Spark's
implicit conversions: what Spark refuses, such as `date_add(d, 1.0)`, is a `TypeMismatch`.

Aggregates, window functions, `CASE`, `CAST`, `TRY_CAST`, `IN`, `BETWEEN` and `LIKE` are syntax and part of
[the SQL reference](sql.md).
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_themes(), *_forms()])


def _themes() -> Iterator[str]:
    names = defaultdict(list)
    for alias, name in ALIASES.items():
        names[name].append(alias)
    for title, module, functions in THEMES:
        yield f"## {title}\n\n{(module.__doc__ or '').strip()}\n"
        yield "| function | in Spark SQL | other names | NULL |\n|---|---|---|---|"
        for function in (f for f in functions if f.name not in HIDDEN):
            # Operators have names of their own within programs only; in SQL they go by their other names.
            name, *others = (*([] if function.name in INTERNAL else [function.name]), *names[function.name], "")
            shown = ", ".join(_code(other) for other in others if other)
            nulls = "any" if function.strict else "own rule"
            yield f"| {_code(name) if name else ''} | {_code(_spelled(function.spark))} | {shown} | {nulls} |"
        yield ""


def _forms() -> Iterator[str]:
    yield "## Forms\n\nNames that stand for other expressions, and cost nothing of their own:\n"
    yield _listed(DERIVED_FUNCTIONS.keys() - INTERNAL) + "\n"
    yield "## What no view can call\n"
    yield "Their value changes although no row does, and no change would carry it. Of these,"
    yield f"queries that are asked once and INSERT can call {_listed(CLOCK_FUNCTIONS.keys()).removesuffix('.')}:\n"
    yield _listed(VOLATILE)


def _listed(names: Set[str]) -> str:
    """Names as a paragraph, in lines of the width that the documentation has."""
    return textwrap.fill(", ".join(map(_code, sorted(names))) + ".", width=128)


def _spelled(spark: str) -> str:
    return spark.format("a", "b", "c", "d", "e", "f", "g", args="a, b, ...", rest="b, ...", type="type")


def _code(text: str) -> str:
    """Text in code style, with the bars that would end a table's cell escaped."""
    return f"`{text}`".replace("|", "\\|")


if __name__ == "__main__":
    print(page())
