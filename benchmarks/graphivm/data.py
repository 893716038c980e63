"""The social data of the thesis: who follows whom, who wrote what and when, and who passed it on, from a seed.

BSMA-Gen, which the thesis used, is modelled and not repeated. *Followers*: a third of the users are followed at all, by
numbers that fall with their rank as a power law; their followers are mostly the other two thirds, and just so many are
followed themselves that a follower has one follower in the mean. *Tweets* are a Poisson process. *Retweets* too; each
is of a tweet, of another retweet (so that there are chains), or of what another one has retweeted (which is how few
tweets come to have many: a power law), and whom it follows is mostly recent: ages decay by a power law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids = npt.NDArray[np.int64]

SEED = 2015

CHAINED = 1.0
"""How many followers a follower has, in the mean: chains of followers neither explode nor end."""

FRESH, ONWARD = 0.35, 0.35
"""The shares of retweets that take a tweet, and another retweet; the others take what another retweet has taken."""

MONTH, HOUR = 30 * 86_400_000, 3_600_000
"""All takes place within a month, in milliseconds; the age of what is retweeted is mostly below an hour."""


@dataclass(frozen=True)
class Sizes:
    """How many rows each relation has."""

    users: int
    follower: int
    tweet: int
    retweet: int

    def scaled(self, factor: float) -> Sizes:
        """So many times as many rows; few users cannot have as many followers each.

        >>> SMALL.scaled(0.01)
        Sizes(users=100, follower=333, tweet=600, retweet=700)
        """
        users, *others = (int(size * factor) for size in (self.users, self.follower, self.tweet, self.retweet))
        return replace(Sizes(users, *others), follower=min(others[0], users * users // 30))


LARGE = Sizes(users=100_000, follower=1_100_000, tweet=600_000, retweet=700_000)
"""A tenth of Figure 9.2a: what two cores load in seconds for each of some dozens of cases."""

SMALL = Sizes(users=10_000, follower=1_000_000, tweet=60_000, retweet=70_000)
"""Figure 9.2b."""


def social(sizes: Sizes, seed: int = SEED) -> dict[str, pa.Table]:
    """The four relations; tweets and retweets in the order of their dates, their ids in one numbering.

    >>> tables = social(Sizes(users=300, follower=2_000, tweet=500, retweet=500))
    >>> [table.num_rows for table in tables.values()]
    [300, 2000, 500, 500]
    """
    draw = np.random.default_rng(seed)
    users, followers = _followers(sizes, draw)
    written = np.sort(draw.integers(0, MONTH, sizes.tweet))
    passed = np.sort(draw.integers(0, MONTH, sizes.retweet))
    return {
        "users": pa.table({"userid": np.arange(sizes.users)}),
        "follower": pa.table({"userid": users, "followerid": followers}),
        "tweet": pa.table(
            {
                "userid": _by_rank(sizes.users, sizes.tweet, draw),
                "tweetid": np.arange(sizes.tweet),
                "tweetdate": written,
            }
        ),
        "retweet": pa.table(
            {
                "userid": _by_rank(sizes.users, sizes.retweet, draw),
                "tweetid": sizes.tweet + np.arange(sizes.retweet),
                "tweetdate": passed,
                "retweettweetid": _retweeted(written, passed, draw),
            }
        ),
    }


def _followers(sizes: Sizes, draw: np.random.Generator) -> tuple[Ids, Ids]:
    """Pairs of a user and a follower."""
    order = draw.permutation(sizes.users)
    followed, audience = order[: sizes.users // 3], order[sizes.users // 3 :]
    counts = _capped(sizes.follower, len(followed), len(audience))
    users = np.repeat(followed, counts)
    followers = np.concatenate([draw.choice(audience, count, replace=False, shuffle=False) for count in counts])
    chained = draw.random(len(users)) < CHAINED * len(followed) / len(users)
    followers[chained] = draw.choice(followed, int(chained.sum()))
    return users, followers


def _capped(total: int, parts: int, largest: int) -> Ids:
    """``total`` in parts that fall with the root of their rank, none above ``largest``.

    >>> _capped(100, 4, 30)
    array([30, 27, 23, 20])
    """
    weights = np.arange(1, parts + 1) ** -0.5
    counts: Ids = np.minimum(np.round(total * weights / weights.sum()).astype(np.int64), largest)
    # What rounding and the cap took away goes to the last of them, one each.
    missing = total - int(counts.sum())
    while missing:
        step = 1 if missing > 0 else -1
        able = np.flatnonzero(counts < largest if step > 0 else counts > 0)[-abs(missing) :]
        counts[able] += step
        missing -= step * len(able)
    return counts


def _by_rank(users: int, count: int, draw: np.random.Generator) -> Ids:
    """Who did each of ``count`` things: some users are far busier than most."""
    weights = np.arange(1, users + 1) ** -0.5
    ranks = draw.choice(users, count, p=weights / weights.sum())
    return np.asarray(draw.permutation(users)[ranks])


def _retweeted(written: Ids, passed: Ids, draw: np.random.Generator) -> Ids:
    """What each retweet is of: the id of a tweet, or of an earlier retweet."""
    count = len(passed)
    seen = passed - (draw.pareto(1.2, count) * HOUR).astype(np.int64)
    tweets = np.maximum(np.searchsorted(written, seen) - 1, 0)
    earlier = np.minimum(np.searchsorted(passed, seen), np.arange(count)) - 1
    kind = draw.random(count)
    fresh = (kind < FRESH) | (earlier < 0)
    onward = ~fresh & (kind < FRESH + ONWARD)
    targets = np.where(fresh, tweets, len(written) + earlier)
    # A copy points to an earlier retweet, which may be a copy too: all pointers are followed to their end, at once.
    origin = np.where(fresh | onward, np.arange(count), earlier)
    while not (fresh | onward)[origin].all():
        origin = origin[origin]
    return np.asarray(targets[origin])


def latest(tables: Mapping[str, pa.Table], count: int) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
    """The relations without the last ``count`` tweets and retweets, by date; and these.

    >>> tables = social(Sizes(users=300, follower=2_000, tweet=500, retweet=500))
    >>> before, after = latest(tables, 100)
    >>> sum(table.num_rows for table in after.values()), before["users"].num_rows
    (100, 300)
    """
    dates = np.concatenate([tables[name]["tweetdate"].to_numpy() for name in ("tweet", "retweet")])
    border = np.partition(dates, -count)[-count]
    before, after = dict(tables), {}
    for name in ("tweet", "retweet"):
        cut = int(np.searchsorted(tables[name]["tweetdate"].to_numpy(), border))
        before[name], after[name] = tables[name].slice(0, cut), tables[name].slice(cut)
    return before, after
