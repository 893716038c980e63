"""A day at a stock exchange: limit orders come, are filled in part, and go, as a seeded stream of bids and asks.

The paper replays one day of orders for MSFT, 2.63 million events, which is not public. This book behaves like one: the
middle price walks at random, orders keep their distance to it by a power law in ticks, most live for seconds and some,
farther away, for hours. Some are executed in part: the old row goes, one with the rest of the volume comes. After a
while the book holds some fourteen thousand orders at some nine hundred prices. A row leaves as it came: ``t`` stays the
time at which the order arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.dbtoaster.stream import Stream
from tidemill.model.schema import WEIGHT

EVENTS = 2_630_000
BROKERS = 10
SIDES = ("bids", "asks")

MIDDLE = 270_000
"""The first middle price, in hundredths of a cent."""
TICK = 100
STEP = 2.2
"""By how much the middle moves from one order to the next: about one percent in a day."""
DEEPEST = 2_000
"""No order is more ticks away from the middle."""

LOT = 100
LARGEST = 5_000
"""No order is for more shares."""

OPENS = 34_200_000_000
"""Half past nine, in microseconds."""
PAUSE = 6_000
"""The median pause between two orders; the mean is three times as long."""
PATIENT = 0.1
"""The share of orders that wait for minutes and hours, not for seconds."""
FILLED = 0.08
"""The share of orders that are executed in part before they go."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Orders:
    """Orders as columns; each is in the book from ``comes`` to before ``goes``."""

    t: Numbers
    id: Numbers
    broker_id: Numbers
    price: Numbers
    volume: Numbers
    side: Numbers
    comes: Numbers
    goes: Numbers

    def __len__(self) -> int:
        return len(self.t)

    def take(self, rows: Numbers) -> Orders:
        """The orders at these places."""
        return Orders(**{name: column[rows] for name, column in vars(self).items()})


def order_book(events: int = EVENTS, seed: int = 1) -> Stream:
    """The first ``events`` of the day.

    >>> order_book(1000).tables["bids"].column_names
    ['t', 'id', 'broker_id', 'price', 'volume', '_weight']
    """
    # As many orders as events: later orders cannot matter, whatever the share of those that go.
    orders = _fill(np.random.default_rng([seed, 1]), _arrive(np.random.default_rng([seed, 0]), events))
    rows, weights = _in_order(orders, events)
    chosen = orders.take(rows)
    tables = {name: _table(chosen, weights, chosen.side == side) for side, name in enumerate(SIDES)}
    return Stream(tables, chosen.side.astype(np.uint8))


def _arrive(random: np.random.Generator, count: int) -> Orders:
    """Orders as they are placed."""
    t = OPENS + np.cumsum(1 + random.lognormal(np.log(PAUSE), 1.5, count).astype(np.int64))
    middle = MIDDLE + np.cumsum(random.normal(0, STEP, count))
    side = random.integers(0, 2, count)
    patient = random.random(count) < PATIENT
    ticks = np.where(patient, 20, 3) * random.pareto(1.3, count)
    away = np.minimum(1 + ticks.astype(np.int64), DEEPEST) * np.where(side == 0, -1, 1)
    seconds = np.where(patient, random.lognormal(np.log(1200), 1.3, count), random.lognormal(np.log(1.5), 1.5, count))
    return Orders(
        t=t,
        id=np.arange(1, count + 1),
        broker_id=random.integers(1, BROKERS + 1, count),
        price=(np.round(middle / TICK).astype(np.int64) + away) * TICK,
        volume=np.minimum(LOT * random.geometric(0.4, count), LARGEST),
        side=side,
        comes=t,
        # At least two microseconds, so that there is room for being filled in part.
        goes=t + 2 + (seconds * 1e6).astype(np.int64),
    )


def _fill(random: np.random.Generator, orders: Orders) -> Orders:
    """Some orders end early and go on with less volume under the same id."""
    filled = np.flatnonzero(random.random(len(orders)) < FILLED)
    before = orders.take(filled)
    when = random.integers(before.comes + 1, before.goes)
    after = replace(before, volume=random.integers(1, before.volume), comes=when)
    goes = orders.goes.copy()
    goes[filled] = when
    first, rest = vars(replace(orders, goes=goes)), vars(after)
    return Orders(**{name: np.concatenate([first[name], rest[name]]) for name in first})


def _in_order(orders: Orders, events: int) -> tuple[Numbers, Numbers]:
    """Which order each of the first ``events`` is about, and whether it comes or goes.

    At one moment orders go before others come, so that a part-filled order is never there twice.
    """
    moments = np.concatenate([2 * orders.comes + 1, 2 * orders.goes])
    first = np.argsort(moments, kind="stable")[:events]
    return first % len(orders), np.where(first < len(orders), 1, -1)


def _table(orders: Orders, weights: Numbers, chosen: npt.NDArray[np.bool_]) -> pa.Table:
    side = orders.take(np.flatnonzero(chosen))
    return pa.table(
        {
            "t": side.t,
            "id": side.id,
            "broker_id": side.broker_id,
            # Arrow wants room for any 64-bit integer before it looks at the values.
            "price": pa.array(side.price).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "volume": side.volume,
            WEIGHT: weights[chosen],
        }
    )
