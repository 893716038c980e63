"""The search for matches in a partition: row by row, resumable at any state.

A search is never changed in place, so it can be kept at any row and resumed there: only later rows have to be read
again. Runs from one row are followed in parallel, the better one first. Once a run has completed the pattern, worse
ones are dropped.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from tidemill.algebra.matching.automaton import END, LAST
from tidemill.algebra.matching.deterministic import is_deterministic, reads_one_row
from tidemill.algebra.matching.partial_matches import Holds, MatchBuilder, PartialMatch, PartitionRows
from tidemill.algebra.relational.match import AfterMatch, Contiguity, Match, RowsPerMatch
from tidemill.changes.zset import Row
from tidemill.model.errors import ArithmeticFault

MOST_PARTIAL_MATCHES = 10_000
"""Maximum number of simultaneous runs in a partition."""

Thread = tuple[PartialMatch, tuple[int, ...]]
"""A run and the states that it may continue with, the best one first."""

MatchedRows = list[tuple[int, Row]]
"""The output: the number of a row of the partition, and the values of the measures."""

FEWEST_ROWS = 16
"""Rows that are read backwards at first to find one that ends all runs."""

BEFORE_ALL = -(1 << 62)
"""Stands for a row before all others."""

FailedStates = set[tuple[object, ...]]
"""Continuation keys of failed runs: other runs with these keys need not be followed."""


@dataclass(frozen=True, slots=True)
class MatchSearch:
    """Runs from row ``start`` that have read all rows before ``at``; ``best`` is the best complete one.

    ``number`` matches have been found before; where rows of no match are output, ``covered`` is the last row of one. If
    runs begin at every row, ``threads`` are all of them.
    """

    start: int
    at: int
    number: int
    threads: tuple[Thread, ...]
    best: PartialMatch | None = None
    covered: int = BEFORE_ALL
    is_first: bool = False
    """True if ``start`` is the first row of the partition."""

    @property
    def is_fresh(self) -> bool:
        """True if no run has taken a row yet: the further output depends only on the rows from here on.

        Where there is an anchor, it depends on whether a row comes before them, too.
        """
        return (
            self.at == self.start and self.covered < self.start and all(run.before is None for run, _ in self.threads)
        )


@dataclass(frozen=True, slots=True)
class SearchCheckpoint:
    """A search after the first ``read`` rows of the partition had been read, and no others."""

    read: int
    search: MatchSearch


class Matcher:
    """Computes the output of a ``Match`` for a partition. A checkpoint is taken after every ``every`` rows.

    So after a late row at most these are read again, and what follows it.
    """

    every = 16

    def __init__(self, match: Match, holds: Mapping[str, Holds]) -> None:
        self._match = match
        self._runner = MatchBuilder(match, holds)
        machine = self._runner.machine
        self._each = match.output is RowsPerMatch.EACH
        self._entry, self._first_entry = self._live(machine.entry), self._live(machine.first_entry)
        self._follow = [self._live(follow) for follow in machine.follow]
        self._complete = [END in follow for follow in machine.follow]
        self._empty, self._first_empty = (
            END in entry and not self._each for entry in (machine.entry, machine.first_entry)
        )
        self._excluded = machine.excluded
        # Then some rows end all runs, so that what follows does not depend on what came before.
        all_taken = match.skips is Contiguity.NONE and not match.reach[1] and not match.counts
        some_end = all_taken and all(name in holds for name in machine.variables)
        self._resets = some_end and (reads_one_row(match) or is_deterministic(match))

    def _live(self, follow: tuple[int, ...]) -> tuple[int, ...]:
        """The states that a run may continue with. Those worse than the end are dropped, once it is reached."""
        if self._each or END not in follow:
            return tuple(state for state in follow if state != END)
        return follow[: follow.index(END)]

    # ------------------------------------------------------------------------------------------------------- the search

    def all(self, rows: PartitionRows) -> MatchedRows:
        """The output for all rows of a partition."""
        found: MatchedRows = []
        self.finish(self.advance(self.begin(), rows, found), rows, found)
        return found

    def begin(self, row: int = 0) -> SearchCheckpoint:
        """The search at the first row of a partition, before it has been read."""
        return SearchCheckpoint(row, self._attempt(row, 0, BEFORE_ALL, is_first=True))

    def last_reset(self, row: int, rows: PartitionRows) -> SearchCheckpoint | None:
        """The search before ``row`` after the last row that ends all runs, whatever came before it, if that is known.

        Rows are read backwards, four times as many each time.
        """
        length = FEWEST_ROWS
        while self._resets and row - length > rows.begin:
            reset = self._last_reset(row - length, row, rows)
            if reset is not None:
                return SearchCheckpoint(reset + 1, self._attempt(reset + 1, 0, BEFORE_ALL))
            length *= 4
        return None

    def _last_reset(self, first: int, end: int, rows: PartitionRows) -> int | None:
        """The last row before ``end`` after which no run goes on, where there might be any after row ``first``.

        How a run goes on depends on its state, the next row and the row before it.
        """
        found, states = None, set(range(len(self._follow)))
        for row in range(first + 1, end):
            root, before = self._runner.begin(row, 1), self._runner.begin(row - 1, 1)
            runs = [(root, self._entry)]
            runs += ((self._runner.taken(before, state, row - 1, rows), self._follow[state]) for state in states)
            states = {
                state
                for run, live in runs
                for state in live
                if state != LAST and self._runner.take(run, state, row, rows) is not None
            }
            found = found if states else row
        return found

    def moved(self, mark: SearchCheckpoint, distance: int) -> SearchCheckpoint:
        """A fresh search, after all rows were renumbered."""
        search = mark.search
        assert search.is_fresh, "runs know the numbers of their rows"
        fresh = self._attempt(search.start + distance, search.number, BEFORE_ALL, is_first=search.is_first)
        return SearchCheckpoint(
            mark.read + distance, fresh if search.threads or search.best else replace(fresh, threads=())
        )

    def _attempt(self, start: int, number: int, covered: int, *, is_first: bool = False) -> MatchSearch:
        root = self._runner.begin(start, number + 1)
        entry, empty = (self._first_entry, self._first_empty) if is_first else (self._entry, self._empty)
        threads = ((root, entry),) if entry else ()
        return MatchSearch(start, start, number, threads, root if empty else None, covered, is_first)

    def advance(
        self,
        mark: SearchCheckpoint,
        rows: PartitionRows,
        found: MatchedRows,
        marks: list[SearchCheckpoint] | None = None,
        until: Container[int] = (),
    ) -> SearchCheckpoint:
        """The search once it has read all ``rows``; output that is certain by then is added to ``found``.

        Checkpoints are added to ``marks`` on the way. It ends early if it starts afresh at a row of ``until``.
        """
        marking = _Checkpointing(mark.read, self.every, marks, until)
        search = self._advance(mark.search, rows, found, set(), marking)
        met = search.start in until and search.is_fresh
        return SearchCheckpoint(max(marking.read, search.at) if met else rows.end, search)

    @property
    def waits(self) -> bool:
        """True if the output may depend on the end of the rows."""
        return not self._each

    def finish(self, mark: SearchCheckpoint, rows: PartitionRows, found: MatchedRows) -> None:
        """Add the matches that are complete because no row follows."""
        search = mark.search
        hopeless: FailedStates = set()
        while self.waits and search.start < rows.end:
            marking = _Checkpointing(rows.end, self.every, None)
            search = self._advance(self._settled(_ended(search), found), rows, found, hopeless, marking)

    def _advance(
        self,
        search: MatchSearch,
        rows: PartitionRows,
        found: MatchedRows,
        hopeless: FailedStates,
        marking: _Checkpointing,
    ) -> MatchSearch:
        trail: FailedStates = set()
        while search.threads or search.start < rows.end:
            if marking.ends(search):
                break
            ends = not search.threads and not self._match.overlaps
            if (ends and search.best is None) or (search.at >= rows.end and _ended(search).best is None):
                hopeless |= trail
            if ends:
                search, trail = self._settled(search, found), set()
            elif search.at >= rows.end:
                break
            elif self._match.overlaps:
                search = self._step_everywhere(search, rows, found)
            else:
                search = self._step(search, rows, found)
                if search.best is None:
                    stand = (search.at, *[self._runner.continuation_key(run) for run, _ in search.threads])
                    trail.add(stand)
                    search = replace(search, threads=()) if stand in hopeless else search
        return search

    def _settled(self, search: MatchSearch, found: MatchedRows) -> MatchSearch:
        """The search after all runs from a row have ended, from the row at which it continues."""
        best, covered = search.best, search.covered
        if best is None:
            if self._match.unmatched and search.start > covered:
                found.append((search.start, self._runner.unmatched()))
            return self._attempt(search.start + 1, search.number, covered)
        if self._each:
            return self._attempt(best.row + 1, search.number + 1, covered)
        found += ((run.last, self._runner.measured(run, best)) for run in self._output(best))
        covered = max(covered, best.last) if self._match.unmatched else covered
        return self._attempt(self._next_start(best), search.number + 1, covered)

    def _output(self, best: PartialMatch) -> list[PartialMatch]:
        """The runs that a match outputs: the whole of it, or it as of each of its rows."""
        if self._match.output is RowsPerMatch.ONE:
            return [best]
        if best.before is None:
            return [] if self._match.omits_empty else [best]
        return [run for run in best.backwards() if run.state not in self._excluded]

    def _next_start(self, best: PartialMatch) -> int:
        skip = self._match.skip
        if best.before is None or skip.after is AfterMatch.NEXT:
            return best.first + 1
        if skip.after is AfterMatch.PAST_LAST:
            return best.row + 1
        variables = self._runner.machine.variables
        rows = [run.row for run in best.backwards() if variables[run.state] in skip.variables]
        if not rows or (rows[-1] if skip.after is AfterMatch.FIRST else rows[0]) <= best.first:
            raise _endless(skip.variables[0], found=bool(rows))
        return rows[-1] if skip.after is AfterMatch.FIRST else rows[0]

    # ---------------------------------------------------------------------------------------------------------- one row

    def _step(self, search: MatchSearch, rows: PartitionRows, found: MatchedRows) -> MatchSearch:
        """All runs from one row, after the next row."""
        threads: list[Thread] = []
        row, best = search.at, search.best
        complete: PartialMatch | None = None
        for run, live in search.threads:
            if self._runner.ends(run, row, rows):
                continue
            taken = False
            for state in live:
                went = None if state == LAST else self._runner.take(run, state, row, rows)
                if went is None:
                    continue
                taken = True
                threads.append((went, self._follow[state]))
                if self._complete[state]:
                    complete = complete or went
                    if not self._each:
                        break
            if complete is not None and not self._each:
                break
            if not taken and run.before is not None and self._match.skips is Contiguity.NEXT:
                threads.append((run, live))
        if complete is not None:
            best = complete
            if self._each:
                found.append((row, self._runner.measured(complete, complete)))
        threads_left = self._distinct(threads)
        return MatchSearch(search.start, row + 1, search.number, threads_left, best, search.covered, search.is_first)

    def _step_everywhere(self, search: MatchSearch, rows: PartitionRows, found: MatchedRows) -> MatchSearch:
        """All runs from all rows, after the next row; one more begins at it."""
        threads: list[Thread] = []
        complete: list[PartialMatch] = []
        row = search.at
        for run, live in (*search.threads, (self._runner.begin(row, 1), self._entry)):
            if self._runner.ends(run, row, rows):
                continue
            taken = False
            for state in live:
                went = self._runner.take(run, state, row, rows)
                if went is not None:
                    taken = True
                    threads.append((went, self._follow[state]))
                    if self._complete[state]:
                        complete.append(went)
            if run.before is not None and self._passes(taken):
                threads.append((run, live))
        once = {self._choice(run): run for run in reversed(complete)}
        found += ((row, self._runner.measured(run, run)) for run in once.values())
        return MatchSearch(row + 1, row + 1, search.number, self._distinct(threads))

    def _passes(self, taken: bool) -> bool:
        """True if a run may also pass over the row, given whether it has taken it."""
        return self._match.skips is Contiguity.ANY or (self._match.skips is Contiguity.NEXT and not taken)

    def _choice(self, run: PartialMatch) -> object:
        """Key of a complete run: of several with equal keys only the best one is output."""
        if self._match.skips is not Contiguity.ANY:
            return run.first
        return tuple(part.row for part in run.backwards())

    def _distinct(self, threads: list[Thread]) -> tuple[Thread, ...]:
        """The runs that can continue, without those whose continuations a better one has, too."""
        going = [thread for thread in threads if thread[1]]
        if len(going) > 1 and self._match.skips is not Contiguity.ANY:
            best: dict[tuple[object, ...], Thread] = {}
            for thread in going:
                best.setdefault((thread[0].first, *self._runner.continuation_key(thread[0])), thread)
            going = list(best.values())
        if len(going) > MOST_PARTIAL_MATCHES:
            raise _too_many()
        return tuple(going)


def _ended(search: MatchSearch) -> MatchSearch:
    """The search where no row follows: of the runs that are complete then, the better one."""
    best = next((run for run, live in search.threads if LAST in live), None)
    return search if best is None else replace(search, best=best)


class _Checkpointing:
    """Takes a checkpoint whenever a search has advanced by so many rows, preferably where it is fresh.

    Rows that it goes back to have been ``read`` before. It ends where it is fresh at a row of ``until``.
    """

    def __init__(self, read: int, every: int, marks: list[SearchCheckpoint] | None, until: Container[int] = ()) -> None:
        self.read = read
        self._every = every
        self._marks = marks
        self._until = until
        self._next = read + every

    def ends(self, search: MatchSearch) -> bool:
        self.read = max(self.read, search.at)
        is_fresh = search.is_fresh
        if self._marks is not None and self.read >= (self._next if is_fresh else self._next + self._every):
            self._marks.append(SearchCheckpoint(self.read, search))
            self._next = self.read + self._every
        return is_fresh and search.start in self._until


def _endless(variable: str, *, found: bool) -> ArithmeticFault:
    why = "that is the row at which the match begins" if found else "the match has no row of it"
    return ArithmeticFault(
        f"a search cannot go on at a row of {variable}: {why}",
        hint="Say AFTER MATCH SKIP PAST LAST ROW, or TO NEXT ROW.",
    )


def _too_many() -> ArithmeticFault:
    return ArithmeticFault(
        f"more than {MOST_PARTIAL_MATCHES:,} runs of a pattern go on at once",
        detail="Where rows may be passed over or taken for several variables, each of them may double the runs.",
        hint="Let the pattern end sooner, make its conditions stricter, or skip till the next match only.",
    )
