"""The clock of a view, by its option ``clock``: what now() is in its conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import scans, transform, walk_all
from tidemill.compiler.frontends.sql.query.time_filters import EVENT, ClockReads
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.compiler.frontends.translate import TranslatedQuery
from tidemill.compiler.staging.partition_clock import followed_by_clock
from tidemill.model.clocks import WALL, Clock, is_clock
from tidemill.model.errors import TextLocation, TypeMismatch, UnknownName, Unsupported
from tidemill.model.schema import Table, names_of
from tidemill.model.types import Date, Timestamp

OPTION, BY_EVENTS = "clock", "event"


def clock_reads(options: Mapping[str, str], name: str, tables: Mapping[str, Table]) -> ClockReads:
    """The clock that conditions of a view read, before the view is translated."""
    text = options.get(OPTION, WALL).lower()
    if text == BY_EVENTS:
        return ClockReads(EVENT)
    clock = Clock(text)
    if text != WALL:
        _require_column(clock, name, tables)
    return ClockReads(clock.relation)


def with_clock(
    translated: TranslatedQuery,
    reads: ClockReads,
    options: Mapping[str, str],
    name: str,
    tables: Mapping[str, Table],
) -> TranslatedQuery:
    """A translated view whose event clock follows the column that it is compared with."""
    if not any(map(is_clock, scans(translated.relation))):
        if OPTION in options and any(isinstance(node, TimePartitioned) for node in walk_all(translated.relation)):
            _require_built_now(options, name)
            clock = Clock.of_relation(reads.clock) if reads.clock != EVENT else _of_partitions(translated, name, tables)
            return replace(translated, relation=followed_by_clock(translated.relation, clock))
        if OPTION in options:
            raise Unsupported(
                f'view "{name}" has a clock, and no condition on it',
                detail="It has no partitions either, which a clock could make.",
                hint="Leave the option out, or write WHERE ts > now() - INTERVAL 1 HOUR.",
            )
        return translated
    _require_built_now(options, name)
    if reads.clock != EVENT:
        return translated
    clock = _followed(reads, name, tables)
    return replace(translated, relation=transform(translated.relation, lambda node: _following(node, clock)))


def _require_built_now(options: Mapping[str, str], name: str) -> None:
    if options.get("build", "now") != "now":
        raise Unsupported(
            f'view "{name}" cannot be built in the background',
            detail="It reads a clock, which would advance while some of its rows are not there yet.",
            hint="Leave the option build out.",
        )


def refuse_clock(options: Mapping[str, str], name: str) -> None:
    """Refuse a clock of a view in OQL, which has none."""
    if OPTION in options:
        raise Unsupported(f'view "{name}" has a clock, and no condition on it', detail="OQL has no now().")


def clock_tables(relation: Relation) -> dict[str, Table]:
    """The clocks that a view reads, as tables."""
    return {name: Clock.of_relation(name).table for name in scans(relation) if is_clock(name)}


def _following(node: Relation, clock: Clock) -> Relation:
    return replace(node, relation=clock.relation) if isinstance(node, Scan) and node.relation == EVENT else node


def _followed(reads: ClockReads, name: str, tables: Mapping[str, Table]) -> Clock:
    """The one column of a table that conditions compare with the clock."""
    found = sorted({f"{table}.{column}" for table, column in reads.compared if table in tables})
    if len(found) != 1:
        told = f"It is compared with {', '.join(found)}." if found else "It is compared with no column of a table."
        example = found[0] if found else "orders.placed_at"
        raise Unsupported(
            f'view "{name}" does not say which column its clock follows',
            detail=told,
            hint=f"Use WITH (clock = '{example}').",
        )
    clock = Clock(found[0])
    _require_column(clock, name, tables)
    return clock


def _of_partitions(translated: TranslatedQuery, name: str, tables: Mapping[str, Table]) -> Clock:
    """The clock of the table by whose partitions a view is made."""
    read = sorted({table for table in scans(translated.relation) if table in tables})
    cuts = [(table, tables[table].partitioning) for table in read]
    found = [f"{table}.{cut.column}" for table, cut in cuts if cut is not None]
    if len(found) != 1:
        told = f"It reads {', '.join(found)}." if found else "It reads no table that has partitions."
        raise Unsupported(
            f'view "{name}" does not say which column its clock follows',
            detail=told,
            hint=f"Use WITH (clock = '{found[0] if found else 'clicks.at'}').",
        )
    return Clock(found[0])


def _require_column(clock: Clock, view: str, tables: Mapping[str, Table]) -> None:
    if clock.column is None:
        hint = "Use wall, event, or the column of a table, such as orders.placed_at."
        raise Unsupported(f'view "{view}" has no clock = "{clock.follows}"', hint=hint)
    table, column = clock.column
    if table not in tables:
        raise UnknownName(
            f'view "{view}" cannot follow the clock "{clock.follows}"', detail=f'There is no table "{table}".'
        )
    of = {f.name: f.type for f in tables[table].fields}
    if column not in of:
        raise unknown_name("column", column, names_of(tables[table].fields), TextLocation(view, 0, 0))
    if not isinstance(of[column], Date | Timestamp):
        raise TypeMismatch(f'view "{view}" cannot follow "{clock.follows}": it is {of[column]}, and no time')
