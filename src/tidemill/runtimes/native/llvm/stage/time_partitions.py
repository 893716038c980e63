"""Time partitions of a compiled stage: machine code computes each, and the order in which is that of all runtimes.

``runtimes.time_partitions`` decides which partitions are recomputed. What has changed is in the journals of the maps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tidemill.algebra.relational.time_partitions import PartitionSlice
from tidemill.runtimes.native.llvm.io.native_map import NativeMap
from tidemill.runtimes.native.llvm.stage.emit_time_partitions import PartitionCode
from tidemill.runtimes.native.llvm.stage.stage_functions import StageFunctions
from tidemill.runtimes.native.operators import touched_groups
from tidemill.runtimes.time_partitions import partitions_read, recompute_partitions

LEAST, GREATEST = -(2**63), 2**63 - 1

Check = Callable[[int], None]
"""Raises what a status means."""


class TimePartitions:
    """Recomputes partitions of a stage, by its ``functions``."""

    def __init__(self, code: PartitionCode, functions: StageFunctions) -> None:
        self._code, self._emission, self._functions = code, code.emission, functions
        slices = 2 * len(code.emission.slices)
        self._ranges, self._bounds = (np.zeros(max(slices, 2), dtype=np.int64) for _ in range(2))
        self._changed = ctypes.c_int64(0)
        self._beside = np.zeros(4, dtype=np.int64)
        self._window = _RollingWindow(self._functions) if code.emission.rolls else None

    def settle(self) -> None:
        """Take the state as it is for the one from which the next epoch starts."""
        if self._window is not None:
            self._window.settle()

    def forget(self) -> None:
        """Keep nothing of a window beside the maps, which have changed in another way than by an epoch."""
        if self._window is not None:
            self._window.forget()

    def recompute(self, maps: Mapping[str, NativeMap], check: Check) -> None:
        """Bring the computed partitions up to date with what the epoch has changed.

        Running it twice in an epoch is harmless: a partition that is computed again has the same rows.
        """
        emission = self._emission
        touched = {
            feed.name: set(_numbers(maps[feed.map])) if feed.every else ({0} if maps[feed.map].touches else set())
            for feed in emission.feeds
        }
        if not maps[emission.numbers].touches and not any(touched.values()):
            return
        before, now = self._spans(maps, check)
        if self._window is not None:
            self._window.follow(maps[emission.feeds[0].map], check)
        run = _Recomputation(self, maps, check, before, now)
        recompute_partitions(emission, before, now, touched, run.make)

    # -- numbers --------------------------------------------------------------------------------------------------

    def _spans(self, maps: Mapping[str, NativeMap], check: Check) -> tuple[range, range]:
        """The range of partitions before the epoch and after it: all from the first to the last."""
        first, last = self._after(LEAST, check), self._before(GREATEST, check)
        now = range(0) if first is None or last is None else range(first, last + 1)
        moved = {key[0]: bool(old) for key, old, _ in maps[self._emission.numbers].touched()}
        olds = [number for number, was in moved.items() if was]
        # Numbers that the epoch has not touched are the same as before it.
        while first is not None and first in moved:
            first = self._after(first, check)
        while last is not None and last in moved:
            last = self._before(last - 1, check)
        ends = [number for number in (first, last) if number is not None] + olds
        return range(min(ends), max(ends) + 1) if ends else range(0), now

    def _after(self, number: int, check: Check) -> int | None:
        """The first partition after a number that has rows; of the least number, at it as well."""
        self._look(number, check)
        if number == LEAST and self._beside[0]:
            return int(self._beside[1])
        return int(self._beside[3]) if self._beside[2] else None

    def _before(self, number: int, check: Check) -> int | None:
        """The last partition at or before a number that has rows."""
        self._look(number, check)
        return int(self._beside[1]) if self._beside[0] else None

    def _look(self, number: int, check: Check) -> None:
        check(self._functions.numbers_beside()(number, self._beside.ctypes.data))

    # -- one partition --------------------------------------------------------------------------------------------

    def remove(self, number: int, check: Check) -> bool:
        """Remove the rows of a partition; true if it had some."""
        self._changed.value = 0
        check(self._functions.remove_partition()(number, ctypes.byref(self._changed)))
        return bool(self._changed.value)

    def make(self, number: int, body: int, numbers: range, check: Check, *, groups: bool) -> bool:
        """Compute a partition, or only its touched groups; true if it has changed."""
        for place, slice_ in enumerate(self._emission.slices):
            if slice_.high is not None:
                read = partitions_read(self._emission, slice_, number, numbers)
                self._ranges[2 * place : 2 * place + 2] = read.start, len(read)
        if groups:
            self._bounds[:] = [end for slice_ in self._emission.slices for end in _bounds(slice_, number)] or 0
            check(self._functions.touch_groups(body)(self._bounds.ctypes.data))
        self._changed.value = 0
        changed = ctypes.byref(self._changed)
        if self._window is not None and not groups:
            (slice_,) = self._emission.slices
            self._window.move(partitions_read(self._emission, slice_, number, numbers), check)
            check(self._functions.show_window()(number, changed))
            return bool(self._changed.value)
        check(self._functions.make_partition(body)(number, self._ranges.ctypes.data, groups, changed))
        return bool(self._changed.value)

    def body(self, *, first: bool) -> int:
        """The place of the query that computes a partition."""
        return self._code.bodies.index(self._emission.initialize if first else self._emission.update)

    def has_groups(self, body: int) -> bool:
        """True if the groups of a query can be recomputed one by one."""
        return body in self._code.grouped


class _RollingWindow:
    """The window that was computed last, in scratch maps: the next one is this one with other partitions.

    It can be recomputed from its rows at any time, so nothing of it is stored. It follows the changes of an epoch once;
    if more come in the same epoch it begins anew.
    """

    def __init__(self, functions: StageFunctions) -> None:
        self._functions = functions
        self._held = range(0)
        self._map: NativeMap | None = None
        self._followed = False

    def settle(self) -> None:
        """Note that the changes of the epoch are in the past."""
        self._followed = False

    def forget(self) -> None:
        """Begin anew when the window is next needed."""
        self._map = None

    def follow(self, map_: NativeMap, check: Check) -> None:
        """Take in what the epoch has changed of the partitions that are held."""
        if self._map is not map_ or self._followed:
            self._map, self._held = map_, range(0)
            check(self._functions.begin_window()())
        self._followed = True
        if self._held:
            self._guarded(check, lambda: self._functions.follow_window()(self._held[0], self._held[-1]))

    def move(self, numbers: range, check: Check) -> None:
        """Hold these partitions."""
        come, gone = _without(numbers, self._held), _without(self._held, numbers)
        if len(come) + len(gone) > len(numbers):
            check(self._functions.begin_window()())
            come, gone = [*numbers], []
        for sign, moved in ((1, come), (-1, gone)):
            for number in moved:
                self._guarded(check, partial(self._functions.roll_window(), number, sign))
        self._held = numbers

    def _guarded(self, check: Check, move: Callable[[], int]) -> None:
        status = move()
        if status:
            self.forget()
        check(status)


def _without(numbers: range, others: range) -> list[int]:
    return [number for number in numbers if number not in others]


class _Recomputation:
    """The partitions of an epoch: ``numbers`` are those that exist now, ``before`` those that existed before."""

    def __init__(
        self,
        partitions: TimePartitions,
        maps: Mapping[str, NativeMap],
        check: Check,
        before: range,
        numbers: range,
    ) -> None:
        self._partitions, self._check, self._before, self._numbers = partitions, check, before, numbers
        emission = partitions._emission
        self._read = [maps[name] for name in dict.fromkeys(map(emission.map_of, emission.slices))]
        self._kept = maps[emission.kept]

    def make(self, numbers: Sequence[int]) -> bool:
        """Recompute partitions; true if one has changed."""
        return sum(map(self._make_one, numbers)) > 0

    def _make_one(self, number: int) -> bool:
        if number not in self._numbers:
            return self._partitions.remove(number, self._check)
        first = number == self._numbers[0]
        body = self._partitions.body(first=first)
        groups = self._partitions.has_groups(body) and self._few_are_touched(number, first=first)
        return self._partitions.make(number, body, self._numbers, self._check, groups=groups)

    def _few_are_touched(self, number: int, *, first: bool) -> bool:
        """True if most groups of a partition cannot have changed: it was there, and so few rows have."""
        if number not in self._before or first != (number == self._before[0]):
            return False
        changed = sum(map_.touches for map_ in self._read)
        return touched_groups.TOUCHED_FRACTION * changed * len(self._numbers) <= len(self._kept)


def _numbers(map_: NativeMap) -> npt.NDArray[np.int64]:
    """The numbers of the partitions in which the epoch has touched rows of a map."""
    return np.unique(map_.touched_cells(0))


def _bounds(slice_: PartitionSlice, number: int) -> tuple[int, int]:
    """The first and the last partition that a slice reads, whether there are any."""
    low = LEAST if slice_.low is None else slice_.low.at(number)
    return low, GREATEST if slice_.high is None else slice_.high.at(number)
