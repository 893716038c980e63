"""Recomputation by DuckDB: over any prefix, in any order of asking, and it notices a wrong answer."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from benchmarks.dbtoaster.book import order_book
from benchmarks.dbtoaster.oracle import RECOMPUTED, Oracle, WrongAnswer
from benchmarks.dbtoaster.queries import QUERIES, READS
from benchmarks.dbtoaster.stream import Stream

BOOK_QUERIES = sorted(query for query, relations in READS.items() if "bids" in relations)


@pytest.fixture(scope="module")
def book() -> Stream:
    return order_book(3_000)


@pytest.mark.parametrize("query", BOOK_QUERIES)
def test_asking_back_and_forth(book: Stream, query: str) -> None:
    forwards = {events: Oracle(book).answer(query, events) for events in (100, 1_500, 3_000)}
    with Oracle(book) as oracle:
        assert {events: oracle.answer(query, events) for events in (1_500, 3_000, 100)} == forwards


def test_only_rows_that_are_there_count(book: Stream) -> None:
    there: dict[int, list[int]] = {}
    for relation, weight, (_, order, _, price, volume) in book.events(0, 3_000):
        if relation == "bids" and weight > 0:
            there[order] = [price, volume]
        elif relation == "bids":
            del there[order]
    total = sum(volume for _, volume in there.values())
    expected = sum(
        price * volume
        for price, volume in there.values()
        if total > 4 * sum(other for dearer, other in there.values() if dearer > price)
    )
    assert Oracle(book).answer("vwap", 3_000) == Counter([(expected,)])


def test_the_faster_text_means_the_same(book: Stream) -> None:
    different = [query for query in QUERIES if RECOMPUTED[query] != QUERIES[query]]
    assert different == ["mst"]
    for events in (50, 700, 3_000):
        oracle = Oracle(book)
        fast = oracle.answer("mst", events)
        assert Counter(oracle._connection.execute(QUERIES["mst"]).fetchall()) == fast
        assert fast


def test_a_wrong_answer_is_noticed(book: Stream) -> None:
    oracle = Oracle(book)
    rows = list(oracle.answer("bsv", 2_000).elements())
    oracle.check("bsv", 2_000, reversed(rows), "bsv/full/python")
    for wrong in (rows[1:], [*rows, rows[0]], [(*rows[0][:-1], rows[0][-1] + 1), *rows[1:]]):
        with pytest.raises(WrongAnswer, match="bsv/full/python is wrong after 2,000 events"):
            oracle.check("bsv", 2_000, wrong, "bsv/full/python")


def test_rows_that_came_twice_are_there_twice() -> None:
    row = {"t": [1], "id": [1], "broker_id": [1], "price": [10], "volume": [5]}
    table = pa.table({name: values * 3 for name, values in row.items()} | {"_weight": [2, 1, -1]})
    stream = Stream({"bids": table}, order_book(3).turns * 0)
    oracle = Oracle(stream)
    assert [list(oracle.answer("vwap", events)) for events in (1, 2, 3)] == [[(100,)], [(150,)], [(100,)]]
