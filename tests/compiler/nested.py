"""Views with subqueries in their expressions, over the shop: every way to be correlated, at every place."""

from __future__ import annotations

NESTED = {
    "nested_uncorrelated": "SELECT id FROM orders WHERE amount > (SELECT AVG(price) FROM items)",
    "nested_uncorrelated_select": """SELECT id, (SELECT SUM(price) FROM items) AS s, (SELECT COUNT(*)
                                     FROM edges) + day AS c FROM orders""",
    "nested_eq_sum": """SELECT o.id FROM orders o WHERE o.amount < (SELECT SUM(i.price) FROM items i
                        WHERE i.orders = o.id)""",
    "nested_eq_sum_nullable": "SELECT x.a FROM edges x WHERE x.b <= (SELECT SUM(y.b) FROM edges y WHERE y.a = x.a)",
    "nested_eq_count": "SELECT x.a, x.b FROM edges x WHERE 0 = (SELECT COUNT(*) FROM edges y WHERE y.a = x.b)",
    "nested_eq_count_arg": "SELECT x.a, (SELECT COUNT(y.b) FROM edges y WHERE y.a = x.b AND y.a > 0) AS c FROM edges x",
    "nested_eq_two": """SELECT o.id, (SELECT COALESCE(SUM(y.a), -1) + o.day FROM edges y WHERE y.a = o.customer
                        AND y.b = o.day) AS c FROM orders o""",
    "nested_eq_expr": "SELECT o.id, (SELECT AVG(y.a) FROM edges y WHERE ABS(y.a) = o.customer) AS c FROM orders o",
    "nested_lt": "SELECT x.a FROM edges x WHERE 2 > (SELECT COALESCE(SUM(y.b), 0) FROM edges y WHERE y.a > x.a)",
    "nested_lt_sum": "SELECT x.a FROM edges x WHERE 2 > (SELECT SUM(y.b) FROM edges y WHERE y.a > x.a)",
    "nested_any_cond": "SELECT x.a, (SELECT COUNT(*) FROM edges y WHERE y.a <> x.a OR x.b IS NULL) c FROM edges x",
    "nested_null_safe": "SELECT x.a, (SELECT SUM(y.b) FROM edges y WHERE y.a <=> x.a) c FROM edges x",
    "nested_mixed_arg": "SELECT x.a, (SELECT SUM(y.b * x.b) FROM edges y WHERE y.a = x.a) c FROM edges x",
    "nested_only_arg": "SELECT x.a, (SELECT SUM(y.b + x.b) FROM edges y) c FROM edges x",
    "nested_inner_join": """SELECT c.id FROM customers c WHERE 1 < (SELECT COUNT(*) FROM orders o
                            JOIN items i ON i.orders = o.id WHERE o.customer = c.id AND i.part > 0)""",
    "nested_outer_join": """SELECT c.id, o.day FROM customers c, orders o WHERE c.id = o.customer
                            AND o.amount >= (SELECT AVG(p.amount) FROM orders p WHERE p.customer = c.id)""",
    "nested_two_outers": """SELECT c.id, o.day FROM customers c, orders o WHERE (SELECT COUNT(*) FROM edges e
                            WHERE e.a = c.id AND e.b = o.day) < 1 AND c.id > 0""",
    "nested_deeper": """SELECT x.a FROM edges x WHERE x.b < (SELECT SUM(y.b) FROM edges y WHERE y.a = x.a
                        AND y.b > (SELECT AVG(z.b) FROM edges z WHERE z.a = y.a))""",
    "nested_skip": """SELECT x.a FROM edges x WHERE 1 <= (SELECT COUNT(*) FROM edges y WHERE y.a = x.a
                      AND y.b <= (SELECT COUNT(*) FROM edges z WHERE z.a < x.b))""",
    "nested_scalar": """SELECT x.a FROM edges x WHERE 1 <= (SELECT SUM(1) WHERE 2 < (SELECT SUM(y.b)
                        FROM edges y WHERE y.a = x.a))""",
    "nested_no_from": """SELECT x.a, (SELECT 1 WHERE x.a > 1) AS p, (SELECT COUNT(*) WHERE x.b > 1) n,
                         (SELECT AVG(2) WHERE x.a > 1) AS z FROM edges x""",
    "nested_having": """SELECT o.customer, COUNT(*) n FROM orders o GROUP BY o.customer HAVING COUNT(*) >
                        (SELECT COUNT(*) FROM customers c WHERE c.id = o.customer)""",
    "nested_grouped_select": """SELECT o.customer, SUM(o.amount) / 2 + (SELECT COUNT(*) FROM edges e
                                WHERE e.a > o.customer) AS n FROM orders o GROUP BY o.customer""",
    "nested_inner_having": """SELECT x.a, (SELECT SUM(y.b) FROM edges y WHERE y.a = x.b HAVING COUNT(*) > 1) s
                              FROM edges x""",
    "nested_inner_having_where": """SELECT x.a FROM edges x WHERE x.a < (SELECT SUM(y.b) FROM edges y
                                    WHERE y.a = x.b HAVING COUNT(*) > 1)""",
    "nested_group_fixed": "SELECT x.a, (SELECT SUM(y.b) FROM edges y WHERE y.a = x.b GROUP BY y.a) s FROM edges x",
    "nested_group_fixed_where": """SELECT x.a FROM edges x WHERE 0 <= (SELECT COUNT(*) FROM edges y
                                   WHERE y.a = x.b GROUP BY y.a)""",
    "nested_distinct_fixed": "SELECT x.a, (SELECT DISTINCT x.b FROM edges y WHERE y.a = x.b) s FROM edges x",
    "nested_string_value": """SELECT x.a, (SELECT 'p' WHERE x.b > 1) s, (SELECT DISTINCT 'q' FROM items i
                              WHERE i.part = x.a) q FROM edges x""",
    "nested_in_aggregate": """SELECT x.a, SUM((SELECT COUNT(*) FROM items i WHERE i.part = x.b)) s FROM edges x
                              GROUP BY x.a""",
    "nested_group_key": """SELECT k, COUNT(*) n FROM (SELECT (SELECT COUNT(*) FROM items i
                           WHERE i.part = x.b) AS k FROM edges x) t GROUP BY k""",
    "nested_join_on": """SELECT x.a, c.name FROM edges x JOIN customers c ON x.a = c.id AND x.b <
                         (SELECT COUNT(*) FROM items i WHERE i.part = c.id)""",
    "nested_union": """SELECT u.k FROM (SELECT a k FROM edges UNION ALL SELECT day FROM orders) u WHERE 1 <
                       (SELECT COUNT(*) FROM items i WHERE i.part = u.k)""",
    "nested_inner_union": """SELECT x.a, (SELECT SUM(u.k) FROM (SELECT a k FROM edges WHERE b = x.a
                             UNION ALL SELECT day FROM orders WHERE customer < x.b) u) s FROM edges x""",
    "nested_inner_from": """SELECT x.a, (SELECT SUM(u.n) FROM (SELECT day, COUNT(*) n FROM orders
                            WHERE customer = x.a GROUP BY day) u) s FROM edges x""",
    "nested_inner_from_total": """SELECT x.a, (SELECT SUM(u.n + x.b) FROM (SELECT COUNT(*) n FROM orders
                                  WHERE customer = x.a) u) s FROM edges x""",
    "nested_both_sides": """SELECT x.a, (SELECT COUNT(*) FROM (SELECT b FROM edges WHERE a > x.a) p JOIN
                            (SELECT b FROM edges WHERE a < x.a OR x.a IS NULL) q ON p.b = q.b) s FROM edges x""",
    "nested_distinct_inner": """SELECT x.a, (SELECT COUNT(*) FROM (SELECT DISTINCT b FROM edges
                                WHERE a = x.a) p) s FROM edges x""",
    "nested_case": """SELECT CASE WHEN x.a > 1 THEN (SELECT COUNT(*) FROM edges y WHERE y.a = x.b) ELSE
                      (SELECT SUM(y.b) FROM edges y WHERE y.b < x.a) END AS v FROM edges x""",
    "nested_twice": """SELECT x.a FROM edges x WHERE (SELECT COUNT(*) FROM edges y WHERE y.a = x.b) > 0 OR
                       (SELECT COUNT(*) FROM edges y WHERE y.a = x.b) + x.a = 0""",
    "nested_is_null": "SELECT x.a FROM edges x WHERE (SELECT SUM(y.b) FROM edges y WHERE y.a = x.b) IS NULL",
    "nested_double": """SELECT i.part FROM items i WHERE i.rate >= (SELECT AVG(j.rate) FROM items j
                        WHERE j.orders = i.orders)""",
    "nested_total_of_groups": """WITH t AS (SELECT a, SUM(b) s FROM edges GROUP BY a) SELECT t.a FROM t
                                 WHERE t.s >= (SELECT AVG(u.s) FROM t u)""",
    "nested_filtered": """SELECT x.a,
                          (SELECT COUNT(*) FILTER (WHERE y.b > 1) + SUM(y.a) FILTER (WHERE y.b > x.b)
                          FROM edges y WHERE y.a = x.a) c FROM edges x""",
    "nested_three_nulls": """SELECT o.id, (SELECT COUNT(*) FROM edges e
                             WHERE e.a < o.customer OR e.b < o.day OR o.amount > e.a) c FROM orders o""",
    "nested_in_value": """SELECT x.a, (SELECT SUM(y.b) + (SELECT COUNT(*) FROM items i WHERE i.part = x.a)
                          FROM edges y WHERE y.a = x.a) v FROM edges x""",
    "nested_in_having": """SELECT x.a, (SELECT SUM(y.b) FROM edges y WHERE y.a = x.a
                           HAVING COUNT(*) > (SELECT COUNT(*) FROM items i WHERE i.part > x.b)) v FROM edges x""",
    "nested_as_outer_key": """SELECT x.a FROM edges x WHERE 0 < (SELECT COUNT(*) FROM edges y
                              WHERE y.a = (SELECT COUNT(*) FROM items i WHERE i.part = x.b))""",
    "nested_as_inner_key": """SELECT x.a FROM edges x WHERE 0 = (SELECT COUNT(*) FROM edges y
                              WHERE x.b = (SELECT COUNT(*) FROM items i WHERE i.part = y.a))""",
    "nested_many": """SELECT x.a, (SELECT COUNT(*) FROM edges y WHERE y.a = x.a) p,
                      (SELECT COUNT(*) FROM edges y WHERE y.b = x.a) q,
                      (SELECT COUNT(*) FROM edges y WHERE y.a = x.b) r,
                      (SELECT COUNT(*) FROM items i WHERE i.part = x.a) s,
                      (SELECT COUNT(*) FROM items i WHERE i.part = x.b) t FROM edges x""",
    "nested_many_joined": """WITH c AS (SELECT x.a, (SELECT COUNT(*) FROM edges y WHERE y.a = x.a) p,
                             (SELECT COUNT(*) FROM edges y WHERE y.b > x.a) q FROM edges x)
                             SELECT c.a, d.q FROM c JOIN c d ON c.p = d.q""",
    "nested_stream": "SELECT c.id FROM customers c WHERE 1 > (SELECT COUNT(*) FROM clicks k WHERE k.customer = c.id)",
    "nested_stream_less": """SELECT k.page, (SELECT SUM(l.seconds) FROM clicks l WHERE l.seconds < k.seconds) s
                             FROM clicks k""",
}  # fmt: skip
