"""The look at whole columns agrees with the look at single rows: what it lets pass, that would pass too."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemill.changes.arrow import to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.errors import DuplicateKey, MissingRow
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.spark.lookup.bulk_key_check import rows_to_check
from tidemill.runtimes.spark.lookup.key_check import check_in_driver

TABLE = Table("t", (Field("id", t.BIGINT), Field("name", t.STRING), Field("x", t.DOUBLE)), primary_key=("id",))
ROWS = st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None]), st.sampled_from([0.0, 1.5, float("nan"), None]))
PAIRS = st.lists(st.tuples(ROWS, st.sampled_from([-1, -1, 1, 1, 2])), max_size=12)
HELD = st.dictionaries(st.integers(0, 5), ROWS, max_size=6).map(
    lambda rows: [((key, *row[1:]), 1) for key, row in rows.items()]
)


def verdict(change: list[tuple[Row, int]], held: ZSet) -> str:
    try:
        check_in_driver(TABLE, ChangeSet.of(change, TABLE.fields), held)
    except (DuplicateKey, MissingRow) as refused:
        return type(refused).__name__
    return "fine"


@given(change=PAIRS, held=HELD, undone=st.booleans())
def test_what_is_not_doubted_is_fine(change: list[tuple[Row, int]], held: list[tuple[Row, int]], undone: bool) -> None:
    # A log may hold a row that came, went and came again.
    log = [*held, *((row, -weight) for row, weight in held), *held] if undone else held
    ours, theirs = rows_to_check(TABLE, to_arrow(change, TABLE.fields), to_arrow(log, TABLE.fields))
    sure = [pair for pair, doubted in zip(change, ours, strict=True) if not doubted]
    unsure = [pair for pair, doubted in zip(change, ours, strict=True) if doubted]
    near = ZSet.summed(pair for pair, doubted in zip(log, theirs, strict=True) if doubted)
    assert verdict(sure, ZSet.summed(log)) == "fine"
    assert len(ZSet.summed(sure)) == len(sure)
    assert (verdict(unsure, near) == "fine") == (verdict(change, ZSet.summed(log)) == "fine")


def test_an_ordinary_change_is_not_doubted() -> None:
    held = [((1, "a", 0.0), 1), ((2, "b", None), 1)]
    change = [((1, "a", 0.0), -1), ((2, "b", None), -1), ((2, "c", None), 1), ((3, "d", 1.0), 1)]
    ours, theirs = rows_to_check(TABLE, to_arrow(change, TABLE.fields), to_arrow(held, TABLE.fields))
    assert not ours.any()
    assert not theirs.any()
