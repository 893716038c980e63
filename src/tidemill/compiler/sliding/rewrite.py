"""Sliding windows made by the method that suits them: the rewrite that the compiler calls."""

from __future__ import annotations

from tidemill.algebra.layers import Layered
from tidemill.algebra.relations import Relation
from tidemill.algebra.walk import children, with_children
from tidemill.compiler.sliding.choose import Choice, choose
from tidemill.compiler.sliding.methods import made_by
from tidemill.compiler.sliding.partials import partials
from tidemill.compiler.sliding.window import find_window
from tidemill.model.errors import Unsupported


def sliding(view: str, relation: Relation, method: str = "auto") -> tuple[Relation, dict[str, Choice]]:
    """``relation`` with its windows made by ``method``, and for each which one that was and why."""
    choices: dict[str, Choice] = {}

    def rewritten(node: Relation) -> Relation:
        node = with_children(node, [rewritten(child) for child in children(node)])
        window = find_window(node) if isinstance(node, Layered) else None
        if window is None or window.length == 1:
            return node
        kept = partials(window.groups)
        choice = choices[window.node.name] = choose(view, method, window.length, kept)
        return made_by(choice.method, window, None if isinstance(kept, str) else kept)

    made = rewritten(relation)
    if method != "auto" and not choices:
        raise Unsupported(
            f'view "{view}" has no sliding window for method "{method}"',
            detail="A window groups the last so many partitions of one table or view, and nothing else.",
            hint="Leave the option method out.",
        )
    return made, choices
