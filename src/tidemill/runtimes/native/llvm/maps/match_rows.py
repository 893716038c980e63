"""The rows of each partition of a map in the order of a pattern, with the search for matches beside them.

The search of a partition is about its rows as they are. While an epoch is recorded it is told what has changed. When a
state is restored or undone it is not, so the search is forgotten and found anew when its partition is next touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue
from tidemill.runtimes.native.llvm.codegen.layout import NULL_POINTER
from tidemill.runtimes.native.llvm.codegen.memory import fill
from tidemill.runtimes.native.llvm.maps.window_rows import WindowRowsCode

HEADER_BYTES = 16
"""Bytes that say whether there is a search."""


class MatchRowsCode(WindowRowsCode):
    """The ordered rows of a map, with ``order.beside`` bytes beside those of each partition.

    These begin with ``HEADER_BYTES``, which are zeros where the search is forgotten.
    """

    def search(self, builder: ir.IRBuilder, group: IRValue) -> IRValue:
        """The bytes beside the rows of a partition."""
        return self.groups.beside(builder, group)

    def _moved_unnoted(self, builder: ir.IRBuilder, handle: IRValue, prefix: Sequence[IRValue]) -> None:
        group = self.groups.find(builder, self.own(builder, handle), prefix)
        with builder.if_then(builder.icmp_unsigned("!=", group, NULL_POINTER)):
            fill(builder, self.search(builder, group), 0, HEADER_BYTES)
