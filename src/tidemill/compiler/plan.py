"""The plan of a view, as strategy ``auto`` has chosen it, and the log of the decisions that led to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tidemill.compiler.statistics.sizes import WindowSizes

__all__ = ["ALTERED", "CREATED", "DEFAULT_PLAN", "Candidate", "Decision", "Plan"]

CREATED, ALTERED = "created", "altered"
"""Causes of a decision about a plan, beside rows that have changed."""

LOGGED = 20
"""Decisions that a view remembers, the last ones: they are stored with it in the catalog."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stage as one strategy compiles it: predicted visits of a changed row, and predicted bytes of its maps."""

    stage: str
    strategy: str
    visits: float
    bytes: float

    def __str__(self) -> str:
        return f"{self.stage} by {self.strategy}: {self.visits:,.1f} visits, {self.bytes:,.0f} bytes"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about the plan of a view: when and why it was made, what was chosen from what.

    ``cause`` says what called for it: that the view was created or altered, or that its tables have changed. ``visits``
    and ``bytes`` are predicted for a changed row and for all maps by the ``chosen`` plan; None where nothing had to be
    predicted. ``measured`` are the microseconds that an input row has taken in the mean by this plan, in the process
    that made the next decision, or in this one; None if no change was measured.
    """

    epoch: int = 0
    cause: str = ""
    chosen: str = ""
    reason: str = ""
    visits: float | None = None
    bytes: float | None = None
    candidates: tuple[Candidate, ...] = ()
    measured: float | None = None

    def __str__(self) -> str:
        return f"in epoch {self.epoch}, {self.cause}: {self.reason}"

    @property
    def is_replanning(self) -> bool:
        """True if nobody asked for it: rows have changed."""
        return self.cause not in (CREATED, ALTERED)

    def to_json(self) -> dict[str, Any]:
        """The decision as the catalog stores it."""
        item: dict[str, Any] = {"epoch": self.epoch, "cause": self.cause, "chosen": self.chosen, "reason": self.reason}
        item |= {"visits": self.visits, "bytes": self.bytes, "measured": self.measured}
        item["candidates"] = [[one.stage, one.strategy, one.visits, one.bytes] for one in self.candidates] or None
        return {name: value for name, value in item.items() if value is not None}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Self:
        """The decision of an item of the catalog."""
        candidates = tuple(Candidate(*one) for one in item.get("candidates", ()))
        return cls(**{**item, "candidates": candidates})


@dataclass(frozen=True, slots=True)
class Plan:
    """The strategies of stages, by their names; a stage that is not named is maintained by first-order deltas.

    If it ``keeps_subqueries``, subqueries in expressions stay there for the strategies that take them. ``rows`` are
    those that all inputs had when it was chosen or last looked at, ``changes`` the rows of them that had changed by
    then, and ``wait`` how many more must change before it is looked at again. ``log`` are the last decisions about it.
    The methods of sliding ``windows`` follow from their sizes when the view was created or altered.
    """

    strategies: Mapping[str, str] = field(default_factory=dict)
    keeps_subqueries: bool = False
    windows: Mapping[str, WindowSizes] = field(default_factory=dict)
    rows: int = field(default=0, compare=False)
    changes: int = field(default=0, compare=False)
    wait: int = field(default=0, compare=False)
    log: tuple[Decision, ...] = field(default=(), compare=False)

    @property
    def choice(self) -> str:
        """The strategies in words.

        >>> Plan({"v": "viewlet", "v/2": "joingraph"}, True).choice
        'viewlet for v, joingraph for v/2, with subqueries left in place'
        >>> Plan().choice
        'delta'
        """
        named = ", ".join(f"{strategy} for {stage}" for stage, strategy in self.strategies.items()) or "delta"
        return f"{named}, with subqueries left in place" if self.keeps_subqueries else named

    def of_view(self, name: str, other: str) -> Plan:
        """The plan of view ``name`` for the same stages of view ``other``, which has decided nothing yet.

        >>> Plan({"v": "viewlet", "v/2": "joingraph"}).of_view("v", "w").strategies
        {'w': 'viewlet', 'w/2': 'joingraph'}
        """
        strategies = {other + stage.removeprefix(name): strategy for stage, strategy in self.strategies.items()}
        return replace(self, strategies=strategies, log=())

    def decided(self, decision: Decision, before: tuple[Decision, ...] = ()) -> Plan:
        """The plan with one more decision in its log, after those ``before``.

        >>> [one.epoch for one in Plan().decided(Decision(7), tuple(map(Decision, range(30)))).log]
        [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 7]
        """
        return replace(self, log=(*before, decision)[-LOGGED:])

    def to_json(self) -> dict[str, Any]:
        """The plan as the catalog stores it, without what goes without saying."""
        item = {name: getattr(self, name) for name in ("keeps_subqueries", "rows", "changes", "wait")}
        item["windows"] = {name: list(sizes) for name, sizes in self.windows.items()}
        item |= {"strategies": dict(self.strategies), "log": [decision.to_json() for decision in self.log]}
        return {name: value for name, value in item.items() if value}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Self:
        """The plan of an item of the catalog.

        >>> decision = Decision(3, CREATED, "delta", candidates=(Candidate("v", "delta", 9.5, 0.0),))
        >>> plan = Plan({"v": "viewlet"}, True, log=(decision,))
        >>> Plan.from_json(plan.to_json()).log == plan.log, Plan.from_json({}) == Plan()
        (True, True)
        """
        numbers = {name: int(item.get(name, 0)) for name in ("rows", "changes", "wait")}
        log = tuple(map(Decision.from_json, item.get("log", ())))
        windows = {name: WindowSizes(*sizes) for name, sizes in item.get("windows", {}).items()}
        strategies, keeps = dict(item.get("strategies", {})), bool(item.get("keeps_subqueries", False))
        return cls(strategies, keeps, windows, **numbers, log=log)


DEFAULT_PLAN = Plan()
