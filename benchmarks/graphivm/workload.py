"""What a case is fed: the relations before, the events that are timed, and the query whose view follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.dbtoaster.stream import Stream
from benchmarks.graphivm.data import Ids, latest
from benchmarks.graphivm.queries import SCHEMA, SIMPLE, follower_chain, retweet_chain
from tidemill.model.schema import WEIGHT

Tables = Mapping[str, pa.Table]

FOLLOWER_FANOUT = (182, 381, 445, 545)
RETWEET_FANOUT = (110, 56, 24, 11)
"""Table 9.3: how many rows of the view one event makes, with two to five joins."""

MODIFICATIONS = ("insert-join", "insert-projected", "delete-projected", "delete-join")
"""Figure 9.9: insert a join tuple, a projected tuple to one that is there, and delete them again."""

BEYOND = 10_000_000_000
"""New users, followers and tweets have ids from here on."""


@dataclass(frozen=True)
class Workload:
    """A view over relations that are filled, and then events. ``fanout`` is how many rows one event makes, if known."""

    query: str
    base: Tables
    events: Stream
    fanout: float | None = None

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that the query reads."""
        return tuple(self.base)


def simple(name: str, tables: Tables, count: int) -> Workload:
    """Section 9.4: the last ``count`` tweets and retweets arrive, those that the query reads, in their order."""
    query = SIMPLE[name]
    reads = [relation for relation in SCHEMA if f" {relation} " in query]
    before, after = latest(tables, count)
    arriving = {relation: after[relation] for relation in reads if relation in after}
    dates = np.concatenate([table["tweetdate"].to_numpy() for table in arriving.values()])
    whose = np.repeat(np.arange(len(arriving), dtype=np.uint8), [table.num_rows for table in arriving.values()])
    turns = whose[np.argsort(dates, kind="stable")]
    return Workload(query, {relation: before[relation] for relation in reads}, Stream(_weighted(arriving), turns))


def fanout(fan: int, shape: str, tables: Tables, count: int) -> Workload:
    """Section 9.5.1: new users, whose tweets reach ``fan`` followers of followers each.

    The thesis leaves open at which step the paths part. ``last``: a new user has one follower, who has ``fan``.
    ``first``: a new user has ``fan`` followers, each with one.
    """
    authors = BEYOND + np.arange(count)
    near = BEYOND + count + np.arange(count if shape == "last" else count * fan)
    far = BEYOND + count + len(near) + np.arange(count * fan)
    users = np.concatenate([np.repeat(authors, len(near) // count), np.repeat(near, len(far) // len(near))])
    added = pa.table({"userid": users, "followerid": np.concatenate([near, far])})
    base = {"follower": pa.concat_tables([tables["follower"], added]), "tweet": tables["tweet"]}
    return Workload(follower_chain(2), base, _insertions("tweet", _tweets(authors)), fan)


def followers(joins: int, tables: Tables, count: int) -> Workload:
    """Section 9.5.2: one user writes ``count`` tweets; the user whose fan-out is nearest to Table 9.3."""
    users, of = (tables["follower"][name].to_numpy() for name in ("userid", "followerid"))
    paths = [np.ones(tables["users"].num_rows)]
    while len(paths) < 6:
        paths.append(np.bincount(users, weights=paths[-1][of], minlength=len(paths[0])))
    author = _nearest(paths[2:], FOLLOWER_FANOUT)
    base = {relation: tables[relation] for relation in ("follower", "tweet")}
    events = _insertions("tweet", _tweets(np.full(count, author)))
    return Workload(follower_chain(joins), base, events, float(paths[joins][author]))


def retweets(joins: int, tables: Tables, count: int) -> Workload:
    """Section 9.5.2: one user gets ``count`` followers; the user whose fan-out is nearest to Table 9.3."""
    user, above = (tables["retweet"][name].to_numpy() for name in ("userid", "retweettweetid"))
    depth = _depth(above - tables["tweet"].num_rows)
    everyone = tables["users"].num_rows
    deep = [np.bincount(user[depth >= level], minlength=everyone).astype(float) for level in range(6)]
    followed = _nearest(deep[2:], RETWEET_FANOUT)
    base = {relation: tables[relation] for relation in ("retweet", "follower")}
    added = pa.table({"userid": np.full(count, followed), "followerid": BEYOND + np.arange(count)})
    return Workload(retweet_chain(joins), base, _insertions("follower", added), float(deep[joins][followed]))


def modifications(name: str, tables: Tables, count: int) -> Workload:
    """Section 9.7: equal numbers of events of each of ``MODIFICATIONS``.

    Each of ``count`` new users has one follower and, for ``q3``, one tweet. What arrives first for a user makes a join
    tuple, what comes second a projected tuple of it.
    """
    query = SIMPLE[name]
    reads = [relation for relation in SCHEMA if f" {relation} " in query]
    authors = BEYOND + np.arange(count)
    added = {
        "users": pa.table({"userid": authors}),
        "follower": pa.table({"userid": authors, "followerid": authors + count}),
        "tweet": _tweets(authors),
    }
    moving = "retweet" if "retweet" in reads else "tweet"
    base = {r: pa.concat_tables([tables[r], added[r]]) if r != moving else tables[r] for r in reads}
    first, second = (_retweets(authors, turn) if moving == "retweet" else _tweets(authors, turn) for turn in (1, 2))
    weights = np.repeat([1, -1], 2 * count)
    stream = pa.concat_tables([first, second, second, first]).append_column(WEIGHT, pa.array(weights))
    events = Stream({moving: stream.combine_chunks()}, np.zeros(4 * count, dtype=np.uint8))
    return Workload(query, base, events)


def _tweets(authors: Ids, turn: int = 0) -> pa.Table:
    """One tweet of each author."""
    ids = BEYOND * (turn + 1) + np.arange(len(authors))
    return pa.table({"userid": authors, "tweetid": ids, "tweetdate": ids})


def _retweets(authors: Ids, turn: int) -> pa.Table:
    """One retweet of each author's own tweet."""
    above = _tweets(authors)["tweetid"]
    return _tweets(authors, turn).append_column("retweettweetid", above)


def _depth(above: Ids) -> Ids:
    """How many retweets a chain of retweets has, up to each; ``above`` is the place of the next, negative for none.

    >>> _depth(np.array([-3, 0, 1, -1]))
    array([1, 2, 3, 1])
    """
    depth, place = np.zeros(len(above), dtype=np.int64), np.arange(len(above))
    alive = np.ones(len(above), dtype=bool)
    while alive.any():
        depth[alive] += 1
        place = np.where(alive, above[place], place)
        alive &= place >= 0
    return depth


def _nearest(profiles: Sequence[npt.NDArray[np.float64]], wanted: Sequence[int]) -> int:
    """Which one has fan-outs nearest to those wanted, in their ratios."""
    distance = sum((np.log(had + 0.5) - np.log(want)) ** 2 for had, want in zip(profiles, wanted, strict=True))
    return int(np.argmin(distance))


def _insertions(relation: str, table: pa.Table) -> Stream:
    return Stream(_weighted({relation: table}), np.zeros(table.num_rows, dtype=np.uint8))


def _weighted(tables: Tables) -> dict[str, pa.Table]:
    return {
        name: table.append_column(WEIGHT, pa.array(np.ones(table.num_rows, dtype=np.int64))).combine_chunks()
        for name, table in tables.items()
    }
