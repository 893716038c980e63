"""Datasets that Spark computes as a whole, because Tidemill cannot maintain them; what differs is their change."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tidemill.compiler.frontends.pipelines.references import PipelineQuery
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SetupError
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.runtimes.spark.pipelines.load import LoadedFlow
from tidemill.runtimes.spark.pipelines.recompute import computed_rows, spark_error
from tidemill.serving.pipelines.plan import Step, columns_text
from tidemill.serving.pipelines.project import Project
from tidemill.sources.lake.columns import fields_of_schema
from tidemill.storage.compaction.consolidate import difference

__all__ = ["Recomputation"]


class Recomputation:
    """Spark over the relations of a warehouse, which are temporary views of its session."""

    def __init__(self, project: Project, warehouse: Warehouse) -> None:
        self._project = project
        self._wh = warehouse

    def refresh(self, step: Step, views: Iterable[Step]) -> None:
        """Compute a dataset, and apply what differs from its rows as one epoch."""
        rows = self._rows(step, views)
        fields = fields_of_schema(rows.schema, step.name)
        rows = rows.rename_columns([one.name for one in fields])
        if step.name in self._wh.tables() and self._wh.table(step.name).fields != _nullable(fields):
            self._wh.sql(f"DROP TABLE {step.name}")
        if step.name not in self._wh.tables():
            self._wh.sql(f"CREATE TABLE {step.name} ({columns_text(fields)})")
        table = self._wh.table(step.name)
        change = difference(
            _weighted(table.arrow()), _weighted(rows.cast(table.arrow().schema)), Map(step.name, table.fields)
        )
        if change.num_rows:
            self._wh.apply({step.name: change})

    def _rows(self, step: Step, views: Iterable[Step]) -> pa.Table:
        assert step.flow is not None
        spark = self._wh.spark
        inlined = [view for view in views if view.query and not view.flow]
        self._wh.attach(spark)
        try:
            for view in inlined:
                spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.name} AS {view.query}")
            return computed_rows(spark, _source(step), step.flow.settings)
        except Exception as error:
            detail = spark_error(error)
            if detail is None:
                raise
            place = step.flow.place
            raise SetupError(f'Spark cannot compute "{step.name}"', where=place, detail=detail) from error
        finally:
            for view in inlined:
                spark.catalog.dropTempView(view.name)
            self._wh.detach(spark)


def _source(step: Step) -> str | tuple[str, str]:
    """The text of a query, or a function by its file and the name of its flow."""
    assert step.flow is not None
    if isinstance(step.flow.query, LoadedFlow):
        return step.flow.query.file, step.flow.query.name
    assert isinstance(step.flow.query, PipelineQuery)
    return step.query or step.flow.query.text.strip()


def _weighted(rows: pa.Table) -> pa.Table:
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))


def _nullable(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(Field(one.name, one.type) for one in fields)
