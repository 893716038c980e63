"""The IR of a module as text, in two parts: functions that are optimized, and functions that run seldom.

LLVM spends nearly as long on a function that is marked as not to be optimized as on others, because the registers of a
whole module are allocated by one method. So the functions marked ``COLD`` are a module of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import is_cold

_REFERENCE = re.compile(r'@"[^"]*"')


def exports(module: ir.Module) -> list[str]:
    """The names of the functions and globals that are defined in a module and not internal to it."""
    return [
        value.name
        for value in module.global_values
        if value.linkage != "internal" and not (isinstance(value, ir.Function) and value.is_declaration)
    ]


def split_text(module: ir.Module) -> tuple[str, str]:
    """The text of the functions that are optimized, and of the others, empty if there are none of these.

    Each part declares what it takes from the other. Internal functions that both parts need are hidden from then on.
    """
    functions = [value for value in module.global_values if isinstance(value, ir.Function)]
    globals_ = [value for value in module.global_values if not isinstance(value, ir.Function)]
    cold = [function for function in functions if function.blocks and is_cold(function)]
    hot = [function for function in functions if function.blocks and not is_cold(function)]
    outside = [function for function in functions if not function.blocks]
    if not cold:
        return "\n".join(map(str, chain(globals_, outside, hot, module.metadata))), ""
    bodies = {function.get_reference(): _body(function) for function in chain(hot, cold)}
    called = [set(_references(bodies, part)) for part in (hot, cold)]
    for function in chain(hot, cold):
        if function.linkage == "internal" and function.get_reference() in called[0 if function in cold else 1]:
            function.linkage = "hidden"
    parts = []
    for own, others, names in ((hot, cold, called[0]), (cold, hot, called[1])):
        needed = [_declaration(other) for other in others if other.get_reference() in names]
        known = map(str, globals_) if own is hot else (_external(value) for value in globals_)
        defined = (f"{_prototype(function)}{bodies[function.get_reference()]}" for function in own)
        parts.append("\n".join(chain(known, map(str, outside), needed, defined, map(str, module.metadata))))
    return parts[0], parts[1]


def _references(bodies: dict[str, str], functions: Iterable[ir.Function]) -> Iterator[str]:
    for function in functions:
        yield from _REFERENCE.findall(bodies[function.get_reference()])


def _prototype(function: ir.Function) -> str:
    buffer: list[str] = []
    function.descr_prototype(buffer)
    return "".join(buffer)


def _body(function: ir.Function) -> str:
    buffer = ["{\n"]
    function.descr_body(buffer)
    return "".join([*buffer, "}\n"])


def _declaration(function: ir.Function) -> str:
    arguments = ", ".join(map(str, function.ftype.args))
    return f"declare {function.ftype.return_type} {function.get_reference()}({arguments}) nounwind"


def _external(value: ir.GlobalVariable) -> str:
    return f"{value.get_reference()} = external global {value.value_type}"
