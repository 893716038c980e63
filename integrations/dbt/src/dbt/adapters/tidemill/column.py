"""Columns, with types as Spark SQL spells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dbt.adapters.base import Column

__all__ = ["TidemillColumn"]


@dataclass
class TidemillColumn(Column):
    """A column of a table or view."""

    TYPE_LABELS: ClassVar[dict[str, str]] = {
        "STRING": "string",
        "TEXT": "string",
        "VARCHAR": "string",
        "TIMESTAMP": "timestamp",
        "FLOAT": "double",
        "NUMERIC": "decimal(28,6)",
        "INTEGER": "int",
        "BIGINT": "bigint",
        "BOOLEAN": "boolean",
    }

    @property
    def quoted(self) -> str:
        """Its name in backquotes."""
        return "`" + self.column.replace("`", "``") + "`"

    @property
    def data_type(self) -> str:
        """Its type, with its digits or length."""
        return self.dtype

    def is_string(self) -> bool:
        """True for text."""
        return self.dtype.lower().split("(")[0].strip() in ("string", "text", "varchar", "char")
