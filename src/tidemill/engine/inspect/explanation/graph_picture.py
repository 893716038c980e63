"""The graph of a program as a picture: SVG that stands alone, in columns from tables on the left to the view.

Names of users are text in it, never markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from statistics import fmean

from tidemill.engine.inspect.explanation.program_graph import Arrow, Box, ProgramGraph

__all__ = ["MOST_BOXES", "Drawing", "picture_of"]

MOST_BOXES = 60
"""Boxes above which there is no picture: nobody could read it."""

WIDTH, HEIGHT, ACROSS, BELOW, MARGIN = 190, 44, 70, 18, 12
"""Sizes of a box, spaces between boxes, and the margin, in pixels."""

LETTERS = 27
"""Letters of a line of a box."""

_FILLS = {"table": "#dbe9f9", "view": "#d9f2dd", "stage": "#eef7ef", "map": "#fbf1d3"}

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Markup of SVG, of a size."""

    markup: str
    width: float
    height: float


def picture_of(graph: ProgramGraph, below: Iterable[Drawing] = ()) -> str:
    """The picture of a graph, with drawings below it; an empty text if it has too many boxes.

    >>> picture_of(ProgramGraph((Box("a<b", "table"),), ()))[-70:]
    '>a&lt;b</text><text x="107" y="47" class="note">table</text></g></svg>'
    """
    if not 0 < len(graph.boxes) <= MOST_BOXES:
        return ""
    places = _places(graph)
    width = max(x for x, _ in places.values()) + WIDTH + MARGIN
    height = max(y for _, y in places.values()) + HEIGHT + MARGIN
    arrows = "".join(_arrow(places[one.source], places[one.target], one) for one in graph.arrows)
    boxes = "".join(_box(box, *places[box.name]) for box in graph.boxes)
    for drawing in below:
        boxes += f'<g transform="translate(0 {height:g})">{drawing.markup}</g>'
        width, height = max(width, drawing.width), height + drawing.height
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="max-width: 100%">{_HEAD}{boxes}{arrows}</svg>'


_HEAD = (
    "<style>.tidemill-plan text {font: 12px sans-serif; fill: #222; text-anchor: middle}"
    ".tidemill-plan text.note {font-size: 10px; fill: #555}</style>"
    '<defs><marker id="tidemill-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>'
)


def _places(graph: ProgramGraph) -> dict[str, Place]:
    """The upper left corners of boxes: each to the right of those that it is made of, or reads, as far as can be."""
    before: dict[str, list[str]] = {box.name: [] for box in graph.boxes}
    for one in graph.arrows:
        if one.source != one.target:
            before[one.target].append(one.source)
    columns: dict[int, list[str]] = {}
    ranks = _ranks(before)
    for name in before:
        columns.setdefault(ranks[name], []).append(name)
    tallest = max(map(len, columns.values()))
    places: dict[str, Place] = {}
    for rank in sorted(columns):
        held = [*columns[rank]]
        held.sort(key=lambda name: fmean([places[p][1] for p in before[name] if p in places] or [0]))
        top = MARGIN + (tallest - len(held)) * (HEIGHT + BELOW) / 2
        for number, name in enumerate(held):
            places[name] = (MARGIN + rank * (WIDTH + ACROSS), top + number * (HEIGHT + BELOW))
    return places


def _ranks(before: Mapping[str, list[str]]) -> dict[str, int]:
    """The column of each box: one after the last of those before it. Cycles, of recursion, end where they began."""
    ranks: dict[str, int] = {}

    def rank(name: str, above: frozenset[str]) -> int:
        if name not in ranks:
            inner = above | {name}
            ranks[name] = max((rank(one, inner) + 1 for one in before[name] if one not in inner), default=0)
        return ranks[name]

    for name in before:
        rank(name, frozenset())
    return ranks


def _box(box: Box, x: float, y: float) -> str:
    middle = x + WIDTH / 2
    note = f"{box.kind} {box.note}".strip()
    rounded = 3 if box.kind == "table" else 10
    return (
        f'<g class="tidemill-plan"><title>{escape(box.name)}\n{escape(note)}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="{rounded}" '
        f'fill="{_FILLS.get(box.kind, "#eee")}" stroke="#888"/>'
        f'<text x="{middle:g}" y="{y + 19:g}">{escape(_short(box.name))}</text>'
        f'<text x="{middle:g}" y="{y + 35:g}" class="note">{escape(_short(note, LETTERS + 6))}</text></g>'
    )


def _arrow(source: Place, target: Place, arrow: Arrow) -> str:
    """A curve from the right of a box to the left of another; a dashed one where rows are only looked up."""
    (x, y), (to_x, to_y) = (source[0] + WIDTH, source[1] + HEIGHT / 2), (target[0], target[1] + HEIGHT / 2)
    bend = max(ACROSS / 2, abs(to_x - x) / 2)
    dashes = ' stroke-dasharray="4 3"' if arrow.looked_up else ""
    # Arrows are drawn over the boxes between, which stay readable.
    curve = f"M{x:g} {y:g}C{x + bend:g} {y:g} {to_x - bend:g} {to_y:g} {to_x:g} {to_y:g}"
    return f'<path d="{curve}" fill="none" stroke="#666" stroke-opacity="0.7"{dashes} marker-end="url(#tidemill-tip)"/>'


def _short(text: str, most: int = LETTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
