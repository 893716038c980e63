"""Random epochs: every runtime accepts exactly what a plain model of the constraints accepts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests import ways
from tests.constraints.model import TABLES, VIEW, Epochs, State, after
from tidemill.model.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(way: str, seed: int, epochs: int, spark: SparkSession | None = None) -> tuple[int, int]:
    """How many of so many random epochs were accepted and refused."""
    state: State = {name: Counter() for name in "abcd"}
    chosen, accepted = Epochs(seed), 0
    with ways.opened(way, spark) as wh:
        wh.sql(TABLES)
        wh.sql(VIEW)
        for _ in range(epochs):
            changes = chosen.next(state)
            expected = after(state, changes)
            if way == "driver":
                wh._engine.placement.forget()  # what it holds in memory, so that Spark must look rows up
            if expected is None:
                with pytest.raises(DataError):
                    wh.apply(changes)
            else:
                wh.apply(changes)
                state, accepted = expected, accepted + 1
        for name, rows in state.items():
            assert Counter(wh.table(name).rows()) == rows
        assert wh.view("totals").verify().ok
    return accepted, epochs - accepted


@pytest.mark.turns("way")
@pytest.mark.parametrize("way", ways.NATIVE)
@pytest.mark.parametrize(
    ("seeds", "epochs"), [(range(3), 120), pytest.param(range(100, 140), 300, marks=pytest.mark.long)]
)
def test_the_engine_accepts_what_the_model_accepts(way: str, seeds: range, epochs: int) -> None:
    for seed in seeds:
        accepted, refused = run(way, seed, epochs)
        assert min(accepted, refused) > epochs / 6


@pytest.mark.turns("way", 2)
@pytest.mark.spark
@pytest.mark.parametrize("way", ways.SPARK)
def test_the_engine_accepts_what_the_model_accepts_on_spark(way: str, spark: SparkSession) -> None:
    # Nine epochs with rows that refer, of which four are refused.
    assert run(way, 53, 9, spark) == (5, 4)
