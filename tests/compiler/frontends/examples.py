"""Small tables full of NULLs and duplicates, and queries over them: each is compared with DuckDB and with Spark."""

from __future__ import annotations

from typing import Any

from tests.answers import Answers
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.model.coerce import coerce_row

SCHEMA = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING, region STRING);
CREATE TABLE orders (
  id INT, customer BIGINT REFERENCES customers(id), amount DECIMAL(12,2), rate DOUBLE, placed DATE, paid BOOLEAN
);
CREATE TABLE items (id INT, tags ARRAY<STRING>, spot STRUCT<x: INT, inner: STRUCT<y: STRING>>, seen TIMESTAMP);
CREATE TABLE nothing (a INT, b STRING);
"""

ROWS: dict[str, list[tuple[Any, ...]]] = {
    "customers": [(1, "ann", "north"), (2, "bob", "south"), (3, "cat", None), (4, None, "north")],
    "orders": [
        (1, 1, "10.50", 0.5, "2024-01-31", True),
        (2, 1, "10.50", 0.5, "2024-01-31", True),
        (2, 1, "10.50", 0.5, "2024-01-31", True),
        (3, 2, "-3.25", 2.0, "2024-02-29", False),
        (4, None, "7.00", None, None, None),
        (5, 3, None, -1.5, "2023-12-31", None),
        (None, 2, "0.00", 0.0, "2024-02-29", True),
        (None, None, None, None, None, None),
    ],
    "items": [
        (1, ["a", "b"], {"x": 1, "inner": {"y": "u"}}, "2024-03-01T12:30:45.250000"),
        (2, ["b", None], {"x": None, "inner": None}, "2024-03-31T00:00:00"),
        (2, ["b"], None, None),
        (3, ["c", "a"], {"x": 1, "inner": {"y": None}}, "2023-01-01T23:59:59"),
    ],
    "nothing": [],
}

QUERIES = {
    # selecting
    "star_alone": "SELECT * FROM orders",
    "qualified_star": "SELECT c.*, o.id AS order_id FROM orders o JOIN customers c ON o.customer = c.id",
    "expressions": "SELECT id + 1 AS a, -id AS b, amount * 2 AS c, rate / 4 AS d, id % 2 AS e FROM orders",
    "literals": "SELECT 1 AS a, 3000000000 AS b, 1.50 AS c, 0.05 AS d, 1e3 AS e, 'x' AS f, TRUE AS g, -7 AS h",
    "without_from": "SELECT 1 + 1 AS two, 'a' || 'b' AS ab",
    "lateral_alias": "SELECT id + 1 AS next, next * 2 AS twice FROM orders",
    "column_before_alias": "SELECT id + 1 AS customer, customer * 2 AS twice FROM orders",
    "quoted_names": "SELECT `o`.`Amount` AS `the amount` FROM orders AS `o`",
    # conditions
    "many_conditions": "SELECT id FROM orders WHERE " + " OR ".join(f"id = {n}" for n in range(2, 700)),
    "where_clause": "SELECT id FROM orders WHERE amount > 0 AND paid",
    "three_valued": "SELECT id, paid AND rate > 0 AS a, paid OR rate > 0 AS b, NOT paid AS c FROM orders",
    "null_tests": "SELECT id, amount IS NULL AS a, paid IS NOT NULL AS b, paid IS TRUE AS c, paid IS NOT FALSE AS d "
    "FROM orders",
    "null_safe": "SELECT o.id, c.id AS c FROM orders o, customers c WHERE o.customer <=> c.id",
    "distinct_from": "SELECT id FROM orders WHERE id IS DISTINCT FROM 2 AND customer IS NOT DISTINCT FROM 1",
    "between_bounds": "SELECT id FROM orders WHERE amount BETWEEN 0 AND 8 OR id NOT BETWEEN 1 AND 3",
    "in_list": "SELECT id FROM orders WHERE id IN (1, 2) OR customer NOT IN (1, 3)",
    "in_with_null": "SELECT id FROM orders WHERE id IN (1, NULL)",
    "like_pattern": "SELECT name LIKE 'a%' AS a, name NOT LIKE '_o_' AS b, name LIKE 'x%%' ESCAPE 'x' AS c "
    "FROM customers",
    "case_searched": "SELECT CASE WHEN amount > 5 THEN 'big' WHEN amount <= 5 THEN 'small' END AS size FROM orders",
    "case_simple": "SELECT CASE customer WHEN 1 THEN 1.5 WHEN 2 THEN 2 ELSE id END AS x FROM orders",
    "casts": "SELECT orders.id::STRING AS b, TRY_CAST(name AS INT) AS c, CAST(rate AS "
    "DECIMAL(5,1)) AS d "
    "FROM orders CROSS JOIN customers",
    "coalesce": "SELECT COALESCE(amount, id, 0) AS a, NULLIF(id, 2) AS b, IF(paid, 'y', 'n') AS c FROM orders",
    "functions": "SELECT UPPER(name) AS a, LENGTH(region) AS b, SUBSTRING(name, 2, 1) AS c, ABS(-id) AS d "
    "FROM customers",
    "text_grammar": "SELECT SUBSTRING(name FROM 2 FOR 2) AS a, TRIM(BOTH 'a' "
    "FROM name) AS b, POSITION('n' IN name) AS c "
    "FROM customers",
    # dates
    "date_literal": "SELECT id FROM orders WHERE placed >= DATE '2024-01-01' AND placed < DATE'2024-02-10'",
    "date_parts": "SELECT YEAR(placed) AS y, EXTRACT(MONTH FROM placed) AS m, DAY(placed) AS d FROM orders",
    "date_strings": "SELECT id FROM orders WHERE placed = '2024-01-31'",
    # joins
    "join_on": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id AND c.region = 'north'",
    "join_comma": "SELECT o.id, c.name FROM orders o, customers c WHERE o.customer = c.id",
    "join_cross": "SELECT o.id, c.id AS c FROM orders o CROSS JOIN customers c",
    "join_theta": "SELECT o.id, c.id AS c FROM orders o JOIN customers c ON o.customer < c.id OR c.name IS NULL",
    "join_self": "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id",
    "join_using": "SELECT * FROM (SELECT customer AS id, amount FROM orders) JOIN customers USING (id)",
    "join_using_qualified": "SELECT id, o.id AS a, c.id AS b FROM orders o JOIN customers c USING (id)",
    "join_using_twice": "SELECT * FROM orders JOIN customers USING (id) JOIN items USING (id)",
    "join_using_star": "SELECT c.*, o.paid FROM orders o JOIN customers c USING (id)",
    "join_natural": "SELECT * FROM customers NATURAL JOIN (SELECT id, paid FROM orders) p",
    "join_three": "SELECT c.name, a.id, b.amount "
    "FROM customers c JOIN orders a ON a.customer = c.id, orders b WHERE b.id = a.id",
    "join_in_parentheses": "SELECT o.id, c.name FROM (orders o JOIN customers c ON o.customer = c.id)",
    "join_nested": "SELECT c.name, i.id, o.paid FROM customers c JOIN (orders o JOIN items i ON i.id = o.id) "
    "ON o.customer = c.id",
    "join_after_parentheses": "SELECT c.name, i.id FROM (orders o JOIN items i ON i.id = o.id) "
    "JOIN customers c ON c.id = o.customer",
    "join_with_nothing": "SELECT o.id FROM orders o JOIN nothing n ON o.id = n.a",
    # grouping
    "group_by": "SELECT customer, SUM(amount) AS s, COUNT(*) AS n, COUNT(amount) AS k, AVG(amount) AS m "
    "FROM orders GROUP BY customer",
    "group_doubles": "SELECT paid, SUM(rate) AS s, AVG(rate) AS a, AVG(id) AS i, SUM(id) AS t "
    "FROM orders GROUP BY paid",
    "group_expression": "SELECT id % 2 AS odd, COUNT(*) AS n FROM orders GROUP BY id % 2",
    "group_ordinal": "SELECT paid, customer, COUNT(*) AS n FROM orders GROUP BY 1, 2",
    "group_alias": "SELECT YEAR(placed) AS y, COUNT(*) AS n FROM orders GROUP BY y",
    "group_all": "SELECT customer, paid, SUM(id) + 1 AS s FROM orders GROUP BY ALL",
    "extremes": "SELECT paid, MIN(amount) AS a, MAX(placed) AS b, MIN(DISTINCT rate) AS c, MAX(paid) AS d FROM orders "
    "GROUP BY paid",
    "spreads": "SELECT paid, VAR_POP(amount) AS a, VAR_SAMP(id) AS b, STDDEV_POP(rate) AS c, STDDEV(id) AS d "
    "FROM orders GROUP BY paid",
    "pairs_of_numbers": "SELECT customer, COVAR_POP(id, rate) AS a, COVAR_SAMP(amount, rate) AS b FROM orders "
    "GROUP BY customer",
    "truths": "SELECT customer, BOOL_AND(paid) AS a, BOOL_OR(paid) AS b FROM orders GROUP BY customer",
    "distinct_aggregates": "SELECT customer, COUNT(DISTINCT id) AS a, SUM(DISTINCT amount) AS b, "
    "AVG(DISTINCT id) AS c, COUNT(*) AS d, COUNT(DISTINCT amount) FILTER (WHERE paid) AS e FROM orders "
    "GROUP BY customer",
    "distinct_of_all": "SELECT COUNT(DISTINCT customer) AS a, COUNT(DISTINCT paid) AS b FROM orders",
    "middle": "SELECT customer, MEDIAN(rate) AS a, PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY id) AS b FROM orders "
    "GROUP BY customer",
    "joined_texts": "SELECT region, LISTAGG(name, '; ') WITHIN GROUP (ORDER BY id DESC) AS a FROM customers "
    "GROUP BY region",
    "rollup_of_two": "SELECT customer, paid, COUNT(*) AS a, SUM(id) AS b FROM orders GROUP BY ROLLUP (customer, paid)",
    "cube_and_key": "SELECT id, paid, customer, COUNT(*) AS a, MAX(customer) AS b FROM orders "
    "GROUP BY id, CUBE (paid, customer)",
    "sets_of_expressions": "SELECT id % 2 AS odd, paid, COUNT(DISTINCT customer) AS a, GROUPING_ID(id % 2, paid) AS g "
    "FROM orders GROUP BY GROUPING SETS ((id % 2, paid), (paid), ()) HAVING COUNT(*) > 1",
    "group_without_aggregate": "SELECT customer FROM orders GROUP BY customer, paid",
    "group_key_in_expression": "SELECT id % 2 + 1 AS x, SUM(amount) * (id % 2) AS y FROM orders GROUP BY id % 2",
    "aggregates_in_expressions": "SELECT SUM(amount) / COUNT(*) + 1 AS x, -SUM(id) AS y FROM orders",
    "global_group": "SELECT SUM(amount) AS s, COUNT(*) AS n, AVG(rate) AS a FROM orders",
    "global_over_nothing": "SELECT SUM(a) AS s, COUNT(*) AS n, COUNT(b) AS k, AVG(a) AS m FROM nothing",
    "group_over_nothing": "SELECT b, COUNT(*) AS n FROM nothing GROUP BY b",
    "having_clause": "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer HAVING COUNT(*) > 1 AND SUM(id) > 2",
    "having_alias": "SELECT customer AS c, COUNT(*) AS n FROM orders GROUP BY customer HAVING n > 1 AND c IS NOT NULL",
    "having_unselected": "SELECT customer FROM orders GROUP BY customer HAVING SUM(amount) > 0",
    "having_swapped": "SELECT customer AS id, id AS x FROM orders GROUP BY id, customer HAVING id > 2",
    "having_without_group": "SELECT COUNT(*) AS n FROM orders HAVING COUNT(*) > 100",
    "having_prefers_key": "SELECT id, SUM(customer) AS id FROM orders GROUP BY id HAVING id > 2",
    "filter_clause": "SELECT SUM(amount) FILTER (WHERE paid) AS s, COUNT(*) FILTER (WHERE id > 1) AS n FROM orders",
    "join_and_group": "SELECT c.region, SUM(o.amount * o.rate) AS s "
    "FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.region",
    # sets
    "distinct_rows": "SELECT DISTINCT customer, paid FROM orders",
    "distinct_groups": "SELECT DISTINCT COUNT(*) AS n FROM orders GROUP BY customer",
    "union_all": "SELECT id FROM orders UNION ALL SELECT id FROM customers",
    "union_distinct": "SELECT customer FROM orders UNION SELECT id FROM customers",
    "union_widens": "SELECT id AS x, amount AS y FROM orders UNION ALL SELECT 1.5, rate "
    "FROM orders UNION ALL SELECT NULL, 2",
    "union_of_three": "SELECT 1 AS x UNION ALL SELECT 1 UNION SELECT 2 UNION ALL SELECT 2",
    "union_in_parentheses": "(SELECT id FROM orders) UNION ALL (SELECT 9)",
    # subqueries
    "subquery": "SELECT s.c, s.t + 1 AS u FROM (SELECT customer AS c, SUM(amount) AS t "
    "FROM orders GROUP BY customer) s WHERE s.t > 0",
    "subquery_without_alias": "SELECT x FROM (SELECT id * 2 AS x FROM orders) WHERE x > 2",
    "subquery_renamed": "SELECT q.b FROM (SELECT id, paid FROM orders) AS q (a, b) WHERE q.a > 1",
    "subquery_nested": "SELECT y FROM (SELECT x + 1 AS y FROM (SELECT id AS x FROM orders) a) a",
    "same_alias_inside": "SELECT o.id FROM (SELECT o.id FROM orders o WHERE o.paid) o",
    "cte": "WITH big AS (SELECT * FROM orders WHERE amount > 5) SELECT b.id, c.name "
    "FROM big b JOIN customers c ON c.id = b.customer",
    "cte_chain": "WITH a AS (SELECT id FROM orders), b AS (SELECT id + 1 AS id FROM a) SELECT a.id, b.id AS next "
    "FROM a JOIN b ON a.id = b.id",
    "cte_twice": "WITH g AS (SELECT customer AS c, COUNT(*) AS n FROM orders GROUP BY customer) "
    "SELECT x.c, y.c AS d FROM g x JOIN g y ON x.n = y.n",
    "cte_shadows_table": "WITH orders AS (SELECT id FROM customers) SELECT COUNT(*) AS n FROM orders",
    "cte_reads_what_it_shadows": "WITH orders AS (SELECT * FROM orders WHERE paid) SELECT COUNT(*) AS n FROM orders",
    "cte_nested": "SELECT v FROM (WITH w AS (SELECT id AS v FROM orders) SELECT v + 1 AS v FROM w) q",
    "cte_renamed": "WITH w (k) AS (SELECT id FROM customers) SELECT k FROM w WHERE k > 1",
    "values_in_from": "SELECT v.a, v.b FROM (VALUES (1, 'x'), (2, NULL), (NULL, 'x')) AS v (a, b)",
    "values_join": "SELECT c.name, v.w FROM customers c JOIN (VALUES (1, 0.5), (2, 10)) AS v (id, w) ON v.id = c.id",
    # subqueries in expressions
    "nested_total": "SELECT id FROM orders WHERE amount > (SELECT AVG(rate) FROM orders)",
    "nested_by_key": "SELECT c.name, (SELECT SUM(o.amount) FROM orders o WHERE o.customer = c.id) AS s "
    "FROM customers c",
    "nested_count": "SELECT name FROM customers c WHERE 0 = (SELECT COUNT(*) FROM orders WHERE customer = c.id)",
    "nested_inequality": "SELECT id, (SELECT COUNT(o.paid) FROM orders o WHERE o.amount < orders.amount) AS n "
    "FROM orders",
    "nested_hides_outer": "SELECT id FROM orders WHERE id < (SELECT COUNT(*) FROM customers WHERE id = 2)",
    "nested_in_nested": "SELECT id FROM orders a WHERE amount >= (SELECT AVG(amount) FROM orders b "
    "WHERE b.customer = a.customer AND 1 < (SELECT COUNT(*) FROM orders c WHERE c.customer = b.customer))",
    "nested_in_having": "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer "
    "HAVING COUNT(*) > (SELECT COUNT(*) FROM customers c WHERE c.id < customer)",
    "nested_with_having": "SELECT c.id, (SELECT SUM(id) FROM orders WHERE customer = c.id HAVING COUNT(*) > 1) AS s "
    "FROM customers c",
    "nested_over_nothing": "SELECT id, (SELECT SUM(a) FROM nothing) AS s, (SELECT COUNT(*) FROM nothing) AS n "
    "FROM orders",
    "nested_over_cte": "WITH g AS (SELECT customer AS c, SUM(amount) AS s FROM orders GROUP BY customer) "
    "SELECT c FROM g WHERE s > (SELECT AVG(s) FROM g)",
    "nested_derived": "SELECT c.id, (SELECT SUM(d.n) FROM (SELECT paid, COUNT(*) AS n FROM orders "
    "WHERE customer = c.id GROUP BY paid) d) AS s FROM customers c",
    "nested_without_from": "SELECT id, (SELECT 'big' WHERE amount > 5) AS size FROM orders",
    "nested_one_group": "SELECT c.id, (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id GROUP BY o.customer) AS n "
    "FROM customers c",
    "nested_case": "SELECT CASE WHEN paid THEN (SELECT SUM(id) FROM customers) ELSE id END AS x FROM orders",
    "order_is_ignored": "SELECT id FROM orders ORDER BY id",
    "star_except_duplicates": "SELECT * FROM customers a JOIN customers b ON a.id = b.id",
}

# Spark's own grammar or rules, which DuckDB does not share.
SPARK_ONLY = {
    "division": "SELECT id / 2 AS a, amount / 3 AS b, id DIV 2 AS c, rate % 2 AS d, amount % 3 AS e FROM orders",
    "typed_literals": "SELECT 1L AS a, 1.5BD AS b, 2.0D AS c, 9223372036854775808 AS d, "
    "TIMESTAMP '2024-01-01 10:00:00' AS e",
    "least_int": "SELECT -2147483648 AS a, -2147483649 AS b, -9223372036854775808 AS c",
    "struct_access": "SELECT spot.x AS x, i.spot.inner.y AS y FROM items i WHERE i.spot.x = 1",
    "array_access": "SELECT tags[0] AS a, SIZE(tags) AS n FROM items",
    "made_values": "SELECT STRUCT(id, customer AS c, id + 1) AS s, NAMED_STRUCT('k', id) AS n, ARRAY(id, 1.5) AS a "
    "FROM orders",
    "struct_of_made": "SELECT NAMED_STRUCT('k', id).k AS k FROM orders",
    "group_by_struct": "SELECT spot, COUNT(*) AS n FROM items GROUP BY spot",
    "date_plus_days": "SELECT placed + INTERVAL '90' DAY AS a, placed - INTERVAL 1 MONTH AS b, placed + 1 AS c "
    "FROM orders",
    "date_plus_time": "SELECT placed + INTERVAL 2 HOURS AS a, INTERVAL '1' YEAR + placed AS b FROM orders",
    "timestamp_moves": "SELECT seen + INTERVAL 1 MONTH AS a, seen - INTERVAL '1.5' SECOND AS b, "
    "seen + INTERVAL 2 WEEKS AS c FROM items",
    "interval_of_two": "SELECT seen + INTERVAL 1 YEAR 2 MONTHS AS a, seen + INTERVAL 1 DAY 3 HOURS AS b FROM items",
    "cast_truncates": "SELECT CAST(amount AS INT) AS a, CAST(rate AS INT) AS b FROM orders",
    "datediff": "SELECT DATEDIFF(placed, DATE '2024-01-01') AS d FROM orders",
    "cast_functions": "SELECT STRING(id) AS a, DOUBLE(amount) AS b, DATE('2024-05-06') AS c, BIGINT(id) AS d "
    "FROM orders",
    "trims": "SELECT LTRIM('a', name) AS a, RTRIM(name) AS b, TRIM(LEADING 'b' FROM name) AS c FROM customers",
    "sum_of_strings": "SELECT SUM(CAST(id AS STRING)) AS s FROM customers",
    "names_of_aggregates": "SELECT MAX(id), COUNT(DISTINCT id), COUNT_IF(paid), SUM(DISTINCT id + 1), EVERY(paid), "
    "MAX_BY(id, rate), APPROX_COUNT_DISTINCT(id) FROM orders",
    "collected": "SELECT paid, SORT_ARRAY(COLLECT_LIST(id)) AS a, SORT_ARRAY(COLLECT_SET(amount)) AS b, "
    "SIZE(ARRAY_AGG(placed)) AS c FROM orders GROUP BY paid",
    "middles": "SELECT PERCENTILE(id, ARRAY(0.1, 0.5)) AS a, "
    "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY rate DESC) AS b, APPROX_PERCENTILE(amount, 0.5) AS c, "
    "MEDIAN(rate) AS d FROM orders",
    "correlated": "SELECT paid, CORR(id, rate) AS a FROM orders GROUP BY paid",
    "counts_of_several": "SELECT COUNT(id, paid) AS a, COUNT(DISTINCT id, customer) AS b FROM orders",
    "rollup_of_nothing": "SELECT a, COUNT(*) AS n FROM nothing GROUP BY ROLLUP (a)",
    "set_of_nothing": "SELECT COUNT(*) AS n FROM nothing GROUP BY GROUPING SETS (())",
    "set_twice": "SELECT paid, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS (paid, (paid))",
    "with_cube": "SELECT paid, customer, CAST(GROUPING(paid) AS INT) AS g, COUNT(*) AS n FROM orders "
    "GROUP BY paid, customer WITH CUBE",
    "hive_sets": "SELECT paid, id, SUM(id) AS n FROM orders GROUP BY id, paid GROUPING SETS ((paid))",
    "count_of_constant": "SELECT COUNT(1) AS a, COUNT(NULL) AS b FROM orders",
    "star_except": "SELECT * EXCEPT (rate, paid) FROM orders",
    "bare_null": "SELECT COALESCE(NULL, id) AS a, CASE WHEN paid THEN NULL ELSE amount END AS b FROM orders",
    "auto_names": "SELECT id, SUM(o.amount), COUNT(*), SUM(id) / COUNT(1) + 1, 'x', 1.5, UPPER('a'), "
    "CAST(id AS STRING) FROM orders o GROUP BY id",
    "auto_names_more": "SELECT -id, NOT paid, id = 1, id % 2, tags[0], spot.x, -5, paid AND TRUE "
    "FROM orders NATURAL JOIN items",
    "nested_auto_name": "SELECT (SELECT COUNT(*) FROM customers), id FROM orders",
    "raw_string": r"SELECT r'a\nb' AS a, 'a\\b' AS b, -0e0 AS c",
    "having_shown_key": "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id GROUP BY o.id HAVING id > 1",
    "from_first": "FROM orders SELECT id WHERE id > 1",
    # elements of arrays
    "explode": "SELECT id, EXPLODE(tags) FROM items",
    "explode_outer": "SELECT EXPLODE_OUTER(tags) AS t, * FROM items",
    "posexplode": "SELECT POSEXPLODE(tags), id FROM items WHERE id > 1",
    "posexplode_called": "SELECT POSEXPLODE_OUTER(tags) AS (p, t) FROM items",
    "inline": "SELECT id, INLINE(ARRAY(spot, spot)) FROM items",
    "inline_outer": "SELECT INLINE_OUTER(FILTER(ARRAY(spot), s -> s.x > 0)) FROM items",
    "stack": "SELECT id, STACK(2, 'a', id, 'b') FROM items",
    "lateral_view": "SELECT id, tag, COUNT(*) AS n FROM items LATERAL VIEW EXPLODE(tags) e AS tag GROUP BY id, e.tag",
    "lateral_views": "SELECT id, t, p, u FROM items LATERAL VIEW EXPLODE(tags) a AS t "
    "LATERAL VIEW OUTER POSEXPLODE(FILTER(tags, x -> x < t)) b AS p, u",
    "lateral_function": "SELECT i.id, x FROM items i, LATERAL EXPLODE(i.tags) AS e(x) WHERE x > 'a'",
    "lateral_left": "SELECT id, x FROM items LEFT JOIN LATERAL EXPLODE(FILTER(tags, t -> t = 'a')) AS e(x) ON TRUE",
    "lateral_query": "SELECT id, y FROM items, LATERAL (SELECT UPPER(x) AS y FROM EXPLODE(tags) AS e(x) WHERE x > 'a')",
    "explode_grouped": "SELECT paid, EXPLODE(ARRAY(COUNT(*), SUM(id))) AS n FROM orders GROUP BY paid",
    "explode_ordered": "SELECT id, EXPLODE(tags) AS t FROM items ORDER BY t, id LIMIT 3",
    "explode_distinct": "SELECT DISTINCT EXPLODE(tags) AS t FROM items",
    # functions of elements
    "transform": "SELECT TRANSFORM(tags, x -> x || id) AS a, TRANSFORM(tags, (x, i) -> i + id) AS b FROM items",
    "filter": "SELECT FILTER(tags, x -> x > 'a') AS a, FILTER(tags, (x, i) -> i > 0) AS b FROM items",
    "exists": "SELECT EXISTS(tags, x -> x = 'a') AS a, FORALL(tags, x -> x > 'a') AS b FROM items",
    "folded": "SELECT AGGREGATE(tags, '', (a, x) -> a || COALESCE(x, '?')) AS a, "
    "REDUCE(tags, 0L, (n, x) -> n + LENGTH(x), n -> -n) AS b FROM items",
    "zip_with": "SELECT ZIP_WITH(tags, SEQUENCE(1, 3), (x, n) -> STRUCT(x, n)) AS z FROM items",
    "sorted_by": "SELECT ARRAY_SORT(SEQUENCE(1, 5), (x, y) -> CASE WHEN x % 2 = y % 2 THEN y - x ELSE y % 2 - x "
    "% 2 END) "
    "AS a FROM items",
    "nested_lambda": "SELECT TRANSFORM(tags, x -> TRANSFORM(tags, y -> x || y || id)) AS a, "
    "TRANSFORM(ARRAY(tags), x -> SIZE(FILTER(x, x -> x = 'b'))) AS b FROM items",
    "lambda_of_structs": "SELECT TRANSFORM(ARRAY(spot), s -> s.inner.y) AS a, FILTER(ARRAY(spot), s -> s.x > 0) "
    "AS b FROM items",
    "lambda_in_where": "SELECT id FROM items WHERE EXISTS(tags, t -> t = 'b') AND NOT FORALL(tags, t -> t = 'b')",
    "zipped": "SELECT ARRAYS_ZIP(tags, ARRAY(id, 2)) AS a FROM items",
    "sequences": "SELECT SEQUENCE(placed, DATE '2024-03-01', INTERVAL 1 MONTH) AS a, SEQUENCE(placed, DATE "
    "'2024-02-01') AS b "
    "FROM orders",
    "sequence_of_times": "SELECT SEQUENCE(seen, TIMESTAMP '2024-03-01 00:00:00', INTERVAL -1 MONTH) AS a FROM items "
    "WHERE seen > TIMESTAMP '2024-03-01 00:00:00'",
    "volumes": "SELECT ARRAY_UNION(tags, ARRAY('z')) AS a, SLICE(tags, 1, 1) AS b, REVERSE(tags) AS c FROM items",
    # windows of time
    "tumbling": "SELECT window, COUNT(*) AS n FROM items GROUP BY window(seen, '1 day')",
    "tumbling_shifted": "SELECT window.end AS e, SUM(id) AS n FROM items GROUP BY window(seen, '1 hour', '1 "
    "hour', '-10 minutes')",
    "hopping": "SELECT window.start, window.end, COUNT(*) AS n FROM items GROUP BY window(seen, '3 hours', '1 "
    "hour', '15 minutes')",
    "hopping_rows": "SELECT id, window(seen, '25 minutes', '10 minutes') FROM items",
    "window_of_dates": "SELECT window(placed, '1 week').start AS w, COUNT(*) AS n FROM orders GROUP BY "
    "window(placed, '1 week')",
    "window_time": "SELECT window_time(window) AS t, n FROM "
    "(SELECT window, COUNT(*) AS n FROM items GROUP BY window(seen, '90 seconds'))",
    "window_of_windows": "SELECT window(window, '1 day') AS d, SUM(n) AS n FROM "
    "(SELECT window, COUNT(*) AS n FROM items GROUP BY window(seen, '1 hour')) GROUP BY window(window, '1 day')",
    "double_equals": "SELECT id FROM orders WHERE id == 1 OR id != 2 AND NOT id <> 3",
    "union_string_int": "SELECT id FROM customers UNION ALL SELECT CAST('7' AS STRING)",
    "values_widened": "SELECT * FROM VALUES (1, 1.5), (2L, 10), (NULL, 2e0)",
}


def answers(queries: dict[str, str]) -> Answers:
    """The tables that the queries mention, their rows, and each query as a view."""
    known = Answers()
    for statement in parse(SCHEMA):
        assert isinstance(statement, CreateTable)
        if not any(statement.table.name in query for query in queries.values()):
            continue
        known.declare(statement.table)
        name, fields = statement.table.name, statement.table.fields
        known.rows[name] = ZSet.of(coerce_row(row, fields, name) for row in ROWS[name])
    for name, query in queries.items():
        known.define(name, query)
    return known
