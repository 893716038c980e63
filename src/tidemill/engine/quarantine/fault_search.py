"""The search for the groups of a change that a view cannot compute: parts of the change are tried, by bisection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidemill.changes.zset import ZSet
from tidemill.engine.quarantine.row_groups import RowGroups
from tidemill.model.errors import ArithmeticFault

__all__ = ["Attempt", "FaultSearch", "Faults"]

Attempt = Callable[[Mapping[str, ZSet]], ArithmeticFault | None]
"""Tries these changes of inputs, all rolled back: the error of the view, if there is one."""

Faults = dict[int, ArithmeticFault]
"""The groups of an input at fault, by their places, with their errors."""

Places = Mapping[str, Sequence[int]]


class FaultSearch:
    """The groups of the changes of a view's inputs of which a smallest part is at fault; all others pass together."""

    def __init__(
        self, groups: Mapping[str, RowGroups], changes: Mapping[str, Sequence[ZSet]], attempt: Attempt
    ) -> None:
        self._groups = groups
        self._changes = changes
        self._attempt = attempt

    def run(self) -> dict[str, Faults]:
        """The groups at fault, by input.

        Of several inputs one is blamed if it can be: rather that whose rows wait by groups of GROUP BY, such as the
        facts that are joined with dimensions.
        """
        whole = {name: range(len(groups)) for name, groups in self._changes.items()}
        for name in sorted(whole, key=lambda name: self._groups[name].of != "group"):
            others = {other: places for other, places in whole.items() if other != name}
            if self._try(others) is None:
                return {name: self._among(name, others)}
        found: dict[str, Faults] = {}
        passed: dict[str, Sequence[int]] = {}
        for name, places in whole.items():
            found[name] = self._among(name, passed)
            passed[name] = [place for place in places if place not in found[name]]
        return found

    def _among(self, name: str, others: Places) -> Faults:
        """The groups of an input at fault, beside some of the other inputs that can be computed without it."""
        places = range(len(self._changes[name]))
        found = self._alone(name, places, others)
        left = [place for place in places if place not in found]
        if len(left) > 1 and not self._groups[name].independent and self._try({**others, name: left}) is not None:
            found |= self._together(name, left, others)
        return found

    def _alone(self, name: str, places: Sequence[int], others: Places) -> Faults:
        """The groups that fail without any other of their input."""
        found: Faults = {}
        waiting = [places]
        while waiting:
            some = waiting.pop()
            fault = self._try({**others, name: some}) if some else None
            if fault is not None and len(some) == 1:
                found[some[0]] = fault
            elif fault is not None:
                waiting += _halves(some)
        return found

    def _together(self, name: str, places: Sequence[int], others: Places) -> Faults:
        """The groups that fail beside those that were taken before."""
        found: Faults = {}
        taken: list[int] = []
        waiting = [places]
        while waiting:
            some = waiting.pop()
            fault = self._try({**others, name: [*taken, *some]})
            if fault is None:
                taken += some
            elif len(some) == 1:
                found[some[0]] = fault
            else:
                waiting += reversed(_halves(some))
        return found

    def _try(self, places: Places) -> ArithmeticFault | None:
        # Inputs come in the order in which an epoch takes them.
        tried = {name: places[name] for name in self._changes if places.get(name)}
        return self._attempt({name: summed(self._changes[name], some) for name, some in tried.items()})


def summed(groups: Sequence[ZSet], places: Sequence[int]) -> ZSet:
    """The rows of some groups."""
    total = ZSet()
    for place in places:
        total.update_by(groups[place])
    return total


def _halves(places: Sequence[int]) -> list[Sequence[int]]:
    half = len(places) // 2
    return [places[:half], places[half:]]
