"""Window functions: the value for each row, given the rows of its partition in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.kernels.frames import Peers, spans_of
from tidemill.algebra.kernels.moving_frames import aggregate_frames
from tidemill.algebra.relational.windows import OFFSETS, RANKINGS, SESSION, VALUES, WindowCall
from tidemill.changes.zset import Row


def window_values(
    call: WindowCall, arguments: Sequence[Row | None], places: Sequence[Row], order: Sequence[SortOrder]
) -> list[Any]:
    """The value of ``call`` for each row of a partition, given in order.

    ``arguments`` are the values of the call's arguments (None for a row that its FILTER excludes), ``places`` those of
    the terms of ``order``.

    >>> from tidemill.algebra.expressions.scalars import Column
    >>> from tidemill.model.types import INT
    >>> n, sort_key = Column("n", INT), WindowCall("r", "rank", (), INT)
    >>> window_values(sort_key, [(), (), ()], [(7,), (7,), (9,)], [SortOrder(n)])
    [1, 1, 3]
    """
    if call.function in RANKINGS:
        return _RANKINGS[call.function](Peers.of(places), arguments)
    seen = [() if row is None else row for row in arguments]
    if call.function in OFFSETS:
        return _neighbours(call, seen)
    if call.function == SESSION:
        return _sessions(seen)
    spans = spans_of(call.frame, places, order)
    if call.function in VALUES:
        return [_picked(call, seen[start:end]) for start, end in spans]
    return aggregate_frames(_aggregate(call), arguments, spans)


def frame_value(call: WindowCall, arguments: Sequence[Row | None]) -> Any:
    """The value of ``call``, a function of a frame, over the rows of one frame, given in order."""
    if call.function in VALUES:
        return _picked(call, [() if row is None else row for row in arguments])
    return aggregate_frames(_aggregate(call), arguments, [(0, len(arguments))])[0]


def _row_number(peers: Peers, arguments: Sequence[Row | None]) -> list[int]:
    return list(range(1, len(peers) + 1))


def _rank(peers: Peers, arguments: Sequence[Row | None]) -> list[int]:
    return [start + 1 for start in peers.starts]


def _dense_rank(peers: Peers, arguments: Sequence[Row | None]) -> list[int]:
    groups = {start: number for number, start in enumerate(dict.fromkeys(peers.starts), 1)}
    return [groups[start] for start in peers.starts]


def _percent_rank(peers: Peers, arguments: Sequence[Row | None]) -> list[float]:
    return [start / (len(peers) - 1) if len(peers) > 1 else 0.0 for start in peers.starts]


def _cume_dist(peers: Peers, arguments: Sequence[Row | None]) -> list[float]:
    return [end / len(peers) for end in peers.ends]


def _ntile(peers: Peers, arguments: Sequence[Row | None]) -> list[int]:
    """Buckets of equal size; the first ones have one row more if the size is not divisible."""
    buckets = [row[0] for row in arguments if row is not None]
    found = []
    for place, count in enumerate(buckets):
        size, larger = divmod(len(peers), count)
        within = larger * (size + 1)
        found.append(place // (size + 1) if place < within else larger + (place - within) // size)
    return [bucket + 1 for bucket in found]


_RANKINGS: dict[str, Callable[[Peers, Sequence[Row | None]], list[Any]]] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
}


def _neighbours(call: WindowCall, arguments: Sequence[Row]) -> list[Any]:
    """LAG and LEAD. With IGNORE NULLS, positions are counted among the rows in which x is not NULL."""
    found = []
    for place, (_, offset, default) in enumerate(arguments):
        distance = -offset if call.function == "lag" else offset
        target = _known_away(arguments, place, distance) if call.ignore_nulls else place + distance
        inside = target is not None and 0 <= target < len(arguments)
        found.append(arguments[target][0] if inside else default)  # type: ignore[index]
    return found


def _known_away(arguments: Sequence[Row], place: int, distance: int) -> int | None:
    """The position of the row that many non-NULL values away; None if there are not as many."""
    if distance == 0:
        return place
    direction = range(place + 1, len(arguments)) if distance > 0 else range(place - 1, -1, -1)
    known = (other for other in direction if arguments[other][0] is not None)
    return next(islice(known, abs(distance) - 1, None), None)


def _picked(call: WindowCall, frame: Sequence[Row]) -> Any:
    """FIRST_VALUE, LAST_VALUE and NTH_VALUE of the rows of a frame; NULL if there is none."""
    rows = [row for row in frame if not call.ignore_nulls or row[0] is not None]
    place = {"first_value": 0, "last_value": len(rows) - 1}.get(call.function)
    if place is None:
        place = frame[0][1] - 1 if frame else 0
    return rows[place][0] if 0 <= place < len(rows) else None


def _sessions(arguments: Sequence[Row]) -> list[Any]:
    """Start and end of each row's session, which ends where the last gap after one of its rows does; a row exactly at
    the end belongs to it."""
    sessions: list[list[datetime]] = []
    found = []
    for moment, gap, *_ in arguments:
        end = moment + timedelta(microseconds=gap)
        if sessions and moment <= sessions[-1][1]:
            sessions[-1][1] = max(sessions[-1][1], end)
        else:
            sessions.append([moment, end])
        found.append(sessions[-1])
    return [tuple(session) for session in found]


def _aggregate(call: WindowCall) -> AggregateCall:
    """The aggregate over each frame; FILTER has been applied."""
    argument = call.arguments[0] if call.arguments else None
    others, parameters = call.arguments[1:], call.parameters
    return AggregateCall(call.name, call.function, argument, call.of, others=others, parameters=parameters)
