"""Many conversations in one warehouse, step by step beside each other: one epoch has the next block of all of them.

Tables and views of each file have its name before theirs (see ``renaming``). What is an epoch of its own anyway happens
between the shared ones: tables, views, statements of SQL, and blocks that must be refused and change nothing. A file
that fails is left where it is, and the others go on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import pytest

from tests.answers import differ, inner
from tests.conversation import Gap
from tests.matrix.expected import Expected, Moment, Pairs, together
from tests.matrix.renaming import prefixed
from tidemill import Warehouse
from tidemill.changes.zset import Row, ZSet
from tidemill.model import errors

MOST_CUTS = 2
"""Number of places, at most, at which a block is cut."""


@dataclass(frozen=True)
class Failure:
    """Which file failed at which line, and how."""

    file: str
    line: int
    error: BaseException

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {type(self.error).__name__}: {self.error}"


class Talk:
    """One conversation under way in a warehouse that others may share."""

    def __init__(
        self, warehouse: Warehouse, expected: Expected, strategy: str, form: str = "whole", seed: int = 0
    ) -> None:
        self.warehouse = warehouse
        self.expected = expected
        self.failure: Failure | None = None
        self._strategy = strategy
        self._form = "whole" if "batch" in expected.conversation.settings else form
        self._random = random.Random(f"{seed} {expected.conversation.path.name}")
        self._prefix = expected.conversation.prefix
        self._steps = prefixed(expected.conversation.path).steps
        self._done = 0
        self._before = 0

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to say."""
        return self.failure is not None or self._done == len(self._steps)

    @property
    def moment(self) -> Moment:
        """The step that comes next."""
        return self.expected.moments[self._done]

    def fail(self, error: BaseException) -> None:
        """Say nothing more."""
        self.failure = Failure(self.expected.conversation.path.name, self.moment.step.number, error)

    def go_on_alone(self) -> None:
        """Say what shares no epoch, up to the next block of changes."""
        while not self.ended and not (self.moment.rows and not self.moment.step.error):
            self.begin()
            self._guarded(self._refused if self.moment.step.error else self._perform)
            self.finish()

    def begin(self) -> None:
        """Note where the warehouse stands before a step."""
        self._before = self.warehouse.epoch

    def epochs(self) -> Iterator[Pairs]:
        """The next block as one epoch, as one for each of its rows, or as some of them."""
        rows = self._own_rows()
        within = range(1, len(rows))
        some = self._random.sample(within, min(len(within), self._random.randint(0, MOST_CUTS)))
        cuts = {"whole": (), "rows": within, "cut": sorted(some)}
        for start, end in pairwise([0, *cuts[self._form], len(rows)]):
            yield together(rows[start:end])

    def _own_rows(self) -> list[tuple[str, int, Row]]:
        return [(self._prefix + table, weight, row) for table, weight, row in self.moment.rows]

    def finish(self) -> None:
        """Compare what the warehouse shows after a step, and turn to the next one."""
        if self.failure is None:
            self._guarded(self._compare)
        if self.failure is None:
            self._done += 1

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self.fail(error)

    def _perform(self) -> None:
        """Do all of a step, its rows in one epoch."""
        step = self._steps[self._done]
        if step.declare:
            self.warehouse.sql(step.declare)
        for definition in step.definitions(self._strategy):
            self.warehouse.sql(definition)
        if step.sql:
            self.warehouse.sql(step.sql)
        if step.clock:
            self.warehouse.advance_clock(step.clock)
        if self.moment.rows:
            self.warehouse.apply(together(self._own_rows()))

    def _refused(self) -> None:
        """The step must be refused with exactly the error that the file names, and leave no epoch behind.

        That rows are as before is seen when they are compared.
        """
        with pytest.raises(getattr(errors, self.moment.step.error)) as raised:
            self._perform()
        assert type(raised.value).__name__ == self.moment.step.error
        assert self.warehouse.epoch == self._before, "a refused epoch left something behind"

    def _compare(self) -> None:
        moment = self.moment
        for name, net in moment.changes.items():
            change = self._rows(name) if moment.step.views else self._changes(name)
            self._require_same(f"{name} did not change as it should", net, change, name)
        for name, rows in (moment.tables | moment.views).items():
            self._require_same(f"{name} is not what the evaluator says", rows, self._rows(name), name)

    def _require_same(self, what: str, wanted: ZSet, found: ZSet, name: str) -> None:
        difference = differ(wanted, found, self.expected.fields(name))
        assert not difference, f"{what}:\n{difference}"

    def _rows(self, name: str) -> ZSet:
        own, is_table = self._prefix + name, name in self.expected.answers.tables
        handle = self.warehouse.table(own) if is_table else self.warehouse.view(own)
        return ZSet.of(inner(handle.rows(), self.expected.fields(name), name))

    def _changes(self, name: str) -> ZSet:
        fields = self.expected.fields(name)
        changes = self.warehouse.view(self._prefix + name).changes(since=self._before)
        return ZSet.summed((row, weight) for weight, (row,) in ((w, inner([r], fields, name)) for w, r in changes))


def hold(talks: Sequence[Talk]) -> None:
    """Hold all conversations to their ends; what fails is noted in each."""
    while under_way := [talk for talk in talks if not talk.ended]:
        for talk in under_way:
            talk.go_on_alone()
        _share([talk for talk in under_way if not talk.ended])


def _share(talks: Sequence[Talk]) -> None:
    """Let the next block of each be in the same epoch, or the next row of each."""
    for talk in talks:
        talk.begin()
    for parts in zip_longest(*(talk.epochs() for talk in talks)):
        _apply([(talk, part) for talk, part in zip(talks, parts, strict=True) if part and talk.failure is None])
    for talk in talks:
        talk.finish()


def _apply(parts: Sequence[tuple[Talk, Pairs]]) -> None:
    """One epoch with the changes of all; where it fails each tries alone, which shows whose fault it is."""
    if not parts:
        return
    warehouse = parts[0][0].warehouse
    try:
        warehouse.apply({table: pairs for _, part in parts for table, pairs in part.items()})
    except Exception as error:
        alone = [_failed_alone(talk, part) for talk, part in parts]
        if not any(alone):
            for talk, _ in parts:
                talk.fail(AssertionError(f"only together with others: {type(error).__name__}: {error}"))


def _failed_alone(talk: Talk, part: Pairs) -> bool:
    try:
        talk.warehouse.apply(part)
    except Exception as error:
        talk.fail(error)
    return talk.failure is not None


def verdict(talk: Talk, gap: Gap | None) -> str | None:
    """What is wrong with how a conversation ended: a failure that is no declared gap, or a gap that has closed."""
    if gap is None:
        return None if talk.failure is None else str(talk.failure)
    if talk.failure is None:
        return f"{talk.expected.conversation.path.name}: a gap is declared, {gap.error}, and there is none"
    return None if type(talk.failure.error).__name__ == gap.error else str(talk.failure)
