"""The lines of a generated function under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.runtimes.native.python.identifiers import GlobalNames

LINE_WIDTH = 120
"""Length above which generated lines are broken, if that is simple."""

Namespace = Mapping[str, Any]
"""The functions of a stage, by name."""


@dataclass
class FunctionWriter:
    """A function under construction.

    ``rows`` records which variable holds a row of which relation from which line on: the report of a fault names them.
    ``inner`` has the same for the functions within it, with lines counted from theirs.
    """

    head: str
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    inner: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    _entered: list[tuple[str, int, int]] = field(default_factory=list)

    def write(self, line: str) -> None:
        """Add a line at the current depth."""
        self.lines.append("    " * self.depth + line)

    def note_row(self, line: int, relation: str, variable: str) -> None:
        """Remember that ``variable`` holds a row of ``relation`` from ``line`` on."""
        if not self._entered:
            self.rows.append((line, relation, variable))
        else:
            name, first, _ = self._entered[-1]
            self.inner[name].append((line - first, relation, variable))

    def enter(self, name: str) -> None:
        """Begin a nested function, which receives all following lines; it sees the variables bound so far."""
        self.write(f"def {name}():")
        self._entered.append((name, len(self.lines), self.depth))
        self.inner[name] = []
        self.depth += 1

    def close(self) -> None:
        """End the nested functions: each is called where it was defined."""
        for name, _, depth in reversed(self._entered):
            self.lines.append(f"{'    ' * depth}{name}()")

    def write_row(self, before: str, parts: Sequence[str]) -> None:
        """Add a line that ends in a tuple; a long one has its parts below each other."""
        line = f"{before} ({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if len(line) + 4 * self.depth <= LINE_WIDTH:
            self.write(line)
            return
        self.write(f"{before} (")
        for part in parts:
            self.write(f"    {part},")
        self.write(")")

    def document(self, text: str) -> None:
        """Add a docstring."""
        first, *rest = quotable(text).split("\n")
        self.write(f'"""{first}' + ('"""' if not rest else ""))
        for line in rest:
            self.write(line.rstrip())
        if rest:
            self.write('"""')


class ModuleWriter(Protocol):
    """Generated code while it is written."""

    known: GlobalNames

    def add(self, name: str, body: FunctionWriter) -> None:
        """Append a function."""


def quotable(text: str) -> str:
    """``text`` in a form that is safe between triple quotes, whatever names and strings it shows.

    >>> quotable('a view called "big"')
    "a view called 'big'"
    """
    escaped = text.replace("\\", "\\\\").replace('"', "'")
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in escaped)
