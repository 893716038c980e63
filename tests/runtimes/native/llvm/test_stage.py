"""Whole stages as machine code: views stay fresh, a fault names its row, and nothing of a failed epoch stays."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from decimal import Decimal
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.compiler.shop import TABLES, changes_of, epochs_of, program_of, relation_of
from tests.compiler.test_maintenance import VIEWS
from tests.runtimes.native.harness import Harness
from tests.runtimes.native.llvm.compiled import stage_of, started
from tests.runtimes.native.test_maintenance import reads_of
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model.errors import ArithmeticFault, DuplicateKey
from tidemill.runtimes.native import backends
from tidemill.runtimes.native.runtime import NativeRuntime

SHAPES = ["filter", "constant", "join", "theta", "cross", "self", "triangle", "null_safe", "group", "group_double"]
PROGRAMS = {view: program_of(VIEWS[view], "delta") for view in SHAPES}


@pytest.fixture(autouse=True)
def _compiled() -> Iterator[None]:
    with patch.object(backends, "BACKEND", "llvm"), decimal.localcontext(EXACT):
        yield


@pytest.mark.parametrize("view", SHAPES)
@settings(max_examples=6, deadline=None, phases=[Phase.generate])
@given(data=st.data())
def test_view_is_kept_fresh(view: str, data: st.DataObject) -> None:
    harness = Harness(PROGRAMS[view], TABLES)
    reads = reads_of(view)
    contents = {name: ZSet() for name in reads}
    total = harness.load()
    for moves in data.draw(epochs_of(reads)) if reads else ():
        changes = changes_of(moves, contents)
        try:
            harness.run(changes)
        except DuplicateKey:
            continue
        harness.runtime.rollback()
        total += harness.apply(changes)
        for name, change in changes.items():
            contents[name] += change
        assert total == evaluate(relation_of(VIEWS[view]), contents)


BIDS = "CREATE STREAM bids (id BIGINT NOT NULL, broker INT, price DECIMAL(10,2), volume BIGINT)"
PAIRS = "SELECT x.broker, SUM(x.volume * y.volume) AS s FROM bids x, bids y WHERE x.broker = y.broker GROUP BY x.broker"


def test_a_weight_of_zero_between_two_terms_loses_nothing() -> None:
    stage, tables = stage_of(BIDS, PAIRS)
    runner = started(stage, tables)
    fields = tables["bids"].fields
    rows = [(1, 7, Decimal("1.00"), 3), (2, 7, Decimal("1.00"), 5)]
    # On its way the last change has one row of each sign: their pairs weigh 0, and their sum is (5 - 3) squared.
    for change in ([(rows[0], 1), (rows[1], 2)], [(rows[1], -1)], [(rows[0], -2), (rows[0], 1)]):
        runner.fire("bids", ChangeSet.of(change, fields))
    assert runner.emit().zset() == ZSet({(7, 25): 1})


@pytest.mark.parametrize("loose", [True, False])
def test_a_fault_names_the_view_and_the_row(loose: bool) -> None:
    stage, tables = stage_of(BIDS, "SELECT broker, SUM(volume / id) AS s FROM bids GROUP BY broker", "delta")
    runner = started(stage, tables)
    change = ChangeSet.of([((1, 7, None, 3), 1), ((0, 7, None, 3), 1)], tables["bids"].fields)
    if not loose:
        change = ChangeSet.of_arrow(change.arrow(), change.fields)
    with pytest.raises(ArithmeticFault, match="division by zero") as raised:
        runner.fire("bids", change)
    assert raised.value.where == 'view "v", bids (0, 7, None, 3)'
    runner.rollback()
    assert not len(runner)
    assert runner.emit().zset() == ZSet()


def test_columns_and_rows_give_the_same() -> None:
    stage, tables = stage_of(BIDS, PAIRS)
    pairs = [((i, i % 3 or None, Decimal(i).scaleb(-2), i if i % 4 else None), 1) for i in range(50)]
    change = ChangeSet.of(pairs, tables["bids"].fields)
    one, other = started(stage, tables), started(stage, tables)
    one.fire("bids", change)
    # Sliced, so that neither values nor validity begin where their buffers do.
    table = ChangeSet.of([*pairs[:3], *pairs], change.fields).arrow().slice(3)
    other.fire("bids", ChangeSet.of_arrow(table, change.fields))
    assert one.emit().zset() == other.emit().zset() != ZSet()


def test_a_stage_moves_to_machine_code_once_there_is_enough_to_do() -> None:
    with patch.object(backends, "BACKEND", "auto"), patch.object(backends, "COMPILE_AFTER_ROWS", 3):
        harness = Harness(program_of(VIEWS["group"], "delta"), TABLES)
        (stage,) = harness.program.stages
        reads = reads_of("group")
        contents = {name: ZSet() for name in reads}
        total = harness.load()
        seen = []
        for number in range(4):
            change = ZSet({_row(name, number): 1 for name in reads})
            total += harness.apply(dict.fromkeys(reads, change))
            for name in reads:
                contents[name] += change
            seen.append(harness.runtime.explain(stage).startswith("compiled"))
            assert total == evaluate(relation_of(VIEWS["group"]), contents)
        assert seen[0] is False
        assert seen[-1] is True


def _row(name: str, number: int) -> tuple[object, ...]:
    values = {"INT": number, "BIGINT": number, "STRING": "a", "DOUBLE": 0.5}
    return tuple(values.get(str(f.type), Decimal("2.00")) for f in TABLES[name].fields)


def test_what_has_no_native_form_says_so() -> None:
    stage, tables = stage_of(
        "CREATE TABLE t (a ARRAY<INT>)",
        "SELECT x AS s, COUNT(*) AS n FROM t LATERAL VIEW explode(a) AS x GROUP BY x",
        "delta",
    )
    from tidemill.storage.memory_store import MemoryStore

    runtime = NativeRuntime(MemoryStore(), lambda name: tables[name].fields)
    runtime.install(stage)
    runtime.begin(1)
    runtime.fire(stage, "t", ChangeSet.of([(((1, 2, 3),), 1)], tables["t"].fields))
    assert runtime.emit(stage).zset() == ZSet({(1, 1): 1, (2, 1): 1, (3, 1): 1})
    why = "there is no native form of the elements of an array"
    assert runtime.explain(stage) == f"generated Python: {why}"
