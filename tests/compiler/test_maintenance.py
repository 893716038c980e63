"""The one property, for the compiler alone: what a program emits sums up to what the oracle says of the tables."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.compiler.nested import NESTED
from tests.compiler.shop import TABLES, History, relation_of
from tests.program.interpret import Interpreter, Sums
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.walk import scans
from tidemill.changes.zset import ZSet
from tidemill.compiler.passes import compile_view
from tidemill.compiler.viewlets.depths import DEPTHS
from tidemill.model.errors import Unsupported
from tidemill.program.stages import Program

VIEWS = {
    "filter": "SELECT id, amount * 2 AS twice FROM orders WHERE day > 1 OR customer IS NULL",
    "collapse": "SELECT region FROM customers",
    "constant": "SELECT 1 AS one, 'x' AS x",
    "nothing": "SELECT id FROM orders WHERE 1 = 0",
    "join": "SELECT c.name, o.amount FROM orders o JOIN customers c ON c.id = o.customer WHERE c.region <> 'a'",
    "theta": "SELECT o.id, i.part FROM orders o JOIN items i ON i.price > o.amount",
    "cross": "SELECT a.a, c.id FROM edges a CROSS JOIN customers c",
    "three": "SELECT c.region, i.price FROM customers c, orders o, items i WHERE c.id = o.customer AND o.id = i.orders",
    "self": "SELECT x.a, y.b FROM edges x JOIN edges y ON x.b = y.a",
    "triangle": "SELECT x.a FROM edges x, edges y, edges z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
    "null_safe": "SELECT x.a, y.b FROM edges x JOIN edges y ON x.b <=> y.a",
    "group": "SELECT customer, SUM(amount) s, COUNT(*) n, COUNT(day) d, AVG(day) m FROM orders GROUP BY customer",
    "group_filter": "SELECT customer, SUM(day) FILTER (WHERE amount > 0) s FROM orders GROUP BY customer",
    "group_double": "SELECT part, SUM(rate) r, AVG(rate) m FROM items GROUP BY part",
    "group_join": """SELECT c.region, SUM(i.price * 2) s FROM customers c JOIN orders o ON o.customer = c.id
                     JOIN items i ON i.orders = o.id WHERE i.part < 3 GROUP BY c.region""",
    "group_sums": """SELECT c.region, SUM(o.amount) s, COUNT(o.day) d, AVG(i.price) p,
                     SUM(i.part) FILTER (WHERE i.part > 1) q
                     FROM customers c JOIN orders o ON o.customer = c.id JOIN items i ON i.orders = o.id
                     WHERE o.day > 0 GROUP BY c.region""",
    "group_sums_self": """SELECT x.a, SUM(y.b) s, SUM(z.b) t, COUNT(*) n, SUM(y.b * z.b) p
                          FROM edges x JOIN edges y ON x.b = y.a JOIN edges z ON x.b = z.a GROUP BY x.a""",
    "group_products": """SELECT c.region, SUM(o.amount * i.price) p, SUM(i.part - o.day) d, AVG(i.part * o.day + c.id) a
                         FROM customers c JOIN orders o ON o.customer = c.id JOIN items i ON i.orders = o.id
                         GROUP BY c.region""",
    "global": "SELECT COUNT(*) n, SUM(amount) s FROM orders",
    "global_having": "SELECT SUM(amount) s FROM orders HAVING COUNT(*) > 1",
    "having": "SELECT customer FROM orders GROUP BY customer HAVING SUM(amount) > 1 AND customer > 0",
    "distinct": "SELECT DISTINCT customer, day FROM orders",
    "distinct_join": "SELECT DISTINCT x.a FROM edges x JOIN edges y ON x.b = y.b",
    "union_all": "SELECT id, day FROM orders UNION ALL SELECT part, orders FROM items",
    "union": "SELECT a FROM edges UNION SELECT b FROM edges",
    "union_of_groups": """SELECT customer k, COUNT(*) n FROM orders GROUP BY customer
                          UNION ALL SELECT part, COUNT(*) FROM items GROUP BY part""",
    "join_of_union": """SELECT u.k, c.name FROM (SELECT a k FROM edges UNION ALL SELECT b FROM edges) u
                        JOIN customers c ON c.id = u.k""",
    "group_of_union": "SELECT k, COUNT(*) n FROM (SELECT a k FROM edges UNION ALL SELECT b FROM edges) GROUP BY k",
    "values": "SELECT v.k, c.name FROM (VALUES (1, 'x'), (2, 'y')) AS v(k, w) JOIN customers c ON c.id = v.k",
    "group_of_groups": """SELECT n, COUNT(*) m FROM (SELECT customer, COUNT(*) n FROM orders GROUP BY customer) t
                          GROUP BY n""",
    "count_groups": "SELECT COUNT(*) m FROM (SELECT customer, SUM(amount) s FROM orders GROUP BY customer) t",
    "join_of_groups": """SELECT c.name, t.s FROM customers c JOIN
                         (SELECT customer, SUM(amount) s FROM orders GROUP BY customer) t ON t.customer = c.id
                         WHERE t.s > 0 AND t.customer < 3""",
    "total_beside": """SELECT o.id, t.s FROM orders o CROSS JOIN (SELECT SUM(amount) s FROM orders) t
                       WHERE o.amount * 2 > t.s""",
    "twice": """WITH t AS (SELECT customer, COUNT(*) n FROM orders GROUP BY customer)
                SELECT x.customer, y.n FROM t x JOIN t y ON x.customer = y.n WHERE x.n > 1""",
    "twice_plain": """WITH t AS (SELECT a, b FROM edges WHERE a <> b)
                      SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.a""",
    "twice_having": """WITH t AS (SELECT a, COUNT(*) n FROM edges GROUP BY a HAVING COUNT(*) > 1)
                       SELECT x.a, y.n FROM t x JOIN t y ON x.a = y.a UNION ALL SELECT a, n FROM t""",
    "distinct_counts": "SELECT DISTINCT COUNT(*) n FROM edges GROUP BY a",
    "count_distinct": "SELECT COUNT(*) n FROM (SELECT DISTINCT a, b FROM edges) t",
    "or_join": """SELECT o.id, i.part FROM orders o, items i
                  WHERE (o.id = i.orders AND i.part = 1) OR (o.id = i.orders AND o.day = 2)""",
    "or_absorbed": """SELECT o.id, i.part FROM orders o, items i
                      WHERE (o.id = i.orders AND i.part = 1) OR o.id = i.orders""",
    "unnest": "SELECT id, EXPLODE(ARRAY(customer, day)) AS x FROM orders WHERE id > 0",
    "unnest_outer": """SELECT id, x, p FROM orders
                       LATERAL VIEW OUTER POSEXPLODE(IF(day > 1, ARRAY(day, customer), NULL)) e AS p, x""",
    "unnest_join": """SELECT s.x, c.name, COUNT(*) n FROM (SELECT EXPLODE(ARRAY(a, b)) AS x FROM edges) s
                      JOIN customers c ON c.id = s.x GROUP BY s.x, c.name""",
    "unnest_both": """WITH e AS (SELECT a, EXPLODE(ARRAY(a, b)) AS x FROM edges)
                      SELECT l.a, r.a AS other FROM e l JOIN e r ON l.x = r.x WHERE l.a > 0""",
    "unnest_above": """SELECT c.name, y FROM edges e JOIN customers c ON c.id = e.a
                       LATERAL VIEW EXPLODE(SEQUENCE(e.a, c.id + 1)) s AS y WHERE y <> e.b""",
    "unnest_groups": """SELECT n, COUNT(*) m FROM (SELECT a, EXPLODE(SEQUENCE(1L, COUNT(*))) AS n FROM edges GROUP BY a)
                        GROUP BY n""",
    "unnest_stream": """SELECT c.region, COUNT(*) n FROM (SELECT EXPLODE(ARRAY(customer, seconds)) AS x FROM clicks) k
                        JOIN customers c ON c.id = k.x GROUP BY c.region""",
    "lambdas": """SELECT SIZE(FILTER(ARRAY(a, b), x -> x > 1)) AS k, SUM(REDUCE(ARRAY(a, b), 0, (s, x) -> s + x)) AS s
                  FROM edges WHERE EXISTS(ARRAY(a, b), x -> x <> 2) GROUP BY SIZE(FILTER(ARRAY(a, b), x -> x > 1))""",
    "widened": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.id = c.id",
    "guarded": "SELECT id FROM orders WHERE day <> 0 AND 6 / day > 2",
    "guarded_join": """SELECT o.id FROM orders o JOIN edges e ON e.a = o.day
                       WHERE e.a <> 0 AND e.b <> 0 AND 6 / e.b > 2""",
    "stream": "SELECT page, SUM(seconds) s FROM clicks GROUP BY page",
    "stream_join": """SELECT c.name, k.page FROM clicks k JOIN customers c ON c.id = k.customer
                      WHERE k.seconds > 0 AND k.page <> 'c'""",
    "stream_self": """SELECT x.page p, y.page q FROM clicks x JOIN clicks y
                      ON x.customer = y.customer AND x.seconds < y.seconds""",
    "stream_groups": """SELECT c.region, SUM(t.n) n FROM customers c JOIN
                        (SELECT customer, COUNT(*) n FROM clicks GROUP BY customer) t ON t.customer = c.id
                        GROUP BY c.region""",
    "stream_cross": "SELECT c.id FROM customers c CROSS JOIN clicks k",
    "stream_tagged": """SELECT u.t, k.page FROM clicks k JOIN
                        (SELECT a AS k, 2 AS t FROM edges UNION ALL SELECT b, 1 FROM edges) u ON u.k = k.customer
                        WHERE u.t = 1 OR k.seconds > 1""",
    "stream_union": """SELECT u.k, c.region FROM customers c JOIN
                       (SELECT customer k FROM clicks WHERE seconds > 1 UNION ALL SELECT a FROM edges) u
                       ON u.k = c.id""",
    **NESTED,
}  # fmt: skip


WAYS = {
    **dict.fromkeys(("delta", "recompute", "joingraph"), "full"),
    **{f"viewlet/{depth}": depth for depth in DEPTHS},
}
"""Every strategy, and every depth of the one that has several. Runtimes are asked about the lower depths, too."""


@pytest.fixture(scope="module")
def histories(random_seed: int) -> list[History]:
    """One that begins with empty tables, and one with rows in all that are kept."""
    return [History(random_seed), History(random_seed + 1, first=40, epochs=3)]


@pytest.mark.turns("way", 2)
@pytest.mark.parametrize(
    "way", [pytest.param(w, marks=pytest.mark.long if d != "full" else ()) for w, d in WAYS.items()]
)
@pytest.mark.parametrize("name", VIEWS)
def test_what_is_emitted_sums_up_to_the_view(name: str, way: str, histories: list[History]) -> None:
    relation = relation_of(VIEWS[name])
    strategy = way.partition("/")[0]
    if strategy == "recompute" and not all(TABLES[read].kept for read in _reads(relation)):
        with pytest.raises(Unsupported):
            compile_view("v", relation, TABLES, strategy)
        return

    for history in histories:
        _check(name, relation, compile_view("v", relation, TABLES, strategy, depth=WAYS[way]), history)


def _check(name: str, relation: Relation, program: Program, history: History) -> None:
    running = Interpreter(program, TABLES, {read: history.before[read] for read in _reads(relation)})
    running.load()
    assert running.rows == history.evaluated(name, relation, 0)
    for epoch, changes in history.epochs(_reads(relation)):
        running.run(changes)
        assert running.rows == history.evaluated(name, relation, epoch)


UNSERVED = {"unnest", "unnest_outer", "unnest_above", "unnest_groups"}
"""Views whose last stage has elements of arrays, which are no rows of a relation."""


@pytest.mark.parametrize("name", sorted(UNSERVED))
def test_what_no_reader_could_make(name: str) -> None:
    with pytest.raises(Unsupported, match="cannot be served"):
        compile_view("v", relation_of(VIEWS[name]), TABLES, "joingraph", serve="read")


@pytest.mark.parametrize("serve", ["read", "subscribe"])
@pytest.mark.parametrize("name", [name for name in VIEWS if name not in UNSERVED])
def test_what_a_reader_makes_is_the_view(name: str, serve: str, histories: list[History]) -> None:
    relation = relation_of(VIEWS[name])
    program = compile_view("v", relation, TABLES, "joingraph", serve=serve)

    history = histories[0]
    running = Interpreter(program, TABLES, {read: ZSet() for read in _reads(relation)})
    running.load()
    for epoch, changes in history.epochs(_reads(relation)):
        running.run(changes)
        assert _made(running) == history.evaluated(name, relation, epoch)


def _made(running: Interpreter) -> ZSet:
    """The rows that the reader of the last stage makes from the maps as they are."""
    reader = running.program.stages[-1].reader
    assert reader is not None
    made = Interpreter(Program(reader.name, (reader,)), TABLES, {})
    made.maps |= {name: deepcopy(sums) for name, sums in running.maps.items() if name in made.maps}
    target = {add.target for add in reader.load}
    made.maps |= {map_.name: Sums(map_) for map_ in reader.maps if map_.name in target}
    made.load()
    return made.rows


def _reads(relation: Relation) -> tuple[str, ...]:
    return tuple(sorted(scans(relation)))
