"""GROUP BY with a session as a stage: the sums at each instant, and the sessions that these form.

``GROUP BY key, session_window(time, gap)`` is an aggregate right above a window function, which a change of one row
would compute again for all rows of its session. As one stage it needs no rows at all: the sums of the rows at each
instant are enough, since a session is a range of instants (see ``program.stages.SessionEmission``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import needs_multiset
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Project, Repeat, Window
from tidemill.algebra.relational.walk import columns_in, subqueries, substitute, transform
from tidemill.algebra.relational.windows import SESSION
from tidemill.compiler.analysis.post_aggregation import PostAggregation
from tidemill.compiler.analysis.rename import fresh
from tidemill.model.types import BIGINT, TIMESTAMP, Field
from tidemill.program.maps import Map, RingField


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys of an aggregate by sessions: the columns that a session is equal in, its time, and its gap.

    ``session`` is the key that is the session itself, and ``condition`` one on sessions that was pushed below.
    """

    window: Window
    others: tuple[Named, ...]
    session: Named
    time: Scalar
    gap: int
    condition: Scalar | None = None

    def present_rows(self, aggregates: Iterable[AggregateCall]) -> Relation:
        """The rows with the columns that are read of them, each as often as its weight says if that is positive."""
        read = [*(key.scalar for key in self.others), self.time, *(s for each in aggregates for s in each.scalars)]
        names = {name for scalar in read for name in columns_in(scalar)}
        columns = tuple(Named(f.name, column(f)) for f in self.window.input.fields if f.name in names)
        times = AggregateCall(fresh("times", names), "count", None, BIGINT)
        counted = Aggregate(Project(self.window.input, columns), columns, (times,))
        return Project(Repeat(counted, Column(times.name, BIGINT, nullable=False)), columns)

    def aggregate_over(self, node: Aggregate, rows: Relation) -> Aggregate:
        """The aggregate ``node``, which has these keys, over other rows."""
        window: Relation = replace(self.window, input=rows)
        return replace(node, input=window if self.condition is None else Filter(window, self.condition))

    def counts_rows(self, aggregates: Iterable[AggregateCall]) -> bool:
        """True if nothing is read of a row but its key and its time, which are columns."""
        known = [*(key.scalar for key in self.others), self.time]
        names = {scalar.name for scalar in known if isinstance(scalar, Column)}
        read = {name for each in aggregates for scalar in each.scalars for name in columns_in(scalar)}
        return len(names) == len(known) and read <= names


def session_keys(node: Aggregate) -> SessionKeys | None:
    """The keys of an aggregate right above the window function of its sessions; None for any other aggregate.

    Its aggregates must be sums, and its other keys those by which the sessions are partitioned.
    """
    condition = node.input.condition if isinstance(node.input, Filter) else None
    window = node.input.input if isinstance(node.input, Filter) else node.input
    if not isinstance(window, Window) or any(map(needs_multiset, node.aggregates)):
        return None
    match window.calls, window.order:
        case (one,), (order,) if one.function == SESSION and not order.descending:
            pass
        case _:
            return None
    match one.arguments:
        case (time, Literal(value=int(gap))) if time == order.scalar and time.type == TIMESTAMP:
            pass
        case _:
            return None
    itself = [key for key in node.keys if isinstance(key.scalar, Column) and key.scalar.name == one.name]
    others = tuple(key for key in node.keys if key not in itself)
    read = [*(key.scalar for key in others), *(scalar for each in node.aggregates for scalar in each.scalars)]
    if len(itself) != 1 or any(one.name in columns_in(scalar) for scalar in read):
        return None
    if {key.scalar for key in others} != set(window.partition):
        return None
    if condition is not None and (columns_in(condition) != {one.name} or subqueries(condition)):
        return None
    return SessionKeys(window, others, itself[0], time, gap, condition)


@dataclass(frozen=True, slots=True)
class SessionMaps:
    """The sums at each instant, the instant as a key of a row, and the sessions; ``length`` is that of a session."""

    instants: Map
    instant: Named
    sessions: Map
    start: Column
    length: Column


def session_maps(name: str, keys: SessionKeys, sums: tuple[RingField, ...]) -> SessionMaps:
    """The maps of stage ``name``."""
    others = tuple(key.field for key in keys.others)
    taken = {f.name for f in others} | {value.name for value in sums}
    instant = Named(fresh("instant", taken), keys.time)
    start = Field(fresh("start", taken), TIMESTAMP, nullable=False)
    length = RingField(fresh("length", {*taken, start.name}), BIGINT)
    return SessionMaps(
        Map(f"{name}/instants", (*others, Field(instant.name, TIMESTAMP, nullable=False)), sums),
        instant,
        Map(f"{name}/sessions", (*others, start), (length, *sums)),
        column(start),
        Column(length.name, BIGINT, nullable=False),
    )


def over_sessions(
    above: PostAggregation, keys: SessionKeys, maps: SessionMaps, results: Mapping[str, Scalar]
) -> PostAggregation:
    """``above`` over the map of sessions, given its aggregates as expressions over the sums."""
    session = call("window_from", maps.start, maps.length)
    ends = {0: maps.start, 1: call("add_microseconds", maps.start, maps.length)}

    def replaced(part: Scalar) -> Scalar:
        match part:
            case Call("get_field", (inner, _, Literal(value=int(place)))) if inner == session:
                return ends[place]
        return part

    found = above.over({keys.session.name: session, **results})
    if keys.condition is not None:
        kept = substitute(keys.condition, {keys.window.calls[0].name: session})
        found = replace(found, condition=conjunction([kept, *([] if found.condition is None else [found.condition])]))
    return PostAggregation(
        tuple(Named(o.name, transform(o.scalar, replaced)) for o in found.outputs),
        None if found.condition is None else transform(found.condition, replaced),
        None if found.times is None else transform(found.times, replaced),
    )
