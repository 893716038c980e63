"""Many subscribers, each with a key: what they add to the cost of an event, and that each gets its own rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from benchmarks.graphivm.case import Case, Outcome
from benchmarks.graphivm.data import SEED
from benchmarks.graphivm.oracle import Oracle
from benchmarks.graphivm.subject import Subject, clock
from benchmarks.graphivm.workload import Workload

LEGS = 3
"""The events come in so many parts. The fastest counts: what disturbs a part is not of the subscribers."""

BATCH = 1_000


def serve_many(case: Case, workload: Workload, subject: Subject) -> Outcome:
    """Feed the timelines, with as many subscribers as ``case`` says, each to the timeline of one follower.

    Timed is what publishing takes, and what it takes all of them to have taken their rows at the end of a part.
    """
    keys = _keys(workload, int(case.at))
    count = len(workload.events)
    fastest = float("inf")
    taken: list[pa.Table] = []
    subscriptions = [subject.subscribe({"followerid": key}) for key in keys]
    borders = np.linspace(0, count, LEGS + 1).astype(int).tolist()
    for start, stop in pairwise(borders):
        begins = range(start, stop, BATCH)
        seconds = sum(subject.replay(begin, min(begin + BATCH, stop)) for begin in begins)
        begin = clock()
        taken += [batch.arrow() for subscription in subscriptions for batch in subscription]
        seconds += clock() - begin
        fastest = min(fastest, seconds / (stop - start))
    _check(case, workload, keys, taken)
    return Outcome(case, count, count, fastest * count, sum(table.num_rows for table in taken))


def _keys(workload: Workload, count: int) -> list[int]:
    """So many followers, the same ones first however many there are."""
    followers = np.unique(workload.base["follower"]["followerid"].to_numpy())
    return [int(key) for key in np.random.default_rng(SEED).permutation(followers)[:count]]


def _check(case: Case, workload: Workload, keys: list[int], taken: list[pa.Table]) -> None:
    """Together they must have got what changed in the view at their keys."""
    asked = replace(workload, query=f"{workload.query} WHERE f.followerid IN ({', '.join(map(str, keys))})")
    with Oracle(asked) as oracle:
        oracle.check_changes(len(workload.events), oracle.add([pa.concat_tables(taken)] if taken else []), case.name)
