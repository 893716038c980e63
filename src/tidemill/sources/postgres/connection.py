"""Connections to PostgreSQL: passwords and reconnecting.

A password is never an option. It comes from the environment (``PGPASSWORD``, or the variable that ``password_env``
names, if the operator allows that: ``sources.secrets``), from a service file or from ``~/.pgpass``; the last two are
read by PostgreSQL's own client library. We hold it only for the length of one call, and remove it from every error
text.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidemill.model.errors import SetupError, SourceLost, Unsupported
from tidemill.sources.remote_queries.dialects import quoted_text

try:
    import psycopg
except ImportError as missing:
    raise SetupError(
        "the driver for PostgreSQL is not installed", detail=str(missing), hint="pip install 'tidemill[postgres]'"
    ) from None

__all__ = ["Address", "Connection", "ReconnectingConnection", "execute", "trigger_function"]

Connection = psycopg.Connection[Any]
WorkResult = TypeVar("WorkResult")

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
_LONGEST_PAUSE = 2.0


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


@dataclass
class ReconnectingConnection:
    """A connection that is reopened when it breaks, with growing pauses, until ``patience`` seconds have passed."""

    name: str
    address: Address
    patience: float = 60.0
    prepare: Callable[[Connection], None] = field(default=lambda connection: None)
    _connection: Connection | None = field(default=None, repr=False)

    def run(self, work: Callable[[Connection], WorkResult]) -> WorkResult:
        """The result of ``work``, which may be retried and must leave nothing behind when it fails."""
        deadline = time.monotonic() + self.patience
        pause = 0.02
        while True:
            try:
                return work(self.connection())
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self.close()
                if time.monotonic() + pause > deadline:
                    raise self.lost(error) from None
            except psycopg.Error as error:
                self.close()
                raise self.lost(error) from None
            except BaseException:
                self._undo()
                raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def connection(self) -> Connection:
        """The connection, opened if there is none."""
        if self._connection is None or self._connection.closed:
            self._connection = self.address.open(f"tidemill {self.name}")
            self.prepare(self._connection)
        return self._connection

    def _undo(self) -> None:
        """End the transaction of ``work``; a connection on which that fails is closed."""
        try:
            if self._connection is not None:
                self._connection.rollback()
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def lost(self, error: Exception) -> SourceLost:
        """The error that users see."""
        text = self.address.hidden(str(error).strip())
        where = self.address.hidden(str(self.address)) or None
        return SourceLost(f'source "{self.name}" cannot be read', where=where, detail=text)


def execute(connection: Connection, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement with parameters ``$1``, ``$2`` and so on."""
    cursor = psycopg.RawCursor(connection)
    cursor.execute(sql.encode(), parameters or None)
    return cursor.fetchall() if cursor.description else []


def trigger_function(name: str, body: str) -> str:
    """SQL that creates a function for triggers. It runs with its owner's rights, so writers need none of their own.

    ``name`` is quoted already. The settings make values written within it independent of the writer's session.
    """
    settings = "SET search_path = pg_catalog SET extra_float_digits = 1 SET timezone = 'UTC'"
    front = f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER {settings}"
    return f"{front} AS {quoted_text(body)}"
