"""Name resolution and checks of ODL: from declarations to classes, with line and column of every error.

Classes may refer to those that come later. Names do not depend on case.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tidemill.compiler.frontends.odl.declarations import (
    ClassDeclaration,
    ConstantDeclaration,
    MemberDeclaration,
    ModuleDeclaration,
    NamedType,
    PlacedName,
)
from tidemill.compiler.frontends.odl.parse import OdlParser
from tidemill.compiler.frontends.odl.types import Declared
from tidemill.compiler.frontends.text.names import RESERVED_COLUMNS
from tidemill.model.classes import OID, Attribute, ObjectClass, ObjectSchema
from tidemill.model.errors import NameTaken, ParseError, UnknownName, Unsupported

__all__ = ["modules_in", "read_odl"]

T = TypeVar("T")


def read_odl(text: str, name: str = "odl", beside: str = "") -> ObjectSchema:
    """The classes of the modules of a text, and of other ones ``beside``; errors call the text ``name``.

    >>> schema = read_odl("module m { class part (extent Parts key id) { attribute long id; attribute part of; }; };")
    >>> print(schema.table("part"))
    Table(name='parts', ...
    >>> read_odl("module m { class part extends thing { }; };")
    Traceback (most recent call last):
    tidemill.model.errors.UnknownName: there is no class "thing"
      odl:1:31   thing { }; };
                 ^^^^^
    hint: There is: part.
    """
    own = OdlParser(text, name).modules()
    known = {module.name.text for module in own}
    modules = [one for one in OdlParser(beside, name).modules() if one.name.text not in known] if beside else []
    return _Resolver([*modules, *own]).schema()


def modules_in(text: str, name: str = "odl") -> list[str]:
    """The names of the modules that a text declares.

    >>> modules_in("module a { }; module B { };")
    ['a', 'b']
    """
    return [module.name.text for module in OdlParser(text, name).modules()]


class _Resolver:
    """Resolves names, and refuses unknown ones."""

    def __init__(self, modules: Sequence[ModuleDeclaration]) -> None:
        names = _unique(((module.name, module) for module in modules), "module")
        self._name = ", ".join(names)
        self._classes = _unique(((one.name, one) for module in modules for one in module.classes), "class")
        types = _unique(((one.name, one) for module in modules for one in module.types), "type")
        constants = _unique(((one.name, one) for module in modules for one in module.constants), "constant")
        for name in [*(one.name for one in types.values()), *(one.name for one in constants.values())]:
            if name.text in self._classes or (name.text in types and name.text in constants):
                raise NameTaken(f'"{name.text}" is a class or a type already', where=name.place)
        owners = {one.name.text: module.name.text for module in modules for one in _declarations(module)}
        self._known = Declared(self._classes, types, constants, owners)

    def schema(self) -> ObjectSchema:
        """The modules, checked as a whole."""
        for kind in self._known.types.values():
            self._known.resolved(kind.type, (kind.name.text,))
        read = {name: self._class(self._classes[name]) for name in self._parents_first()}
        constants = {name: self._known.constant(one) for name, one in self._known.constants.items()}
        schema = ObjectSchema(self._name, read, constants)
        for name, written in self._classes.items():
            self._check_members(schema, written)
            self._check_keys(schema, written)
            for member in written.members:
                if member.inverse is not None:
                    self._check_inverse(schema, name, member, *member.inverse)
        self._check_tables(schema)
        return schema

    def _parents_first(self) -> Iterator[str]:
        """The names of the classes, each after those above it; otherwise as they are written."""
        done: set[str] = set()

        def visit(name: str, below: tuple[str, ...]) -> Iterator[str]:
            for above in self._above(self._classes[name]):
                if above.text in (*below, name):
                    raise self._cycle([*below, name][[*below, name].index(above.text) :])
                if above.text not in done:
                    yield from visit(above.text, (*below, name))
            if name not in done:
                done.add(name)
                yield name

        for name in self._classes:
            yield from visit(name, ())

    def _cycle(self, names: list[str]) -> ParseError:
        first, following = names[0], (names * 2)[1]
        place = next(above.place for above in self._above(self._classes[first]) if above.text == following)
        return ParseError(f'class "{first}" extends itself', where=place, detail=f"The cycle is {', '.join(names)}.")

    def _above(self, written: ClassDeclaration) -> Iterator[PlacedName]:
        """The class that one extends, and its interfaces."""
        if written.parent is not None:
            if self._known.class_named(written.parent).is_interface:
                raise ParseError(
                    f'"{written.parent}" is an interface',
                    where=written.parent.place,
                    hint=f"Say class {written.name.text} : {written.parent}.",
                )
            yield written.parent
        for name in written.interfaces:
            if not self._known.class_named(name, "interface").is_interface:
                hint = f"Say class {written.name.text} extends {name}."
                raise ParseError(f'"{name}" is a class', where=name.place, hint=None if written.is_interface else hint)
            yield name

    def _class(self, written: ClassDeclaration) -> ObjectClass:
        members = _unique(((m.name, m) for m in written.members), "attribute", f' of class "{written.name.text}"')
        return ObjectClass(
            written.name.text,
            tuple(self._attribute(member) for member in members.values()),
            written.parent.text if written.parent is not None else None,
            written.extent.text if written.extent is not None else None,
            tuple(tuple(part.text for part in key) for key in written.keys),
            tuple(name.text for name in written.interfaces),
            written.is_interface,
            self._known.modules[written.name.text],
        )

    def _attribute(self, member: MemberDeclaration) -> Attribute:
        name = member.name.text
        if name in (OID, *RESERVED_COLUMNS):
            raise NameTaken(
                f'an attribute cannot be called "{name}"',
                where=member.name.place,
                detail="Tables of objects have a system column of that name.",
            )
        kind = self._known.resolved(member.type)
        if kind.target is None and member.inverse is not None:
            raise ParseError(
                f'relationship "{member.name.text}" does not refer to a class',
                where=member.type.place,
                hint="A relationship is between objects; declare values with attribute.",
            )
        inverse = member.inverse[1].text if member.inverse is not None else None
        return Attribute(name, kind.value, kind.target, kind.collection, inverse, kind.among)

    def _check_members(self, schema: ObjectSchema, written: ClassDeclaration) -> None:
        """No attribute may have the name of an inherited one."""
        inherited: dict[str, str] = {}
        for above in list(schema.line(written.name.text))[1:]:
            for attribute in above.attributes:
                other = inherited.setdefault(attribute.name, above.name)
                if other != above.name:
                    raise NameTaken(
                        f'class "{written.name.text}" would have two attributes "{attribute.name}"',
                        where=written.name.place,
                        detail=f'They are inherited from "{other}" and "{above.name}".',
                        hint="Declare the attribute in an interface of its own, which both of them have.",
                    )
        for member in written.members:
            if member.name.text in inherited:
                raise NameTaken(
                    f'class "{written.name.text}" has an attribute "{member.name.text}" already',
                    where=member.name.place,
                    detail=f'It is inherited from class "{inherited[member.name.text]}".',
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
        self._known.class_named(home)
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


def _declarations(module: ModuleDeclaration) -> Iterator[ClassDeclaration | NamedType | ConstantDeclaration]:
    yield from module.classes
    yield from module.types
    yield from module.constants


def _unique(pairs: Iterable[tuple[PlacedName, T]], kind: str, of: str = "") -> dict[str, T]:
    found: dict[str, T] = {}
    for name, what in pairs:
        if name.text in found:
            raise NameTaken(f'{kind} "{name.text}"{of} is declared twice', where=name.place)
        found[name.text] = what
    return found
