"""The types that names stand for: enums, structs, type definitions and classes, with every error at its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidemill.compiler.frontends.odl.declarations import (
    ClassDeclaration,
    ConstantDeclaration,
    MemberDeclaration,
    NamedType,
    PlacedName,
    TypeDeclaration,
)
from tidemill.compiler.frontends.odl.parse import nested_collection
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.classes import Collection, Constant
from tidemill.model.coerce import coerce
from tidemill.model.errors import DataError, NameTaken, ParseError, TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Decimal, Field, Struct, Type

__all__ = ["Declared", "ResolvedType"]


@dataclass(frozen=True, slots=True)
class ResolvedType:
    """The type of an attribute: of a value, with its ``among`` names, or of objects of class ``target``."""

    value: Type
    target: str | None = None
    among: tuple[str, ...] = ()
    collection: Collection | None = None


@dataclass(frozen=True)
class Declared:
    """Everything that modules declare, by name, and the module of each name."""

    classes: Mapping[str, ClassDeclaration]
    types: Mapping[str, NamedType]
    constants: Mapping[str, ConstantDeclaration]
    modules: Mapping[str, str]

    def class_named(self, name: PlacedName, kind: str = "class") -> ClassDeclaration:
        """The class that a name stands for."""
        if name.text not in self.classes or not self._is_within(name):
            raise unknown_name(kind, str(name), self.classes, name.place)
        return self.classes[name.text]

    def _is_within(self, name: PlacedName) -> bool:
        return name.module is None or self.modules.get(name.text) == name.module

    def resolved(self, kind: TypeDeclaration, within: tuple[str, ...] = ()) -> ResolvedType:
        """A type as written; ``within`` are the type definitions that it is part of."""
        if kind.members is not None:
            return ResolvedType(self._struct(kind.members, within), None, (), kind.collection)
        if kind.value is not None:
            return ResolvedType(kind.value, None, kind.among, kind.collection)
        name = kind.name
        assert name is not None
        if name.text not in {**self.types, **self.classes} or not self._is_within(name):
            raise unknown_name("type or class", str(name), [*self.classes, *self.types], name.place)
        if name.text in self.classes:
            return ResolvedType(BIGINT, name.text, (), kind.collection)
        if name.text in within:
            raise ParseError(
                f'type "{name.text}" is part of itself', where=name.place, hint="Declare a class, and refer to it."
            )
        found = self.resolved(self.types[name.text].type, (*within, name.text))
        if kind.collection is not None and found.collection is not None:
            raise nested_collection(kind.place)
        return found if kind.collection is None else replace(found, collection=kind.collection)

    def _struct(self, members: Iterable[MemberDeclaration], within: tuple[str, ...]) -> Struct:
        fields: dict[str, Field] = {}
        for member in members:
            found, name = self.resolved(member.type, within), member.name.text
            if name in fields:
                raise NameTaken(f'the struct names "{name}" twice', where=member.name.place)
            if found.target is not None or found.collection is not None or found.among:
                raise Unsupported(
                    f'member "{name}" of a struct has to be a value',
                    where=member.type.place,
                    detail="References, collections and enums are checked in attributes of objects alone.",
                    hint="Declare a class in place of the struct, and refer to its objects.",
                )
            fields[name] = Field(name, found.value)
        return Struct(tuple(fields.values()))

    def constant(self, declared: ConstantDeclaration, within: tuple[str, ...] = ()) -> Constant:
        """The value of a constant, which may be that of another one."""
        kind, place = self.resolved(declared.type), declared.type.place
        module = self.modules[declared.name.text]
        if kind.collection is not None or kind.value not in (BIGINT, INT, DOUBLE, BOOLEAN, STRING, *_decimals(kind)):
            raise Unsupported(
                f'constant "{declared.name.text}" has to be a number, a text or a truth value', where=place
            )
        if declared.of is not None:
            other = self.constants.get(declared.of.text)
            if other is None or not self._is_within(declared.of) or declared.of.text in within:
                raise unknown_name("constant", str(declared.of), self.constants, declared.of.place)
            value = self.constant(other, (*within, declared.name.text, other.name.text)).value
            value = -value if declared.value else value
        else:
            value = _value(declared.value)
        try:
            return Constant(kind.value, coerce(value, kind.value, where=declared.name.text), module)
        except DataError:
            raise TypeMismatch(
                f'constant "{declared.name.text}" is not a {kind.value}', where=declared.name.place
            ) from None


def _decimals(kind: ResolvedType) -> tuple[Type, ...]:
    return (kind.value,) if isinstance(kind.value, Decimal) else ()


def _value(text: str) -> object:
    """A constant as it is written."""
    if text[0] in "\"'":
        inner = text[1:-1]
        return inner.replace("\\\\", "\0").replace("\\", "").replace("\0", "\\")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return float(text) if "." in text else int(text)
