"""TPC-H as lake tables, which a job changes by MERGE as it would without Tidemill."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from benchmarks.tpch.data import DDL, TABLES, generate
from tidemill.model.errors import UnknownName
from tidemill.sources.lake.publication.delta_writer import DeltaWriter
from tidemill.sources.lake.publication.iceberg_writer import IcebergWriter
from tidemill.sources.lake.publication.key_index import KeyIndex
from tidemill.sources.lake.publication.lake_publication import Written

KEYS = {"customer": ("c_custkey",), "orders": ("o_orderkey",), "lineitem": ("l_orderkey", "l_linenumber")}
"""The keys of the tables that change."""

GONE = "_gone"
"""The column of a MERGE's source that is true for rows to delete."""

FILE_BYTES = 32 << 20
"""Target size of data files: lineitem at scale 1 has several, each of which a change of random rows rewrites."""

_COLUMNS = dict(re.findall(r"CREATE TABLE (\w+) (\(.*?\));\n", DDL, flags=re.DOTALL))
"""The columns and keys of each table, as they stand in CREATE TABLE."""


class Lake(Protocol):
    """Eight tables in one format, below a folder."""

    FORMAT: ClassVar[str]

    def __init__(self, folder: Path, base: Path) -> None:
        """Make the tables from plain Delta tables in ``base``."""

    def merge(self, name: str, change: pa.Table) -> None:
        """Apply weighted rows to a table in one commit, by its key."""

    def files(self, name: str) -> list[str]:
        """Parquet files that together are the newest version: its data files, or a copy if some rows are marked."""

    def ddl(self, name: str) -> str:
        """The statement by which Tidemill takes a table."""


class DeltaLake:
    """Delta tables, without a change data feed."""

    FORMAT: ClassVar[str] = "delta"
    SETTINGS: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path, base: Path) -> None:
        self._folder = folder
        shutil.copytree(base, folder)
        for name in TABLES if self.SETTINGS else ():
            DeltaTable(str(folder / name)).alter.set_table_properties(self.SETTINGS)

    def merge(self, name: str, change: pa.Table) -> None:
        source, columns = merge_source(change, KEYS[name]), [c for c in change.column_names if c != "_weight"]
        same = " AND ".join(f"t.{column} = s.{column}" for column in KEYS[name])
        merging = DeltaTable(self.location(name)).merge(source, same, source_alias="s", target_alias="t")
        new = {column: f"s.{column}" for column in columns}
        merging.when_matched_delete(f"s.{GONE}").when_matched_update(new).when_not_matched_insert(
            new, f"NOT s.{GONE}"
        ).execute()

    def files(self, name: str) -> list[str]:
        return sorted(DeltaTable(self.location(name)).file_uris())

    def ddl(self, name: str) -> str:
        return f"CREATE TABLE {name} {_COLUMNS[name]} USING delta LOCATION '{self.location(name)}'"

    def location(self, name: str) -> str:
        """The folder of a table."""
        return str(self._folder / name)


class DeltaLakeWithFeed(DeltaLake):
    """Delta tables whose writers keep a change data feed."""

    SETTINGS: ClassVar[dict[str, str]] = {"delta.enableChangeDataFeed": "true"}


class DeltaLakeWithVectors(DeltaLake):
    """Delta tables whose writers mark deleted rows by deletion vectors, without a change data feed."""

    SETTINGS: ClassVar[dict[str, str]] = {"delta.enableDeletionVectors": "true"}

    def merge(self, name: str, change: pa.Table) -> None:
        """As a writer with deletion vectors does: old rows are marked, new ones are in a new file."""
        writer = DeltaWriter(self.location(name), KeyIndex(self._folder / "keys" / name))
        require_merged(writer.merge(*gone_and_come(change, KEYS[name]), {}))

    def files(self, name: str) -> list[str]:
        table = DeltaTable(self.location(name))
        return copied(self._folder / "copies" / f"{name}-{table.version()}.parquet", lambda: pa.table(table.scan()))


class IcebergLake:
    """Iceberg tables of the same files, in a SQL catalog; a MERGE copies the files in which rows change."""

    FORMAT: ClassVar[str] = "iceberg"

    def __init__(self, folder: Path, base: Path) -> None:
        shutil.copytree(base, folder / "files")
        self._path = folder / "catalog.db"
        self._catalog = SqlCatalog("default", uri=f"sqlite:///{self._path}", warehouse=f"file://{folder / 'tables'}")
        self._catalog.create_namespace("tpch")
        for name in TABLES:
            delta = DeltaTable(str(folder / "files" / name))
            table = self._catalog.create_table(f"tpch.{name}", pa.schema(delta.schema().to_arrow()))
            table.add_files(delta.file_uris())

    def merge(self, name: str, change: pa.Table) -> None:
        """Delete the orders and customers that change, and append their new rows, in one transaction.

        The package's own ``upsert`` deletes nothing, and compares rows one by one.
        """
        key, plus = KEYS[name][0], pc.field("_weight") > 0
        with self._table(name).transaction() as transaction:
            transaction.delete(In(key, set(change.filter(~plus)[key].to_pylist())))
            transaction.append(change.filter(plus).drop_columns(["_weight"]))

    def files(self, name: str) -> list[str]:
        tasks = list(self._table(name).scan().plan_files())
        assert not any(task.delete_files for task in tasks)
        return sorted(task.file.file_path.removeprefix("file://") for task in tasks)

    def ddl(self, name: str) -> str:
        options = f"OPTIONS (catalog = '{self._path}')"
        return f"CREATE TABLE {name} {_COLUMNS[name]} USING iceberg {options} LOCATION 'tpch.{name}'"

    def _table(self, name: str) -> Any:
        return self._catalog.load_table(f"tpch.{name}")


class IcebergLakeWithDeletes(IcebergLake):
    """The same tables, whose writers mark deleted rows by position deletes."""

    def merge(self, name: str, change: pa.Table) -> None:
        """As a writer with merge-on-read does: old rows are marked, new ones are in a new file."""
        keys = KeyIndex(self._path.parent / "keys" / name)
        writer = IcebergWriter(f"tpch.{name}", (str(self._path), "default"), keys)
        require_merged(writer.merge(*gone_and_come(change, KEYS[name]), {}))

    def files(self, name: str) -> list[str]:
        table = self._table(name)
        copy = self._path.parent / "copies" / f"{name}-{table.current_snapshot().snapshot_id}.parquet"
        return copied(copy, lambda: table.scan().to_arrow())


LAKES: dict[str, type[DeltaLake] | type[IcebergLake]] = {
    "feed": DeltaLakeWithFeed,
    "files": DeltaLake,
    "vectors": DeltaLakeWithVectors,
    "iceberg": IcebergLake,
    "deletes": IcebergLakeWithDeletes,
}
"""The formats by the names that figures have."""


def lake_of(name: str, folder: Path, base: Path) -> Lake:
    """The lake of that name, new in ``folder``."""
    if name not in LAKES:
        raise UnknownName(f'there is no lake "{name}"', hint=f"There is: {', '.join(LAKES)}.")
    return LAKES[name](folder, base)


def plain_tables(folder: Path, scale: float) -> Path:
    """A folder with the tables as Delta tables of one version; made once, kept in ``folder``."""
    target, making = folder / f"lake-{scale:g}", folder / f"lake-{scale:g}.part"
    if not target.exists():
        shutil.rmtree(making, ignore_errors=True)
        for name, rows in generate(folder, scale).items():
            write_deltalake(making / name, rows, target_file_size=FILE_BYTES)
        making.rename(target)
    return target


def merge_source(change: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows of a MERGE: each key once, with its new row, or with its old one and the mark that it is gone.

    >>> change = pa.table({"k": [1, 1, 2], "v": [5, 6, 7], "_weight": [-1, 1, -1]})
    >>> merge_source(change, ["k"]).to_pylist()
    [{'k': 1, 'v': 6, '_gone': False}, {'k': 2, 'v': 7, '_gone': True}]
    """
    plus, minus = (change.filter(side).drop_columns(["_weight"]) for side in _sides())
    new = set(_keys(plus, key))
    left = minus.filter(pa.array([found not in new for found in _keys(minus, key)], pa.bool_()))
    return pa.concat_tables([_marked(plus, gone=False), _marked(left, gone=True)])


def gone_and_come(change: pa.Table, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The keys of the rows that a weighted change deletes, and the rows that it adds.

    >>> gone, come = gone_and_come(pa.table({"k": [1, 1, 2], "v": [5, 6, 7], "_weight": [-1, 1, -1]}), ["k"])
    >>> gone.to_pylist(), come.to_pylist()
    ([{'k': 1}, {'k': 2}], [{'k': 1, 'v': 6}])
    """
    come, gone = (change.filter(side).drop_columns(["_weight"]) for side in _sides())
    return gone.select(list(key)), come


def require_merged(written: Written | None) -> None:
    """Raise AssertionError if some rows to delete were not found."""
    if written is None:
        raise AssertionError("rows to delete are not in the lake")


def copied(file: Path, read: Callable[[], pa.Table]) -> list[str]:
    """A copy of the rows of a table in one Parquet file: for readers that do not know which rows are marked."""
    if not file.exists():
        for old in file.parent.glob(f"{file.name.partition('-')[0]}-*"):
            old.unlink()
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(read(), file)
    return [str(file)]


def _sides() -> tuple[pc.Expression, pc.Expression]:
    return pc.field("_weight") > 0, pc.field("_weight") < 0


def _keys(rows: pa.Table, key: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[column].to_pylist() for column in key), strict=True))


def _marked(rows: pa.Table, *, gone: bool) -> pa.Table:
    return rows.append_column(GONE, pa.repeat(pa.scalar(gone), rows.num_rows))
