"""The promises of the store protocol, tested on every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.storage.object_stores import MemoryObjects, root
from tests.storage.samples import FIELDS, PEOPLE, TOTAL_FIELDS, TOTALS, change, commit, contents, feed, totals
from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import EpochGone, StorageError
from tidemill.model.schema import EPOCH
from tidemill.model.types import BIGINT, DOUBLE, Field
from tidemill.storage import row_group_statistics, runs
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.segments import PLACE, RecentEpochs, stored_schema, with_epoch
from tidemill.storage.store import Store

ANN, BOB, EVE = (1, "ann"), (2, "bob"), (3, None)


class EagerStore(FolderStore):
    """A folder in which no epoch waits in the log."""

    def commit(self, epoch: Epoch) -> None:
        super().commit(epoch)
        self.checkpoint()


MAKERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "folder": FolderStore.open,
    "eager": EagerStore.open,
    "objects": lambda folder: FolderStore.open(root(MemoryObjects())),
}


def names_in(store: Store, until: int) -> set[str | None]:
    """The names in the files that a runtime would read for an epoch."""
    rows = [row for run in store.runs("people", until=until) for row in pq.ParquetFile(run.file).read().to_pylist()]
    return {row["name"] for row in rows if row["_epoch"] <= until}


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("TIDEMILL_CACHE", str(tmp_path / "cache"))
    made = MAKERS[request.param](tmp_path / "warehouse")
    yield made
    made.close()


def test_a_new_store_is_empty(store: Store) -> None:
    assert (store.epoch, store.oldest, store.catalog, store.positions) == (0, 0, {}, {})
    assert store.read("people", FIELDS).schema.equals(stored_schema(FIELDS))
    assert store.runs("people") == ()
    assert store.rows("people") == 0


def test_rows_are_the_sum_of_the_changes(store: Store) -> None:
    commit(store, 1, [(ANN, 1), (EVE, 2)])
    commit(store, 2, [(ANN, -1), (BOB, 1)])
    assert store.epoch == 2
    assert contents(store) == ZSet({BOB: 1, EVE: 2})
    assert store.rows("people") == 4


def test_time_travel_and_feed(store: Store) -> None:
    for number, row in enumerate((ANN, BOB, EVE), start=1):
        commit(store, number, [(row, 1)])
    assert [contents(store, until=epoch) for epoch in range(4)] == [ZSet.of([ANN, BOB, EVE][:n]) for n in range(4)]
    assert feed(store, since=1) == {2: ZSet({BOB: 1}), 3: ZSet({EVE: 1})}
    assert contents(store, since=1, until=2) == ZSet({BOB: 1})


@pytest.mark.parametrize("bounds", [{"until": 4}, {"since": 4}, {"until": 1}, {"since": 1}])
def test_epochs_out_of_reach(store: Store, bounds: dict[str, int]) -> None:
    for number in (1, 2, 3):
        commit(store, number, [(ANN, 1)])
    store.vacuum(keep=2)
    assert store.oldest == 2
    with pytest.raises(EpochGone, match="epoch"):
        store.read("people", FIELDS, **bounds)


def test_positions_and_catalog(store: Store) -> None:
    store.commit(Epoch(0, catalog={"tables": ["people"]}))
    commit(store, 1, [(ANN, 1)], positions={"kafka": "5"})
    commit(store, 2, [], positions={"file": "x"})
    assert store.epoch == 2
    assert store.catalog == {"tables": ["people"]}
    assert store.positions == {"kafka": "5", "file": "x"}


def test_a_view_filled_without_a_new_epoch(store: Store) -> None:
    commit(store, 1, [(ANN, 1)])
    commit(store, 1, [(ANN, 1)], name="view", catalog={"views": ["view"]})
    assert store.epoch == 1
    assert contents(store, "view") == ZSet({ANN: 1})


def test_epochs_only_go_forward(store: Store) -> None:
    commit(store, 2, [(ANN, 1)])
    with pytest.raises(StorageError, match="only go forward"):
        commit(store, 1, [(ANN, 1)])
    assert contents(store) == ZSet({ANN: 1})


def test_dropped_maps_are_gone(store: Store) -> None:
    commit(store, 1, [(ANN, 1)])
    store.commit(Epoch(1, dropped=("people", "never there")))
    assert contents(store) == ZSet()
    commit(store, 2, [(BOB, 1)])
    assert contents(store) == ZSet({BOB: 1})


def test_replaced_maps_keep_their_past(store: Store) -> None:
    commit(store, 1, [(ANN, 1)])
    commit(store, 2, [(EVE, 1)])
    commit(store, 3, [(EVE, 1), (BOB, 1)], replaced=("people",))
    commit(store, 4, [(BOB, 1)])
    assert contents(store) == ZSet({EVE: 1, BOB: 2})
    assert contents(store, until=2) == ZSet({ANN: 1, EVE: 1})
    assert feed(store, since=1) == {2: ZSet({EVE: 1}), 3: ZSet({ANN: -1, BOB: 1}), 4: ZSet({BOB: 1})}
    assert feed(store, since=3) == {4: ZSet({BOB: 1})}
    assert [names_in(store, until) for until in (1, 2, 3, 4)] == [{"ann"}, {"ann", None}, {"bob", None}, {"bob", None}]
    store.vacuum(keep=1)
    assert contents(store) == ZSet({EVE: 1, BOB: 2})
    assert store.rows("people") == 3


@pytest.mark.parametrize("name", ["../up", "a/b", ".", "", "räksmörgås", "\ud800", "v:1/2\n", "x" * 5000, "NUL\0"])
def test_any_text_names_a_map(store: Store, name: str) -> None:
    commit(store, 1, [(ANN, 1)], name=name)
    commit(store, 2, [(BOB, 1)], name=name, catalog={"tables": [name]})
    assert contents(store, name) == ZSet({ANN: 1, BOB: 1})
    assert len(store.runs(name)) >= 1


def test_a_snapshot_stays_while_all_else_moves(store: MemoryStore | FolderStore) -> None:
    commit(store, 1, [(ANN, 1)])
    commit(store, 2, [(BOB, 1)])
    with store.pin() as snapshot:
        commit(store, 3, [(ANN, -1)])
        commit(store, 3, [(EVE, 1)], replaced=("people",))
        store.vacuum(keep=1)
        store.compact({"people": PEOPLE})
        store.vacuum(keep=1)
        assert contents(snapshot) == ZSet({ANN: 1, BOB: 1})
        assert contents(snapshot, until=1) == ZSet({ANN: 1})
    assert contents(store) == ZSet({EVE: 1})


def test_compaction_keeps_every_epoch_that_is_reached(store: Store) -> None:
    for number in range(1, 21):
        commit(store, number, [((number, "n"), 1), ((number - 1, "n"), -1 if number > 1 else 0)])
    past = {epoch: contents(store, until=epoch) for epoch in range(21)}
    store.compact({"people": PEOPLE})
    assert {epoch: contents(store, until=epoch) for epoch in range(21)} == past
    store.vacuum(keep=3)
    store.compact({"people": PEOPLE})
    assert {epoch: contents(store, until=epoch) for epoch in (18, 19, 20)} == {e: past[e] for e in (18, 19, 20)}
    # One row at epoch 18, and two for each epoch after it: nothing else is left of twenty epochs.
    assert store.rows("people") == 5


def test_a_ring_map_keeps_its_values(store: Store) -> None:
    store.commit(Epoch(1, {"totals": totals(("ann", 2, 5, 1e20), ("bob", 1, 1, 1.0))}))
    store.commit(Epoch(2, {"totals": totals(("ann", 0, 7, 1.0), ("bob", -1, -1, -1.0))}))
    store.commit(Epoch(3, {"totals": totals(("ann", 0, 0, -1e20))}))
    store.vacuum(keep=1)
    store.compact({"totals": TOTALS})
    assert store.read("totals", TOTAL_FIELDS).to_pylist() == [
        {"name": "ann", "n": 12, "x": 1.0, "x.lo": 0.0, "x.nan": 0, "x.inf": 0, "x.ninf": 0, "_weight": 2, "_epoch": 3}
    ]


def test_runs_are_parquet_files_with_weight_and_epoch(store: Store) -> None:
    commit(store, 1, [(ANN, 1)])
    commit(store, 2, [(BOB, 1)])
    runs = store.runs("people")
    tables = [pq.read_table(run.file, partitioning=None) for run in runs]
    assert sum(run.rows for run in runs) == 2
    assert {row["_epoch"]: row["name"] for table in tables for row in table.to_pylist()} == {1: "ann", 2: "bob"}
    assert [run.bytes for run in runs] == [Path(run.file).stat().st_size for run in runs]
    assert store.runs("people") == runs


@pytest.mark.parametrize("with_epochs", [True, False])
def test_staged_files_become_runs(store: Store, with_epochs: bool) -> None:
    staged = store.staging("people")
    assert list(staged.iterdir()) == []
    paths = []
    for number, row in enumerate((ANN, BOB)):
        table = change([(row, 1)]).arrow()
        paths.append(staged / f"{number}.parquet")
        pq.write_table(with_epoch(table, 1) if with_epochs else table, paths[-1])
    handed = ChangeSet.of_files(paths, FIELDS, rows=2)
    store.commit(Epoch(1, {"people": handed, "copy": handed}))
    assert contents(store) == contents(store, "copy") == ZSet({ANN: 1, BOB: 1})
    assert {run.first_epoch for run in store.runs("people")} == {1}
    assert handed.zset() == ZSet({ANN: 1, BOB: 1})


def test_changes_of_every_form_are_read_together(store: Store) -> None:
    forms = [change([(ANN, 1), (BOB, 2)]), change([]), ChangeSet.of_arrow(change([(BOB, -1)]).arrow(), FIELDS)]
    asked = change([(EVE, 1)])
    asked.arrow()
    for number, form in enumerate([*forms, asked, change([(ANN, 3)])], start=1):
        store.commit(Epoch(number, {"people": form}))
    assert contents(store) == ZSet({ANN: 4, BOB: 1, EVE: 1})
    assert feed(store, since=1) == {3: ZSet({BOB: -1}), 4: ZSet({EVE: 1}), 5: ZSet({ANN: 3})}
    assert store.rows("people") == 5


def test_fields_may_be_chosen(store: Store) -> None:
    commit(store, 1, [(ANN, 1)])
    assert store.read("people", FIELDS[1:]).to_pylist() == [{"name": "ann", "_weight": 1, "_epoch": 1}]


def test_column_names_with_dots(store: Store) -> None:
    fields = (Field("o.id", BIGINT), Field("o", BIGINT), Field("o.id.lo", DOUBLE))
    store.commit(Epoch(1, {"m": ChangeSet.of([((1, 2, 0.5), 1)], fields)}))
    assert len(store.runs("m")) == 1
    assert store.read("m", fields).to_pylist() == [{"o.id": 1, "o": 2, "o.id.lo": 0.5, "_weight": 1, "_epoch": 1}]


def test_rows_are_read_by_the_values_of_columns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of several row groups and changes in the log: as if all rows were read and then filtered."""
    monkeypatch.setattr(runs, "PARQUET_OPTIONS", {**runs.PARQUET_OPTIONS, "row_group_size": 10})
    commit(store, 1, [((n, f"n{n % 7}" if n % 5 else None), 1) for n in range(100)])
    store.runs("people")  # writes the log to files
    commit(store, 2, [((42, "n0"), -1), ((42, "new"), 1), ((1000, "n1"), 1)])
    both = [(["n1", "n2", "new", "n1"], [1, 2, 42, 1000]), (["n2", None, None], [5, 10, 16])]
    for names, ids in (*both, (None, [3, 42, 1000, 7777]), (["n2"], None), (["z"], None), ([None], None)):
        given = {"id": ids, "name": names}
        types = {"id": pa.int64(), "name": pa.string()}
        where = {name: pa.array(values, types[name]) for name, values in given.items() if values is not None}
        keys = set(zip(*(values for values in (ids, names) if values is not None), strict=True))
        for until in (1, 2):
            rows = contents(store, until=until).items()
            near = {r: w for r, w in rows if (ids is None or r[0] in ids) and (names is None or r[1] in names)}
            found = contents(store, until=until, where=where)
            assert found.items() <= near.items()
            assert found.items() >= {r: w for r, w in near.items() if ids is None or names is None or r in keys}.items()


@pytest.mark.parametrize("wanted", [{3}, {15, 99, 1000}, set(range(0, 100, 7)), set()])
def test_rows_are_found_by_some_columns(store: Store, monkeypatch: pytest.MonkeyPatch, wanted: set[int]) -> None:
    """In files of several row groups, in the log, and of epochs that were replaced: with what was said of each."""
    monkeypatch.setattr(runs, "PARQUET_OPTIONS", {**runs.PARQUET_OPTIONS, "row_group_size": 10})
    commit(store, 1, [((n, "replaced"), 1) for n in range(100)])
    store.commit(Epoch(2, {"people": change([((n, f"n{n % 7}"), 1) for n in range(100)])}, replaced=("people",)))
    store.runs("people")
    commit(store, 3, [((15, "n1"), -1), ((1000, "new"), 2)])

    def find(rows: pa.Table) -> pa.Table:
        assert rows.column_names == ["id"]
        places = [place for place, number in enumerate(rows.column("id").to_pylist()) if number in wanted]
        return pa.table({PLACE: places[::-1], "said": [f"{rows.column('id')[place]}" for place in places[::-1]]})

    with store.pin() as snapshot:
        commit(store, 4, [((3, "later"), 1)])
        found = snapshot.find("people", FIELDS, FIELDS[:1], find)
    assert found.column_names == [*stored_schema(FIELDS).names, "said"]
    assert found.column("said").to_pylist() == [f"{number}" for number in found.column("id").to_pylist()]
    rows = ZSet.summed(from_arrow(found.drop_columns(["said"]), FIELDS))
    then = contents(store, until=3)
    assert rows == {row: weight for row, weight in then.items() if row[0] in wanted}


def test_copies_of_recent_epochs_are_complete_and_independent() -> None:
    tail = RecentEpochs()
    tail.reached.append((1, {"shop": "7"}))
    copy = tail.copy()
    tail.reached.append((2, {"shop": "8"}))
    assert copy.reached == [(1, {"shop": "7"})]
    tail.cut(1)
    assert tail.reached == copy.reached


def test_recent_epochs_are_gathered_in_few_segments_that_stay() -> None:
    """A lookup in every epoch must not gather and index all epochs again; a read as of an earlier one drops nothing."""
    tail = RecentEpochs()
    for number in range(1, 101):
        tail.add(number, "t", change([((number, "x"), 1)]))
        parts = tail.parts("t", since=None, until=number)
        assert [epoch for part in parts for epoch in part.table.column(EPOCH).to_pylist()] == [*range(1, number + 1)]
        assert len(parts) <= 7
    earlier = tail.parts("t", since=None, until=99)
    assert sum(part.table.num_rows for part in earlier) == 99
    assert [*map(id, tail.parts("t", since=None, until=100))] == [*map(id, parts)]
    tail.add(101, "t", change([((101, "x"), 1)]))
    assert tail.parts("t", since=None, until=101)[0] is parts[0]
    assert [part.table.column(EPOCH).to_pylist() for part in tail.parts("t", since=98, until=100)] == [[99, 100]]


@pytest.mark.parametrize("most", [row_group_statistics.MOST_SORTED, 0])
def test_runs_are_excluded_by_their_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Of many values only the ends are compared: then a run is read that has none of them, and never left out."""
    monkeypatch.setattr(row_group_statistics, "MOST_SORTED", most)
    file = tmp_path / "run.parquet"
    runs.write_table(pa.table({"id": [10, 20], "name": ["b", "d"]}), file)

    def held(name: str, *values: object) -> bool:
        return runs.may_hold(file, {name: pa.array(values)})

    assert held("id", 1, 20, 30) and held("name", "c", None)
    assert not held("id", 1, 9) and not held("id", 21) and not held("name", "a", "az")
    assert held("id", 1, 30) == (most == 0)
