"""Code generation: the tools that every emitted function needs, whatever it computes.

- ``layout``: how values and records lie in memory, for LLVM and for NumPy.
- ``control_flow``: variables, loops and functions.
- ``frame``: a function while it is emitted: how it fails, and its text constants.
- ``memory``: allocation that is counted against a budget.
- ``prefetch``: cache lines that are requested before they are needed.
- ``jit``: from IR to code in this process.
- ``code_cache``: compiled code on disk, for this user alone.
"""
