"""Spark's type coercion as a table: the type of every operation on operands of every two types.

``operand_types.table`` has a block for each operation. A line of it has the left operand, and then for each type of
a result the right operands that lead to it; ``!`` is a refusal:

    {} + {}
        ti: TINYINT: ti | SMALLINT: si | !: b bi ...

``python -m tests.corpus.operand_types`` asks Spark and writes it. ``tests/test_corpus.py`` holds us to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.compiler.frontends.translate import translate
from tidemill.model import types as t
from tidemill.model.errors import TidemillError
from tidemill.model.types import Field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATH = Path(__file__).parent / "operand_types.table"
REFUSED = "!"

OPERANDS = (
    Field("ti", t.TINYINT),
    Field("si", t.SMALLINT),
    Field("i", t.INT),
    Field("l", t.BIGINT),
    Field("d", t.Decimal(6, 2)),
    Field("w", t.Decimal(38, 10)),
    Field("fl", t.FLOAT),
    Field("f", t.DOUBLE),
    Field("s", t.STRING),
    Field("bi", t.BINARY),
    Field("b", t.BOOLEAN),
    Field("dt", t.DATE),
    Field("ts", t.TIMESTAMP),
    Field("tn", t.TIMESTAMP_NTZ),
    Field("a", t.Array(t.INT)),
    Field("da", t.Array(t.Decimal(6, 2))),
    Field("sa", t.Array(t.STRING)),
    Field("m", t.Map(t.STRING, t.INT)),
    Field("st", t.Struct((Field("x", t.INT),))),
)
LITERALS = ("NULL", "2", "2.5", "'7'")
"""Constants, which Spark types in ways of their own."""

TEXTS = (*(field.name for field in OPERANDS), *LITERALS)

OPERATIONS = (
    *("{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} DIV {}", "{} % {}", "pmod({}, {})"),
    *("{} = {}", "{} < {}", "{} <=> {}", "{} IN ({})", "i BETWEEN {} AND {}", "{} LIKE {}"),
    *("{} AND {}", "{} & {}", "{} << {}", "{} || {}"),
    *("coalesce({}, {})", "CASE WHEN b THEN {} ELSE {} END", "nullif({}, {})", "nvl2(b, {}, {})"),
    *("array({}, {})", "map({}, {})", "greatest({}, {})", "array_contains(array({}), {})", "concat({}, {})"),
    *("power({}, {})", "round({}, {})", "substring({}, {})", "date_add({}, {})", "try_add({}, {})"),
    "(SELECT {} AS x) UNION ALL (SELECT {})",
)


def query(operation: str, left: str, right: str) -> str:
    """An operation on two operands, as a query over the table ``p`` of NULLs of every type.

    >>> query("{} + {}", "i", "2")
    'SELECT i + 2 AS x FROM p'
    """
    if operation.startswith("("):
        return operation.format(left, right).replace(")", " FROM p)")
    return f"SELECT {operation.format(left, right)} AS x FROM p"


def ours(query: str) -> str:
    """The type that Tidemill gives the only column of a query, or a refusal."""
    try:
        return str(translate(query, {"p": OPERANDS}).relation.fields[0].type)
    except TidemillError:
        return REFUSED


def table(type_of: Callable[[str], str]) -> Iterator[str]:
    """The lines of the table, with types as ``type_of`` gives them."""
    for operation in OPERATIONS:
        yield operation
        for left in TEXTS:
            found: dict[str, list[str]] = {}
            for right in TEXTS:
                found.setdefault(type_of(query(operation, left, right)), []).append(right)
            results = (f"{of}: {' '.join(rights)}" for of, rights in found.items())
            yield f"    {left}: {' | '.join(results)}"


def questions() -> Iterator[tuple[str, str]]:
    """Each query, and the type of its result by Spark."""
    operation = ""
    for line in PATH.read_text().splitlines():
        if not line.startswith("    "):
            operation = line
            continue
        left, _, results = line.strip().partition(": ")
        for result in results.split(" | "):
            of, _, rights = result.rpartition(": ")
            yield from ((query(operation, left, right), of) for right in rights.split(" "))


class Analyzer:
    """Spark's analyzer: the types of queries, without running them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        columns = ", ".join(f"CAST(NULL AS {field.type}) AS {field.name}" for field in OPERANDS)
        self._spark.sql(f"SELECT {columns}").createOrReplaceTempView("p")

    def type_of(self, query: str) -> str:
        """The type of the only column, or a refusal."""
        from pyspark.errors import AnalysisException

        from tidemill.runtimes.spark.lowering.types import type_of

        try:
            found = self._spark.sql(query).schema.fields[0].dataType
        except AnalysisException:
            return REFUSED
        try:
            return str(type_of(found))
        except KeyError:
            return found.simpleString().upper()


def main() -> None:
    """Ask Spark, and write the table."""
    from tidemill.runtimes.spark.sessions.session import local_session, stop_local_session

    logging.getLogger("SQLQueryContextLogger").disabled = True  # it logs every refusal
    lines = list(table(Analyzer(local_session()).type_of))
    stop_local_session()
    PATH.write_text("\n".join(lines) + "\n")
    print(f"{len(OPERATIONS)} operations on {len(TEXTS)} operands each")


if __name__ == "__main__":
    main()
