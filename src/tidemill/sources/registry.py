"""Sources by name and options, as ``CREATE SOURCE shop TYPE postgres OPTIONS (...)`` gives them.

Options are text that is stored and shown: none of them may be a secret. Unknown ones are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tidemill.model.errors import Unsupported
from tidemill.sources.secrets import MYSQL, POSTGRES, Secrets
from tidemill.sources.source import Source

__all__ = ["SOURCE_TYPES", "open_source"]

_Columns = Mapping[str, Collection[str]] | None
_SHARED = ("tables", "setup", "reader", "poll", "patience", "query_timeout")


def open_source(
    name: str,
    type_: str,
    options: Mapping[str, str],
    secrets: Secrets | None = None,
    columns: _Columns = None,
) -> Source:
    """Open the source ``name`` of a type in ``SOURCE_TYPES``; its password may come from the variables ``secrets``.

    ``columns`` are the tables and columns that it had when it was created: those that came later are left out.
    """
    if type_ not in SOURCE_TYPES:
        raise Unsupported(f"there is no type {type_!r} of sources", hint=f"Types: {', '.join(sorted(SOURCE_TYPES))}.")
    return SOURCE_TYPES[type_](name, dict(options), secrets or Secrets.of(), columns)


def _sqlite(name: str, options: dict[str, str], secrets: Secrets, columns: _Columns) -> Source:
    from tidemill.sources.sqlite.source import SqliteSource

    given = _taken(options, _SHARED)
    path = options.pop("path", "")
    if not path or options:
        known = ", ".join(("path", *_SHARED))
        wrong = f"has no option {next(iter(options))!r}" if options else "needs the option path"
        raise Unsupported(f"a SQLite source {wrong}", hint=f"Options: {known}.")
    return SqliteSource(name, path, columns=columns, **given)


def _postgres(name: str, options: dict[str, str], secrets: Secrets, columns: _Columns) -> Source:
    from tidemill.sources.postgres.connection import Address
    from tidemill.sources.postgres.source import PostgresSource

    given = _taken(options, (*_SHARED, "schema", "changes", "held", "publication"))
    variable = secrets.require(options.pop("password_env", POSTGRES))
    return PostgresSource(name, Address(options, variable), columns=columns, **given)


def _mysql(name: str, options: dict[str, str], secrets: Secrets, columns: _Columns) -> Source:
    from tidemill.sources.mysql.connection import MySqlAddress
    from tidemill.sources.mysql.source import MySqlSource

    given = _taken(options, (*_SHARED, "held", "zero_dates"))
    for option in ("setup", "reader"):
        given.pop(option, None)  # nothing is made in the server, and it keeps its log for nobody in particular
    variable = secrets.require(options.pop("password_env", MYSQL))
    return MySqlSource(name, MySqlAddress(options, variable), columns=columns, **given)


SOURCE_TYPES: dict[str, Callable[[str, dict[str, str], Secrets, _Columns], Source]] = {
    "mariadb": _mysql,
    "mysql": _mysql,
    "postgres": _postgres,
    "sqlite": _sqlite,
}
"""The function that opens each type of source."""

_READERS: dict[str, Callable[[str], Any]] = {
    "tables": lambda text: [name.strip() for name in text.split(",") if name.strip()],
    "setup": lambda text: {"create": "create", "exists": "exists"}[text],
    "poll": float,
    "patience": float,
    "query_timeout": float,
    "held": int,
    "zero_dates": lambda text: {"refuse": "refuse", "null": "null"}[text],
}


def _taken(options: dict[str, str], names: tuple[str, ...]) -> dict[str, Any]:
    """Those of ``options`` that are in ``names``, removed from them and parsed."""
    taken = {}
    for name in names:
        if name in options:
            text = options.pop(name)
            try:
                taken[name] = _READERS.get(name, str)(text)
            except (KeyError, ValueError):
                raise Unsupported(f"{text!r} is no value of the option {name}") from None
    return taken
