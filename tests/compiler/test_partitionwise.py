"""Time-partitioned relations with independent partitions mean the same as ordinary relations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.partitions import PLAIN, TABLES, Epochs, epochs, partitioned
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.time_partitions import PartitionSlice, Subscript, TimePartitioned
from tidemill.algebra.relational.walk import walk_all
from tidemill.changes.zset import ZSet
from tidemill.compiler.passes import compile_view
from tidemill.compiler.rewrites.partitionwise import partitionwise
from tidemill.model.errors import Unsupported

HERE = {name: PartitionSlice(name, Subscript(), Subscript()) for name in "sp"}

LIFTED = (
    *(body for body in PLAIN if not any(word in body for word in ("COUNT(*) AS g", "EXISTS", "2L"))),
    "SELECT a.g, b.x FROM `{a}` a FULL JOIN `{b}` b ON a.g = b.g AND 4 / (a.x + 9) > 0",
    "SELECT a.g, b.x FROM `{a}` a RIGHT JOIN `{b}` b ON a.x = b.x",
    "SELECT a.g, b.x FROM `{a}` a CROSS JOIN (VALUES (1L), (2L)) b (x)",
    "SELECT g, SUM(x) OVER (PARTITION BY g ORDER BY x) AS x FROM `{a}`",
    "SELECT g, x FROM `{a}` INTERSECT SELECT g, x FROM `{b}`",
)
LEFT_ALONE = (
    "SELECT COUNT(*) AS g, MIN(x) AS x FROM `{a}`",
    "SELECT g, x FROM `{a}` UNION ALL SELECT 2L, 3L",
    "SELECT a.g, b.x FROM `{a}` a CROSS JOIN (SELECT MAX(x) AS x FROM `{b}`) b",
    "SELECT g, x FROM (VALUES (1L, 2L)) AS one (g, x)",
)


def over(body: str, every: int = 1, **slices: PartitionSlice) -> TimePartitioned:
    """The relation of one body for all partitions, over ``s`` and ``p``."""
    read = {**HERE, **slices}
    text = body.format(a=read["s"].name, b=read["p"].name)
    return partitioned(every, {"s": 1, "p": 1}, tuple(read.values()), text, text)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(LIFTED), epochs(1))
def test_the_meaning_stays(body: str, changes: Epochs) -> None:
    tables = {name: ZSet() for name in TABLES} | changes[0]
    node = over(body)
    ordinary = partitionwise(node)
    assert not any(isinstance(below, TimePartitioned) for below in walk_all(ordinary))
    assert [(f.name, f.type) for f in ordinary.fields] == [(f.name, f.type) for f in node.fields]
    assert evaluate(ordinary, tables) == evaluate(node, tables)


@pytest.mark.parametrize("body", LEFT_ALONE)
def test_what_says_something_of_empty_partitions_is_left_alone(body: str) -> None:
    assert partitionwise(over(body)) == over(body)


def test_what_reads_other_partitions_is_left_alone() -> None:
    for node in (over(PLAIN[0], every=2), over(PLAIN[0], s=PartitionSlice("s", Subscript(-1), Subscript()))):
        assert partitionwise(node) == node


def test_strategy_partition_is_obeyed_and_others_give_way_with_a_note() -> None:
    assert [stage.strategy for stage in compile_view("v", over(PLAIN[1]), TABLES).stages] == ["delta"]
    assert [stage.strategy for stage in compile_view("v", over(PLAIN[1]), TABLES, "partition").stages] == ["partition"]
    (stage,) = compile_view("v", over(LEFT_ALONE[0]), TABLES, "viewlet").stages
    assert stage.strategy == "partition" and "viewlet" in stage.note


def test_strategy_partition_needs_partitions() -> None:
    with pytest.raises(Unsupported, match='cannot use strategy "partition"'):
        compile_view("v", over(PLAIN[0]).feeds[0].rows, TABLES, "partition")
