"""Figures for Prometheus, in its text format: epochs, latencies, staleness, state, and what waits in the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import isinf
from typing import NamedTuple

from tidemill.engine.inspect.status import Activity, WarehouseStatus
from tidemill.engine.telemetry.latencies import Latencies
from tidemill.serving.http.service.service import Service
from tidemill.serving.http.service.topic import Queue

__all__ = ["METRICS_TYPE", "metrics_text"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

STATES = ("fresh", "behind", "building", "quarantined")


Labels = Mapping[str, str]


class Metric(NamedTuple):
    """A figure: its name, kind and meaning, and its values by labels; those of a histogram also by an end of name."""

    name: str
    kind: str
    about: str
    values: Sequence[tuple[Labels, float] | tuple[Labels, float, str]]


def metrics_text(
    service: Service, status: WarehouseStatus, activity: Activity, queues: Mapping[str, Sequence[Queue]]
) -> str:
    """All figures as text.

    >>> _line("a", {"view": 'b"c'}, 2.0)
    'a{view="b\\\\"c"} 2'
    """
    of_warehouse = (_of_epochs(status, activity), _of_views(service, status, activity))
    return "".join(map(_text, chain(*of_warehouse, _of_requests(service), _of_readers(queues), _of_server(service))))


def _text(metric: Metric) -> str:
    head = f"# HELP tidemill_{metric.name} {metric.about}\n# TYPE tidemill_{metric.name} {metric.kind}\n"
    lines = (_line(f"tidemill_{metric.name}{''.join(end)}", labels, value) for labels, value, *end in metric.values)
    return head + "".join(f"{line}\n" for line in lines)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{said}}} {value:.12g}" if said else f"{name} {value:.12g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _of_epochs(status: WarehouseStatus, activity: Activity) -> Iterator[Metric]:
    epochs = activity.epochs
    yield Metric("epoch", "gauge", "The last committed epoch.", [({}, status.epoch)])
    yield Metric("epochs_total", "counter", "Epochs committed since the start.", [({}, epochs.epochs)])
    phases = {"check": epochs.check, "triggers": epochs.triggers, "store": epochs.store, "sync": epochs.sync}
    seconds = [({"phase": phase}, value) for phase, value in phases.items()]
    yield Metric("epoch_seconds_total", "counter", "Seconds of epochs by phase.", [*seconds])
    latencies = [*_ranges({}, activity.latencies)]
    yield Metric("epoch_latency_seconds", "histogram", "Seconds of an epoch until it is durable.", latencies)
    yield Metric("epoch_bytes_total", "counter", "Bytes that epochs have written.", [({}, epochs.bytes)])
    changed = [({"table": name}, rows) for name, rows in activity.tables.items()]
    yield Metric("table_rows_total", "counter", "Rows of a table that have changed.", [*changed])
    yield Metric("troubles", "gauge", "Views and feeds that do not go on.", [({}, len(status.troubles))])


def _of_views(service: Service, status: WarehouseStatus, activity: Activity) -> Iterator[Metric]:
    def each(name: str) -> list[tuple[Mapping[str, str], float]]:
        return [({"view": view}, getattr(totals, name)) for view, totals in activity.views.items()]

    yield Metric("view_refreshes_total", "counter", "Epochs that have refreshed a view.", each("epochs"))
    yield Metric("view_seconds_total", "counter", "Seconds of refreshes of a view.", each("seconds"))
    yield Metric("view_rows_in_total", "counter", "Changed rows that a view has taken in.", each("rows_in"))
    yield Metric("view_rows_out_total", "counter", "Changed rows that a view has given out.", each("rows_out"))
    views = status.views
    yield Metric("view_rows", "gauge", "Rows of a view.", [({"view": one.name}, one.rows or 0) for one in views])
    seconds = [({"view": one.name}, one.seconds_behind) for one in views]
    yield Metric("view_staleness_seconds", "gauge", "Seconds by which a view is behind.", [*seconds])
    behind = [({"view": one.name}, float(one.epochs_behind)) for one in views]
    yield Metric("view_staleness_epochs", "gauge", "Epochs by which a view is behind.", [*behind])
    states = [({"view": one.name, "state": state}, float(one.state == state)) for one in views for state in STATES]
    yield Metric("view_state", "gauge", "1 for the state that a view is in.", [*states])
    sizes = [({"relation": name}, size) for name, size in service.sizes.items() if size is not None]
    builds = [({"view": one.view, "state": one.state}, one.share) for one in status.builds]
    yield Metric("build_share", "gauge", "Share of the rows that a build in the background has taken in.", builds)
    yield Metric("relation_bytes", "gauge", "Bytes stored of a table, or of the rows and maps of a view.", [*sizes])


def _ranges(labels: Labels, latencies: Latencies) -> Iterator[tuple[Labels, float, str]]:
    """The values of a histogram."""
    for bound, count in latencies.cumulative():
        yield {**labels, "le": "+Inf" if isinf(bound) else f"{bound:g}"}, count, "_bucket"
    yield labels, latencies.seconds, "_sum"
    yield labels, sum(latencies.counts), "_count"


def _of_requests(service: Service) -> Iterator[Metric]:
    times = service.times
    answers = [({"kind": kind, "status": str(code)}, float(n)) for (kind, code), n in sorted(times.statuses.items())]
    yield Metric("requests_total", "counter", "Requests that were answered, by kind and status.", answers)
    seconds = [one for kind, latencies in times.latencies.items() for one in _ranges({"kind": kind}, latencies)]
    yield Metric("request_latency_seconds", "histogram", "Seconds until an answer has begun, by kind.", seconds)


def _of_readers(queues: Mapping[str, Sequence[Queue]]) -> Iterator[Metric]:
    readers = [({"view": view}, float(len(of))) for view, of in queues.items()]
    yield Metric("view_subscribers", "gauge", "Clients that read changes of a view live, by HTTP.", readers)
    waiting = [({"view": view}, float(sum(one.size for one in of))) for view, of in queues.items()]
    yield Metric("view_waiting_bytes", "gauge", "Bytes of changes that wait for these clients.", waiting)
    lagging = [({"view": view}, float(sum(one.lagging for one in of))) for view, of in queues.items()]
    yield Metric("view_lagging_subscribers", "gauge", "Those of them that read from the store meanwhile.", lagging)


def _of_server(service: Service) -> Iterator[Metric]:
    pools = {"statements": service.statements, "reads": service.reads, "status": service.observers}
    pending = [({"pool": name}, float(pool.pending)) for name, pool in pools.items()]
    pending += [({"pool": "pgwire"}, float(door.pool.pending)) for door in service.doors]
    clients: list[tuple[Labels, float]] = [({}, float(door.connections)) for door in service.doors]
    yield Metric("pgwire_connections", "gauge", "Clients that speak PostgreSQL's protocol.", clients)
    yield Metric("pending_requests", "gauge", "Requests that run or wait, by their threads.", [*pending])
    yield Metric("waiting_posts", "gauge", "Posts that wait for their epoch.", [({}, service.posts.waiting)])
    yield Metric("waiting_bytes", "gauge", "Bytes of posts that wait.", [({}, service.posts.waiting_bytes)])
    yield Metric("subscribers", "gauge", "Clients that read changes live.", [({}, service.changes.readers)])
