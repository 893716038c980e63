"""The package by which Spark finds the format ``tidemill`` on its own.

When a Python data source is first asked for, Spark imports all packages whose names begin with ``pyspark_`` and knows
the ``DefaultSource`` of each from then on. So importing this one is cheap and needs nothing else of Tidemill: that is
imported when the format is used.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):  # type: ignore[misc]
    """The format ``tidemill``. What is made of it is the data source that ``tidemill.spark.register`` registers."""

    def __new__(cls, options: dict[str, str]) -> Any:
        """The data source that reads and writes warehouses."""
        from tidemill.engine.data_source.source import TidemillSource

        return TidemillSource(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "tidemill"
