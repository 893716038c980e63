"""Logging in with a browser: a token is given once, and a cookie stands for it until it ends."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.responses import Response

from tidemill.model.errors import BadValue
from tidemill.serving.access.logins import LOGIN_SECONDS
from tidemill.serving.http.authentication import LOCAL, NOBODY, Caller, Needs, cookie_name, level_of
from tidemill.serving.http.content import JSON
from tidemill.serving.http.endpoint import Call, Endpoint, json_response
from tidemill.serving.http.errors import HttpError

__all__ = ["ENDPOINTS"]

ROLES = {Needs.OWN: "owner", Needs.WRITE: "writer", Needs.READ: "reader", Needs.ANY: "granted"}


async def me(call: Call) -> Response:
    """The caller; this request is never refused."""
    return json_response(_told(call.caller))


def _told(caller: Caller) -> dict[str, Any]:
    known = caller.by != ""
    return {
        "user": caller.principal.name or None,
        "roles": list(caller.principal.roles),
        "role": ROLES[level_of(caller.principal)] if known else None,
        "by": caller.by or None,
        "login_needed": not known,
    }


async def login(call: Call) -> Response:
    """Log a browser in by a token."""
    given = await call.json()
    token = given.get("token")
    if given.keys() != {"token"} or not isinstance(token, str):
        raise BadValue("the request has no token", where="body", hint='{"token": "tidemill_..."}')
    authentication = call.service.authentication
    if authentication.logins is None:
        return json_response(_told(LOCAL))
    secret = authentication.log_in(token.strip())
    scope = call.request.scope
    if secret is None:
        refused = HttpError(401, "the token is nobody's", where="token", hint="Make one: tidemill user token NAME.")
        await call.service.login_failed(call.address, refused)
        raise refused
    cookie = f"{cookie_name(scope)}={secret}"
    caller = authentication.caller(scope, {b"cookie": cookie.encode()})
    if caller is not None and call.service.audit is not None:
        noted = partial(call.service.audit.note_login, caller.principal.name, door="http", address=call.address)
        await call.service.observe(noted)
    response = json_response(_told(caller or NOBODY))
    response.headers["set-cookie"] = f"{cookie}; Max-Age={LOGIN_SECONDS}{_attributes(call)}"
    return response


async def logout(call: Call) -> Response:
    """End the login of a browser."""
    logins = call.service.authentication.logins
    if logins is not None and call.caller.by == "cookie":
        logins.end(call.caller.digest)
    response = json_response(_told(LOCAL if logins is None else NOBODY))
    response.headers["set-cookie"] = f"{cookie_name(call.request.scope)}=; Max-Age=0{_attributes(call)}"
    return response


def _attributes(call: Call) -> str:
    """No script reads the cookie, and no page of others sends it; nor a connection without TLS, where there is any."""
    secure = call.request.url.scheme == "https" or call.request.headers.get("origin", "").startswith("https://")
    return f"; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


ENDPOINTS = (
    Endpoint("GET", "/v1/me", me, "Who asks, with which roles, and if one has to log in first.", needs=Needs.ANY),
    Endpoint(
        "POST",
        "/v1/login",
        login,
        "Log in with a browser by a token: the answer sets a cookie that lets in for twelve hours.",
        needs=Needs.ANY,
        takes={JSON: '{"token": text}'},
    ),
    Endpoint("POST", "/v1/logout", logout, "End the login of the cookie.", needs=Needs.ANY),
)
