"""The adapter: what a definition would change, the types of seeds, and literals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.base import ConstraintSupport, available
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.postgres import PostgresAdapter
from dbt.adapters.postgres.impl import PostgresConfig
from dbt.adapters.tidemill.column import TidemillColumn
from dbt.adapters.tidemill.connections import TidemillConnectionManager
from dbt.adapters.tidemill.relation import TidemillRelation
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

__all__ = ["TidemillAdapter"]

LOG = AdapterLogger("Tidemill")


@dataclass
class TidemillConfig(PostgresConfig):
    """What a model may set: ``options`` of its view, as WITH takes them."""

    options: dict[str, Any] = field(default_factory=dict)


class TidemillAdapter(PostgresAdapter):
    """dbt-postgres, with the statements of a warehouse."""

    Relation = TidemillRelation
    ConnectionManager = TidemillConnectionManager
    Column = TidemillColumn
    AdapterSpecificConfigs = TidemillConfig

    CONSTRAINT_SUPPORT = dict.fromkeys(ConstraintType, ConstraintSupport.NOT_SUPPORTED)

    @classmethod
    def date_function(cls) -> str:
        """The present time in SQL."""
        return "current_timestamp()"

    @classmethod
    def quote(cls, identifier: str) -> str:
        """A name in backquotes."""
        return "`" + identifier.replace("`", "``") + "`"

    def valid_incremental_strategies(self) -> list[str]:
        """All that dbt knows: an incremental model is a materialized view, whatever its strategy."""
        return ["append", "delete+insert", "merge", "insert_overwrite"]

    def _link_cached_relations(self, manifest: Any) -> None:
        """Materializations ask the server what is there, so the cache need not know what a DROP takes along."""

    def standardize_grants_dict(self, grants_table: Any) -> dict[str, list[str]]:
        """Who has which privilege on a relation, without those that it has with conditions or on all tables."""
        found: dict[str, list[str]] = {}
        for row in grants_table.rows:
            if not row["condition"] and row["relation"] != "*":
                found.setdefault(row["privilege"].lower(), []).append(row["grantee"])
        return found

    # -- types of seeds -----------------------------------------------------------------------------------------

    @classmethod
    def convert_text_type(cls, agate_table: Any, col_idx: int) -> str:
        """Type of a column of texts."""
        return "string"

    @classmethod
    def convert_number_type(cls, agate_table: Any, col_idx: int) -> str:
        """Type of a column of numbers."""
        from agate import MaxPrecision

        return "double" if agate_table.aggregate(MaxPrecision(col_idx)) else "bigint"

    @classmethod
    def convert_integer_type(cls, agate_table: Any, col_idx: int) -> str:
        """Type of a column of whole numbers."""
        return "bigint"

    @classmethod
    def convert_datetime_type(cls, agate_table: Any, col_idx: int) -> str:
        """Type of a column of times."""
        return "timestamp"

    # -- for macros ---------------------------------------------------------------------------------------------

    @available
    def plan(self, create: str) -> dict[str, Any]:
        """What a CREATE statement would do, as EXPLAIN says: its action, reason and the views that use the name."""
        _, table = self.execute(f"explain {create}", fetch=True)
        row = table.rows[0]
        found = {name: row[name] for name in table.column_names}
        found["used_by"] = [name for name in (found["used_by"] or "").split(", ") if name]
        return found

    @available
    def is_as_declared(self, create: str) -> bool:
        """True if a table has the columns of a CREATE TABLE statement."""
        try:
            return bool(self.plan(create)["action"] == "unchanged")
        except DbtDatabaseError:
            return False

    @available
    def has_columns_of(self, relation: TidemillRelation, sql: str) -> bool:
        """True if a table has the columns that a query gives, in their order."""
        return self._described(f"select * from {relation}") == self._described(sql)

    def _described(self, sql: str) -> list[tuple[Any, ...]]:
        _, cursor = self.connections.add_select_query(f"select * from (\n{sql}\n) as described limit 0")
        return [(one.name, one.type_code, one.precision, one.scale) for one in cursor.description]

    @available
    def drop_unused(self, names: list[str]) -> None:
        """Drop former definitions of views that nothing reads any more; what is still read stays."""
        for name in names:
            try:
                self.execute(f"drop view if exists {self.quote(name)}")
            except DbtDatabaseError as error:
                LOG.debug(f"{name} stays: {error}")

    @available
    def literal(self, value: Any) -> str:
        """A value of a seed in SQL."""
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if hasattr(value, "isoformat"):
            value = value.isoformat(sep=" ") if hasattr(value, "hour") and hasattr(value, "year") else value.isoformat()
        elif not isinstance(value, str):
            return str(value)
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    @available
    def view_options(self, options: dict[str, Any]) -> str:
        """The clause WITH of a materialized view."""
        for name in options:
            if not name.isidentifier():
                raise DbtRuntimeError(f'"{name}" cannot be an option of a view')
        settings = [f"{name} = {self.literal(str(value))}" for name, value in sorted(options.items())]
        return f"with ({', '.join(settings)})" if settings else ""
