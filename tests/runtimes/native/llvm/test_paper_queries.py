"""The queries of the DBToaster paper as machine code, beside the evaluator, while rows come and go."""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks.dbtoaster.queries import QUERIES, declarations
from tests.runtimes.native.harness import Harness
from tests.runtimes.native.llvm.compiled import tables_of
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.model import types as t
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.native import backends

DAYS = [datetime.date(1995, 3, 14), datetime.date(1995, 3, 16), datetime.date(1997, 5, 5)]


@pytest.mark.parametrize("query", [name for name in QUERIES if name != "ssb4"])
def test_a_query_of_the_paper_stays_fresh(query: str) -> None:
    """All but the join of seven relations, which takes the evaluator too long."""
    tables = {name: replace(table, primary_key=()) for name, table in tables_of(declarations(query, "TABLE")).items()}
    relation = translate(QUERIES[query], {name: table.fields for name, table in tables.items()}, name="v").relation
    program = compile_view("v", relation, tables, "viewlet")
    with patch.object(backends, "BACKEND", "llvm"):
        for seed in range(4):
            draw = random.Random(seed)
            harness, contents = Harness(program, tables), {name: ZSet() for name in tables}
            for name, table in tables.items():
                contents[name] += _change(draw, table, contents[name])
            harness.seed(contents)
            total = harness.load()
            for _ in range(8):
                assert total == evaluate(relation, contents)
                changes = {name: _change(draw, table, contents[name]) for name, table in tables.items()}
                harness.run(changes)
                harness.runtime.rollback()
                total += harness.apply(changes)
                for name, change in changes.items():
                    contents[name] += change
        (stage,) = program.stages
        assert harness.runtime.explain(stage) == "compiled with LLVM"


def _change(draw: random.Random, table: Table, contents: ZSet) -> ZSet:
    """A few rows that come, and a few that are there and leave."""
    change = ZSet()
    for _ in range(draw.randrange(5)):
        rows = list((contents + change).expand())
        if rows and draw.random() < 0.45:
            change.add(draw.choice(rows), -1)
        else:
            change.add(tuple(_value(draw, field) for field in table.fields), draw.choice([1, 1, 2]))
    return change


def _value(draw: random.Random, field: Field) -> Any:
    if field.nullable and draw.random() < 0.15:
        return None
    match field.type:
        case t.Decimal():
            return Decimal(draw.choice([0, 1, 5, 50, 1500, 2600, -3, 100])) + Decimal(draw.choice(["0.00", "0.25"]))
        case t.Date():
            return draw.choice(DAYS)
        case t.String():
            return draw.choice(["BUILDING", "X", ""])
    return draw.choice([1, 2, 60, 100] if field.name in ("volume", "availqty") else [0, 1, 2, 3])
