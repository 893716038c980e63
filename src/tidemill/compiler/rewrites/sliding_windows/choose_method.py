"""Choice of the method for a sliding window: the one whose slide is predicted to take least.

A slide takes its rows in and groups them, reads rows and groups of other slides, writes groups and hands them on to the
next stage; and each stage has a cost of its own, whatever it does. How many rows and groups there are follows from
statistics of the table, and is assumed of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.compiler.rewrites.sliding_windows.methods import INVERTIBLE, METHODS, OVER_ROWS
from tidemill.compiler.rewrites.sliding_windows.partials import Partials
from tidemill.compiler.statistics.sizes import WindowSizes
from tidemill.model.errors import Unsupported

ASSUMED = WindowSizes(rows=1e6, groups=1e5, all_groups=4e5)
"""The sizes of a window of which nothing is known."""


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A method, and the reason for it: the predicted ``costs`` of all methods that came into question, if any were."""

    method: str
    reason: str
    costs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlideCosts:
    """Nanoseconds of CPU of what a slide does in machine code, fitted to ``bench viewdf --queries regret``.

    Ratios differ little between machines, and between methods they are what matters.
    """

    stage: float = 450_000
    """A stage that runs, with a few touched maps to store."""
    stored: float = 140
    """A row that is stored as such."""
    grouped: float = 75
    """A row that is added to the sums of its group."""
    ordered: float = 400
    """A row that is added to the values of its group, of which the least or greatest is wanted."""
    read: float = 25
    """A row or group that is read and added to a group of the window."""
    written: float = 500
    """A group of a partition that was computed."""
    passed: float = 430
    """A group that is passed on to another stage, which stores it."""


def method_costs(
    length: int, invertible: bool, sizes: WindowSizes = ASSUMED, costs: SlideCosts = SlideCosts()
) -> dict[str, float]:
    """The predicted milliseconds of one slide of a window of ``length`` slides, by each method.

    >>> {method: round(cost) for method, cost in method_costs(60, invertible=True).items()}
    {'direct': 1840, 'panes': 469, 'prefix': 724, 'subtract': 334, 'intervals': 2357}
    """
    rows, found, all_groups = sizes

    def groups(slides: int) -> float:
        return all_groups * (1.0 - (1.0 - min(found / all_groups, 1.0)) ** slides)

    window = groups(length)
    panes = rows * (costs.grouped if invertible else costs.ordered) + found * costs.passed
    shown = panes + 2 * costs.stage + window * costs.written
    taken = {
        "direct": costs.stage + rows * (costs.stored + length * costs.read) + window * costs.written,
        "panes": shown + length * found * costs.read,
        "prefix": shown
        + costs.stage
        + all_groups * (costs.written + costs.passed + 3 * costs.read)
        + found * costs.read,
        "subtract": shown + (window + 2 * found) * costs.read,
        "intervals": shown,
    }
    powers = length.bit_length() - 1
    for power in range(1, powers + 1):
        readers = (power < powers) + (length >> power & 1)
        taken["intervals"] += costs.stage + 2 * groups(2 ** (power - 1)) * costs.read
        taken["intervals"] += groups(2**power) * (costs.written + readers * costs.passed)
    taken["intervals"] += sum(groups(2**power) for power in range(powers + 1) if length >> power & 1) * costs.read
    return {method: cost / 1e6 for method, cost in taken.items() if invertible or method not in INVERTIBLE}


def choose_method(
    view: str, wanted: str, length: int, kept: Partials | str, sizes: WindowSizes = ASSUMED
) -> MethodChoice:
    """The method for a window of ``length`` slides: ``wanted``, or the cheapest for ``auto``."""
    known = ("auto", "direct", *METHODS)
    if wanted not in known:
        raise Unsupported(f'view "{view}" has no method "{wanted}"', hint=f"Methods are {', '.join(known)}.")
    if isinstance(kept, str):
        if wanted not in ("auto", *OVER_ROWS):
            raise _refused(view, wanted, kept)
        return MethodChoice("rolling", kept) if wanted == "auto" else MethodChoice(wanted, "it was requested")
    if wanted in INVERTIBLE and not kept.invertible:
        raise _refused(view, wanted, "MIN and MAX cannot be subtracted")
    priced = method_costs(length, kept.invertible, sizes)
    if wanted != "auto":
        return MethodChoice(wanted, "it was requested")
    best = min(priced, key=lambda method: priced[method])
    listed = ", ".join(f"{method} {cost / priced[best]:.3g}" for method, cost in sorted(priced.items(), key=_price))
    basis = f"{sizes.rows:,.0f} rows and {sizes.groups:,.0f} groups a slide"
    basis = f"{basis}, which is assumed" if sizes is ASSUMED else basis
    reason = f"it takes least for each slide of a window of {length} (relative: {listed}), with {basis}"
    return MethodChoice(best, reason, priced)


def _price(item: tuple[str, float]) -> float:
    return item[1]


def _refused(view: str, method: str, reason: str) -> Unsupported:
    return Unsupported(
        f'the window of view "{view}" cannot use method "{method}"',
        detail=f"{reason[0].upper()}{reason[1:]}.",
        hint="Leave the option method out.",
    )
