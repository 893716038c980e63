"""TPC-H tables by tpchgen, and seeded changes to them: orders with their lines come, go and are corrected."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")

DDL = """
CREATE TABLE region (r_regionkey BIGINT PRIMARY KEY, r_name STRING, r_comment STRING);
CREATE TABLE nation (n_nationkey BIGINT PRIMARY KEY, n_name STRING, n_regionkey BIGINT REFERENCES region NOT ENFORCED,
  n_comment STRING);
CREATE TABLE supplier (s_suppkey BIGINT PRIMARY KEY, s_name STRING, s_address STRING,
  s_nationkey BIGINT REFERENCES nation NOT ENFORCED, s_phone STRING, s_acctbal DECIMAL(15,2), s_comment STRING);
CREATE TABLE part (p_partkey BIGINT PRIMARY KEY, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING,
  p_size INT, p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING);
CREATE TABLE partsupp (ps_partkey BIGINT REFERENCES part NOT ENFORCED,
  ps_suppkey BIGINT REFERENCES supplier NOT ENFORCED, ps_availqty INT,
  ps_supplycost DECIMAL(15,2), ps_comment STRING, PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, c_name STRING, c_address STRING,
  c_nationkey BIGINT REFERENCES nation NOT ENFORCED, c_phone STRING, c_acctbal DECIMAL(15,2), c_mktsegment STRING,
  c_comment STRING);
CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT REFERENCES customer NOT ENFORCED,
  o_orderstatus STRING,
  o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT,
  o_comment STRING);
CREATE TABLE lineitem (l_orderkey BIGINT REFERENCES orders NOT ENFORCED, l_partkey BIGINT REFERENCES part NOT ENFORCED,
  l_suppkey BIGINT REFERENCES supplier NOT ENFORCED, l_linenumber INT,
  l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2),
  l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE,
  l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, l_comment STRING,
  PRIMARY KEY (l_orderkey, l_linenumber));
"""


def generate(folder: Path, scale: float, columns: Mapping[str, list[str]] | None = None) -> dict[str, pa.Table]:
    """All tables at ``scale``, or only some ``columns`` of some; made once, kept in ``folder``."""
    target = folder / f"tpch-{scale:g}"
    if not (target / "lineitem.parquet").exists():
        target.mkdir(parents=True, exist_ok=True)
        tool = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([tool, "parquet", "-s", f"{scale:g}", "-o", target, "-q"], check=True)
    wanted = dict.fromkeys(TABLES) if columns is None else columns
    return {name: _plain(pq.read_table(target / f"{name}.parquet", columns=wanted[name])) for name in wanted}


def _plain(table: pa.Table) -> pa.Table:
    """Strings as plain Arrow strings: the generator writes string views."""
    fields = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in table.schema]
    return table.cast(pa.schema(fields))


class Changes:
    """Draws mixed changes and keeps the tables as they are after them, for recomputation to work on."""

    def __init__(self, tables: dict[str, pa.Table], seed: int = 1) -> None:
        self.tables = dict(tables)
        self._random = np.random.default_rng(seed)
        self._next_key = int(pc.max(tables["orders"]["o_orderkey"]).as_py()) + 1

    def draw(self, percent: float) -> dict[str, pa.Table]:
        """A change of ``percent`` of the orders and their lines: a third go, a third are corrected, a third are new.

        For each hundred orders a customer moves to another market segment.
        """
        count = max(3, int(self.tables["orders"].num_rows * percent / 100))
        gone, corrected, copied = np.array_split(self._some("orders", "o_orderkey", count), 3)
        result = {}
        for name, key, correct in (
            ("orders", "o_orderkey", _corrected_orders),
            ("lineitem", "l_orderkey", _corrected_lines),
        ):
            table = self.tables[name]
            leaving, old = _of_keys(table, key, gone), _of_keys(table, key, corrected)
            new = self._renamed(_of_keys(table, key, copied), key, copied)
            result[name] = self._apply(name, minus=[leaving, old], plus=[correct(old), new], key=key)
        self._next_key += len(copied)
        return result | self.move_customers(max(1, count // 100))

    def move_customers(self, count: int) -> dict[str, pa.Table]:
        """A change of so many customers, who move to another market segment."""
        old = _of_keys(self.tables["customer"], "c_custkey", self._some("customer", "c_custkey", count))
        moved = _set(old, "c_mktsegment", pa.array(["BUILDING"] * old.num_rows))
        return {"customer": self._apply("customer", minus=[old], plus=[moved], key="c_custkey")}

    def _some(self, table: str, key: str, count: int) -> np.ndarray:
        """Keys of that many rows, each at most once."""
        return self._random.choice(self.tables[table][key].to_numpy(), size=count, replace=False)

    def _renamed(self, table: pa.Table, key: str, copied: np.ndarray) -> pa.Table:
        """Copies under new order keys."""
        ranks = {int(k): self._next_key + i for i, k in enumerate(copied)}
        return _set(table, key, pa.array([ranks[k] for k in table[key].to_pylist()], type=pa.int64()))

    def _apply(self, name: str, minus: list[pa.Table], plus: list[pa.Table], key: str) -> pa.Table:
        out, into = pa.concat_tables(minus), pa.concat_tables(plus)
        before = self.tables[name]
        kept = before.filter(pc.invert(pc.is_in(before[key], out[key].combine_chunks())))
        self.tables[name] = pa.concat_tables([kept, into])
        return pa.concat_tables([_weighted(out, -1), _weighted(into, +1)])


def _of_keys(table: pa.Table, key: str, keys: np.ndarray) -> pa.Table:
    return table.filter(pc.is_in(table[key], pa.array(keys)))


def _corrected_orders(table: pa.Table) -> pa.Table:
    return _set(table, "o_shippriority", pc.add(table["o_shippriority"], pa.scalar(1, pa.int32())))


def _corrected_lines(table: pa.Table) -> pa.Table:
    """Quantities corrected, and every line moved to another ship mode: rows change their groups."""
    more = pc.add(table["l_quantity"], pa.scalar(Decimal(1), pa.decimal128(15, 2))).cast(pa.decimal128(15, 2))
    return _set(_set(table, "l_quantity", more), "l_shipmode", pa.array(["MAIL"] * table.num_rows))


def _set(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    position = table.column_names.index(column)
    return table.set_column(position, table.schema.field(position), values)


def _weighted(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column("_weight", pa.array(np.full(table.num_rows, weight, dtype=np.int64)))
