"""A small shop: customers, orders and line items, generated from a seed, and their changes."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from decimal import Decimal

from tidemill.changes.zset import Row

__all__ = ["SHOP_COLUMNS", "SHOP_TABLES", "SHOP_VIEWS", "Shop", "ShopChange"]

ShopChange = dict[str, list[tuple[int, Row]]]

SHOP_TABLES = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING NOT NULL, region STRING NOT NULL);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer_id BIGINT NOT NULL REFERENCES customers (id), day DATE NOT NULL,
                     status STRING NOT NULL);
CREATE TABLE line_items (order_id BIGINT NOT NULL REFERENCES orders (id), line INT NOT NULL, product STRING NOT NULL,
                         quantity INT NOT NULL, price DECIMAL(10,2) NOT NULL, PRIMARY KEY (order_id, line));
"""

SHOP_COLUMNS = {
    "customers": {"id": "BIGINT", "name": "STRING", "region": "STRING"},
    "orders": {"id": "BIGINT", "customer_id": "BIGINT", "day": "DATE", "status": "STRING"},
    "line_items": {
        "order_id": "BIGINT",
        "line": "INT",
        "product": "STRING",
        "quantity": "INT",
        "price": "DECIMAL(10,2)",
    },
}
"""The columns of each table with their types, by which changes are read from files."""

SHOP_VIEWS = {
    # a filter
    "open_orders": "SELECT id, customer_id, day, status FROM orders WHERE status <> 'delivered'",
    # joins and a group
    "customer_spend": """
        SELECT c.id, c.region, SUM(i.quantity * i.price) AS total, COUNT(*) AS items, AVG(i.quantity) AS basket
        FROM customers c JOIN orders o ON o.customer_id = c.id JOIN line_items i ON i.order_id = o.id
        GROUP BY c.id, c.region""",
    # distinct pairs, then a group
    "product_reach": """
        SELECT product, COUNT(*) AS buyers
        FROM (SELECT DISTINCT i.product, o.customer_id FROM line_items i JOIN orders o ON i.order_id = o.id) AS sold
        GROUP BY product""",
    # a self-join
    "bought_together": """
        SELECT a.product AS one, b.product AS other, COUNT(*) AS orders
        FROM line_items a JOIN line_items b ON a.order_id = b.order_id AND a.product < b.product
        GROUP BY a.product, b.product HAVING COUNT(*) > 10""",
    # a view on a view
    "big_spenders": """
        SELECT s.id, c.name, s.region, s.total
        FROM customer_spend s JOIN customers c ON c.id = s.id WHERE s.total > 3000""",
    # a view on a view on a view, beside another branch
    "region_summary": """
        SELECT region, SUM(spenders) AS big_spenders, SUM(total) AS total
        FROM (SELECT region, 0 AS spenders, total FROM customer_spend
              UNION ALL SELECT region, 1 AS spenders, CAST(0 AS DECIMAL(31,2)) AS total FROM big_spenders) AS sides
        GROUP BY region""",
}
"""Six views of growing difficulty, each after those that it reads."""

_REGIONS = ("north", "south", "east", "west", "islands")
_STATUSES = ("placed", "packed", "shipped", "delivered")
_PRODUCTS = tuple(
    f"{colour} {thing}" for thing in ("cup", "lamp", "chair", "shelf") for colour in ("red", "blue", "green")
)
_REGULARS = 50  # every second order is one of theirs
_FIRST_DAY = datetime.date(2024, 1, 1)


class Shop:
    """The tables of the shop, so that updates and deletes have the current rows.

    >>> shop = Shop(seed=1, customers=3, orders=5)
    >>> sorted(shop.opening()), all(weight == 1 for weight, _ in Shop(seed=1).opening()["orders"])
    (['customers', 'line_items', 'orders'], True)
    """

    def __init__(self, *, seed: int = 7, customers: int = 2_000, orders: int = 20_000) -> None:
        self._random = random.Random(seed)
        self._customers: dict[int, Row] = {}
        self._orders: dict[int, Row] = {}
        self._lines: dict[int, list[Row]] = {}
        self._sizes = customers, orders
        self._next_order = 1

    def opening(self) -> ShopChange:
        """The rows with which the shop opens."""
        change: ShopChange = {"customers": [], "orders": [], "line_items": []}
        customers, orders = self._sizes
        for number in range(1, customers + 1):
            row = (number, f"customer {number}", self._random.choice(_REGIONS))
            self._customers[number] = row
            change["customers"].append((1, row))
        for _ in range(orders):
            self._order(change)
        return change

    def step(self, size: int) -> ShopChange:
        """The changes of about ``size`` events: orders, corrections, cancellations and moves."""
        change: ShopChange = {"customers": [], "orders": [], "line_items": []}
        happenings = (self._order, self._advance, self._reprice, self._cancel, self._move)
        for happening in self._random.choices(happenings, weights=(30, 40, 15, 10, 5), k=size):
            happening(change)
        return {table: pairs for table, pairs in change.items() if pairs}

    def _order(self, change: ShopChange) -> None:
        """A customer orders one to five products."""
        number, self._next_order = self._next_order, self._next_order + 1
        everybody = len(self._customers)
        customer = self._random.randint(1, everybody if number % 2 else min(everybody, _REGULARS))
        row = (number, customer, _FIRST_DAY + datetime.timedelta(days=number // 100), self._random.choice(_STATUSES))
        self._orders[number], self._lines[number] = row, list(self._items(number))
        change["orders"].append((1, row))
        change["line_items"] += [(1, line) for line in self._lines[number]]

    def _items(self, order: int) -> Iterator[Row]:
        products = self._random.sample(_PRODUCTS, self._random.randint(1, 5))
        for line, product in enumerate(products, start=1):
            price = Decimal(self._random.randint(100, 9_999)).scaleb(-2)
            yield order, line, product, self._random.randint(1, 4), price

    def _advance(self, change: ShopChange) -> None:
        """An order is packed, shipped, delivered; or comes back."""
        old = self._orders[self._some_order()]
        status = _STATUSES[(_STATUSES.index(old[3]) + 1) % len(_STATUSES)]
        new = (*old[:3], status)
        self._orders[old[0]] = new
        change["orders"] += [(-1, old), (1, new)]

    def _reprice(self, change: ShopChange) -> None:
        """The price of a line item is corrected."""
        lines = self._lines[self._some_order()]
        position = self._random.randrange(len(lines))
        old = lines[position]
        lines[position] = (*old[:4], Decimal(self._random.randint(100, 9_999)).scaleb(-2))
        change["line_items"] += [(-1, old), (1, lines[position])]

    def _cancel(self, change: ShopChange) -> None:
        """An order disappears with its lines."""
        number = self._some_order()
        change["orders"].append((-1, self._orders.pop(number)))
        change["line_items"] += [(-1, line) for line in self._lines.pop(number)]

    def _move(self, change: ShopChange) -> None:
        """A customer moves to another region, which affects every view that groups by region."""
        old = self._customers[self._random.randint(1, len(self._customers))]
        new = (*old[:2], self._random.choice(_REGIONS))
        self._customers[old[0]] = new
        change["customers"] += [(-1, old), (1, new)]

    def _some_order(self) -> int:
        """An order that is still there: a random number, or the next one below it that was not cancelled."""
        number = self._random.randrange(1, self._next_order)
        while number not in self._orders:
            number = number - 1 or self._next_order - 1
        return number
