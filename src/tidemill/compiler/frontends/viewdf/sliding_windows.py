"""``s [WINDOW 60 MINUTES SLIDE 5 MINUTES]``: a sliding window in the FROM of a view.

A view that reads such a window is defined by partitions, one for each slide.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.algebra.relational.time_partitions import Subscript
from tidemill.compiler.frontends.sql.expressions.intervals import format_period
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.text.names import check_identifier
from tidemill.compiler.frontends.viewdf.partition_by import read_period
from tidemill.compiler.frontends.viewdf.subscripts import PartitionRange, Tokens
from tidemill.model.errors import TextLocation, Unsupported
from tidemill.model.partition_lengths import is_calendar


@dataclass(frozen=True)
class SlidingWindow:
    """The rows of the last ``length`` of ``relation``, a length of partitions; ``slide`` is the step, if given."""

    relation: str
    length: int
    slide: int | None
    place: TextLocation

    @property
    def name(self) -> str:
        """The name of the rows in a query."""
        return f"{self.relation}[window {self.length}]"

    def to_partition_range(self, every: int, slide: int) -> PartitionRange:
        """The partitions, each ``every`` long, of the window at the end of a slide."""
        for what, length in (("window", self.length), ("slide", slide)):
            if is_calendar(length) != is_calendar(every) or length % every:
                raise Unsupported(
                    f"a {what} of {format_period(length)} is not made of whole partitions",
                    where=self.place,
                    detail=f'Those of "{self.relation}" are {format_period(every)} long.',
                    hint="Say SLIDE 1 MONTH, or another number of months."
                    if is_calendar(self.length)
                    else f"Use a multiple of {format_period(every)}.",
                )
        times = slide // every
        last = Subscript(times - 1, times)
        return PartitionRange(self.relation, Subscript(times - self.length // every, times), last, self.place)


def read_sliding_window(tokens: Tokens, source: SqlText) -> SlidingWindow:
    """``s [WINDOW length]``, or ``s [WINDOW length SLIDE length]``."""
    name = tokens[0]
    cursor = StatementCursor(source, tokens[:-1], position=2)
    cursor.expect("WINDOW")
    length = read_period(cursor)
    slide = read_period(cursor) if cursor.accept("SLIDE") else None
    cursor.expect_end("statement")
    relation = check_identifier(name.text, source.span(name.start, name.end))
    return SlidingWindow(relation, length, slide, source.span(name.start, tokens[-1].end))
