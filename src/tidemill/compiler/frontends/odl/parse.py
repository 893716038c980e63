"""The text of modules in ODL as declarations, before names are resolved."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.compiler.frontends.odl.cursor import TOKEN_PATTERN, OdlCursor
from tidemill.compiler.frontends.odl.declarations import (
    ClassDeclaration,
    ConstantDeclaration,
    MemberDeclaration,
    ModuleDeclaration,
    NamedType,
    PlacedName,
    TypeDeclaration,
)
from tidemill.compiler.frontends.text.cursor import tokenize
from tidemill.compiler.frontends.text.source import SourceText
from tidemill.model import types as t
from tidemill.model.classes import Collection
from tidemill.model.errors import ParseError, TextLocation, Unsupported
from tidemill.model.types import Type

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

NOT_SUPPORTED = {
    "exception": "Objects have no methods.",
    "module": "A module holds classes, and no modules.",
    "union": "Declare a class for each case, below a common one.",
}
"""Declarations that a module may hold in ODL and not here, with the reason."""


class OdlParser:
    """Reads modules, token by token."""

    def __init__(self, text: str, name: str) -> None:
        source = SourceText(name, text)
        self._cursor = OdlCursor(source, tuple(tokenize(source, TOKEN_PATTERN, "ODL")))

    def modules(self) -> list[ModuleDeclaration]:
        """One module or several."""
        found = [self._module()]
        while self._cursor.sees("module"):
            found.append(self._module())
        self._cursor.expect_end("module")
        return found

    def _module(self) -> ModuleDeclaration:
        """``module NAME { classes, interfaces, types and constants }``."""
        self._cursor.expect("module")
        name = self._cursor.name("the name of the module")
        classes: list[ClassDeclaration] = []
        types: list[NamedType] = []
        constants: list[ConstantDeclaration] = []
        self._cursor.expect("{")
        while not self._cursor.accept("}"):
            if self._cursor.accept("class"):
                classes.append(self._class())
            elif self._cursor.accept("interface"):
                classes.append(self._interface())
            elif self._cursor.accept("const"):
                constants.append(self._constant())
            else:
                types += self._types()
            self._cursor.accept(";")
        self._cursor.accept(";")
        return ModuleDeclaration(name, tuple(classes), tuple(types), tuple(constants))

    def _types(self) -> Iterator[NamedType]:
        """``enum NAME {...}``, ``struct NAME {...}`` or ``typedef type NAME, NAME``."""
        place = self._cursor.place
        if self._cursor.accept("enum"):
            name = self._cursor.name("the name of the enum")
            yield NamedType(name, TypeDeclaration(name.place, t.STRING, among=self._among()))
        elif self._cursor.accept("struct"):
            name = self._cursor.name("the name of the struct")
            yield NamedType(name, self._struct(name.place))
        elif self._cursor.accept("typedef"):
            kind = self._type()
            names = self._cursor.separated(lambda: self._cursor.name("the name of the type"))
            yield from (NamedType(name, kind) for name in names)
            self._cursor.expect(";")
        else:
            word = self._cursor.token.text.lower() if self._cursor.token is not None else ""
            if word in NOT_SUPPORTED:
                raise Unsupported(f"{word} is not supported in a module", where=place, detail=NOT_SUPPORTED[word])
            raise self._cursor.expected("a class, an interface, a type or a constant")

    def _constant(self) -> ConstantDeclaration:
        """``const type NAME = value``."""
        kind = self._type()
        name = self._cursor.name("the name of the constant")
        self._cursor.expect("=")
        sign = "-" if self._cursor.accept("-") else ""
        token = self._cursor.token
        if token is None or token.kind == "sign":
            raise self._cursor.expected("a constant value")
        if token.kind == "text" or token.text[0].isdigit() or token.text.lower() in ("true", "false"):
            self._cursor.position += 1
            return ConstantDeclaration(name, kind, sign + token.text, None)
        return ConstantDeclaration(name, kind, sign, self._cursor.scoped("a constant"))

    def _class(self) -> ClassDeclaration:
        """``NAME [extends NAME] [: interfaces] [(extent NAME key NAME)] { members }``."""
        name = self._cursor.name("the name of the class")
        parent = self._cursor.scoped("the class that it extends") if self._cursor.accept("extends") else None
        interfaces = self._interfaces()
        extent: PlacedName | None = None
        keys: tuple[tuple[PlacedName, ...], ...] = ()
        if self._cursor.accept("("):
            extent = self._cursor.name("the name of the extent") if self._cursor.accept("extent") else None
            self._cursor.accept(",")
            if self._cursor.accept("key") or self._cursor.accept("keys"):
                keys = tuple(self._cursor.separated(self._key))  # ``a, b`` are two keys, ``(a, b)`` is one
            self._cursor.expect(")")
        return ClassDeclaration(name, parent, interfaces, extent, keys, self._body())

    def _interface(self) -> ClassDeclaration:
        """``NAME [: interfaces] { members }``."""
        name = self._cursor.name("the name of the interface")
        above = self._interfaces()
        if self._cursor.sees("("):
            raise Unsupported(
                f'interface "{name.text}" has no extent and no key',
                where=self._cursor.place,
                detail="Its objects are those of the classes that have it.",
                hint="Declare a class, and let others extend it.",
            )
        return ClassDeclaration(name, None, above, None, (), self._body(), is_interface=True)

    def _interfaces(self) -> tuple[PlacedName, ...]:
        """``: NAME, NAME``."""
        if not self._cursor.accept(":"):
            return ()
        return tuple(self._cursor.separated(lambda: self._cursor.scoped("an interface")))

    def _body(self) -> tuple[MemberDeclaration, ...]:
        self._cursor.expect("{")
        members: list[MemberDeclaration] = []
        while not self._cursor.accept("}"):
            members += self._members()
        return tuple(members)

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
            yield MemberDeclaration(name, kind, self._inverse())
        elif self._cursor.accept("attribute"):
            yield from self._attributes()
        else:
            raise self._cursor.expected(MEMBER_KEYWORDS)
        self._cursor.expect(";")

    def _inverse(self) -> tuple[PlacedName, PlacedName]:
        """``class::member``, perhaps after the module."""
        first = self._cursor.name("the class of the inverse")
        self._cursor.expect("::")
        second = self._cursor.name("the inverse")
        if not self._cursor.accept("::"):
            return first, second
        return PlacedName(second.text, first.place, first.text), self._cursor.name("the inverse")

    def _attributes(self) -> Iterator[MemberDeclaration]:
        """``type NAME, NAME``."""
        kind = self._type()
        names = self._cursor.separated(lambda: self._cursor.name("the name of the attribute"))
        yield from (MemberDeclaration(name, kind) for name in names)

    def _type(self) -> TypeDeclaration:
        place = self._cursor.place
        for word, collection in COLLECTIONS.items():
            if self._cursor.accept(word):
                self._cursor.expect("<")
                inner = self._type()
                self._cursor.expect(">")
                if inner.collection is not None:
                    raise nested_collection(inner.place)
                return TypeDeclaration(place, inner.value, inner.name, inner.among, collection, inner.members)
        if self._cursor.accept("enum"):
            self._cursor.name("the name of the enum")
            return TypeDeclaration(place, t.STRING, among=self._among())
        if self._cursor.accept("struct"):
            self._cursor.name("the name of the struct")
            return self._struct(place)
        if self._cursor.accept("decimal"):
            return TypeDeclaration(place, self._decimal())
        for words, value in PRIMITIVE_TYPES.items():
            if self._cursor.accept(*words):
                if value == t.STRING and self._cursor.accept("<"):  # string<20>: the length is a hint for storage
                    self._cursor.number()
                    self._cursor.expect(">")
                return TypeDeclaration(place, value)
        return TypeDeclaration(place, name=self._cursor.scoped("a type"))

    def _struct(self, place: TextLocation) -> TypeDeclaration:
        """``{type NAME, NAME; type NAME;}``."""
        self._cursor.expect("{")
        members: list[MemberDeclaration] = []
        while not self._cursor.accept("}"):
            members += self._attributes()
            self._cursor.expect(";")
        if not members:
            raise ParseError("a struct has at least one member", where=place)
        return TypeDeclaration(place, members=tuple(members))

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


def nested_collection(place: TextLocation) -> Unsupported:
    """The error for a collection of collections."""
    return Unsupported(
        "collections of collections are not supported",
        where=place,
        hint="Declare a class that has the inner collection, and use its objects as elements.",
    )
