"""The two streams: seeded, of the right size, and no row leaves that is not there."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.dbtoaster.book import BROKERS, DEEPEST, LARGEST, SIDES, TICK, order_book
from benchmarks.dbtoaster.orders import COLUMNS, active_orders
from benchmarks.dbtoaster.stream import Stream, kept
from benchmarks.tpch.data import generate

EVENTS = 20_000
ACTIVE = 2_000


@pytest.fixture(scope="module")
def book() -> Stream:
    return order_book(EVENTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def tpch(folder: Path) -> Stream:
    return active_orders(folder, scale=0.01, active=ACTIVE)


def test_the_book_has_as_many_events_as_asked_for(book: Stream) -> None:
    assert len(book) == EVENTS == sum(table.num_rows for table in book.tables.values())
    assert list(book.tables) == list(SIDES)
    assert [len(order_book(events)) for events in (1, 2, 17)] == [1, 2, 17]


def test_no_order_leaves_that_is_not_in_the_book(book: Stream) -> None:
    there: set[tuple[object, ...]] = set()
    for relation, weight, row in book.events(0, EVENTS):
        assert weight in (+1, -1)
        assert ((relation, row) in there) == (weight < 0)
        (there.add if weight > 0 else there.remove)((relation, row))
    assert there


def test_no_order_is_in_the_book_twice(book: Stream) -> None:
    """A part-filled order changes its volume, never its place: at any time there is one row of each id."""
    there: set[object] = set()
    for _, weight, row in book.events(0, EVENTS):
        assert (row[1] in there) == (weight < 0)
        (there.remove if weight < 0 else there.add)(row[1])
    volumes = Counter((row[0], row[1], row[4]) for _, weight, row in book.events(0, EVENTS) if weight > 0)
    assert max(volumes.values()) == 1
    assert len({order for _, order, _ in volumes}) < len(volumes)


def test_orders_look_like_orders(book: Stream) -> None:
    for side, table in book.tables.items():
        ticks = np.array([int(price) for price in table["price"].to_pylist()]) // TICK
        middle = np.median(ticks)
        assert (ticks * TICK == np.array(table["price"].to_pylist(), dtype=float)).all()
        assert np.abs(ticks - middle).max() <= 2 * DEEPEST
        assert (ticks <= middle).mean() == pytest.approx(0.5, abs=0.2), side
        assert set(table["broker_id"].to_pylist()) == set(range(1, BROKERS + 1))
        volumes = table["volume"].to_numpy()
        assert volumes.min() >= 1 and volumes.max() <= LARGEST
    # Bids below, asks above: the cheapest half of the asks is dearer than nearly all bids.
    prices = {side: np.sort(np.array(table["price"].to_pylist(), dtype=float)) for side, table in book.tables.items()}
    assert np.median(prices["asks"]) > np.quantile(prices["bids"], 0.95)


def test_some_orders_live_long_and_most_do_not() -> None:
    book = order_book(100_000)
    left = {side: np.cumsum(table["_weight"].to_numpy())[-1] for side, table in book.tables.items()}
    assert all(1_000 < there < 10_000 for there in left.values())


def test_the_same_seed_gives_the_same_book(book: Stream) -> None:
    again, other = order_book(EVENTS), order_book(EVENTS, seed=2)
    assert again.tables == book.tables and (again.turns == book.turns).all()
    assert other.tables != book.tables


def test_orders_stay_at_the_active_number(tpch: Stream) -> None:
    there: set[object] = set()
    sizes = []
    for relation, weight, row in tpch.events(0, len(tpch)):
        if relation == "orders":
            assert (row in there) == (weight < 0)
            (there.add if weight > 0 else there.remove)(row)
            sizes.append(len(there))
    filled = sizes.index(ACTIVE)
    assert set(sizes[filled:]) == {ACTIVE, ACTIVE + 1}


def test_other_relations_only_grow_and_end_complete(tpch: Stream, folder: Path) -> None:
    source = generate(folder, 0.01)
    for name, table in {**tpch.tables, **tpch.static}.items():
        if name != "orders":
            assert table.num_rows == source[name].num_rows
            assert name in tpch.static or set(table["_weight"].to_pylist()) == {1}
            assert table[0].to_pylist() == source[name][COLUMNS[name][0]].to_pylist()


def test_every_relation_is_equally_likely_to_be_next(tpch: Stream) -> None:
    """Until one of them runs dry: here the hundred suppliers."""
    dry = int(np.flatnonzero(tpch.turns == list(tpch.tables).index("supplier"))[-1])
    shares = np.bincount(tpch.turns[:dry], minlength=len(tpch.tables)) / dry
    assert shares == pytest.approx(np.full(len(tpch.tables), 1 / len(tpch.tables)), abs=0.06)


def test_the_same_seed_gives_the_same_interleaving(tpch: Stream, folder: Path) -> None:
    again = active_orders(folder, scale=0.01, active=ACTIVE)
    other = active_orders(folder, scale=0.01, active=ACTIVE, seed=2)
    assert again.tables == tpch.tables and (again.turns == tpch.turns).all()
    assert other.tables["orders"] != tpch.tables["orders"]


@given(st.lists(st.integers(0, EVENTS), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_pieces_make_up_the_stream(cuts: list[int]) -> None:
    book = order_book(EVENTS)
    bounds = sorted({0, *cuts, EVENTS})
    pieces = [book.cut(a, b) for a, b in pairwise(bounds)]
    assert [event for piece in pieces for event in piece.events(0, len(piece))] == list(book.events(0, EVENTS))


def test_one_side_alone_keeps_its_order(book: Stream) -> None:
    bids = book.only({"bids"})
    assert list(bids.events(0, len(bids))) == [event for event in book.events(0, EVENTS) if event[0] == "bids"]


def test_a_stream_is_made_once(book: Stream, tmp_path: Path) -> None:
    made = []

    def make() -> Stream:
        made.append(1)
        return book

    for _ in range(2):
        loaded = kept(tmp_path / "book", make)
        assert loaded.tables == book.tables and (loaded.turns == book.turns).all()
    assert len(made) == 1
