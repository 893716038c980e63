"""Commits to a Delta table that only we write, by the package ``deltalake`` or by the log itself.

Each has application transactions, by which it is known again. Rows are deleted by deletion vectors where the table is
in a folder of this machine and has no property that asks for more; else by MERGE of the package, which writes files
anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from tidemill.model.paths import url_scheme
from tidemill.sources.lake.delta_files import selections
from tidemill.sources.lake.delta_package import (
    CommitProperties,
    DeltaStorageHandler,
    DeltaTable,
    Transaction,
    translated,
    write_deltalake,
)
from tidemill.sources.lake.marked_rows import Positions, positions_of
from tidemill.sources.lake.publication.deletion_vectors import delete_vectors, read_vector, vector_file
from tidemill.sources.lake.publication.delta_log import DeltaLog, removal
from tidemill.sources.lake.publication.file_tiers import WORN_SHARE, crowded_tier
from tidemill.sources.lake.publication.key_index import KeyIndex
from tidemill.sources.lake.publication.key_positions import changed_keys, key_positions, without
from tidemill.sources.lake.publication.lake_publication import Written

__all__ = ["Applications", "DeltaWriter"]

Applications = Mapping[str, int]
"""Versions of transactions, by the application that made them."""

VECTORS = "delta.enableDeletionVectors"
WRITABLE_FEATURES = frozenset(
    ("appendOnly", "deletionVectors", "invariants", "timestampNtz", "variantType", "variantType-preview")
)
"""Features of Delta under which a commit means no more than its actions say."""

CHECKPOINT_VERSIONS = 100
"""A version whose number is a multiple of this has a checkpoint before it, as ``deltalake`` makes them."""

TRIES = 5
"""Number of attempts of a commit if others commit meanwhile."""

GONE = "_gone"
"""The column of a MERGE that is true for keys whose row is gone."""


class DeltaWriter:
    """The Delta table at a location; rows are deleted by deletion vectors if it ``marks`` them.

    Where they are is found by ``keys``; a table without them is never merged.
    """

    def __init__(self, location: str, keys: KeyIndex | None = None, *, marks: bool = True) -> None:
        self._location, self._keys = location, keys
        self._settings = {VECTORS: "true"} if marks and url_scheme(location) is None else {}

    def table(self) -> Any:
        """The table of the package at its newest version; None if there is none."""
        with translated(self._location, "written"):
            return DeltaTable(self._location) if DeltaTable.is_deltatable(self._location) else None

    def is_worn(self, table: Any) -> bool:
        """True if so many rows are marked as deleted that all should be written anew."""
        with translated(self._location, "written"):
            files = self._vectors_of(table)
        if files is None:
            return False
        rows = [json.loads(add["stats"])["numRecords"] for add in files.values()]
        marked = [add["deletionVector"]["cardinality"] for add in files.values() if "deletionVector" in add]
        return bool(sum(marked) > WORN_SHARE * sum(rows))

    def replace(self, rows: pa.Table, said: Applications) -> Written:
        """Replace all rows, and the columns."""
        with translated(self._location, "written"):
            write_deltalake(
                self._location,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                configuration=self._settings or None,
                commit_properties=_properties(said),
            )
        return self.written(rows.num_rows)

    def append(self, rows: pa.Table, said: Applications) -> Written:
        """Add rows."""
        with translated(self._location, "written"):
            write_deltalake(self._location, rows, mode="append", commit_properties=_properties(said))
        return self.written(rows.num_rows)

    def merge(self, gone: pa.Table, come: pa.Table, said: Applications) -> Written | None:
        """Delete the rows with the keys ``gone``, and add ``come``; None if some of them are not there."""
        with translated(self._location, "written"):
            for _ in range(TRIES - 1):
                with suppress(FileExistsError):  # somebody else has committed meanwhile: look again
                    return self._merge(gone, come, said)
            return self._merge(gone, come, said)

    def _merge(self, gone: pa.Table, come: pa.Table, said: Applications) -> Written | None:
        table = DeltaTable(self._location)
        files = self._vectors_of(table)
        if files is not None:
            return self._merge_vectors(table, files, gone, come, said)
        self._merge_copies(table, gone, come, said)
        return self.written(changed_keys(gone, come))

    def _merge_copies(self, table: Any, gone: pa.Table, come: pa.Table, said: Applications) -> None:
        rows = _with_gone(gone, come)
        same = " AND ".join(f"(t.{_quoted(name)} IS NOT DISTINCT FROM s.{_quoted(name)})" for name in gone.column_names)
        columns = {_quoted(name): f"s.{_quoted(name)}" for name in come.column_names}
        merging = table.merge(rows, same, source_alias="s", target_alias="t", commit_properties=_properties(said))
        merging.when_matched_delete(f"s.{GONE}").when_matched_update(columns).when_not_matched_insert(
            columns, f"NOT s.{GONE}"
        ).execute()

    def _merge_vectors(
        self, table: Any, files: Mapping[str, dict[str, Any]], gone: pa.Table, come: pa.Table, said: Applications
    ) -> Written | None:
        log, deleted = DeltaLog(self._location, table.version()), self._deleted(table, files)
        found = self._found(files, gone, deleted) if gone.num_rows else {}
        if sum(map(len, found.values())) != gone.num_rows:
            return None
        touched = {path: places for path, places in found.items() if len(places)}
        actions = self._marked(log, files, deleted, touched)
        if come.num_rows:
            actions.append({"add": log.write_rows(come)})
        return self._commit(log, "MERGE", actions + _transactions(said), changed_keys(gone, come))

    def _found(
        self, files: Mapping[str, dict[str, Any]], gone: pa.Table, deleted: Mapping[str, Positions]
    ) -> dict[str, Positions]:
        """The places of the rows with the keys ``gone`` in each file."""
        assert self._keys is not None, "this table is never merged"
        rows = {path: int(json.loads(add["stats"])["numRecords"]) for path, add in files.items()}
        return self._keys.positions(rows, gone, lambda path: self._read(path, gone.column_names), deleted)

    def _marked(
        self,
        log: DeltaLog,
        files: Mapping[str, dict[str, Any]],
        deleted: Mapping[str, Positions],
        touched: Mapping[str, Positions],
    ) -> list[dict[str, Any]]:
        """The actions that mark rows of files as deleted; a file without any other row is removed."""
        actions = [removal(files[path], changes=True) for path in touched]
        known = {path: json.loads(files[path]["stats"]) for path in touched}
        every = {path: np.union1d(deleted.get(path, places[:0]), places) for path, places in touched.items()}
        left = {path: places for path, places in every.items() if len(places) < known[path]["numRecords"]}
        if left:
            name, content, vectors = vector_file(left)
            log.write_bytes(name, content)
            for path, vector in vectors.items():
                stats = json.dumps(known[path] | {"tightBounds": False}, separators=(",", ":"))
                changed = {"deletionVector": vector, "stats": stats, "dataChange": True}
                actions.append({"add": files[path] | changed})
        return actions

    def _read(self, path: str, columns: list[str] | None = None) -> pa.Table:
        """All rows of a data file in order, also those that are marked as deleted."""
        return pq.read_table(Path(self._location, unquote(path)), columns=columns, partitioning=None)

    def _deleted(self, table: Any, files: Mapping[str, dict[str, Any]]) -> dict[str, Positions]:
        """The places of the rows that are marked as deleted, by the path of their file in the log."""
        vectors = {path: add["deletionVector"] for path, add in files.items() if "deletionVector" in add}
        ours = {path: read_vector(self._location, vector) for path, vector in vectors.items()}
        read = {path: places for path, places in ours.items() if places is not None}
        if len(read) == len(vectors):
            return read
        return {path: positions_of(kept) for path, kept in selections(table).items()}  # vectors of whatever form

    def compact(self, files: int) -> Written | None:
        """Write small files of similar size as one, if there are so many; the rows and the epoch stay."""
        with translated(self._location, "written"):
            table = DeltaTable(self._location)
            adds = pa.table(table.get_add_actions())
            sizes = dict(zip(adds.column("path").to_pylist(), adds.column("size_bytes").to_pylist(), strict=True))
            chosen = crowded_tier(sizes, files)
            if not chosen:
                return None
            known = self._vectors_of(table)
            if known is None:
                table.optimize.compact(target_size=sum(sizes[path] for path in chosen) + 1)
                return self.written(0)
            log, deleted = DeltaLog(self._location, table.version()), self._deleted(table, known)
            actions = [removal(known[path], changes=False) for path in chosen]
            rows = pa.concat_tables([without(self._read(path), deleted.get(path)) for path in chosen])
            if rows.num_rows:
                actions.append({"add": log.write_rows(rows) | {"dataChange": False}})
            with suppress(FileExistsError):  # the next time will do
                return self._commit(log, "OPTIMIZE", actions, 0)
            return None

    def vacuum(self, seconds: float) -> None:
        """Delete the files of versions that are no longer shown for so many seconds."""
        with translated(self._location, "written"):
            table = DeltaTable(self._location)
            table.vacuum(ceil(seconds / 3600), dry_run=False, enforce_retention_duration=False)
            adds = self._vectors_of(DeltaTable(self._location))
            if adds is not None:  # vectors are not known to the package
                delete_vectors(self._location, adds.values(), seconds)

    def _vectors_of(self, table: Any) -> dict[str, dict[str, Any]] | None:
        """The data files of a table whose rows we delete by deletion vectors; None if the package has to."""
        protocol, about = table.protocol(), table.metadata()
        asked = set(protocol.writer_features or ()) | set(protocol.reader_features or ())
        more = [name for name in about.configuration if name.startswith(("delta.constraints.", "delta.columnMapping."))]
        plain = asked <= WRITABLE_FEATURES and not (more or about.partition_columns)
        if not (plain and self._settings and about.configuration.get(VECTORS) == "true"):
            return None
        if about.configuration.get("delta.enableChangeDataFeed", "false") != "false":
            return None
        files = DeltaLog(self._location, table.version()).files()
        counted = files is not None and all(
            "numRecords" in json.loads(add.get("stats", "{}")) for add in files.values()
        )
        return files if counted else None

    def _commit(self, log: DeltaLog, operation: str, actions: list[dict[str, Any]], rows: int) -> Written:
        """Commit by the log; ``FileExistsError`` if somebody else committed meanwhile."""
        written = log.commit(operation, actions)
        if (log.version + 1) % CHECKPOINT_VERSIONS == 0:
            DeltaTable(self._location).create_checkpoint()
        return Written(rows, written, log.version)

    def written(self, rows: int) -> Written:
        """Totals of the newest commit."""
        with translated(self._location, "written"):
            version = DeltaTable(self._location).version()
            entry = _log_entry(self._location, version)
        added = [json.loads(line).get("add") for line in entry.splitlines() if line]
        return Written(rows, len(entry) + sum(add["size"] for add in added if add), version)


def _transactions(said: Applications) -> list[dict[str, Any]]:
    return [{"txn": {"appId": app, "version": version}} for app, version in said.items()]


def _properties(said: Applications) -> Any:
    return CommitProperties(app_transactions=[Transaction(app, version) for app, version in said.items()])


def _log_entry(location: str, version: int) -> bytes:
    """The commit of a version, as the log has it."""
    name = f"_delta_log/{version:020}.json"
    if url_scheme(location) is None:
        return Path(location, name).read_bytes()
    with pa_fs.PyFileSystem(DeltaStorageHandler(location)).open_input_file(name) as entry:
        return bytes(entry.read())


def _with_gone(gone: pa.Table, come: pa.Table) -> pa.Table:
    """The rows that come, and those keys of which none comes, with the mark that they are gone."""
    again = np.zeros(gone.num_rows, bool)
    again[key_positions(gone, come.select(gone.column_names))] = True
    left = gone.filter(pa.array(~again))
    lost = [
        left.column(f.name) if f.name in left.column_names else pa.nulls(left.num_rows, f.type) for f in come.schema
    ]
    marks = pa.array([False] * come.num_rows + [True] * left.num_rows)
    return pa.concat_tables([come, pa.table(lost, schema=come.schema)]).append_column(GONE, marks)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
