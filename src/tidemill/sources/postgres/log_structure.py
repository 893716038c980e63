"""Definitions on which the meaning of changes depends: publication or triggers, the columns in use, the partitions.

They change without a word in log or outbox: a publication tells of other rows from then on, a trigger of none, a column
has other values after ALTER COLUMN TYPE, and a partition is attached, detached or dropped with all its rows. So they
are read in the very snapshot in which queries are answered. A transaction that changes them locks out those that write
to the table, so a snapshot that sees the same definitions as the one before has missed nothing in between. (ALTER
PUBLICATION locks out nobody; a transaction that passes it between its commit and its becoming visible is told by the
new definition, and the next look refuses to go on.)

Positions carry a digest, so that a warehouse that was closed meanwhile notices as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from zlib import crc32

from tidemill.model.errors import EpochGone
from tidemill.sources.postgres.catalog import OWN
from tidemill.sources.postgres.connection import Connection, execute
from tidemill.sources.postgres.snapshot_position import PgSnapshot
from tidemill.sources.remote_queries.dialects import quoted, quoted_text
from tidemill.sources.remote_queries.remote_tables import RemoteTable

__all__ = ["LogStructure", "Partition", "StructureReader", "attached_with_rows", "partition_ids"]

_STRUCTURE = """
PREPARE tidemill_structure AS
WITH RECURSIVE used AS (
    SELECT c.oid, c.relname, c.relkind, c.relnamespace FROM pg_class c
    WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = {schema}) AND c.relname IN ({tables})
), tree(root, parent, relid, made) AS (
    SELECT u.oid, i.inhparent, i.inhrelid, i.xmin FROM used u JOIN pg_inherits i ON i.inhparent = u.oid
    WHERE u.relkind = 'p' AND NOT i.inhdetachpending
    UNION ALL
    SELECT t.root, i.inhparent, i.inhrelid, i.xmin FROM tree t JOIN pg_inherits i ON i.inhparent = t.relid
    WHERE NOT i.inhdetachpending
)
SELECT pg_current_snapshot()::text, json_build_array(
    ({told_by}),
    (SELECT json_agg(json_build_array(u.relname, u.oid::int8, a.attname, a.attnum, a.atttypid::int8, a.atttypmod,
                                      row_security_active(u.oid))
                     ORDER BY u.relname, a.attnum)
     FROM used u JOIN pg_attribute a ON a.attrelid = u.oid
     JOIN unnest(ARRAY[{places}]::name[], ARRAY[{columns}]::name[]) AS w(relname, attname)
     ON w.relname = u.relname AND w.attname = a.attname),
    (SELECT json_agg(json_build_array(u.relname, t.parent::int8, t.relid::int8, t.made::text))
     FROM tree t JOIN used u ON u.oid = t.root)
)::text
"""
_BY_PUBLICATION = """
    SELECT json_build_array(p.oid::int8, p.xmin::text,
        (SELECT json_agg(r.oid::int8 ORDER BY r.oid) FROM pg_publication_rel r WHERE r.prpubid = p.oid
         AND (r.prrelid IN (SELECT oid FROM used) OR r.prrelid IN (SELECT relid FROM tree))){schemas})
    FROM pg_publication p WHERE p.pubname = {publication}
"""
_BY_TRIGGERS = """
    SELECT json_build_array(
        (SELECT json_agg(json_build_array(t.oid::int8, t.tgenabled, t.xmin::text) ORDER BY t.oid)
         FROM pg_trigger t WHERE t.tgrelid IN (SELECT oid FROM used) AND starts_with(t.tgname, {own})),
        (SELECT json_agg(i.inhrelid::int8 ORDER BY i.inhrelid) FROM pg_inherits i
         WHERE i.inhparent IN (SELECT oid FROM used) OR i.inhrelid IN (SELECT oid FROM used)))
"""
_SCHEMAS = """, (SELECT json_agg(n.oid::int8 ORDER BY n.oid) FROM pg_publication_namespace n
         WHERE n.pnpubid = p.oid AND n.pnnspid IN (SELECT relnamespace FROM used))"""
_BORN = """
SELECT i.inhrelid::int8, c.oid::regclass::text, c.relkind,
       EXISTS (SELECT FROM pg_attribute s JOIN pg_attribute a ON a.attrelid = s.attrelid AND a.attnum > 0
               WHERE s.attrelid = c.oid AND s.attname = 'ctid' AND s.xmin = i.xmin
                     AND a.xmin = s.xmin AND a.cmin = s.cmin),
       c.relfilenode = c.oid AND pg_relation_size(c.oid) = 0,
       c.relkind = 'p' OR (c.relkind = 'r' AND c.relpersistence = 'p')
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhrelid = ANY ($1::int8[]::oid[])
"""
_IDS = "SELECT coalesce(array_agg(p.relid::int8), '{}') FROM pg_partition_tree($1::text::regclass) p WHERE p.level > 0"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition, also one that has partitions itself: its number, its parent's, and the transaction that made it one.

    ``table`` is the table in use that it belongs to.
    """

    table: str
    parent: int
    relid: int
    xid: int


@dataclass(frozen=True)
class LogStructure:
    """The definitions in one state: a digest of what tells the changes, the columns, and the partitions."""

    told_by: str
    """Digest of the publication, or of the triggers of an outbox."""
    columns: frozenset[tuple[str, str]]
    """The tables in use, each with a digest of its columns in use."""
    partitions: frozenset[Partition]
    relations: frozenset[tuple[int, str]]
    """The numbers of the tables in use, with their names."""

    @classmethod
    def parse(cls, text: str) -> LogStructure:
        """The structure that the server wrote as JSON."""
        told_by, columns, tree = json.loads(text)
        partitions = frozenset(Partition(table, parent, relid, int(xid)) for table, parent, relid, xid in tree or ())
        relations = frozenset((oid, name) for name, oid, *_ in columns or ())
        of_tables = ((name, _digest(list(some))) for name, some in groupby(columns or (), itemgetter(0)))
        return cls(_digest(told_by), frozenset(of_tables), partitions, relations)

    @cached_property
    def digest(self) -> str:
        """The digest that positions carry."""
        tree = sorted((one.relid, one.xid) for one in self.partitions)
        return f"{self.told_by}.{_digest(sorted(self.columns))}.{_digest(tree)}"

    def tables_unlike(self, other: LogStructure) -> set[str]:
        """The tables in use whose columns or partitions are others than in ``other``."""
        partitions = self.partitions ^ other.partitions
        return {name for name, _ in self.columns ^ other.columns} or {one.table for one in partitions}

    @cached_property
    def names(self) -> dict[int, list[str]]:
        """The names of the tables in use that each relation has rows of, by its number."""
        found: dict[int, list[str]] = {}
        for relid, name in (*self.relations, *((one.relid, one.table) for one in self.partitions)):
            found.setdefault(relid, []).append(name.lower())
        return found

    def reads_like(self, other: LogStructure) -> bool:
        """True if all is the same, whatever the partitions."""
        return replace(self, partitions=other.partitions) == other

    def seen_by(self, state: PgSnapshot, now: PgSnapshot) -> LogStructure:
        """The structure as it was in the earlier ``state``, provided that no partition has gone since."""

        def was_there(one: Partition) -> bool:
            xid = now.whole(one.xid)
            return xid >= now.xmax or state.sees(xid)  # a number from the future is one that was used up long ago

        return replace(self, partitions=frozenset(filter(was_there, self.partitions)))


def _digest(value: object) -> str:
    return f"{crc32(json.dumps(value).encode()):08x}"


class StructureReader:
    """Reads the structure of some tables together with the snapshot of the transaction.

    Changes are told by a ``publication``, or else by our triggers.
    """

    def __init__(self, schema: str, publication: str | None, tables: Iterable[RemoteTable]) -> None:
        self._publication = publication
        self._schema = schema
        self._tables = list(tables)
        self._prepared_on: Connection | None = None
        self._last: tuple[str, LogStructure] | None = None
        self._text = ""

    def read(self, connection: Connection) -> tuple[PgSnapshot, LogStructure]:
        """The snapshot, and the structure that it sees; read only if a transaction has ended since the last time."""
        ((snapshot,),) = execute(connection, "SELECT pg_current_snapshot()::text")
        if self._last is None or self._last[0] != snapshot:
            if self._prepared_on is not connection:
                self._prepare(connection)
            ((snapshot, text),) = execute(connection, "EXECUTE tidemill_structure")
            known = self._last[1] if self._last is not None and text == self._text else LogStructure.parse(text)
            self._text, self._last = text, (snapshot, known)
        return PgSnapshot.parse(snapshot), self._last[1]

    def _prepare(self, connection: Connection) -> None:
        """Prepare the statement once for each connection: it takes longer to plan than to run."""
        columns = [(table.name, column.name) for table in self._tables for column in table.columns]
        told_by = _BY_TRIGGERS if self._publication is None else _BY_PUBLICATION
        parts = {
            "{schemas}": _SCHEMAS if connection.info.server_version >= 150000 else "",
            "{schema}": quoted_text(self._schema),
            "{publication}": quoted_text(self._publication or ""),
            "{own}": quoted_text(OWN),
            "{tables}": ", ".join(quoted_text(table.name) for table in self._tables) or "NULL",
            "{places}": ", ".join(quoted_text(table) for table, _ in columns),
            "{columns}": ", ".join(quoted_text(column) for _, column in columns),
        }
        pattern = re.compile("|".join(map(re.escape, parts)))
        execute(connection, pattern.sub(lambda found: parts[found[0]], _STRUCTURE.replace("{told_by}", told_by)))
        self._prepared_on = connection

    def changed(
        self, before: str, now: LogStructure, tables: Collection[str] = (), attached: str | None = None
    ) -> EpochGone:
        """The error that says what has another definition than it had when its digest was ``before``.

        ``tables``: those that it concerns, if that is known; ``attached`` is a partition that may have come with rows.
        """
        then, since = before.split("."), now.digest.split(".")
        columns = then[1] != since[1]
        others = [table.name for table in self._tables if table.partitioned or columns]
        named = ", ".join(map(quoted, sorted(tables) or others))
        if columns:
            what = f"columns or row security of {named} were changed"
            why = "ALTER TABLE may give rows other values, or hide them, and no change tells that."
        elif then[0] != since[0] and self._publication is None:
            what = f"triggers or inheritance of {', '.join(quoted(table.name) for table in self._tables)} were changed"
            why = "Changes may have been made that no trigger told."
        elif then[0] != since[0]:
            what = f"the publication {self._publication} was changed"
            why = "It may have told of other rows or columns than those that views have."
        elif attached is not None:
            what = f"partition {attached} was attached to {named}, and may have had rows"
            why = "The log does not tell which rows come with a partition."
        else:
            what = f"partitions of {named} were attached, detached or dropped"
            why = "The log does not tell which rows come and go with a partition."
        return EpochGone(what, detail=why, hint="Drop the views over this source and create them again.")


def attached_with_rows(connection: Connection, new: Sequence[Partition]) -> str | None:
    """The first of some new partitions that may have had rows when it became one, and could not be written to the log.

    One that was made as a partition had none: then its columns are those that it was made with, by the same command.
    One that was attached is taken if nothing was ever written to it.
    """
    rows = execute(connection, _BORN, [one.relid for one in new])
    found = {relid: rest for relid, *rest in rows}
    attached = {one.relid for one in new if one.relid not in found or not found[one.relid][2]}
    parents = {one.relid: one.parent for one in new}
    for one in new:
        if one.relid not in found:
            return str(one.relid)
        name, kind, _, empty, logged = found[one.relid]
        chain = [one.relid]
        while chain[-1] in parents:
            chain.append(parents[chain[-1]])
        if not logged or (kind != "p" and not empty and not attached.isdisjoint(chain)):
            return str(name)
    return None


def partition_ids(connection: Connection, table: str) -> frozenset[int]:
    """The partitions of a table, as the server plans queries about it at this moment, whatever the snapshot."""
    return frozenset(execute(connection, _IDS, table)[0][0])
