"""The programs of strategy ``viewlet`` on the native runtime, at every depth, beside the evaluator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.shop import TABLES, epochs_of, program_of, relation_of
from tests.compiler.test_maintenance import VIEWS
from tests.runtimes.native.harness import Harness
from tests.runtimes.native.test_maintenance import advance, reads_of, seeded
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet

OTHER_DEPTHS = ("naive", "1", "0")
CASES = [(view, "full") for view in VIEWS] + [
    (view, OTHER_DEPTHS[number % len(OTHER_DEPTHS)]) for number, view in enumerate(VIEWS)
]
"""Every view at full depth, and at one of the others in turn."""


@pytest.mark.turns("depth")
@pytest.mark.parametrize(("view", "depth"), CASES, ids=[f"{view}/{depth}" for view, depth in CASES])
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_view_is_kept_fresh(view: str, depth: str, data: st.DataObject) -> None:
    relation = relation_of(VIEWS[view])
    harness = Harness(program_of(VIEWS[view], "viewlet", depth=depth), TABLES)
    reads = reads_of(view)
    contents = {name: seeded(TABLES[name], data) if TABLES[name].kept else ZSet() for name in reads}
    harness.seed({name: rows for name, rows in contents.items() if TABLES[name].kept})
    total = harness.load()
    assert total == evaluate(relation, contents)
    for moves in data.draw(epochs_of(reads)) if reads else []:
        total += advance(harness, contents, moves)
        assert total == evaluate(relation, contents)
