"""``s [WINDOW 60 MINUTES SLIDE 5 MINUTES]``: the rows of the last so much time, in the FROM of a view.

A view that reads such a window is made by partitions, one for each slide.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.algebra.layers import Subscript
from tidemill.compiler.frontends.cursor import Cursor
from tidemill.compiler.frontends.intervals import spelled
from tidemill.compiler.frontends.partitioning import read_span
from tidemill.compiler.frontends.partitions import Partitions, Tokens
from tidemill.compiler.frontends.places import Source
from tidemill.compiler.frontends.tables import checked_name
from tidemill.model.errors import Place, Unsupported


@dataclass(frozen=True)
class Sliding:
    """The last ``length`` microseconds of ``relation``; ``slide`` is how far the window moves, if that is said."""

    relation: str
    length: int
    slide: int | None
    place: Place

    @property
    def name(self) -> str:
        """What a query calls the rows."""
        return f"{self.relation}[window {self.length}]"

    def cut(self, every: int, slide: int) -> Partitions:
        """The partitions, each ``every`` long, that the window has when it has come to the end of a slide."""
        for what, length in (("window", self.length), ("slide", slide)):
            if length % every:
                raise Unsupported(
                    f"a {what} of {spelled(length)} is not made of whole partitions",
                    where=self.place,
                    detail=f'Those of "{self.relation}" are {spelled(every)} long.',
                    hint=f"Use a multiple of {spelled(every)}.",
                )
        times = slide // every
        last = Subscript(times - 1, times)
        return Partitions(self.relation, Subscript(times - self.length // every, times), last, self.place)


def read_sliding(tokens: Tokens, source: Source) -> Sliding:
    """``s [WINDOW length]``, or ``s [WINDOW length SLIDE length]``."""
    name = tokens[0]
    cursor = Cursor(source, tokens[:-1], position=2)
    cursor.expect("WINDOW")
    length = read_span(cursor)
    slide = read_span(cursor) if cursor.accept("SLIDE") else None
    cursor.end()
    relation = checked_name(name.text, source.span(name.start, name.end))
    return Sliding(relation, length, slide, source.span(name.start, tokens[-1].end))
