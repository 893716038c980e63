"""Connections to MariaDB and MySQL: address, password, TLS and the settings of a session.

A password is never an option. It comes from the environment: ``MYSQL_PWD``, or the variable that ``password_env``
names, if the operator allows that (``sources.secrets``). It is removed from every error text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.model.errors import SetupError, Unsupported
from tidemill.sources.reconnecting import Reconnecting
from tidemill.sources.remote_queries.mysql_dialect import with_values

try:
    import pymysql
    import pymysql.cursors
except ImportError as missing:
    raise SetupError(
        "the driver for MariaDB and MySQL is not installed",
        detail=str(missing),
        hint="pip install 'tidemill[mysql]'",
    ) from None

__all__ = ["MySqlAddress", "MySqlConnection", "ReconnectingMySql", "execute", "statement_text"]

MySqlConnection = Any
"""A connection of pymysql, which has no types for its users."""

_PLACE = ("host", "port", "user", "database", "unix_socket")
_TLS = {"ssl_ca": "ssl_ca", "ssl_cert": "ssl_cert", "ssl_key": "ssl_key"}
_ALLOWED = (*_PLACE, *_TLS, "ssl_verify", "connect_timeout")
_SETTINGS = (
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION sql_mode = 'ANSI_QUOTES,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
_READ_TIMEOUT = 600


@dataclass(frozen=True)
class MySqlAddress:
    """The address of a server and the login, without the password."""

    options: Mapping[str, str]
    password_env: str = "MYSQL_PWD"

    def __post_init__(self) -> None:
        for option in self.options:
            if "passw" in option:
                raise Unsupported(
                    f"a source has no option {option!r}",
                    detail="Options are stored and shown; passwords must not be.",
                    hint="Set MYSQL_PWD, or name another variable in password_env.",
                )
            if option not in _ALLOWED:
                known = ", ".join(sorted(_ALLOWED))
                raise Unsupported(f"a MySQL source has no option {option!r}", hint=f"Of the connection: {known}.")
        if not self.options.get("database"):
            raise Unsupported("a MySQL source needs the option database", hint="It says whose tables are offered.")

    @property
    def database(self) -> str:
        """The database whose tables are offered."""
        return self.options["database"]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.options.items())

    @property
    def login(self) -> dict[str, Any]:
        """The arguments of the driver for a connection."""
        given: dict[str, Any] = {name: self.options[name] for name in _PLACE if name in self.options}
        given |= {"charset": "utf8mb4", "password": os.environ.get(self.password_env, "")}
        for name in ("port", "connect_timeout"):
            if name in self.options:
                given[name] = _number(name, self.options[name])
        if any(name in self.options for name in (*_TLS, "ssl_verify")):
            verified = self.options.get("ssl_verify", "true").lower() == "true"
            given |= {name: self.options[option] for option, name in _TLS.items() if option in self.options}
            given |= {"ssl_verify_cert": verified, "ssl_verify_identity": verified}
            if not verified and "ssl_ca" not in given:
                given["ssl"] = {"check_hostname": False}  # encrypted, to whoever answers
        return given

    def open(self) -> MySqlConnection:
        """A new connection, with the settings under which values are read and written. Values come as text."""
        connection = pymysql.connect(**self.login, conv={}, autocommit=True, read_timeout=_READ_TIMEOUT)
        try:
            for setting in _SETTINGS:
                execute(connection, setting)
        except BaseException:
            connection.close()
            raise
        return connection

    def hidden(self, text: str) -> str:
        """``text`` with the password removed, if it is in it."""
        secrets = {os.environ.get(name, "") for name in (self.password_env, "MYSQL_PWD")}
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return text


def _number(option: str, text: str) -> int:
    if not text.isdecimal():
        raise Unsupported(f"{text!r} is no value of the option {option}", hint="It is a number.")
    return int(text)


class ReconnectingMySql(Reconnecting[MySqlConnection]):
    """A connection that is reopened when it breaks."""

    BROKEN = (pymysql.err.OperationalError, pymysql.err.InterfaceError)
    ERRORS = (pymysql.err.Error,)

    def __init__(self, name: str, address: MySqlAddress, patience: float = 60.0) -> None:
        super().__init__(name, patience)
        self.address = address

    @property
    def where(self) -> str:
        """The options of the address."""
        return str(self.address)

    def hidden(self, text: str) -> str:
        """``text`` with the password removed, if it is in it."""
        return self.address.hidden(text)

    def _open(self) -> MySqlConnection:
        return self.address.open()

    def _is_closed(self, connection: MySqlConnection) -> bool:
        return not connection.open

    def _roll_back(self, connection: MySqlConnection) -> None:
        connection.rollback()

    def _close(self, connection: MySqlConnection) -> None:
        if connection.open:
            connection.close()


def execute(connection: MySqlConnection, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement, whose parameters are marked as in ``mysql_dialect``; values are text."""
    with connection.cursor() as cursor:
        cursor.execute(statement_text(connection, sql, parameters))
        return list(cursor.fetchall())


def statement_text(connection: MySqlConnection, sql: str, parameters: Any) -> str:
    """A statement with its parameters in their places."""
    return with_values(sql, parameters, lambda value: str(pymysql.converters.escape_item(value, "utf8mb4", _ESCAPES)))


_ESCAPES = pymysql.converters.encoders
