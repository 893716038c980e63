"""The one property, for viewlets of every depth: after each change a program shows what the oracle computes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.viewlets.blocks import TABLES, changes, relation_of, running_views, views
from tests.program.interpret import Interpreter
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.walk import scans
from tidemill.changes.zset import ZSet
from tidemill.compiler.passes import compile_view
from tidemill.compiler.viewlets.depths import DEPTHS


@pytest.mark.parametrize("depth", DEPTHS)
@settings(max_examples=40)
@given(view=views() | running_views(), data=st.data())
def test_a_program_shows_what_the_oracle_computes(depth: str, view: str, data: st.DataObject) -> None:
    relation = relation_of(view)
    program = compile_view("v", relation, TABLES, "viewlet", depth=depth)
    reads = tuple(sorted(scans(relation)))
    contents = data.draw(changes(reads, {name: ZSet() for name in reads}))
    running = Interpreter(program, TABLES, contents)
    running.load()
    assert running.rows == evaluate(relation, contents)
    for _ in range(data.draw(st.integers(1, 3))):
        change = data.draw(changes(reads, contents))
        running.run(change)
        contents = {name: contents[name] + change[name] for name in reads}
        assert running.rows == evaluate(relation, contents)
