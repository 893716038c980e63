"""The module of a stage, with the maps, inputs and outputs that the runtime addresses in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from tidemill.model.types import Field
from tidemill.program.stages import Stage
from tidemill.program.statements import Replace, Touched, Trigger
from tidemill.runtimes.native.llvm.codegen.frame import FaultTable, PythonCalls, TextConstants
from tidemill.runtimes.native.llvm.io.input_rows import InputRecord
from tidemill.runtimes.native.llvm.io.output_code import OutputGlobal
from tidemill.runtimes.native.llvm.maps.table_reader import IndexColumns, TableGlobal
from tidemill.runtimes.native.llvm.queries import MapGlobal
from tidemill.runtimes.native.llvm.stage.emit_time_partitions import PartitionCode


@dataclass(frozen=True, slots=True)
class StageInput:
    """An input of a stage: which of its columns are used, and the form of a packed row."""

    relation: str
    number: int
    record: InputRecord
    trigger: Trigger
    replaces: tuple[int, ...]
    lookups: Mapping[str, tuple[IndexColumns, ...]]
    """The shared tables that its trigger reads, and the indexes by which it looks rows up in each."""
    touched: tuple[Touched, ...]
    """The parts of targets that its rows touch."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns that are used, in the relation's order."""
        return self.record.fields


@dataclass(frozen=True, slots=True)
class StageCode:
    """The module of a stage, and its maps, inputs and outputs.

    ``mirrors`` are relations that the stage keeps a copy of, ``tables`` those that it shares with other stages.
    """

    stage: Stage
    module: ir.Module
    faults: FaultTable
    texts: TextConstants
    calls: PythonCalls
    maps: dict[str, MapGlobal]
    mirrors: tuple[str, ...]
    tables: dict[str, TableGlobal]
    inputs: dict[str, StageInput]
    replaces: tuple[Replace, ...]
    output: OutputGlobal | None
    read_output: OutputGlobal | None
    row_output: OutputGlobal | None
    drained: tuple[str, ...]
    """The maps whose entries last no longer than a change: those of ``clear.k``, in this order."""
    partitions: PartitionCode | None
