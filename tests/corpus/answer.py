"""Asks Spark the cases of the corpus and writes its answers: ``python -m tests.corpus.answer [--new] [file ...]``.

With ``--new`` only what has no answer yet.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.corpus.cases import FILES, TABLES, VALUES, Case, read, write, written
from tidemill.changes.arrow import arrow_schema, from_arrow
from tidemill.model.schema import WEIGHT, names_of
from tidemill.model.types import STRING, VARIANT, Field, holds_interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Spark:
    """Spark with the corpus's tables."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        from tidemill.runtimes.spark.sessions.session import SEMANTIC_SETTINGS

        for key, value in SEMANTIC_SETTINGS.items():
            self._spark.conf.set(key, value)
        for name, fields in TABLES.items():
            columns = ", ".join(f"CAST({f.name} AS {f.type}) AS {f.name}" for f in fields)
            rows = f"SELECT {columns} FROM {VALUES[name]} AS {name}({', '.join(names_of(fields))})"
            self._spark.sql(rows).createOrReplaceTempView(name)

    def settle(self, cases: Iterable[Case], new: bool) -> None:
        """Ask the questions of ``cases``, all or those that are ``new``, and keep the answers."""
        for case in cases:
            known = case.answers if new and case.answer else {}
            case.settle({filler: known.get(filler) or self.answer(query, case.text) for filler, query in case.asked})

    def answer(self, query: str, text: str) -> list[str]:
        """The lines of Spark's answer to ``query``, or of its refusal."""
        from py4j.protocol import Py4JError
        from pyarrow import ArrowInvalid
        from pyspark.errors import PySparkException

        try:
            frame = self._spark.sql(query)
            if strange := _strange(frame.schema):
                return [f"! no type {strange}"]
            rows = _rows(frame)
        except PySparkException as error:
            return [f"! {error.getCondition() or type(error).__name__}"]
        except (ArithmeticError, ArrowInvalid, Py4JError, UnicodeDecodeError) as error:
            # A TIME that was read by a pattern may have nanoseconds, which its type has not.
            return [f"! {type(error).__name__}"]
        return written(text, rows, [f.type for f in _fields(frame)], texts=True)


def _strange(schema: StructType) -> str:
    """The type of a column that Tidemill has no type for, or nothing."""
    from tidemill.runtimes.spark.lowering.types import spark_type, type_of

    for field in schema.fields:
        if field.dataType.simpleString() == "variant":
            continue
        try:
            kept = spark_type(type_of(field.dataType)).simpleString()
        except KeyError:
            kept = ""
        if kept != re.sub(r" collate \w+", "", field.dataType.simpleString()):
            return field.dataType.simpleString()
    return ""


def _fields(frame: DataFrame) -> tuple[Field, ...]:
    from tidemill.runtimes.spark.lowering.types import fields_of

    variants = [field.dataType.simpleString() == "variant" for field in frame.schema]
    others = iter(
        fields_of(type(frame.schema)([f for f, variant in zip(frame.schema, variants, strict=True) if not variant]))
    )
    return tuple(
        Field(f"c{place}", VARIANT if variant else next(others).type) for place, variant in enumerate(variants)
    )


def _rows(frame: DataFrame) -> list[tuple[object, ...]]:
    import pyarrow as pa
    from pyspark.errors import UnsupportedOperationException

    asked = [_as_text(field) for field in _fields(frame)]
    fields = tuple(
        Field(f.name, STRING if text != f.name else f.type) for f, text in zip(_fields(frame), asked, strict=True)
    )
    if asked != list(names_of(fields)):
        frame = frame.toDF(*names_of(fields)).selectExpr(*asked)
    schema = pa.schema([f for f in arrow_schema(fields) if f.name != WEIGHT])
    try:
        table = frame.toArrow()
    except (ValueError, UnsupportedOperationException):
        # Arrow has no array whose elements are NULL by type, and no struct with two members of one name.
        return [tuple(map(_plain, row)) for row in frame.collect()]
    return [row for row, _ in from_arrow(table.rename_columns(list(names_of(fields))).cast(schema), fields)]


def _as_text(field: Field) -> str:
    """How Spark is asked for a column: intervals, which Arrow does not have in Python, and variants as text."""
    if field.type == VARIANT:
        return f"to_json({field.name})"
    return f"CAST({field.name} AS STRING)" if holds_interval(field.type) else field.name


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return tuple((_plain(key), _plain(found)) for key, found in value.items())
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def main(names: Sequence[str], new: bool) -> None:
    """Answer the files of these names, or all; only ``new`` cases where that is wanted."""
    from tidemill.runtimes.spark.sessions.session import local_session, stop_local_session

    logging.getLogger("SQLQueryContextLogger").disabled = True  # it logs every refusal
    spark = Spark(local_session())
    for path in map(Path, names) if names else FILES:
        cases = read(path)
        spark.settle((case for case in cases if isinstance(case, Case)), new)
        write(path, cases)
        print(f"{path.name}: {sum(len(case.asked) for case in cases if isinstance(case, Case))} questions")
    stop_local_session()


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name != "--new"], new="--new" in sys.argv)
