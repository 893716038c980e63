"""From IR to code for this machine, kept on disk by a hash of what it was made from.

Compiling takes a few tenths of a second and the code of a view rarely changes. So object code lies in the user's cache
folder (``code_cache``), named by the text of the IR, the version of LLVM and the machine.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import llvmlite
from llvmlite import binding, ir

from tidemill.runtimes.native.llvm.codegen.code_cache import cache_folder, read_code, write_code

LEVEL = 2
"""Optimization level of LLVM: 0 compiles in a third of the time, to code that takes several times as long to run."""

_OPTIONS: dict[str, Any] = {"reloc": "pic", "codemodel": "small"}
_libraries = itertools.count()
_loaded: WeakKeyDictionary[ir.Module, tuple[bytes, list[str]]] = WeakKeyDictionary()
"""The code of modules that were loaded before, and what can be asked for in it."""


class Library:
    """A loaded module; it stays loaded as long as this object lives."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def address(self, name: str) -> int:
        """The address of an exported function or global of the module."""
        return int(self._tracker[name])


def load(module: ir.Module) -> Library:
    """Compile a module, or take its code from the cache, and link it into this process.

    Everything that is defined in the module and not internal to it can be asked for. The module can be loaded again,
    but is a shell from now on: its instructions are tens of thousands of objects, which are not needed any more.
    """
    if module in _loaded:
        return _link(*_loaded[module])
    text, exports = str(module), _exports(module)
    code, library = _made(text, exports)
    _loaded[module] = code, exports
    for function in module.functions:
        function.blocks.clear()
    return library


def _made(text: str, exports: Sequence[str]) -> tuple[bytes, Library]:
    """The code of a module, from the cache if there is some that can be linked, and the library that it makes."""
    file = cache_folder() / f"{_fingerprint(text)}.o"
    code = read_code(file)
    if code is not None:
        with suppress(RuntimeError):
            return code, _link(code, exports)
    code = compile_ir(text)
    write_code(file, code)
    return code, _link(code, exports)


def compile_ir(text: str) -> bytes:
    """Optimized object code for this machine."""
    machine = _machine(LEVEL)
    parsed = binding.parse_assembly(text)
    parsed.triple, parsed.data_layout = machine.triple, str(machine.target_data)
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=LEVEL))
    passes.getModulePassManager().run(parsed, passes)
    return bytes(machine.emit_object(parsed))


def _exports(module: ir.Module) -> list[str]:
    return [
        value.name
        for value in module.global_values
        if value.linkage != "internal" and not (isinstance(value, ir.Function) and value.is_declaration)
    ]


def _link(code: bytes, exports: Sequence[str]) -> Library:
    builder = binding.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in exports:
        builder.export_symbol(name)
    return Library(builder.link(_linker(), f"tidemill.{next(_libraries)}"))


@cache
def _machine(level: int) -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    features = binding.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=level, **_OPTIONS)


@lru_cache(maxsize=1)
def _linker() -> Any:
    return binding.create_lljit_compiler(_machine(LEVEL))


def _fingerprint(text: str) -> str:
    machine = (binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), binding.get_default_triple())
    made_by = (llvmlite.__version__, binding.llvm_version_info, *machine, LEVEL, _OPTIONS)
    return hashlib.sha256(f"{made_by}\n{text}".encode()).hexdigest()
