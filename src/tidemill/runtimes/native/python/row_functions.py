"""Functions of one row of a map, as Python: its sort key in its partition, and the values that are read of it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from tidemill.algebra.aggregates.partial_sums import PartialSum
from tidemill.algebra.expressions.ordering import SortOrder, descending_key
from tidemill.algebra.expressions.scalars import Column, Scalar, column, is_nullable
from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import TopK
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.relational.windows import WindowCall
from tidemill.model import types as t
from tidemill.model.types import Field, Type
from tidemill.program.stages import PartitionEmission
from tidemill.runtimes.native.python.accumulation import zero_sum
from tidemill.runtimes.native.python.expressions import PythonExpressions, tidy
from tidemill.runtimes.native.python.function_writer import FunctionWriter
from tidemill.runtimes.native.python.identifiers import GlobalNames
from tidemill.runtimes.native.python.scalar_properties import simplified
from tidemill.runtimes.native.state import fixed_point


def total_order(fields: Sequence[Field], width: int, order: Sequence[SortOrder]) -> tuple[SortOrder, ...]:
    """``order`` followed by all other columns, so that no two rows of a partition are equal; the first ``width``
    columns are the partition."""
    named = {term.scalar.name for term in order if isinstance(term.scalar, Column)}
    return (*order, *(SortOrder(column(f)) for f in fields[width:] if f.name not in named))


def write_sort_key(
    name: str, map_: str, fields: Sequence[Field], order: Sequence[SortOrder], known: GlobalNames
) -> FunctionWriter:
    """The function that gives the sort key of a row: a tuple that sorts as rows do, with the row as its last item.

    NULLs need no wrapping: an item before the value tells if it is NULL, so NULLs are only ever compared with each
    other.
    """
    function = _RowFunction(name, map_, fields, known)
    function.body.document(f"Where a row of {map_} stands in its part.")
    function.bind(term.scalar for term in order)
    items = [item for term in order for item in _items(term, function.value(term.scalar), known)]
    function.body.write_row("return", [*items, "row"])
    return function.body


def write_sort_key_prefix(name: str, term: SortOrder, known: GlobalNames) -> FunctionWriter:
    """The function that gives the items of a sort key that come from a value of ``term``, its first term."""
    known.enter().take("value")
    body = FunctionWriter(f"def {name}(value):")
    body.document("Where rows with a value stand in their part.")
    body.write_row("return", _items(term, "value", known))
    return body


def sort_key_width(order: Sequence[SortOrder]) -> int:
    """The number of items of a sort key that come from ``order``."""
    return sum(len(_items(term, "value", GlobalNames())) for term in order)


def _items(term: SortOrder, value: str, known: GlobalNames) -> list[str]:
    """The items that ``value`` adds to a sort key, in the order of ``term``."""
    nullable = not isinstance(term.scalar, Column) or term.scalar.nullable
    null = [f"{value} is not None" if term.nulls_first else f"{value} is None"] if nullable else []
    if isinstance(term.scalar.type, t.Floating):
        # NaN is the greatest number. In Python it does not equal itself, so zero stands in for it.
        null.append(f"{value} {'==' if term.descending else '!='} {value}")
    sortable = _sortable(term.scalar.type, value, known)
    if term.descending:
        sortable = _descending(term.scalar.type, sortable, known)
    return [*null, f"None if {value} is None else {sortable}" if nullable and sortable != value else sortable]


def _sortable(type_: Type, value: str, known: GlobalNames) -> str:
    match type_:
        case t.Floating():
            return f"(0.0 if {value} != {value} else {value})"
        case t.Array() | t.Map() | t.Struct():
            return f"{known.give('order_key', order_key)}({value})"
    return value


def _descending(type_: Type, value: str, known: GlobalNames) -> str:
    match type_:
        case t.Integral() | t.Decimal() | t.Floating() | t.AnsiInterval():
            return f"-{value}"
        case t.Boolean():
            return f"not {value}"
        case t.Date():
            return f"{known.give('first day', datetime.date.min)} - {value}"
        case t.Timestamp():
            return f"{known.give('first moment', datetime.datetime.min)} - {value}"
    return f"{known.give('falling', descending_key)}({value})"


def write_output_row(name: str, parts: PartitionEmission, known: GlobalNames) -> FunctionWriter:
    """The function that turns a row of a top-k, of a window or of a match into the output row, or into None."""
    fields = parts.rows.fields
    function = _RowFunction(name, parts.source, fields, known)
    kind = {TopK: "a top-k", Match: "a match"}.get(type(parts.rows), "a window")
    function.body.document(f"What comes of a row of {kind} over {parts.source}, or None where nothing does.")
    return _row_where(function, parts.condition, [output.scalar for output in parts.outputs])


def write_arguments(
    name: str, map_: str, fields: Sequence[Field], call: WindowCall, known: GlobalNames
) -> FunctionWriter:
    """The function that gives the arguments of ``call`` in a row, or None if its FILTER excludes it."""
    function = _RowFunction(name, map_, fields, known)
    function.body.document(f"What {call.function} sees of a row of {map_}.")
    return _row_where(function, call.filter, call.arguments)


def write_values(
    name: str, map_: str, fields: Sequence[Field], scalars: Sequence[Scalar], known: GlobalNames
) -> FunctionWriter:
    """The function that gives the values of some expressions in a row."""
    function = _RowFunction(name, map_, fields, known)
    function.body.document(f"What is looked at in a row of {map_}.")
    return _row_where(function, None, scalars)


def _row_where(function: _RowFunction, condition: Scalar | None, scalars: Sequence[Scalar]) -> FunctionWriter:
    """Return the row of some values, or None if the condition is not true."""
    if condition is not None:
        function.bind([condition])
        function.body.write(f"if {tidy(f'not ({function.condition(condition)})')}:")
        function.body.write("    return None")
    function.bind(scalars)
    function.body.write_row("return", [tidy(function.value(scalar)) for scalar in scalars])
    return function.body


def write_condition(
    name: str, what: str, fields: Sequence[Field], condition: Scalar, known: GlobalNames
) -> FunctionWriter:
    """The function that tests a condition on a row."""
    function = _RowFunction(name, what, fields, known)
    function.body.document(f"Whether a row can be {what}, given what is looked at.")
    function.bind([condition])
    function.body.write(f"return {tidy(function.condition(condition))}")
    return function.body


def write_addends(
    name: str, map_: str, fields: Sequence[Field], summed: Sequence[PartialSum], known: GlobalNames
) -> FunctionWriter:
    """The function that gives the addends of a row of weight 1. A DOUBLE adds four numbers (``state.fixed_point``)."""
    function = _RowFunction(name, map_, fields, known)
    function.body.document(f"What a row of {map_} adds to running sums.")
    items = []
    for part in summed:
        function.bind([part.argument])
        amount = function.local("amount", function.value(part.argument))
        if isinstance(part.of, t.Double):
            items.append(f"*{known.give('scaled', fixed_point.scaled)}({amount})")
        else:
            nothing = known.constant(zero_sum(part.of), part.of)
            items.append(f"{nothing} if {amount} is None else {amount}" if is_nullable(part.argument) else amount)
    function.body.write_row("return", items)
    return function.body


def write_total(name: str, aggregate: str, value: Scalar, sums: Sequence[Column], known: GlobalNames) -> FunctionWriter:
    """The function that gives an aggregate from the weight and the ``sums`` of its rows, which ``value`` reads."""
    names = known.enter()
    body, given = FunctionWriter(""), ["weight"]
    columns = {"weight": "weight"}
    for total in sums:
        local = columns[total.name] = names.give(total.name)
        if isinstance(total.type, t.Double):
            parts = [names.give(f"{local}_{part}") for part in ("units", "nan", "inf", "ninf")]
            given += parts
            body.write(f"{local} = {known.give('unscaled', fixed_point.unscaled)}({', '.join(parts)})")
        else:
            given.append(local)
    body.head = f"def {name}({', '.join(given)}):"
    body.lines.insert(0, f'    """{aggregate.upper()} of rows, from their sums."""')
    body.write(f"return {tidy(PythonExpressions(columns, known, names).settled(simplified(value)))}")
    return body


class _RowFunction:
    """A function of ``row`` under construction."""

    def __init__(self, name: str, map_: str, fields: Sequence[Field], known: GlobalNames) -> None:
        self._names = known.enter()
        self._names.take("row")
        self._fields = fields
        self._columns: dict[str, str] = {}
        self._expressions = PythonExpressions(self._columns, known, self._names)
        self.body = FunctionWriter(f"def {name}(row):")
        self.body.rows.append((0, map_, "row"))

    def bind(self, scalars: Iterable[Scalar]) -> None:
        """Bind every column that is used and not yet bound to a local variable."""
        used = {name for scalar in scalars for name in columns_in(scalar)}
        for place, field in enumerate(self._fields):
            if field.name in used and field.name not in self._columns:
                local = self._columns[field.name] = self._names.give(field.name.rpartition(".")[2], field.name)
                self.body.write(f"{local} = row[{place}]")

    def local(self, wish: str, text: str) -> str:
        """The variable that holds a value, computed on a line of its own unless it already is."""
        if text.isidentifier():
            return text
        name = self._names.give(wish)
        self.body.write(f"{name} = {tidy(text)}")
        return name

    def value(self, scalar: Scalar) -> str:
        """The text of a value that can be a part of a row."""
        return self._expressions.settled(simplified(scalar))

    def condition(self, scalar: Scalar) -> str:
        """A text that is true where the condition is."""
        return self._expressions.condition(simplified(scalar))
