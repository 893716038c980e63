"""The pass that computes sliding windows by the chosen method."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import children, with_children
from tidemill.compiler.rewrites.sliding_windows.choose_method import ASSUMED, MethodChoice, choose_method
from tidemill.compiler.rewrites.sliding_windows.find_window import find_window
from tidemill.compiler.rewrites.sliding_windows.methods import made_by
from tidemill.compiler.rewrites.sliding_windows.partials import partials
from tidemill.compiler.statistics.sizes import WindowSizes
from tidemill.model.errors import Unsupported

NOTHING_KNOWN: Mapping[str, WindowSizes] = MappingProxyType({})


DRIFT = 1.5
"""Factor by which another method must be cheaper before a view takes it once its rows have changed."""


def drifted_sizes(
    view: str, relation: Relation, method: str, old: Mapping[str, WindowSizes], new: Mapping[str, WindowSizes]
) -> dict[str, WindowSizes]:
    """The sizes by which the windows of a view are to be made from now on.

    They are the ``new`` ones where another method is much cheaper by these than the one that the ``old`` ones chose.
    """
    before, after = (rewrite_sliding_windows(view, relation, method, sizes)[1] for sizes in (old, new))
    kept = dict(old)
    for name, sizes in new.items():
        now, then = after.get(name), before.get(name)
        if now is None or then is None or now.method == then.method or not now.costs:
            continue
        if now.costs.get(then.method, 0.0) >= DRIFT * now.costs[now.method]:
            kept[name] = sizes
    return kept


def rewrite_sliding_windows(
    view: str, relation: Relation, method: str = "auto", sizes: Mapping[str, WindowSizes] = NOTHING_KNOWN
) -> tuple[Relation, dict[str, MethodChoice]]:
    """``relation`` with its windows computed by ``method``, and the choice made for each, by their known ``sizes``."""
    choices: dict[str, MethodChoice] = {}

    def rewritten(node: Relation) -> Relation:
        node = with_children(node, [rewritten(child) for child in children(node)])
        window = find_window(node) if isinstance(node, TimePartitioned) else None
        if window is None or window.length == 1:
            return node
        kept = partials(window.groups)
        choice = choices[window.node.name] = choose_method(
            view, method, window.length, kept, sizes.get(window.node.name, ASSUMED)
        )
        return made_by(choice.method, window, None if isinstance(kept, str) else kept)

    made = rewritten(relation)
    if method != "auto" and not choices:
        raise Unsupported(
            f'view "{view}" has no sliding window for method "{method}"',
            detail="A sliding window groups the last n partitions of one table or view, and nothing else.",
            hint="Leave the option method out.",
        )
    return made, choices
