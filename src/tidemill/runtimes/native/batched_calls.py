"""Calls of functions of batches, made for all rows of a loop at once before it runs.

A function of pandas Series or Arrow arrays costs some hundred microseconds a call, whatever the number of its rows. The
loops of a query call functions row by row, so the calls whose arguments are columns of its outermost loop are made
beforehand, once for the distinct arguments, and the loop finds their values. Where the whole batch fails, nothing is
known beforehand: then each row is called for itself, since a row that fails may be one that the query leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.scalars import Call, Column, Scalar
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.relational.walk import columns_in, walk
from tidemill.algebra.user_functions import UserFunction, is_registered
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.types import Field
from tidemill.program.reads import queries_of
from tidemill.program.statements import ArrayLoop, MapRead, MapSeek, Query, RelationLoop, Step, Trigger, Version
from tidemill.runtimes.native.python.access import Access, AccessForm, RowShapes

FEW_ROWS = 8
"""Number of rows up to which calls are made one by one."""


@dataclass(frozen=True, slots=True)
class BatchedCall:
    """A call of ``function`` for the rows of the outermost loop, whose columns have these names and positions."""

    function: UserFunction
    call: Call

    def arguments(self, places: dict[str, int]) -> Callable[[Row], Row]:
        """The arguments of the call as a function of a row."""
        scalars = self.call.arguments
        if all(isinstance(scalar, Column) for scalar in scalars):
            positions = [places[scalar.name] for scalar in scalars if isinstance(scalar, Column)]
            return lambda row: tuple([row[position] for position in positions])
        read = {name: places[name] for name in columns_in(self.call)}

        def computed(row: Row) -> Row:
            values = {name: row[position] for name, position in read.items()}
            return tuple([evaluate_scalar(scalar, values) for scalar in scalars])

        return computed


def batched_calls(query: Query) -> tuple[BatchedCall, ...]:
    """The calls of registered functions that can be made for all rows of the outermost loop, inner calls first."""
    if not query.sources or not isinstance(query.sources[0], RelationLoop):
        return ()
    first = query.sources[0]
    known = {f"{first.alias}.{field.name}" for field in first.columns}
    found: dict[Call, BatchedCall] = {}
    for scalar in _scalars(query):
        for node in reversed(list(walk(scalar))):
            if not isinstance(node, Call) or not is_registered(node.function):
                continue
            function = FUNCTIONS[node.function].apply
            if isinstance(function, UserFunction) and columns_in(node) <= known:
                found[node] = BatchedCall(function, node)
    return tuple(found.values())


def _scalars(query: Query) -> Iterator[Scalar]:
    yield from (output.scalar for output in query.outputs)
    yield from query.filters
    yield from () if query.weight is None else (query.weight,)
    for step in query.sources:
        yield from _step_scalars(step)


def _step_scalars(step: Step) -> Iterator[Scalar]:
    yield from step.filters
    yield from (scalar for _, scalar in step.lookup)
    match step:
        case ArrayLoop(array=array):
            yield array
        case MapSeek(condition=condition):
            yield condition
        case MapRead(range=range_) if range_ is not None:
            yield from (bound.scalar for bound in (range_.lower, range_.upper) if bound is not None)


class LoopRoutine(Protocol):
    """A compiled query: what it reads, and the calls that can be made for all rows of its outermost loop."""

    @property
    def query(self) -> Query: ...
    @property
    def accesses(self) -> tuple[Access, ...]: ...
    @property
    def shapes(self) -> RowShapes: ...
    @property
    def batched(self) -> tuple[BatchedCall, ...]: ...
    @property
    def run(self) -> Callable[..., None]: ...


def loop_calls_made(routine: LoopRoutine, given: list[Any]) -> AbstractContextManager[None]:
    """The calls for the rows of the outermost loop of ``routine`` among what it is ``given``.

    Rows that can be read only once are replaced by a list.
    """
    first = routine.query.sources[0]
    assert isinstance(first, RelationLoop)
    rows: list[Row] = []
    for place, access in enumerate(routine.accesses):
        same = (access.relation, access.version) == (first.relation, first.version)
        same = same and access.form in (AccessForm.ROWS, AccessForm.ELEMENTS, AccessForm.NUMBERED)
        if same and (access.part is None) == (first.split is None):
            given[place] = list(given[place])
            rows = [row for row, _ in given[place]]
    return query_calls_made(routine.query, routine.batched, routine.shapes.fields(first.relation), rows)


def run_with_calls(routine: LoopRoutine, sums: dict[Row, Any], *given: Any) -> None:
    """Run ``routine`` once its calls have been made."""
    rows = list(given)
    with loop_calls_made(routine, rows):
        routine.run(sums, *rows)


@contextmanager
def row_calls_made(routines: Iterable[LoopRoutine], change: ChangeSet) -> Iterator[None]:
    """The calls of ``routines`` for all rows of a change, which will come to them one by one."""
    with ExitStack() as made:
        for routine in routines:
            given = [change.pairs() if access.changes else () for access in routine.accesses]
            made.enter_context(loop_calls_made(routine, given))
        yield


@contextmanager
def query_calls_made(
    query: Query, calls: Sequence[BatchedCall], fields: Sequence[Field], rows: Sequence[Row]
) -> Iterator[None]:
    """Within this context the ``calls`` for ``rows`` of the outermost loop have been made, if there are several."""
    made = [one for one in calls if one.function.batch is not None] if len(rows) > FEW_ROWS else []
    first = query.sources[0] if query.sources else None
    alias = first.alias if first is not None else ""
    places = {f"{alias}.{field.name}": place for place, field in enumerate(fields)}
    try:
        for one in made:
            arguments = one.arguments(places)
            types = [argument.type for argument in one.call.arguments]
            with suppress(Exception):  # a row that the query leaves out may be the one that fails
                one.function.call_batch(types, dict.fromkeys(map(arguments, rows)))
        yield
    finally:
        for one in made:
            one.function.forget_batch()


class TriggerCalls:
    """The calls of registered functions in the queries of a trigger, over the rows of a change."""

    def __init__(self, trigger: Trigger) -> None:
        queries = (query for statement in trigger.statements for query in queries_of(statement))
        found = ((query, batched_calls(query)) for query in queries if _loops_over_change(query))
        self._calls = [(query, calls) for query, calls in found if calls]

    @contextmanager
    def made(self, change: ChangeSet) -> Iterator[None]:
        """Within this context the calls for all rows of ``change`` have been made."""
        if not self._calls or change.rows <= FEW_ROWS:
            yield
            return
        rows = [row for row, _ in change.pairs()]
        with ExitStack() as all_made:
            for query, calls in self._calls:
                all_made.enter_context(query_calls_made(query, calls, change.fields, rows))
            yield


def _loops_over_change(query: Query) -> bool:
    first = query.sources[0] if query.sources else None
    return isinstance(first, RelationLoop) and first.version is Version.CHANGE
