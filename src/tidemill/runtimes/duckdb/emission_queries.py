"""The rows of a stage as a relational query over the entries of its maps.

The weight of an entry is a column, ``ENTRY_WEIGHT``, of maps that are read entry by entry. The last column of a query
has the weight of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Column, Literal, Named, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, OuterJoin, Project, Scan
from tidemill.algebra.relational.walk import substitute
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, BOOLEAN, Field
from tidemill.program.maps import Map, map_fields
from tidemill.program.stages import GroupEmission, MultisetRead, PartitionEmission
from tidemill.runtimes.duckdb.load_queries import ENTRY_WEIGHT
from tidemill.runtimes.duckdb.sql_text import NotLowered

ROW_WEIGHT = "_weight of the row"

ENDS = ("min", "max")
"""Aggregates over multisets that have a translation: how often a value occurs makes no difference to them."""

_ENTRY_WEIGHT = Column(ENTRY_WEIGHT, BIGINT, nullable=False)


def group_rows(emission: GroupEmission, maps: Mapping[str, Map]) -> Relation:
    """The rows of groups: one for each entry, or as many as ``times`` says."""
    source = maps[emission.source]
    entries: Relation = Scan(source.name, "", (*map_fields(source), Field(ENTRY_WEIGHT, BIGINT, nullable=False)))
    for name in dict.fromkeys(read.map for read in emission.multiset_reads):
        calls = [read.call for read in emission.multiset_reads if read.map == name]
        entries = _with_ends(entries, source, maps[name], calls)
    conditions = [] if emission.always else [_is_positive(_ENTRY_WEIGHT)]
    conditions += [] if emission.condition is None else [_over_columns(emission.condition)]
    times = None if emission.times is None else _over_columns(emission.times)
    conditions += [] if times is None else [_is_positive(times)]
    shown = _filtered(entries, conditions)
    outputs = tuple(Named(output.name, _over_columns(output.scalar)) for output in emission.outputs)
    weight = Literal(1, BIGINT) if times is None else times
    if _shows_keys(emission, source):
        return Project(shown, (*outputs, Named(ROW_WEIGHT, weight)))
    return _summed(Project(shown, (*outputs, Named(ROW_WEIGHT, weight))), outputs)


def _with_ends(entries: Relation, source: Map, multiset: Map, calls: Sequence[AggregateCall]) -> Relation:
    """Entries joined with the least or greatest values of their multisets; NULL for an empty one."""
    if any(call.function not in ENDS for call in calls):
        raise NotLowered("an aggregate over a multiset other than MIN and MAX")
    width = len(source.keys)
    keys = tuple(
        Named(f"{multiset.name} {key.name}", Column(key.name, key.type, key.nullable)) for key in multiset.keys[:width]
    )
    ends = Aggregate(Scan(multiset.name, "", multiset.keys), keys, tuple(calls))
    equal = [
        Call("null_safe_eq", (Column(one.name, one.type, one.nullable), Column(key.name, key.scalar.type)), BOOLEAN)
        for one, key in zip(source.keys, keys, strict=True)
    ]
    return OuterJoin(entries, ends, conjunction(equal), keeps_left=True, keeps_right=False)


def partition_rows(emission: PartitionEmission) -> Relation:
    """The rows of partitions. Entries are handed over as often as their weights say, since an order counts them."""
    shown = _filtered(emission.rows, [] if emission.condition is None else [emission.condition])
    return _summed(Project(shown, (*emission.outputs, Named(ROW_WEIGHT, Literal(1, BIGINT)))), emission.outputs)


def multisets_of(reads: Sequence[MultisetRead]) -> set[str]:
    """The maps that are multisets."""
    return {read.map for read in reads}


def _summed(rows: Relation, outputs: Sequence[Named]) -> Relation:
    """Equal rows as one, with the sum of their weights."""
    keys = tuple(Named(output.name, Column(output.name, output.scalar.type)) for output in outputs)
    return Aggregate(rows, keys, (AggregateCall(ROW_WEIGHT, "sum", Column(ROW_WEIGHT, BIGINT), BIGINT),))


def _filtered(relation: Relation, conditions: Sequence[Scalar]) -> Relation:
    for condition in conditions:
        relation = Filter(relation, condition)
    return relation


def _over_columns(scalar: Scalar) -> Scalar:
    """An expression of an emission over the columns of a query, in which the weight of an entry has its own name."""
    return substitute(scalar, {WEIGHT: _ENTRY_WEIGHT})


def _is_positive(scalar: Scalar) -> Scalar:
    return Call("gt", (scalar, Literal(0, BIGINT)), BOOLEAN)


def _shows_keys(emission: GroupEmission, source: Map) -> bool:
    """True if the rows of different keys are never equal, because they have these."""
    shown = {output.scalar.name for output in emission.outputs if isinstance(output.scalar, Column)}
    return {key.name for key in source.keys} <= shown
