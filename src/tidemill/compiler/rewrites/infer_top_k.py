"""Window functions filtered by a bound on the rank, as a top-k of each partition.

``ROW_NUMBER() <= k`` keeps the first k rows of a partition, ``RANK() <= k`` these and their peers. A window recomputes
all rows of a touched partition; a top-k reads only its first rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Cast, Column, Literal, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, TopK, Window
from tidemill.algebra.relational.walk import children, columns_in, with_children, with_subqueries
from tidemill.algebra.relational.windows import WindowCall
from tidemill.compiler.analysis.failures import is_exact
from tidemill.compiler.analysis.filters import filtered


def infer_top_k(relation: Relation) -> Relation:
    """``relation`` without unread window functions, and with a top-k in place of a bounded rank."""
    return _visited(relation, None)


def _visited(node: Relation, read: set[str] | None) -> Relation:
    """``node`` rewritten, given that only its columns ``read`` are read; None means all."""
    node = with_subqueries(node, lambda subquery: replace(subquery, relation=_visited(subquery.relation, None)))
    match node:
        case Project(input=input_, outputs=outputs):
            needed = tuple(output for output in outputs if read is None or output.name in read) or outputs[:1]
            below = set().union(*(columns_in(output.scalar) for output in needed))
            return Project(_visited(input_, below), needed)
        case Filter(input=Window() as window, condition=condition):
            return _bounded(_needed(window, read, condition), condition, read)
        case Window():
            kept = _needed(node, read)
            return _below(kept) if isinstance(kept, Window) else _visited(kept, read)
    return _below(node)


def _below(node: Relation) -> Relation:
    """``node`` with its inputs visited. Below a window or top-k all columns are read, since they order ties."""
    return with_children(node, [_visited(child, None) for child in children(node)])


def _needed(window: Window, read: set[str] | None, *above: Scalar) -> Relation:
    """``window`` with only the functions that are read, also by ``above``; its input if none is."""
    if read is None:
        return window
    needed = read.union(*map(columns_in, above))
    calls = tuple(call for call in window.calls if call.name in needed)
    return replace(window, calls=calls) if calls else window.input


def _bounded(node: Relation, condition: Scalar, read: set[str] | None) -> Relation:
    """The rows of ``node`` for which ``condition`` holds, as a top-k if it bounds a rank."""
    if isinstance(node, Window):
        for call in node.calls:
            bounds = _Bounds.of(call, condition)
            if bounds is not None:
                return _top(node, call, bounds, condition, read)
    return Filter(_visited(node, None), condition)


def _top(window: Window, call: WindowCall, bounds: _Bounds, condition: Scalar, read: set[str] | None) -> Relation:
    """The rows within ``bounds``: a top-k, with the window above it if the rank is read."""
    input_ = _visited(window.input, None)
    first = TopK(input_, window.partition, window.order, bounds.last, ties=call.function == "rank")
    if read is not None and read.union(*map(columns_in, bounds.rest)).isdisjoint(one.name for one in window.calls):
        skipped = bounds.first - 1
        left = None if bounds.last is None else max(bounds.last - skipped, 0)
        return filtered(replace(first, limit=left, offset=skipped), *bounds.rest)
    if bounds.last is not None and all(map(_ignores_later_rows, window.calls)):
        return filtered(replace(window, input=first), *bounds.lower, *bounds.rest)
    return Filter(replace(window, input=input_), condition)


def _ignores_later_rows(call: WindowCall) -> bool:
    """True if a function does not depend on later rows."""
    match call.function, call.arguments:
        case (("row_number" | "rank" | "dense_rank"), _):
            return True
        case "lag", (_, Literal(value=offset), _):
            return bool(offset >= 0)
    return False


# ------------------------------------------------------------------------------------------------------------- bounds


RankBounds = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The ranks, from 1, that a condition allows.

    ``lower`` are its conjuncts that bound the rank from below, ``rest`` those that do not mention it.
    """

    first: int
    last: int | None
    lower: tuple[Scalar, ...]
    rest: tuple[Scalar, ...]

    @classmethod
    def of(cls, call: WindowCall, condition: Scalar) -> _Bounds | None:
        """The bounds of ROW_NUMBER or RANK in ``condition``; None if it has none that a top-k can apply."""
        if call.function not in ("row_number", "rank"):
            return None
        lower: list[Scalar] = []
        rest: list[Scalar] = []
        first, last = 1, None
        for part in conjuncts(condition):
            least, most = _places(part, call.name)
            if least is not None:
                lower.append(part)
                first = max(first, least)
            if most is not None:
                last = most if last is None else min(last, most)
            if least is None and most is None:
                rest.append(part)
        # Peers have the same rank, so a top-k by rank has no offset.
        if (call.function == "rank" and first > 1) or (first == 1 and last is None):
            return None
        return cls(first, None if last is None else max(last, 0), tuple(lower), tuple(rest))


def _places(condition: Scalar, name: str) -> RankBounds:
    """The first and the last rank for which ``condition`` holds; no bounds if it is another condition."""
    match condition:
        case Call(function, (left, Literal(value=int() as place))) if _column(left) == name:
            return _RANGES[function](place) if function in _RANGES else (None, None)
        case Call(function, (Literal(value=int() as place), right)) if _column(right) == name:
            return _RANGES[_TURNED[function]](place) if function in _TURNED else (None, None)
    return None, None


def _column(scalar: Scalar) -> str | None:
    """The name of the column ``scalar``, possibly cast to a wider type; None if it is another expression."""
    while isinstance(scalar, Cast) and is_exact(scalar):
        scalar = scalar.input
    return scalar.name if isinstance(scalar, Column) else None


_RANGES: dict[str, Callable[[int], RankBounds]] = {
    "eq": lambda place: (place, place),
    "le": lambda place: (None, place),
    "lt": lambda place: (None, place - 1),
    "ge": lambda place: (place, None),
    "gt": lambda place: (place + 1, None),
}

_TURNED = {"eq": "eq", "le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}
"""Each comparison with its sides exchanged."""
