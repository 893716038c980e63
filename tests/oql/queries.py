"""Random queries over the library: any construct within any other, as deep as asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

COLLECTIONS = {"whole": {"parts": "part", "chosen": "part"}, "part": {"links": "part"}}
REFERENCES = {"whole": {"paper": "paper", "main": "part"}, "part": {"paper": "paper"}, "paper": {"of": "whole"}}
NUMBERS = {"whole": ["id"], "part": ["id", "size"], "paper": ["pages"], "row": ["i"]}
TEXTS = {"whole": ["kind"], "part": ["kind"], "paper": ["title"], "row": ["t"]}
EXTENTS = {"Wholes": "whole", "Parts": "part", "Papers": "paper"}

Scope = Mapping[str, str]
"""The class of each variable; a ``row`` is what a query in FROM makes, with a collection of numbers ``n``."""


class Queries:
    """Draws queries by ``chance``."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.count = 0

    def query(self, depth: int = 2) -> str:
        """A query that reads nothing around it."""
        kind = self.chance.choice(["select"] * 6 + ["set operation", "total", "group"])
        if kind == "set operation":
            word = self.chance.choice(["union", "intersect", "except"])
            return f"({self.values({}, depth - 1)}) {word} ({self.values({}, depth - 1)})"
        if kind == "total":
            return f"{self.chance.choice(['sum', 'max', 'count'])}({self.values({}, depth)})"
        if kind == "group":
            froms, scope = self.froms({}, depth)
            members = f"k: k, n: count(*), s: sum({self.path(scope)})"
            return f"select struct({members}) from {froms} group by k: {self.text(scope)}"
        return self.select({}, depth)

    def select(self, around: Scope, depth: int) -> str:
        """Structs."""
        froms, scope = self.froms(around, depth)
        members = ", ".join(f"m{i}: {self.member(scope, depth - 1)}" for i in range(self.chance.randint(1, 3)))
        return f"select {self.maybe('distinct ')}struct({members}) from {froms}{self.where(scope, depth - 1)}"

    def values(self, around: Scope, depth: int) -> str:
        """Numbers."""
        froms, scope = self.froms(around, depth)
        return f"select {self.maybe('distinct ')}{self.number(scope, 0)} from {froms}{self.where(scope, depth - 1)}"

    def objects(self, around: Scope, of: str, depth: int) -> str:
        """Objects of a class."""
        froms, scope = self.froms(around, depth)
        found = [name for name, kind in scope.items() if kind == of and name not in around]
        if not found:
            return next(extent for extent, kind in EXTENTS.items() if kind == of)
        return (
            f"(select {self.maybe('distinct ')}{self.chance.choice(found)} from {froms}{self.where(scope, depth - 1)})"
        )

    def froms(self, around: Scope, depth: int) -> tuple[str, Scope]:
        scope, items = dict(around), []
        for _ in range(self.chance.choice((1, 1, 2))):
            domain, of = self.domain(scope, depth)
            self.count += 1
            scope[f"v{self.count}"] = of
            items.append(f"v{self.count} in {domain}")
        return ", ".join(items), scope

    def domain(self, scope: Scope, depth: int) -> tuple[str, str]:
        ways: list[tuple[str, str]] = [*EXTENTS.items()]
        inner = [(f"{v}.{name}", of) for v, k in scope.items() for name, of in COLLECTIONS.get(k, {}).items()]
        if inner and self.chance.random() < 0.7:
            ways = inner
        domain, of = self.chance.choice(ways)
        if depth > 0 and self.chance.random() < 0.15:
            return self.objects(scope, of, depth - 1), of
        return (self.rows(scope, depth - 1), "row") if depth > 0 and self.chance.random() < 0.15 else (domain, of)

    def rows(self, around: Scope, depth: int) -> str:
        """A query whose structs are read by the one around it, perhaps several times."""
        froms, scope = self.froms(around, depth)
        members = f"i: {self.number(scope, depth)}, t: {self.text(scope)}, n: ({self.values(scope, depth)})"
        return f"(select {self.maybe('distinct ')}struct({members}) from {froms}{self.where(scope, depth - 1)})"

    def where(self, scope: Scope, depth: int) -> str:
        return f" where {self.condition(scope, depth)}" if self.chance.random() < 0.6 else ""

    def condition(self, scope: Scope, depth: int) -> str:
        ways: list[Callable[[], str]] = [
            lambda: f"{self.number(scope, depth)} {self.chance.choice(['=', '<', '>='])} {self.number(scope, depth)}",
            lambda: f"{self.text(scope)} = {self.text(scope)}",
            lambda: f"{self.number(scope, 0)} in {self.chance.choice(['bag(1, 2)', 'set(0, 3)'])}",
        ]
        if depth > 0:
            ways += [
                lambda: (
                    f"({self.condition(scope, depth - 1)} {self.chance.choice(['and', 'or'])} "
                    f"{self.condition(scope, depth - 1)})"
                ),
                lambda: f"not ({self.condition(scope, depth - 1)})",
                lambda: self.quantified(scope, depth - 1),
                lambda: f"exists({self.select(scope, depth - 1)})",
                lambda: f"{self.number(scope, 0)} in ({self.values(scope, depth - 1)})",
            ]
        return self.chance.choice(ways)()

    def quantified(self, scope: Scope, depth: int) -> str:
        domain, of = self.domain(scope, depth)
        self.count += 1
        variable = f"v{self.count}"
        test = self.condition({**scope, variable: of}, depth)
        return f"({self.chance.choice(['exists', 'for all'])} {variable} in {domain}: {test})"

    def member(self, scope: Scope, depth: int) -> str:
        ways = [lambda: self.number(scope, depth), lambda: self.text(scope)]
        if rows := self.row_variables(scope):
            ways.append(lambda: f"{self.chance.choice(rows)}.n")
        if depth >= 0:
            ways += [lambda: f"({self.values(scope, depth)})", lambda: f"({self.select(scope, depth)})"]
        return self.chance.choice(ways)()

    def row_variables(self, scope: Scope) -> list[str]:
        return sorted(name for name, of in scope.items() if of == "row")

    def number(self, scope: Scope, depth: int) -> str:
        rows = self.row_variables(scope)
        if rows and self.chance.random() < 0.3:
            return f"{self.chance.choice(['sum', 'max', 'count'])}({self.chance.choice(rows)}.n)"
        if depth > 0 and self.chance.random() < 0.4:
            return f"{self.chance.choice(['sum', 'max', 'min', 'count'])}({self.values(scope, depth - 1)})"
        return self.path(scope) if self.chance.random() < 0.9 else str(self.chance.randint(0, 3))

    def path(self, scope: Scope) -> str:
        """A number at the end of a path."""
        return self._end(scope, NUMBERS)

    def text(self, scope: Scope) -> str:
        """A text at the end of a path."""
        return self._end(scope, TEXTS)

    def _end(self, scope: Scope, ends: Mapping[str, list[str]]) -> str:
        variable, of = self.chance.choice(sorted(scope.items()))
        if of in REFERENCES and self.chance.random() < 0.2:
            name, of = self.chance.choice(sorted(REFERENCES[of].items()))
            variable = f"{variable}.{name}"
        return f"{variable}.{self.chance.choice(ends[of])}"

    def maybe(self, word: str) -> str:
        return word if self.chance.random() < 0.25 else ""
