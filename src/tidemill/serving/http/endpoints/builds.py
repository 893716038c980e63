"""Views that are built in the background: how far they are, and their pause, resume and end."""

from __future__ import annotations

from dataclasses import asdict

from starlette.responses import Response

from tidemill.serving.http.endpoint import Call, Endpoint, json_response
from tidemill.serving.http.errors import HttpError

__all__ = ["ENDPOINTS"]


async def builds(call: Call) -> Response:
    """Progress of all builds."""
    found = await call.service.observe(lambda: list(call.warehouse.builds))
    return json_response({"builds": [asdict(one) | {"share": one.share} for one in found]})


async def steer(call: Call) -> Response:
    """Pause, resume or cancel a build."""
    handle, view = call.warehouse.builds, call.path("name")
    steps = {"pause": handle.pause, "resume": handle.resume, "cancel": handle.cancel}
    step = steps.get(call.path("step"))
    if step is None:
        raise HttpError(404, "a build is paused, resumed or cancelled", hint=f"Steps: {', '.join(steps)}.")
    await call.run_noted(lambda: step(view))
    return await builds(call)


ENDPOINTS = (
    Endpoint("GET", "/v1/builds", builds, "Views that are built in the background, and how far they are."),
    Endpoint("POST", "/v1/builds/{name}/{step}", steer, "Pause, resume or cancel the build of a view."),
)
