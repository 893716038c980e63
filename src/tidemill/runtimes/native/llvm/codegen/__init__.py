"""Code generation: the tools that every emitted function needs, whatever it computes.

- ``layout``: how values and records lie in memory, for LLVM and for NumPy.
- ``control_flow``: variables, loops and functions.
- ``frame``: a function while it is emitted: how it fails, and its text constants.
- ``memory``: allocation that is counted against a budget.
- ``prefetch``: cache lines that are requested before they are needed.
- ``shared_code``: functions that many modules call, emitted once.
- ``module_text``: the IR of a module as text: functions to be optimized, and functions that run seldom.
- ``object_code``: from that text to code for this machine.
- ``shared_library``: compiled shared code on disk, by its name.
- ``code_cache``: files of compiled code, for this user alone.
- ``jit``: modules linked into this process, against the shared code that they call.
"""
