"""Golden conversations: a view, changes, ``----``, and the net change that must come out.

====================================  ==============================================================================
line                                  meaning
====================================  ==============================================================================
``table orders (id INT, ...)``        a table; ``stream`` likewise, both perhaps with PARTITION BY
``view SELECT ...``                   the view; ``view name AS SELECT ...`` where there are several
``view UPDATE v[i] AS ...``           a view by partitions; other systems do not know such, and are not asked
``view v PARTITION BY ts EVERY ...``  a view whose rows fall into partitions, with AS and its query behind
``+ orders 1, ann``                   a row arrives; ``- orders 1, ann`` leaves; ``+3 orders ...`` three times
``sql UPDATE orders SET ...``         a statement, an epoch of its own
``clock 2024-01-01 10:00:00``         the wall clock advances; before the views it begins there (in a file ``alone``)
``----``                              ends the block; what follows is the net change that the view must show
``+ ann``                             a row that the view gains; with several views ``+ name ann``
``! MissingRow``                      instead: the block is refused with exactly that error, and changes nothing
``gap delta/spark Unsupported: why``  a strategy and a runtime, or a way of one (``llvm``), where the conversation ends
                                      with that very error (``*`` matches all); ``delta/llvm/rows``: row by row only
``alone: why``                        the file cannot share a warehouse with others
``frames joingraph``                  `make test` runs these strategies as DataFrames too, not `make fuzz` alone
``batch whole: why``                  the blocks make sense as whole epochs only
``duckdb off: why``                   DuckDB means something else by this SQL
``spark off: why``                    Spark itself cannot be asked (its answer is an error, say)
====================================  ==============================================================================

Indented lines continue the line above; ``#`` starts a comment line. Without ``----`` after it a view must start empty.
Values go by column type: ``NULL``, numbers, bare or ``'quoted, strings'``, ISO dates, ``X'0f'``, ``[arrays]``,
``{structs}``, ``{key -> value}``, variants as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tidemill.algebra.values.variants import parse_variant
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree, as_array
from tidemill.model.coerce import coerce
from tidemill.model.types import Field, Type

ONLY_VIEW = "v"
"""The name of a view that was given none."""


@dataclass(frozen=True)
class Line:
    """A weighted row as written: of a table, or expected of a view."""

    weight: int
    relation: str
    text: str


@dataclass
class Step:
    """One block: what happens, and the net change or the error that must come of it."""

    number: int
    declare: str = ""
    views: list[tuple[str, str]] = field(default_factory=list)
    changes: list[Line] = field(default_factory=list)
    partitions: dict[str, str] = field(default_factory=dict)
    sql: str = ""
    clock: str = ""
    expected: list[Line] = field(default_factory=list)
    error: str = ""

    def definitions(self, strategy: str) -> list[str]:
        """The statements that create its views."""
        return [
            f"CREATE MATERIALIZED VIEW {name}{self._partitioned(name)} WITH (strategy = '{strategy}') AS {query}"
            for name, query in self.views
        ]

    def _partitioned(self, name: str) -> str:
        return f" PARTITION BY {self.partitions[name]}" if name in self.partitions else ""


@dataclass(frozen=True)
class Gap:
    """A strategy, a runtime or a way of one, and a form of epochs, with which the conversation ends with ``error``."""

    strategy: str
    runtime: str
    form: str
    error: str

    def covers(self, strategy: str, runtime: str, way: str, form: str) -> bool:
        return self.strategy in ("*", strategy) and self.runtime in ("*", runtime, way) and self.form in ("*", form)


@dataclass
class Conversation:
    """A golden file, read."""

    path: Path
    steps: list[Step] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def gap(self, strategy: str, runtime: str, way: str, form: str) -> Gap | None:
        return next((gap for gap in self.gaps if gap.covers(strategy, runtime, way, form)), None)

    @property
    def prefix(self) -> str:
        """What the names of its tables and views begin with in a warehouse that it shares with others."""
        return f"{self.path.stem}__"

    @cached_property
    def relations(self) -> frozenset[str]:
        """The names of its tables and views, in lower case."""
        tables = (line.split()[2].partition("(")[0] for line in (step.declare for step in self.steps) if line)
        return frozenset(name.lower() for name in (*tables, *(name for step in self.steps for name, _ in step.views)))

    def asks(self, system: str) -> bool:
        """Whether ``duckdb`` or ``spark`` is asked for its own answer."""
        return not any(self._by_partitions()) and not self.settings.get(system, "").startswith("off")

    @property
    def by_partitions(self) -> bool:
        """Whether all of its views are made by partitions."""
        return all(self._by_partitions())

    def _by_partitions(self) -> Iterator[bool]:
        views = (query for step in self.steps for _, query in step.views)
        return (query.startswith(("INITIALIZE ", "UPDATE ")) or "[WINDOW " in query for query in views)


@cache
def read(path: Path) -> Conversation:
    """The conversation in a golden file, read once; a line that means nothing is an error that names it."""
    reader = _Reader(Conversation(path))
    for number, line in _lines(path.read_text()):
        try:
            reader.take(number, line)
        except ValueError as error:
            raise ValueError(f"{path.name}:{number}: {error}: {line}") from error
    return reader.finished()


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, each with those that continue it."""
    pending: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#") or not line.strip():
            continue
        if line[0].isspace() and pending:
            pending = (pending[0], f"{pending[1]} {line.strip()}")
            continue
        if pending:
            yield pending
        pending = (number, line.rstrip())
    if pending:
        yield pending


class _Reader:
    def __init__(self, conversation: Conversation) -> None:
        self._to = conversation
        self._tables: set[str] = set()
        self._views: list[str] = []
        self._expecting = False

    def take(self, number: int, line: str) -> None:
        word, _, rest = line.partition(" ")
        if line == "----":
            if self._expecting or not self._to.steps:
                raise ValueError("nothing for this to end")
            self._expecting = True
        elif word in ("table", "stream"):
            self._tables.add(re.split(r"\W", rest, maxsplit=1)[0])
            self._step(number).declare = f"CREATE {word.upper()} {rest}"
        elif word == "view":
            self._view(number, rest)
        elif word == "sql":
            self._step(number).sql = rest
        elif word == "clock":
            self._step(number).clock = rest
        elif word == "gap":
            self._gap(rest)
        elif word in ("alone:", "batch", "duckdb", "frames", "spark"):
            self._to.settings[word.rstrip(":")] = rest
        elif word == "!" and self._expecting:
            self._to.steps[-1].error = rest
        elif match := re.fullmatch(r"([+-])(\d*) (.*)", line):
            self._row(number, int(match[1] + (match[2] or "1")), match[3])
        else:
            raise ValueError("not a line of a conversation")

    def _step(self, number: int) -> Step:
        if self._to.steps and self._to.steps[-1].changes and not self._expecting:
            raise ValueError("the changes before this line are not ended by ----")
        self._expecting = False
        self._to.steps.append(Step(number))
        return self._to.steps[-1]

    def _view(self, number: int, text: str) -> None:
        named = re.fullmatch(r"(\w+)(?: PARTITION BY (\w+ EVERY [\w ]+?))? AS (.*)", text, flags=re.DOTALL)
        name, partitions, query = (named[1], named[2], named[3]) if named else (ONLY_VIEW, None, text)
        self._views.append(name)
        together = self._to.steps and self._to.steps[-1].views and not self._expecting
        step = self._to.steps[-1] if together else self._step(number)
        step.views.append((name, query))
        if partitions:
            step.partitions[name] = partitions

    def _gap(self, text: str) -> None:
        where, _, error = text.partition(":")[0].partition(" ")
        strategy, runtime, *form = where.split("/")
        self._to.gaps.append(Gap(strategy, runtime, form[0] if form else "*", error))

    def _row(self, number: int, weight: int, text: str) -> None:
        relation, _, values = text.partition(" ")
        if relation in self._tables and values:
            last = self._to.steps[-1]
            step = last if last.changes and not self._expecting else self._step(number)
            step.changes.append(Line(weight, relation, values))
        elif self._expecting and len(self._views) == 1:
            self._to.steps[-1].expected.append(Line(weight, self._views[0], text))
        elif self._expecting and relation in self._views:
            self._to.steps[-1].expected.append(Line(weight, relation, values))
        else:
            raise ValueError("neither a change of a table nor an expected row")

    def finished(self) -> Conversation:
        if self._to.steps[-1].changes and not self._expecting:
            raise ValueError(f"{self._to.path.name}: the last changes are not ended by ----")
        if any(step.clock for step in self._to.steps) and "alone" not in self._to.settings:
            raise ValueError(f"{self._to.path.name}: it has a clock, and others in its warehouse would see it")
        return self._to


def parse_row(text: str, fields: Sequence[Field]) -> tuple[Any, ...]:
    """The values of a line, each by the type of its column, in the engine's inner form.

    >>> parse_row("1, 'a, b', NULL", [Field("id", t.INT), Field("name", t.STRING), Field("day", t.DATE)])
    (1, 'a, b', None)
    """
    parts = split(text)
    if len(parts) != len(fields):
        raise ValueError(f"{len(fields)} values expected, not {len(parts)}: {text}")
    return tuple(parse_value(part, f.type) for part, f in zip(parts, fields, strict=True))


def split(text: str) -> list[str]:
    """Cut at the commas that are outside quotes and brackets.

    >>> split("1, [2, 3], 'a, b'")
    ['1', '[2, 3]', "'a, b'"]
    """
    parts, depth, quoted = [""], 0, False
    for character in text:
        quoted ^= character == "'"
        depth += 0 if quoted else (character in "[{") - (character in "]}")
        if character == "," and not quoted and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def parse_value(text: str, type_: Type) -> Any:
    """One value as written, by its type."""
    if text == "NULL":
        return None
    match type_:
        case t.Boolean():
            return {"true": True, "false": False}[text]
        case t.Integral():
            return coerce(int(text), type_)
        case t.Floating():
            return coerce(float(text), type_)
        case t.Decimal() | t.Date() | t.Time() | t.Timestamp() | t.AnsiInterval():
            return coerce(text, type_)
        case t.Array(element):
            return as_array(parse_value(part, element) for part in split(text[1:-1])) if text != "[]" else ()
        case t.Map(key, value):
            entries = (part.split(" -> ", 1) for part in split(text[1:-1]) if part)
            return tuple((parse_value(one, key), parse_value(other, value)) for one, other in entries)
        case t.Struct(fields):
            return parse_row(text[1:-1], fields)
        case t.Variant():
            return parse_variant(text.strip("'"))
        case t.Binary():
            return bytes.fromhex(text[2:-1])
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


def write_row(row: Sequence[Any]) -> str:
    """A row of inner values as a line of a conversation has it; ``parse_row`` reads it back.

    >>> write_row((1, "ann", None, "", (2, "a, b")))
    "1, ann, NULL, '', {2, 'a, b'}"
    """
    return ", ".join(map(_written, row))


def _written(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            plain = re.fullmatch(r"\w[\w .-]*(?<! )", value) and value != "NULL"
            return value if plain else "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case tuple() | ArrayTree():
            return f"{{{write_row(value)}}}"
    return str(value)
