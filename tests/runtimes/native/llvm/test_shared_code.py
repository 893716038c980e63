"""Shared code: emitted and compiled once, called from many modules, and found on disk by its name."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen import code_cache, jit
from tidemill.runtimes.native.llvm.codegen.control_flow import COLD, define, number
from tidemill.runtimes.native.llvm.codegen.layout import I64
from tidemill.runtimes.native.llvm.codegen.module_text import exports, split_text
from tidemill.runtimes.native.llvm.codegen.shared_code import SharedCode

Emitted = list[str]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and a process in which nothing is loaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code_cache._key.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "_shared", type(jit._shared)())
        yield tmp_path / "tidemill"


class Steps:
    """Shared code whose functions add 1, or add 1 twice by calling other shared code."""

    def __init__(self) -> None:
        self.emitted: Emitted = []
        self._one = SharedCode("one", self._emits("one", self._plus_one))
        self._two = SharedCode("two", self._emits("two", self._plus_two))

    def _emits(self, name: str, function: Callable[[ir.Module], ir.Function]) -> Callable[[ir.Module], None]:
        def emit(module: ir.Module) -> None:
            self.emitted.append(name)
            function(module)

        return emit

    def _plus_one(self, module: ir.Module) -> ir.Function:
        return self._one.function(module, "plus one", I64, [I64], lambda b, a: b.ret(b.add(a[0], number(1))))

    def _plus_two(self, module: ir.Module) -> ir.Function:
        def body(builder: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
            one = self._plus_one(builder.module)
            builder.ret(builder.call(one, [builder.call(one, arguments)]))

        return self._two.function(module, "plus two", I64, [I64], body, *COLD)

    def caller(self, factor: int) -> ir.Module:
        """A module with a function that adds 2, then multiplies."""
        module = ir.Module("caller")
        two = self._plus_two(module)
        define(
            module,
            "compute",
            I64,
            [I64],
            lambda b, a: b.ret(b.mul(b.call(two, [a[0]]), number(factor))),
            exported=True,
        )
        return module


def compute(module: ir.Module, argument: int) -> int:
    library = jit.load(module)
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("compute"))(argument))


def restart() -> None:
    """Forget what is loaded, as a new process would."""
    jit._shared.clear()


def test_many_modules_call_what_was_compiled_once(cache: Path) -> None:
    steps = Steps()
    assert [compute(steps.caller(factor), 3) for factor in (1, 10, 100)] == [5, 50, 500]
    assert steps.emitted == ["two", "one"]


def test_another_process_emits_nothing(cache: Path) -> None:
    compute(Steps().caller(10), 3)
    restart()
    steps = Steps()
    assert compute(steps.caller(10), 3) == 50
    assert steps.emitted == []


def test_functions_are_found_through_the_module_that_is_linked_against_them(cache: Path) -> None:
    library = jit.load(Steps().caller(10))
    assert library.address("plus two") != library.address("compute")


@pytest.mark.parametrize("damage", [b"", b"garbage"])
def test_what_cannot_be_read_is_compiled_again(cache: Path, damage: bytes) -> None:
    compute(Steps().caller(10), 3)
    for file in cache.glob("*.o"):
        file.write_bytes(damage)
    restart()
    steps = Steps()
    assert compute(steps.caller(10), 3) == 50
    assert steps.emitted == ["two", "one"]


def test_code_whose_callees_are_gone_is_compiled_again(cache: Path) -> None:
    steps = Steps()
    module = ir.Module("one alone")
    define(module, "compute", I64, [I64], lambda b, a: b.ret(b.call(steps._plus_one(module), a)), exported=True)
    compute(module, 3)
    (file, *_) = [file for file in cache.glob("*.o") if b"plus one" in file.read_bytes()[:200]]
    compute(steps.caller(10), 3)
    file.unlink()
    restart()
    again = Steps()
    assert compute(again.caller(10), 3) == 50
    assert again.emitted == ["two", "one"]


def test_code_of_another_level_is_other_code(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()
    compute(steps.caller(10), 3)
    monkeypatch.setattr(jit, "LEVEL", 0)
    assert compute(steps.caller(10), 3) == 50
    assert steps.emitted == ["two", "one"] * 2


def test_functions_that_run_seldom_are_a_text_of_their_own() -> None:
    module = ir.Module("parts")
    often = define(module, "often", I64, [I64], lambda b, a: b.ret(b.add(a[0], number(1))))
    seldom = define(module, "seldom", I64, [I64], lambda b, a: b.ret(b.call(often, a)), *COLD)
    define(module, "both", I64, [I64], lambda b, a: b.ret(b.call(seldom, a)), exported=True)
    assert exports(module) == ["both"]
    hot, cold = split_text(module)
    assert 'define hidden i64 @"often"' in hot and 'declare i64 @"seldom"' in hot
    assert 'declare i64 @"often"' in cold and 'define hidden i64 @"seldom"' in cold
    assert '"both"' not in cold
