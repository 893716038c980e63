"""Settings of a job by its size: a small query is one task that interprets its plan, a large one is left to Spark.

Spark compiles the plan of a query, sends the smaller side of a join to the other as a job of its own, and moves rows
between tasks for every sum. Over a few rows each of these takes longer than the query. So a small relation is read as
one partition, and a query that reads nothing but small relations needs no exchange.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

SINGLE_TASK_ROWS = 10_000
"""Number of rows that a query reads up to which one task does all of its work."""

ROWS_PER_PARTITION = 250_000
"""Input rows for one task of a shuffle."""

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

_SINGLE_TASK = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
"""Settings by which no table is broadcast: its partition is in the task that joins it. Our queries say that by hints
(``lowering.sql_text.join_hint``)."""

_EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"

_MERGING_RULES = (
    "org.apache.spark.sql.execution.planmerging.MergeSubplans",
    "org.apache.spark.sql.catalyst.optimizer.MergeScalarSubqueries",
)
"""Rules, by their names in two versions of Spark, that compute a sum once where a query has it twice: as a job of its
own, whose row is then of no known partition."""

_own: WeakKeyDictionary[SparkSession, dict[str, str]] = WeakKeyDictionary()
"""The settings that a session had before its first job here, which large jobs have again."""

_current: WeakKeyDictionary[SparkSession, dict[str, str]] = WeakKeyDictionary()


def plan_for(spark: SparkSession, rows: int, stored: int, *, ours: bool = True) -> bool:
    """Set a session up for a query over ``rows`` rows of changes, or of what it computes, and ``stored`` ones; true if
    one task does all of it.

    A query that is not ``ours`` is planned as Spark would.
    """
    if spark not in _own:
        _own[spark] = {key: spark.conf.get(key) for key in (*_INTERPRETED, *_SINGLE_TASK)}
        _own[spark][_EXCLUDED_RULES] = spark.conf.get(_EXCLUDED_RULES, "") or ""
    # Our queries already state all conditions. Inferring more from sums of DOUBLEs, which are long expressions, took
    # three quarters of the time of an epoch with a variance beside a maximum.
    wanted = {
        "spark.sql.shuffle.partitions": str(shuffle_partitions(rows)),
        "spark.sql.constraintPropagation.enabled": "false" if ours else "true",
        **_own[spark],
    }
    small = is_small(rows + stored)
    if small:
        wanted |= _INTERPRETED
        if ours:
            excluded = ",".join(filter(None, (wanted[_EXCLUDED_RULES], *_MERGING_RULES)))
            wanted |= _SINGLE_TASK | {_EXCLUDED_RULES: excluded}
    known = _current.setdefault(spark, {})
    for key, value in wanted.items():
        if known.get(key) != value:
            spark.conf.set(key, value)
            known[key] = value
    return small


def is_small(rows: int) -> bool:
    """True if one task does all the work of a query that reads so many rows."""
    return rows <= SINGLE_TASK_ROWS


def in_partitions(frame: DataFrame, rows: int) -> DataFrame:
    """A relation of so many rows, in one partition if it is small."""
    return frame.coalesce(1) if is_small(rows) else frame


def shuffle_partitions(rows: int) -> int:
    """The number of shuffle partitions for about ``rows`` rows: one for little data, then in proportion.

    >>> shuffle_partitions(1_000), shuffle_partitions(6_000_000)
    (1, 24)
    """
    return max(1, -(-rows // ROWS_PER_PARTITION))
