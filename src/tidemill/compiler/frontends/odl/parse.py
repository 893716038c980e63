"""The text of a module in ODL as declarations, before names are resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.compiler.frontends.text.cursor import Cursor, PatternToken, tokenize
from tidemill.compiler.frontends.text.source import SourceText
from tidemill.model import types as t
from tidemill.model.classes import Collection
from tidemill.model.errors import ParseError, TextLocation, Unsupported
from tidemill.model.types import Type

TOKEN_PATTERN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<word>[A-Za-z_]\w*|\d+)|(?P<sign>::|[{}()<>;:,])", re.DOTALL
)

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
"""The types of values by their names in ODL, longer names before shorter ones with the same beginning."""

COLLECTIONS = {collection.value: collection for collection in Collection}

MEMBER_KEYWORDS = "attribute, relationship"


@dataclass(frozen=True, slots=True)
class PlacedName:
    """A name in lower case, and its place in the text."""

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


class OdlCursor(Cursor[SourceText, PatternToken]):
    """The tokens of a module, and how many of them have been read."""

    def expect(self, *words: str) -> None:
        """Read ``words``, which must come next."""
        if not self.accept(*words):
            raise self.expected(f'"{" ".join(words)}"')

    def word(self, expected: str) -> str:
        """Read a word, in its own case."""
        token = self.token
        if token is None or not (token.text[0].isalpha() or token.text[0] == "_"):
            raise self.expected(expected)
        self.position += 1
        return token.text

    def name(self, expected: str) -> PlacedName:
        """Read a name."""
        place = self.place
        return PlacedName(self.word(expected).lower(), place)

    def number(self) -> int:
        """Read a number."""
        token = self.token
        if token is None or not token.text.isdecimal():
            raise self.expected("a number")
        self.position += 1
        return int(token.text)


class OdlParser:
    """Reads one module, token by token."""

    def __init__(self, text: str, name: str) -> None:
        source = SourceText(name, text)
        self._cursor = OdlCursor(source, tuple(tokenize(source, TOKEN_PATTERN, "ODL")))

    def module(self) -> ModuleDeclaration:
        """``module NAME { classes and enums }``."""
        self._cursor.expect("module")
        name = self._cursor.name("the name of the module")
        classes: list[ClassDeclaration] = []
        enums: list[EnumDeclaration] = []
        self._cursor.expect("{")
        while not self._cursor.accept("}"):
            if self._cursor.accept("enum"):
                enums.append(EnumDeclaration(self._cursor.name("the name of the enum"), self._among()))
            elif self._cursor.accept("class"):
                classes.append(self._class())
            else:
                raise self._cursor.expected("a class or an enum")
            self._cursor.accept(";")
        self._cursor.accept(";")
        self._cursor.expect_end("module")
        return ModuleDeclaration(name, tuple(classes), tuple(enums))

    def _class(self) -> ClassDeclaration:
        """``NAME [extends NAME] [(extent NAME key NAME)] { members }``."""
        name = self._cursor.name("the name of the class")
        parent = self._cursor.name("the class that it extends") if self._cursor.accept("extends") else None
        extent: PlacedName | None = None
        keys: tuple[tuple[PlacedName, ...], ...] = ()
        if self._cursor.accept("("):
            extent = self._cursor.name("the name of the extent") if self._cursor.accept("extent") else None
            self._cursor.accept(",")
            if self._cursor.accept("key") or self._cursor.accept("keys"):
                keys = tuple(self._cursor.separated(self._key))  # ``a, b`` are two keys, ``(a, b)`` is one
            self._cursor.expect(")")
        self._cursor.expect("{")
        members: list[MemberDeclaration] = []
        while not self._cursor.accept("}"):
            members += self._members()
        return ClassDeclaration(name, parent, extent, keys, tuple(members))

    def _key(self) -> tuple[PlacedName, ...]:
        """An attribute, or several in parentheses."""
        if not self._cursor.accept("("):
            return (self._cursor.name("an attribute"),)
        names = tuple(self._cursor.separated(lambda: self._cursor.name("an attribute")))
        self._cursor.expect(")")
        return names

    def _members(self) -> Iterator[MemberDeclaration]:
        if self._cursor.accept("relationship"):
            kind = self._type()
            name = self._cursor.name("the name of the relationship")
            self._cursor.expect("inverse")
            target = self._cursor.name("the class of the inverse")
            self._cursor.expect("::")
            yield MemberDeclaration(name, kind, (target, self._cursor.name("the inverse")))
        elif self._cursor.accept("attribute"):
            kind = self._type()
            names = self._cursor.separated(lambda: self._cursor.name("the name of the attribute"))
            yield from (MemberDeclaration(name, kind) for name in names)
        else:
            raise self._cursor.expected(MEMBER_KEYWORDS)
        self._cursor.expect(";")

    def _type(self) -> TypeDeclaration:
        place = self._cursor.place
        for word, collection in COLLECTIONS.items():
            if self._cursor.accept(word):
                self._cursor.expect("<")
                inner = self._type()
                self._cursor.expect(">")
                if inner.collection is not None:
                    raise Unsupported(
                        "collections of collections are not supported",
                        where=inner.place,
                        hint="Declare a class that has the inner collection, and use its objects as elements.",
                    )
                return TypeDeclaration(place, inner.value, inner.name, inner.among, collection)
        if self._cursor.accept("enum"):
            self._cursor.name("the name of the enum")
            return TypeDeclaration(place, t.STRING, among=self._among())
        if self._cursor.accept("decimal"):
            return TypeDeclaration(place, self._decimal())
        for words, value in PRIMITIVE_TYPES.items():
            if self._cursor.accept(*words):
                if value == t.STRING and self._cursor.accept("<"):  # string<20>: the length is a hint for storage
                    self._cursor.number()
                    self._cursor.expect(">")
                return TypeDeclaration(place, value)
        return TypeDeclaration(place, name=self._cursor.name("a type"))

    def _decimal(self) -> Type:
        """``decimal<precision, scale>``; ``decimal`` alone is as in SQL."""
        if not self._cursor.accept("<"):
            return t.Decimal()
        precision = self._cursor.number()
        scale = self._cursor.number() if self._cursor.accept(",") else 0
        self._cursor.expect(">")
        return t.Decimal(precision, scale)

    def _among(self) -> tuple[str, ...]:
        """``{Complex, Base}``."""
        self._cursor.expect("{")
        names: list[str] = []
        while True:
            place = self._cursor.place
            word = self._cursor.word("a name of the enum")
            if word in names:
                raise ParseError(f'the enum names "{word}" twice', where=place)
            names.append(word)
            if not self._cursor.accept(","):
                self._cursor.expect("}")
                return tuple(names)
