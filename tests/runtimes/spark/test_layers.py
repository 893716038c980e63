"""Partitions made by the Spark runtime, one query each, beside the evaluator."""

from __future__ import annotations

import pytest

from tests.partitions import ABOVE, OWN, PLAIN, TABLES, above, partitioned
from tidemill.algebra.relational.time_partitions import PartitionSlice, Subscript
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import ArithmeticFault

pytestmark = pytest.mark.spark

HERE = PartitionSlice("s", Subscript(), Subscript())
BEFORE = PartitionSlice("s", Subscript(-3), Subscript(-3))
LAST = PartitionSlice("v", Subscript(-1), Subscript(-1))
WIDE = PartitionSlice("p", Subscript(times=1, over=2, plus=-1), Subscript(times=1, over=2))
WHOLE = PartitionSlice("k", None, None)

EPOCHS = (
    {"s": [((n, 1, n), 1) for n in range(3)] + [((None, 1, 7), 1)], "p": [((0, 1, 5), 1)], "k": [((1, 2), 1)]},
    {"s": [((4, 1, 4), 2), ((4, 2, None), 1)]},
    {"s": [((1, 2, 3), 1), ((0, 1, 0), -1)], "p": [((1, 2, 5), 1), ((0, 1, 5), -1)]},
    {"k": [((2, 9), 1)]},
    {"s": [((4, 1, 4), -2), ((4, 2, None), -1)]},
)


@pytest.mark.parametrize(("body", "text"), [(OWN[0], ABOVE[1]), (OWN[4], ABOVE[2])])
def test_partitions_follow_from_each_other(drive, body, text):
    update = body.format(a=HERE.name, own=LAST.name)
    node = partitioned(1, {"s": 1}, (HERE, LAST), PLAIN[1].format(a=HERE.name), update)
    view = drive(list(TABLES.values()), above(node, text))
    view.load()
    for epoch in EPOCHS:
        view.apply(**epoch)
    assert view.shown


@pytest.mark.parametrize("body", [PLAIN[3], PLAIN[6], PLAIN[9]])
def test_feeds_of_other_lengths_and_of_none(drive, body):
    slices = (HERE, BEFORE, WIDE, WHOLE)
    texts = [body.format(a=a.name, b=b.name) for a, b in ((HERE, WHOLE), (WIDE, HERE))]
    view = drive(list(TABLES.values()), partitioned(1, {"s": 1, "p": 2, "k": 0}, slices, *texts))
    seeded = ZSet.summed(EPOCHS[0]["s"])
    view.store.commit(Epoch(1, {"s": ChangeSet.of(seeded.items(), TABLES["s"].fields)}))
    view.rows["s"].update_by(seeded)
    view.load()
    view.apply(p=EPOCHS[0]["p"], k=EPOCHS[0]["k"])
    for epoch in EPOCHS[1:]:
        view.apply(**epoch)
    assert view.shown


def test_a_slide_is_a_few_jobs_and_large_results_are_files(drive, bulk):
    bulk(0)
    texts = [text.format(a=HERE.name, own=LAST.name) for text in (PLAIN[1], OWN[0])]
    view = drive(list(TABLES.values()), partitioned(1, {"s": 1}, (HERE, LAST), *texts))
    view.load()
    view.apply(**EPOCHS[0])
    view.apply(s=[((4, 1, 1), 1)])
    assert view.runtime.counters.jobs < 20


def test_rows_impossibly_far_apart_are_refused(drive):
    texts = [text.format(a=HERE.name, own=LAST.name) for text in (PLAIN[1], OWN[0])]
    view = drive(list(TABLES.values()), partitioned(1, {"s": 1}, (HERE, LAST), *texts))
    view.apply(**EPOCHS[0])
    with pytest.raises(ArithmeticFault, match="most are empty"):
        view.apply(s=[((10_000_000, 1, 1), 1)])
    view.apply(s=[((4, 1, 1), 1)])
