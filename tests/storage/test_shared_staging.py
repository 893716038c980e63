"""Files that tasks on other machines read and write: copies of their own, names that nobody else uses, no secrets."""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pyarrow as pa
import pytest

from tests.storage.object_stores import MemoryObjects, no_answer, root
from tests.storage.samples import FIELDS, commit, contents
from tidemill.changes.arrow import to_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import Corrupt, SetupError, StorageError
from tidemill.storage import runs
from tidemill.storage.filesystem.fetched_file import is_at_hand
from tidemill.storage.filesystem.objects import bucket, requests
from tidemill.storage.filesystem.objects.bucket import BucketObjects, open_address
from tidemill.storage.filesystem.objects.store_access import StoreAccess, access_from_here, in_environment
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.runs import rows_between
from tidemill.storage.segments import stored_schema, with_epoch

SECRET = "aSecretThatNobodyMayRead"


class Machines:
    """Machines with copies of their own, over the same objects."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.objects = MemoryObjects()
        self._folder = folder
        self._patch = patch

    def on(self, machine: str) -> None:
        """Open what is opened next on a machine."""
        self._patch.setenv("TIDEMILL_CACHE", str(self._folder / machine))
        self._patch.setattr(MemoryObjects, "__reduce__", lambda one: (_same, ()), raising=False)
        _shared[:] = [self.objects]


_shared: list[MemoryObjects] = []


def _same() -> MemoryObjects:
    """Objects in memory as another process would have them: new ones, so that nothing that was opened is used again."""
    return MemoryObjects(_shared[0].contents, requests=_shared[0].requests)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    made = Machines(tmp_path, monkeypatch)
    made.on("driver")
    return made


def rows(first: int, last: int, weight: int = 1) -> pa.Table:
    return with_epoch(to_arrow([((number, "x"), weight) for number in range(first, last)], FIELDS), 1)


def test_a_run_of_another_machine_is_committed_without_being_fetched(machines: Machines) -> None:
    with FolderStore.open(root(machines.objects)) as store:
        shared = store.shared_staging("people")
        assert shared is not None
        sent = pickle.dumps(shared)
        machines.on("worker")
        there = pickle.loads(sent)
        answers = [pickle.dumps(there.write([rows(0, 5)], stored_schema(FIELDS))) for _ in range(2)]
        assert there.write([], stored_schema(FIELDS)) is None
        machines.on("driver")
        machines.objects.requests.clear()
        # The first attempt was lost: only the answer of the second one counts.
        file = shared.file(pickle.loads(answers[1]))
        assert not is_at_hand(file)
        store.commit(Epoch(1, {"people": ChangeSet.of_files([file], FIELDS, 5)}))
        assert not [name for kind, name in machines.objects.requests if kind == "get" and name.endswith("parquet")]
        assert contents(store) == ZSet({(number, "x"): 1 for number in range(5)})
        counts = store.counts("people")
        assert (counts.inserted, counts.updated, counts.deleted, counts.epochs) == (5, 0, 0, 1)
        assert len(store.check().strays) == 1
        assert store.vacuum(keep=1) > 0
        assert store.check().strays == ()
        assert contents(store) == ZSet({(number, "x"): 1 for number in range(5)})


def test_counts_are_those_of_all_weights(machines: Machines) -> None:
    with FolderStore.open(root(machines.objects)) as store:
        shared = store.shared_staging("people")
        assert shared is not None
        parts = [shared.write([table], table.schema) for table in (rows(0, 5), rows(5, 7, -1))]
        files = [shared.file(part) for part in parts if part is not None]
        store.commit(Epoch(1, {"people": ChangeSet.of_files(files, FIELDS, 7)}))
        counts = store.counts("people")
        assert (counts.inserted, counts.updated, counts.deleted, counts.epochs) == (3, 2, 0, 1)


def test_a_file_is_fetched_where_it_is_opened(machines: Machines, tmp_path: Path) -> None:
    with FolderStore.open(root(machines.objects)) as store:
        commit(store, 1, [((number, "x"), 1) for number in range(3)], catalog={"n": 1})
        (run,) = store.runs("people")
        sent = pickle.dumps(run)
        assert b"driver" not in sent
        machines.on("worker")
        there = pickle.loads(sent)
        assert not is_at_hand(there.file)
        assert not machines.objects.requests[-1][1].endswith("parquet")
        assert Path(there.file).is_relative_to(tmp_path / "worker")
        assert there.prefix.is_relative_to(tmp_path / "worker")
        assert is_at_hand(there.file)
        Path(there.file).write_bytes(b"x" * there.bytes)
        assert Path(there.file).read_bytes() == Path(run.file).read_bytes()
        (name,) = [name for name in machines.objects.contents if name.endswith(".parquet")]
        machines.objects.contents[name] = b"x" * there.bytes
        Path(there.file).write_bytes(b"")
        with pytest.raises(Corrupt, match="damaged") as caught:
            os.fspath(there.file)
        assert caught.value.where == f"s3://bucket/shop/{name}"
        del machines.objects.contents[name]
        with pytest.raises(Corrupt, match="missing"):
            os.fspath(there.file)


def test_a_store_that_does_not_answer_is_told(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PAUSES", (0.0,))
    with FolderStore.open(root(machines.objects)) as store:
        commit(store, 1, [((1, "x"), 1)], catalog={"n": 1})
        sent = pickle.dumps(store.runs("people")[0])
        machines.on("worker")
        there = pickle.loads(sent)

        def lose(kind: str, name: str) -> None:
            raise no_answer(name)

        monkeypatch.setattr(there.file.path.system._requests.objects, "before", lose)
        with pytest.raises(StorageError, match="cannot read a run") as caught:
            os.fspath(there.file)
        assert "the request got no answer" in str(caught.value.detail)


def test_two_tasks_that_want_a_copy_fetch_it_once(machines: Machines) -> None:
    with FolderStore.open(root(machines.objects)) as store:
        commit(store, 1, [((1, "x"), 1)], catalog={"n": 1})
        sent = pickle.dumps(store.runs("people")[0])
        machines.on("worker")
        machines.objects.requests.clear()
        there = [pickle.loads(sent) for _ in range(4)]
        with ThreadPool(4) as pool:
            assert len(set(pool.map(os.fspath, [one.file for one in there]))) == 1
        assert [kind for kind, name in machines.objects.requests if name.endswith(".parquet")] == ["get"]


def test_rows_between_places_read_no_other_file(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PARQUET_OPTIONS", {**runs.PARQUET_OPTIONS, "row_group_size": 4})
    with FolderStore.open(root(machines.objects)) as store:
        shared = store.shared_staging("people")
        assert shared is not None
        written = [shared.write([rows(first, first + 10)], stored_schema(FIELDS)) for first in (0, 10, 20)]
        machines.on("worker")
        there = pickle.loads(pickle.dumps([shared.file(run) for run in written if run is not None]))
        for first, last in ((0, 30), (9, 11), (3, 3), (12, 15), (29, 40)):
            found = pa.concat_tables(
                [stored_schema(FIELDS).empty_table(), *rows_between(there, stored_schema(FIELDS), first, last)]
            )
            assert found.column("id").to_pylist() == list(range(first, min(last, 30)))
        machines.on("another")
        far = pickle.loads(pickle.dumps(there))
        list(rows_between(far, stored_schema(FIELDS), 12, 15))
        assert [is_at_hand(file) for file in far] == [False, True, False]


# -- credentials ------------------------------------------------------------------------------------------------------


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("variables")
def test_variables_of_the_store_are_handed_over_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = tmp_path / "key.json"
    key.write_text('{"type": "service_account", "private_key": "x"}')
    given = {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/token",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/here",
        "AZURE_STORAGE_ACCOUNT_KEY": SECRET,
        "GOOGLE_APPLICATION_CREDENTIALS": str(key),
        "DATABASE_PASSWORD": SECRET,
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert access_from_here("s3://b/x").variables == {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": SECRET}
    assert access_from_here("az://b/x").variables == {"AZURE_STORAGE_ACCOUNT_KEY": SECRET}
    assert access_from_here("gs://b/x").variables == {"GOOGLE_SERVICE_ACCOUNT_KEY": key.read_text()}


@pytest.mark.usefixtures("variables")
def test_a_profile_is_handed_over_as_its_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    (tmp_path / "credentials").write_text(f"[shop]\naws_access_key_id = somebody\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "shop")
    found = access_from_here("s3://b/x").variables
    assert found == {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": SECRET}


@pytest.mark.usefixtures("variables")
def test_secrets_are_neither_shown_nor_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    access = StoreAccess("s3://b/secrets", {"AWS_SECRET_ACCESS_KEY": SECRET})
    assert SECRET not in repr(access)
    access.grant()
    with in_environment(access.variables):
        assert os.environ["AWS_SECRET_ACCESS_KEY"] == SECRET
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ
    told = bucket._first_line(ValueError(f"no: {SECRET}\nmore"), "s3://b/secrets")
    assert told == "no: ***"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    objects = open_address("s3://b/shop").system._requests.objects
    sent = pickle.dumps(objects)
    assert SECRET.encode() not in sent
    assert isinstance(pickle.loads(sent), BucketObjects)


def test_a_process_without_obstore_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(SetupError, match="obstore"):
        open_address("s3://bucket/shop")
