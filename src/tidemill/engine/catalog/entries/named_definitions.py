"""Views that are not materialized and functions in SQL, as the catalog stores them, and who uses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.named_definitions import (
    DefinitionScope,
    NamedDefinitions,
    NamedQuery,
    Parameter,
    SqlFunction,
)
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.compiler.frontends.sql.registered_functions import read_type
from tidemill.model.errors import NameTaken, Unsupported
from tidemill.model.schema import RelationFields
from tidemill.model.types import Field


def named_to_json(named: NamedDefinitions) -> dict[str, Any]:
    """The stored form of all definitions; nothing where there are none."""
    queries = [{"name": q.name, "text": q.text, "columns": list(q.columns)} for q in named.queries.values()]
    functions = [_function_to_json(function) for function in named.functions.values()]
    return ({"queries": queries} if queries else {}) | ({"sql_functions": functions} if functions else {})


def _function_to_json(function: SqlFunction) -> dict[str, Any]:
    columns = function.columns
    return {
        "name": function.name,
        "parameters": [[p.name, str(p.type), p.default] for p in function.parameters],
        "body": function.body,
        "returns": None if function.returns is None else str(function.returns),
        "columns": None if columns is None else [[f.name, str(f.type)] for f in columns],
    }


def query_from_json(item: Mapping[str, Any]) -> NamedQuery:
    """A view that is not materialized, from its stored form."""
    return NamedQuery(item["name"], item["text"], tuple(item["columns"]))


def function_from_json(item: Mapping[str, Any]) -> SqlFunction:
    """A function in SQL, from its stored form."""
    columns = item["columns"]
    return SqlFunction(
        item["name"],
        tuple(Parameter(name, read_type(of), default) for name, of, default in item["parameters"]),
        item["body"],
        None if item["returns"] is None else read_type(item["returns"]),
        None if columns is None else tuple(Field(name, read_type(of)) for name, of in columns),
    )


class Maintained(Protocol):
    """A materialized view: its name and the text of its query."""

    @property
    def name(self) -> str: ...
    @property
    def query(self) -> str: ...


def require_readable(query: NamedQuery, relations: RelationFields, named: NamedDefinitions) -> None:
    """Refuse a view that is not materialized whose query cannot be read, or has two columns of one name."""
    names = DefinitionScope(relations, named, clock=ClockReads.wall()).rows(query).names
    if len(set(names)) < len(names):
        raise NameTaken(f'view "{query.name}" has two columns of one name', hint="Name them with AS.")


def require_unused(
    views: Iterable[Maintained], named: NamedDefinitions, name: str, done: str, kind: str = "view"
) -> None:
    """Refuse to drop or replace a definition that a materialized view uses, perhaps by way of others."""
    users = [view.name for view in views if name in words_of(view.query, named)]
    if users:
        raise Unsupported(
            f'{kind} "{name}" cannot be {done}', detail=f"It is used by {', '.join(users)}.", hint="Drop those first."
        )


def words_in(text: str) -> frozenset[str]:
    """The words of a text, in lower case: all names are among them."""
    return frozenset(token.text.lower() for token in SqlText.of(text, "definition").tokens) if text else frozenset()


def words_of(text: str, named: NamedDefinitions) -> set[str]:
    """The words of a query, and those of all definitions that they name: whatever it uses is among them."""
    found: set[str] = set()
    texts = [text]
    while texts:
        new = words_in(texts.pop()) - found
        found |= new
        texts += [named.queries[word].text for word in new & named.queries.keys()]
        texts += [named.functions[word].body for word in new & named.functions.keys()]
    return found
