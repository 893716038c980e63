"""Rows that are sent to tables, and epochs that are waited for."""

from __future__ import annotations

import asyncio
import time

from starlette.responses import Response

from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import UnknownName
from tidemill.serving.http.authentication import Needs
from tidemill.serving.http.conditions import epoch_number
from tidemill.serving.http.content import ARROW, NDJSON
from tidemill.serving.http.endpoint import Call, Endpoint, Parameter, json_response
from tidemill.serving.http.ingest.bodies import BODIES

__all__ = ["ENDPOINTS"]

LONGEST_WAIT = 60.0
"""Seconds for which a request may wait for an epoch."""

POLL_SECONDS = 0.01

MODE = Parameter(
    "mode",
    str,
    "`upsert`: a row takes the place of the one with its key, weight -1 deletes it; `delete`: keys.",
)
ON_ERROR = Parameter(
    "on_error",
    str,
    "`quarantine`: rows that their table cannot take go to the table `<table>_errors`, and are counted as `rejected`.",
)
KEY = {"Idempotency-Key": "The same key again gives the epoch of the first time; 16,384 are remembered."}


async def wait(call: Call) -> Response:
    """Wait until the warehouse, or a view, shows an epoch."""
    number, view = epoch_number(call.path("number"), "the path"), call["view"]
    if view is not None:
        view = (await call.service.observe(call.reader.view, view)).name
    timeout = LONGEST_WAIT if call["timeout"] is None else min(call["timeout"], LONGEST_WAIT)
    until = time.monotonic() + timeout
    while (shown := await call.service.observe(epoch_shown, call.warehouse, view)) < number:
        if time.monotonic() >= until or call.service.stopped.is_set():
            return json_response({"epoch": shown, "reached": False}, 202)
        await asyncio.sleep(POLL_SECONDS)
    return json_response({"epoch": shown, "reached": True})


def epoch_shown(warehouse: Warehouse, view: str | None) -> int:
    """The epoch that the warehouse shows, or a view, which may be behind."""
    if view is None:
        return warehouse.epoch
    found = [one.epoch for one in warehouse.status().views if one.name == view]
    if not found:
        raise UnknownName(f'there is no view "{view}"')
    return found[0]


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/tables/{name}",
        None,
        "Send rows: one epoch, whose number is a completion token. All views that are not deferred show them then.",
        query=(MODE, ON_ERROR),
        takes=BODIES,
        headers=KEY,
    ),
    Endpoint(
        "POST",
        "/v1/changes",
        None,
        "Send rows of several tables: one epoch.",
        query=(MODE, ON_ERROR),
        takes={
            NDJSON: 'A row a line: {"table": "orders", "weight": 1, "row": {...}}.',
            ARROW: 'A stream of Arrow for each table, one after the other; its schema has "table" among its metadata.',
        },
        headers=KEY,
    ),
    Endpoint(
        "GET",
        "/v1/epochs/{number}/wait",
        wait,
        "Wait until an epoch is shown; 202 if it is not there after `timeout`.",
        needs=Needs.ANY,
        query=(
            Parameter("view", str, "By this view, which may be behind."),
            Parameter("timeout", float, "Seconds; at most, and by default, 60."),
        ),
    ),
)
