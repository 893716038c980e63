"""Name resolution: the column of a name, and suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.relational.walk import columns_in
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
    """The columns that FROM brings into scope, in order; ``outer`` are those around a query in an expression.

    ``lateral`` are columns to the left of LATERAL, as the query sees them that it stands before.
    ``values`` are names for scalars, with and without a qualifier: parameters of a function, or variables.
    ``group_aggregate`` gives an aggregate over these columns as a column of their groups, for subqueries of HAVING.
    """

    bindings: tuple[Binding, ...] = ()
    outer: Scope | None = None
    lateral: bool = False
    values: Mapping[str, Scalar] = field(default_factory=dict)
    group_aggregate: Callable[[Any], Column] | None = None

    def __add__(self, other: Scope) -> Scope:
        return replace(self, bindings=self.bindings + other.bindings)

    @property
    def qualifiers(self) -> list[str]:
        """The aliases in scope, each once."""
        return list(dict.fromkeys(binding.qualifier for binding in self.bindings))

    def star(self, qualifier: str | None = None) -> list[Binding]:
        """The columns that ``*`` or ``qualifier.*`` stands for; of a table those come first that USING merged away."""
        if qualifier is None:
            return [binding for binding in self.bindings if not binding.merged and not binding.hidden]
        found = (binding for binding in self.bindings if binding.qualifier == qualifier)
        return sorted(found, key=lambda binding: not binding.merged)

    def called(self, alias: str) -> Scope:
        """The columns of a join in parentheses that has an alias of its own."""
        return replace(self, bindings=tuple(replace(binding, qualifier=alias) for binding in self.star()))

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

    def find_in_outer(self, parts: Sequence[str]) -> tuple[Scalar, Sequence[str]] | None:
        """Like ``find``, in the outer scopes, the innermost first, and among their ``values``.

        As in Spark, what stands to the left of LATERAL is seen by its own query only, which sees nothing beyond.
        """
        outer = self.outer
        if outer is None:
            return None
        hidden = outer.lateral or (outer.outer is not None and outer.outer.lateral)
        beyond = outer.find_values_in_outer if hidden else outer.find_in_outer
        return outer.find(parts) or outer.find_value(parts) or beyond(parts)

    def find_values_in_outer(self, parts: Sequence[str]) -> tuple[Scalar, Sequence[str]] | None:
        """Like ``find_in_outer``, among ``values`` alone."""
        if self.outer is None:
            return None
        return self.outer.find_value(parts) or self.outer.find_values_in_outer(parts)

    def find_value(self, parts: Sequence[str]) -> tuple[Scalar, Sequence[str]] | None:
        """The value that a dotted name begins with, by its longest name, and the parts that remain."""
        for length in range(len(parts), 0, -1):
            value = self.values.get(".".join(parts[:length]))
            if value is not None:
                return value, parts[length:]
        return None

    @property
    def columns(self) -> frozenset[str]:
        """The columns in scope by the names that the algebra has for them."""
        given = frozenset[str]().union(*map(columns_in, self.values.values()))
        return frozenset(binding.column.name for binding in self.bindings) | given

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
        sides = Scope(self.bindings[:left_count]), Scope(self.bindings[left_count:])
        kept, other = reversed(sides) if keeps_right else sides
        shared, hidden = [kept.first(name) for name in names], [other.first(name) for name in names]
        rest = (b for b in self.bindings if b not in shared and b not in hidden)
        return replace(self, bindings=(*shared, *(replace(b, merged=True) for b in hidden), *rest))

    def first(self, name: str) -> Binding:
        """The first column called ``name``, which is the one that USING means, as in Spark."""
        found = next((b for b in self.star() if b.name == name), None)
        if found is None:
            raise self.unknown([name])
        return found

    def _only(self, found: Sequence[Binding], parts: Sequence[str]) -> Column:
        if len({binding.column for binding in found}) > 1:
            ways = ", ".join(dict.fromkeys(f"{b.qualifier}.{b.name}" for b in found))
            hint = f"It may be {ways}." if len(parts) == 1 else "Give the columns different names, with AS."
            raise UnknownName(f'"{".".join(parts)}" names more than one column', hint=hint)
        return found[0].column
