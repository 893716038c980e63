"""Rows that a stage computes from values at hand, as code: what its emission says of them goes to its output."""

from __future__ import annotations

from tidemill.program.stages import PartitionEmission
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame
from tidemill.runtimes.native.llvm.io.output_code import OutputGlobal
from tidemill.runtimes.native.llvm.scalars.conversions import as_key, to_stored
from tidemill.runtimes.native.llvm.scalars.exact_numbers import out_of_range
from tidemill.runtimes.native.llvm.scalars.expressions import Bindings, LlvmExpressions


def post_row(
    frame: FunctionFrame, finish: PartitionEmission, output: OutputGlobal, cells: Bindings, weight: IRValue
) -> None:
    """Emit the rest of a function: post the row of these columns with a weight, if it passes the condition."""
    builder, expressions = frame.builder, LlvmExpressions(frame, cells)
    if finish.condition is not None:
        with builder.if_then(builder.not_(expressions.holds(finish.condition))):
            frame.done()
    posted = []
    for field, shown in zip(output.code.fields, finish.outputs, strict=True):
        narrow, misfit = as_key(builder, expressions.cell(shown.scalar), shown.scalar.type, field.type)
        if misfit is not None:
            frame.refuse(misfit, out_of_range(field.type))
        posted.append(to_stored(builder, narrow, field.type))
    output.code.add(builder, output.handle(builder), posted, weight)
    frame.done()
