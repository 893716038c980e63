"""Kafka's records of Debezium as epochs: each batch of a stream is one, and its records are taken in their order.

A record is a row of Spark's Kafka source: ``key``, ``value``, ``topic``, ``partition``, ``offset``. Within a partition
of a topic they have the order of their offsets, which is that of the database for one key. Debezium may send a record
again after a failure, and reads all rows anew for another snapshot: so the rows of a table with a primary key replace
those that are stored, and a record that deletes what is not there changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.changes.zset import Row
from tidemill.engine.engine import Engine
from tidemill.engine.intake_counts import IntakeCounts
from tidemill.model.errors import BadValue, InvalidArgument
from tidemill.model.schema import Table
from tidemill.sources.ingest.debezium import DebeziumReader, KafkaRecord
from tidemill.sources.ingest.text_records import parse_json

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import DataFrame

__all__ = ["DebeziumIntake"]

_COLUMNS = ("value", "topic", "partition", "offset")


@dataclass
class DebeziumIntake:
    """A stream of Debezium's records into ``targets``. ``counts`` and ``batches`` are those since it was started."""

    engine: Engine
    name: str
    targets: Mapping[str, Any]
    counts: IntakeCounts = field(default_factory=IntakeCounts)
    batches: int = 0

    def prepare(self) -> None:
        """Refuse tables whose rows are not kept, since a record may delete them."""
        for name in self.targets:
            table = self.engine.committed.table(name)
            if table.append_only or not table.kept:
                raise InvalidArgument(
                    f'"{name}" cannot take records of Debezium',
                    detail="They update and delete rows, and its rows are only added to.",
                    hint="Declare a table with a PRIMARY KEY, without APPEND ONLY.",
                )

    def take(self, batch: DataFrame, source: str, position: str) -> None:
        """Commit one batch as an epoch, with its ``position`` in the stream ``source``."""
        from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow

        lacking = [name for name in _COLUMNS if name not in batch.columns]
        if lacking:
            raise InvalidArgument(
                f"the stream has no column {', '.join(lacking)}",
                detail="Records of Debezium are read as Spark's Kafka source gives them, or as they were recorded.",
                hint="Give spark.readStream.format('kafka')... itself, without a projection.",
            )
        wanted = [name for name in ("key", *_COLUMNS) if name in batch.columns]
        self.take_records(rows_as_arrow(batch.select(*wanted)), {source: position})

    def take_records(self, given: pa.Table, positions: Mapping[str, str]) -> None:
        """Commit the records of a batch as an epoch."""
        ordered = given.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
        records = [_record(row) for row in ordered.to_pylist()]
        with self.engine.settled():
            tables = {name: self.engine.committed.table(name) for name in self.targets}
            reader = DebeziumReader(tables, None, replaces=True)
            reader.lookup = self._stored(tables, reader.keys_of(records))
            for record in records:
                reader.take_record(record)
            self.engine.apply(reader.changes(), positions)
        self.batches += 1
        self.counts += IntakeCounts(rows=sum(map(len, reader.changes().values())))

    def _stored(self, tables: Mapping[str, Table], keys: Mapping[str, Iterable[Row]]) -> Any:
        """A lookup among the stored rows that have one of ``keys``, which are read together."""
        found: dict[tuple[str, Row], Row] = {}
        for name, wanted in keys.items():
            rows = self.engine.placement.lookup.find(name, tables[name].key_positions, set(wanted))
            found |= {(name, key): some[0] for key, some in rows.items() if some}
        return lambda name, key: found.get((name, key))


def _record(row: Mapping[str, Any]) -> KafkaRecord:
    where = f"{row['topic']}[{row['partition']}]@{row['offset']}"
    return KafkaRecord(row["topic"], _json(row.get("key"), where), _json(row["value"], where), where)


def _json(data: Any, where: str) -> Any:
    """The JSON of a key or value; one that is no JSON was written by another converter."""
    if data is None:
        return None
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    try:
        return parse_json(text) if text else None
    except BadValue:
        hint = "Let the connector write JSON: org.apache.kafka.connect.json.JsonConverter."
        what = "Confluent's binary form, of Avro or the like" if text.startswith("\0") else "no JSON"
        raise BadValue(f"the record is {what}", where=where, hint=hint) from None
