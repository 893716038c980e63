"""The data source that Spark sees: the columns of a table or view, and who reads and writes it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import LongType, StructField, StructType

from tidemill.model.errors import InvalidArgument, Unsupported
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import Field
from tidemill.runtimes.spark.data_source.readers import ChangeReader, RowReader, arrow_columns
from tidemill.runtimes.spark.data_source.relation import WarehouseRelation
from tidemill.runtimes.spark.data_source.writers import STREAMS_ARROW, BatchWriter, StreamWriter
from tidemill.runtimes.spark.lowering.types import spark_type

__all__ = ["WarehouseSource", "columns_of"]


class WarehouseSource(DataSource, WarehouseRelation):  # type: ignore[misc]
    """Tables and views of a warehouse that is opened by each call; subclasses know how."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "tidemill"

    def schema(self) -> StructType:
        """The columns of the relation, and with the option ``changes`` also ``_weight`` and ``_epoch``."""
        options = self.parsed
        columns = columns_of(self.fields(), options.relation)
        if options.changes:
            columns += [StructField(WEIGHT, LongType(), False), StructField(EPOCH, LongType(), False)]
        return StructType(columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the rows as of an epoch, or the changes up to it."""
        return RowReader(self, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads the changes, epoch by epoch."""
        if not self.parsed.changes:
            raise InvalidArgument(
                "a stream has the changes of a table or view, with their weights",
                detail="Its columns are _weight and _epoch beside those of the rows.",
                hint='Give option("changes", True).',
            )
        return ChangeReader(self, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes a DataFrame as one epoch."""
        _refuse_overwriting(overwrite)
        return BatchWriter(self)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Writes each batch of a streaming query as one epoch."""
        _refuse_overwriting(overwrite)
        if not STREAMS_ARROW:
            raise Unsupported("writing streams on this version of Spark", hint="Install pyspark 4.1, or use wh.stream.")
        return StreamWriter(self)


def _refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise Unsupported(
            "a table is changed, not replaced, by what is written to it",
            hint='Give mode("append"), with option("intake", "upsert") to replace rows by key.',
        )


def columns_of(fields: Sequence[Field], relation: str) -> list[StructField]:
    """The columns of a relation, if Spark takes the values of all from Python."""
    return [_column(field, relation) for field in fields]


def _column(field: Field, relation: str) -> StructField:
    """A column, if Spark takes its values from Python."""
    column = StructField(field.name, spark_type(field.type), field.nullable)
    try:
        arrow_columns(StructType([column]))
    except PySparkException as error:
        raise Unsupported(
            f'column "{field.name}" of "{relation}" cannot be read by a data source',
            detail=f"Spark does not take values of type {field.type} from Python.",
            hint="Read it with view.df(), or cast it in a view.",
        ) from error
    return column
