"""Types of a statement that is not run yet: of its parameters, as their use tells them, and of its columns.

A statement is translated with a column of no type for each parameter that nobody has declared. Where such a column is
compared, inserted, cast or computed with, the translation converts it: to that type. So there is one type system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.scalars import Cast, Column, Literal, Named, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project
from tidemill.algebra.relational.walk import expressions, walk, walk_all
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.sql.grammar.markers import limit_markers, selected_values
from tidemill.compiler.frontends.translate import parse, translate, translate_delete, translate_insert, translate_update
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.information_schema import INFORMATION_RELATIONS
from tidemill.engine.statements.dml.changes import kept_table
from tidemill.engine.statements.prepared_statements.parameters import markers_of_script
from tidemill.engine.statements.queries.clock import now
from tidemill.engine.statements.queries.versions import versions_read
from tidemill.model.errors import SqlError, Unsupported
from tidemill.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, VOID, Array, Field, Type

__all__ = ["TextDescription", "describe"]

GUESSES: Sequence[Type] = (STRING, BIGINT, DOUBLE, BOOLEAN, TIMESTAMP, DATE, Array(STRING), Array(BIGINT))
"""Types that are tried, in this order, where a statement cannot be read with a parameter of no type."""

_PREFIX = "parameter "


@dataclass(frozen=True)
class TextDescription:
    """The parameters of a text with their types, by name or as ``?1``, ``?2``; and the columns of its result.

    ``fields`` is empty for a statement without rows, and None for one whose columns only running it tells.
    """

    parameters: Mapping[str, Type]
    fields: tuple[Field, ...] | None


def describe(engine: Engine, text: str, declared: Mapping[str, Type]) -> TextDescription:
    """The types of the parameters and columns of a text of one statement; those of ``declared`` markers are known."""
    statements = parse(text)
    if len(statements) != 1:
        raise Unsupported("one statement can be described at a time", detail=f"The text has {len(statements)}.")
    markers: dict[str, Type] = dict.fromkeys(markers_of_script(statements), VOID)
    markers |= {marker: of for marker, of in declared.items() if marker in markers}
    for tree in sql.trees_of(statements[0]):
        markers |= {marker: BIGINT for marker in limit_markers(tree) if markers[marker] == VOID}
    found, inferred = _translatable(engine, text, markers)
    types = {marker: inferred.get(marker, STRING) if of == VOID else of for marker, of in markers.items()}
    return TextDescription({marker.removeprefix(":"): of for marker, of in types.items()}, found)


def _translatable(
    engine: Engine, text: str, markers: Mapping[str, Type]
) -> tuple[tuple[Field, ...] | None, dict[str, Type]]:
    """The columns, and the types of parameters that have none, as far as their use tells; guessed where it must be."""
    try:
        return _translated(engine, text, markers)
    except SqlError as error:
        refused = error
    open_ = [marker for marker, of in markers.items() if of == VOID]
    for guess in GUESSES:
        for some in ([[one] for one in open_] if len(open_) > 1 else []) + [open_]:
            try:
                fields, found = _translated(engine, text, {**markers, **dict.fromkeys(some, guess)})
            except SqlError:
                continue
            return fields, {**found, **dict.fromkeys(some, guess)}
    raise refused


def _translated(
    engine: Engine, text: str, markers: Mapping[str, Type]
) -> tuple[tuple[Field, ...] | None, dict[str, Type]]:
    (statement,) = parse(text)
    columns: dict[str, Scalar] = {marker: Column(_PREFIX + marker, of) for marker, of in markers.items()}
    for tree in sql.trees_of(statement):
        columns |= {marker: Literal(1, BIGINT) for marker in limit_markers(tree)}
    named = replace(engine.named, markers=columns)
    relations, moment = engine.rights.relations, now()
    match statement:
        case sql.Select(query=query):
            versions = versions_read(engine, query)
            known = {**relations, **INFORMATION_RELATIONS}
            known |= {name: engine.catalog.fields_at(table, at) for name, (table, at) in versions.items()}
            read = translate(query, known, functions=engine.registry.keys, named=named, moment=moment)
            fields = read.relation.fields[: read.visible]
            return fields, _inferred(read.relation)
        case sql.Insert():
            table = engine.catalog.table(engine.rights.require(statement.table))
            selected = replace(statement, query=selected_values(statement.query))
            return (), _inferred(translate_insert(selected, table, relations, named, moment))
        case sql.Update():
            table = kept_table(engine, statement.table, statement)
            return (), _inferred(translate_update(statement, table, relations, named))
        case sql.Delete():
            table = kept_table(engine, statement.table, statement)
            return (), _inferred(translate_delete(statement, table, relations, named))
    return None, {}


def _inferred(relation: Relation) -> dict[str, Type]:
    """The type that each parameter of no type is converted to first."""
    nodes = list(walk_all(relation))
    stands_for = {f"{_PREFIX}{marker}": marker for marker in _markers(nodes)}
    for node in nodes:  # a parameter that is a column of an inner query is converted under that column's name
        if isinstance(node, Project):
            stands_for |= {out.name: stands_for[name] for out in node.outputs if (name := _named(out)) in stands_for}
    found: dict[str, Type] = {}
    for scalar in _scalars(nodes):
        if isinstance(scalar, Cast) and isinstance(scalar.input, Column) and scalar.input.name in stands_for:
            found.setdefault(stands_for[scalar.input.name], scalar.type)
    return found


def _scalars(nodes: Sequence[Relation]) -> Iterator[Scalar]:
    for node in nodes:
        for scalar in expressions(node):
            yield from walk(scalar)


def _markers(nodes: Sequence[Relation]) -> set[str]:
    columns = (one for one in _scalars(nodes) if isinstance(one, Column) and one.of == VOID)
    return {one.name.removeprefix(_PREFIX) for one in columns if one.name.startswith(_PREFIX)}


def _named(output: Named) -> str | None:
    return output.scalar.name if isinstance(output.scalar, Column) else None
