"""Sliding windows mean the same by every method, and the method is chosen by what it reads."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_type
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named
from tidemill.algebra.relational.relations import Aggregate, Filter, Project, Scan
from tidemill.algebra.relational.time_partitions import PartitionedInput, PartitionSlice, Subscript, TimePartitioned
from tidemill.changes.zset import ZSet
from tidemill.compiler.rewrites.sliding_windows.methods import METHODS
from tidemill.compiler.rewrites.sliding_windows.rewrite import rewrite_sliding_windows
from tidemill.model import types as t
from tidemill.model.errors import Unsupported
from tidemill.model.types import BIGINT, INT, STRING, Field

LOSSES = (
    Field("number", BIGINT),
    Field("src", STRING),
    Field("loss", INT),
    Field("cost", t.Decimal(6, 2)),
    Field("share", t.DOUBLE),
)

VALUE = {field.name: Column(f"s.{field.name}", field.type, field.nullable) for field in LOSSES}

SUMMED = (("count", None), ("count", "loss"), ("sum", "loss"), ("avg", "loss"), ("sum", "cost"), ("avg", "cost"))

EXTREME = (("min", "loss"), ("max", "cost"), ("max", "src"))


def window(
    length: int, calls: tuple[tuple[str, str | None], ...], *, keys: bool = True, slide: int = 1
) -> TimePartitioned:
    """The groups of the last ``length`` slides, each of ``slide`` partitions of the feed."""
    slice_ = PartitionSlice(
        "s", Subscript(times=slide, plus=slide * (1 - length)), Subscript(times=slide, plus=slide - 1)
    )
    rows = Filter(Scan(slice_.name, "s", LOSSES[1:]), call("ge", VALUE["loss"], Literal(-5, INT)))
    found = tuple(_aggregate(f"a{i}", *one) for i, one in enumerate(calls))
    groups = Aggregate(rows, (Named("src", VALUE["src"]),) if keys else (), found)
    shown = tuple(Named(f.name, Column(f.name, f.type, f.nullable)) for f in groups.fields)
    body = Project(groups, shown)
    return TimePartitioned("w", 10 * slide, (PartitionedInput("s", Scan("s", "", LOSSES), 10),), (slice_,), body, body)


def _aggregate(name: str, function: str, argument: str | None) -> AggregateCall:
    seen = None if argument is None else VALUE[argument]
    return AggregateCall(name, function, seen, aggregate_type(function, None if seen is None else seen.type))


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-3, 12)),
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(-8, 8)),
        st.one_of(st.none(), st.sampled_from([Decimal("1.25"), Decimal("-0.50")])),
        st.just(0.5),
    ),
    max_size=14,
)


def _same(node: TimePartitioned, method: str, rows: list[tuple[object, ...]]) -> None:
    tables = {"s": ZSet.of(rows)}
    rewritten, choices = rewrite_sliding_windows("w", node, method)
    assert choices["w"].method == method
    assert rewritten.fields == node.fields
    assert evaluate(rewritten, tables) == evaluate(node, tables)


@settings(max_examples=25)
@given(rows=ROWS, length=st.integers(2, 7), keys=st.booleans(), slide=st.integers(1, 3))
@pytest.mark.parametrize("method", METHODS)
def test_sums_are_the_same_by_every_method(method: str, rows: list, length: int, keys: bool, slide: int) -> None:
    _same(window(length, SUMMED, keys=keys, slide=slide), method, rows)


@settings(max_examples=25)
@given(rows=ROWS, length=st.integers(2, 7), keys=st.booleans(), slide=st.integers(1, 3))
@pytest.mark.parametrize("method", ["panes", "intervals", "rolling"])
def test_extremes_are_the_same_where_nothing_is_taken_away(
    method: str, rows: list, length: int, keys: bool, slide: int
) -> None:
    _same(window(length, (*SUMMED, *EXTREME), keys=keys, slide=slide), method, rows)


@pytest.mark.parametrize(
    ("length", "calls", "method"),
    [
        (60, (("sum", "loss"),), "subtract"),
        (2000, (("max", "loss"),), "intervals"),
        (60, (("max", "loss"),), "panes"),
        (3, (("max", "loss"),), "direct"),
        (60, (("sum", "share"),), "rolling"),
        (60, (("mode", "loss"),), "rolling"),
    ],
)
def test_the_method_follows_from_what_it_reads(length: int, calls: tuple, method: str) -> None:
    _, choices = rewrite_sliding_windows("w", window(length, calls))
    assert choices["w"].method == method
    assert choices["w"].reason


@pytest.mark.parametrize(("calls", "method"), [((("max", "loss"),), "subtract"), ((("sum", "share"),), "panes")])
def test_a_method_that_would_be_wrong_is_refused(calls: tuple, method: str) -> None:
    with pytest.raises(Unsupported, match=f'cannot use method "{method}"'):
        rewrite_sliding_windows("w", window(5, calls), method)


def test_an_unknown_method_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(Unsupported, match="no method") as refused:
        rewrite_sliding_windows("w", window(5, SUMMED), "magic")
    assert "subtract" in str(refused.value)


def test_a_window_of_one_slide_stays_as_it_is() -> None:
    single = window(1, SUMMED)
    assert rewrite_sliding_windows("w", single) == (single, {})
