"""Random statements: only errors of ours come out, soon, and a refused statement changes nothing."""

from __future__ import annotations

import random
import time

import pytest

import tidemill
from tests.fuzz.campaign import Hang, Tally, campaign, few, kind_of, many, watched
from tests.fuzz.statements import TABLES, golden, mutated, random_statement, tokens_of
from tidemill.model.errors import InternalError

STATEMENTS = 60
"""A warehouse serves so many statements."""


class Trial:
    """A warehouse, and what is checked of it after every statement."""

    def __init__(self, tally: Tally, declare: str) -> None:
        self.tally = tally
        self.wh = tidemill.open(":memory:", runtime="native", backend="python")
        self.wh.sql(declare)

    def run(self, statement: str) -> None:
        before = self._state()
        error = self.tally.call(statement, lambda: self.wh.sql(statement))
        if error is not None and self._state() != before:
            self.tally.failed(statement, AssertionError(f"refused, and something changed: {type(error).__name__}"))

    def _state(self) -> object:
        return self.wh.epoch, set(self.wh.tables()), set(self.wh.views())

    def finish(self, statements: list[str]) -> None:
        """All views still follow, and are what recomputation says; reported with the statements that led here."""
        self.tally.call("\n".join(statements), self._verify)

    def _verify(self) -> None:
        for view in self.wh.views():
            handle = self.wh.view(view)
            if not handle.staleness().epochs:
                assert handle.verify(), f"{view}: {handle.verify()}"


def play(tally: Tally, dice: random.Random) -> None:
    """One warehouse: statements over fixed tables, or over those of a golden conversation."""
    if dice.random() < 0.6:
        trial = Trial(tally, TABLES)
        statements = [random_statement(dice) for _ in range(STATEMENTS)]
    else:
        declare, queries = dice.choice(golden())
        trial = Trial(tally, declare)
        others = [query for _, queries in dice.sample(golden(), 5) for query in queries] + queries
        statements = [mutated(dice.choice(queries), dice, others) for _ in range(STATEMENTS)]
        statements = [
            s if dice.random() < 0.5 else f"CREATE MATERIALIZED VIEW x{i} AS {s}" for i, s in enumerate(statements)
        ]
    for statement in statements:
        trial.run(statement)
    trial.finish(statements)
    trial.wh.close()


def shrunk(declare: str, statement: str) -> str:
    """A shorter statement that fails alike over a fresh warehouse; itself where there is none."""

    def fails(text: str) -> str | None:
        with tidemill.open(":memory:", runtime="native", backend="python") as wh:
            wh.sql(declare)
            try:
                with watched(2):
                    wh.sql(text)
            except InternalError as error:
                return kind_of(error.__cause__ or error)
            except (Exception, Hang):
                pass
        return None

    until = time.monotonic() + 10
    kind, tokens = fails(statement), tokens_of(statement)
    place = 0
    while kind and place < len(tokens) and time.monotonic() < until:
        shorter = tokens[:place] + tokens[place + 1 :]
        if fails("".join(shorter)) == kind:
            tokens = shorter
        else:
            place += 1
    return "".join(tokens)


def tell(tally: Tally) -> None:
    for kind, statement in tally.failures.items():
        print(f"- {kind}\n    {shrunk(TABLES, statement)[:1500]}", flush=True)
    assert not tally.failures


def test_statements() -> None:
    tell(campaign("statements", few(15), play))


@pytest.mark.long
def test_fuzz_statements() -> None:
    tell(campaign("statements", many(), play))
