"""Statements of a query text: where each begins and ends, its words, and its parameters ``$1``, ``$2``.

Nothing here understands SQL. It knows what texts, quoted names and comments look like in the two dialects, so that a
semicolon or a ``$1`` within them is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tidemill.model.whole_numbers import whole_number
from tidemill.serving.pgwire.errors import PgError

__all__ = ["Mark", "StatementText", "split"]

MOST_PARAMETERS = 65_535
"""Greatest number of a parameter: a message counts them in 16 bits."""

MARKER = "_"
"""Prefix of the names of parameters, once ``$1`` has become ``:_1``."""

_COMMON = r"""
    (?P<space>\s+|--[^\r\n]*)
  | (?P<comment>/\*)
  | (?P<parameter>\$\d+)
  | (?P<semicolon>;)
  | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)
"""
_SPARK = r"""
  | (?P<text>(?:\b[rR])(?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<name>`(?:[^`]|``)*`)
"""
_POSTGRES = r"""
  | (?P<text>\b[eE]'(?:[^'\\]|\\.|'')*'|(?:\b[uU]&|\b[nNbBxX])?'(?:[^']|'')*'|\$(?P<tag>[A-Za-z_]*)\$.*?\$(?P=tag)\$)
  | (?P<name>"(?:[^"]|"")*")
"""
_REST = r"""
  | (?P<word>[^\W\d][\w$]*)
  | (?P<open>['"`])
  | (?P<sign>.)
"""
_FLAGS = re.VERBOSE | re.DOTALL
_SPARK_MARKS = re.compile(_COMMON + _SPARK + _REST, _FLAGS)
_POSTGRES_MARKS = re.compile(_COMMON + _POSTGRES + _REST, _FLAGS)
_VALUES = {"text", "number"}
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Mark:
    """A word, text, name, number or sign, and where it stands."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    def unquoted(self) -> str:
        """A name as it counts: folded to lower case, or as it is quoted."""
        if self.kind == "name":
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text.lower()

    def literal(self) -> str:
        """The value of a text, and of a word or number that stands for one."""
        if self.kind != "text":
            return self.unquoted()
        return self.text[self.text.index("'") + 1 : -1].replace("''", "'") if "'" in self.text else self.text[1:-1]


@dataclass(frozen=True)
class StatementText:
    """One statement of a query, as it is written there."""

    text: str
    start: int
    """Where it begins in the query."""
    marks: tuple[Mark, ...]
    """Without spaces and comments; their places count from the beginning of the statement."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words it begins with, in capitals."""
        found = []
        for mark in self.marks[:8]:
            if mark.kind != "word":
                break
            found.append(mark.text.upper())
        return tuple(found)

    @cached_property
    def parameters(self) -> int:
        """The greatest number of a parameter; the protocol has room for ``MOST_PARAMETERS``."""
        found = max((whole_number(mark.text[1:]) for mark in self.marks if mark.kind == "parameter"), default=0)
        if found > MOST_PARAMETERS:
            raise PgError("54023", f"a statement has at most {MOST_PARAMETERS:,} parameters")
        return found

    @cached_property
    def named(self) -> str:
        """The text with parameters as Tidemill spells them: ``:_1`` for ``$1``.

        >>> next(split("SELECT '$1', $1")).named
        "SELECT '$1', :_1"
        """
        parts, at = [], 0
        for mark in self.marks:
            if mark.kind == "parameter":
                parts += [self.text[at : mark.start], f":{MARKER}{mark.text[1:]}"]
                at = mark.end
        return "".join(parts) + self.text[at:]

    @cached_property
    def without_values(self) -> str | None:
        """The text with a question mark for each text and number; None if it may hold values that look like words.

        >>> [one.without_values for one in split("COPY t TO STDOUT (NULL 'x', HEADER) -- y; SET a.b = hunter2")]
        ['COPY t TO STDOUT (NULL ?, HEADER)']
        >>> next(split("SET a.b = hunter2")).without_values, next(split("SELECT $$x$$")).without_values
        ('SET a.b = ?', None)
        """
        shown, end = "", 0
        for mark in self.marks:
            if mark.text == "$":
                return None  # texts in dollars, where the dialect has none
            part_of_number = mark.kind == "word" and mark.start == end and shown.endswith("?")
            if not part_of_number:
                shown += (" " if shown and mark.start > end else "") + ("?" if mark.kind in _VALUES else mark.text)
            end = mark.end
            if self.words[:1] == ("SET",) and mark.text.upper() in ("=", "TO"):
                return f"{shown} ?"
        return shown

    def position(self, offset: int) -> int:
        """The place in the query, counted from 1, of an offset in ``named``."""
        moved = sum(1 for mark in self.marks if mark.kind == "parameter" and mark.end <= offset)
        return self.start + max(offset - moved, 0) + 1


def split(query: str, *, postgres: bool = False, most: int | None = None) -> Iterator[StatementText]:
    """The statements of a query, without the empty ones; one with more than ``most`` bytes is refused.

    Each is looked for when the one before was taken: a long text costs no more than what is run of it.

    >>> [one.text for one in split("SELECT ';' ; /* ; */ ; SHOW VIEWS -- ;")]
    ["SELECT ';'", 'SHOW VIEWS']
    """
    marks: list[Mark] = []
    for mark in chain(_marks(query, postgres), [Mark("semicolon", "", len(query))]):
        if mark.kind == "semicolon" and not _continues(query, mark.end):
            if marks:
                start, end = marks[0].start, marks[-1].end
                moved = tuple(Mark(one.kind, one.text, one.start - start) for one in marks)
                yield _required_short(StatementText(query[start:end], start, moved), most)
            marks = []
        else:
            marks.append(mark)
            if most is not None and mark.end - marks[0].start > most:
                raise _too_long(most)


def _required_short(statement: StatementText, most: int | None) -> StatementText:
    if most is not None and len(statement.text) > most // 4 and len(statement.text.encode()) > most:
        raise _too_long(most)
    return statement


def _too_long(most: int) -> PgError:
    hint = "COPY takes rows of any number; a server can be given a higher limit."
    return PgError("54000", f"a statement has at most {most:,} bytes", hint=hint)


_PART = re.compile(r"\s*(PARTITION\s+BY\b|UPDATE\s*\[)", re.IGNORECASE)


def _continues(query: str, at: int) -> bool:
    """True if a semicolon stands between the parts of a view that is defined by partitions."""
    return _PART.match(query, at) is not None


def _marks(query: str, postgres: bool) -> Iterator[Mark]:
    pattern, at = _POSTGRES_MARKS if postgres else _SPARK_MARKS, 0
    while at < len(query):
        found = pattern.match(query, at)
        assert found is not None and found.lastgroup is not None
        kind, at = found.lastgroup, found.end()
        kind = "text" if kind == "tag" else kind
        if kind == "comment":
            at = _comment_end(query, at)
        elif kind == "open":  # never closed: the rest of the query is in quotes
            yield Mark("text", query[found.start() :], found.start())
            return
        elif kind != "space":
            yield Mark(kind, found.group(), found.start())


def _comment_end(query: str, at: int) -> int:
    """Where a comment ends that has begun before ``at``; comments may hold others."""
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(query, at)
        if edge is None:
            return len(query)
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
    return at
