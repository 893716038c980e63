"""AUTO CDC as a view over change records, so that a late or out-of-order record is exact.

SCD type 1 has the newest record of each key, unless it is a deletion. SCD type 2 has all versions: consecutive records
of a key that agree in the tracked columns are one, with the values of the last of them, from the sequence of the first
(``__START_AT``) to that of the next other record (``__END_AT``). Among records with one key and one sequence a deletion
counts as the last; Spark leaves their order open.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.model.errors import UnknownName
from tidemill.serving.pipelines.project import CdcFlow

__all__ = ["cdc_query"]


def cdc_query(flow: CdcFlow, source: str, columns: Sequence[str]) -> str:
    """The query of the target over the change records in ``source``, which has ``columns``."""
    _require(flow, columns)
    chosen = [name for name in columns if _chosen(name, flow.columns, flow.except_columns)]
    deleted = f"coalesce({flow.delete_when}, false)" if flow.delete_when else "false"
    known = " AND ".join(f"{_quoted(key)} IS NOT NULL" for key in flow.keys)
    events = (
        f"SELECT *, {flow.sequence_by} AS __sequence, {deleted} AS __deleted FROM {source} "
        f"WHERE assert_true({known} AND ({flow.sequence_by}) IS NOT NULL, "
        f"'AUTO CDC of {flow.target[-1]}: a key or the sequence of a record is NULL') IS NULL"
    )
    return _first_type(flow, events, chosen) if flow.scd_type == 1 else _second_type(flow, events, chosen)


def _first_type(flow: CdcFlow, events: str, chosen: Sequence[str]) -> str:
    order = f"PARTITION BY {_list(flow.keys)} ORDER BY __sequence DESC, __deleted DESC"
    ranked = f"SELECT *, ROW_NUMBER() OVER ({order}) AS __rank FROM ({events})"
    return f"SELECT {_list(chosen)} FROM ({ranked}) WHERE __rank = 1 AND NOT __deleted"


def _second_type(flow: CdcFlow, events: str, chosen: Sequence[str]) -> str:
    tracked = [name for name in chosen if name not in flow.keys and _chosen(name, flow.track, flow.track_except)]
    window = f"(PARTITION BY {_list(flow.keys)} ORDER BY __sequence, __deleted)"
    state = f"struct({_list(tracked)})" if tracked else "0"
    neighbours = (
        f"SELECT *, LAG(__deleted) OVER {window} AS __before_deleted, "
        f"LEAD(__deleted) OVER {window} AS __after_deleted, "
        f"LAG(__state) OVER {window} AS __before, LEAD(__state) OVER {window} AS __after, "
        f"LEAD(__sequence) OVER {window} AS __next FROM (SELECT *, {state} AS __state FROM ({events}))"
    )
    runs = (
        "SELECT *, coalesce(NOT __before_deleted, false) AND __before <=> __state AS __continues, "
        f"coalesce(NOT __after_deleted, false) AND __after <=> __state AS __continued FROM ({neighbours})"
    )
    starts = (
        "SELECT *, MAX(CASE WHEN NOT __deleted AND NOT __continues THEN __sequence END) OVER "
        f"(PARTITION BY {_list(flow.keys)} ORDER BY __sequence, __deleted ROWS UNBOUNDED PRECEDING) AS __start "
        f"FROM ({runs})"
    )
    return (
        f"SELECT {_list(chosen)}, __start AS __START_AT, __next AS __END_AT FROM ({starts}) "
        "WHERE NOT __deleted AND NOT __continued AND NOT (__start <=> __next)"
    )


def _chosen(name: str, only: Sequence[str] | None, without: Sequence[str]) -> bool:
    return (only is None or name in only) and name not in without


def _require(flow: CdcFlow, columns: Sequence[str]) -> None:
    """Refuse columns that the records do not have."""
    named = (*flow.keys, *(flow.columns or ()), *flow.except_columns, *(flow.track or ()), *flow.track_except)
    for name in named:
        if name not in columns:
            raise UnknownName(
                f'AUTO CDC of "{flow.target[-1]}" names a column "{name}" that its source does not have',
                where=flow.place,
                hint=f"There is: {', '.join(columns)}.",
            )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))
