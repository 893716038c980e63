"""Views beside their recomputation: what must hold, whatever keeps them fresh."""

from __future__ import annotations

from contextlib import suppress

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.matching.match import Match
from tidemill.algebra.relations import Aggregate, Relation, TopK, Window
from tidemill.algebra.walk import walk_all
from tidemill.algebra.windows import LISTS, OFFSETS, RANKINGS, VALUES, WindowCall
from tidemill.changes.zset import ZSet
from tidemill.compiler.rewrites.normalize import normalize
from tidemill.engine.catalog import View
from tidemill.engine.compare import differences
from tidemill.engine.engine import Engine
from tidemill.engine.results import Verification
from tidemill.model.errors import Unsupported
from tidemill.program.graph import Serve

OPEN_AGGREGATES = frozenset(("array_agg", "string_agg", "mode", "min_by", "max_by"))
"""Lists, whose order is not fixed or not to the last, and picks of which several may be equally right."""


def verify(engine: Engine, name: str) -> Verification:
    """A view beside its recomputation from the base tables, as of the epoch that it shows."""
    with engine.settled():
        view = engine.catalog.view(name)
        actual, expected = engine.contents(view.name).zset(), recompute(engine, name)
        missing, extra = differences(expected, actual, view.fields)
        return Verification(view.name, sum(actual.values()), missing, extra)


def recompute(engine: Engine, name: str) -> ZSet:
    """A view from the base tables alone, as of the epoch that it shows: by Spark itself, or by the evaluator."""
    with engine.settled():
        view = engine.catalog.view(name)
        until = view.fresh if view.refresh.deferred else None
        if until is None and not _is_ours(engine, view) and _is_on_spark(engine, view):
            with suppress(Unsupported):  # Spark takes fewer kinds of subqueries than the evaluator
                return engine.placement.spark.recompute(view.query, _definitions(engine, view)).zset()
        return _recompute(engine, view, until)


def _is_ours(engine: Engine, view: View) -> bool:
    """Whether only we can say what the rows of a view are, and not Spark.

    Where SQL leaves that open, Spark's choice is as good as ours and may differ. Tables of sources it does not know,
    nor views by partitions.
    """
    if view.cores or view.partitioning or leaves_open(view.relation) or "any_value" in view.query.lower():
        return True
    return any(_is_ours(engine, engine.catalog.views[name]) for name in view.inputs if name in engine.catalog.views)


def leaves_open(relation: Relation) -> bool:
    """Whether ``relation`` depends on an order that it does not fix: of values in a list, or of rows that tie.

    >>> from tidemill.algebra.relations import Scan
    >>> from tidemill.model.types import INT, Field
    >>> rows = Scan("t", "t", (Field("a", INT),))
    >>> leaves_open(rows), leaves_open(TopK(rows, (), (), limit=3))
    (False, True)
    """
    return any(
        isinstance(node, TopK)
        or (isinstance(node, Aggregate) and any(call.function in OPEN_AGGREGATES for call in node.aggregates))
        or (isinstance(node, Window) and any(map(_counts_rows, node.calls)))
        or isinstance(node, Match)
        for node in walk_all(relation)
    )


def _counts_rows(call: WindowCall) -> bool:
    """Whether a window function tells rows apart that tie."""
    if call.function in RANKINGS:
        return call.function in ("row_number", "ntile")
    over_rows = call.frame.rows and (call.frame.start, call.frame.end) != (None, None)
    return over_rows or call.function in OFFSETS | VALUES | LISTS


def _is_on_spark(engine: Engine, view: View) -> bool:
    work = sum(engine.store.rows(name) for name in _definitions(engine, view))
    return engine.placement.choose(work, view.options.get("runtime", "auto"))[0] == "spark"


def _recompute(engine: Engine, view: View, until: int | None) -> ZSet:
    """The view by the plain evaluator: views that it reads are computed anew as well, from tables alone."""
    inputs = {}
    for name in view.inputs:
        below = _below(engine, name, view)
        if below is None or below.refresh.deferred:
            inputs[name] = engine.contents(name, until).zset()
        else:
            inputs[name] = _recompute(engine, below, until)
    return evaluate(normalize(view.relation), inputs)


def _definitions(engine: Engine, view: View) -> dict[str, str | None]:
    """What the view stands on, lowest first: a view's query, or None for rows to be taken as stored."""
    found: dict[str, str | None] = {}
    for name in view.inputs:
        below = _below(engine, name, view)
        if below is None or below.refresh.deferred:
            found[name] = None
        else:
            found.update(_definitions(engine, below))
            found[name] = below.query
    return found


def _below(engine: Engine, name: str, reader: View) -> View | None:
    """The view of that name, or None where it is a table; refused where it is a stream to its reader."""
    below = engine.catalog.views.get(name)
    if below is None:
        table = engine.catalog.table(name)
        if not table.kept:
            raise _unverifiable(reader, f'the stream "{name}", whose rows are not kept', "Declare it as a TABLE")
        if table.forgets:
            raise _unverifiable(reader, f'"{name}", which forgets rows (RETAIN)', "Leave RETAIN out")
    elif below.serve is Serve.SUBSCRIBE:
        raise _unverifiable(reader, f'the changes of "{name}", whose rows are not kept', "Serve it with 'both'")
    return below


def _unverifiable(view: View, read: str, remedy: str) -> Unsupported:
    return Unsupported(
        f'view "{view.name}" cannot be verified', detail=f"It reads {read}.", hint=f"{remedy} while you test."
    )
