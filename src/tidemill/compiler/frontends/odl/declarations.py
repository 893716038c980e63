"""The declarations of a module in ODL, as they are written: names are not resolved yet."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.model.classes import Collection
from tidemill.model.errors import TextLocation
from tidemill.model.types import Type


@dataclass(frozen=True, slots=True)
class PlacedName:
    """A name in lower case, and its place in the text; ``module`` stands before it in ``module::name``."""

    text: str
    place: TextLocation
    module: str | None = None

    def __str__(self) -> str:
        return self.text if self.module is None else f"{self.module}::{self.text}"


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    """A type as written: a value's, a struct's with its ``members``, or else the ``name`` of what is declared
    elsewhere; perhaps a collection of these."""

    place: TextLocation
    value: Type | None = None
    name: PlacedName | None = None
    among: tuple[str, ...] = ()
    collection: Collection | None = None
    members: tuple[MemberDeclaration, ...] | None = None


@dataclass(frozen=True, slots=True)
class MemberDeclaration:
    """An attribute, a member of a struct, or with ``inverse`` (a class and its attribute) a relationship."""

    name: PlacedName
    type: TypeDeclaration
    inverse: tuple[PlacedName, PlacedName] | None = None


@dataclass(frozen=True, slots=True)
class ClassDeclaration:
    """A class or an interface as written."""

    name: PlacedName
    parent: PlacedName | None
    interfaces: tuple[PlacedName, ...]
    extent: PlacedName | None
    keys: tuple[tuple[PlacedName, ...], ...]
    members: tuple[MemberDeclaration, ...]
    is_interface: bool = False


@dataclass(frozen=True, slots=True)
class NamedType:
    """An enum, a struct or a type definition: another name for a type."""

    name: PlacedName
    type: TypeDeclaration


@dataclass(frozen=True, slots=True)
class ConstantDeclaration:
    """``const type name = value``; the value of another constant by its name, or else a text or number as written."""

    name: PlacedName
    type: TypeDeclaration
    value: str
    of: PlacedName | None


@dataclass(frozen=True, slots=True)
class ModuleDeclaration:
    """A module as written."""

    name: PlacedName
    classes: tuple[ClassDeclaration, ...]
    types: tuple[NamedType, ...]
    constants: tuple[ConstantDeclaration, ...]
