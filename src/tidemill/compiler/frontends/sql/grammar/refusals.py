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
LATERAL = Refusal(
    "LATERAL beyond the elements of arrays",
    "Its rows come from each row of the other tables: they have no change of their own.",
    "Use a join.",
)
SUBQUERY = Refusal(
    "a subquery in this place",
    "It must be constant: it is evaluated before any rows are read.",
    "Write a constant.",
    ("SELECT",),
)
MANY_ROWS = Refusal(
    "a subquery that may have more than one row, in place of a value,",
    "The first change that brings a second row would make the view an error.",
    "Take an aggregate in it, such as SUM or AVG, without GROUP BY.",
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
INTERVAL = Refusal(
    "an interval as a value",
    "No column can have the type INTERVAL.",
    "Add it to a date or timestamp: d + INTERVAL '1' MONTH.",
)

REFUSED_NODES: dict[type[exp.Expr], Refusal] = {
    exp.Select: SUBQUERY,
    exp.Lateral: LATERAL,
    exp.Interval: INTERVAL,
}

REFUSED_FUNCTIONS: dict[str, Refusal] = {
    **dict.fromkeys(("first", "first_value", "last", "last_value"), UNORDERED),
    "histogram_numeric": OTHER_AGGREGATE,
    **dict.fromkeys(
        ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"), GENERATOR
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"), WINDOW
    ),
}  # fmt: skip
