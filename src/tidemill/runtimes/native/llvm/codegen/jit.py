"""From IR to code for this machine, kept on disk by a hash of what it was made from.

Compiling takes tenths of a second and the code of a view rarely changes. So object code lies in the user's cache folder
(``code_cache``), named by the text of the IR, the version of LLVM and the machine.

LLVM's own list of passes goes over every function a dozen times. What emitted code needs is less: its variables are
made registers, short functions are inlined, what is computed twice is computed once, and branches are simplified. That
takes a sixth of the time, and the code is as fast to within the differences between two runs.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import llvmlite
from llvmlite import binding, ir

from tidemill.runtimes.native.llvm.codegen.code_cache import cache_folder, read_code, write_code
from tidemill.runtimes.native.llvm.codegen.module_text import exports, split_text

LEVEL = 2
"""Optimization level of LLVM: 0 compiles in a fifth of the time, to code that takes several times as long to run."""

PASSES = (
    *("sroa", "simplify_cfg", "always_inliner", "global_dead_code_eliminate"),
    *("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_store_elimination", "simplify_cfg"),
)
"""The passes over functions that are optimized, in order."""

_OPTIONS: dict[str, Any] = {"reloc": "pic", "codemodel": "small"}
_libraries = itertools.count()
_loaded: WeakKeyDictionary[ir.Module, tuple[list[bytes], list[str]]] = WeakKeyDictionary()
"""The object code of modules that were loaded before, and what can be asked for in it."""


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
    names = exports(module)
    hot, cold = split_text(module)
    parts = [(hot, LEVEL), *([(cold, 0)] if cold else [])]
    try:
        code = [_cached(*part) for part in parts]
        library = _link(code, names)
    except RuntimeError:  # code in the cache that cannot be linked
        code = [_compiled(*part) for part in parts]
        library = _link(code, names)
    _loaded[module] = code, names
    for function in module.functions:
        function.blocks.clear()
    return library


def _cached(text: str, level: int) -> bytes:
    """The object code of a text, from the cache if it is there."""
    code = read_code(_file(text, level))
    return _compiled(text, level) if code is None else code


def _compiled(text: str, level: int) -> bytes:
    code = compile_ir(text, level)
    write_code(_file(text, level), code)
    return code


def compile_ir(text: str, level: int) -> bytes:
    """Object code for this machine; nothing is optimized at level 0."""
    machine = _machine(level)
    parsed = binding.parse_assembly(text)
    parsed.triple, parsed.data_layout = machine.triple, str(machine.target_data)
    if level:
        passes = binding.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        options = binding.create_pipeline_tuning_options(speed_level=level)
        passes.run(parsed, binding.create_pass_builder(machine, options))
    return bytes(machine.emit_object(parsed))


def _link(code: Sequence[bytes], names: Sequence[str]) -> Library:
    builder = binding.JITLibraryBuilder().add_current_process()
    for part in code:
        builder.add_object_img(part)
    for name in names:
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


def _file(text: str, level: int) -> Path:
    """The file of the cache for the code of a text."""
    return cache_folder() / f"{_fingerprint(text, level)}.o"


def _fingerprint(text: str, level: int) -> str:
    machine = (binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), binding.get_default_triple())
    made_by = (llvmlite.__version__, binding.llvm_version_info, *machine, level, PASSES, _OPTIONS)
    return hashlib.sha256(f"{made_by}\n{text}".encode()).hexdigest()
