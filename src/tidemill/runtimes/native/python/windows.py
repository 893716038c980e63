"""Window functions as Python: the reach of each, and the functions that it needs, written and bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.partial_sums import PartialSum
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS, finalize, partial_sums
from tidemill.algebra.expressions.scalars import Column, Literal
from tidemill.algebra.relational.relations import Window
from tidemill.algebra.relational.windows import OFFSETS, RANKINGS, SESSION, Frame, WindowCall
from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.schema import names_of
from tidemill.model.types import BIGINT
from tidemill.program.maps import Map
from tidemill.runtimes.native.operators.frame_reach import (
    ExactRangeReach,
    FirstRowReach,
    FrameReach,
    PartitionReach,
    RangeReach,
    RowsReach,
    RunningReach,
    peers,
    session,
)
from tidemill.runtimes.native.operators.frame_sums import FrameSums, RangeFrameSums, RowsFrameSums
from tidemill.runtimes.native.operators.windows import (
    FirstValueFunction,
    FrameFunction,
    PartitionOrder,
    RankFunction,
    SumFunction,
    WindowFunction,
)
from tidemill.runtimes.native.python.accumulation import zero_sum
from tidemill.runtimes.native.python.function_writer import ModuleWriter, Namespace
from tidemill.runtimes.native.python.row_functions import (
    sort_key_width,
    write_addends,
    write_arguments,
    write_sort_key_prefix,
    write_total,
)
from tidemill.runtimes.native.python.scalar_properties import cannot_fail
from tidemill.runtimes.native.state import fixed_point
from tidemill.runtimes.native.state.indexes import values_at
from tidemill.runtimes.native.state.ordered_groups import AddendsOf
from tidemill.runtimes.native.state.ordered_sums import WeightAndSums

EXACT_TYPES = (t.Integral, t.Decimal, t.Date, t.Timestamp, t.AnsiInterval)
"""Types whose values can be moved by an offset and back again; a DOUBLE is rounded."""

LONG_FRAME = 64
"""Number of rows from which the sums of a ROWS frame are kept, so that they can be looked up."""


class WindowWriter:
    """Writes the functions of a window; ``bind`` binds them once they are compiled."""

    def __init__(self, module: ModuleWriter, window: Window, map_: Map) -> None:
        self._module = module
        self._window = window
        self._map = map_
        self._peers = peers(sort_key_width(window.order))
        self._sums: dict[PartialSum, list[int]] = {}
        self._zeros: list[Any] = []
        self._ordering = PartitionOrder(window.order, self._terms_of())
        # Maintained sums change together with the map, and nothing may fail then: a partial change cannot be undone.
        summed = [part for call in window.calls if _is_summed(call) for part in partial_sums(_aggregate(call))]
        self._steady = all(cannot_fail(part.argument) for part in summed)
        self._prefix = self._write_prefix()
        self._bindings = [self._write(call) for call in window.calls]
        self._amounts = self._write_amounts()

    def _terms_of(self) -> Callable[[Row], Row]:
        names = list(names_of(self._map.keys))
        columns = [term.scalar for term in self._window.order if isinstance(term.scalar, Column)]
        return values_at([names.index(column.name) for column in columns])

    def bind(self, space: Namespace) -> tuple[list[WindowFunction], AddendsOf | None, WeightAndSums]:
        """The compiled functions; and for sums that are kept, the addends of a row and the sums of nothing."""
        addends_of = None if self._amounts is None else space[self._amounts]
        functions = [binding(space, addends_of) for binding in self._bindings]
        summed = [function for function in functions if isinstance(function, SumFunction)]
        if any(function.reach.running or function.lookup is not None for function in summed):
            return functions, addends_of, tuple(self._zeros)
        return functions, None, ()

    def _write(self, call: WindowCall) -> Callable[[Namespace, Any], WindowFunction]:
        if _is_summed(call):
            return self._write_summed(call)
        arguments_of = self._module.known.function(f"arguments_of_{call.function}")
        self._module.add(
            arguments_of, write_arguments(arguments_of, self._map.name, self._map.keys, call, self._module.known)
        )
        if call.function == "first_value" and self._opens(call):
            return lambda space, _: FirstValueFunction(FirstRowReach(), space[arguments_of])
        kind = RankFunction if call.function in ("row_number", "rank") else FrameFunction

        def bind(space: Namespace, _: Any) -> WindowFunction:
            reach = self._reach_of(call, space[arguments_of])
            lookup = None if call.function in OFFSETS else self._lookup(reach, space, None)
            return kind(self._exact_reach(reach, space), call, space[arguments_of], self._ordering, lookup)

        return bind

    def _runs(self, call: WindowCall) -> bool:
        """True if the frame goes from the beginning of the partition to the row, or to its last peer."""
        return call.frame.start is None and call.frame.end is not None and not call.frame.end

    def _opens(self, call: WindowCall) -> bool:
        """True if every frame begins with the first row of the partition."""
        return call.frame.start is None and not call.frame.end and not call.ignore_nulls

    def _reach_of(self, call: WindowCall, arguments_of: Callable[[Any], Any]) -> FrameReach:
        match call.function:
            case "row_number":
                return RunningReach(None)
            case "rank":
                return RunningReach(self._peers)
            case name if name == SESSION:
                gap = call.arguments[-1]
                assert isinstance(gap, Literal), "a session has a gap, or a longest one"
                return PartitionReach() if gap.value is None else session(lambda row: arguments_of(row)[0], gap.value)
            case name if name in OFFSETS:
                return self._distance(call)
            case name if name in RANKINGS:
                return PartitionReach()
        return self._reach(call)

    def _reach(self, call: WindowCall) -> FrameReach:
        """The reach of a frame."""
        if call.function == "last_value" and self._runs(call) and not call.ignore_nulls:
            return RowsReach(0, 0) if call.frame.rows else self._peers
        if call.frame.start is None or call.frame.end is None:
            return PartitionReach()
        if call.frame.rows:
            return RowsReach(call.frame.start, call.frame.end)
        if not call.frame.start and not call.frame.end:
            return self._peers
        terms_of = self._ordering.order_values
        return RangeReach(call.frame, self._window.order[0], lambda row: terms_of(row)[0])

    def _exact_reach(self, reach: FrameReach, space: Namespace) -> FrameReach:
        """The same reach by search, where values can be moved along the order and back again."""
        if not isinstance(reach, RangeReach) or self._prefix is None:
            return reach
        return ExactRangeReach(reach.frame, reach.order, reach.value, space[self._prefix])

    def _distance(self, call: WindowCall) -> FrameReach:
        """LAG and LEAD read one row, at the same distance for all rows."""
        match call.arguments:
            case (_, Literal(value=int(offset)), *_) if not call.ignore_nulls:
                away = -offset if call.function == "lag" else offset
                return RowsReach(away, away)
        return PartitionReach()

    # -- sums ---------------------------------------------------------------------------------------------------

    def _write_summed(self, call: WindowCall) -> Callable[[Namespace, Any], WindowFunction]:
        aggregate = _aggregate(call)
        slots = [self._slots(part) for part in partial_sums(aggregate)]
        sums = [Column(f"sum_{i}", part.of, nullable=False) for i, part in enumerate(partial_sums(aggregate))]
        name = self._module.known.function(f"total_of_{call.function}")
        value = finalize(aggregate, sums, Column("weight", BIGINT, nullable=False))
        self._module.add(name, write_total(name, call.function, value, sums, self._module.known))
        numbers = [number for places in slots for number in places]
        reach = self._reach(call)
        if self._steady and self._runs(call):
            reach = RunningReach(None if call.frame.rows else self._peers)
        return lambda space, addends_of: SumFunction(
            self._exact_reach(reach, space),
            call.frame,
            self._ordering,
            addends_of,
            (0, *self._zeros),
            numbers,
            space[name],
            self._lookup(reach, space, addends_of) if self._steady else None,
        )

    def _lookup(self, reach: FrameReach, space: Namespace, addends_of: AddendsOf | None) -> FrameSums | None:
        """The lookup of a frame with two ends that may be long; ``addends_of`` if its sums are kept."""
        match reach:
            case RowsReach(start=start, end=end) if end - start >= LONG_FRAME:
                return RowsFrameSums(Frame(True, start, end), addends_of)
            case RangeReach(frame=frame, order=order, value=value) if self._prefix is not None:
                width = sort_key_width(self._window.order)
                return RangeFrameSums(frame, order, value, space[self._prefix], width)
        return None

    def _write_prefix(self) -> str | None:
        """The function that gives the place of a value in the order, if values can be moved along it without loss."""
        match self._window.order:
            case (term,) if isinstance(term.scalar.type, EXACT_TYPES):
                name = self._module.known.function("place_of_value")
                self._module.add(name, write_sort_key_prefix(name, term, self._module.known))
                return name
        return None

    def _slots(self, part: PartialSum) -> list[int]:
        """The positions of the numbers of a partial sum among all sums; the first one is the weight."""
        if part not in self._sums:
            zeros = fixed_point.ZERO if isinstance(part.of, t.Double) else (zero_sum(part.of),)
            first = 1 + len(self._zeros)
            self._sums[part] = list(range(first, first + len(zeros)))
            self._zeros += zeros
        return self._sums[part]

    def _write_amounts(self) -> str | None:
        if not any(_is_summed(call) for call in self._window.calls):
            return None
        name = self._module.known.function("amounts")
        body = write_addends(name, self._map.name, self._map.keys, list(self._sums), self._module.known)
        self._module.add(name, body)
        return name


def _aggregate(call: WindowCall) -> AggregateCall:
    """The aggregate that is taken over each frame."""
    argument = call.arguments[0] if call.arguments else None
    return AggregateCall(call.name, call.function, argument, call.of, filter=call.filter)


def _is_summed(call: WindowCall) -> bool:
    """True if the value over a frame can be computed from maintained sums, whose high halves are enough."""
    aggregate = AGGREGATE_FUNCTIONS.get(call.function)
    return aggregate is not None and aggregate.sums is not None and not aggregate.sums.reads_low
