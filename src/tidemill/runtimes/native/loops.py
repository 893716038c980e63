"""A query as a Python function: nested loops that sum what they find into a dictionary.

The functions read like the statements they come from: one ``for`` for each source, an index lookup where the statement
has one, filters as soon as their columns are bound, local variables named after the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tidemill.algebra.scalars import Case, Literal, Scalar
from tidemill.algebra.walk import columns_in, is_nullable
from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.program.statements import Query, Source, Version
from tidemill.runtimes.native.expressions import Expressions, tidy
from tidemill.runtimes.native.names import Globals
from tidemill.runtimes.native.traits import described, simplified

WIDTH = 120
"""Generated lines are broken where they would be longer, if that is simple."""

FieldsOf = Callable[[str], tuple[t.Field, ...]]
"""The columns of a relation or map, in the order in which its rows hold them."""


@dataclass(frozen=True, slots=True)
class Access:
    """A dictionary that a function reads: rows of a relation, all of them or by the columns at ``positions``."""

    relation: str
    version: Version
    positions: tuple[int, ...] = ()


@dataclass
class Body:
    """A function while it is written.

    ``rows`` says which variable holds a row of which relation from which line on: the report of a fault names them.
    """

    head: str
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    rows: list[tuple[int, str, str]] = field(default_factory=list)

    def write(self, line: str) -> None:
        """Add a line at the present depth."""
        self.lines.append("    " * self.depth + line)

    def write_row(self, before: str, parts: Sequence[str]) -> None:
        """Add a line that ends in a tuple; a long one has its parts below each other."""
        line = f"{before} ({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if len(line) + 4 * self.depth <= WIDTH:
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


def quotable(text: str) -> str:
    """``text`` as it may stand between triple quotes, whatever names and strings it shows.

    >>> quotable('a view called "big"')
    "a view called 'big'"
    """
    escaped = text.replace("\\", "\\\\").replace('"', "'")
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in escaped)


class Loops:
    """Writes one query. ``values`` are the types of the ring values of its target; its other outputs are the key."""

    def __init__(self, query: Query, values: Sequence[Type], fields_of: FieldsOf, known: Globals) -> None:
        self._query = query
        self._values = values
        self._fields_of = fields_of
        self._globals = known
        self._names = known.enter()
        self._columns: dict[str, str] = {}
        self._places: dict[str, tuple[str, int]] = {}
        self._expressions = Expressions(self._columns, known, self._names)
        self._rows = {s.alias: self._names.give(s.alias, f"{s.alias}_row") for s in query.sources}
        self._accesses: dict[Access, str] = {}
        self.body = Body("")

    @property
    def accesses(self) -> tuple[Access, ...]:
        """What the function must be given, after ``sums``."""
        return tuple(self._accesses)

    def write(self, name: str, document: str) -> Body:
        """The whole function."""
        self.body.document(document)
        for condition in self._query.filters:
            self._filter(condition, "return")
        weights = [self._loop(source) for source in self._query.sources]
        if len(weights) != 1:
            self.body.write(f"weight = {' * '.join(weights) or 1}")
        outputs = [simplified(output.scalar) for output in self._query.outputs]
        keys = len(outputs) - len(self._values)
        self._collect(outputs[:keys], outputs[keys:])
        self.body.head = f"def {name}({', '.join(('sums', *self._accesses.values()))}):"
        return self.body

    def _loop(self, source: Source) -> str:
        """Open the loop over ``source``; returns the variable of its weight."""
        row = self._rows[source.alias]
        fields = [f.name for f in self._fields_of(source.relation)]
        self._places |= {f"{source.alias}.{name}": (row, place) for place, name in enumerate(fields)}
        rows = self._found(source, fields)
        weight = "weight" if len(self._query.sources) == 1 else self._names.give(f"{source.alias}_weight")
        self.body.rows.append((len(self.body.lines) + 1, source.relation, row))
        self.body.write(f"for {row}, {weight} in {rows}:")
        self.body.depth += 1
        for condition in source.filters:
            self._filter(condition, "continue")
        return weight

    def _found(self, source: Source, fields: Sequence[str]) -> str:
        """The expression for the weighted rows that the loop runs over."""
        word = "change" if source.version is Version.CHANGE else source.relation
        if not source.lookup:
            return self._access(Access(source.relation, source.version), word, f"{word}_rows")
        columns = [column for column, _ in source.lookup]
        positions = tuple(fields.index(column) for column in columns)
        index = self._access(Access(source.relation, source.version, positions), f"{word}_by_{'_'.join(columns)}")
        keys = [self._settled(simplified(expression)) for _, expression in source.lookup]
        return f"{index}.get({keys[0] if len(keys) == 1 else '(' + ', '.join(keys) + ')'}, ())"

    def _access(self, access: Access, *wishes: str) -> str:
        if access not in self._accesses:
            plain = access.version is Version.CHANGE and not access.positions
            self._accesses[access] = "change" if plain else self._names.give(*wishes)
        return self._accesses[access]

    def _filter(self, condition: Scalar, otherwise: str) -> None:
        condition = simplified(condition)
        self._bind(condition)
        self.body.write(f"if {tidy(f'not ({self._expressions.condition(condition)})')}:")
        self.body.write(f"    {otherwise}")

    def _bind(self, scalar: Scalar) -> None:
        """Give every column of ``scalar`` its local variable, on a line before its first use."""
        for column in sorted(columns_in(scalar) - self._columns.keys(), key=self._places.__getitem__):
            row, place = self._places[column]
            name = self._names.give(column.rpartition(".")[2], column)
            self.body.write(f"{name} = {row}[{place}]")
            self._columns[column] = name

    def _value(self, scalar: Scalar) -> str:
        self._bind(scalar)
        return tidy(self._expressions.value(scalar, self._hoist))

    def _settled(self, scalar: Scalar) -> str:
        self._bind(scalar)
        return tidy(self._expressions.settled(scalar, self._hoist))

    def _hoist(self, scalar: Scalar, text: str) -> str:
        name = self._names.give(described(scalar))
        self.body.write(f"{name} = {tidy(text)}")
        return name

    def _collect(self, keys: Sequence[Scalar], values: Sequence[Scalar]) -> None:
        """Add one find to the sums."""
        self._expressions.expect([*keys, *values])
        self.body.write_row("key =", [self._settled(key) for key in keys])
        if not self._values:
            self.body.write("sums[key] = sums.get(key, 0) + weight")
            return
        terms = [self._term(value) for value in values]
        zeros = ", ".join(self._zero(type_) for type_ in self._values)
        self.body.write("entry = sums.get(key)")
        self.body.write("if entry is None:")
        self.body.write(f"    entry = sums[key] = [0, {zeros}]")
        self.body.write("entry[0] += weight")
        self._add_terms(terms)

    def _term(self, scalar: Scalar) -> tuple[str, str]:
        """A value to add, as text that may be repeated, and the condition under which it is added."""
        counted = _counted(scalar)
        if counted is not None:
            self._bind(counted)
            return "1", tidy(self._expressions.condition(counted, self._hoist))
        text = self._value(scalar)
        if not text.isidentifier() and not isinstance(scalar, Literal):
            text = self._hoist(scalar, text)
        return text, f"{text} is not None" if is_nullable(scalar) else ""

    def _add_terms(self, terms: Iterable[tuple[str, str]]) -> None:
        """Add each term at its place; those under the same condition share it."""
        place, under = 1, ""
        for (term, condition), type_ in zip(terms, self._values, strict=True):
            if condition and condition != under:
                self.body.write(f"if {condition}:")
            under = condition
            self.body.depth += bool(condition)
            self._add_term(place, term, type_)
            self.body.depth -= bool(condition)
            place += 2 if isinstance(type_, t.Double) else 1

    def _add_term(self, place: int, term: str, type_: Type) -> None:
        match type_:
            case t.Double():
                self.body.write("if weight == 1:")
                self.body.write(f"    entry[{place}].append({term})")
                self.body.write("else:")
                self.body.write(f"    entry[{place + 1}].append(({term}, weight))")
            case t.Decimal():
                self.body.write(f"entry[{place}] += {term} if weight == 1 else {term} * weight")
            case _:
                self.body.write(f"entry[{place}] += {'weight' if term == '1' else f'{term} * weight'}")

    def _zero(self, type_: Type) -> str:
        if isinstance(type_, t.Double):
            return "[], []"
        return self._globals.constant(zero(type_), type_)


def _counted(scalar: Scalar) -> Scalar | None:
    """The condition of a term that counts: 1 where it holds, else nothing."""
    match scalar:
        case Case(branches=((condition, Literal(value=1)),), default=Literal(value=0 | None)):
            return condition
    return None


def zero(type_: Type) -> Any:
    """The sum of nothing, of a type other than DOUBLE.

    >>> zero(t.BIGINT), zero(t.Decimal(38, 2))
    (0, Decimal('0.00'))
    """
    return Decimal(0).scaleb(-type_.scale) if isinstance(type_, t.Decimal) else 0
