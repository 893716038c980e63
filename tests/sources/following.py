"""What every real source is tested with: follow it, fold what it tells, hold each answer against the folded state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.sources.oracle import answer
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import ZSet
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT
from tidemill.sources.remote_queries.signed_query import SignedQuery, SpjView
from tidemill.sources.source import Answered, Committed, Position, Source


class Follower:
    """Drives a source from ``state``, which is what its tables held at ``position``."""

    def __init__(self, source: Source, state: Mapping[str, ZSet], position: Position) -> None:
        self.source = source
        self.state = {name: ZSet(state.get(name, ZSet())) for name in source.tables}
        self.position = position
        self.asked: dict[int, SignedQuery] = {}
        self.answers: list[Answered] = []
        self.notifications = 0

    def ask(self, query: SignedQuery) -> int:
        number = self.source.ask(query)
        self.asked[number] = query
        return number

    def step(self, timeout: float = 0.0) -> Committed | Answered | None:
        """Take one message; an answer must be what its query means in the state that was told before it."""
        message = self.source.receive(timeout)
        if isinstance(message, Committed):
            self.notifications += 1
            for name, change in message.changes.items():
                self.state[name].update_by(change)
                assert all(weight > 0 for weight in self.state[name].values()), f"{name}: a row left that was not there"
            self.position = message.position
        elif isinstance(message, Answered):
            expected = answer(self.asked.pop(message.number), self.state)
            assert message.rows == expected, f"{message.rows} is not {expected}"
            assert message.position
            self.position = message.position
            self.answers.append(message)
        return message

    def catch_up(self, timeout: float = 0.3) -> None:
        """Take messages until none comes and nothing is asked."""
        while self.step(timeout) is not None or self.asked:
            pass


def scan(table: Table, alias: str) -> Scan:
    return Scan(table.name, alias, table.fields)


def columns(*scans: Scan) -> dict[str, Column]:
    return {f.name: Column(f.name, f.type, f.nullable) for one in scans for f in one.fields}


def view(leaves: Sequence[Scan], conditions: Sequence[Scalar], outputs: Mapping[str, Scalar]) -> SpjView:
    named = tuple(Named(name, scalar) for name, scalar in outputs.items())
    return SpjView(tuple(leaves), tuple(conditions), named)


def number(value: int) -> Literal:
    return Literal(value, BIGINT)


def orders_of_customers(tables: Mapping[str, Table]) -> SpjView:
    """Customers with their larger orders: two relations, a condition that is pushed and an output computed here."""
    o, c = scan(tables["orders"], "o"), scan(tables["customers"], "c")
    at = columns(o, c)
    return view(
        [o, c],
        [call("eq", at["o.customer"], at["c.id"]), call("gt", at["o.amount"], number(20))],
        {"id": at["o.id"], "name": at["c.name"], "twice": call("multiply", at["o.amount"], number(2))},
    )


def pairs_of_orders(tables: Mapping[str, Table]) -> SpjView:
    """Orders of one customer side by side: a self join."""
    a, b = scan(tables["orders"], "a"), scan(tables["orders"], "b")
    at = columns(a, b)
    conditions = [call("eq", at["a.customer"], at["b.customer"]), call("lt", at["a.id"], at["b.id"])]
    return view([a, b], conditions, {"one": at["a.id"], "other": at["b.id"]})
