"""A session of Spark Connect without a server: DataFrames are built as plans, and asking for rows is refused.

Functions that define datasets are called in it. What they build with ``spark.sql``, ``spark.table`` and the operations
of DataFrames is a plan on this side alone, so no Java is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from pyspark.sql.connect.session import SparkSession as ConnectSession

__all__ = ["NeedsSpark", "recorded_session"]

REMOTE = "SPARK_CONNECT_MODE_ENABLED"
"""The variable by which pyspark's functions know that they build plans for Connect."""


class NeedsSpark(Exception):
    """A definition asks for something that only a running Spark can tell."""


class _Client:
    """The part of a session's client that pyspark calls while plans are built; everything else needs a server."""

    is_closed = False

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings

    def add_threadlocal_user_context_extension(self, extension: object) -> str:
        return ""

    def remove_user_context_extension(self, name: str) -> None:
        return None

    def execute_command(self, command: Any) -> tuple[None, dict[str, Any], None]:
        """``spark.sql`` sends its text at once, and keeps it as a plan if nothing comes back."""
        if command.WhichOneof("command_type") != "sql_command":
            raise NeedsSpark(f"it runs a command of Spark ({command.WhichOneof('command_type')})")
        return None, {}, None

    def config(self, operation: Any) -> Any:
        """The settings of the project; what it does not set is unknown here."""
        kind = operation.WhichOneof("op_type")
        if kind == "get":
            return SimpleNamespace(pairs=[(key, self._known(key)) for key in operation.get.keys], warnings=[])
        if kind == "get_with_default":
            pairs = operation.get_with_default.pairs
            return SimpleNamespace(pairs=[(p.key, self._settings.get(p.key, p.value)) for p in pairs], warnings=[])
        raise NeedsSpark("it reads or changes settings of the session")

    def _known(self, key: str) -> str:
        if key.startswith("spark.sql.execution.pythonUDF."):
            return "false"  # asked when a function in Python is made, which Spark alone can call in any case
        if key not in self._settings:
            raise NeedsSpark(f"it reads the setting {key}, which the project does not set")
        return self._settings[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("_analyze", "schema"):
            raise NeedsSpark("it asks for the columns of a DataFrame, or for other results of analysis")
        raise NeedsSpark("it asks for rows, or for something else that only a running Spark has")


@contextmanager
def recorded_session(settings: Mapping[str, str]) -> Iterator[ConnectSession]:
    """Context with such a session, which is the active one in it."""
    session = ConnectSession.__new__(ConnectSession)
    session._client = _Client(settings)
    session._session_id = "tidemill"
    session.release_session_on_close = False
    active = getattr(ConnectSession._active_session, "session", None)
    was_remote = os.environ.get(REMOTE)
    os.environ[REMOTE] = "1"
    ConnectSession._active_session.session = session
    try:
        yield session
    finally:
        ConnectSession._active_session.session = active
        os.environ.pop(REMOTE) if was_remote is None else os.environ.update({REMOTE: was_remote})
