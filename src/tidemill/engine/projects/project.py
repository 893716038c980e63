"""The definitions of a folder of SQL files, in an order in which they can be made: each after those that it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.entries.named_definitions import words_in
from tidemill.model.errors import NameTaken, SetupError, TextLocation, Unsupported
from tidemill.model.paths import local_path

__all__ = ["Definition", "definition_of", "ordered", "read_project"]

DEFINING = (sql.CreateTable, sql.CreateView, sql.CreateNamedQuery, sql.CreateFunction)
"""The statements that a project consists of."""


@dataclass(frozen=True)
class Definition:
    """One definition: a table, a stream, a view, a view that is not materialized, or a function, by its ``name``."""

    name: str
    kind: str
    statement: sql.Statement
    uses: frozenset[str]
    """All words of its text: whatever it uses is among them."""

    @property
    def place(self) -> TextLocation:
        """Where it is written."""
        return self.statement.place


def read_project(folder: str | Path) -> dict[str, Definition]:
    """The definitions of all SQL files below a folder, by name, each after those that it uses."""
    root = local_path(folder, "folder of a project")
    files = sorted(root.rglob("*.sql")) if root.is_dir() else []
    if not files:
        raise SetupError("there is no project here", where=str(root), hint="A project is a folder of .sql files.")
    found: dict[str, Definition] = {}
    for file in files:
        for statement in parse(file.read_text(encoding="utf-8"), name=str(file.relative_to(root))):
            definition = _definition(statement)
            if definition.name in found:
                other = found[definition.name].place
                raise NameTaken(
                    f'"{definition.name}" is defined twice', where=definition.place, detail=f"First in {other.name}."
                )
            found[definition.name] = definition
    return ordered(found)


def _definition(statement: sql.Statement) -> Definition:
    """The definition that a statement of a project makes; anything else is refused."""
    found = definition_of(statement)
    if found is None:
        what = re.sub(r"(?<!^)(?=[A-Z])", " ", type(statement).__name__).upper()
        raise Unsupported(
            f"a project has definitions, and this is {what}",
            where=statement.place,
            hint="Definitions are CREATE TABLE, STREAM, MATERIALIZED VIEW, VIEW and FUNCTION. "
            "Sources, feeds, lake tables and rows belong to a warehouse: tidemill sql, load.",
        )
    return found


def definition_of(statement: sql.Statement) -> Definition | None:
    """The definition that a statement makes; None for other statements, and for what is temporary."""
    match statement:
        case sql.CreateTable(table=table):
            parents = " ".join(reference.table for reference in table.references)
            return Definition(table.name, "table" if table.kept else "stream", statement, words_in(parents))
        case sql.CreateView(name=name, query=query):
            return Definition(name, "materialized view", statement, words_in(query))
        case sql.CreateNamedQuery(query=query, temporary=False):
            return Definition(query.name, "view", statement, words_in(query.text))
        case sql.CreateFunction(function=function, temporary=False):
            return Definition(function.name, "function", statement, words_in(function.body))
    return None


def ordered(found: Mapping[str, Definition]) -> dict[str, Definition]:
    """The definitions in the order of their use; a circle is refused."""
    made: dict[str, Definition] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise Unsupported(
                "definitions use each other in a circle",
                where=found[name].place,
                detail=" -> ".join((*path[path.index(name) :], name)),
                hint="Let one of them read something else.",
            )
        if name not in made:
            for used in sorted(found[name].uses & found.keys() - {name}):
                visit(used, (*path, name))
            made[name] = found[name]

    for name in found:
        visit(name, ())
    return made
