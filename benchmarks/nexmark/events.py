"""Nexmark's events after its official generator: of each 50 one is a person, three are auctions and 46 are bids.

Ids, hot sellers, hot auctions and bidders, channels, prices and the sizes of fields are those of
https://github.com/nexmark/nexmark by default: on average a person has 200 bytes, an auction 500 and a bid 100. Three
things follow the queries of ``tests/nexmark``, so that filters pass some rows and windows hold as many events as theirs
do: the clock runs 60 times as slow (10,000 events take a minute, not a second), because windows are of minutes;
categories are counted from 0; prices are whole, not in cents, and the number of a channel is called ``channel``.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.dbtoaster.stream import Stream
from tidemill.model.schema import WEIGHT

Numbers = npt.NDArray[np.int64]

ROUND, AUCTIONS = 50, 3
"""Events of a round, the first of which is a person, and the next three are auctions; the others are bids."""

FIRST_ID = 1_000
LEAD = 10
"""Ids may be ahead of those that there are by so many."""

HOT = 100
"""Of so many people or auctions in a row one is hot."""

HOT_SELLERS, HOT_AUCTIONS, HOT_BIDDERS = 4, 2, 4
"""All but one of so many auctions are of a hot seller, and all but one of so many bids for a hot auction, or by a hot
bidder."""

ACTIVE_PEOPLE, IN_FLIGHT = 1_000, 100
CATEGORIES = 5
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100

START = int(datetime(2026, 5, 1, tzinfo=UTC).timestamp()) * 1_000_000
GAP = 6_000
"""Microseconds from one event to the next."""

CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")


def nexmark(count: int, seed: int = 1) -> Stream:
    """The first ``count`` events; the same ones for the same seed and count."""
    draw = np.random.default_rng(seed)
    numbers = np.arange(count, dtype=np.int64)
    offset = numbers % ROUND
    turns = np.where(offset == 0, 0, np.where(offset <= AUCTIONS, 1, 2)).astype(np.uint8)
    people, auctions, bids = (numbers[turns == turn] for turn in range(3))
    tables = {"person": _people(draw, people), "auction": _auctions(draw, auctions), "bid": _bids(draw, bids)}
    weighted = {name: table.append_column(WEIGHT, _ones(table.num_rows)) for name, table in tables.items()}
    return Stream(weighted, turns)


def _people(draw: np.random.Generator, events: Numbers) -> pa.Table:
    count = len(events)
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    users, hosts = (_texts(draw, draw.integers(3, most, count)).to_pylist() for most in (7, 5))
    cards = draw.integers(0, 10_000, (count, 4)).tolist()
    columns = {
        "id": FIRST_ID + _last_person(events),
        "name": _some(draw, names, count),
        "email": pa.array([f"{user}@{host}.com" for user, host in zip(users, hosts, strict=True)], pa.string()),
        "credit_card": pa.array([" ".join(f"{part:04}" for part in card) for card in cards], pa.string()),
        "city": _some(draw, CITIES, count),
        "state": _some(draw, STATES, count),
        "at": _time(events),
    }
    # A name, an address, a card, a city and a state have some 56 bytes.
    return pa.table(columns | {"extra": _extra(draw, count, PERSON_BYTES - 8 - 56)})


def _auctions(draw: np.random.Generator, events: Numbers) -> pa.Table:
    count = len(events)
    person = _last_person(events)
    hot = draw.integers(0, HOT_SELLERS, count) > 0
    seller = np.where(hot, person // HOT * HOT, _active_person(draw, person))
    initial = _prices(draw, count)
    # On average an auction ends when a hundred others have begun.
    horizon = IN_FLIGHT * ROUND // AUCTIONS * GAP
    columns = {
        "id": FIRST_ID + _last_auction(events),
        "item": _texts(draw, draw.integers(3, 20, count)),
        "description": _texts(draw, draw.integers(3, 100, count)),
        "initial_bid": initial,
        "reserve": initial + _prices(draw, count),
        "at": _time(events),
        "expires": pa.array(START + events * GAP + 1_000 + draw.integers(0, 2 * horizon, count), pa.timestamp("us")),
        "seller": FIRST_ID + seller,
        "category": draw.integers(0, CATEGORIES, count),
    }
    # Six numbers and times, and texts of 11 and 51 letters.
    return pa.table(columns | {"extra": _extra(draw, count, AUCTION_BYTES - 6 * 8 - 62)})


def _bids(draw: np.random.Generator, events: Numbers) -> pa.Table:
    count = len(events)
    person, auction = _last_person(events), _last_auction(events)
    oldest = np.maximum(auction - IN_FLIGHT, 0)
    any_auction = oldest + draw.integers(0, auction - oldest + 1 + LEAD)
    hot_auction = draw.integers(0, HOT_AUCTIONS, count) > 0
    hot_bidder = draw.integers(0, HOT_BIDDERS, count) > 0
    channels, urls = _channels(draw)
    # Half of the bids come by one of the hot channels, which are the last ones.
    channel = np.where(
        draw.integers(0, 2, count) > 0,
        CHANNELS + draw.integers(0, len(HOT_CHANNELS), count),
        draw.integers(0, CHANNELS, count),
    )
    columns = {
        "auction": FIRST_ID + np.where(hot_auction, auction // HOT * HOT, any_auction),
        "bidder": FIRST_ID + np.where(hot_bidder, person // HOT * HOT + 1, _active_person(draw, person)),
        "price": _prices(draw, count),
        "channel": channels.take(channel),
        "url": urls.take(channel),
        "at": _time(events),
    }
    # As in the official generator, channel and url come on top of the average.
    return pa.table(columns | {"extra": _extra(draw, count, BID_BYTES - 4 * 8)})


def _last_person(events: Numbers) -> Numbers:
    """The last person there is at each event, counted from 0."""
    return events // ROUND


def _last_auction(events: Numbers) -> Numbers:
    """The last auction there is at each event that is no person, counted from 0."""
    return events // ROUND * AUCTIONS + np.minimum(events % ROUND, AUCTIONS) - 1


def _active_person(draw: np.random.Generator, last: Numbers) -> Numbers:
    """One of the last people, or of those who are about to come."""
    active = np.minimum(last + 1, ACTIVE_PEOPLE)
    return last + 1 - active + draw.integers(0, active + LEAD)


def _channels(draw: np.random.Generator) -> tuple[pa.Array, pa.Array]:
    """Names and addresses of all channels; nine in ten of those that are not hot have their number in the address."""
    count = CHANNELS + len(HOT_CHANNELS)
    folders = [_texts(draw, draw.integers(3, 5, count)).to_pylist() for _ in range(3)]
    urls = [f"https://www.nexmark.com/{'/'.join(names)}/item.htm?query=1" for names in zip(*folders, strict=True)]
    numbered = draw.integers(0, 10, CHANNELS) > 0
    for place in np.flatnonzero(numbered).tolist():
        urls[place] += f"&channel={place}"
    return pa.array([*(f"channel-{place}" for place in range(CHANNELS)), *HOT_CHANNELS]), pa.array(urls)


def _prices(draw: np.random.Generator, count: int) -> Numbers:
    """From 1 to a million, small ones as often as large ones."""
    return np.round(10.0 ** (6 * draw.random(count))).astype(np.int64)


def _extra(draw: np.random.Generator, count: int, average: int) -> pa.Array:
    """Texts of that length on average, a fifth shorter or longer."""
    spread = round(average * 0.2)
    return _texts(draw, draw.integers(average - spread, average + spread, count))


def _texts(draw: np.random.Generator, lengths: Numbers) -> pa.Array:
    """Letters at random, so many in each text."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = draw.integers(ord("a"), ord("z") + 1, int(ends[-1]), dtype=np.uint8)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters))


def _some(draw: np.random.Generator, words: tuple[str, ...] | list[str], count: int) -> pa.Array:
    return pa.array(words).take(draw.integers(0, len(words), count))


def _time(events: Numbers) -> pa.Array:
    return pa.array(START + events * GAP, pa.timestamp("us"))


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, dtype=np.int64))
