"""Epochs as spans of OpenTelemetry, where the program has configured it.

Nothing is imported for it: a program that has spans has imported ``opentelemetry`` itself. A span is made once its
epoch is durable, with the times that were measured, as a child of the span in which the change was applied; each view
that the epoch reached is a child of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tidemill.engine.telemetry.epoch_work import EpochWork, ViewWork

__all__ = ["span_observer"]

NANOSECONDS = 1_000_000_000


def span_observer() -> Callable[[EpochWork, float], None] | None:
    """The function that makes the spans of an epoch; None if no tracer is configured."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if type(provider).__name__ in ("ProxyTracerProvider", "NoOpTracerProvider"):
        return None
    return _observe


def _observe(work: EpochWork, ended: float) -> None:
    from opentelemetry import trace

    tracer = trace.get_tracer("tidemill")
    shift = time.time() - time.perf_counter()
    numbers = {"epoch": work.number, "rows_in": work.rows, "bytes": work.bytes, "views": len(work.views)}
    seconds = {
        "check": work.checked - work.started,
        "propagate": work.propagated - work.checked,
        "store": work.stored - work.propagated,
        "sync": ended - work.stored,
    }
    span = tracer.start_span(
        "tidemill.epoch",
        start_time=_nanoseconds(work.started + shift),
        attributes={f"tidemill.{name}": value for name, value in (numbers | seconds).items()},
    )
    inside, begin = trace.set_span_in_context(span), work.checked
    for view, one in work.views.items():
        taken = one.triggers + one.output
        child = tracer.start_span(
            "tidemill.refresh", inside, start_time=_nanoseconds(begin + shift), attributes=_attributes(view, one, work)
        )
        begin += taken
        child.end(_nanoseconds(begin + shift))
    span.end(_nanoseconds(ended + shift))


def _attributes(view: str, one: ViewWork, work: EpochWork) -> dict[str, str | int | float]:
    found: dict[str, str | int | float] = {
        "tidemill.epoch": work.number,
        "tidemill.view": view,
        "tidemill.rows_in": one.rows_in,
        "tidemill.rows_out": one.rows_out,
        "tidemill.strategy": one.placed.strategies,
        "tidemill.runtime": one.placed.runtime.name,
    }
    reason = one.filled or one.recomputed or work.ways.get(view, "")
    return found | ({"tidemill.reason": reason} if reason else {})


def _nanoseconds(seconds: float) -> int:
    return int(seconds * NANOSECONDS)
