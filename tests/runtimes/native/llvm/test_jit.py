"""Code on disk: used again, never trusted blindly, never without bound."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen import code_cache, jit, object_code
from tidemill.runtimes.native.llvm.codegen.control_flow import define, number
from tidemill.runtimes.native.llvm.codegen.layout import I64
from tidemill.runtimes.native.llvm.codegen.module_text import split_text


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code_cache._key.cache_clear()
    return tmp_path / "tidemill"


def plus(addend: int) -> ir.Module:
    module = ir.Module("plus")
    inner = define(module, "inner", I64, [I64], lambda b, a: b.ret(b.add(a[0], number(addend))))
    define(module, "plus", I64, [I64], lambda b, a: b.ret(b.call(inner, [a[0]])), exported=True)
    return module


def call(library: jit.Library, argument: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("plus"))(argument))


def test_the_second_time_nothing_is_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(jit.load(plus(3)), 4) == 7
    assert [file.suffix for file in sorted(cache.iterdir())] == [".o", ""]
    monkeypatch.setattr(object_code, "compile_ir", lambda text, level: pytest.fail("compiled again"))
    assert call(jit.load(plus(3)), 5) == 8


def test_other_code_has_another_file(cache: Path) -> None:
    assert call(jit.load(plus(3)), 1) == 4
    assert call(jit.load(plus(30)), 1) == 31
    assert len(list(cache.glob("*.o"))) == 2


@pytest.mark.parametrize("damage", [b"", b"garbage", "cut", "flipped"])
def test_damaged_files_are_written_anew(cache: Path, damage: bytes | str) -> None:
    jit.load(plus(3))
    (file,) = cache.glob("*.o")
    good = file.read_bytes()
    flipped = bytes([*good[:200], good[200] ^ 1, *good[201:]])
    file.write_bytes(
        {"cut": good[:-10], "flipped": flipped}.get(str(damage), damage if isinstance(damage, bytes) else b"")
    )
    assert call(jit.load(plus(3)), 4) == 7
    assert file.read_bytes() == good


def test_a_folder_that_cannot_be_written_is_only_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert call(jit.load(plus(5)), 1) == 6


def test_what_was_not_used_for_longest_makes_room(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for addend in range(4):
        jit.load(plus(addend))
    sizes = [file.stat().st_size for file in cache.glob("*.o")]
    for file in cache.glob("*.o"):
        os.utime(file, (1, 1))
    monkeypatch.setattr(code_cache, "CACHE_BYTES", 3 * max(sizes))
    monkeypatch.setattr(code_cache, "PRUNED_AFTER", 1)
    jit.load(plus(0))  # used again, so it stays
    jit.load(plus(9))
    assert sum(file.stat().st_size for file in cache.glob("*.o")) <= 3 * max(sizes) + max(sizes)
    monkeypatch.setattr(object_code, "compile_ir", lambda text, level: pytest.fail("compiled again"))
    assert call(jit.load(plus(0)), 1) == 1
    assert call(jit.load(plus(9)), 1) == 10


def is_private(path: Path) -> bool:
    return not path.lstat().st_mode & 0o077 and path.lstat().st_uid == os.geteuid()


def test_nobody_else_can_read_or_write_it(cache: Path) -> None:
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)  # as an older version may have made it
    jit.load(plus(3))
    assert all(map(is_private, (cache, *cache.iterdir())))
    assert len((cache / "key").read_bytes()) == 32


def forged(addend: int, key: bytes = b"") -> tuple[str, bytes]:
    """The name of the file for ``plus(3)``, with other code in it that somebody sealed as well as they could."""
    name = object_code.cache_file(split_text(plus(3))[0], jit.LEVEL).stem
    code = object_code.compile_ir(split_text(plus(addend))[0], jit.LEVEL)
    seal = hmac.new(key, name.encode() + b"\n" + code, "sha256").digest() if key else hashlib.sha256(code).digest()
    return f"{name}.o", code_cache._HEADER + seal + code


def linked(cache: Path) -> None:
    """The code lies elsewhere, sealed as it should be."""
    (file,) = cache.glob("*.o")
    shutil.move(file, cache.parent / file.name)
    file.symlink_to(cache.parent / file.name)


TAMPERED: dict[str, Callable[[Path], object]] = {
    "without the key": lambda cache: (cache / forged(30)[0]).write_bytes(forged(30)[1]),
    "with another key": lambda cache: (cache / forged(30, b"x" * 32)[0]).write_bytes(forged(30, b"x" * 32)[1]),
    "under another name": lambda cache: renamed(cache),
    "open to others": lambda cache: next(cache.glob("*.o")).chmod(0o644),
    "behind a link": linked,
    "with a key that others can read": lambda cache: (cache / "key").chmod(0o644),
    "with a key that is cut": lambda cache: (cache / "key").write_bytes(b"short"),
    "in a folder that others can write": lambda cache: cache.chmod(0o770),
}


def renamed(cache: Path) -> None:
    """Code of another program, sealed for that."""
    (file,) = cache.glob("*.o")
    name = file.name
    file.unlink()
    jit.load(plus(30))
    (other,) = cache.glob("*.o")
    other.rename(cache / name)


@pytest.mark.parametrize("how", TAMPERED)
def test_code_that_was_tampered_with_is_not_loaded(cache: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jit.load(plus(3))
    TAMPERED[how](cache)
    code_cache._key.cache_clear()
    compiled: list[str] = []
    compile_ir = object_code.compile_ir
    monkeypatch.setattr(object_code, "compile_ir", lambda text, level: compiled.append(text) or compile_ir(text, level))
    assert call(jit.load(plus(3)), 4) == 7
    assert len(compiled) == 1
    monkeypatch.setattr(object_code, "compile_ir", lambda text, level: pytest.fail("not mended"))
    assert call(jit.load(plus(3)), 4) == 7
    assert all(map(is_private, (cache, *cache.iterdir())))
    assert all(stat.S_ISREG(file.lstat().st_mode) for file in cache.iterdir())


def test_what_belongs_to_another_user_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jit.load(plus(3))
    before = {file: file.read_bytes() for file in cache.iterdir()}
    code_cache._key.cache_clear()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert call(jit.load(plus(3)), 4) == 7
    assert {file: file.read_bytes() for file in cache.iterdir()} == before


def test_a_folder_behind_a_link_is_not_used(cache: Path) -> None:
    (cache.parent / "elsewhere").mkdir(mode=0o700)
    cache.symlink_to(cache.parent / "elsewhere")
    assert call(jit.load(plus(3)), 4) == 7
    assert list((cache.parent / "elsewhere").iterdir()) == []


def test_processes_that_begin_together_have_one_key(cache: Path) -> None:
    cache.mkdir(mode=0o700)
    keys: list[bytes] = []
    threads = [threading.Thread(target=lambda: keys.append(code_cache._key.__wrapped__(cache))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keys == [(cache / "key").read_bytes()] * 8


@pytest.mark.skipif(sys.platform != "linux", reason="how memory is given out is that of Linux")
def test_a_process_with_scattered_memory_can_link(cache: Path) -> None:
    command = [sys.executable, "-m", "tests.runtimes.native.llvm.scattered_maps"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[42, 42, 42, 42, 42]\n", done.stderr
