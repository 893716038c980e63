"""From the text of IR to object code for this machine, kept on disk by a hash of what it was made from.

Compiling takes tenths of a second and the code of a view rarely changes. So object code lies in the user's cache folder
(``code_cache``), named by the text of the IR, the version of LLVM and the machine.

LLVM's own list of passes goes over every function a dozen times. What emitted code needs is less: its variables are
made registers, short functions are inlined, what is computed twice is computed once, and branches are simplified. That
takes a sixth of the time, for code that is as fast or a few percent slower.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding

from tidemill.runtimes.native.llvm.codegen.code_cache import cache_folder, read_code, write_code

PASSES = (
    *("sroa", "simplify_cfg", "always_inliner", "global_dead_code_eliminate"),
    *("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_store_elimination", "simplify_cfg"),
)
"""The passes over functions that are optimized, in order."""

_OPTIONS: dict[str, Any] = {"reloc": "pic", "codemodel": "small"}


def cached_code(text: str, level: int) -> bytes:
    """The object code of a text, from the cache if it is there."""
    code = read_code(cache_file(text, level))
    return compiled_code(text, level) if code is None else code


def compiled_code(text: str, level: int) -> bytes:
    """The object code of a text, compiled now and put into the cache."""
    code = compile_ir(text, level)
    write_code(cache_file(text, level), code)
    return code


def compile_ir(text: str, level: int) -> bytes:
    """Object code for this machine; nothing is optimized at level 0."""
    machine = machine_of(level)
    parsed = binding.parse_assembly(text)
    parsed.triple, parsed.data_layout = machine.triple, str(machine.target_data)
    if level:
        passes = binding.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        options = binding.create_pipeline_tuning_options(speed_level=level)
        passes.run(parsed, binding.create_pass_builder(machine, options))
    return bytes(machine.emit_object(parsed))


@cache
def machine_of(level: int) -> Any:
    """This machine as LLVM's target, for code of that level of optimization."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    features = binding.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=level, **_OPTIONS)


def cache_file(source: str, level: int) -> Path:
    """The file of the cache for what is compiled from ``source``."""
    machine = (binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), binding.get_default_triple())
    made_by = (llvmlite.__version__, binding.llvm_version_info, *machine, level, PASSES, _OPTIONS)
    name = hashlib.sha256(f"{made_by}\n{source}".encode()).hexdigest()
    return cache_folder() / f"{name}.o"
