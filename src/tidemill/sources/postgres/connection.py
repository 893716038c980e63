"""Connections to PostgreSQL: passwords and reconnecting.

A password is never an option. It comes from the environment (``PGPASSWORD``, or the variable that ``password_env``
names, if the operator allows that: ``sources.secrets``), from a service file or from ``~/.pgpass``; the last two are
read by PostgreSQL's own client library. We hold it only for the length of one call, and remove it from every error
text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.model.errors import SetupError, Unsupported
from tidemill.sources.reconnecting import Reconnecting
from tidemill.sources.remote_queries.dialects import quoted_text

try:
    import psycopg
except ImportError as missing:
    raise SetupError(
        "the driver for PostgreSQL is not installed", detail=str(missing), hint="pip install 'tidemill[postgres]'"
    ) from None

__all__ = ["Address", "Connection", "ReconnectingConnection", "event_function", "execute", "trigger_function"]

Connection = psycopg.Connection[Any]

_ALLOWED: tuple[str, ...] = ("host", "hostaddr", "port", "dbname", "user", "service", "passfile", "channel_binding")
_ALLOWED += (
    "connect_timeout",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "target_session_attrs",
    "keepalives",
    "keepalives_idle",
)
_SETTINGS = {
    "client_encoding": "UTF8",
    "timezone": "UTC",
    "datestyle": "ISO",
    "extra_float_digits": "1",  # doubles are written with all digits that distinguish them
    "search_path": "pg_catalog",  # no functions and operators of others
    "jit": "off",
    "synchronous_commit": "local",
    "standard_conforming_strings": "on",
}


@dataclass(frozen=True)
class Address:
    """The address of a server and the login, without the password."""

    options: Mapping[str, str]
    password_env: str = "PGPASSWORD"

    def __post_init__(self) -> None:
        for option, value in self.options.items():
            if "password" in option or "://" in value or "password" in value:
                raise Unsupported(
                    f"a source has no option {option!r}",
                    detail="Options are stored and shown; passwords must not be.",
                    hint="Set PGPASSWORD, name another variable in password_env, or use a service file or ~/.pgpass.",
                )
            if option not in _ALLOWED:
                known = ", ".join(sorted(_ALLOWED))
                raise Unsupported(f"a PostgreSQL source has no option {option!r}", hint=f"Of the connection: {known}.")

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.options.items())

    def open(self, application: str) -> Connection:
        """A new connection, with the settings under which values are read and written."""
        options: dict[str, Any] = {**self.options, "application_name": application}
        password = os.environ.get(self.password_env)
        if password:
            options["password"] = password
        connection = psycopg.connect(**options, autocommit=True, prepare_threshold=None)
        try:
            settings = "SELECT set_config(s.name, s.value, false) FROM unnest($1::text[], $2::text[]) AS s(name, value)"
            execute(connection, settings, list(_SETTINGS), list(_SETTINGS.values()))
        except BaseException:
            connection.close()
            raise
        return connection

    def hidden(self, text: str) -> str:
        """``text`` with the password removed, if it is in it."""
        secrets = {os.environ.get(name, "") for name in (self.password_env, "PGPASSWORD")}
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return text


class ReconnectingConnection(Reconnecting[Connection]):
    """A connection to PostgreSQL that is reopened when it breaks."""

    BROKEN = (psycopg.OperationalError, psycopg.InterfaceError)
    ERRORS = (psycopg.Error,)

    def __init__(self, name: str, address: Address, patience: float = 60.0) -> None:
        super().__init__(name, patience)
        self.address = address

    @property
    def where(self) -> str:
        """The options of the address."""
        return str(self.address)

    def hidden(self, text: str) -> str:
        """``text`` with the password removed, if it is in it."""
        return self.address.hidden(text)

    def _open(self) -> Connection:
        return self.address.open(f"tidemill {self.name}")

    def _is_closed(self, connection: Connection) -> bool:
        return bool(connection.closed)

    def _roll_back(self, connection: Connection) -> None:
        connection.rollback()

    def _close(self, connection: Connection) -> None:
        connection.close()


def execute(connection: Connection, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement with parameters ``$1``, ``$2`` and so on."""
    cursor = psycopg.RawCursor(connection)
    cursor.execute(sql.encode(), parameters or None)
    return cursor.fetchall() if cursor.description else []


def trigger_function(name: str, body: str) -> str:
    """SQL that creates a function for triggers. It runs with its owner's rights, so writers need none of their own.

    ``name`` is quoted already. The settings make values written within it independent of the writer's session.
    """
    return _function(name, "trigger", body)


def event_function(name: str, body: str) -> str:
    """SQL that creates a function for event triggers, likewise."""
    return _function(name, "event_trigger", body)


def _function(name: str, returns: str, body: str) -> str:
    settings = "SET search_path = pg_catalog SET extra_float_digits = 1 SET timezone = 'UTC'"
    front = f"CREATE OR REPLACE FUNCTION {name}() RETURNS {returns} LANGUAGE plpgsql SECURITY DEFINER {settings}"
    return f"{front} AS {quoted_text(body)}"
