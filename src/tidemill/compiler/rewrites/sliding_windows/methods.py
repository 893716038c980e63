"""The methods to compute the partitions of a sliding window, as time-partitioned relations.

Each corresponds to a ViewDF of the thesis: ``p`` are the partials of one slide (its aux3), ``v`` the rows of windows,
``n`` the length of the window in slides.

==========  ==============================================================  =====================================
method      ``v[i]``                                                        reads for each slide
==========  ==============================================================  =====================================
direct      the groups of ``s[i-n+1..i]``                                   the rows of the window
panes       ``p[i-n+1] + ... + p[i]``                                       n partitions of partials
prefix      ``a[i] - a[i-n]`` where ``a[i] = a[i-1] + p[i]``                4, of all groups that ever were
subtract    ``v[i-1] + p[i] - p[i-n]``                                      3
intervals   ``h0[i] + h3[i-1] + ...`` for the binary digits of n, where     2 for each power of two, and 1 for each
            ``hk[i] = hk-1[i] + hk-1[i-2**(k-1)]`` are 2**k slides          digit: at most 3 log n
rolling     the groups of ``s[i-n+1..i]``, from what is kept in memory of   the rows of 2 slides
            ``s[i-n..i-1]`` by a change that brings ``s[i]`` and takes
            ``s[i-n]`` away
==========  ==============================================================  =====================================

Only sums can be subtracted, so ``prefix`` and ``subtract`` are for sums alone. ``rolling`` supports all aggregates,
since it keeps the values of a group in order; on Spark it is ``direct``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project
from tidemill.algebra.relational.time_partitions import PartitionedInput, PartitionSlice, Subscript, TimePartitioned
from tidemill.compiler.analysis.filters import filtered
from tidemill.compiler.rewrites.sliding_windows.find_window import GroupedWindow
from tidemill.compiler.rewrites.sliding_windows.partials import Partials


@dataclass(frozen=True, slots=True)
class SlidesAgo:
    """The partials of ``feed`` so many slides ago, or of the ``last`` so many until then; ``negative``: subtracted."""

    feed: str
    slides: int = 0
    negative: bool = False
    last: int = 1

    @property
    def slice_(self) -> PartitionSlice:
        """The slice that a body reads."""
        return PartitionSlice(self.feed, Subscript(plus=1 - self.last - self.slides), Subscript(plus=-self.slides))


@dataclass(frozen=True, slots=True)
class WindowBuilder:
    """A window and its partials; builds time-partitioned relations whose rows are partials."""

    window: GroupedWindow
    kept: Partials

    def panes(self) -> TimePartitioned:
        """The partials of each slide."""
        feed, slice_ = self.window.in_slides()
        rows = self.kept.of(self.window.grouped(slice_))
        return TimePartitioned(self._called("panes"), self.window.node.every, (feed,), (slice_,), rows, rows)

    def sum_of(
        self, called: str, sources: Sequence[TimePartitioned], terms: Sequence[SlidesAgo], first: Sequence[SlidesAgo]
    ) -> TimePartitioned:
        """Partitions that are sums of ``terms``: of partitions of ``sources``, or of earlier ones of their own."""
        feeds = tuple(PartitionedInput(source.name, source, source.every) for source in sources)
        slices = tuple(dict.fromkeys(term.slice_ for term in (*terms, *first)))
        initialize, update = (self.kept.merged((t.slice_.name, t.negative) for t in part) for part in (first, terms))
        return TimePartitioned(called, self.window.node.every, (*self.window.clock, *feeds), slices, initialize, update)

    def named(self, called: str, *sources: TimePartitioned, terms: Sequence[SlidesAgo]) -> TimePartitioned:
        """Sums that read no earlier partitions of their own."""
        return self.sum_of(self._called(called), sources, terms, terms)

    def rows(self, windows: TimePartitioned) -> Relation:
        """The rows of the view, from the partials of its windows."""
        above = self.window.above.over(dict(self.kept.values))
        held = filtered(windows, above.condition)
        return Project(held, (Named(windows.fields[0].name, column(windows.fields[0])), *above.outputs))

    def _called(self, what: str) -> str:
        return f"{self.window.node.name} {what}"


def panes(making: WindowBuilder) -> Relation:
    """All partials of the window, added up for each slide."""
    return making.rows(_windows_of_panes(making))


def prefix(making: WindowBuilder) -> Relation:
    """The prefix sums up to now minus those up to the start of the window."""
    panes = making.panes()
    name = f"{making.window.node.name} prefixes"
    prefixes = making.sum_of(name, [panes], [SlidesAgo(name, 1), SlidesAgo(panes.name)], [SlidesAgo(panes.name)])
    ends = [SlidesAgo(name), SlidesAgo(name, making.window.length, negative=True)]
    return making.rows(making.named("windows", prefixes, terms=ends))


def subtract(making: WindowBuilder) -> Relation:
    """The previous window plus the new slide minus the expired one."""
    panes = making.panes()
    name = f"{making.window.node.name} windows"
    moved = [SlidesAgo(name, 1), SlidesAgo(panes.name), SlidesAgo(panes.name, making.window.length, negative=True)]
    return making.rows(making.sum_of(name, [panes], moved, [SlidesAgo(panes.name)]))


def intervals(making: WindowBuilder) -> Relation:
    """Intervals of one, two, four ... slides, each the sum of two of half its size."""
    stretches = [making.panes()]
    for power in range(1, making.window.length.bit_length()):
        half = stretches[-1].name
        stretches.append(
            making.named(f"x{2**power}", stretches[-1], terms=[SlidesAgo(half), SlidesAgo(half, 2 ** (power - 1))])
        )
    used, terms, ago = [], [], 0
    for power, stretch in enumerate(stretches):
        if making.window.length >> power & 1:
            used.append(stretch)
            terms.append(SlidesAgo(stretch.name, ago))
            ago += 2**power
    return making.rows(making.named("windows", *used, terms=terms))


def rolling(making: WindowBuilder) -> Relation:
    """All partials of the window; a slide adds one and removes one."""
    return making.rows(replace(_windows_of_panes(making), rolls=True))


def _windows_of_panes(making: WindowBuilder) -> TimePartitioned:
    panes = making.panes()
    return making.named("windows", panes, terms=[SlidesAgo(panes.name, last=making.window.length)])


METHODS: dict[str, Callable[[WindowBuilder], Relation]] = {
    "panes": panes,
    "prefix": prefix,
    "subtract": subtract,
    "intervals": intervals,
    "rolling": rolling,
}
"""The methods by name; ``direct`` leaves the window as it is."""

INVERTIBLE = frozenset(("prefix", "subtract"))
"""The methods that subtract partials."""

OVER_ROWS = ("direct", "rolling")
"""The methods that need no partials."""


def made_by(method: str, window: GroupedWindow, kept: Partials | None) -> Relation:
    """The window computed by ``method``; without partials, from its rows."""
    if method == "direct" or kept is None:
        return replace(window.node, rolls=method == "rolling")
    return METHODS[method](WindowBuilder(window, kept))
