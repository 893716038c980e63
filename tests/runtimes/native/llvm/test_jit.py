"""Code on disk: used again, never trusted blindly, never without bound."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from llvmlite import ir

from tidemill.runtimes.native.llvm import jit
from tidemill.runtimes.native.llvm.blocks import define, number
from tidemill.runtimes.native.llvm.layout import I64


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
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
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(jit, "compile_ir", lambda text: pytest.fail("compiled again"))
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
    monkeypatch.setattr(jit, "CACHE_BYTES", 3 * max(sizes))
    monkeypatch.setattr(jit, "PRUNED_AFTER", 1)
    jit.load(plus(0))  # used again, so it stays
    jit.load(plus(9))
    assert sum(file.stat().st_size for file in cache.glob("*.o")) <= 3 * max(sizes) + max(sizes)
    monkeypatch.setattr(jit, "compile_ir", lambda text: pytest.fail("compiled again"))
    assert call(jit.load(plus(0)), 1) == 1
    assert call(jit.load(plus(9)), 1) == 10
