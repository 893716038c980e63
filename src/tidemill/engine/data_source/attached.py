"""Tables and views of a warehouse as temporary views of sessions of Spark.

Each query reads the last epoch, by a task that looks for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.data_source.register import register
from tidemill.model.errors import InvalidArgument, SetupError, Unsupported
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import SparkSession

__all__ = ["AttachedViews"]


class AttachedViews:
    """The temporary views that a warehouse has made, by session."""

    def __init__(self) -> None:
        self._names: dict[SparkSession, dict[str, None]] = {}

    def attach(self, spark: SparkSession, folder: str | None, catalog: Catalog, prefix: str) -> tuple[str, ...]:
        """Make a temporary view of each table and view; returns their names. Those of others are not replaced."""
        if folder is None:
            raise _in_memory()
        register(spark)
        from tidemill.runtimes.spark.data_source.sessions import create_view, temporary_views

        ours = self._names.setdefault(spark, {})
        names = {f"{prefix}{relation}": relation for relation in _readable(catalog)}
        for taken in temporary_views(spark).intersection(names) - ours.keys():
            raise InvalidArgument(
                f'the session has a temporary view "{taken}" already',
                hint='Give a prefix: wh.attach(spark, prefix="shop_").',
            )
        for name, relation in names.items():
            create_view(spark, name, folder, relation)
            ours[name] = None
        return tuple(names)

    def detach(self, spark: SparkSession) -> None:
        """Drop the temporary views that were made in a session."""
        for name in self._names.pop(spark, {}):
            spark.catalog.dropTempView(name)


def _readable(catalog: Catalog) -> Iterable[str]:
    """The tables and views that Spark can read; a warning tells of those with columns that it cannot."""
    from tidemill.runtimes.spark.data_source.source import columns_of

    tables = [table.name for table in catalog.tables.values() if table.kept and SUBPLAN_SIGN not in table.name]
    for name in (*tables, *catalog.views):
        try:
            columns_of(catalog.entry(name).fields, name)
        except Unsupported as error:
            warnings.warn(f'"{name}" is left out: {error.what}', RuntimeWarning, stacklevel=2)
        else:
            yield name


def _in_memory() -> SetupError:
    return SetupError(
        "a warehouse in memory cannot be attached",
        detail="Spark reads it in processes of its own, by its folder.",
        hint='Open a folder, or make single views: wh.view("spend").df().createOrReplaceTempView("spend").',
    )
