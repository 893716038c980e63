"""The change log: durable at once, whole or not at all."""

from __future__ import annotations

import decimal
import errno
import math
import os
import random
import statistics
import threading
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.storage.samples import change, commit, contents, files, older_record
from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.array_tree import as_array, spliced
from tidemill.model.errors import CommitUnknown, StorageError
from tidemill.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Struct,
    Type,
)
from tidemill.storage import folder_writer
from tidemill.storage.commits.log import Log, LogEnd, LoggedSchemas, decode_record, encode_epoch, encode_record, replay
from tidemill.storage.filesystem.writer_lock import WriterLock
from tidemill.storage.folder_store import FolderStore

ANN, BOB = (1, "ann"), (2, "bob")


def epoch(number: int) -> Epoch:
    return Epoch(number, {"people": change([((number, "x"), 1)]), "none": change([])}, {"s": str(number)})


def chain(*numbers: int, synced: bool = True) -> list[bytes]:
    """The records of epochs, one after the other; each was written when those before were durable, if ``synced``."""
    records: list[bytes] = []
    at = previous = 0
    schemas = LoggedSchemas()
    for number in numbers:
        record, previous = encode_record(encode_epoch(epoch(number), schemas), at, previous, at if synced else 0)
        records.append(record)
        at += len(record)
    return records


def test_arrays_are_logged_as_edits(tmp_path: Path, random_seed: int) -> None:
    """Of a large array a record has what has changed; a log that is cut begins again with whole ones."""
    draw = random.Random(random_seed)
    fields = (Field("id", INT), Field("sizes", Array(DATE)), Field("rest", Struct((Field("a", Array(INT)),))))
    days = [date.fromordinal(730_000 + number) for number in range(9)]
    log, expected, lengths = Log(tmp_path / "one.log"), [], []
    versions: list[Any] = [as_array(draw.choices([*days, None], k=3_000))]
    for number in range(1, 60):
        old, new = draw.choice(versions[-3:]), versions[-1]
        for _ in range(draw.randrange(3)):
            place = draw.randrange(len(new))
            new = spliced(new, place, place + draw.randrange(3), tuple(draw.choices(days, k=draw.randrange(3))))
        versions.append(new)
        rows = [((1, old, (as_array(range(number % 2 * 600)),)), -1), ((1, new, None), 1)]
        expected.append(rows)
        before = log.end
        log.append(Epoch(number, {"v": ChangeSet.of(rows, fields)}))
        lengths.append(log.end.length - before.length)
        if draw.random() < 0.1:  # the record is torn, and written again
            log.cut(before)
            log.append(Epoch(number, {"v": ChangeSet.of(rows, fields)}))
    log.sync(log.end.length)
    read = replay(log.file)
    assert not read.later and [record.epoch for record in read.records] == list(range(1, 60))
    assert [from_arrow(record.changes["v"].arrow(), fields) for record in read.records] == expected
    assert statistics.median(lengths) < 5_000 < 30_000 < max(lengths)


def test_a_record_holds_the_epoch() -> None:
    [record] = chain(7)
    found = decode_record(record, 0, {})
    assert found is not None
    assert (found.epoch, found.positions, list(found.changes)) == (7, {"s": "7"}, ["people"])
    assert found.changes["people"].arrow().to_pylist() == [{"id": 7, "name": "x", "_weight": 1}]
    assert found.end == len(record)


def test_a_schema_is_written_once(tmp_path: Path) -> None:
    first, second, third = chain(1, 2, 3)
    assert len(second) == len(third) < len(first)
    (tmp_path / "x.log").write_bytes(first + second + third)
    rows = [record.changes["people"].arrow().to_pylist() for record in replay(tmp_path / "x.log").records]
    assert rows == [[{"id": number, "name": "x", "_weight": 1}] for number in (1, 2, 3)]


def test_large_changes_are_compressed(tmp_path: Path) -> None:
    log = Log(tmp_path / "x.log")
    rows = [((id, f"name {id % 100}"), 1) for id in range(10_000)]
    for number in (1, 2):
        log.append(Epoch(number, {"people": ChangeSet.of_arrow(change(rows).arrow(), change(rows).fields)}))
    log.append(Epoch(3, {"people": change([(ANN, 1)])}))
    log.close()
    found = replay(log.file).records
    assert [list(from_arrow(one.changes["people"].arrow(), change(rows).fields)) for one in found] == [
        rows,
        rows,
        [(ANN, 1)],
    ]
    assert found[1].end < change(rows).arrow().nbytes / 2


def test_a_schema_that_changes_is_written_again(tmp_path: Path) -> None:
    log = Log(tmp_path / "x.log")
    others = ChangeSet.of([((1.5,), 1)], (Field("price", DOUBLE),))
    for number, rows in enumerate((change([(ANN, 1)]), others, change([(BOB, 1)]), change([(BOB, 2)])), 1):
        log.append(Epoch(number, {"people": rows}))
    log.close()
    found = [record.changes["people"].arrow() for record in replay(log.file).records]
    assert [table.column(0).to_pylist() for table in found] == [[1], [1.5], [2], [2]]


def test_a_log_that_was_cut_or_resumed_writes_its_schemas_again(tmp_path: Path) -> None:
    log = Log(tmp_path / "x.log")
    log.append(epoch(1))
    whole = log.end
    log.cut(LogEnd())
    log.append(epoch(1))
    assert log.end == whole
    log.close()
    log = Log(log.file, resumed=whole)
    log.append(epoch(2))
    log.close()
    assert [record.changes["people"].arrow().num_rows for record in replay(log.file).records] == [1, 1]


KINDS: dict[Type, list[Any]] = {
    BIGINT: [0, -(2**63), 2**63 - 1],
    BOOLEAN: [True, False],
    DATE: [date.min, date(2024, 2, 29), date.max],
    DOUBLE: [0.1, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308],
    INT: [-(2**31), 7],
    STRING: ["", 'it\'s "quoted"\n\x00 é 😀', "x" * 1000],
    TIMESTAMP: [datetime.min, datetime(2026, 1, 2, 3, 4, 5, 6), datetime.max],
    Decimal(38, 10): [decimal.Decimal("1.5000000000"), decimal.Decimal("-" + "9" * 28 + "." + "9" * 10)],
    Array(Array(DATE)): [(), ((date(2026, 1, 1), None), None, ())],
    Struct((Field("a", Decimal(4, 1)), Field("b", Array(STRING)))): [
        (decimal.Decimal("1.5"), ("x", None)),
        (None, None),
    ],
}
"""Values of every type."""


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_few_rows_come_back_as_they_were(tmp_path: Path, kind: Type) -> None:
    pairs = [((value,), number - 2) for number, value in enumerate([*KINDS[kind], None]) if number != 2]
    few = ChangeSet.of(pairs, (Field("x", kind),))
    log = Log(tmp_path / "x.log")
    log.append(Epoch(1, {"few": few}))
    assert few.is_python_only  # they went the way that is tried here
    log.append(Epoch(2, {"few": ChangeSet.of_arrow(few.arrow(), few.fields)}))
    log.close()
    one, other = (record.changes["few"].arrow() for record in replay(log.file).records)
    assert one.schema == other.schema == few.arrow().schema
    assert repr(from_arrow(one, few.fields)) == repr(from_arrow(other, few.fields)) == repr(pairs)


@pytest.mark.parametrize("magic", [b"TdMl", b"TdM2"])
def test_records_of_older_formats_are_read(magic: bytes) -> None:
    found = decode_record(older_record(magic, 7, epoch(7).changes), 0, {})
    assert found is not None
    assert (found.epoch, found.previous, found.durable) == (7, None if magic == b"TdMl" else 0, 0)
    assert found.changes["people"].arrow().to_pylist() == [{"id": 7, "name": "x", "_weight": 1}]


@pytest.mark.parametrize("keep", [0, 1, 15, 16, 19, 20, 60, -1])
def test_a_torn_tail_is_cut_off(tmp_path: Path, keep: int) -> None:
    file = tmp_path / "x.log"
    *whole, torn = chain(1, 2, 3)
    file.write_bytes(b"".join(whole) + torn[:keep])
    found = replay(file)
    assert [record.epoch for record in found.records] == [1, 2]
    assert found.length == len(b"".join(whole))
    assert not found.lost


def test_a_tail_of_zeros_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_bytes(chain(1)[0] + bytes(5000))
    assert len(replay(file).records) == 1


@pytest.mark.parametrize("at", [0, 5, 9, 17, 40, 200])
def test_damage_before_a_durable_record_is_not_passed_over(tmp_path: Path, at: int) -> None:
    file = tmp_path / "x.log"
    content = bytearray(b"".join(chain(1, 2)))
    content[at] ^= 0x40
    file.write_bytes(content)
    assert replay(file).records == ()
    assert replay(file).lost


def test_damage_before_records_that_were_never_durable_cuts_them_off(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    content = bytearray(b"".join(chain(1, 2, 3, synced=False)))
    content[len(chain(1)[0]) + 60] ^= 1
    file.write_bytes(content)
    found = replay(file)
    assert [record.epoch for record in found.records] == [1]
    assert not found.lost


def test_records_that_waited_for_one_sync_together_may_be_lost_together(tmp_path: Path) -> None:
    """A power failure may leave the later of two records that waited for their sync, and not the earlier."""
    one, two, _ = chain(1, 2, 3)
    three, _ = encode_record(encode_epoch(epoch(3), LoggedSchemas()), len(one + two), 0, durable=len(one))
    file = tmp_path / "x.log"
    file.write_bytes(one + bytes(len(two)) + three)
    found = replay(file)
    assert [record.epoch for record in found.records] == [1]
    assert not found.lost


def test_a_record_that_follows_another_one_is_found_out(tmp_path: Path) -> None:
    one, two = chain(1, 2)
    other = chain(9)[0]
    assert len(one) == len(other)
    file = tmp_path / "x.log"
    file.write_bytes(other + two)
    assert replay(file).lost
    file.write_bytes(one + two)
    assert not replay(file).lost
    assert replay(file, after=77).lost


def test_small_epochs_wait_in_the_log_until_close(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        commit(store, 1, [(ANN, 1)])
        commit(store, 2, [(BOB, 1)])
        assert files(tmp_path) == []
        assert len(files(tmp_path, ".log")) == 1
        assert contents(store) == ZSet({ANN: 1, BOB: 1})
    assert len(files(tmp_path)) == 1
    assert files(tmp_path, ".log") == []
    assert len(files(tmp_path / "manifests", ".json")) == 1


def test_a_reader_sees_what_waits(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store, FolderStore.open(tmp_path, read_only=True) as reader:
        commit(store, 1, [(ANN, 1)], positions={"s": "1"})
        assert contents(reader) == ZSet()
        assert reader.refresh()
        assert not reader.refresh()
        assert (reader.epoch, reader.positions, contents(reader)) == (1, {"s": "1"}, ZSet({ANN: 1}))
        assert [run.rows for run in reader.runs("people")] == [1]
        store.checkpoint()
        assert reader.refresh()
        commit(store, 2, [(BOB, 1)])
        assert reader.refresh()
        assert contents(reader) == ZSet({ANN: 1, BOB: 1})
        assert contents(reader, until=1) == ZSet({ANN: 1})


def test_large_epochs_do_not_wait(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        commit(store, 1, [(ANN, 1)])
        commit(store, 2, [((n, "x"), 1) for n in range(folder_writer.LOG_ROWS + 1)])
        assert sorted(run.rows for run in store.runs("people")) == [1, folder_writer.LOG_ROWS + 1]
        assert len(files(tmp_path / "manifests", ".json")) == 1
        assert files(tmp_path, ".log") == []


def test_a_long_log_is_taken_into_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_writer, "CHECKPOINT_EPOCHS", 10)
    with FolderStore.open(tmp_path) as store:
        for number in range(1, 26):
            commit(store, number, [((number, "x"), 1)])
        assert [run.rows for run in store._now.state.runs["people"]] == [10, 10]
        assert len(contents(store)) == 25


def test_a_large_log_is_taken_into_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_writer, "CHECKPOINT_BYTES", 2000)
    with FolderStore.open(tmp_path) as store:
        for number in range(1, 11):
            commit(store, number, [((number, "x" * 500), 1)])
        assert len(store.runs("people")) > 1


def test_concurrent_callers_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = [], os.fdatasync
    slow = threading.Event()

    def sync(handle: int) -> None:
        calls.append(handle)
        slow.wait(0.02)
        real(handle)

    monkeypatch.setattr(os, "fdatasync", sync)
    with FolderStore.open(tmp_path) as store:
        turn = threading.Lock()

        def work() -> None:
            for _ in range(5):
                with turn:
                    durable = store.append(Epoch(store.epoch + 1, {"people": change([(ANN, 1)])}))
                durable()

        threads = [threading.Thread(target=work) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.epoch == 100
        assert len(calls) <= 50
        assert contents(store) == ZSet({ANN: 100})


def test_epochs_that_share_a_sync_share_the_check_of_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[WriterLock] = []
    monkeypatch.setattr(WriterLock, "check", lambda lock: checks.append(lock))
    with FolderStore.open(tmp_path) as store:
        waits = [store.append(Epoch(number, {"people": change([(ANN, 1)])})) for number in (1, 2, 3)]
        assert len(checks) == 1
        for durable in waits:
            durable()
        commit(store, 4, [(BOB, 1)])
        assert len(checks) == 2
    with FolderStore.open(tmp_path / "unsynced", durability="checkpoint") as store:
        before = len(checks)
        for number in (1, 2, 3):
            commit(store, number, [(ANN, 1)])
        assert len(checks) == before + 3


def test_durability_checkpoint_does_not_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda handle: pytest.fail("synced"))
    with FolderStore.open(tmp_path, durability="checkpoint") as store:
        commit(store, 1, [(ANN, 1)])
    with pytest.raises(pytest.fail.Exception), FolderStore.open(tmp_path) as store:
        commit(store, 2, [(ANN, 1)])


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="durability"):
        FolderStore.open(tmp_path, durability="never")


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, content: bytes, at: int) -> int:
        os.pwrite(handle, content[:10], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    with FolderStore.open(tmp_path) as store:
        commit(store, 1, [(ANN, 1)])
        with monkeypatch.context() as patch:
            patch.setattr("tidemill.storage.filesystem.disk.pwrite", refuse)
            with pytest.raises(StorageError, match="No space left"):
                commit(store, 2, [(BOB, 1)])
        assert (store.epoch, contents(store)) == (1, ZSet({ANN: 1}))
        commit(store, 2, [(BOB, 2)])
        [log] = files(tmp_path, ".log")
        assert [found.epoch for found in replay(log).records] == [1, 2]
    with FolderStore.open(tmp_path) as store:
        assert contents(store) == ZSet({ANN: 1, BOB: 2})


def test_after_a_failed_sync_nothing_more_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log = Log(tmp_path / "x.log")
    end = log.append(epoch(1)).length
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            log.sync(end)
    with pytest.raises(OSError, match="Input/output"):
        log.sync(end)
    log.close()


def test_a_commit_whose_sync_failed_is_settled_by_opening_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store = FolderStore.open(tmp_path)
    store.commit(Epoch(1, {"people": change([(ANN, 1)])}))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        with pytest.raises(CommitUnknown, match="cannot commit epoch 2: the disk may or may not have it"):
            store.commit(Epoch(2, {"people": change([(ANN, 1)])}))
    for use in (lambda: store.commit(Epoch(3)), lambda: store.read("people", ()), store.checkpoint, store.recover):
        with pytest.raises(CommitUnknown, match="open it again"):
            use()
    store.close()
    with FolderStore.open(tmp_path) as again:
        assert again.epoch == 2


def test_a_manifest_remembers_where_sources_were_after_each_epoch_of_the_log(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        for number in (1, 2, 3):
            commit(store, number, [((number, "x"), 1)], positions={"s": str(number)} if number != 2 else {})
        assert store.history() == {1: {"s": "1"}, 3: {"s": "3"}}
    with FolderStore.open(tmp_path) as store:  # closing has taken the log into a manifest
        assert not list((tmp_path / "log").iterdir())
        commit(store, 4, [(ANN, 1)], positions={"t": "9"})
        assert store.history() == {1: {"s": "1"}, 3: {"s": "3"}, 4: {"s": "3", "t": "9"}}


def test_a_schema_is_written_before_the_first_rows_that_need_it() -> None:
    schemas = LoggedSchemas()
    rows = change([(ANN, 1)])
    assert schemas.of_rows("people", rows.fields) and not schemas.of_rows("people", rows.fields)
    assert not schemas.of_table("people", rows.arrow().schema)
    other = rows.arrow().select(["id", "_weight"])
    assert schemas.of_table("people", other.schema) and not schemas.of_table("people", other.schema)
    assert schemas.of_rows("people", rows.fields)
    schemas.clear()
    assert schemas.of_rows("people", rows.fields)
