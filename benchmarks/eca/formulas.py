"""The formulas of section 6 and appendix D of the ECA paper, for the view and the updates of its Example 6.

``k`` may be a fraction, because curves are also asked where they cross. For the three updates of Example 6 the paper
counts exactly; for other numbers of updates it takes the expectation, each of them being to any relation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

ALGORITHMS = ("rv-best", "rv-worst", "eca-best", "eca-worst")
"""Recompute the view once or after every update; ECA with updates far apart, or all before the first query."""

Costs = Mapping[str, float]
"""A cost for each algorithm."""


@dataclass(frozen=True)
class Parameters:
    """Table 1 of the paper: ``c`` rows a relation, ``j`` of them to a join value, ``k`` updates.

    ``size`` is its S, ``selected`` its sigma, ``block`` its K.
    """

    c: float = 100
    j: float = 4
    k: float = 3
    size: int = 4
    selected: float = 0.5
    block: int = 20

    def at(self, axis: str, value: float) -> Parameters:
        """The same, but for the one that ``axis`` names."""
        changed: dict[str, Any] = {axis: value}
        return replace(self, **changed)

    @property
    def whole(self) -> int:
        """The pages of a relation: I."""
        return ceil(self.c / self.block)

    @property
    def doubled(self) -> int:
        """How often two blocks must be filled to hold a relation: I'."""
        return ceil(self.c / (2 * self.block))

    @property
    def pairs(self) -> float:
        """Updates before each, to other relations, over all updates: what the worst case must compensate."""
        return 3 if self.k == 3 else self.k * (self.k - 1) / 3


def messages(p: Parameters) -> Costs:
    """M, section 6.1: queries and answers."""
    return {"rv-best": 2, "rv-worst": 2 * p.k, "eca-best": 2 * p.k, "eca-worst": 2 * p.k}


def transferred(p: Parameters) -> Costs:
    """B, section 6.2 and appendix D.2.

    >>> transferred(Parameters())
    {'rv-best': 3200.0, 'rv-worst': 9600.0, 'eca-best': 96.0, 'eca-worst': 120.0}
    """
    row = p.size * p.selected
    view, update = row * p.c * p.j**2, row * p.j**2
    return _costs(p, view, update, row * p.j)


def indexed(p: Parameters) -> Costs:
    """IO of scenario 1, section 6.3 and appendix D.3: indexes and ample memory.

    >>> indexed(Parameters())
    {'rv-best': 15, 'rv-worst': 45, 'eca-best': 15, 'eca-worst': 18}
    """
    return _costs(p, 3 * p.whole, min(p.whole, p.j) + 1, 1)


def looped(p: Parameters) -> Costs:
    """IO of scenario 2: three blocks of memory and no index.

    >>> looped(Parameters())
    {'rv-best': 125, 'rv-worst': 375, 'eca-best': 45, 'eca-worst': 60}
    """
    return _costs(p, p.whole**3, p.whole * p.doubled, p.whole)


def _costs(p: Parameters, view: float, update: float, compensation: float) -> Costs:
    """From what the whole view costs, what an update costs, and what it costs to make up for one before another."""
    return {
        "rv-best": view,
        "rv-worst": p.k * view,
        "eca-best": p.k * update,
        "eca-worst": p.k * update + p.pairs * compensation,
    }


FORMULAS: Mapping[str, Callable[[Parameters], Costs]] = {
    "messages": messages,
    "bytes": transferred,
    "pages-indexed": indexed,
    "pages-looped": looped,
}
"""What is counted, and its formulas."""
