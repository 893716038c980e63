"""For whoever watches the process: is it alive, and does it take requests."""

from __future__ import annotations

from starlette.responses import Response

from tidemill.serving.http.authentication import Needs
from tidemill.serving.http.endpoint import Call, Endpoint, json_response
from tidemill.serving.http.metrics import METRICS_TYPE, metrics_text
from tidemill.serving.http.openapi import describe

__all__ = ["ENDPOINTS"]


async def healthz(call: Call) -> Response:
    """It is alive: the event loop answers."""
    return json_response({"alive": True})


async def readyz(call: Call) -> Response:
    """It takes requests, and the warehouse can be read."""
    if call.service.stopped.is_set():
        return json_response({"ready": False}, 503)
    found = await call.service.observe(lambda: call.warehouse.epoch)
    return json_response({"ready": True, "epoch": found})


async def metrics(call: Call) -> Response:
    """Figures for Prometheus."""
    service = call.service
    queues = service.changes.queues()

    def text() -> str:
        return metrics_text(service, service.status(), call.warehouse.activity(), queues)

    return Response(await service.observe(text), media_type=METRICS_TYPE)


async def openapi(call: Call) -> Response:
    """The description of this interface."""
    from tidemill.serving.http.endpoints import ENDPOINTS as known

    return json_response(describe(known))


ENDPOINTS = (
    Endpoint("GET", "/healthz", healthz, "200 as long as the process lives.", needs=Needs.ANY),
    Endpoint("GET", "/readyz", readyz, "200 if requests are taken, with the epoch of the warehouse; 503 if it stops."),
    Endpoint("GET", "/metrics", metrics, "Figures for Prometheus.", gives=(METRICS_TYPE,)),
    Endpoint("GET", "/v1/openapi.json", openapi, "This interface, described as OpenAPI."),
)
