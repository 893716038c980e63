"""The automaton of a pattern as a picture: states from left to right, and arrows to those that may follow.

Variables and conditions are names of users: text, never markup.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tidemill.algebra.matching.automaton import END, LAST
from tidemill.algebra.matching.text import MOST_STATES, AutomatonText
from tidemill.algebra.relational.match import Match
from tidemill.engine.inspect.explanation.graph_picture import Drawing

__all__ = ["draw_automaton"]

RADIUS, APART, MARGIN, LEVEL = 20, 86, 12, 13
"""Of a state, between the middles of two states, around the picture, and how much higher a longer arrow is."""

LETTERS = 6
"""Letters of a state."""


def draw_automaton(match: Match) -> Drawing | None:
    """The automaton of a match; None if it has too many states to be read."""
    text = AutomatonText(match)
    if len(text.labels) > MOST_STATES:
        return None
    arrows = list(_arrows(text))
    above = max((target - source for source, target, _ in arrows), default=1)
    below = max((source - target for source, target, _ in arrows), default=0)
    middle = MARGIN + 18 + RADIUS + LEVEL * (above + 2)
    states = ["", *text.labels, ""]
    conditions = dict(text.conditions())
    titles = ["start", *(f"{name}: {conditions.get(name, 'any row')}" for name in text.automaton.variables), "complete"]
    heading = (
        f'<text x="{MARGIN}" y="{MARGIN + 8}" style="text-anchor: start">{escape(str(match.pattern)[:120])}</text>'
    )
    circles = "".join(_state(*pair, place, middle) for place, pair in enumerate(zip(states, titles, strict=True)))
    markup = f'<g class="tidemill-plan">{heading}{circles}{"".join(_arrow(*arrow, middle) for arrow in arrows)}</g>'
    width = 2 * MARGIN + 2 * RADIUS + APART * (len(states) - 1)
    return Drawing(markup, width, middle + RADIUS + LEVEL * (below + 2) + MARGIN)


def _arrows(text: AutomatonText) -> Iterator[tuple[int, int, str]]:
    """Arrows between places, of which 0 is the start and the last one the end; with the order of preference."""
    end = len(text.labels) + 1
    entry = text.automaton.first_entry or text.automaton.entry
    for place, follow in enumerate((entry, *text.automaton.follow)):
        for rank, state in enumerate(follow, 1):
            label = str(rank) if len(follow) > 1 else ""
            yield place, end if state in (END, LAST) else state + 1, f"{label} $".strip() if state == LAST else label


def _center(place: int) -> float:
    return MARGIN + RADIUS + APART * place


def _state(label: str, title: str, place: int, y: float) -> str:
    x = _center(place)
    size, fill = (RADIUS, "#d9f2dd") if label else (7, "#666" if title == "start" else "#fff")
    ring = f'<circle cx="{x:g}" cy="{y:g}" r="10" fill="none" stroke="#666"/>' if title == "complete" else ""
    shown = label if len(label) <= LETTERS else label[: LETTERS - 1] + "…"
    text = f'<text x="{x:g}" y="{y + 4:g}">{escape(shown)}</text>' if label else ""
    circle = f'<circle cx="{x:g}" cy="{y:g}" r="{size}" fill="{fill}" stroke="#666"/>'
    return f"<g><title>{escape(title)}</title>{ring}{circle}{text}</g>"


def _arrow(source: int, target: int, label: str, y: float) -> str:
    """Straight to the next state, around to the same one, above to later ones and below to earlier ones."""
    x, to_x = _center(source), _center(target)
    if target == source + 1:
        path, at_x, at_y = f"M{x + RADIUS:g} {y:g}L{to_x - RADIUS - 1:g} {y:g}", (x + to_x) / 2, y - 4
    elif target == source:
        top = y - RADIUS - 2.4 * LEVEL
        path = f"M{x - 8:g} {y - RADIUS + 2:g}C{x - 22:g} {top:g} {x + 22:g} {top:g} {x + 8:g} {y - RADIUS + 1:g}"
        at_x, at_y = x, top + 4
    else:
        side = -1 if target > source else 1
        edge = y + side * RADIUS
        peak = edge + side * LEVEL * (abs(target - source) + 1.2)
        path, at_x = f"M{x:g} {edge:g}C{x:g} {peak:g} {to_x:g} {peak:g} {to_x:g} {edge + side:g}", (x + to_x) / 2
        at_y = edge + side * (0.75 * abs(peak - edge)) + 4
    drawn = f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#tidemill-tip)"/>'
    return drawn + (f'<text x="{at_x:g}" y="{at_y:g}" class="note">{label}</text>' if label else "")
