"""SQL that is parsed but not supported yet: the construct, the reason, and what to write instead.

A construct leaves this table when its ``from_...`` function is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemill.model.errors import TextLocation, Unsupported


@dataclass(frozen=True)
class Refusal:
    """One construct that is not supported: its name, the reason, and a hint. An error points at one of ``words``."""

    what: str
    detail: str
    hint: str | None = None
    words: tuple[str, ...] = ()

    def at(self, place: TextLocation) -> Unsupported:
        """The error for an occurrence at ``place``."""
        return Unsupported(f"{self.what} cannot be maintained yet", where=place, detail=self.detail, hint=self.hint)


GENERATOR = Refusal(
    "a generator within an expression",
    "It returns rows, and one value is expected here.",
    "Use it alone in the SELECT list, or in LATERAL VIEW.",
)
SUBQUERY = Refusal(
    "a subquery in this place",
    "It must be constant: it is evaluated before any rows are read.",
    "Write a constant.",
    ("SELECT",),
)
OUTER_AGGREGATE = Refusal(
    "an aggregate over columns of the query around a subquery",
    "It belongs to the groups of that query, not to the rows of the subquery.",
    "Compute it in a subquery in FROM, and refer to its column.",
)
WINDOW = Refusal(
    "a window function without OVER",
    "It depends on a row's position among others, which OVER defines.",
    "Add OVER (PARTITION BY ... ORDER BY ...).",
)
UNORDERED = Refusal(
    "FIRST or LAST",
    "The rows of a group have no order, so the result would be arbitrary.",
    "Use MIN_BY(x, y) or MAX_BY(x, y); or ANY_VALUE(x) for any of them.",
)
OTHER_AGGREGATE = Refusal(
    "this aggregate",
    "Its bins depend on the order in which the rows come.",
    "Use WIDTH_BUCKET(x, low, high, bins) as a key of GROUP BY, and COUNT(*).",
)
BINARY_RECORD = Refusal(
    "Avro or Protocol Buffers",
    "Spark reads and writes them with packages that it is given, which are not there.",
    "Convert the records to JSON or to columns before they are loaded.",
)

GEOMETRY = Refusal("a function of shapes", "No column can have the type GEOMETRY or GEOGRAPHY.", "Keep WKB as BINARY.")

VECTOR_SUM = Refusal(
    "a sum of FLOAT vectors",
    "Its last digits depend on the order in which Spark adds.",
    "Sum the elements as DOUBLE: SUM(x[0]), or AGGREGATE over ZIP_WITH.",
)
JAVA_CALL = Refusal("a call of a Java method", "There is no Java here.", "Register a function of Python.")
NANOSECONDS = Refusal("nanoseconds", "Timestamps have microseconds.", "Use TIMESTAMP_MICROS and UNIX_MICROS.")
METRIC_VIEW = Refusal("a measure", "There are no metric views.", "Write the aggregate itself.")

REFUSED_NODES: dict[type[exp.Expr], Refusal] = {
    exp.Select: SUBQUERY,
}

REFUSED_FUNCTIONS: dict[str, Refusal] = {
    **dict.fromkeys(("st_asbinary", "st_geogfromwkb", "st_geomfromwkb", "st_setsrid", "st_srid"), GEOMETRY),
    **dict.fromkeys(("vector_sum", "vector_avg", "vector_inner_product"), VECTOR_SUM),
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), JAVA_CALL),
    **dict.fromkeys(("timestamp_nanos", "unix_nanos"), NANOSECONDS),
    "measure": METRIC_VIEW,
    **dict.fromkeys(("first", "first_value", "last", "last_value"), UNORDERED),
    "histogram_numeric": OTHER_AGGREGATE,
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"), BINARY_RECORD),
    **dict.fromkeys(
        ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"),
        GENERATOR,
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"), WINDOW
    ),
}  # fmt: skip
