"""Modules linked into this process, each against the shared code that it calls."""

from __future__ import annotations

import ctypes
import itertools
from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import binding, ir

from tidemill.runtimes.native.llvm.codegen.module_text import exports, split_text
from tidemill.runtimes.native.llvm.codegen.object_code import cached_code, compile_ir, compiled_code, machine_of
from tidemill.runtimes.native.llvm.codegen.shared_code import SharedCode, needed_by
from tidemill.runtimes.native.llvm.codegen.shared_library import LibraryCode, read_library, write_library

LEVEL = 2
"""Optimization level of LLVM: 0 compiles in a fifth of the time, to code that takes several times as long to run."""

SHARED_LIBRARIES = 512
"""Libraries of shared code that stay loaded though no module needs them at present."""

_libraries = itertools.count()
_loaded: WeakKeyDictionary[ir.Module, LibraryCode] = WeakKeyDictionary()
"""The code of modules that were loaded before."""

_shared: OrderedDict[tuple[str, int], Library] = OrderedDict()
"""Libraries of shared code by name and level of optimization, those last that were last used."""


class Library:
    """A loaded module; it and the shared code that it calls stay loaded as long as this object lives."""

    def __init__(self, tracker: Any, names: Collection[str], shared: Collection[Library]) -> None:
        self._tracker, self._shared = tracker, shared
        self._names = frozenset(names)

    def address(self, name: str) -> int:
        """The address of an exported function or global of the module, or of the shared code that it calls."""
        if name in self._names:
            return int(self._tracker[name])
        return next(library for library in self._shared if name in library).address(name)

    def function(self, name: str, result: Any, *arguments: Any, brief: bool = False) -> Any:
        """An exported function as Python calls it, with the types of its result and arguments.

        Without types it takes ``ctypes`` values, which need not be converted: that takes longer than a brief call.
        A ``brief`` one keeps the interpreter's lock. Others let threads run meanwhile; for a call of microseconds that
        is a loss, since a thread that waits takes the lock and this one has to wait for it in turn.
        """
        kind = ctypes.PYFUNCTYPE if brief else ctypes.CFUNCTYPE
        return kind(result, *arguments)(self.address(name))

    def __contains__(self, name: str) -> bool:
        return name in self._names


def load(module: ir.Module) -> Library:
    """Compile a module, or take its code from the cache, and link it into this process.

    Everything that is defined in the module and not internal to it can be asked for. The module can be loaded again,
    but is a shell from now on: its instructions are tens of thousands of objects, which are not needed any more.
    """
    shared = _shared_libraries(module)
    if module in _loaded:
        return _link(_loaded[module], shared)
    names, parts = exports(module), _parts(module)
    try:
        code = LibraryCode([cached_code(*part) for part in parts], names, _calls(module))
        library = _link(code, shared)
    except RuntimeError:  # code in the cache that cannot be linked
        code = LibraryCode([compiled_code(*part) for part in parts], names, _calls(module))
        library = _link(code, shared)
    _loaded[module] = code
    for function in module.functions:
        _release_instructions(function)
    return library


def _release_instructions(function: ir.Function) -> None:
    """Empty a function. Blocks and their instructions refer to each other: left so, they would be freed by the garbage
    collector alone, which takes as long for them as to write their text."""
    for block in function.blocks:
        block.instructions.clear()
        block.terminator = None
    function.blocks.clear()


def _parts(module: ir.Module) -> list[tuple[str, int]]:
    """The text of a module, in parts with the level at which they are optimized."""
    hot, cold = split_text(module)
    return [(hot, LEVEL), (cold, 0)] if cold else [(hot, LEVEL)]


def _calls(module: ir.Module) -> dict[str, list[str]]:
    return {code.name: sorted(called) for code, called in needed_by(module).items()}


def _shared_libraries(module: ir.Module) -> dict[str, Library]:
    """The shared code that a module calls."""
    return {code.name: _shared_library(code) for code in needed_by(module)}


def _shared_library(code: SharedCode) -> Library:
    """Shared code, loaded once in a process, and emitted only if no process has compiled it before."""
    library = _stored_library(code.name)
    if library is not None:
        return library
    module = code.module()
    names, shared = exports(module), _shared_libraries(module)
    made = LibraryCode([compile_ir(*part) for part in _parts(module)], names, _calls(module))
    write_library(code.name, LEVEL, made)
    return _kept(code.name, _link(made, shared))


def _stored_library(name: str) -> Library | None:
    """Shared code that is loaded, or can be loaded from the cache with all other shared code that it calls."""
    if (name, LEVEL) in _shared:
        return _kept(name, _shared[name, LEVEL])
    code = read_library(name, LEVEL)
    if code is None:
        return None
    shared = {}
    for needed in code.calls:
        library = _stored_library(needed)
        if library is None:
            return None
        shared[needed] = library
    try:
        return _kept(name, _link(code, shared))
    except RuntimeError:  # code in the cache that cannot be linked
        return None


def _kept(name: str, library: Library) -> Library:
    _shared[name, LEVEL] = library
    _shared.move_to_end((name, LEVEL))
    if len(_shared) > SHARED_LIBRARIES:
        _shared.popitem(last=False)
    return library


def _link(code: LibraryCode, shared: Mapping[str, Library]) -> Library:
    """A library of ``code`` and of the ``shared`` code that it calls."""
    builder = binding.JITLibraryBuilder().add_current_process()
    for part in code.objects:
        builder.add_object_img(part)
    for name, called in code.calls.items():
        for function in called:
            builder.import_symbol(function, shared[name].address(function))
    for name in code.names:
        builder.export_symbol(name)
    return Library(builder.link(_linker(), f"tidemill.{next(_libraries)}"), code.names, tuple(shared.values()))


@lru_cache(maxsize=1)
def _linker() -> Any:
    """The linker of modules: JITLink, which gives each module one piece of memory.

    LLVM's older linker maps the sections of a module one by one. In a process with little free space between its large
    maps they come to lie more than 2 GB apart, which code of the small model cannot span: it ends the process.
    """
    return binding.create_lljit_compiler(machine_of(LEVEL), use_jit_link=True)
