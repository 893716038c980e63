"""Records of a map as items of ordered groups."""

from __future__ import annotations

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue
from tidemill.runtimes.native.llvm.codegen.layout import MapRecord
from tidemill.runtimes.native.llvm.containers.btree_nodes import NodeSums
from tidemill.runtimes.native.llvm.containers.sort_keys import to_sort_key
from tidemill.runtimes.native.llvm.maps.ring_values import RingCode


class RecordItems:
    """Records as items of groups, by the cells of their key column at ``place``."""

    def __init__(self, symbol: str, record: MapRecord, rings: RingCode, place: int) -> None:
        self.name = symbol
        self.size = record.size
        self._record, self._rings, self._column = record, rings, f"key{place}"

    def key(self, builder: ir.IRBuilder, item: IRValue) -> IRValue:
        """The key of a record among those with its prefix."""
        return to_sort_key(builder, self._record.load(builder, item, self._column))

    def sums(self, builder: ir.IRBuilder, item: IRValue) -> NodeSums:
        """The numbers of a record."""
        numbers = self._rings.load(builder, item)
        return NodeSums(numbers.weight, numbers.integers())
