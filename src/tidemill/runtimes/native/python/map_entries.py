"""Entries of a map as Python: how sums are added to one, and how its output row is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tidemill.algebra.aggregates.partial_sums import LOW
from tidemill.algebra.expressions.scalars import Call, Case, Column, Literal, Scalar, is_nullable
from tidemill.algebra.relational.walk import columns_in, transform
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Type
from tidemill.program.maps import Map, RingField
from tidemill.program.stages import GroupEmission
from tidemill.runtimes.native.python.access import zero_entry
from tidemill.runtimes.native.python.expressions import PythonExpressions, tidy
from tidemill.runtimes.native.python.function_writer import FunctionWriter
from tidemill.runtimes.native.python.identifiers import GlobalNames, Identifiers
from tidemill.runtimes.native.python.scalar_properties import simplified
from tidemill.runtimes.native.state import double_sums


def write_combine(name: str, map_: Map, known: GlobalNames) -> FunctionWriter:
    """The function that adds sums to an entry. A DOUBLE has three places in an entry and two lists in the sums."""
    known.enter()
    body = FunctionWriter(f"def {name}(entry, sums):")
    body.document(f"An entry of {map_.name} with sums added to it.")
    body.write("return (")
    body.write("    entry[0] + sums[0],")
    place, summed = 1, 1
    for value in map_.values:
        if isinstance(value.type, t.Double):
            plus = known.give("plus", double_sums.plus)
            body.write(f"    *{plus}(*entry[{place}:{place + 3}], sums[{summed}], sums[{summed + 1}]),")
            place, summed = place + 3, summed + 2
        else:
            body.write(f"    entry[{place}] + sums[{summed}],")
            place, summed = place + 1, summed + 1
    body.write(")")
    return body


def write_finish(name: str, finish: GroupEmission, map_: Map, known: GlobalNames) -> FunctionWriter:
    """The function that turns an entry into its row, or into None if it has none.

    With multiset reads it takes their values as arguments; if rows repeat it also returns the multiplicity.
    """
    names = known.enter()
    for local in ("row", "times"):
        names.take(local)
    multiset_reads = {
        read.call.name: names.give(read.call.name.rpartition(".")[2], read.call.name) for read in finish.multiset_reads
    }
    body = FunctionWriter(f"def {name}({', '.join(('key', 'entry', *multiset_reads.values()))}):")
    body.document(f"The row of a key of {map_.name}, or None where it has none.")
    body.rows.append((0, map_.name, "key"))
    body.write("if entry is None:")
    if finish.always:
        nothing = known.give(f"nothing in {map_.name}", zero_entry(map_)) if map_.values else "0"
        body.write(f"    entry = {nothing}")
    else:
        body.write("    return None")
    columns = multiset_reads | _unpack_entry(names, body, map_, known, _read(finish))
    if not finish.always:
        body.write("if weight <= 0:")
        body.write("    return None")
    _unpack_key(names, body, map_, columns)
    _check_ranges(body, map_.values, columns, known)
    _write_row(finish, PythonExpressions(columns, known, names), body, _simplifier(map_, finish.always))
    return body


def write_changed_rows(name: str, finish: GroupEmission, map_: Map, known: GlobalNames) -> FunctionWriter | None:
    """The function that gives the changed rows of a map of rows, from what was touched; None if its rows are not made
    of keys alone.

    Such a row comes where its weight rises above zero, and goes where it falls back; it is made once.
    """
    if map_.values or finish.always or finish.multiset_reads or finish.times is not None or WEIGHT in _read(finish):
        return None
    names = known.enter()
    for local in ("touched", "net", "before", "after", "comes", "row"):
        names.take(local)
    body = FunctionWriter(f"def {name}(touched):")
    body.document(f"The rows that come and go with the entries of {map_.name}.")
    body.write("net = {}")
    body.write("for key, before, after in touched:")
    body.depth += 1
    body.note_row(len(body.lines), map_.name, "key")
    body.write("comes = after is not None and after > 0")
    body.write("if comes == (before is not None and before > 0):")
    body.write("    continue")
    columns: dict[str, str] = {}
    _unpack_key(names, body, map_, columns)
    expressions, told = PythonExpressions(columns, known, names), _simplifier(map_, False)
    if finish.condition is not None:
        body.write(f"if {tidy(f'not ({expressions.condition(told(finish.condition))})')}:")
        body.write("    continue")
    body.write_row("row =", [tidy(expressions.settled(told(output.scalar))) for output in finish.outputs])
    body.write("net[row] = net.get(row, 0) + (1 if comes else -1)")
    body.depth -= 1
    body.write("return net")
    return body


def _read(finish: GroupEmission) -> set[str]:
    """The columns that the expressions of ``finish`` read."""
    above = [scalar for scalar in (finish.condition, finish.times) if scalar is not None]
    return set().union(*map(columns_in, (*above, *(output.scalar for output in finish.outputs))))


def _unpack_entry(
    names: Identifiers, body: FunctionWriter, map_: Map, known: GlobalNames, read: set[str]
) -> dict[str, str]:
    """Bind the weight and the values, a DOUBLE rounded, and its low half if it is ``read``.

    Returns the local variable of each.
    """
    columns, places, seen = {WEIGHT: "weight"}, ["weight"], []
    for value in map_.values:
        local = columns[value.name] = names.give(value.name)
        places.append(local)
        if isinstance(value.type, t.Double):
            special = names.give(f"{local}_special")
            if value.name + LOW in read:
                columns[value.name + LOW] = names.give(f"{local}_low")
            places += [columns.get(value.name + LOW, "_"), special]
            seen.append(f"{local} = {known.give('seen', double_sums.seen)}({local}, {special})")
    body.write(f"{', '.join(places)} = entry")
    for line in seen:
        body.write(line)
    return columns


def _unpack_key(names: Identifiers, body: FunctionWriter, map_: Map, columns: dict[str, str]) -> None:
    for key in map_.keys:
        columns[key.name] = names.give(key.name.rpartition(".")[2], key.name)
    if map_.keys:
        locals_ = [columns[key.name] for key in map_.keys]
        body.write(f"{', '.join(locals_)}{',' if len(locals_) == 1 else ''} = key")


def _check_ranges(
    body: FunctionWriter, values: Sequence[RingField], columns: dict[str, str], known: GlobalNames
) -> None:
    """Sums are kept without bounds, so that the order of changes does not matter; output values must fit their type."""
    for value in values:
        if isinstance(value.type, t.Double):
            continue
        refuse = known.give(f"refuse {value.type}", partial(_refuse, value.type), value.type)
        total = columns[value.name]
        if isinstance(value.type, t.Decimal):
            body.write(f"if {total}.adjusted() >= {value.type.precision - value.type.scale}:")
        else:
            body.write(f"if not -2**63 <= {total} < 2**63:")
        body.write(f"    {refuse}({total})")


def _simplifier(map_: Map, always: bool) -> Callable[[Scalar], Scalar]:
    """Simplifies expressions over an entry by what has been checked before they are evaluated.

    Sums of BIGINT are not NULL and fit their type; and the weight is above 0, unless there is ``always`` a row.
    """
    sums = {value.name for value in map_.values if value.type == t.BIGINT}

    def known(part: Scalar) -> Scalar:
        match part:
            case Column(name=name) if name == WEIGHT or name in sums:
                return replace(part, nullable=False)
            case Call("bigint_checked", (Column(name=name) as total,)) if name in sums:
                return total
            case Case(branches=branches, default=default) if not always:
                possible = tuple(branch for branch in branches if not _is_weightless(branch[0]))
                return replace(part, branches=possible) if possible else default
            case Call("coalesce", (first, *_), of=of) if first.type == of and not is_nullable(first):
                return first
        return part

    return lambda scalar: simplified(transform(scalar, known))


def _is_weightless(condition: Scalar) -> bool:
    match condition:
        case Call("eq", (Column(name=name), Literal(value=0))):
            return name == WEIGHT
    return False


def _write_row(
    finish: GroupEmission, expressions: PythonExpressions, body: FunctionWriter, told: Callable[[Scalar], Scalar]
) -> None:
    if finish.condition is not None:
        body.write(f"if {tidy(f'not ({expressions.condition(told(finish.condition))})')}:")
        body.write("    return None")
    if finish.times is not None:
        body.write(f"times = {tidy(expressions.value(told(finish.times)))}")
        body.write("if not times or times < 0:")
        body.write("    return None")
    outputs = [tidy(expressions.settled(told(output.scalar))) for output in finish.outputs]
    if finish.times is None:
        body.write_row("return", outputs)
        return
    body.write_row("row =", outputs)
    body.write("return row, times")


def _refuse(type_: Type, total: Any) -> None:
    raise ArithmeticFault(f"a sum does not fit {type_}: {total}", hint="Convert its argument to DOUBLE.")
