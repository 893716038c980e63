"""The text of a module in ODL, read into declarations: what is written, before anybody asks whether it makes sense."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.model import types as t
from tidemill.model.classes import Collection
from tidemill.model.errors import ParseError, TextLocation, Unsupported
from tidemill.model.types import Type

_TOKEN = re.compile(r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<word>[A-Za-z_]\w*|\d+)|(?P<sign>::|[{}()<>;:,])", re.DOTALL)

PRIMITIVE_TYPES: dict[tuple[str, ...], Type] = {
    ("unsigned", "long"): t.BIGINT,
    ("unsigned", "short"): t.INT,
    ("long", "long"): t.BIGINT,
    ("long",): t.BIGINT,
    ("short",): t.INT,
    ("octet",): t.INT,
    ("float",): t.DOUBLE,
    ("double",): t.DOUBLE,
    ("boolean",): t.BOOLEAN,
    ("char",): t.STRING,
    ("string",): t.STRING,
    ("date",): t.DATE,
    ("timestamp",): t.TIMESTAMP,
}
"""The types of values by the words that spell them; a longer spelling stands before a shorter one that begins alike."""

COLLECTIONS = {collection.value: collection for collection in Collection}

MEMBER_KEYWORDS = "attribute, relationship"


@dataclass(frozen=True, slots=True)
class PlacedName:
    """A name, lower case as it is known inside, with the place where it stands."""

    text: str
    place: TextLocation


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    """A type as written: a value's, or else the ``name`` of a class or an enum; perhaps a collection of these."""

    place: TextLocation
    value: Type | None = None
    name: PlacedName | None = None
    among: tuple[str, ...] = ()
    collection: Collection | None = None


@dataclass(frozen=True, slots=True)
class MemberDeclaration:
    """An attribute, or with ``inverse`` (a class and its attribute) a relationship."""

    name: PlacedName
    type: TypeDeclaration
    inverse: tuple[PlacedName, PlacedName] | None = None


@dataclass(frozen=True, slots=True)
class ClassDeclaration:
    """A class as written."""

    name: PlacedName
    parent: PlacedName | None
    extent: PlacedName | None
    keys: tuple[tuple[PlacedName, ...], ...]
    members: tuple[MemberDeclaration, ...]


@dataclass(frozen=True, slots=True)
class EnumDeclaration:
    """An enum as written; its names keep their case, for they are values."""

    name: PlacedName
    among: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModuleDeclaration:
    """A module as written."""

    name: PlacedName
    classes: tuple[ClassDeclaration, ...]
    enums: tuple[EnumDeclaration, ...]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int


class OdlParser:
    """Reads one module, token by token."""

    def __init__(self, text: str, name: str) -> None:
        self._source = SqlText(name, text, ())
        self._tokens = list(self._split(text))
        self._position = 0

    def module(self) -> ModuleDeclaration:
        """``module NAME { classes and enums }``."""
        self._expect("module")
        name = self._name("the name of the module")
        classes: list[ClassDeclaration] = []
        enums: list[EnumDeclaration] = []
        self._expect("{")
        while not self._accept("}"):
            if self._accept("enum"):
                enums.append(EnumDeclaration(self._name("the name of the enum"), self._among()))
            elif self._accept("class"):
                classes.append(self._class())
            else:
                self._refuse("a class or an enum")
            self._accept(";")
        self._accept(";")
        if self._position < len(self._tokens):
            raise ParseError("the module should end before this", where=self._place())
        return ModuleDeclaration(name, tuple(classes), tuple(enums))

    def _class(self) -> ClassDeclaration:
        """``NAME [extends NAME] [(extent NAME key NAME)] { members }``."""
        name = self._name("the name of the class")
        parent = self._name("the class that it extends") if self._accept("extends") else None
        extent: PlacedName | None = None
        keys: tuple[tuple[PlacedName, ...], ...] = ()
        if self._accept("("):
            extent = self._name("the name of the extent") if self._accept("extent") else None
            self._accept(",")
            keys = tuple(self._keys()) if self._accept("key") or self._accept("keys") else ()
            self._expect(")")
        self._expect("{")
        members: list[MemberDeclaration] = []
        while not self._accept("}"):
            members += self._members()
        return ClassDeclaration(name, parent, extent, keys, tuple(members))

    def _keys(self) -> Iterator[tuple[PlacedName, ...]]:
        """``a, b`` are two keys, ``(a, b)`` is one of two attributes."""
        yield self._key()
        while self._accept(","):
            yield self._key()

    def _key(self) -> tuple[PlacedName, ...]:
        if not self._accept("("):
            return (self._name("an attribute"),)
        names = [self._name("an attribute")]
        while self._accept(","):
            names.append(self._name("an attribute"))
        self._expect(")")
        return tuple(names)

    def _members(self) -> Iterator[MemberDeclaration]:
        if self._accept("relationship"):
            kind = self._type()
            name = self._name("the name of the relationship")
            self._expect("inverse")
            target = self._name("the class of the inverse")
            self._expect("::")
            yield MemberDeclaration(name, kind, (target, self._name("the inverse")))
        elif self._accept("attribute"):
            kind = self._type()
            yield MemberDeclaration(self._name("the name of the attribute"), kind)
            while self._accept(","):
                yield MemberDeclaration(self._name("the name of the attribute"), kind)
        else:
            self._refuse(MEMBER_KEYWORDS)
        self._expect(";")

    def _type(self) -> TypeDeclaration:
        place = self._place()
        for word, collection in COLLECTIONS.items():
            if self._accept(word):
                self._expect("<")
                inner = self._type()
                self._expect(">")
                if inner.collection is not None:
                    raise Unsupported(
                        "a collection of collections is not kept",
                        where=inner.place,
                        hint="Let the elements be objects of a class that has the inner collection.",
                    )
                return TypeDeclaration(place, inner.value, inner.name, inner.among, collection)
        if self._accept("enum"):
            self._name("the name of the enum")
            return TypeDeclaration(place, t.STRING, among=self._among())
        if self._accept("decimal"):
            return TypeDeclaration(place, self._decimal())
        for words, value in PRIMITIVE_TYPES.items():
            if self._accept(*words):
                if value == t.STRING and self._accept("<"):  # string<20>: the length is a hint for storage
                    self._number()
                    self._expect(">")
                return TypeDeclaration(place, value)
        return TypeDeclaration(place, name=self._name("a type"))

    def _decimal(self) -> Type:
        """``decimal<precision, scale>``; ``decimal`` alone is as in SQL."""
        if not self._accept("<"):
            return t.Decimal()
        precision = self._number()
        scale = self._number() if self._accept(",") else 0
        self._expect(">")
        return t.Decimal(precision, scale)

    def _among(self) -> tuple[str, ...]:
        """``{Complex, Base}``."""
        self._expect("{")
        names: list[str] = []
        while True:
            place = self._place()
            word = self._word("a name of the enum")
            if word in names:
                raise ParseError(f'the enum names "{word}" twice', where=place)
            names.append(word)
            if not self._accept(","):
                self._expect("}")
                return tuple(names)

    # -- tokens -------------------------------------------------------------------------------------------------

    def _split(self, text: str) -> Iterator[_Token]:
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise ParseError(
                    f'"{text[position]}" has no meaning in ODL', where=self._source.span(position, position)
                )
            if found.lastgroup != "space":
                yield _Token(found.group(), position)
            position = found.end()

    def _accept(self, *words: str) -> bool:
        """Read ``words`` if they come next."""
        found = self._tokens[self._position : self._position + len(words)]
        matches = [token.text.lower() for token in found] == list(words)
        self._position += len(words) if matches else 0
        return matches

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._refuse(f'"{word}"')

    def _word(self, expected: str) -> str:
        token = self._tokens[self._position] if self._position < len(self._tokens) else None
        if token is None or not (token.text[0].isalpha() or token.text[0] == "_"):
            self._refuse(expected)
        self._position += 1
        return token.text

    def _name(self, expected: str) -> PlacedName:
        place = self._place()
        return PlacedName(self._word(expected).lower(), place)

    def _number(self) -> int:
        token = self._tokens[self._position] if self._position < len(self._tokens) else None
        if token is None or not token.text.isdecimal():
            self._refuse("a number")
        self._position += 1
        return int(token.text)

    def _place(self) -> TextLocation:
        """The next token, or the last one where none is left."""
        if not self._tokens:
            return self._source.span(0, 0)
        token = self._tokens[min(self._position, len(self._tokens) - 1)]
        return self._source.span(token.start, token.start + len(token.text) - 1)

    def _refuse(self, expected: str) -> NoReturn:
        where = "here" if self._position < len(self._tokens) else "after this"
        raise ParseError(f"{expected} was expected {where}", where=self._place())
