"""Strategies, by which stages are maintained: one declaration in one file each, none imports another.

- ``strategy``: ``Strategy``: what it accepts, its options, its cost and its compile function
- ``delta``: first-order deltas
- ``recompute``: the whole stage again, the baseline
- ``viewlet``: higher-order deltas (DBToaster)
- ``joingraph``: one compact map for each relation of a join, walked by a change (GraphIVM)
- ``lineage``: each row with the keys of the rows that it comes from (MOVIE)
- ``partition``: each time partition from a few others (ViewDF)
"""

from tidemill.compiler.strategies import delta, joingraph, lineage, partition, recompute, viewlet
from tidemill.compiler.strategies.strategy import Strategy

DEFAULT = delta.STRATEGY
"""The strategy of ``auto``, and of a stage that the chosen strategy does not accept."""

STRATEGIES: dict[str, Strategy] = {
    one.name: one
    for one in (
        delta.STRATEGY,
        recompute.STRATEGY,
        viewlet.STRATEGY,
        joingraph.STRATEGY,
        lineage.STRATEGY,
        partition.STRATEGY,
    )
}
"""Every strategy that a view can ask for by name."""
