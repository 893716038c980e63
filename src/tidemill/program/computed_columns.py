"""Columns that a view has more than before, as formulas over those that it had.

Where all else is the same, such a view keeps its rows as they are stored, and computes the new columns of them as they
are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Literal, Named, Scalar
from tidemill.changes.formulas import COMPARISONS, KERNELS, Formula
from tidemill.model import types as t
from tidemill.model.types import Field, Type
from tidemill.program.equal_state import equal_maps, has_equal_columns
from tidemill.program.stages import GroupEmission, Program, Stage
from tidemill.program.statements import Add

__all__ = ["computed_columns"]

TYPES: Mapping[Type, str] = {
    t.BOOLEAN: "bool",
    t.TINYINT: "int8",
    t.SMALLINT: "int16",
    t.INT: "int32",
    t.BIGINT: "int64",
    t.DOUBLE: "double",
    t.STRING: "string",
}
"""The types of what formulas compute, as Arrow names them."""

WHOLE_NUMBERS = (t.TINYINT, t.SMALLINT, t.INT, t.BIGINT)

ARITHMETIC = {"add", "subtract", "multiply", "negate"}


def computed_columns(old: Program, new: Program) -> dict[str, Formula] | None:
    """The columns that a view has more than before, each as a formula over the others; None if more has changed."""
    before, after = old.stages[-1], new.stages[-1]
    kept = [f.name for f in before.output]
    same = {f.name: (f.type, f.char) for f in after.output if f.name in kept}
    if same != {f.name: (f.type, f.char) for f in before.output} or not has_equal_columns(old, new, kept):
        return None
    if {map_.name for map_ in (*before.maps, *after.maps)} - equal_maps(old, new):
        return None
    found: dict[str, Formula] = {}
    for field in after.output:
        if field.name not in same:
            ways = [_formula_of(field, outputs, kept) for outputs in _outputs(after)]
            if not ways or ways[0] is None or any(way != ways[0] for way in ways):
                return None
            found[field.name] = ways[0]
    return found


def _outputs(stage: Stage) -> Iterator[Sequence[Named]]:
    """The columns of a stage's rows, in each of the ways in which these are made."""
    if isinstance(stage.finish, GroupEmission):
        yield stage.finish.outputs
        return
    for add in (*stage.load, *(one for trigger in stage.triggers for one in trigger.statements)):
        if isinstance(add, Add):
            yield add.query.outputs


def _formula_of(field: Field, outputs: Sequence[Named], kept: Sequence[str]) -> Formula | None:
    """A column as a formula over those that are kept; None if it is none, or of a type that none computes."""
    known = [(one.scalar, one.name) for one in outputs if one.name in kept and not isinstance(one.scalar, Literal)]
    scalar = next(one.scalar for one in outputs if one.name == field.name)
    return None if field.char is not None else _formula(scalar, known)


def _formula(scalar: Scalar, known: Sequence[tuple[Scalar, str]]) -> Formula | None:
    for one, name in known:
        if one == scalar:
            return ["column", name]
    if scalar.type not in TYPES:
        return None
    kind = TYPES[scalar.type]
    match scalar:
        case Literal(value):
            return ["value", kind, value] if _is_plain(value) else None
        case Case(branches, default):
            return _applied("case", kind, [one for branch in branches for one in branch] + [default], known)
        case Cast(given, of, lenient=False) if given.type in WHOLE_NUMBERS and _is_wider(of, given.type):
            return _applied("cast", kind, [given], known)
        case Call(function, arguments) if _is_known(function, scalar.type, [one.type for one in arguments]):
            return _applied(function, kind, arguments, known)
    return None


def _applied(
    kernel: str, kind: str, arguments: Sequence[Scalar], known: Sequence[tuple[Scalar, str]]
) -> Formula | None:
    parts = [_formula(one, known) for one in arguments]
    return None if any(part is None for part in parts) else [kernel, kind, *parts]


def _is_plain(value: Any) -> bool:
    """True if JSON has a value as it is."""
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and value - value == 0)


def _is_wider(to: Type, of: Type) -> bool:
    return to == t.DOUBLE or (to in WHOLE_NUMBERS and WHOLE_NUMBERS.index(to) >= WHOLE_NUMBERS.index(of))


def _is_known(function: str, of: Type, types: Sequence[Type]) -> bool:
    """True if a kernel gives what a function does with arguments of some types."""
    if function in COMPARISONS:
        return all(one in (*WHOLE_NUMBERS, t.DATE) for one in types)
    if function in ARITHMETIC:
        return all(one == of and one in (*WHOLE_NUMBERS, t.DOUBLE) for one in types)
    if function == "divide":
        return all(one == of == t.DOUBLE for one in types)
    if function in ("div", "remainder"):
        return all(one == types[0] and one in WHOLE_NUMBERS for one in types)
    if function in ("and", "or", "not"):
        return all(one == t.BOOLEAN for one in types)
    return function in KERNELS and (function != "coalesce" or all(one == of for one in types))
