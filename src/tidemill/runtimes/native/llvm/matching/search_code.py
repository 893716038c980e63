"""The search for matches in a partition as code: one step of a deterministic automaton for each row.

A *search* is what is known after the last row that was read: the configuration of the automaton, the sort key of that
row, and the values of each run. Beside the rows of a partition there are two, as of the last epoch and as of now, so
that the rows of an epoch can be emitted more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tidemill.algebra.matching.deterministic import START, DeterministicAutomaton, Transition
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, number, on_stack
from tidemill.runtimes.native.llvm.codegen.frame import FALSE, FunctionFrame
from tidemill.runtimes.native.llvm.codegen.layout import I8, I32, I64, PTR, NullableValue, StructLayout, at, size_of
from tidemill.runtimes.native.llvm.codegen.memory import copy, fill
from tidemill.runtimes.native.llvm.maps.match_rows import HEADER_BYTES, MatchRowsCode
from tidemill.runtimes.native.llvm.matching.run_values import RunValues
from tidemill.runtimes.native.llvm.scalars.conversions import from_stored
from tidemill.runtimes.native.llvm.scalars.exact_numbers import any_of
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions

BeginFunction = Callable[[str, Sequence[ir.Type], bool], FunctionFrame]

NONE = -2
"""Among the runs that runs continue: there is no run in this place."""


class SearchLayout:
    """A search, and what lies beside the rows of a partition.

    ``search`` has no row yet unless ``begun``. Where matches come out once, ``pending`` is the number of the complete
    run that a row may still prolong, plus one, and ``shown`` tells whether it has come out as it is.

    In ``partition`` the search ``now`` is about the rows as they are if it is ``valid``, and was written in the epoch
    ``stamp``; ``before`` is about those before that epoch if it is ``known``.
    """

    def __init__(self, automaton: DeterministicAutomaton, values: RunValues, key: ir.Type) -> None:
        self.search, self.partition = StructLayout(), StructLayout()
        for name in ("configuration", "begun"):
            self.search.field(name, I32)
        if automaton.at_end:
            self.search.field("pending", I32)
            self.search.field("shown", I32)
        self.search.field("last", key)
        self.runs = automaton.most_runs
        self.search.bytes("runs", self.runs * values.layout.size)
        for name in ("stamp", "known", "valid", "unused"):
            self.partition.field(name, I32)
        assert self.partition.size == HEADER_BYTES
        for name in ("before", "now"):
            self.partition.part(name, self.search)


class SearchCode:
    """Emits ``match.step``, and functions that it needs."""

    def __init__(
        self,
        begin: BeginFunction,
        automaton: DeterministicAutomaton,
        values: RunValues,
        index: MatchRowsCode,
        map_: Map,
    ) -> None:
        self._begin, self._automaton, self._values = begin, automaton, values
        self._index, self._map = index, map_
        self.layout = SearchLayout(automaton, values, index.trees.key)
        self._symbols = 1 << len(automaton.conditions)
        self._tables = _Tables(automaton, values)
        self._symbol: ir.Function | None = None

    # ---------------------------------------------------------------------------------------------------------- rows

    def prefix(self, builder: ir.IRBuilder, changes: IRValue) -> list[IRValue]:
        """The cells that name the partition with these changes."""
        group = self._index.changed_groups.group
        return [group.load(builder, changes, f"cell{i}") for i in range(len(self._index.prefix_types()))]

    def bindings(self, builder: ir.IRBuilder, changes: IRValue, key: IRValue) -> dict[str, NullableValue]:
        """The columns of a row, for expressions."""
        fields = self._map.keys
        return {
            fields[place].name: from_stored(builder, cell, fields[place].type)
            for place, cell in self._index.cells(builder, self.prefix(builder, changes), key).items()
        }

    def emit_symbol(self) -> ir.Function:
        """Emit ``match.symbol(changes, key, previous, begun)``: which conditions hold for a row after another one."""
        frame = self._begin("match.symbol", [PTR, self._index.trees.key, self._index.trees.key, I32], False)
        builder, (changes, key, previous, begun) = frame.builder, frame.function.args
        here = LlvmExpressions(frame, self.bindings(builder, changes, key))
        before = LlvmExpressions(frame, self.bindings(builder, changes, previous))
        none = builder.icmp_unsigned("==", begun, number(0, I32))
        read: dict[str, NullableValue] = {}
        for place, value in enumerate(self._automaton.reads):
            cell = (before if value.step else here).cell(value.argument)
            null = any_of(builder, cell.is_null, none) if value.step else cell.is_null
            read[f"row {place}"] = NullableValue(cell.value, FALSE if null is None else null)
        found: IRValue = number(0, I32)
        expressions = LlvmExpressions(frame, read)
        for bit, condition in enumerate(self._automaton.conditions):
            holds = builder.zext(expressions.holds(condition), I32)
            found = builder.or_(found, builder.shl(holds, number(bit, I32)))
        builder.ret(found)
        self._symbol = frame.function
        return frame.function

    # ---------------------------------------------------------------------------------------------------------- step

    def emit_find(self) -> ir.Function:
        """Emit ``match.find(changes, key, search)``: the number of the transition that a row leads to."""
        assert self._symbol is not None
        search_ = self.layout.search
        frame = self._begin("match.find", [PTR, self._index.trees.key, PTR], False)
        builder, (changes, key, search) = frame.builder, frame.function.args
        now, begun = (search_.load(builder, search, name) for name in ("configuration", "begun"))
        symbol = builder.call(self._symbol, [changes, key, search_.load(builder, search, "last"), begun])
        builder.ret(builder.add(builder.mul(now, number(self._symbols, I32)), symbol))
        return frame.function

    def prolongs(self, builder: ir.IRBuilder, transition: IRValue) -> IRValue:
        """An i1: whether the run that comes out by a transition continues the one which came out before."""
        found = self._tables.load(builder, "prolongs", builder.zext(transition, I64))
        return builder.icmp_unsigned("!=", found, number(0, I32))

    def emit_step(self) -> ir.Function:
        """Emit ``match.step(changes, key, search, transition)``: read one more row; gives the number of the run that
        comes out, plus one, and 0 for none."""
        take = self._emit_take()
        search_, tables = self.layout.search, self._tables
        frame = self._begin("match.step", [PTR, self._index.trees.key, PTR, I32], False)
        builder, (changes, key, search, transition) = frame.builder, frame.function.args
        now = search_.load(builder, search, "configuration")
        search_.store(builder, search, "last", key)
        search_.store(builder, search, "begun", number(1, I32))
        step = builder.zext(transition, I64)
        following = tables.load(builder, "configuration", step)
        complete = tables.load(builder, "complete", step)
        idle = builder.icmp_unsigned("==", builder.or_(builder.or_(now, following), complete), number(0, I32))
        with builder.if_then(idle, likely=True):
            builder.ret(complete)
        search_.store(builder, search, "configuration", following)
        size, runs = self._values.layout.size, search_.address(builder, search, "runs")
        # Behind the runs as they were there is an empty one, which those continue that begin.
        before = on_stack(builder, (self.layout.runs + 1) * size)
        copy(builder, before, runs, self.layout.runs * size)
        fill(builder, at(builder, before, self.layout.runs * size), 0, size)
        for place in range(self.layout.runs):
            here = builder.add(builder.mul(step, number(self.layout.runs)), number(place))
            source = tables.load(builder, "source", here)
            sees = tables.load(builder, "sees", here)
            target = at(builder, runs, place * size)
            with builder.if_else(builder.icmp_signed("==", source, number(NONE, I32))) as (none, run):
                with none:
                    fill(builder, target, 0, size)
                with run:
                    is_new = builder.icmp_signed("==", source, number(START, I32))
                    from_ = builder.select(is_new, number(self.layout.runs, I32), source)
                    offset = builder.mul(builder.zext(from_, I64), number(size))
                    builder.call(take, [changes, key, at(builder, before, offset), target, sees])
        builder.ret(complete)
        return frame.function

    def _emit_take(self) -> ir.Function:
        """Emit ``match.take(changes, key, source, target, sees)``: the values of a run with one more row."""
        frame = self._begin("match.take", [PTR, self._index.trees.key, PTR, PTR, I64], False)
        builder, (changes, key, source, target, sees) = frame.builder, frame.function.args
        row = LlvmExpressions(frame, self.bindings(builder, changes, key))
        self._values.take(builder, row, source, target, sees)
        frame.done()
        return frame.function

    def forgets(self, builder: ir.IRBuilder, symbol: IRValue) -> IRValue:
        """An i1: whether no run outlives a row with that symbol."""
        found: IRValue = FALSE
        for value in range(self._symbols):
            if self._automaton.forgets(value):
                found = builder.or_(found, builder.icmp_unsigned("==", symbol, number(value, I32)))
        return found

    def run(self, builder: ir.IRBuilder, search: IRValue, complete: IRValue) -> IRValue:
        """The run that a step has said comes out."""
        place = builder.sub(builder.zext(complete, I64), number(1))
        runs = self.layout.search.address(builder, search, "runs")
        return at(builder, runs, builder.mul(place, number(self._values.layout.size)))


class _Tables:
    """The transitions as constants of a module, by configuration and symbol, and by run."""

    def __init__(self, automaton: DeterministicAutomaton, values: RunValues) -> None:
        steps = [step for steps in automaton.transitions for step in steps]
        runs = [run for step in steps for run in _padded(step, automaton.most_runs)]
        self._columns: dict[str, tuple[ir.Type, list[int]]] = {
            "configuration": (I32, [step.configuration for step in steps]),
            "complete": (I32, [0 if step.complete is None else step.complete + 1 for step in steps]),
            "source": (I32, [source for source, _ in runs]),
            "prolongs": (I32, [int(step.prolongs) for step in steps]),
            "sees": (I64, [0 if name is None else values.sees(name) for _, name in runs]),
        }

    def load(self, builder: ir.IRBuilder, name: str, place: IRValue) -> IRValue:
        """An element of a column."""
        type_, column = self._columns[name]
        module, symbol = builder.module, f"match.{name}"
        if symbol not in module.globals:
            kind = ir.ArrayType(type_, len(column))
            table = ir.GlobalVariable(module, kind, symbol)
            table.initializer = ir.Constant(kind, column)
            table.global_constant = True
            table.linkage = "internal"
        address = builder.gep(module.globals[symbol], [builder.mul(place, number(size_of(type_)))], source_etype=I8)
        return builder.load(address, typ=type_, align=size_of(type_))


def _padded(step: Transition, most: int) -> list[tuple[int, str | None]]:
    return [*step.runs, *[(NONE, None)] * (most - len(step.runs))]
