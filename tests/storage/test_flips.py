"""A changed byte in any file is told, or changes no row that is read: never a wrong row, never another exception."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.flipping import LAST, MAPS, TAKEN_IN, Campaign, build, files_of, read
from tests.storage.samples import child_environment, older_record
from tidemill.model.errors import Corrupt, StorageError
from tidemill.storage.commits.commit_mark import read_mark
from tidemill.storage.commits.log import replay
from tidemill.storage.commits.manifest import read_manifest, write_manifest
from tidemill.storage.filesystem.checksums import _compared
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.runs import translate_read_errors

TRIES = 7
"""Flips of each file in the short campaign: its ends, and places between them."""

HEADER = 36
"""How long the header of a record is, with its checksum."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("built")
    build(root)
    return root


@pytest.fixture
def campaign(built: Path, tmp_path: Path) -> Campaign:
    return Campaign(built, tmp_path)


def places(length: int, tries: int) -> list[int]:
    """Places all over a file, both ends among them, and another remainder each time."""
    step = max((length - 1) / max(tries - 1, 1), 1)
    return sorted({min(round(n * step), length - 1) for n in range(tries)})


def test_flips_are_told_or_harmless(campaign: Campaign) -> None:
    for kind, file in list(files_of(campaign.folder)):
        for at in places(file.stat().st_size, TRIES):
            campaign.flip(kind, file, at)
        campaign.flip(kind, file, file.stat().st_size // 3, writing=True)
    assert {kind for kind, _ in campaign.counts} == {"format", "lock", "log", "manifest", "mark", "run"}
    assert campaign.counts["run", "harmless"] == 0
    assert campaign.counts["log", "harmless"] == 0
    assert campaign.counts["manifest", "told"] == 0  # each is there twice


def test_a_manifest_is_damaged_where_both_copies_are(campaign: Campaign) -> None:
    for kind, file in list(files_of(campaign.folder)):
        if kind == "manifest":
            before = file.read_bytes()
            for at in places(len(before) // 2 - 2, TRIES):
                content = bytearray(before)
                content[at] ^= 1
                content[len(before) // 2 + at // 2] ^= 2
                campaign.put(kind, file, bytes(content), before, f"{file.name} at {at} and {at // 2}")
    assert campaign.counts["manifest", "harmless"] == 0
    assert campaign.counts["manifest", "told"] >= 15


def test_a_run_is_compared_before_its_file_is_handed_out(campaign: Campaign) -> None:
    """Spark, and whoever else reads files by name, is given sound ones only."""
    damaged = next(file for kind, file in files_of(campaign.folder) if kind == "run")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    with FolderStore.open(campaign.folder, read_only=True) as store, pytest.raises(Corrupt, match="checksum") as caught:
        [store.runs(name) for name in MAPS]
    assert caught.value.where == str(damaged)


@pytest.mark.parametrize("kind", ["run", "log", "manifest"])
def test_files_that_are_cut_short_or_gone_are_told(campaign: Campaign, kind: str) -> None:
    newest = [file for of, file in files_of(campaign.folder) if of == kind][-1]
    before = newest.read_bytes()
    least = len(before) // 2 if kind == "manifest" else len(before)  # a manifest is there twice
    for length in (0, 1, least // 2, least - 2):
        campaign.put(kind, newest, before[:length], before, f"{newest.name} cut to {length}")
    campaign.put(kind, newest, before[: least - 8] + bytes(8), before, f"{newest.name} ends in zeros")
    assert campaign.counts == {(kind, "told"): 5}
    newest.unlink()
    with pytest.raises(Corrupt, match="is missing"):
        read(campaign.folder)


def test_a_missing_manifest_is_told_by_the_mark_or_by_the_log(campaign: Campaign) -> None:
    manifests = sorted((campaign.folder / "manifests").iterdir())
    manifests[-1].unlink()  # it has merged runs: all epochs are there without it
    with pytest.raises(Corrupt, match=f"What was committed after epoch {LAST} is missing"):
        read(campaign.folder)
    manifests[-2].unlink()
    with pytest.raises(Corrupt, match="Epochs 6 to 9 were acknowledged and are missing"):
        read(campaign.folder)
    (campaign.folder / "acknowledged").unlink()
    with pytest.raises(Corrupt, match="What was committed after epoch 5 is missing"):
        read(campaign.folder)


def test_a_missing_log_is_told_with_its_epochs(campaign: Campaign) -> None:
    [log] = (campaign.folder / "log").iterdir()
    content = log.read_bytes()
    log.unlink()
    with pytest.raises(Corrupt, match=f"Epochs {TAKEN_IN + 1} to {LAST} were acknowledged and are missing") as caught:
        read(campaign.folder)
    assert "tidemill repair" in str(caught.value.hint)
    log.write_bytes(content[: len(content) // 2])
    with pytest.raises(Corrupt, match=f"Epochs {TAKEN_IN + 2} to {LAST} were"):
        FolderStore.open(campaign.folder)


def test_a_manifest_of_another_history_is_found_out(campaign: Campaign) -> None:
    older = sorted((campaign.folder / "manifests").iterdir())[-2]
    sequence = int(older.stem)
    other = replace(read_manifest(older.parent, sequence), positions={"source": "other"})
    older.unlink()
    write_manifest(older.parent, other)
    with pytest.raises(Corrupt, match=f"It is not the one that manifest {sequence + 1} was built on"):
        read(campaign.folder)


def test_too_many_open_files_and_missing_rights_are_no_damage(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run, *_] = [file for kind, file in files_of(campaign.folder) if kind == "run"]
    for number in (errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EIO):
        _compared.clear()
        with monkeypatch.context() as patch:
            patch.setattr("tidemill.storage.filesystem.checksums.checksum", refuse(number))
            with pytest.raises(StorageError, match=os.strerror(number)) as caught:
                read(campaign.folder)
        assert not isinstance(caught.value, Corrupt)
        assert caught.value.where
        with pytest.raises(StorageError, match=os.strerror(number)) as caught, translate_read_errors(run):
            raise OSError(number, os.strerror(number))
        assert not isinstance(caught.value, Corrupt)
    assert read(campaign.folder) == campaign.expected


def refuse(number: int) -> Callable[[Path], int]:
    def refused(file: Path) -> int:
        raise OSError(number, os.strerror(number), str(file))

    return refused


def test_a_process_out_of_files_says_so(campaign: Campaign) -> None:
    said = subprocess.run(
        [sys.executable, "-c", OUT_OF_FILES, str(campaign.folder)],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "StorageError: " in said.stdout, said.stderr
    assert "Too many open files" in said.stdout


OUT_OF_FILES = """
import os, resource, sys
from tests.storage.flipping import MAPS
from tidemill.model.errors import StorageError
from tidemill.storage.folder_store import FolderStore
store = FolderStore.open(sys.argv[1], read_only=True)
store.read("totals", MAPS["totals"])  # whatever has to be imported is
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    store.read("people", MAPS["people"])
except StorageError as told:
    said = f"{type(told).__name__}: {told}"
os.close(held.pop())
print(said)
"""


def test_format_1_is_read_and_brought_along(campaign: Campaign) -> None:
    """A folder of the format before: manifests and records without a chain, no mark."""
    folder, expected = campaign.folder, campaign.expected
    for file in sorted((folder / "manifests").iterdir()):
        body = json.loads(file.read_bytes().partition(b"\n")[0])
        body.pop("previous", None)
        line = json.dumps(body)
        file.write_text(f"{line}\ncrc32 {zlib.crc32(line.encode()):08x}\n")
    [log] = (folder / "log").iterdir()
    records = replay(log).records
    log.write_bytes(b"".join(older_record(b"TdMl", r.epoch, r.changes, r.positions) for r in records))
    (folder / "acknowledged").unlink()
    (folder / "tidemill.json").write_text('{"format": 1}\n')
    with FolderStore.open(folder):
        assert read_mark(folder) is not None
    assert read(folder) == expected


@pytest.mark.long
def test_all_bytes_in_any_order(campaign: Campaign) -> None:
    """Every byte of every file, in random order for as long as there is time; after one in fifty a writer goes on."""
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    bytes_ = [(kind, file, at) for kind, file in files_of(campaign.folder) for at in range(file.stat().st_size)]
    campaign.random.shuffle(bytes_)
    tried = 0
    for number, (kind, file, at) in enumerate(bytes_):
        if time.monotonic() > until:
            break
        campaign.flip(kind, file, at, writing=number % 50 == 0)
        tried += 1
    print(f"\n{tried:,} of {len(bytes_):,} bytes changed, one at a time\n{campaign}")
    assert campaign.counts["run", "harmless"] == 0
    assert campaign.counts["log", "harmless"] == 0
