"""The twelve queries of the DBToaster paper's Appendix A, and the relations that they read.

The paper's calculus has no NULL: a sum over nothing is 0 there. SQL says NULL, so a nested sum that may be empty stands
in COALESCE here, and ``sum(1)`` compared with 0 is a COUNT. All else is as printed, with names for the columns.
Prices count hundredths of a cent, as in the paper's trace: 1000 is ten cents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ORDER_BOOK = (
    "t BIGINT NOT NULL, id BIGINT NOT NULL, broker_id BIGINT NOT NULL, price DECIMAL(12,2) NOT NULL, "
    "volume BIGINT NOT NULL"
)

RELATIONS: Mapping[str, str] = {
    "bids": ORDER_BOOK,
    "asks": ORDER_BOOK,
    "customer": "custkey BIGINT PRIMARY KEY, nationkey BIGINT NOT NULL, acctbal DECIMAL(15,2) NOT NULL, "
    "mktsegment STRING NOT NULL",
    "orders": "orderkey BIGINT PRIMARY KEY, custkey BIGINT NOT NULL, orderdate DATE NOT NULL, "
    "shippriority INT NOT NULL",
    "lineitem": "orderkey BIGINT NOT NULL, partkey BIGINT NOT NULL, suppkey BIGINT NOT NULL, "
    "quantity DECIMAL(15,2) NOT NULL, extendedprice DECIMAL(15,2) NOT NULL, discount DECIMAL(15,2) NOT NULL, "
    "shipdate DATE NOT NULL",
    "part": "partkey BIGINT PRIMARY KEY, type STRING NOT NULL",
    "supplier": "suppkey BIGINT PRIMARY KEY, nationkey BIGINT NOT NULL",
    "partsupp": "partkey BIGINT, suppkey BIGINT, availqty INT NOT NULL, supplycost DECIMAL(15,2) NOT NULL, "
    "PRIMARY KEY (partkey, suppkey)",
    "nation": "nationkey BIGINT PRIMARY KEY, regionkey BIGINT NOT NULL",
}
"""The columns of each relation, as a declaration spells them: those that some query reads."""

STATIC = ("nation",)
"""Relations that are filled before the stream starts and never change."""

READS: Mapping[str, tuple[str, ...]] = {
    "axf": ("bids", "asks"),
    "bsp": ("bids",),
    "bsv": ("bids",),
    "mst": ("bids", "asks"),
    "psp": ("bids", "asks"),
    "vwap": ("bids",),
    "q3": ("customer", "orders", "lineitem"),
    "q11": ("partsupp", "supplier"),
    "q17": ("lineitem", "part"),
    "q18": ("customer", "orders", "lineitem"),
    "q22": ("customer", "orders"),
    "ssb4": ("customer", "orders", "lineitem", "part", "supplier", "nation"),
}
"""The relations that each query reads."""

QUERIES: Mapping[str, str] = {
    "axf": """
        SELECT b.broker_id, SUM(a.volume - b.volume) AS difference
        FROM bids b, asks a
        WHERE b.broker_id = a.broker_id AND (a.price - b.price > 1000 OR b.price - a.price > 1000)
        GROUP BY b.broker_id""",
    "bsp": """
        SELECT x.broker_id, SUM(x.volume * x.price - y.volume * y.price) AS spread
        FROM bids x, bids y
        WHERE x.broker_id = y.broker_id AND x.t > y.t
        GROUP BY x.broker_id""",
    "bsv": """
        SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) AS variance
        FROM bids x, bids y
        WHERE x.broker_id = y.broker_id
        GROUP BY x.broker_id""",
    "mst": """
        SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) AS difference
        FROM bids b, asks a
        WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1)
              > (SELECT COALESCE(SUM(a2.volume), 0) FROM asks a2 WHERE a2.price > a.price)
          AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1)
              > (SELECT COALESCE(SUM(b2.volume), 0) FROM bids b2 WHERE b2.price > b.price)
        GROUP BY b.broker_id""",
    "psp": """
        SELECT SUM(a.price - b.price) AS spread
        FROM bids b, asks a
        WHERE b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1)
          AND a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1)""",
    "vwap": """
        SELECT SUM(b1.price * b1.volume) AS vwap
        FROM bids b1
        WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3)
              > (SELECT COALESCE(SUM(b2.volume), 0) FROM bids b2 WHERE b2.price > b1.price)""",
    "q3": """
        SELECT o.orderkey, o.orderdate, o.shippriority, SUM(li.extendedprice * (1 - li.discount)) AS revenue
        FROM customer c, orders o, lineitem li
        WHERE c.mktsegment = 'BUILDING' AND o.custkey = c.custkey AND li.orderkey = o.orderkey
          AND o.orderdate < DATE '1995-03-15' AND li.shipdate > DATE '1995-03-15'
        GROUP BY o.orderkey, o.orderdate, o.shippriority""",
    "q11": """
        SELECT ps.partkey, SUM(ps.supplycost * ps.availqty) AS value
        FROM partsupp ps, supplier s
        WHERE ps.suppkey = s.suppkey
        GROUP BY ps.partkey""",
    "q17": """
        SELECT SUM(l.extendedprice) AS revenue
        FROM lineitem l, part p
        WHERE p.partkey = l.partkey
          AND l.quantity < 0.005 * (SELECT SUM(l2.quantity) FROM lineitem l2 WHERE l2.partkey = p.partkey)""",
    "q18": """
        SELECT c.custkey, SUM(l1.quantity) AS quantity
        FROM customer c, orders o, lineitem l1
        WHERE 1 <= (SELECT SUM(1)
                    WHERE 100 < (SELECT SUM(l2.quantity) FROM lineitem l2 WHERE l1.orderkey = l2.orderkey))
          AND c.custkey = o.custkey AND o.orderkey = l1.orderkey
        GROUP BY c.custkey""",
    "q22": """
        SELECT c1.nationkey, SUM(c1.acctbal) AS balance
        FROM customer c1
        WHERE c1.acctbal < (SELECT COALESCE(SUM(c2.acctbal), 0) FROM customer c2 WHERE c2.acctbal > 0)
          AND 0 = (SELECT COUNT(*) FROM orders o WHERE o.custkey = c1.custkey)
        GROUP BY c1.nationkey""",
    "ssb4": """
        SELECT sn.regionkey AS supplier_region, cn.regionkey AS customer_region, p.type, SUM(li.quantity) AS quantity
        FROM customer c, orders o, lineitem li, part p, supplier s, nation cn, nation sn
        WHERE c.custkey = o.custkey AND o.orderkey = li.orderkey AND p.partkey = li.partkey AND s.suppkey = li.suppkey
          AND o.orderdate >= DATE '1997-01-01' AND o.orderdate < DATE '1998-01-01'
          AND cn.nationkey = c.nationkey AND sn.nationkey = s.nationkey
        GROUP BY sn.regionkey, cn.regionkey, p.type""",
}
"""Each query by the name that the benchmark's cases use."""


def declarations(query: str, kind: str = "STREAM", static: Collection[str] = STATIC) -> str:
    """``CREATE`` statements for what ``query`` reads: as streams or tables; those that never change are tables.

    >>> declarations("ssb4").count("CREATE STREAM"), declarations("ssb4").count("CREATE TABLE")
    (5, 1)
    """
    kinds = {name: "TABLE" if name in static else kind for name in READS[query]}
    return "\n".join(f"CREATE {kinds[name]} {name} ({RELATIONS[name]});" for name in READS[query])
