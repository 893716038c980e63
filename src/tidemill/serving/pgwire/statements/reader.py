"""Reads the words of a statement from left to right."""

from __future__ import annotations

from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.scan import Mark, StatementText

__all__ = ["WordReader"]

LONGEST_NUMBER = 18
"""Digits of a whole number: epochs and counts of rows have fewer."""


class WordReader:
    """The marks of a statement, and how many of them have been read.

    >>> from tidemill.serving.pgwire.scan import split
    >>> words = WordReader(next(split("FETCH 10 FROM c")))
    >>> words.accept("FETCH"), words.number(), words.accept("FROM", "IN"), words.name(), words.at_end
    (True, 10, True, 'c', True)
    """

    def __init__(self, statement: StatementText) -> None:
        self.statement = statement
        self.at = 0

    @property
    def next(self) -> Mark | None:
        """The next mark."""
        return self.statement.marks[self.at] if self.at < len(self.statement.marks) else None

    @property
    def at_end(self) -> bool:
        """True once everything has been read."""
        return self.next is None

    def accept(self, *words: str) -> bool:
        """Read one of these words or signs, if it comes next."""
        mark = self.next
        if mark is None or mark.kind in ("text", "name") or mark.text.upper() not in words:
            return False
        self.at += 1
        return True

    def accept_all(self, *words: str) -> bool:
        """Read these words, if they come next, in this order."""
        start = self.at
        if all(self.accept(word) for word in words):
            return True
        self.at = start
        return False

    def expect(self, word: str) -> None:
        """Read a word that has to come."""
        if not self.accept(word):
            raise self.unexpected(word)

    def name(self) -> str:
        """Read a name, bare or quoted."""
        mark = self.next
        if mark is None or mark.kind not in ("word", "name", "text") or mark.text[:1] == "'":
            raise self.unexpected("a name")
        self.at += 1
        if mark.kind == "text":  # in double quotes, where these enclose texts
            return mark.text[1:-1].replace('""', '"')
        return mark.unquoted()

    def value(self) -> str:
        """Read a value: a text, a number perhaps with its sign, or a word."""
        sign = "-" if self.accept("-") else ""
        mark = self.next
        if mark is None or mark.kind not in ("word", "name", "text", "number"):
            raise self.unexpected("a value")
        self.at += 1
        return sign + (mark.text if mark.kind == "word" else mark.literal())

    def number(self) -> int | None:
        """Read a whole number, if one comes next."""
        start, negative = self.at, self.accept("-")
        mark = self.next
        if mark is None or mark.kind != "number" or not mark.text.isdigit() or len(mark.text) > LONGEST_NUMBER:
            self.at = start
            return None
        self.at += 1
        return -int(mark.text) if negative else int(mark.text)

    def relation(self) -> str:
        """Read the name of a table or view, perhaps with its schema."""
        parts = [self.name()]
        while self.accept("."):
            parts.append(self.name())
        if parts[:-1] not in ([], ["public"], ["default"], ["spark_catalog", "default"]):
            raise PgError("3F000", f'there is no schema "{".".join(parts[:-1])}"', hint="All names are in public.")
        return parts[-1]

    def parenthesized(self) -> str | None:
        """Read what stands in parentheses, if they come next, as it is written."""
        if not self.accept("("):
            return None
        start, depth = self.at, 1
        while depth:
            mark = self.next
            if mark is None:
                raise self.unexpected(")")
            depth += (mark.text == "(") - (mark.text == ")")
            self.at += 1
        first, last = self.statement.marks[start : start + 1], self.statement.marks[self.at - 1]
        return self.statement.text[first[0].start : last.start].strip()

    def rest(self) -> str:
        """Read everything that is left, as it is written."""
        mark = self.next
        self.at = len(self.statement.marks)
        return "" if mark is None else self.statement.text[mark.start :]

    def end(self) -> None:
        """Refuse words that are left."""
        if not self.at_end:
            raise self.unexpected("the end of the statement")

    def unexpected(self, wanted: str) -> PgError:
        """The error for what comes next."""
        mark = self.next
        found = "the statement ends" if mark is None else f'"{mark.text[:40]}" was found'
        place = len(self.statement.text) if mark is None else mark.start
        return PgError("42601", f"{wanted} was expected, and {found}", position=place)
