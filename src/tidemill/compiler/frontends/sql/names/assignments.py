"""``SET s.a = 1, s.b.c = 2``: values for members of a column, and the whole column that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Call, Literal, Scalar
from tidemill.algebra.values.casts import can_cast
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.errors import ParseError, TextLocation, TypeMismatch
from tidemill.model.types import STRING, Struct, Type

Path = tuple[str, ...]
"""A column, and the names of members down to the one that is meant."""


def column_path(parts: Path, alias: str, columns: Sequence[str]) -> Path:
    """The path that a name in SET means: the table's name or alias may come first, as in ``t.s.a``."""
    qualified = len(parts) > 1 and parts[0] == alias and (parts[1] in columns or parts[0] not in columns)
    return parts[1:] if qualified else parts


def assigned_value(
    of: Type, current: Scalar, values: Mapping[Path, Scalar], name: str, place: Callable[[], TextLocation]
) -> Scalar:
    """A column of type ``of`` with some of its members replaced; a column that was NULL becomes a struct.

    ``values`` are by the path below the column; an empty path has a value for all of it.
    """
    if () in values:
        if len(values) > 1:
            raise ParseError(f'"{name}" is assigned as a whole and in part', where=place())
        return _converted(values[()], of, name, place)
    if not isinstance(of, Struct):
        raise TypeMismatch(f'"{name}" is {of}, and has no members to assign', where=place(), hint="Set all of it.")
    members = [field.name for field in of.fields]
    for path in values:
        if path[0] not in members:
            raise unknown_name("member", path[0], members, place())
    parts: list[Scalar] = []
    for field in of.fields:
        below = {path[1:]: value for path, value in values.items() if path[0] == field.name}
        old = call("get_field", current, Literal(field.name, STRING))
        made = assigned_value(field.type, old, below, f"{name}.{field.name}", place) if below else old
        parts += [Literal(field.name, STRING), made]
    return Call("named_struct", tuple(parts), of)


def _converted(value: Scalar, of: Type, name: str, place: Callable[[], TextLocation]) -> Scalar:
    if not can_cast(value.type, of):
        raise TypeMismatch(f'"{name}" is {of}, and {value.type} does not convert', where=place())
    return convert(value, of)
