"""Name resolution: the column of a name, and suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.scalars import Column
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.errors import UnknownName


@dataclass(frozen=True)
class Binding:
    """A column in scope: ``name``, or ``qualifier.name``.

    ``merged`` marks the second of two columns that USING merged: it needs its qualifier. A ``hidden`` column is
    generated: ``*`` omits it, and a column of the same name takes precedence.
    """

    qualifier: str
    name: str
    column: Column
    merged: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class Scope:
    """The columns that FROM brings into scope, in order; ``outer`` are those around a query in an expression."""

    bindings: tuple[Binding, ...] = ()
    outer: Scope | None = None

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.bindings + other.bindings, self.outer)

    @property
    def qualifiers(self) -> list[str]:
        """The aliases in scope, each once."""
        return list(dict.fromkeys(binding.qualifier for binding in self.bindings))

    def star(self, qualifier: str | None = None) -> list[Binding]:
        """The columns that ``*`` or ``qualifier.*`` stands for."""
        if qualifier is None:
            return [binding for binding in self.bindings if not binding.merged and not binding.hidden]
        return [binding for binding in self.bindings if binding.qualifier == qualifier]

    def called(self, alias: str) -> Scope:
        """The columns of a join in parentheses that has an alias of its own."""
        return Scope(tuple(replace(binding, qualifier=alias) for binding in self.star()), self.outer)

    def find(self, parts: Sequence[str]) -> tuple[Column, Sequence[str]] | None:
        """The column that a dotted name begins with, and the parts that remain: members of its struct.

        ``a.b`` is column ``b`` of ``a`` where there is one, else member ``b`` of a column ``a``, as in Spark.
        """
        qualified = [b for b in self.bindings if len(parts) > 1 and (b.qualifier, b.name) == (parts[0], parts[1])]
        if qualified:
            return self._only(qualified, parts[:2]), parts[2:]
        bare = [b for b in self.bindings if b.name == parts[0] and not b.merged]
        bare = [b for b in bare if not b.hidden] or bare
        return (self._only(bare, parts[:1]), parts[1:]) if bare else None

    def find_in_outer(self, parts: Sequence[str]) -> tuple[Column, Sequence[str]] | None:
        """Like ``find``, in the outer scopes, the innermost first."""
        if self.outer is None:
            return None
        return self.outer.find(parts) or self.outer.find_in_outer(parts)

    @property
    def columns(self) -> frozenset[str]:
        """The columns in scope by the names that the algebra has for them."""
        return frozenset(binding.column.name for binding in self.bindings)

    def unknown(self, parts: Sequence[str]) -> UnknownName:
        """The error for a name that ``find`` does not find."""
        if len(parts) > 1 and parts[0] in self.qualifiers:
            return unknown_name(f"column in {parts[0]} called", parts[1], [b.name for b in self.star(parts[0])])
        if len(parts) > 1:
            names = [f"{b.qualifier}.{b.name}" for b in self.bindings]
            return unknown_name("column", ".".join(parts), [*names, *self.qualifiers])
        return unknown_name("column", parts[0], [b.name for b in self.bindings])

    def merge(self, names: Sequence[str], left_count: int, keeps_right: bool = False) -> Scope:
        """The scope after ``USING (names)`` of the first ``left_count`` columns with the rest; shared come first.

        They are those of the left side, or of the right side where that is the one whose rows are all kept.
        """
        lefts, rights = self.bindings[:left_count], self.bindings[left_count:]
        kept, other = (rights, lefts) if keeps_right else (lefts, rights)
        shared = [b for b in kept if b.name in names and not b.merged]
        shared.sort(key=lambda b: names.index(b.name))
        rest = [
            replace(b, merged=b.merged or (b.name in names and b in other)) for b in self.bindings if b not in shared
        ]
        return Scope((*shared, *rest), self.outer)

    def _only(self, found: Sequence[Binding], parts: Sequence[str]) -> Column:
        if len(found) > 1:
            ways = ", ".join(dict.fromkeys(f"{b.qualifier}.{b.name}" for b in found))
            hint = f"It may be {ways}." if len(parts) == 1 else "Give the columns different names, with AS."
            raise UnknownName(f'"{".".join(parts)}" names more than one column', hint=hint)
        return found[0].column
