"""The plan of a view: what strategy ``auto`` has chosen for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Plan:
    """The strategies of stages, by their names; a stage that is not named is maintained by first-order deltas.

    If it ``keeps_subqueries``, subqueries in expressions stay there for the strategies that take them. ``rows`` are
    those that all inputs had when it was chosen or last looked at, ``changes`` the rows of them that had changed by
    then, and ``wait`` how many more must change before it is looked at again.
    """

    strategies: Mapping[str, str] = field(default_factory=dict)
    keeps_subqueries: bool = False
    rows: int = field(default=0, compare=False)
    changes: int = field(default=0, compare=False)
    wait: int = field(default=0, compare=False)

    @property
    def text(self) -> str:
        """The plan in words, for EXPLAIN.

        >>> Plan({"v": "viewlet", "v/2": "joingraph"}, True).text
        'by strategy auto: viewlet for v, joingraph for v/2, with subqueries left in place'
        """
        named = ", ".join(f"{strategy} for {stage}" for stage, strategy in self.strategies.items())
        return f"by strategy auto: {named}{', with subqueries left in place' if self.keeps_subqueries else ''}"

    def of_view(self, name: str, other: str) -> Plan:
        """The plan of view ``name`` for the same stages of view ``other``.

        >>> Plan({"v": "viewlet", "v/2": "joingraph"}).of_view("v", "w").strategies
        {'w': 'viewlet', 'w/2': 'joingraph'}
        """
        return replace(self, strategies={other + stage.removeprefix(name): s for stage, s in self.strategies.items()})

    def to_json(self) -> dict[str, Any]:
        """The plan as the catalog stores it, without what goes without saying."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Self:
        """The plan of an item of the catalog.

        >>> Plan.from_json(Plan({"v": "viewlet"}, True).to_json())
        Plan(strategies={'v': 'viewlet'}, keeps_subqueries=True, rows=0, changes=0, wait=0)
        """
        numbers = {name: int(item.get(name, 0)) for name in ("rows", "changes", "wait")}
        return cls(dict(item.get("strategies", {})), bool(item.get("keeps_subqueries", False)), **numbers)


DEFAULT_PLAN = Plan()
