"""Functions that many modules call, such as those of all maps of one shape: emitted and compiled once.

The name of shared code says all that it depends on. A module that calls one of its functions declares it, and is linked
against the library of the shared code when it is loaded (``jit.load``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import EmitBody, define, external

_emitting: WeakKeyDictionary[ir.Module, SharedCode] = WeakKeyDictionary()
"""The shared code that a module holds."""

_needed: WeakKeyDictionary[ir.Module, dict[SharedCode, set[str]]] = WeakKeyDictionary()
"""The shared code that a module is linked against, and the functions that it calls."""


class CodeHome(Protocol):
    """The place where functions are defined: shared code, or the module that calls them."""

    def function(
        self,
        caller: ir.Module,
        name: str,
        result: ir.Type,
        arguments: Sequence[ir.Type],
        body: EmitBody,
        *attributes: str,
    ) -> ir.Function:
        """The function called ``name``, for calls from ``caller``."""


class OwnCode:
    """Functions that each module has for itself."""

    def function(
        self,
        caller: ir.Module,
        name: str,
        result: ir.Type,
        arguments: Sequence[ir.Type],
        body: EmitBody,
        *attributes: str,
    ) -> ir.Function:
        """Defined in ``caller``, whose body ``body`` emits when it is first asked for."""
        return define(caller, name, result, arguments, body, *attributes)


@dataclass(frozen=True)
class SharedCode:
    """The functions that ``emit`` defines in a module. Two with the same name are the same."""

    name: str
    emit: Callable[[ir.Module], object] = field(compare=False)

    def function(
        self,
        caller: ir.Module,
        name: str,
        result: ir.Type,
        arguments: Sequence[ir.Type],
        body: EmitBody,
        *attributes: str,
    ) -> ir.Function:
        """Declared in ``caller``, or defined there if that is the module of this code: ``emit`` must ask for it."""
        if _emitting.get(caller) == self:
            return define(caller, name, result, arguments, body, *attributes, exported=True)
        if name not in caller.globals:
            self.link_to(caller).add(name)
        return external(caller, name, result, arguments)

    def link_to(self, caller: ir.Module) -> set[str]:
        """Note that ``caller`` is linked against this code; returns the names of the functions that it calls."""
        return _needed.setdefault(caller, {}).setdefault(self, set())

    def module(self) -> ir.Module:
        """A new module with all functions."""
        module = ir.Module(self.name)
        _emitting[module] = self
        self.emit(module)
        return module


def needed_by(module: ir.Module) -> dict[SharedCode, set[str]]:
    """The shared code that a module is linked against, and the functions that it calls."""
    return _needed.get(module, {})
