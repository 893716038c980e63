"""State of one session of a warehouse, whichever thread works for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Literal
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions, NamedQuery, SqlFunction

__all__ = ["SessionState"]


class SessionState:
    """A session: its user and roles, its temporary views and functions, its variables.

    ``timeout`` is the number of seconds that one of its statements may take. ``lock`` is held by the thread that has a
    call of it: one at a time. Its transaction is with those of others, in ``OpenTransactions``.
    """

    def __init__(
        self, user: str | None = None, roles: tuple[str, ...] = ("owner",), name: str = "", timeout: float | None = None
    ) -> None:
        self.user = user
        self.roles = roles
        self.name = name
        self.timeout = timeout
        self.closed = False
        self.lock = threading.RLock()
        self.rights: object = None
        """Its rights by the grants of some catalog; see ``engine.access``."""
        self.definitions = NamedDefinitions()
        """Temporary views and functions, and variables."""
        self.variable_defaults: dict[str, Literal] = {}
        """Values that SET VAR name = DEFAULT sets."""

    def set_queries(self, queries: Mapping[str, NamedQuery]) -> None:
        """Set its temporary views."""
        self.definitions = replace(self.definitions, queries=queries)

    def set_functions(self, functions: Mapping[str, SqlFunction]) -> None:
        """Set its temporary functions."""
        self.definitions = replace(self.definitions, functions=functions)

    def set_variables(self, variables: Mapping[str, Literal]) -> None:
        """Set the values of its variables."""
        self.definitions = replace(self.definitions, variables=variables)
