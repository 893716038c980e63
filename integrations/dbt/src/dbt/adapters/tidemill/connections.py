"""Credentials, and connections on which every statement is committed by itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.contracts.connection import Connection
from dbt.adapters.postgres import PostgresConnectionManager, PostgresCredentials
from dbt.adapters.tidemill.relation import SCHEMAS
from dbt_common.exceptions import DbtRuntimeError

__all__ = ["TidemillConnectionManager", "TidemillCredentials"]


@dataclass
class TidemillCredentials(PostgresCredentials):
    """Where ``tidemill serve`` listens, and who connects. The schema is the one that a warehouse has."""

    database: str = field(kw_only=True)
    schema: str = field(default="default", kw_only=True)
    host: str = field(default="127.0.0.1", kw_only=True)
    port: int = field(default=6875, kw_only=True)
    user: str = field(default="tidemill", kw_only=True)
    password: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a schema that a warehouse does not have."""
        if self.schema.lower() not in SCHEMAS:
            raise DbtRuntimeError(
                f'a warehouse has no schema "{self.schema}": set schema: default in the profile. '
                "For a second target use a second warehouse (tidemill clone), or a schema: of the models, which "
                "becomes a prefix of their names."
            )
        self.autocommit = True

    @property
    def type(self) -> str:
        """The name of the adapter."""
        return "tidemill"

    def _connection_keys(self) -> tuple[str, ...]:
        left_out = ("autocommit", "role", "search_path")
        return tuple(key for key in super()._connection_keys() if key not in left_out)


class TidemillConnectionManager(PostgresConnectionManager):
    """Connections without transactions: a definition is committed by itself, and so is each statement of a hook.

    What belongs together, the rows of a seed, is sent with BEGIN and COMMIT around it.
    """

    TYPE = "tidemill"

    def _should_skip_transaction_statements(self) -> bool:
        return True

    def cancel(self, connection: Connection) -> None:
        """Cancel the statement that a connection runs."""
        handle = connection.handle
        if handle is not None and not handle.closed:
            handle.cancel()
