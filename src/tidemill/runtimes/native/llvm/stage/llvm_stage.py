"""A compiled stage at run time: it takes rows in, changes its maps and gives out the rows that changed.

The maps live outside Python. What an epoch does to them is in their journals, so emitting, storing and undoing cost
O(|change|), as in the Python back end; and the rows of a stage come from the same generated ``finish`` function.
"""

from __future__ import annotations

import ctypes
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.errors import ArithmeticFault, DataError
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.stages import GroupEmission, PartitionEmission
from tidemill.runtimes.native.batched_calls import TriggerCalls
from tidemill.runtimes.native.llvm.codegen.jit import load
from tidemill.runtimes.native.llvm.codegen.layout import Status
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.input_rows import InputBatch
from tidemill.runtimes.native.llvm.io.native_map import out_of_memory
from tidemill.runtimes.native.llvm.io.output_buffers import OutputBuffers
from tidemill.runtimes.native.llvm.io.output_code import OutputGlobal
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.joingraph.walks import DEAD_ENDS, SKIPPED
from tidemill.runtimes.native.llvm.stage.emit_rows import MACHINE_CODE_KEYS, shows_keys
from tidemill.runtimes.native.llvm.stage.emit_stage import (
    READ_MAP,
    fills_by_firing,
)
from tidemill.runtimes.native.llvm.stage.multiset_groups import end_of, multiset_maps
from tidemill.runtimes.native.llvm.stage.stage_code import StageCode, StageInput
from tidemill.runtimes.native.llvm.stage.stage_functions import StageFunctions
from tidemill.runtimes.native.llvm.stage.stage_state import StageState, StateSource
from tidemill.runtimes.native.llvm.stage.statements import RECOMPUTING
from tidemill.runtimes.native.llvm.stage.time_partitions import TimePartitions
from tidemill.runtimes.native.llvm.table.llvm_table import LlvmTable
from tidemill.runtimes.native.operators.groups import OutputOperator
from tidemill.runtimes.native.operators.multisets import MultisetGroupOutput, TouchedGroup
from tidemill.runtimes.native.python.compile import compile_stage
from tidemill.runtimes.native.row_by_row import recomputes
from tidemill.storage.compaction.consolidate import difference

LARGE_STATE = 2 << 20
"""Maps of more bytes are not in the fastest caches: then it pays to look at rows before they are taken in."""

FEW_ROWS = 64
"""Row count up to which Python rows are packed one by one; more are cheaper as columns."""

_UNKNOWN = 255
"""Stands for the inputs of other stages."""

_WHAT = {
    Status.WEIGHT_OVERFLOW: "the weight of an entry leaves 64 bits",
    Status.VALUE_OVERFLOW: "a sum leaves 128 bits",
    Status.DOUBLE_RANGE: "a sum of DOUBLE leaves the range of DOUBLE",
}


class LlvmStage:
    """Runs one stage. Its state is read when the first change comes."""

    def __init__(
        self,
        code: StageCode,
        finish: OutputOperator | None,
        source: StateSource,
        memory: Memory,
        strings: StringDictionary,
        used: set[LlvmStage] | None = None,
        table_of: Callable[[str], LlvmTable | None] = lambda name: None,
    ) -> None:
        """``used`` gets this stage whenever its state may be about to change; ``table_of`` gives shared tables."""
        self.code = code
        self.stage = code.stage
        self.memory = memory
        self.strings = strings
        self._used = set() if used is None else used
        self._finish = finish
        self._source = source
        self._library = load(code.module)
        self._functions = StageFunctions(self._library)
        self._state = StageState(code, self._library, source, memory, strings, table_of)
        self._packers: dict[str, Any] = {}
        self._calls: dict[str, TriggerCalls] = {}
        finish_ = self.stage.finish
        self._group_maps = (finish_.source, *multiset_maps(finish_)) if isinstance(finish_, GroupEmission) else ()
        """The maps that the rows of a stage with groups come from."""
        self._partitions = None if code.partitions is None else TimePartitions(code.partitions, self._functions)
        if code.partitions is not None:
            self._group_maps += code.partitions.inputs
        self.nothing = ChangeSet.of((), self.stage.output)
        """A change of the stage's rows that has none."""

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """True if the stage holds its state."""
        return bool(self._state.maps)

    @property
    def size(self) -> int:
        """The bytes of all its maps."""
        return self._state.bytes

    @property
    def pending_rows(self) -> int:
        """The number of rows that the open epoch has output so far."""
        return sum(map(len, self._state.outputs.values()))

    @property
    def loads(self) -> bool:
        """True if ``load`` can fill the stage; else Python must, and the stage takes over from the store."""
        return fills_by_firing(self.stage)

    def __len__(self) -> int:
        """The entries of all its maps."""
        return sum(len(held) for held in self._state.maps.values())

    def sizes(self) -> dict[str, tuple[int, int]]:
        """For each map its entries and its memory."""
        return self._state.sizes()

    @property
    def skipped(self) -> int:
        """The number of items of a join graph that walks have skipped, because they are known to be dead."""
        return self._counter(SKIPPED)

    @property
    def dead_ends(self) -> int:
        """The number of items that walks have followed to nothing, which exact counts of what completes would save."""
        return self._counter(DEAD_ENDS)

    def _counter(self, name: str) -> int:
        return ctypes.c_int64.from_address(self._library.address(name)).value if self.stage.graphs else 0

    def prepare(self, relation: str | None = None) -> None:
        """Read the state from the store, unless it is here already: for changes of ``relation``, or of all inputs."""
        self._used.add(self)
        self._state.prepare(relation)

    def pause(self) -> None:
        """Note that the next epochs run the stage elsewhere: its maps show the last one until they are used again."""
        self._state.pause()
        self._forget_windows()

    def _forget_windows(self) -> None:
        if self._partitions is not None:
            self._partitions.forget()

    @property
    def is_paused(self) -> bool:
        """True if the stage holds state that has missed epochs."""
        return self._state.is_paused

    def free(self) -> None:
        """Give all memory back; the next change reads the state again."""
        self._state.free()

    # -- an epoch -----------------------------------------------------------------------------------------------

    def fire(self, relation: str, change: ChangeSet) -> None:
        """Run the trigger of ``relation`` for every row of ``change``, in order."""
        self.prepare(relation)
        self._take(self.code.inputs[relation], change)

    def _take(self, input_: StageInput, change: ChangeSet, *, filling: bool = False) -> None:
        if not input_.touched:
            self._take_rows(input_, change)
            self._state.pending.update(input_.replaces)
            return
        broken = any(self._state.maps[name].negatives(value) for part in input_.touched for name, value in part.guards)
        if not filling and not recomputes(len(change), any(part.loops for part in input_.touched), broken):
            self._take_rows(input_, change)
            return
        recomputing = ctypes.c_int8.from_address(self._library.address(RECOMPUTING))
        recomputing.value = 1
        try:
            self._take_rows(input_, change)
        finally:
            recomputing.value = 0
        self._state.pending.update(input_.replaces)

    def _take_rows(self, input_: StageInput, change: ChangeSet) -> None:
        if change.is_python_only and change.rows <= FEW_ROWS:
            self._take_pairs(input_, change)
            return
        if input_.relation not in self._calls:
            self._calls[input_.relation] = TriggerCalls(input_.trigger)
        with self._calls[input_.relation].made(change):
            self._take_columns(input_, change)

    def _take_pairs(self, input_: StageInput, change: ChangeSet) -> None:
        pairs = change.pairs()
        packed = self._packer(input_, change)(pairs)
        failed = ctypes.c_int64(0)
        status = self._functions.rows(input_.number)(len(pairs), packed, ctypes.byref(failed))
        self._check(status, lambda: (input_.relation, pairs[failed.value][0]))

    def _packer(self, input_: StageInput, change: ChangeSet) -> Callable[[list[tuple[Row, int]]], bytes]:
        if input_.relation not in self._packers:
            names = [f.name for f in change.fields]
            positions = [names.index(f.name) for f in input_.fields]
            self._packers[input_.relation] = input_.record.packer(positions, self.strings)
        packer: Callable[[list[tuple[Row, int]]], bytes] = self._packers[input_.relation]
        return packer

    def _take_columns(self, input_: StageInput, change: ChangeSet) -> None:
        fire = self._functions.fire(input_.number)
        for batch in change.arrow().to_batches():
            columns = InputBatch(batch, input_.fields, self.strings)
            failed = ctypes.c_int64(0)
            large = self.memory.used > LARGE_STATE
            status = fire(columns.rows, columns.columns, columns.weights, ctypes.byref(failed), large)
            self._check(status, lambda: (input_.relation, _row_of(batch, failed.value, change)))  # noqa: B023

    @property
    def is_untouched(self) -> bool:
        """True if the rows of the stage come from groups, none of which the epoch has touched."""
        state = self._state
        if not self._group_maps or not state.maps or state.pending or state.is_paused:
            return False
        return not self._touched_entries()

    def _touched_entries(self) -> int:
        """The number of entries of groups that the epoch has touched."""
        touched = 0
        for name in self._group_maps:
            touched += self._state.maps[name].touches
        return touched

    def emit(self) -> ChangeSet:
        """The net change of the stage's rows."""
        if not self.ready or self._state.is_paused:
            self.prepare()
        return self._output(self._changed_rows)

    def _output(self, in_python: Callable[[OutputOperator], Mapping[Row, int]]) -> ChangeSet:
        """The rows that wait in an output, or those that come from a map: as columns, or else made ``in_python``."""
        self.recompute_pending()
        if self.stage.finish is None:
            return self._drain()
        assert self._finish is not None
        emitted = self._emitted()
        if emitted is not None:
            return emitted
        net = in_python(self._finish)
        return ChangeSet(self.stage.output, pairs=[(row, weight) for row, weight in net.items() if weight])

    def _emitted(self) -> ChangeSet | None:
        """The change of rows that come from a map, as columns; None where Python is to make them.

        It is asked for few of them, because it is faster then; for those of which one is wrong, to say why; and where
        maps may take no more memory, for the epoch has room in them already.
        """
        declared, finish = self.code.row_output, self.stage.finish
        if isinstance(finish, PartitionEmission):
            assert declared is not None
            self._check(self._functions.emit()(), None)
            return self._output_table(self._state.outputs[declared.place.name])
        if declared is None or not isinstance(finish, GroupEmission) or self._touched_entries() < MACHINE_CODE_KEYS:
            return None
        self._state.maps[finish.source].sweep()
        status = self._functions.emit()()
        output = self._state.outputs[declared.place.name]
        if status:
            output.clear()
            self._failed_call()
            return None
        return self._output_table(output, distinct=shows_keys(self.stage))

    def recompute_pending(self) -> None:
        """Recompute what waits for all inputs."""
        for number in sorted(self._state.pending):
            self._check(self._functions.replace(number)(), None)
        self._state.pending.clear()
        if self._partitions is not None:
            self._partitions.recompute(self._state.maps, partial(self._check, row=None))

    def _drain(self) -> ChangeSet:
        """Take the rows out that the statements have added to the stage's own output."""
        if self.code.output is not None:
            return self._drain_output(self.code.output)
        output = self._state.maps[self.stage.name]
        rows = output.rows(self.stage.output) if len(output) else self.nothing
        self._clear(self.stage.name)
        return rows

    def _drain_output(self, declared: OutputGlobal) -> ChangeSet:
        return self._output_table(self._state.outputs[declared.place.name])

    def _output_table(self, output: OutputBuffers, *, distinct: bool = False) -> ChangeSet:
        if not len(output):
            return self.nothing
        return ChangeSet.of_encoded(output.drain(distinct=distinct), self.stage.output)

    def _clear(self, name: str) -> None:
        self._check(self._functions.clear(self.code.drained.index(name))(), None)

    def load(self) -> ChangeSet:
        """Fill the stage from the whole contents of its inputs, one after the other; returns its rows.

        That is what an epoch would do which brings all rows at once: each input sees those before it, whole.
        """
        self._used.add(self)
        self._state.free()
        self._state.create()
        self._state.hide_tables()
        for relation, input_ in self.code.inputs.items():
            rows = self._source.rows(relation)
            # A row that has come and gone must not be met: it may fail, and leaves may be stored before arrivals.
            self._take(input_, _summed(relation, rows) if rows.has_deletions() else rows, filling=True)
            if relation in self.code.tables:
                self._state.show_tables([relation])
        return self._output(self._all_rows)

    def _changed_rows(self, finish: OutputOperator) -> Mapping[Row, int]:
        if type(finish) is MultisetGroupOutput:  # isinstance asks the abstract base class, in three calls
            return finish.changed_groups(self._touched_groups())
        return finish.changed(self._state.maps)

    def _all_rows(self, finish: OutputOperator) -> Mapping[Row, int]:
        if isinstance(finish, MultisetGroupOutput):
            return finish.whole_groups(self._touched_groups())
        return finish.whole(self._state.maps)

    def _touched_groups(self) -> list[TouchedGroup]:
        """The groups that the epoch has touched, in their own map or in a multiset, with the values of aggregates."""
        finish = self.stage.finish
        assert isinstance(finish, GroupEmission)
        names = multiset_maps(finish)
        held, multisets = self._state.maps[finish.source], [self._state.maps[name] for name in names]
        held.sweep()
        most = held.touches + sum(multiset.touches for multiset in multisets)
        records = [held.make_records(most) for _ in range(2)]
        sides = [[multiset.make_ends(most) for multiset in multisets] for _ in range(2)]
        arrays = [array.ctypes.data for array in (*records, *sides[0], *sides[1])]
        count = self._functions.read_groups(len(arrays))(*arrays)
        entries = [held.entries_of(array[:count]) for array in records]
        wanted = [(names.index(read.map), end_of(read)) for read in finish.multiset_reads]
        values = [[multisets[place].values_at(side[place][:count], end) for place, end in wanted] for side in sides]
        keys = held.keys_of(records[0][:count])
        return list(zip(keys, *entries, *(zip(*side, strict=True) for side in values), strict=True))

    def produce(self) -> ChangeSet:
        """The rows of a stage that does not store them: those of all walks from the entries of one member."""
        self.prepare()
        if self.code.read_output is not None:
            self._check(self._functions.produce()(), None)
            return self._drain_output(self.code.read_output)
        reader = self.stage.reader
        assert reader is not None
        if reader.finish is None:
            return self.nothing  # nothing is posted where no row can ever be
        filled = {name.removeprefix(READ_MAP): self._state.make(held) for name, held in self._state.passing_maps()}
        try:
            self._check(self._functions.produce()(), None)
            finish = compile_stage(replace(reader, load=()), _no_fields).finish
            assert finish is not None
            with decimal.localcontext(EXACT):
                return ChangeSet.of(finish.whole(filled).items(), self.stage.output)
        finally:
            for map_ in filled.values():
                map_.free()

    def changes(self) -> Iterator[tuple[str, ChangeSet]]:
        """The change of each map, in the form in which it is stored."""
        for map_ in self.stage.maps:
            held = self._state.maps.get(map_.name)
            if held is not None and held.touches and (change := held.changes()).rows:
                yield map_.name, change

    def settle(self) -> None:
        """Take the state as it is for the one from which the next epoch starts."""
        self._state.created_in_epoch = False
        for held in self._state.journaled:
            held.settle()
        if self._partitions is not None:
            self._partitions.settle()

    def rollback(self) -> None:
        """Undo the epoch."""
        self._state.pending.clear()
        self._forget_windows()
        if self._state.created_in_epoch:
            self.free()
            return
        with self.memory.unbounded():
            for held in self._state.journaled:
                held.rollback()
            if self._state.maps:
                for name in self.code.drained:
                    self._clear(name)
            for output in self._state.outputs.values():
                output.clear()

    # -- events -------------------------------------------------------------------------------------------------

    def event_address(self, relation: str) -> int:
        """The address of the function that takes one packed row of ``relation``."""
        return self._library.address(f"event.{self.code.inputs[relation].number}")

    def event(self, relation: str, record: int) -> None:
        """Take in one packed row that lies at ``record``, and let everything be as fresh as after an epoch."""
        self._check(self._functions.event(self.code.inputs[relation].number)(record), None)

    def run(self, order: Sequence[str] | npt.NDArray[Any], tables: Mapping[str, pa.Table]) -> None:
        """Take in many events: for each name in ``order`` the next row of that table, all fresh after each of them.

        ``order`` may have places among ``tables`` instead of names. Events of relations that the stage does not read
        are passed over. A table may have a column of weights.
        """
        self.prepare()
        numbers = self._numbered(order, list(tables))
        batches: list[InputBatch] = []
        words = np.zeros((len(self.code.inputs), 3), dtype=np.uint64)
        for name, table in tables.items():
            if name not in self.code.inputs or not table.num_rows:
                continue
            input_ = self.code.inputs[name]
            (batch,) = table.combine_chunks().to_batches()
            batches.append(InputBatch(batch, input_.fields, self.strings))
            words[input_.number] = batches[-1].columns, batches[-1].weights, 0
        failed = ctypes.c_int64(0)
        arguments = numbers.ctypes.data, words.ctypes.data, ctypes.byref(failed)
        status = self._functions.events()(len(numbers), *arguments, self.memory.used > LARGE_STATE)
        self._check(status, lambda: self._event_at(failed.value, numbers, tables))

    def _numbered(self, order: Sequence[str] | npt.NDArray[Any], names: list[str]) -> npt.NDArray[Any]:
        """The numbers of the inputs whose turn it is, a byte each."""
        places = order if isinstance(order, np.ndarray) else np.array([names.index(n) for n in order], dtype=np.uint8)
        known = [self.code.inputs[name].number if name in self.code.inputs else _UNKNOWN for name in names]
        if known == list(range(len(known))) and places.dtype == np.uint8:
            return np.ascontiguousarray(places)
        numbers: npt.NDArray[Any] = np.array(known, dtype=np.uint8)[places]
        return numbers[numbers != _UNKNOWN] if _UNKNOWN in known else numbers

    def _event_at(self, place: int, numbers: npt.NDArray[Any], tables: Mapping[str, pa.Table]) -> tuple[str, Row]:
        (name,) = [n for n, input_ in self.code.inputs.items() if input_.number == numbers[place]]
        row = int(np.count_nonzero(numbers[:place] == numbers[place]))
        shown = tables[name].slice(row, 1).to_pylist()[0]
        return name, tuple(value for column, value in shown.items() if column != WEIGHT)

    def error(self, status: int, row: Callable[[], tuple[str, Row]] | None) -> DataError:
        """The error behind a status, with the view and the row that caused it."""
        where = f'view "{self.stage.name.partition("/")[0]}"'
        if row is not None:
            relation, values = row()
            where = f"{where}, {relation} {values!r}"
        if status in (Status.BUDGET, Status.MEMORY):
            return out_of_memory(where)
        if status == Status.PYTHON_CALL:
            fault = self._failed_call()
            return ArithmeticFault(fault.what, where=where, detail=fault.detail, hint=fault.hint)
        found = self.code.faults.find(status)
        if found is None:
            return ArithmeticFault(_WHAT[Status(status)], where=where)
        return ArithmeticFault(found.what, where=where, hint=found.hint)

    def _failed_call(self) -> ArithmeticFault:
        """The fault of an expression that Python computes; what is none, such as an interruption, is raised."""
        match self._state.failed_call():
            case ArithmeticFault() as fault:
                return fault
            case ArithmeticError() as error:
                return ArithmeticFault(f"an expression cannot be computed: {error}")
            case None:
                return ArithmeticFault("an expression cannot be computed")
            case other:
                raise other

    def _check(self, status: int, row: Callable[[], tuple[str, Row]] | None) -> None:
        if status:
            raise self.error(status, row)


def _no_fields(relation: str) -> tuple[Field, ...]:
    raise KeyError(relation)  # a reader reads maps alone


def _row_of(batch: pa.RecordBatch, place: int, change: ChangeSet) -> Row:
    table = pa.Table.from_batches([batch.slice(place, 1)])
    return ChangeSet.of_arrow(table, change.fields).pairs()[0][0]


def _summed(relation: str, rows: ChangeSet) -> ChangeSet:
    """Rows with equal ones summed, in columns."""
    table = rows.arrow()
    return ChangeSet.of_arrow(difference(table.slice(0, 0), table, Map(relation, rows.fields)), rows.fields)
