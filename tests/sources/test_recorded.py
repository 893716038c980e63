"""The recorded source: messages in order, in one state each, and what it tells again."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from benchmarks.eca.recorded_source import RecordedSource
from tests.sources.oracle import answer
from tidemill.algebra.expressions.scalars import Call, Column, Named
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import ZSet
from tidemill.model.errors import EpochGone
from tidemill.model.schema import Table
from tidemill.model.types import BOOLEAN, INT, Field
from tidemill.sources.remote_queries.local_evaluation import IndexedRelations
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm, SpjView
from tidemill.sources.source import Answered, Committed, Source

FIELDS = (Field("k", INT), Field("v", INT))
TABLES = {name: Table(name, FIELDS) for name in ("r", "s")}
R, S, T = Scan("r", "r", FIELDS), Scan("s", "s", FIELDS), Scan("r", "t", FIELDS)


def column(name: str) -> Column:
    return Column(name, INT)


def equal(one: str, other: str) -> Call:
    return Call("eq", (column(one), column(other)), BOOLEAN)


JOIN = SpjView((R, S), (equal("r.v", "s.v"),), (Named("k", column("r.k")), Named("l", column("s.k"))))
THREE = SpjView(
    (R, S, T),
    (equal("r.v", "s.v"), equal("s.k", "t.k"), Call("gt", (column("t.v"), column("r.k")), BOOLEAN)),
    (Named("v", column("t.v")),),
)


def source(**options: bool) -> RecordedSource:
    rows = {"r": ZSet({(1, 1): 1}), "s": ZSet({(1, 1): 1})}
    return RecordedSource("shop", TABLES, rows, **options)  # type: ignore[arg-type]


def test_it_is_a_source() -> None:
    typed: Source = source()
    assert typed.tables == TABLES


def test_answers_are_of_the_state_that_the_messages_before_lead_to() -> None:
    shop = source()
    number = shop.ask(JOIN.query)
    shop.commit({"r": ZSet({(2, 1): 1})})
    shop.answer()
    shop.commit({"r": ZSet({(2, 1): -1})})
    assert shop.receive() == Committed({"r": ZSet({(2, 1): 1})}, "1")
    assert shop.receive() == Answered(number, ZSet({(1, 1): 1, (2, 1): 1}), "1", 8)
    assert shop.receive() == Committed({"r": ZSet({(2, 1): -1})}, "2")
    assert shop.receive() is None


def test_a_prompt_source_answers_by_itself() -> None:
    shop = source(prompt=True)
    number = shop.ask(JOIN.query)
    assert shop.receive() == Answered(number, ZSet({(1, 1): 1}), "0", 4)
    assert (shop.traffic.queries, shop.traffic.answers, shop.traffic.bytes) == (1, 1, 4)


def test_it_tells_again_what_came_after_a_position() -> None:
    shop = source()
    for number in range(3):
        shop.commit({"s": ZSet({(number, 5): 1})})
    shop.ask(JOIN.query)
    assert shop.start("1") == "1"
    assert [shop.receive(), shop.receive(), shop.receive()] == [
        Committed({"s": ZSet({(1, 5): 1})}, "2"),
        Committed({"s": ZSet({(2, 5): 1})}, "3"),
        None,
    ]
    assert shop.unanswered == 0
    assert shop.start(None) == "3"


def test_what_is_forgotten_is_not_told_again() -> None:
    shop = source()
    shop.commit({"s": ZSet({(1, 5): 1})})
    shop.forget("1")
    with pytest.raises(EpochGone, match="no longer knows what came after position 0"):
        shop.start("0")


ROWS = st.dictionaries(
    st.tuples(*[st.sampled_from([0, 1, 2, None])] * 2), st.sampled_from([-2, -1, 1, 2, 3]), max_size=6
).map(ZSet)


@given(of=st.sampled_from([JOIN, THREE]), rows=st.tuples(ROWS, ROWS), change=st.tuples(ROWS, ROWS), bound=st.data())
def test_joins_by_index_are_what_the_oracle_says(
    of: SpjView, rows: tuple[ZSet, ZSet], change: tuple[ZSet, ZSet], bound: st.DataObject
) -> None:
    """Before and after a change that the indexes must follow, with any leaves bound."""
    contents = IndexedRelations({"r": rows[0], "s": rows[1]})
    aliases = bound.draw(st.lists(st.sampled_from([leaf.alias for leaf in of.leaves]), unique=True))
    term = SignedTerm(bound.draw(st.sampled_from([1, -1])), {alias: bound.draw(ROWS) for alias in aliases})
    query = SignedQuery(of, (term, SignedTerm(1)))
    assert contents.answer(query) == answer(query, {"r": rows[0], "s": rows[1]})
    contents.apply({"r": change[0], "s": change[1]})
    assert contents.answer(query) == answer(query, {"r": rows[0] + change[0], "s": rows[1] + change[1]})


@given(of=st.sampled_from([JOIN, THREE]), rows=st.tuples(ROWS, ROWS), change=st.tuples(ROWS, ROWS))
def test_after_all_is_the_difference_that_a_change_makes(
    of: SpjView, rows: tuple[ZSet, ZSet], change: tuple[ZSet, ZSet]
) -> None:
    old = {"r": rows[0], "s": rows[1]}
    new = {"r": rows[0] + change[0], "s": rows[1] + change[1]}
    difference = of.query.after_all({"r": change[0], "s": change[1]})
    assert answer(difference, new) == answer(of.query, new) - answer(of.query, old)
