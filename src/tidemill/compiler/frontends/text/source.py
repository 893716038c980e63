"""A text with its name, and places in it for errors to point at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidemill.model.errors import TextLocation, TidemillError


@dataclass(frozen=True)
class SourceText:
    """A text and its name in errors, such as ``leaders.sql``.

    >>> print(SourceText("demo", "SELECT a,\\n  b + 1 FROM t").span(12, 16))
    demo:2:3   b + 1 FROM t
               ^^^^^
    """

    name: str
    text: str

    def span(self, start: int, end: int) -> TextLocation:
        """From offset ``start`` to ``end``, inclusive."""
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        line = self.text[line_start : line_end if line_end >= 0 else None]
        column = start - line_start
        return TextLocation(
            self.name, self.text.count("\n", 0, start) + 1, column + 1, line, min(end - start + 1, len(line) - column)
        )


@contextmanager
def locating_errors(place: TextLocation | Callable[[], TextLocation]) -> Iterator[None]:
    """Set the place of errors without one; a function computes it only if there is an error."""
    try:
        yield
    except TidemillError as error:
        if error.where is None:
            error.where = place() if callable(place) else place
        raise
