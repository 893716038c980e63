"""Choice of the method for a sliding window: the one with the lowest estimated number of rows read for each slide.

The unit is a row read and grouped. The direct method groups all rows of the window; the others group only the new rows
of a slide and read groups besides. How many there are follows from statistics of the table, and is assumed of a stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.compiler.rewrites.sliding_windows.methods import INVERTIBLE, METHODS, OVER_ROWS
from tidemill.compiler.rewrites.sliding_windows.partials import Partials
from tidemill.compiler.statistics.sizes import WindowSizes
from tidemill.model.errors import Unsupported

ASSUMED = WindowSizes(rows=1e6, groups=1e5, all_groups=4e5)
"""The sizes of a window of which nothing is known."""


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A method, and the reason for it."""

    method: str
    reason: str


def method_costs(length: int, invertible: bool, sizes: WindowSizes = ASSUMED) -> dict[str, float]:
    """Rows that each method reads for one slide of a window of ``length`` slides.

    >>> {method: round(cost / 1e6, 1) for method, cost in method_costs(60, invertible=True).items()}
    {'direct': 60.0, 'panes': 7.0, 'prefix': 2.6, 'subtract': 1.3, 'intervals': 2.4}
    """
    rows, found, all_groups = sizes
    digits, powers = length.bit_count(), length.bit_length() - 1
    read = {
        "direct": length * rows,
        "panes": rows + length * found,
        "prefix": rows + 4 * all_groups,
        "subtract": rows + 3 * found,
        "intervals": rows + (2 * powers + digits) * found,
    }
    return {method: cost for method, cost in read.items() if invertible or method not in INVERTIBLE}


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
    reason = f"it reads least for each slide of a window of {length} (relative: {listed}), with {basis}"
    return MethodChoice(best, reason)


def _price(item: tuple[str, float]) -> float:
    return item[1]


def _refused(view: str, method: str, reason: str) -> Unsupported:
    return Unsupported(
        f'the window of view "{view}" cannot use method "{method}"',
        detail=f"{reason[0].upper()}{reason[1:]}.",
        hint="Leave the option method out.",
    )
