"""What SQL views can hold, as data: one construct, one example, and what happens where the meaning is subtle.

The reference page is written from this list, ``tidemill bench sql`` measures it, and tests keep every example fresh on
every runtime. What a change costs is not written here but asked of the compiler (``compiler.statistics.costs``).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.compiler.statistics.costs import Cost, cost_of_stage, highest_cost
from tidemill.model.schema import Table
from tidemill.program.reads import row_wise
from tidemill.program.stages import Program

SCHEMA = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING NOT NULL, region STRING);
CREATE TABLE orders (
  id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(12,2), weight DOUBLE, placed TIMESTAMP, tags ARRAY<STRING>
);
CREATE TABLE returns (id BIGINT, customer BIGINT);
CREATE TABLE parts (whole BIGINT, part BIGINT);
"""
"""The tables that the examples read."""


@dataclass(frozen=True, slots=True)
class Capability:
    """A construct, an example of it, and what a reader must know."""

    theme: str
    construct: str
    example: str
    note: str = ""

    @property
    def program(self) -> Program:
        """What keeps the example fresh."""
        tables = schema()
        relation = translate(self.example, {name: table.fields for name, table in tables.items()}, name="v").relation
        return compile_view("v", relation, tables)

    @property
    def cost(self) -> Cost:
        """What one changed row costs the example, at most."""
        program = self.program
        return highest_cost([cost_of_stage(stage, program) for stage in program.stages])

    @property
    def on_spark(self) -> bool:
        """Whether Spark runs it in bulk; otherwise it runs in this process, whichever runtime is asked for."""
        return not any(map(row_wise, self.program.stages))


def schema() -> dict[str, Table]:
    """The tables of ``SCHEMA`` by name."""
    statements = parse(SCHEMA)
    return {statement.table.name: statement.table for statement in statements if isinstance(statement, CreateTable)}


CAPABILITIES = (
    Capability(
        "Rows",
        "`SELECT` expressions, `WHERE`",
        "SELECT id, amount * 2 AS twice FROM orders WHERE weight > 10",
        "Kept where true: neither false nor NULL. Rows that become equal are kept as often as they occur.",
    ),
    Capability(
        "Rows",
        "`CASE`, `IF`, `COALESCE`, `CAST`, `TRY_CAST`",
        "SELECT id, CASE WHEN weight > 10 THEN 'heavy' ELSE 'light' END AS kind FROM orders",
        "Branches that are not taken are not computed.",
    ),
    Capability(
        "Rows",
        "`UNION ALL`",
        "SELECT id, customer FROM orders UNION ALL SELECT id, customer FROM returns",
    ),
    Capability(
        "Rows",
        "`UNPIVOT`",
        "SELECT * FROM (SELECT id, customer, weight FROM orders) UNPIVOT (value FOR name IN (customer, weight))",
        "A row for each listed column; NULLs are left out unless INCLUDE NULLS.",
    ),
    Capability(
        "Rows",
        "pipes: `FROM t \\|> WHERE ... \\|> SELECT ...`",
        "FROM orders |> WHERE amount > 10 |> EXTEND amount * 2 AS twice |> SELECT id, twice",
        "Each operator costs what its clause costs: SELECT, WHERE, EXTEND, SET, DROP, AS, AGGREGATE, joins, set "
        "operations, ORDER BY, LIMIT, PIVOT, UNPIVOT.",
    ),
    Capability(
        "Rows",
        "`VALUES`",
        "SELECT o.id, v.col2 AS label FROM orders o JOIN (VALUES (1, 'one'), (2, 'two')) v ON o.customer = v.col1",
    ),
    Capability(
        "Joins",
        "`JOIN ... ON`, `USING`, `NATURAL`, comma",
        "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id",
        "Equalities are looked up; NULL keys never match.",
    ),
    Capability(
        "Joins",
        "`JOIN` on an inequality",
        "SELECT o.id, r.id AS other FROM orders o JOIN returns r ON o.id < r.id AND r.customer = 1 AND o.customer = 2",
        "Every row of the other side is tried.",
    ),
    Capability(
        "Joins",
        "`LEFT`, `RIGHT JOIN`",
        "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id",
        "A row without a partner is there once, with NULLs; any condition, and outer joins of outer joins.",
    ),
    Capability(
        "Joins",
        "`FULL JOIN`",
        "SELECT c.name, r.id FROM customers c FULL JOIN returns r ON r.customer = c.id",
    ),
    Capability(
        "Joins",
        "`SEMI JOIN`",
        "SELECT c.name FROM customers c LEFT SEMI JOIN returns r ON r.customer = c.id",
        "As often as on the left.",
    ),
    Capability(
        "Joins",
        "`ANTI JOIN`",
        "SELECT c.name FROM customers c LEFT ANTI JOIN returns r ON r.customer = c.id",
        "A NULL key has no partner.",
    ),
    Capability(
        "Joins",
        "`LATERAL (SELECT ...)`",
        "SELECT c.name, o.amount FROM customers c, LATERAL (SELECT amount FROM orders WHERE orders.customer = c.id) o",
        "Each row with the rows that the query has for it; `LEFT JOIN LATERAL ... ON` keeps rows that have none.",
    ),
    Capability(
        "Joins",
        "`LATERAL` with aggregates, `LIMIT` ...",
        "SELECT c.name, o.n FROM customers c, LATERAL (SELECT COUNT(*) AS n FROM orders WHERE customer = c.id) o",
        "Computed for the distinct values of the columns that it reads, and joined back.",
    ),
    Capability(
        "Joins",
        "`ASOF JOIN`, `FOR SYSTEM_TIME AS OF`",
        "SELECT o.id, p.id AS last FROM orders o ASOF JOIN orders p ON o.customer = p.customer AND o.placed > p.placed",
        "[Each row with the closest one](#joins-by-time): LEAD over the right side, and a join by its periods.",
    ),
    Capability(
        "Subqueries",
        "`(SELECT ...)` as a value",
        "SELECT id FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders i WHERE i.customer = o.customer)",
        "NULL for no row, an error for two; correlated by any condition, nested at any depth.",
    ),
    Capability(
        "Subqueries",
        "`EXISTS`",
        "SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM returns r WHERE r.customer = c.id)",
    ),
    Capability(
        "Subqueries",
        "`NOT EXISTS`",
        "SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM returns r WHERE r.customer = c.id)",
    ),
    Capability(
        "Subqueries",
        "`IN (SELECT ...)`",
        "SELECT id FROM orders WHERE customer IN (SELECT customer FROM returns)",
    ),
    Capability(
        "Subqueries",
        "`NOT IN (SELECT ...)`",
        "SELECT id FROM orders WHERE customer NOT IN (SELECT customer FROM returns)",
        "Three-valued: one NULL among the values, and no row passes; over no values every row does.",
    ),
    Capability(
        "Subqueries",
        "`= ANY`, `> ALL` ...",
        "SELECT id FROM orders WHERE id > ALL (SELECT id FROM returns)",
        "ALL over no rows is true. NULLs decide as in a chain of AND or OR.",
    ),
    Capability(
        "Aggregates",
        "`GROUP BY`, `COUNT`, `SUM`, `AVG`",
        "SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer",
        "NULLs are one group. Over no value: NULL, and 0 for COUNT. With no GROUP BY there is always one row.",
    ),
    Capability(
        "Aggregates",
        "`HAVING`",
        "SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) > 3",
    ),
    Capability(
        "Aggregates",
        "`FILTER (WHERE ...)`",
        "SELECT customer, COUNT(*) FILTER (WHERE weight > 10) AS heavy FROM orders GROUP BY customer",
    ),
    Capability(
        "Aggregates",
        "`MIN`, `MAX`",
        "SELECT customer, MIN(amount) AS least, MAX(amount) AS most FROM orders GROUP BY customer",
        "NaN is greater than every number.",
    ),
    Capability(
        "Aggregates",
        "`MIN_BY`, `MAX_BY`",
        "SELECT customer, MAX_BY(id, amount) AS largest FROM orders GROUP BY customer",
        "Among equals, the least value for MIN_BY and the greatest for MAX_BY.",
    ),
    Capability(
        "Aggregates",
        "`COUNT(DISTINCT ...)`, `SUM(DISTINCT ...)`",
        "SELECT region, COUNT(DISTINCT name) AS names FROM customers GROUP BY region",
    ),
    Capability(
        "Aggregates",
        "`APPROX_COUNT_DISTINCT`",
        "SELECT region, APPROX_COUNT_DISTINCT(name) AS names FROM customers GROUP BY region",
        "Spark's HyperLogLog++ to the last digit. What is kept are the registers' entries, not the values.",
    ),
    Capability(
        "Aggregates",
        "`PERCENTILE`, `MEDIAN`, `PERCENTILE_CONT`, `PERCENTILE_DISC`, `APPROX_PERCENTILE`",
        "SELECT customer, PERCENTILE(weight, 0.9) AS most FROM orders GROUP BY customer",
        "With frequencies: O(group). While twice the number of values is below the accuracy, APPROX_PERCENTILE is "
        "exact; beyond it is that of Spark over one partition.",
    ),
    Capability(
        "Aggregates",
        "`MODE`",
        "SELECT customer, MODE(weight) AS usual FROM orders GROUP BY customer",
        "Of several most frequent values the least; Spark leaves it open without an order.",
    ),
    Capability(
        "Aggregates",
        "`HISTOGRAM_NUMERIC`",
        "SELECT customer, HISTOGRAM_NUMERIC(weight, 5) AS bins FROM orders GROUP BY customer",
        "Exact up to as many different values as bins; beyond that Spark's bins depend on the order of arrival, which "
        "here is ascending.",
    ),
    Capability(
        "Aggregates",
        "`THETA_SKETCH_AGG`, `TUPLE_SKETCH_AGG_DOUBLE`, `HLL_SKETCH_AGG`, `KLL_SKETCH_AGG_DOUBLE`, `COUNT_MIN_SKETCH`, "
        "`APPROX_TOP_K` and their kind",
        "SELECT customer, THETA_SKETCH_AGG(id) AS ids FROM orders GROUP BY customer",
        "The bytes of theta and count-min sketches are Spark's. Those of HLL and KLL depend on the order of arrival in "
        "Spark; here it is ascending, and KLL tosses no coins. So do tuple sketches and APPROX_TOP_K beyond as many "
        "keys as they keep.",
    ),
    Capability(
        "Aggregates",
        "`BITMAP_CONSTRUCT_AGG`, `BITMAP_OR_AGG`, `BITMAP_AND_AGG`",
        "SELECT customer, BITMAP_CONSTRUCT_AGG(id) AS bits FROM orders GROUP BY customer",
    ),
    Capability(
        "Aggregates",
        "`VAR_POP`, `VAR_SAMP`, `STDDEV_POP`, `STDDEV_SAMP`",
        "SELECT customer, STDDEV(weight) AS spread FROM orders GROUP BY customer",
        "From sums of values and squares, kept exactly or with twice the digits of a DOUBLE.",
    ),
    Capability(
        "Aggregates",
        "`COVAR_POP`, `COVAR_SAMP`, `CORR`, `REGR_SLOPE` and the other `REGR_`",
        "SELECT customer, REGR_SLOPE(weight, id) AS slope FROM orders GROUP BY customer",
        "Rows in which an argument is NULL do not count.",
    ),
    Capability(
        "Aggregates",
        "`SKEWNESS`, `KURTOSIS`",
        "SELECT customer, SKEWNESS(weight) AS skew FROM orders GROUP BY customer",
        "Exact: sums of third powers cannot be subtracted again without loss.",
    ),
    Capability(
        "Aggregates",
        "`BIT_AND`, `BIT_OR`, `BIT_XOR`",
        "SELECT customer, BIT_OR(id) AS bits FROM orders GROUP BY customer",
    ),
    Capability(
        "Aggregates",
        "`BOOL_AND`, `BOOL_OR`, `COUNT_IF`",
        "SELECT customer, BOOL_AND(weight > 10) AS heavy FROM orders GROUP BY customer",
    ),
    Capability(
        "Aggregates",
        "`ARRAY_AGG`, `COLLECT_LIST`, `COLLECT_SET`",
        "SELECT customer, SORT_ARRAY(COLLECT_LIST(id)) AS ids FROM orders GROUP BY customer",
        "Spark leaves the order open; here elements ascend. NULLs are left out, unless RESPECT NULLS keeps them."
        " [An element of a large array is edited in place](../design/collections.md).",
    ),
    Capability(
        "Aggregates",
        "`STRING_AGG`, `LISTAGG`",
        "SELECT region, STRING_AGG(name, ', ') WITHIN GROUP (ORDER BY name) AS names FROM customers GROUP BY region",
        "Of texts or bytes. Ascending, or as WITHIN GROUP (ORDER BY ...) says.",
    ),
    Capability(
        "Aggregates",
        "`ROLLUP`, `CUBE`, `GROUPING SETS`",
        "SELECT customer, region, COUNT(*) AS n FROM orders o JOIN customers c ON c.id = o.customer GROUP BY "
        "ROLLUP (region, customer)",
        "GROUPING and GROUPING_ID tell a NULL of a total from one of the data.",
    ),
    Capability(
        "Aggregates",
        "`PIVOT`",
        "SELECT * FROM (SELECT customer, amount, id % 2 AS half FROM orders) "
        "PIVOT (SUM(amount) FOR half IN (0 AS even, 1 AS odd))",
        "NULL for a value that a group does not have, also of COUNT. Values are constants; several columns, several "
        "aggregates and aliases as in Spark.",
    ),
    Capability(
        "Sets",
        "`DISTINCT`",
        "SELECT DISTINCT customer FROM orders",
    ),
    Capability(
        "Sets",
        "`UNION`",
        "SELECT customer FROM orders UNION SELECT customer FROM returns",
    ),
    Capability(
        "Sets",
        "`INTERSECT [ALL]`",
        "SELECT customer FROM orders INTERSECT ALL SELECT customer FROM returns",
        "NULLs are equal here.",
    ),
    Capability(
        "Sets",
        "`EXCEPT [ALL]`, `MINUS`",
        "SELECT customer FROM orders EXCEPT ALL SELECT customer FROM returns",
    ),
    Capability(
        "Order",
        "`ORDER BY ... LIMIT n [OFFSET m]`",
        "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 10",
        "Among rows that are equal in the order, those with the lesser columns come first, so that the answer is "
        "one. Without LIMIT the order of a view means nothing and is dropped.",
    ),
    Capability(
        "Order",
        "top k of each group",
        "SELECT customer, id FROM (SELECT customer, id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount "
        "DESC, id) AS n FROM orders) t WHERE n <= 3",
        "ROW_NUMBER and RANK with an upper bound are recognized.",
    ),
    Capability(
        "Windows",
        "`ROW_NUMBER`, `RANK`, `DENSE_RANK`, `NTILE` ...",
        "SELECT id, RANK() OVER (PARTITION BY customer ORDER BY amount) AS place FROM orders",
        "Rows that are equal in the order stand in the order of their columns.",
    ),
    Capability(
        "Windows",
        "`LAG`, `LEAD`",
        "SELECT id, LAG(amount) OVER (PARTITION BY customer ORDER BY placed, id) AS before FROM orders",
    ),
    Capability(
        "Windows",
        "`FIRST_VALUE`, `LAST_VALUE`, `NTH_VALUE`",
        "SELECT id, FIRST_VALUE(id) OVER (PARTITION BY customer ORDER BY placed, id) AS opening FROM orders",
    ),
    Capability(
        "Windows",
        "running aggregates",
        "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY placed, id) AS so_far FROM orders",
    ),
    Capability(
        "Windows",
        "aggregates over `ROWS` and `RANGE` frames",
        "SELECT id, AVG(amount) OVER (PARTITION BY customer ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING)"
        " AS around FROM orders",
    ),
    Capability(
        "Nested data",
        "`EXPLODE`, `LATERAL VIEW`, `UNNEST`",
        "SELECT tag, COUNT(*) AS n FROM orders LATERAL VIEW EXPLODE(tags) t AS tag GROUP BY tag",
        "OUTER keeps rows whose array is empty or NULL. Of a large array that changes, "
        "[the elements that stay cancel out](../design/collections.md), without OUTER and positions.",
    ),
    Capability(
        "Nested data",
        "`array[i]`, `struct.field`",
        "SELECT id, GET(tags, 0) AS first_tag FROM orders",
    ),
    Capability(
        "Nested data",
        "`TRANSFORM`, `FILTER`, `EXISTS`, `AGGREGATE` ... of arrays",
        "SELECT id, SIZE(FILTER(tags, t -> t LIKE 'a%')) AS n FROM orders",
    ),
    Capability(
        "Time",
        "`window(time, length)`: tumbling",
        "SELECT window.start AS since, COUNT(*) AS n FROM orders GROUP BY window(placed, '1 hour')",
        "A late row corrects its window; rows without a time are in none.",
    ),
    Capability(
        "Time",
        "`window(time, length, slide)`: hopping",
        "SELECT window.start AS since, COUNT(*) AS n FROM orders GROUP BY window(placed, '1 hour', '15 minutes')",
    ),
    Capability(
        "Time",
        "`session_window(time, gap)`",
        "SELECT customer, session_window.start AS since, COUNT(*) AS n FROM orders GROUP BY customer, "
        "session_window(placed, '30 minutes')",
        "A late row may join two sessions, and a deleted one part them.",
    ),
    Capability(
        "Time",
        "`TUMBLE`, `HOP`, `CUMULATE` in FROM",
        "SELECT window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE orders, DESCRIPTOR(placed), INTERVAL 15 MINUTES, "
        "INTERVAL 1 HOUR)) GROUP BY window_start, window_end",
        "[Flink's spelling](#windows-as-table-functions) of windows.",
    ),
    Capability(
        "Time",
        "`SESSION` in FROM",
        "SELECT customer, window_start, COUNT(*) AS n FROM TABLE(SESSION(TABLE orders PARTITION BY customer, "
        "DESCRIPTOR(placed), INTERVAL 30 MINUTES)) GROUP BY customer, window_start, window_end",
        "Rows with their sessions.",
    ),
    Capability(
        "Patterns",
        "`FROM t PATTERN (a, b+) WHERE ... GROUP BY`",
        "SELECT customer, placed, COUNT(*) AS n, SUM(b.amount) AS total FROM orders PATTERN (a, b+) "
        "WHERE b[1].amount > a.amount AND b[i].amount > b[i-1].amount GROUP BY customer",
        "A row that comes last is one step of an automaton, whatever came before. [All of it](patterns.md).",
    ),
    Capability(
        "Patterns",
        "`MATCH_RECOGNIZE`",
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY placed, id "
        "MEASURES strt.id AS since, last(up.id) AS until PATTERN (strt down+ up+) "
        "DEFINE down AS amount < PREV(amount), up AS amount > PREV(amount)) m",
        "The standard's spelling of the same.",
    ),
    Capability(
        "Recursion",
        "`WITH RECURSIVE`",
        "WITH RECURSIVE inside (whole, part) AS (SELECT whole, part FROM parts UNION SELECT i.whole, p.part FROM "
        "inside i JOIN parts p ON p.whole = i.part) SELECT whole, part FROM inside",
        "UNION ends on cycles; UNION ALL counts every way and is refused when it has no end, unless a LIMIT ends it.",
    ),
)
"""Every construct that a view can hold."""
