"""Row patterns: the order of pattern variables, as a regular expression over their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowPattern(ABC):
    """A regular expression over variables. Each variable stands for one row."""

    @abstractmethod
    def __str__(self) -> str:
        """The pattern as it is written."""

    @property
    @abstractmethod
    def parts(self) -> tuple[RowPattern, ...]:
        """The patterns that it is made of, from left to right."""


@dataclass(frozen=True, slots=True)
class PatternVariable(RowPattern):
    """A row that satisfies the condition of the variable; one without a condition is satisfied by every row."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def parts(self) -> tuple[RowPattern, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Concatenation(RowPattern):
    """One pattern after the other."""

    items: tuple[RowPattern, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"

    @property
    def parts(self) -> tuple[RowPattern, ...]:
        return self.items


@dataclass(frozen=True, slots=True)
class Alternation(RowPattern):
    """One of several patterns, in order of preference."""

    options: tuple[RowPattern, ...]

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.options))})"

    @property
    def parts(self) -> tuple[RowPattern, ...]:
        return self.options


@dataclass(frozen=True, slots=True)
class Repetition(RowPattern):
    """A pattern from ``least`` to ``most`` times (None: unlimited), greedy: as often as possible.

    A ``reluctant`` one is repeated as seldom as possible.

    >>> str(Repetition(PatternVariable("d"), 1, None)), str(Repetition(PatternVariable("d"), 2, 3, reluctant=True))
    ('d+', 'd{2,3}?')
    """

    item: RowPattern
    least: int
    most: int | None
    reluctant: bool = False

    def __str__(self) -> str:
        brief = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        most = "" if self.most is None else self.most
        braces = f"{{{most}}}" if self.least == self.most else f"{{{self.least},{most}}}"
        return f"{self.item}{brief.get((self.least, self.most), braces)}{'?' if self.reluctant else ''}"

    @property
    def parts(self) -> tuple[RowPattern, ...]:
        return (self.item,)


@dataclass(frozen=True, slots=True)
class Anchor(RowPattern):
    """A place between rows: before the first row of a partition, or after the last one if it is at the ``end``.

    >>> str(Concatenation((Anchor(False), PatternVariable("a"), Anchor(True))))
    '(^, a, $)'
    """

    end: bool

    def __str__(self) -> str:
        return "$" if self.end else "^"

    @property
    def parts(self) -> tuple[RowPattern, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Exclusion(RowPattern):
    """A pattern whose rows are part of a match and of its measures, but are not output.

    >>> str(Exclusion(PatternVariable("b")))
    '{- b -}'
    """

    item: RowPattern

    def __str__(self) -> str:
        return f"{{- {self.item} -}}"

    @property
    def parts(self) -> tuple[RowPattern, ...]:
        return (self.item,)


def anchors_in(pattern: RowPattern) -> bool:
    """True if a pattern has an anchor."""
    return isinstance(pattern, Anchor) or any(map(anchors_in, pattern.parts))


def excludes_rows(pattern: RowPattern) -> bool:
    """True if some rows of a match are not output."""
    return isinstance(pattern, Exclusion) or any(map(excludes_rows, pattern.parts))


def variables_in(pattern: RowPattern) -> tuple[str, ...]:
    """The variables of a pattern, each once, in the order in which they are first written.

    >>> a, b = PatternVariable("a"), PatternVariable("b")
    >>> variables_in(Concatenation((a, Repetition(Alternation((b, a)), 0, None))))
    ('a', 'b')
    """
    return tuple(dict.fromkeys(_names(pattern)))


def _names(pattern: RowPattern) -> Iterator[str]:
    if isinstance(pattern, PatternVariable):
        yield pattern.name
    for part in pattern.parts:
        yield from _names(part)
