"""SQL that is read but not maintained yet: what it is called, why it needs more, and what to write today.

A construct leaves this table when its ``from_...`` function is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemill.model.errors import Place, Unsupported


@dataclass(frozen=True)
class Refusal:
    """One construct: ``what`` cannot be done, the reason, and the way round it. An error points at one of ``words``."""

    what: str
    detail: str
    hint: str | None = None
    words: tuple[str, ...] = ()

    def at(self, place: Place) -> Unsupported:
        """The error for an occurrence at ``place``."""
        return Unsupported(f"{self.what} cannot be maintained yet", where=place, detail=self.detail, hint=self.hint)


OUTER_JOIN = Refusal(
    "an outer join",
    "A row without a partner disappears when the first partner arrives, so matches must be counted.",
    "Use an inner join, or UNION ALL it with the rows that you know have no partner.",
)
SEMI_JOIN = Refusal(
    "a semi join",
    "A row leaves when its last partner does, so partners must be counted.",
    "Join with a SELECT DISTINCT of the other side's keys.",
)
ANTI_JOIN = Refusal(
    "an anti join",
    "A row appears when its last partner leaves, so partners must be counted.",
    "Mark the rows with a column that says it, and filter by that.",
)
LATERAL = Refusal(
    "LATERAL", "Its rows come from each row of the other tables: they have no change of their own.", "Use a join."
)
SUBQUERY = Refusal(
    "EXISTS, IN or a comparison with all rows of a subquery",
    "Whether one row is there depends on how many there are.",
    "Compare a count: 0 < (SELECT COUNT(*) ...).",
    ("SELECT", "EXISTS"),
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
    "a window function",
    "One change can renumber every row of its partition.",
    "GROUP BY what the window partitions by, and join the result.",
)
EXTREME = Refusal(
    "MIN or MAX",
    "When the extreme row leaves, the next one must be found, which a sum cannot tell.",
    "Use SUM, COUNT or AVG in the view.",
)
OTHER_AGGREGATE = Refusal(
    "this aggregate", "It cannot be taken back when a row leaves.", "Aggregates are SUM, COUNT and AVG."
)
DISTINCT_AGGREGATE = Refusal(
    "an aggregate over DISTINCT",
    "Each value must be counted on its own to know when the last one leaves.",
    "Aggregate over a subquery with SELECT DISTINCT.",
)
GROUPING_SETS = Refusal(
    "GROUPING SETS, CUBE or ROLLUP",
    "They are several groupings at once.",
    "UNION ALL one GROUP BY for each of them.",
    ("GROUPING SETS", "CUBE", "ROLLUP"),
)
SET_DIFFERENCE = Refusal(
    "INTERSECT or EXCEPT",
    "Whether a row stays depends on its count on both sides.",
    "Join with a SELECT DISTINCT, or filter by a column that says it.",
)
LATERAL_VIEW = Refusal(
    "LATERAL VIEW", "One row becomes many rows.", "Keep the elements of the array in a table of their own."
)
LIMIT = Refusal(
    "LIMIT",
    "A row that leaves the top lets in one that was cut off, and it must be known which.",
    "Leave it out of the view, and put it into the SELECT that reads the view.",
)
INTERVAL = Refusal(
    "an interval as a value", "It is no type of a column.", "Add it to a date or timestamp: d + INTERVAL '1' MONTH."
)
RECURSION = Refusal(
    "a recursive query", "One change can reach rows at any depth.", "Write out the levels that you need, with joins."
)

NODES: dict[type[exp.Expr], Refusal] = {
    exp.Window: WINDOW,
    exp.All: SUBQUERY,
    exp.Any: SUBQUERY,
    exp.Exists: SUBQUERY,
    exp.Select: SUBQUERY,
    exp.Lateral: LATERAL,
    exp.Cube: GROUPING_SETS,
    exp.GroupingSets: GROUPING_SETS,
    exp.Rollup: GROUPING_SETS,
    exp.Interval: INTERVAL,
}

FUNCTIONS: dict[str, Refusal] = {
    **dict.fromkeys(("min", "max"), EXTREME),
    **dict.fromkeys(
        (
            "any", "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "bit_and", "bit_or",
            "bit_xor", "bool_and", "bool_or", "collect_list", "collect_set", "corr", "count_if", "covar_pop",
            "covar_samp", "every", "first", "first_value", "grouping", "grouping_id", "kurtosis", "last", "last_value",
            "listagg", "max_by", "median", "min_by", "mode", "percentile", "regr_slope", "skewness", "some", "std",
            "stddev", "stddev_pop", "stddev_samp", "string_agg", "try_avg", "try_sum", "var_pop", "var_samp",
            "variance",
        ),
        OTHER_AGGREGATE,
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"), WINDOW
    ),
    **dict.fromkeys(("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "stack"), LATERAL_VIEW),
}  # fmt: skip
