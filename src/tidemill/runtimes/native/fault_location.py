"""Faults in generated code, reported in terms of the view and the row that caused them."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from types import TracebackType

from tidemill.algebra.values.decimals import EXACT
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.python.compile import CompiledStage


class exact_evaluation:
    """Context in which decimals are exact, and a fault names the view and the row."""

    __slots__ = ("_compiled", "_exact")

    def __init__(self, compiled: CompiledStage) -> None:
        self._compiled = compiled
        self._exact = decimal.localcontext(EXACT)

    def __enter__(self) -> None:
        self._exact.__enter__()

    def __exit__(self, _: object, fault: BaseException | None, __: object) -> None:
        self._exact.__exit__(None, None, None)
        if fault is not None and isinstance(fault, ArithmeticFault | ArithmeticError):
            raise locate_fault(fault, self._compiled) from fault


def locate_fault(fault: ArithmeticError | ArithmeticFault, compiled: CompiledStage) -> ArithmeticFault:
    """``fault`` as an error that names the view and the current rows.

    The rows are taken from the frame that failed, so they cost nothing unless something fails.
    """
    if isinstance(fault, ArithmeticFault) and fault.where is not None:
        return fault
    rows = [f"{relation} {row!r}" for relation, row in _rows_at(fault.__traceback__, compiled)]
    where = ", ".join([f'view "{compiled.stage.name.partition("/")[0]}"', *rows])
    if isinstance(fault, ArithmeticFault):
        return ArithmeticFault(fault.what, where=where, detail=fault.detail, hint=fault.hint)
    return ArithmeticFault(f"an expression cannot be computed: {fault}", where=where)


def _rows_at(trace: TracebackType | None, compiled: CompiledStage) -> Iterator[tuple[str, object]]:
    """The current rows of the failing function's loops; inner loops not yet entered still hold an earlier row."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == compiled.file:
            line = trace.tb_lineno - code.co_firstlineno
            for since, relation, variable in compiled.rows.get(code.co_name, ()):
                if since < line:
                    yield relation, trace.tb_frame.f_locals[variable]
        trace = trace.tb_next
