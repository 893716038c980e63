"""AUTO CDC against a plain reading of its rules, with records that come late, twice and in any order."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import pyarrow as pa
import pytest

from tests.pipelines.project import PipelineProject, Row, in_order
from tidemill.model.errors import TidemillError

RECORDS = pa.schema(
    [("id", pa.int32()), ("name", pa.string()), ("city", pa.string()), ("op", pa.string()), ("seq", pa.int64())]
)

PIPELINE = """
CREATE STREAMING TABLE one;
CREATE FLOW one_cdc AS AUTO CDC INTO one FROM STREAM records KEYS (id)
  APPLY AS DELETE WHEN op = 'DELETE' SEQUENCE BY seq COLUMNS * EXCEPT (op, seq) STORED AS SCD TYPE 1;
CREATE STREAMING TABLE two;
CREATE FLOW two_cdc AS AUTO CDC INTO two FROM STREAM records KEYS (id)
  APPLY AS DELETE WHEN op = 'DELETE' SEQUENCE BY seq COLUMNS * EXCEPT (op, seq) STORED AS SCD TYPE 2;
CREATE STREAMING TABLE names;
CREATE FLOW names_cdc AS AUTO CDC INTO names FROM STREAM records KEYS (id)
  APPLY AS DELETE WHEN op = 'DELETE' SEQUENCE BY seq COLUMNS * EXCEPT (op, seq) STORED AS SCD TYPE 2
  TRACK HISTORY ON name
"""

SOURCE = """
from pyspark import pipelines as dp

@dp.table
def records():
    schema = "id INT, name STRING, city STRING, op STRING, seq BIGINT"
    return spark.readStream.format("parquet").schema(schema).load("LAKE/records")
"""


def newest(records: list[Row]) -> list[Row]:
    """SCD type 1: the last record of each key, one by one."""
    state: dict[int, Row] = {}
    for record in sorted(records, key=lambda one: one[4]):
        state[record[0]] = record
    return in_order(record[:3] for record in state.values() if record[3] != "DELETE")


def history(records: list[Row], tracked: tuple[int, ...]) -> list[Row]:
    """SCD type 2: of each key the versions, as somebody who writes them down record by record would have them."""
    by_key: dict[int, list[Row]] = defaultdict(list)
    for record in sorted(records, key=lambda one: one[4]):
        by_key[record[0]].append(record)
    found: list[Row] = []
    for events in by_key.values():
        opened: tuple[int, Row] | None = None
        for event in events:
            if opened is not None:
                start, last = opened
                if event[3] != "DELETE" and all(event[place] == last[place] for place in tracked):
                    opened = (start, event)
                    continue
                found.append((*last[:3], start, event[4]))
            opened = None if event[3] == "DELETE" else (event[4], event)
        if opened is not None:
            found.append((*opened[1][:3], opened[0], None))
    return in_order(found)


@pytest.mark.parametrize("seed", range(3))
def test_records_in_any_order_give_what_their_order_says(project: PipelineProject, seed: int) -> None:
    draw = random.Random(seed)
    sequences = draw.sample(range(1000), 60)
    records: list[Row] = [
        (
            draw.randrange(6),
            draw.choice(("ann", "bob", None)),
            draw.choice("xy"),
            draw.choice(("UPSERT",) * 4 + ("DELETE",)),
            at,
        )
        for at in sequences
    ]
    project.write(a_sql=PIPELINE, b_py=SOURCE)
    for number in range(4):
        project.add("records", str(number), records[number * 15 : number * 15 + 15], RECORDS)
        report = project.run()
        known = records[: number * 15 + 15]
        assert project.rows("one") == newest(known)
        assert project.rows("two") == history(known, (1, 2))
        assert project.rows("names") == history(known, (1,))
    assert report["two"].how == "incremental"
    before = {name: project.rows(name) for name in ("one", "two", "names", "records")}
    project.run(full_refresh_all=True)
    assert {name: project.rows(name) for name in before} == before


def test_versions_never_overlap() -> None:
    """The reading itself: intervals of a key follow each other."""
    versions = history(
        [(1, "a", "x", "U", 5), (1, "a", "x", "U", 7), (1, "b", "x", "U", 9), (1, "b", "x", "DELETE", 12)], (1, 2)
    )
    assert versions == [(1, "a", "x", 5, 9), (1, "b", "x", 9, 12)]
    assert all(one[4] <= other[3] for one, other in pairwise(versions))


def test_a_deletion_wins_over_an_update_of_the_same_sequence(project: PipelineProject) -> None:
    project.write(a_sql=PIPELINE, b_py=SOURCE)
    project.add("records", "1", [(1, "ann", "x", "DELETE", 5), (1, "ann", "x", "UPSERT", 5)], RECORDS)
    project.run()
    assert project.rows("one") == [] and project.rows("two") == []


def test_a_record_without_a_key_is_refused(project: PipelineProject) -> None:
    project.write(a_sql=PIPELINE, b_py=SOURCE)
    project.add("records", "1", [(1, "ann", "x", "UPSERT", 5)], RECORDS)
    project.run()
    project.add("records", "2", [(None, "ann", "x", "UPSERT", 6)], RECORDS)
    with pytest.raises(TidemillError, match="a key or the sequence of a record is NULL"):
        project.run()
    assert project.rows("one") == [(1, "ann", "x")]


def test_python_flows_of_a_source_that_forgets(project: PipelineProject) -> None:
    """Records that leave a folder of files stay counted: they are kept in a table of their own."""
    flow = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col, expr

@dp.temporary_view
def recent():
    return spark.readStream.schema("id INT, name STRING, city STRING, op STRING, seq BIGINT").parquet("LAKE/records")

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    target="people", source="recent", keys=["id"], sequence_by=col("seq"), apply_as_deletes=expr("op = 'DELETE'"),
    column_list=["id", "name"], stored_as_scd_type=1,
)
"""
    project.write(a_py=flow)
    project.add("records", "1", [(1, "ann", "x", "UPSERT", 5), (2, "bob", "y", "UPSERT", 6)], RECORDS)
    project.run()
    (project.lake / "records" / "1.parquet").unlink()
    project.run()
    project.add("records", "2", [(2, "bea", "y", "UPSERT", 5), (1, "al", "x", "DELETE", 9)], RECORDS)
    project.run()
    assert project.rows("people") == [(2, "bob")]
