"""The state of a compiled stage at run time: maps that are read from the store when first needed, kept up to date and
given back, and the tables that it reads together with other stages."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import WEIGHT
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.jit import Library
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.native_map import NativeMap
from tidemill.runtimes.native.llvm.io.output_buffers import OutputBuffers
from tidemill.runtimes.native.llvm.io.python_functions import PythonFunction
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.maps.table_reader import IndexColumns
from tidemill.runtimes.native.llvm.queries import MapGlobal
from tidemill.runtimes.native.llvm.stage.emit_stage import READ_MAP
from tidemill.runtimes.native.llvm.stage.stage_code import StageCode
from tidemill.runtimes.native.llvm.table.column_store import TableHandle
from tidemill.runtimes.native.llvm.table.llvm_table import LlvmTable


class StateSource(Protocol):
    """The source of a stage's state when it is first used."""

    def stored(self, map_: Map) -> pa.Table:
        """The changes that add up to a map of the stage, oldest first: ``map_fields`` and the weight."""

    def rows(self, relation: str) -> ChangeSet:
        """The rows of a relation as they are now, equal ones perhaps in several parts."""

    @property
    def epoch(self) -> int:
        """The last epoch that is stored."""

    def missed(self, since: int, maps: Sequence[Map], mirrors: Sequence[Map]) -> dict[str, pa.Table] | None:
        """The changes of maps and copied relations after an epoch; None if loading them again is cheaper."""


class StageState:
    """The maps and outputs of a stage, and its shared tables. There are none until ``prepare`` or ``create``.

    ``maps`` has the maps of the program, the mirrors of relations and the maps of output rows. ``journaled`` are those
    whose changes an epoch can undo. ``pending`` has the numbers of the targets that wait to be recomputed.
    """

    def __init__(
        self,
        code: StageCode,
        library: Library,
        source: StateSource,
        memory: Memory,
        strings: StringDictionary,
        table_of: Callable[[str], LlvmTable | None],
    ) -> None:
        self._code, self._library, self._source = code, library, source
        self._memory, self._strings = memory, strings
        self._table_of = table_of
        self._tables: dict[str, LlvmTable] = {}
        self._shown_at: dict[str | None, int] = {}
        """For each relation ``Memory.moves`` when the tables that its changes need were last shown."""
        self._handles = {name: TableHandle(table.code) for name, table in code.tables.items()}
        for name, handle in self._handles.items():
            self._point(code.tables[name].place.name, handle.address)
        self.maps: dict[str, NativeMap] = {}
        self.journaled: list[NativeMap] = []
        self.outputs: dict[str, OutputBuffers] = {}
        self.pending: set[int] = set()
        self.created_in_epoch = False
        """True if a rollback cannot return to the state before the epoch, and the state has to be read again."""
        self._paused_at: int | None = None
        """The epoch that a state shows which has missed some."""
        for value, place in code.texts.places.items():
            ctypes.c_int32.from_address(library.address(place.name)).value = strings.intern(value)
        if code.texts.held_in is not None:
            self._point(code.texts.held_in.name, strings.address)
        self._called = [PythonFunction(call, strings) for call in code.calls.places]
        for function, place in zip(self._called, code.calls.places.values(), strict=True):
            self._point(place.name, function.address)

    def failed_call(self) -> BaseException | None:
        """The exception of an expression that Python computes, if one raised; the next call of this gives None."""
        raised = [function.take_failure() for function in self._called]
        return next((failure for failure in raised if failure is not None), None)

    @property
    def bytes(self) -> int:
        """The memory of all maps and outputs."""
        outputs = sum(output.bytes for output in self.outputs.values())
        return outputs + sum(held.bytes for held in self.maps.values())

    def sizes(self) -> dict[str, tuple[int, int]]:
        """For each map its entries and its memory."""
        return {name: (len(held), held.bytes) for name, held in self.maps.items()}

    # -- reading --------------------------------------------------------------------------------------------------

    def prepare(self, relation: str | None = None) -> None:
        """Read the state from the store, unless it is here already.

        It is ready for changes of ``relation`` then, or of all inputs.
        """
        if self._paused_at is not None:
            self._catch_up(self._paused_at)
        if self.maps:
            self._show_tables_for(relation)
            return
        try:
            self.create()
            self._show_tables_for(relation)
            for map_ in self._code.stage.maps:
                self.maps[map_.name].restore(self._source.stored(map_))
            for name in self._code.mirrors:
                self.maps[name].restore(_columns(self._source.rows(name), self._code.maps[name].map))
        except BaseException:
            self.free()  # half a state must not be taken for one
            raise

    def create(self) -> None:
        """Make all maps and outputs, empty."""
        # Whatever is read in the open epoch includes changes that a rollback would have to take back.
        self.created_in_epoch = True
        passing = dict(self.passing_maps())
        for name, held in self._code.maps.items():
            if name not in passing:
                self.maps[name] = self.make(held)
        self.journaled = [held for name, held in self.maps.items() if name not in self._code.drained]
        for declared in (self._code.output, self._code.read_output, self._code.row_output):
            if declared is not None:
                output = self.outputs[declared.place.name] = OutputBuffers(declared, self._memory, self._strings)
                for place, address in output.addresses.items():
                    self._point(place, address)

    def make(self, held: MapGlobal) -> NativeMap:
        """An empty map, to which the global of emitted code points from now on."""
        native = NativeMap(held.code, self._library, self._memory, self._strings)
        self._point(held.place.name, native.address)
        return native

    def _point(self, place: str, address: int) -> None:
        """Write an address to a global of the module."""
        ctypes.c_void_p.from_address(self._library.address(place)).value = address

    def passing_maps(self) -> list[tuple[str, MapGlobal]]:
        """The maps that exist only while rows are read."""
        return [(name, held) for name, held in self._code.maps.items() if name.startswith(READ_MAP)]

    def free(self) -> None:
        """Give all memory back; the next change reads the state again."""
        for held in self.maps.values():
            held.free()
        for output in self.outputs.values():
            output.free()
        self._tables.clear()
        self._shown_at.clear()
        self.maps.clear()
        self.journaled.clear()
        self.outputs.clear()
        self.pending.clear()
        self._paused_at = None

    # -- shared tables --------------------------------------------------------------------------------------------

    def show_tables(self, names: Iterable[str]) -> None:
        """Show the stage the rows of some of the tables that it shares, with all indexes that it has use for."""
        for name in names:
            self._show_table(name, self._handles[name].reader.indexes)

    def _show_tables_for(self, relation: str | None) -> None:
        """Show the stage the tables and indexes that the changes of a relation need, or those of all.

        The first change after opening then builds no index of a large table that it does not use.
        """
        if self._shown_at.get(relation) == self._memory.moves:
            return
        every = {name: handle.reader.indexes for name, handle in self._handles.items()}
        lookups = every if relation is None else self._code.inputs[relation].lookups
        for name, handle in self._handles.items():
            if name in lookups:
                self._show_table(name, lookups[name])
            else:
                handle.hide_outdated(self._tables.get(name))
        self._shown_at[relation] = self._memory.moves

    def _show_table(self, name: str, indexes: Sequence[IndexColumns]) -> None:
        if name not in self._tables:
            table = self._table_of(name)
            assert table is not None, f'"{name}" is no table any more'
            self._tables[name] = table
        handle = self._handles[name]
        handle.show(self._tables[name].share(handle.reader, indexes))

    def hide_tables(self) -> None:
        """Hide the rows of these tables from the stage."""
        self._shown_at.clear()
        for handle in self._handles.values():
            handle.show_nothing()

    # -- missed epochs --------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Note that the next epochs run elsewhere: the maps show the last one until they are used again."""
        if self.maps and self._paused_at is None:
            self._paused_at = self._source.epoch

    @property
    def is_paused(self) -> bool:
        """True if there is state that has missed epochs."""
        return self._paused_at is not None

    def _catch_up(self, since: int) -> None:
        """Add what the maps have missed, or free them if reading them again is cheaper."""
        mirrors = [self._code.maps[name].map for name in self._code.mirrors]
        missed = self._source.missed(since, self._code.stage.maps, mirrors)
        if missed is None:
            self.free()
            return
        try:
            self._paused_at = None
            for name, table in missed.items():
                self.maps[name].settle()
                self.maps[name].restore(table)
        except BaseException:
            self.free()
            raise


def _columns(change: ChangeSet, map_: Map) -> pa.Table:
    """The columns of a relation that a mirror holds, and the weight."""
    return change.arrow().select([*(f.name for f in map_.keys), WEIGHT])
