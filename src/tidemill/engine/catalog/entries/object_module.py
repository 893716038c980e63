"""The catalog entry of an ODL module: its text, and the classes that it declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tidemill.compiler.frontends.odl.resolve import read_odl
from tidemill.model.classes import Attribute, ObjectClass, ObjectSchema
from tidemill.model.errors import DataError, UnknownName, Unsupported
from tidemill.model.schema import Table


@dataclass(frozen=True)
class ObjectModule:
    """The classes of the objects of a warehouse, as declared in ODL.

    Every operation on an object needs several facts about classes, so these are computed once.
    """

    text: str
    schema: ObjectSchema

    @classmethod
    def of(cls, text: str, name: str = "odl") -> ObjectModule:
        """Parse modules; errors call the text ``name``."""
        return cls(text, read_odl(text, name))

    def with_modules(self, text: str, name: str) -> ObjectModule:
        """These modules, and those of a text, which may refer to them."""
        return ObjectModule(f"{self.text.rstrip()}\n{text}", read_odl(text, name, beside=self.text))

    def declares_same(self, text: str, name: str) -> bool:
        """True if the modules of a text have the classes and constants that they have here."""
        other = read_odl(text, name, beside=self.text)
        return (other.classes, other.constants) == (self.schema.classes, self.schema.constants)

    def class_named(self, name: str) -> str:
        """The name of a class, which may be given as ``module::class``."""
        module, scoped, cls = name.lower().rpartition("::")
        known = self.schema.classes.get(cls)
        return cls if not scoped or (known is not None and known.module == module) else name.lower()

    def require_creatable(self, cls: str) -> None:
        """Refuse objects of an interface alone."""
        if self.schema.classes[cls].is_interface:
            below = [one.name for one in self.schema.below(cls) if not one.is_interface and one.name in self.stored]
            raise Unsupported(
                f'"{cls}" is an interface, and has no objects of its own',
                hint=f"Create an object of a class that has it: {', '.join(below) or 'there is none'}.",
            )

    @cached_property
    def instance_classes(self) -> dict[tuple[str, tuple[ObjectClass, ...]], ObjectClass]:
        """The classes of views whose rows have identities, by their text and the classes of views that it reads."""
        return {}

    @cached_property
    def stored(self) -> dict[str, Table]:
        """The tables by class name, for classes that have one; parents come first."""
        return {name: self.schema.table(name) for name in self.schema.classes if self.schema.is_stored(name)}

    @cached_property
    def tables(self) -> frozenset[str]:
        """The names of all tables that hold objects."""
        return frozenset(table.name for table in self.stored.values())

    @cached_property
    def attributes(self) -> dict[str, dict[str, Attribute]]:
        """The attributes of every class, in column order."""
        return {name: self.schema.attributes(name) for name in self.schema.classes}

    def attributes_of(self, cls: str) -> dict[str, Attribute]:
        """The attributes of a class that can have objects of its own."""
        if cls not in self.schema.classes:
            known = ", ".join(self.stored)
            raise UnknownName(f'there is no class "{cls}"', hint=f"Classes: {known}.")
        if cls not in self.stored:
            raise Unsupported(
                f'class "{cls}" has no objects of its own',
                detail="It has no extent, and no attribute refers to it.",
                hint="Create an object of a class that extends it, or give it an extent.",
            )
        return self.attributes[cls]

    @cached_property
    def lines(self) -> dict[str, tuple[str, ...]]:
        """For every class the stored classes whose tables contain its objects: itself and its superclasses."""
        return {
            name: tuple(above.name for above in self.schema.line(name) if above.name in self.stored)
            for name in self.schema.classes
        }

    @cached_property
    def children(self) -> dict[str | None, tuple[str, ...]]:
        """For each stored class its nearest stored subclasses; for None those without a stored superclass."""
        found: dict[str | None, list[str]] = {None: []} | {name: [] for name in self.stored}
        for name in self.stored:
            above = self.lines[name][1:]
            nearest = [one for one in above if not any(one in self.lines[other][1:] for other in above)]
            for parent in nearest:
                found[parent].append(name)
            if not nearest:
                found[None].append(name)
        return {name: tuple(below) for name, below in found.items()}

    @cached_property
    def keys(self) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
        """For every class the keys of its objects, each with the class in whose extent it is unique."""
        return {
            name: tuple((above.name, key) for above in self.schema.line(name) for key in above.keys)
            for name in self.schema.classes
        }

    @cached_property
    def plain(self) -> tuple[tuple[str, Attribute], ...]:
        """The references without an inverse, each with a class whose table holds it."""
        return tuple(
            (home, attribute)
            for found in self.schema.classes.values()
            for attribute in found.attributes
            if attribute.target is not None and attribute.inverse is None
            for home in self.homes(found)
        )

    def tops_having(self, names: frozenset[str]) -> tuple[str, ...]:
        """The topmost stored classes that have attributes of all these names, themselves or in a subclass."""
        if names not in self._tops:
            wanted = {name.lower() for name in names}
            self._tops[names] = tuple(
                top
                for top in self.children[None]
                if any(wanted <= self.attributes[below.name].keys() for below in self.schema.below(top))
            )
        return self._tops[names]

    @cached_property
    def _tops(self) -> dict[frozenset[str], tuple[str, ...]]:
        return {}

    def homes(self, found: ObjectClass) -> Iterator[str]:
        """The stored classes that together hold each object of a class once: itself, or its nearest subclasses."""
        if found.name in self.stored:
            yield found.name
            return
        # Not the interfaces: an object may be of several of them.
        below = [one.name for one in self.schema.below(found.name) if not one.is_interface and one.name in self.stored]
        yield from (name for name in below if not any(other in self.lines[name][1:] for other in below))

    def referring_to(self, name: str) -> Iterator[tuple[str, Attribute]]:
        """The references without an inverse that may refer to objects of a class."""
        above = {found.name for found in self.schema.line(name)}
        return ((home, attribute) for home, attribute in self.plain if attribute.target in above)

    def require_not_object_tables(self, tables: Iterable[str]) -> None:
        """Refuse to change rows of object tables directly: references and inverses would not be maintained."""
        for name in self.tables.intersection(tables):
            raise DataError(
                f'table "{name}" holds objects',
                detail=f'It belongs to module "{self.schema.name}", which keeps references and inverses right.',
                hint="Change them by tidemill.objects(wh): create, modify, insert, remove, delete, load or bulk.",
            )

    def require_not_class_table(self, table: str, done: str = "dropped") -> None:
        """Refuse to drop or alter a table that holds objects."""
        if table in self.tables:
            raise Unsupported(
                f'"{table}" cannot be {done}',
                detail=f'It holds the objects of module "{self.schema.name}".',
                hint="Delete the objects instead." if done == "dropped" else None,
            )
