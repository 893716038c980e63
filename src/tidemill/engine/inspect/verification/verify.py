"""Verification: a view must equal its recomputation, whatever its strategy and runtime.

The recomputation is done by an *oracle*, which a ``Verification`` names:

- Spark, with the original text of the view, over the rows of the base tables. It shares neither parser nor types with
  Tidemill, so it can detect that a text was misread.
- Spark, with the translated algebra: if Spark does not accept the text (extensions, user-defined functions), or if SQL
  leaves open which rows are correct and Spark chose others.
- DuckDB, in this process, with the translated algebra over the stored columns: if all of it has a translation that
  gives Spark's answers. It shares no state and no operator with what maintains the view.
- The evaluator, in this process: the definition of the algebra, and fast for small tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS, function_of
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Aggregate, TopK, Window, With
from tidemill.algebra.relational.walk import walk_all
from tidemill.algebra.relational.windows import OFFSETS, RANKINGS, VALUES, WindowCall
from tidemill.algebra.user_functions import functions_in
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import OqlText
from tidemill.compiler.passes import compile_view
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.engine.catalog.entries.oql_queries import as_oql
from tidemill.engine.catalog.views.view import RuntimeNeeds, View
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.verification.differences import differences
from tidemill.engine.quarantine.notes import hearing, tell_reader
from tidemill.engine.results import Verification
from tidemill.model.errors import SetupError, Unsupported
from tidemill.model.types import Field
from tidemill.program.joingraph import Serve
from tidemill.program.reads import row_wise
from tidemill.program.stages import Program, Stage
from tidemill.runtimes.runtime import NotAnswered

SPARK, DUCKDB, EVALUATOR = "spark", "duckdb", "evaluator"
ORACLES = (SPARK, DUCKDB, EVALUATOR)
"""The oracles a view can be verified against.

By default small views use the evaluator, and larger ones DuckDB, or Spark where DuckDB has no translation."""

OWN_TEXT = "Spark, by the view's own text"
TRANSLATED = "Spark, by the view's translation"
BY_DUCKDB = "DuckDB, by the view's translation"
IN_PROCESS = "the evaluator"


@dataclass(frozen=True)
class Recomputation:
    """The rows that a view must have, the oracle, and their columns if the oracle determines these itself."""

    rows: ZSet
    oracle: str
    fields: Sequence[Field] | None = None


def verify(engine: Engine, name: str, against: str | None = None) -> Verification:
    """Compare a view with its recomputation from the base tables, as of the epoch that it shows; see ``ORACLES``."""
    if against not in (None, *ORACLES):
        raise SetupError(f'views cannot be verified against "{against}"', hint=f"Use one of {', '.join(ORACLES)}.")
    with engine.settled():
        view = engine.catalog.view(name)
        with hearing():
            found = _verified(engine, view, against)
        notes = engine.notes([view.name])
        tell_reader(notes)
        return replace(found, notes=notes)


def _verified(engine: Engine, view: View, against: str | None) -> Verification:
    expected = _answer(engine, view, against)
    actual = _actual(engine, view, expected.oracle)
    found = _compared(view, actual, expected)
    if not found.ok and found.oracle == OWN_TEXT and _is_open(engine, view):
        found = _compared(view, actual, _translated(engine, view))
    return found


def _actual(engine: Engine, view: View, oracle: str) -> ZSet:
    """The rows that a view shows. Beside DuckDB they are read from the store, so that Spark is not started for them."""
    if oracle == BY_DUCKDB:
        return ChangeSet.of_arrow(engine.reader.columns(view.name, view.fields), view.fields).zset()
    return engine.contents(view.name).zset()


def recompute(engine: Engine, name: str) -> ZSet:
    """Recompute a view from the base tables alone, as of the epoch that it shows, by the oracle for its size."""
    with engine.settled():
        view = engine.catalog.view(name)
        with hearing():
            found = _answer(engine, view, None)
        engine.tell([view.name])
        return found.rows


def _compared(view: View, actual: ZSet, expected: Recomputation) -> Verification:
    missing, extra = differences(expected.rows, actual, view.fields)
    columns = () if expected.fields is None else _retyped(view.fields, expected.fields)
    return Verification(view.name, sum(actual.values()), missing, extra, expected.oracle, columns)


def _retyped(ours: Sequence[Field], theirs: Sequence[Field]) -> tuple[str, ...]:
    """The columns whose types differ, with both."""
    if len(ours) != len(theirs):
        return (f"{len(theirs)} columns instead of {len(ours)}",)
    pairs = zip(ours, theirs, strict=True)
    return tuple(f"{a.name} is {a.type}, not {b.type}" for a, b in pairs if str(a.type).lower() != str(b.type).lower())


def _answer(engine: Engine, view: View, against: str | None) -> Recomputation:
    until = view.fresh if view.refresh.deferred else None
    if engine.state.quarantine.holds(view.name):
        return Recomputation(_evaluated(engine, view, until), IN_PROCESS)
    if against == DUCKDB:
        return _by_duckdb(engine, view, until)
    if against is None and engine.placement.answers_in_columns(*_work(engine, view)):
        with suppress(Unsupported):
            return _by_duckdb(engine, view, until)
    if against is None and _is_in_lake(engine, view):
        against = EVALUATOR
    if against is None:
        quick = until is not None or _is_open(engine, view) or not _is_on_spark(engine, view)
        against = EVALUATOR if quick or _is_beyond_spark(engine, view) else SPARK
    if against == EVALUATOR:
        return Recomputation(_evaluated(engine, view, until), IN_PROCESS)
    if not _is_beyond_spark(engine, view):
        with suppress(Unsupported):  # Spark supports fewer kinds of subqueries than the evaluator
            answer = engine.placement.dataframes.recompute(view.text, _definitions(engine, view, until))
            return Recomputation(answer.zset(), OWN_TEXT, answer.fields)
    return _translated(engine, view)


def _by_duckdb(engine: Engine, view: View, until: int | None) -> Recomputation:
    """The view computed by DuckDB from the translated algebra, over the stored columns of the base tables."""
    below = tuple(_relations_below(engine, view).items())
    relation = With(below, view.relation) if below else view.relation
    try:
        answer = engine.placement.answer_in_columns(relation, partial(engine.reader.columns, until=until))
    except NotAnswered as error:
        raise Unsupported(
            f'view "{view.name}" cannot be verified against DuckDB',
            detail=f"It is not certain to answer as Spark does: {error}.",
            hint='Use "spark" or "evaluator".',
        ) from error
    return Recomputation(answer.zset(), BY_DUCKDB)


def _relations_below(engine: Engine, view: View) -> dict[str, Relation]:
    """The definitions of the views that a view reads, lowest first; deferred ones are read as they are stored."""
    found: dict[str, Relation] = {}
    for name in view.inputs:
        below = _below(engine, name, view)
        if below is not None and not _is_behind(engine, below):
            found |= _relations_below(engine, below)
            found[name] = below.relation
    return found


def _translated(engine: Engine, view: View) -> Recomputation:
    """The view computed by Spark from the translated algebra; by the evaluator if Spark cannot express that."""
    until = view.fresh if view.refresh.deferred else None
    if until is None and not _is_in_lake(engine, view):
        program = Program(view.name, tuple(_stages(engine, view)))
        if not any(map(row_wise, program.stages)):
            with suppress(Unsupported):
                return Recomputation(engine.placement.dataframes.answer(program).zset(), TRANSLATED)
    return Recomputation(_evaluated(engine, view, until), IN_PROCESS)


def _stages(engine: Engine, view: View) -> Iterator[Stage]:
    """The stages that compute a view from the base tables; those of the views that it reads come first."""
    for name in view.inputs:
        below = _below(engine, name, view)
        if below is not None and not _is_behind(engine, below):
            yield from _stages(engine, below)
    yield from compile_view(view.name, view.relation, engine.catalog.tables, strategy="recompute").stages


def _is_beyond_spark(engine: Engine, view: View) -> bool:
    """True if Spark cannot run the text: it has source tables, partitions, OQL or user-defined functions."""
    if view.options.get("on_error") == "null":
        return True
    if view.remote_subplans or view.is_made_by_partitions or isinstance(as_oql(view.query, view.name), OqlText):
        return True
    if not functions_in(view.relation).isdisjoint(engine.registry.keys.values()):
        return True
    return any(_is_beyond_spark(engine, below) for below in _views_below(engine, view))


def _is_open(engine: Engine, view: View) -> bool:
    """True if SQL does not determine the rows of a view: then Spark's result may differ and still be correct."""
    if depends_on_row_order(view.relation) or "any_value" in view.query.lower():
        return True
    return any(_is_open(engine, below) for below in _views_below(engine, view))


def _is_in_lake(engine: Engine, view: View) -> bool:
    """True if rows that a view is recomputed from are in a lake table, and not in the store."""
    below = any(_is_in_lake(engine, one) for one in _views_below(engine, view))
    return below or any(map(engine.catalog.is_in_lake, view.inputs))


def _views_below(engine: Engine, view: View) -> list[View]:
    return [engine.catalog.views[name] for name in view.inputs if name in engine.catalog.views]


def depends_on_row_order(relation: Relation) -> bool:
    """True if ``relation`` depends on an order that it does not define: of values in a list, or of tied rows.

    >>> from tidemill.algebra.relational.relations import Scan
    >>> from tidemill.model.types import INT, Field
    >>> rows = Scan("t", "t", (Field("a", INT),))
    >>> depends_on_row_order(rows), depends_on_row_order(TopK(rows, (), (), limit=3))
    (False, True)
    """
    return any(
        isinstance(node, TopK)
        or (isinstance(node, Aggregate) and any(function_of(call).depends_on_order for call in node.aggregates))
        or (isinstance(node, Window) and any(map(_counts_rows, node.calls)))
        or isinstance(node, Match)
        for node in walk_all(relation)
    )


def _counts_rows(call: WindowCall) -> bool:
    """True if a window function distinguishes tied rows."""
    if call.function in RANKINGS:
        return call.function in ("row_number", "ntile")
    over_rows = call.frame.rows and (call.frame.start, call.frame.end) != (None, None)
    aggregate = AGGREGATE_FUNCTIONS.get(call.function)
    lists = aggregate is not None and aggregate.over_ordered is not None
    return over_rows or lists or call.function in OFFSETS | VALUES


def _is_on_spark(engine: Engine, view: View) -> bool:
    return engine.placement.is_on_spark(*_work(engine, view))


def _work(engine: Engine, view: View) -> tuple[int, RuntimeNeeds]:
    """The number of stored rows that a view is recomputed from, and the runtime that it asks for."""
    rows = sum(engine.store.rows(name) for name in _definitions(engine, view, None))
    return rows, RuntimeNeeds(view.runtime_needs.option)


def _evaluated(engine: Engine, view: View, until: int | None) -> ZSet:
    """The view computed by the evaluator: views that it reads are recomputed too, from tables alone."""
    inputs = {}
    for name in view.inputs:
        below = _below(engine, name, view)
        if below is None or _is_behind(engine, below):
            inputs[name] = engine.contents(name, until).zset()
        else:
            inputs[name] = _evaluated(engine, below, until)
    for name, change in engine.state.quarantine.hidden(view.name).items() if until is None else ():
        inputs[name] -= change.zset()  # what is held back from it
    return evaluate(push_down_filters(view.relation), inputs)


def _is_behind(engine: Engine, view: View) -> bool:
    """True if a view does not show all changes of its inputs, so that readers are compared with its own rows."""
    return view.refresh.deferred or engine.state.quarantine.holds(view.name)


def _definitions(engine: Engine, view: View, until: int | None) -> dict[str, str | ChangeSet | None]:
    """The relations below a view, lowest first: a view's query, rows as of an epoch, or None for stored rows."""
    found: dict[str, str | ChangeSet | None] = {}
    for name in view.inputs:
        below = _below(engine, name, view)
        if below is None or _is_behind(engine, below):
            stored = until is None and not engine.catalog.is_in_lake(name)
            found[name] = None if stored else engine.contents(name, until)
        else:
            found.update(_definitions(engine, below, until))
            found[name] = below.text
    return found


def _below(engine: Engine, name: str, reader: View) -> View | None:
    """The view of that name, or None for a table; refused if its reader reads it as a stream."""
    below = engine.catalog.views.get(name)
    if below is None:
        table = engine.catalog.table(name)
        if engine.catalog.is_stream(name):
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
