"""A query as a Python function: nested loops that sum matching rows into a dictionary.

The functions read like the statements they come from: one ``for`` for each source, an index lookup where the statement
has one, filters as soon as their columns are bound, local variables named after the columns. An entry of a map that is
looked up by its whole key needs no loop, and neither do reads and seeks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Call, Column, Scalar, is_nullable
from tidemill.algebra.relational.walk import columns_in
from tidemill.changes.split import SplitColumns
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field, Type
from tidemill.program.linearity import scalars_of
from tidemill.program.statements import (
    ArrayLoop,
    MapRead,
    MapSeek,
    Query,
    Range,
    RangeBound,
    RelationLoop,
    Split,
    Step,
    Version,
)
from tidemill.runtimes.native.python.access import Access, AccessForm, RowShapes, zero_entry
from tidemill.runtimes.native.python.accumulation import AccumulationWriter
from tidemill.runtimes.native.python.expressions import PythonExpressions, tidy
from tidemill.runtimes.native.python.function_writer import FunctionWriter
from tidemill.runtimes.native.python.identifiers import GlobalNames
from tidemill.runtimes.native.python.scalar_properties import simplified, suggested_name

MAX_LOOPS = 16
"""Loops in one function; inner ones go to a function of their own, since Python allows twenty nested blocks."""


class LoopWriter:
    """Writes one query. ``values`` are the types of the ring values of its target; its other outputs are the key.

    It reads changes as the query ``of`` does, of which it has some sources.
    """

    def __init__(
        self, query: Query, values: Sequence[Type], shapes: RowShapes, known: GlobalNames, of: Query | None = None
    ) -> None:
        self._query = query
        self._of = of or query
        self._numbered: dict[str, str] = {}
        """The arrays whose elements come with their numbers, by the aliases of the loops over them."""
        self._values = values
        self._shapes = shapes
        self._globals = known
        self._names = known.enter()
        self._columns: dict[str, str] = {}
        self._places: dict[str, tuple[str, int]] = {}
        self._expressions = PythonExpressions(self._columns, known, self._names)
        self._rows = {s.alias: self._names.give(s.alias, f"{s.alias}_row") for s in query.sources}
        self._accesses: dict[Access, str] = {}
        self._used = {name for scalar in scalars_of(query) for name in columns_in(scalar)}
        self._skip = "return"
        self._open = 0
        self.body = FunctionWriter("")

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The arguments of the function, after ``sums``."""
        return tuple(self._accesses)

    def write(self, name: str, document: str) -> FunctionWriter:
        """The whole function."""
        self.body.document(document)
        for condition in self._query.filters:
            self._filter(condition)
        for step in self._query.sources:
            self._step(step, name)
        outputs = [simplified(output.scalar) for output in self._query.outputs]
        given = () if self._query.weight is None else (simplified(self._query.weight),)
        self._expressions.expect([*given, *outputs])
        self._weigh()
        keys = len(outputs) - len(self._values)
        collector = AccumulationWriter(self, self.body, self._globals, self._values, self._query.weight is not None)
        collector.write(outputs[:keys], outputs[keys:], self._same_row(outputs[:keys]))
        self.body.close()
        self.body.head = f"def {name}({', '.join(('sums', *self._accesses.values()))}):"
        return self.body

    def _same_row(self, keys: Sequence[Scalar]) -> str | None:
        """The variable of a row that has just these columns, in this order: then it is the key."""
        names = [key.name for key in keys if isinstance(key, Column)]
        for source in self._query.sources:
            if isinstance(source, RelationLoop) and source.split is None and len(names) == len(keys):
                fields = self._shapes.fields(source.relation)
                if names and names == [f"{source.alias}.{f.name}" for f in fields]:
                    return self._rows[source.alias]
        return None

    def _weigh(self) -> None:
        """Bind ``weight``: the given expression, or the product of the weights of all sources."""
        given = self._query.weight
        if given is not None:
            self.body.write(f"weight = {self.value(simplified(given))}{' or 0' if is_nullable(given) else ''}")
            return
        factors = [self._bound(f"{s.alias}.{WEIGHT}") for s in self._query.sources if isinstance(s, RelationLoop)]
        if factors != ["weight"]:
            self.body.write(f"weight = {' * '.join(factors) or 1}")

    # -- steps --------------------------------------------------------------------------------------------------

    def _step(self, step: Step, function: str) -> None:
        if self._open == MAX_LOOPS:
            self.body.enter(self._globals.function(f"{function}_further"))
            self._skip, self._open = "return", 0
        match step:
            case RelationLoop():
                self._source(step)
            case MapRead(range=None):
                self._read(step)
            case MapRead(range=Range() as range_):
                self._read_range(step, range_)
            case MapSeek():
                self._seek(step)
            case ArrayLoop():
                self._each(step)
        for condition in step.filters:
            self._filter(condition)

    def _source(self, source: RelationLoop) -> None:
        """Open the loop over ``source``, or find its one row."""
        row = self._rows[source.alias]
        fields = self._shapes.fields(source.relation)
        entry = self._entry_of(source)
        if self._is_whole(source, fields):
            self._find(source, fields, row, entry)
        else:
            rows = self._found(source, [f.name for f in fields])
            self.body.note_row(len(self.body.lines) + 1, source.relation, row)
            self._loop(f"for {row}, {entry} in {rows}:")
        self._places |= {f"{source.alias}.{f.name}": (row, place) for place, f in enumerate(fields)}

    def _loop(self, head: str) -> None:
        """Open a loop."""
        self.body.write(head)
        self.body.depth += 1
        self._skip = "continue"
        self._open += 1

    def _entry_of(self, source: RelationLoop) -> str:
        """The variable for the weight of the source's row, or for its entry where that has sums."""
        weight = f"{source.alias}.{WEIGHT}"
        if self._shapes.has_sums(source.relation):
            entry = self._names.give(f"{source.alias}_entry")
            places = self._shapes.places(source.relation)
            self._places |= {f"{source.alias}.{name}": (entry, place) for name, place in places.items()}
            return entry
        alone = len(self._query.sources) == 1 and self._query.weight is None
        self._columns[weight] = "weight" if alone else self._names.give(f"{source.alias}_weight")
        return self._columns[weight]

    def _is_whole(self, source: RelationLoop, fields: Sequence[Field]) -> bool:
        """True if the lookup is by the whole key of a map. Keys of another type may be equal but not identical."""
        keys = {name: key.type for name, key in source.lookup}
        own = source.relation in self._shapes.maps and source.version is Version.STATE
        return own and {f.name: f.type for f in fields} == keys

    def _find(self, source: RelationLoop, fields: Sequence[Field], row: str, entry: str) -> None:
        """The one entry that a lookup by the whole key can find."""
        entries = self._entries(source.relation)
        keys = [self._operand(key) for _, key in self._in_order(source, fields)]
        nulls = [f"{text} is None" for text, nullable in keys if nullable]
        if nulls:
            self.body.write(f"if {' or '.join(nulls)}:")
            self.body.write(f"    {self._skip}")
        self.body.write_row(f"{row} =", [text for text, _ in keys])
        self.body.note_row(len(self.body.lines), source.relation, row)
        self.body.write(f"{entry} = {entries}.get({row})")
        self.body.write(f"if {entry} is None:")
        self.body.write(f"    {self._skip}")

    def _found(self, source: RelationLoop, fields: Sequence[str]) -> str:
        """The expression for the weighted rows that the loop runs over."""
        word = "change" if source.version is Version.CHANGE else source.relation
        if source.split is not None:
            return self._part(source, source.split, fields)
        if source.range is not None:
            return self._between(source.relation, source.range, fields)
        if not source.lookup:
            return self._access(self._unnested(source, fields), word, f"{word}_rows")
        columns = [column for column, _ in source.lookup]
        positions = tuple(fields.index(column) for column in columns)
        access = Access(source.relation, source.version, AccessForm.INDEX, positions)
        index = self._access(access, f"{word}_by_{'_'.join(columns)}")
        return f"{index}.get({_key([self.settled(simplified(key)) for _, key in source.lookup])}, ())"

    def _unnested(self, source: RelationLoop, fields: Sequence[str]) -> Access:
        """The rows of a relation. If of an array of a change only a loop over its elements is read, equal elements of
        an old and a new row cancel out, since the query is linear in the rows."""
        rows = Access(source.relation, source.version)
        columns = {f"{source.alias}.{name}": place for place, name in enumerate(fields)}
        loops = [step for step in self._of.sources if isinstance(step, ArrayLoop) and _looped_over(step) in columns]
        if not rows.changes or self._of.weight is not None or len(loops) != 1:
            return rows
        read = [name for scalar in scalars_of(self._of) for name in columns_in(scalar)]
        (loop,) = loops
        array = _looped_over(loop)
        assert array is not None
        if read.count(array) != 1:
            return rows
        form = AccessForm.ELEMENTS if isinstance(loop.array, Column) else AccessForm.NUMBERED
        if form is AccessForm.NUMBERED:
            self._numbered[loop.alias] = array
        others = tuple(place for name, place in columns.items() if name in read and name != array)
        return replace(rows, form=form, positions=others, column=columns[array])

    def _between(self, map_: str, range_: Range, fields: Sequence[str]) -> str:
        """The expression for the entries of a map in a range of one of its keys."""
        access = Access(map_, Version.STATE, AccessForm.RANGE, column=fields.index(range_.column))
        order = self._access(access, f"{map_}_in_order_of_{range_.column}")
        ends = (self._end(bound) for bound in (range_.lower, range_.upper))
        return f"{order}.between({', '.join(f'{text}, {closed}' for text, closed, _ in ends)})"

    def _part(self, source: RelationLoop, split: Split, fields: Sequence[str]) -> str:
        """The expression for the rows of one part of a change."""
        seen = tuple(f.name for f in source.columns)
        key, fixed, looked = (tuple(fields.index(c) for c in columns) for columns in (split.key, split.fixed, seen))
        access = Access(source.relation, source.version, part=split.part, places=SplitColumns(key, fixed, looked))
        return self._access(access, split.part.value, f"{split.part.value}_{source.alias}")

    def _read(self, read: MapRead) -> None:
        """The entry of one key, or zeros."""
        entries = self._entries(read.map)
        keys = [self._operand(key) for _, key in self._in_order(read, self._shapes.fields(read.map))]
        found = f"{entries}.get({_row(text for text, _ in keys)}, {self._nothing(read.map)})"
        self._bind_sums(read, found, [text for text, nullable in keys if nullable])
        if self._shapes.has_sums(read.map):
            places = self._shapes.places(read.map)
            self._places |= {f"{read.alias}.{name}": (self._rows[read.alias], i) for name, i in places.items()}
        else:
            self._columns[f"{read.alias}.{WEIGHT}"] = self._rows[read.alias]

    def _nothing(self, map_: str) -> str:
        """The result of a read where there is no entry."""
        if not self._shapes.has_sums(map_):
            return "0"
        return self._globals.give(f"nothing in {map_}", zero_entry(self._shapes.maps[map_]))

    def _read_range(self, read: MapRead, range_: Range) -> None:
        """The sums over a range of keys."""
        order, prefix = self._order(read, range_.column)
        ends = [self._end(range_.lower), self._end(range_.upper)]
        texts = [f"{text}, {closed}" for text, closed, _ in ends]
        numbers = self._numbers(read, self._used)
        zeros = tuple(self._shapes.zeros(read.map)[number] for number in numbers.values())
        nothing = self._globals.give("zeros", zeros, repr(zeros))
        found = f"{order}.between({prefix}, {_row(map(str, numbers.values()))}, {', '.join(texts)})"
        self._bind_sums(read, found, [name for *_, name in ends if name], nothing)
        for place, name in enumerate(numbers):
            self._places[name] = (self._rows[read.alias], place)

    def _numbers(self, step: MapRead | MapSeek, used: Set[str]) -> dict[str, int]:
        """The numbers that are used of an ordered map, as columns with their positions."""
        names = [f"{step.alias}.{name}" for name in self._shapes.exact(step.map)]
        return {name: number for number, name in enumerate(names) if name in used}

    def _end(self, bound: RangeBound | None) -> tuple[str, bool, str]:
        """A bound as text, true if it is closed, and the variable that must not be NULL, if it can be."""
        if bound is None:
            return "None", False, ""
        text, nullable = self._operand(bound.scalar)
        return text, bound.closed, text if nullable else ""

    def _bind_sums(self, read: MapRead, found: str, nullable: Sequence[str], nothing: str = "") -> None:
        if nullable:
            null = " or ".join(f"{text} is None" for text in nullable)
            found = f"{nothing or self._nothing(read.map)} if {null} else {found}"
        self.body.write(f"{self._rows[read.alias]} = {found}")

    def _seek(self, seek: MapSeek) -> None:
        """The key at which the condition changes."""
        order, prefix = self._order(seek, seek.column.name)
        condition = simplified(seek.condition)
        running = self._numbers(seek, columns_in(condition))
        self._bind(condition, but=running.keys())
        for column in running:
            self._columns[column] = self._names.give(column)
        sums = ", ".join(self._columns[column] for column in running)
        test = tidy(self._expressions.condition(condition))
        for column in running:
            del self._columns[column]
        found = self._columns[f"{seek.alias}.{seek.column.name}"] = self._rows[seek.alias]
        asked = f"{prefix}, {_row(map(str, running.values()))}"
        self.body.write(f"{found} = {order}.{'first' if seek.after else 'last'}({asked}, lambda {sums}: {test})")

    def _each(self, each: ArrayLoop) -> None:
        """Open the loop over the elements of an array."""
        numbered = self._numbered.get(each.alias)
        array = self.value(simplified(each.array)) if numbered is None else self._bound(numbered)
        if not array.isidentifier():
            array = self.hoist(each.array, array)
        names = [self._names.give(f.name, f"{each.alias}.{f.name}") for f in each.columns]
        self._columns |= {f"{each.alias}.{f.name}": name for f, name in zip(each.columns, names, strict=True)}
        self._loop(f"for {', '.join(names)} in {_elements(array, len(names) == 2, each.outer)}:")

    def _order(self, step: MapRead | MapSeek, column: str) -> tuple[str, str]:
        """The ordered index that a step needs, and the key under which it looks there."""
        fields = self._shapes.fields(step.map)
        names = [f.name for f in fields]
        prefix = self._in_order(step, fields)
        place = names.index(column)
        positions = tuple(names.index(name) for name, _ in prefix)
        floats = isinstance(fields[place].type, t.Floating)
        access = Access(step.map, Version.STATE, AccessForm.ORDER, positions, place, floats)
        return self._access(access, f"{step.map}_ordered_by_{column}"), _key(
            [self.settled(simplified(key)) for _, key in prefix]
        )

    def _in_order(self, step: Step, fields: Sequence[Field]) -> list[tuple[str, Scalar]]:
        """The lookup in the order of the columns."""
        keys = dict(step.lookup)
        return [(f.name, keys[f.name]) for f in fields if f.name in keys]

    def _entries(self, map_: str) -> str:
        return self._access(Access(map_, Version.STATE, AccessForm.ENTRIES), map_, f"{map_}_entries")

    def _access(self, access: Access, *wishes: str) -> str:
        if access not in self._accesses:
            plain = access.changes and access.form is AccessForm.ROWS and access.part is None
            self._accesses[access] = "change" if plain else self._names.give(*wishes)
        return self._accesses[access]

    def _filter(self, condition: Scalar) -> None:
        condition = simplified(condition)
        self._bind(condition)
        self.body.write(f"if {tidy(f'not ({self._expressions.condition(condition)})')}:")
        self.body.write(f"    {self._skip}")

    # -- expressions --------------------------------------------------------------------------------------------

    def value(self, scalar: Scalar) -> str:
        """The text of a value."""
        self._bind(scalar)
        return tidy(self._expressions.value(scalar, self.hoist))

    def settled(self, scalar: Scalar) -> str:
        """The text of a value with the one representative of NaN and of zero."""
        self._bind(scalar)
        return tidy(self._expressions.settled(scalar, self.hoist))

    def condition(self, scalar: Scalar) -> str:
        """A text that is true where the condition is."""
        self._bind(scalar)
        return tidy(self._expressions.condition(scalar, self.hoist))

    def hoist(self, scalar: Scalar, text: str) -> str:
        """The variable that holds a value, computed on a line of its own."""
        name = self._names.give(suggested_name(scalar))
        self.body.write(f"{name} = {tidy(text)}")
        return name

    def _operand(self, scalar: Scalar) -> tuple[str, bool]:
        """A value to look up by, and true if it may be NULL: then it is a variable."""
        scalar = simplified(scalar)
        text = self.settled(scalar)
        if is_nullable(scalar) and not text.isidentifier():
            text = self.hoist(scalar, text)
        return text, is_nullable(scalar)

    def _bind(self, scalar: Scalar, but: Collection[str] = ()) -> None:
        """Give every column of ``scalar`` its local variable, on a line before its first use."""
        unbound = columns_in(scalar) - self._columns.keys() - set(but)
        for column in sorted(unbound, key=self._places.__getitem__):
            self._bound(column)

    def _bound(self, column: str) -> str:
        if column not in self._columns:
            row, place = self._places[column]
            name = self._names.give(column.rpartition(".")[2], column)
            self.body.write(f"{name} = {row}[{place}]")
            self._columns[column] = name
        return self._columns[column]


def _looped_over(each: ArrayLoop) -> str | None:
    """The column over whose elements a loop runs, without their positions and without a row for no elements."""
    match each:
        case ArrayLoop(array=Column(name) | Call("numbered", (Column(name),)), columns=(_,), outer=False):
            return name
    return None


def _elements(array: str, places: bool, outer: bool) -> str:
    """The iterable of a loop over an array: its elements, or positions and elements; with ``outer`` at least one.

    >>> _elements("tags", places=False, outer=True), _elements("tags", places=True, outer=False)
    ('tags or (None,)', 'enumerate(tags or ())')
    """
    if not places:
        return f"{array} or {'(None,)' if outer else '()'}"
    return f"enumerate({array}) if {array} else ((None, None),)" if outer else f"enumerate({array} or ())"


def _row(texts: Iterable[str]) -> str:
    """A tuple.

    >>> _row("a"), _row("ab")
    ('(a,)', '(a, b)')
    """
    parts = list(texts)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _key(texts: Sequence[str]) -> str:
    """A key as indexes have it: the bare value of one column, a tuple of several."""
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
