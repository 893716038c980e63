"""Time partitions as machine code: after every epoch, also reopened, the rows are those of the evaluator."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.partitions import ABOVE, GROUPED, OWN, PLAIN, TABLES, Epochs, above, definitions, epochs, partitioned
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.time_partitions import MOST_PARTITIONS, PartitionSlice, Subscript
from tidemill.changes.zset import ZSet
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import ArithmeticFault
from tidemill.program.stages import Stage, TimePartitionEmission
from tidemill.runtimes.native.llvm.codegen import jit
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.stage import emit_rows, llvm_stage
from tidemill.runtimes.native.llvm.stage.emit_stage import emit_stage
from tidemill.runtimes.native.llvm.stage.time_partitions import TimePartitions
from tidemill.runtimes.native.operators import touched_groups

NOW = PartitionSlice("s", Subscript(), Subscript())
LAST = PartitionSlice("s", Subscript(-2), Subscript())
AGO = PartitionSlice("s", Subscript(-3), Subscript(-3))
BEFORE = PartitionSlice("v", Subscript(-1), Subscript(-1))

MOVING = (
    "SELECT g, SUM(x) AS x FROM (SELECT g, x FROM `v[i-1]` UNION ALL SELECT g, x FROM `s[i]` "
    "UNION ALL SELECT g, -x FROM `s[i-3]`) GROUP BY g"
)


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), epochs(), st.sampled_from(ABOVE), st.integers(0, 1))
@pytest.mark.parametrize(("few", "bodies"), [(0, GROUPED), (touched_groups.TOUCHED_FRACTION, PLAIN + OWN)])
def test_rows_are_those_of_the_evaluator(
    few: int, bodies: tuple[str, ...], data: st.DataObject, changes: Epochs, text: str, reopened: int
) -> None:
    relation = above(data.draw(definitions(bodies)).node, text)
    program = compile_view("v", relation, TABLES, "partition")
    with (
        patch.object(jit, "LEVEL", 0),
        patch.object(touched_groups, "TOUCHED_FRACTION", few),
        patch.object(llvm_stage, "MACHINE_CODE_KEYS", 1),
    ):
        harness = Harness(program, TABLES, backend="llvm")
        rows, tables = harness.load(), {name: ZSet() for name in TABLES}
        for number, epoch in enumerate(changes):
            tables |= {name: tables[name] + change for name, change in epoch.items()}
            rows = rows + harness.apply(epoch)
            assert rows == evaluate(relation, tables)
            if number % 2 == reopened:
                harness = Harness(program, TABLES, harness.store, backend="llvm")


def running_sum() -> Harness:
    """The sums of three partitions, each from the one before: what comes is added and what leaves is taken back."""
    first = "SELECT g, SUM(x) AS x FROM `s[i]` GROUP BY g"
    program = compile_view("v", partitioned(1, {"s": 1}, (NOW, AGO, BEFORE), first, MOVING), TABLES)
    harness = Harness(program, TABLES, backend="llvm")
    harness.load()
    harness.apply({"s": ZSet.of([(n, 1, 1) for n in range(10)])})
    return harness


def test_a_late_row_touches_what_reads_it_and_nothing_else() -> None:
    harness, made = running_sum(), []
    harness.apply({"s": ZSet.of([(n, g, g) for n in range(10) for g in range(2, 100)])})
    make = TimePartitions.make

    def noted(self: TimePartitions, number: int, *arguments: object, groups: bool) -> bool:
        made.append((number, groups))
        return make(self, number, *arguments, groups=groups)  # type: ignore[arg-type]

    with patch.object(TimePartitions, "make", noted):
        change = harness.apply({"s": ZSet.of([(5, 7, 10)])})
    assert made == [(5, True), (6, True), (7, True), (8, True)]
    assert change == ZSet({(n, 7, x): w for n in (5, 6, 7) for x, w in ((21, -1), (31, 1))})


def test_an_epoch_that_fails_leaves_nothing_behind() -> None:
    harness = running_sum()
    with pytest.raises(ArithmeticFault, match="a sum does not fit BIGINT"):
        harness.apply({"s": ZSet.of([(10, 1, 2**63 - 1), (10, 1, 2**63 - 2), (10, 2, 5)])})
    with pytest.raises(ArithmeticFault, match="most are empty"):
        harness.apply({"s": ZSet.of([(10 + MOST_PARTITIONS, 1, 1)])})
    assert harness.apply({"s": ZSet.of([(10, 1, 4)])}) == ZSet({(10, 1, 6): 1})


def test_first_and_last_partition_move() -> None:
    harness = running_sum()
    assert harness.apply({"s": ZSet({(0, 1, 1): -1, (9, 1, 1): -1})}) == ZSet(
        {(0, 1, 1): -1, (1, 1, 2): -1, (1, 1, 1): 1, (2, 1, 3): -1, (2, 1, 2): 1, (9, 1, 3): -1}
    )


@pytest.mark.parametrize("text", [*PLAIN, *OWN])
def test_every_query_of_loops_and_groups_is_compiled(text: str) -> None:
    names = {"a": "s[i]", "b": "s[i-2..i]", "own": "v[i-1]"}
    slices = (NOW, LAST, BEFORE) if "{own}" in text else (NOW, LAST)
    first = PLAIN[0].format(**names) if "{own}" in text else text.format(**names)
    node = partitioned(1, {"s": 1}, slices, first, text.format(**names))
    assert emit_stage(_made(node), lambda name: TABLES[name].fields).partitions is not None


RANKED = "SELECT g, x FROM (SELECT g, x, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x) AS r FROM `s[i]`) t WHERE r <= 2"


def test_rows_that_are_ranked_stay_in_python() -> None:
    with pytest.raises(NotCompiled, match="partitions of rows that are ranked or numbered"):
        emit_stage(_made(partitioned(1, {"s": 1}, (NOW,), RANKED, RANKED)), lambda name: TABLES[name].fields)


def _made(node: object) -> Stage:
    program = compile_view("v", node, TABLES, "partition")  # type: ignore[arg-type]
    return next(stage for stage in program.stages if isinstance(stage.finish, TimePartitionEmission))


def test_rows_come_out_as_columns() -> None:
    """Without a row of Python, from as many keys as that is faster for."""
    harness = running_sum()
    stage = harness.program.stages[-1]
    runner = harness.runtime._backends.runner(stage.name)
    assert runner is not None and runner.code.row_output is not None
    with patch.object(runner, "_finish", None.__class__):
        change = harness.apply({"s": ZSet.of([(10, g, g) for g in range(emit_rows.MACHINE_CODE_KEYS)])})
    assert len(change) == emit_rows.MACHINE_CODE_KEYS
