"""Name resolution and checks of ODL: from declarations to classes, with line and column of every error.

Classes may refer to those that come later. Names do not depend on case.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from tidemill.compiler.frontends.odl.parse import (
    ClassDeclaration,
    EnumDeclaration,
    MemberDeclaration,
    ModuleDeclaration,
    OdlParser,
    PlacedName,
    TypeDeclaration,
)
from tidemill.compiler.frontends.text.names import RESERVED_COLUMNS
from tidemill.model.classes import OID, Attribute, ObjectClass, ObjectSchema
from tidemill.model.errors import NameTaken, ParseError, UnknownName, Unsupported
from tidemill.model.types import BIGINT, STRING

__all__ = ["read_odl"]

T = TypeVar("T")


def read_odl(text: str, name: str = "odl") -> ObjectSchema:
    """The classes of a module; ``name`` is the name of the text in errors.

    >>> schema = read_odl("module m { class part (extent Parts key id) { attribute long id; attribute part of; }; };")
    >>> print(schema.table("part"))
    Table(name='parts', ...
    >>> read_odl("module m { class part extends thing { }; };")
    Traceback (most recent call last):
    tidemill.model.errors.UnknownName: there is no class "thing"
      odl:1:31   thing { }; };
                 ^^^^^
    hint: Classes: part.
    """
    return _Resolver(OdlParser(text, name).module()).schema()


class _Resolver:
    """Resolves names, and refuses unknown ones."""

    def __init__(self, module: ModuleDeclaration) -> None:
        self._module = module
        self._enums: Mapping[str, EnumDeclaration] = _unique(((e.name, e) for e in module.enums), "enum")
        self._classes: Mapping[str, ClassDeclaration] = _unique(((c.name, c) for c in module.classes), "class")
        for enum in module.enums:
            if enum.name.text in self._classes:
                raise NameTaken(f'"{enum.name.text}" is a class already', where=enum.name.place)

    def schema(self) -> ObjectSchema:
        """The module, checked as a whole."""
        read = {name: self._class(self._classes[name]) for name in self._parents_first()}
        schema = ObjectSchema(self._module.name.text, read)
        for name, written in self._classes.items():
            self._check_members(schema, written)
            self._check_keys(schema, written)
            for member in written.members:
                if member.inverse is not None:
                    self._check_inverse(schema, name, member, *member.inverse)
        self._check_tables(schema)
        return schema

    def _parents_first(self) -> Iterator[str]:
        """The names of the classes, each after the one that it extends; otherwise as they are written."""
        done: set[str] = set()
        for name in self._classes:
            line: list[str] = []
            above: str | None = name
            while above is not None and above not in done:
                parent = self._classes[above].parent
                if parent is not None and parent.text not in self._classes:
                    raise self._unknown("class", parent, self._classes, "Classes")
                if above in line:
                    assert parent is not None
                    raise ParseError(
                        f'class "{above}" extends itself',
                        where=parent.place,
                        detail=f"The cycle is {', '.join(line[line.index(above) :])}.",
                    )
                line.append(above)
                above = parent.text if parent is not None else None
            done.update(line)
            yield from reversed(line)

    def _class(self, written: ClassDeclaration) -> ObjectClass:
        members = _unique(((m.name, m) for m in written.members), "attribute", f' of class "{written.name.text}"')
        return ObjectClass(
            written.name.text,
            tuple(self._attribute(member) for member in members.values()),
            written.parent.text if written.parent is not None else None,
            written.extent.text if written.extent is not None else None,
            tuple(tuple(part.text for part in key) for key in written.keys),
        )

    def _attribute(self, member: MemberDeclaration) -> Attribute:
        kind, name = member.type, member.name.text
        if name in (OID, *RESERVED_COLUMNS):
            raise NameTaken(
                f'an attribute cannot be called "{name}"',
                where=member.name.place,
                detail="Tables of objects have a system column of that name.",
            )
        if kind.value is not None:
            return self._valued(member, kind, kind.among)
        assert kind.name is not None
        if kind.name.text in self._enums:
            return self._valued(member, kind, self._enums[kind.name.text].among)
        if kind.name.text not in self._classes:
            raise self._unknown("type or class", kind.name, (*self._classes, *self._enums), "Classes and enums")
        inverse = member.inverse[1].text if member.inverse is not None else None
        return Attribute(name, BIGINT, kind.name.text, kind.collection, inverse)

    def _valued(self, member: MemberDeclaration, kind: TypeDeclaration, among: tuple[str, ...]) -> Attribute:
        if member.inverse is not None:
            raise ParseError(
                f'relationship "{member.name.text}" does not refer to a class',
                where=kind.place,
                hint="A relationship is between objects; declare values with attribute.",
            )
        return Attribute(member.name.text, kind.value or STRING, None, kind.collection, None, among)

    def _check_members(self, schema: ObjectSchema, written: ClassDeclaration) -> None:
        """No attribute may have the name of an inherited one."""
        if written.parent is None:
            return
        inherited = schema.attributes(written.parent.text)
        for member in written.members:
            if member.name.text in inherited:
                above = schema.declares(written.parent.text, member.name.text)
                raise NameTaken(
                    f'class "{written.name.text}" has an attribute "{member.name.text}" already',
                    where=member.name.place,
                    detail=f'It is inherited from class "{above}".',
                )

    def _check_keys(self, schema: ObjectSchema, written: ClassDeclaration) -> None:
        attributes = schema.attributes(written.name.text)
        for key in written.keys:
            if written.extent is None:
                raise Unsupported(
                    f'class "{written.name.text}" has a key and no extent',
                    where=key[0].place,
                    hint="A key identifies the objects of an extent: name one, as in (extent Parts key id).",
                )
            for part in key:
                if part.text not in attributes:
                    raise self._unknown("attribute", part, attributes, f'Attributes of class "{written.name.text}"')
                if attributes[part.text].collection is not None:
                    raise Unsupported(f'a key cannot have the collection "{part.text}"', where=part.place)

    def _check_inverse(
        self, schema: ObjectSchema, owner: str, member: MemberDeclaration, home: PlacedName, inverse: PlacedName
    ) -> None:
        """The inverse must be a relationship of the target class that has this one as its inverse."""
        target = schema.attributes(owner)[member.name.text].target
        assert target is not None
        if home.text not in self._classes:
            raise self._unknown("class", home, self._classes, "Classes")
        if all(above.name != home.text for above in schema.line(target)):
            raise ParseError(
                f'relationship "{member.name.text}" has class "{target}" as its target, but its inverse is elsewhere',
                where=home.place,
                hint=f"Say inverse {target}::{inverse.text}.",
            )
        back = schema.attributes(home.text).get(inverse.text)
        if back is None:
            raise self._unknown(
                "attribute", inverse, schema.attributes(home.text), f'Attributes of class "{home.text}"'
            )
        if (back.target, back.inverse) != (owner, member.name.text):
            told = f"{back.target}::{back.inverse}" if back.inverse is not None else "nothing"
            raise ParseError(
                f'the inverse of "{owner}::{member.name.text}" does not point back',
                where=inverse.place,
                detail=f'"{home.text}::{inverse.text}" is the inverse of {told}.',
                hint=f"Declare it as a relationship with {owner}, inverse {owner}::{member.name.text}.",
            )

    def _check_tables(self, schema: ObjectSchema) -> None:
        """Each class needs a table of its own name."""
        taken: dict[str, str] = {}
        for name, written in self._classes.items():
            if not schema.is_stored(name):
                continue
            table = schema.table_name(name)
            if table in taken:
                place = written.extent.place if written.extent is not None else written.name.place
                raise NameTaken(
                    f'"{table}" is the extent of class "{taken[table]}" already',
                    where=place,
                    hint="Use another name.",
                )
            taken[table] = name

    def _unknown(self, kind: str, name: PlacedName, known: Iterable[str], title: str) -> UnknownName:
        names = list(known)
        close = difflib.get_close_matches(name.text, names, n=1)
        hint = f'Did you mean "{close[0]}"?' if close else f"{title}: {', '.join(names) or 'none'}."
        return UnknownName(f'there is no {kind} "{name.text}"', where=name.place, hint=hint)


def _unique(pairs: Iterable[tuple[PlacedName, T]], kind: str, of: str = "") -> dict[str, T]:
    found: dict[str, T] = {}
    for name, what in pairs:
        if name.text in found:
            raise NameTaken(f'{kind} "{name.text}"{of} is declared twice', where=name.place)
        found[name.text] = what
    return found
