"""Groups of a stage with aggregates over multisets: those that an epoch has touched, as they were and as they are.

A group is touched where its entry is, in the map of all groups, or where the order of one of its multisets has changed.
``read_groups`` copies all of them out, for the generated ``finish`` function; ``emit_rows`` makes rows of them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.algebra.aggregates.registry import function_of
from tidemill.program.maps import Map
from tidemill.program.stages import GroupEmission, MultisetRead, Stage
from tidemill.runtimes.native.llvm.codegen import memory
from tidemill.runtimes.native.llvm.codegen.control_flow import PER_EPOCH, IRValue, Local, define, number, on_stack
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I64, NULL_POINTER, PTR, NullableValue, at
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrder, KeyOrder
from tidemill.runtimes.native.llvm.maps.multiset_index import MultisetIndexCode
from tidemill.runtimes.native.llvm.queries import MapGlobal

READ_GROUPS = "read_groups"
"""The exported function that copies touched groups out."""


@dataclass(frozen=True, slots=True)
class MultisetSides:
    """Where the ends of a group's multisets lie, in the order of their maps: before the epoch, and after it."""

    before: Sequence[IRValue]
    after: Sequence[IRValue]


TellGroup = Callable[[IRValue, IRValue | None, MultisetSides], None]
"""Takes the entry of a group as it was, as it is (None where there is none), and its multisets.

A group without any entry is told of with one of weight 0.
"""


def multiset_maps(finish: GroupEmission) -> tuple[str, ...]:
    """The maps that are multisets, each once."""
    return tuple(dict.fromkeys(read.map for read in finish.multiset_reads))


def end_of(read: MultisetRead) -> str:
    """The end at which an aggregate finds its value; raises ``NotCompiled`` where it is at none."""
    function = function_of(read.call)
    if function.end is None or function.by_second:
        raise NotCompiled(f"the aggregate {read.call.function}")
    return "least" if function.end is MultisetEnd.LEAST else "greatest"


def check_multisets(stage: Stage, finish: GroupEmission) -> None:
    """Refuse aggregates that are at no end of a multiset, and multisets whose groups are keyed otherwise."""
    maps = {map_.name: map_ for map_ in stage.maps}
    keys = maps[finish.source].keys
    for read in finish.multiset_reads:
        end_of(read)
        columns = [f.type for f in maps[read.map].keys]
        if columns[: len(keys)] != [f.type for f in keys] or columns[len(keys)] != read.call.of:
            raise NotCompiled("a multiset with keys of other types")


class MultisetGroupCode:
    """Emits code that goes through the touched groups of ``finish``."""

    def __init__(self, finish: GroupEmission, maps: Mapping[str, MapGlobal]) -> None:
        self._finish = finish
        self._held = maps[finish.source]
        self._multisets = [maps[name] for name in multiset_maps(finish)]

    @property
    def indexes(self) -> list[MultisetIndexCode]:
        """The ordered values of each multiset."""
        found = [held.code.changing.ordered for held in self._multisets]
        return [index for index in found if isinstance(index, MultisetIndexCode)]

    def each(self, builder: ir.IRBuilder, tell: TellGroup) -> None:
        """Emit ``tell`` for each touched group; nothing may return from there."""
        sizes = [index.version.size for index in self.indexes]
        sides = MultisetSides(*([on_stack(builder, size) for size in sizes] for _ in range(2)))
        for index, held in zip(self.indexes, self._multisets, strict=True):
            index.begin_emission(builder, held.handle(builder))

        def tell_entry(old: IRValue, entry: IRValue | None) -> None:
            keys = self._held.code.changing.keys.of_record(builder, old)
            self._read(builder, keys, sides)
            tell(old, entry, sides)

        self._held.code.epochs.each_touched(builder, self._held.handle(builder), tell_entry)
        for index, held in zip(self.indexes, self._multisets, strict=True):
            with index.each_untold(builder, held.handle(builder)) as (prefix, _):
                self._tell_untouched(builder, prefix, sides, tell)

    def _tell_untouched(
        self, builder: ir.IRBuilder, prefix: Sequence[IRValue], sides: MultisetSides, tell: TellGroup
    ) -> None:
        """Tell of a group whose own entry is as it was."""
        code = self._held.code.changing
        mask, *cells = prefix
        keys = KeyCells(tuple(cells), mask if code.record.nulls else None)
        self._read(builder, keys, sides)
        entry = code.find(builder, self._held.handle(builder), keys)
        absent = on_stack(builder, code.record.payload)
        memory.fill(builder, absent, 0, code.record.payload)
        code.keys.write(builder, absent, keys)
        known = builder.select(builder.icmp_unsigned("==", entry, NULL_POINTER), absent, entry)
        tell(known, known, sides)

    def _read(self, builder: ir.IRBuilder, keys: KeyCells, sides: MultisetSides) -> None:
        for index, held, *ends in zip(self.indexes, self._multisets, sides.before, sides.after, strict=True):
            index.read(builder, held.handle(builder), index.prefix(builder, keys), *ends)

    def values(self, builder: ir.IRBuilder, ends: Sequence[IRValue]) -> list[NullableValue]:
        """The value of each aggregate, as a map would store it, given where the ends of the multisets lie."""
        names = multiset_maps(self._finish)
        found = []
        for read in self._finish.multiset_reads:
            place = names.index(read.map)
            found.append(self.indexes[place].cell(builder, ends[place], end_of(read)))
        return found

    def emit_read(self, module: ir.Module) -> None:
        """``read_groups(olds, news, befores..., afters...)``: copy all touched groups to arrays, and give how many."""
        code, indexes = self._held.code.changing, self.indexes

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            olds, news, *targets = arguments
            count = Local(builder, number(0))

            def tell(old: IRValue, entry: IRValue | None, sides: MultisetSides) -> None:
                size = code.record.payload
                old_place, new_place = (at(builder, a, builder.mul(count.get(), number(size))) for a in (olds, news))
                memory.copy(builder, old_place, old, size)
                memory.copy(builder, new_place, old if entry is None else entry, size)
                if entry is None:
                    code.rings.store_zero(builder, new_place)
                for index, target, ends in zip(indexes * 2, targets, (*sides.before, *sides.after), strict=True):
                    place = at(builder, target, builder.mul(count.get(), number(index.version.size)))
                    memory.copy(builder, place, ends, index.version.size)
                count.set(builder.add(count.get(), number(1)))

            self.each(builder, tell)
            builder.ret(count.get())

        types = [PTR] * (2 + 2 * len(indexes))
        define(module, READ_GROUPS, I64, types, body, *PER_EPOCH, exported=True)


def multiset_order(stage: Stage, map_: Map) -> GroupOrder | None:
    """The order of the values of each group, where ``map_`` is a multiset of the stage; none of them is NULL."""
    finish = stage.finish
    if not isinstance(finish, GroupEmission) or map_.name not in multiset_maps(finish):
        return None
    (source,) = [own for own in stage.maps if own.name == finish.source]
    width = len(source.keys)
    return GroupOrder(width, (KeyOrder(width, nullable=False),), end=map_.end)
