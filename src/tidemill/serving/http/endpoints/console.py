"""The console: its page, and the files that the page is made of."""

from __future__ import annotations

from starlette.responses import Response

from tidemill.model.errors import SetupError
from tidemill.serving.console.assets import PAGE, POLICY, Asset, find_asset, require_assets
from tidemill.serving.http.authentication import Needs
from tidemill.serving.http.endpoint import Call, Endpoint
from tidemill.serving.http.errors import HttpError

__all__ = ["ENDPOINTS"]

HTML = "text/html"


async def page(call: Call) -> Response:
    """The page."""
    try:
        require_assets()
    except SetupError as missing:  # where it would be is nobody's business elsewhere
        raise HttpError(503, missing.what, detail=missing.detail) from None
    found = find_asset(PAGE)
    assert found is not None
    return _file(call, found)


async def asset(call: Call) -> Response:
    """A script, style or picture of the page."""
    found = find_asset(call.path("name"))
    if found is None:
        raise HttpError(404, "the console has no such file", where=call.request.url.path[:200])
    return _file(call, found)


def _file(call: Call, found: Asset) -> Response:
    """A file, unless the browser has it already: it asks each time, so a new version is there at once."""
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache", "etag": found.tag}
    if call.request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.kind)


ENDPOINTS = (
    Endpoint("GET", "/", page, "The console: a page for people.", gives=(HTML,), needs=Needs.ANY),
    Endpoint("GET", "/assets/{name}", asset, "A file of the console.", gives=("*/*",), needs=Needs.ANY),
)
