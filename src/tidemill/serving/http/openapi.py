"""The description of the interface as OpenAPI, made of what the endpoints declare."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tidemill import __version__
from tidemill.serving.http.endpoint import Endpoint, Parameter

__all__ = ["describe"]

_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}
_FIELDS = ("kind", "what", "where", "detail", "hint")


def describe(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The description of these endpoints."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidemill", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Error": _error()}},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    parameters = [_in_path(name) for name in re.findall(r"{(\w+)}", endpoint.path)]
    parameters += [_in_query(one) for one in endpoint.query]
    parameters += [_in_header(name, about) for name, about in (endpoint.headers or {}).items()]
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}{re.sub(r'[^a-zA-Z0-9]+', '_', endpoint.path)}",
        "summary": endpoint.about,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {kind: {} for kind in endpoint.gives}},
            "default": {"description": "An error in its four fields.", "content": {"application/json": _REFERENCE}},
        },
    }
    if endpoint.takes:
        content = {kind: {"schema": {"description": about}} for kind, about in endpoint.takes.items()}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


_REFERENCE = {"schema": {"$ref": "#/components/schemas/Error"}}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _in_query(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _TYPES[one.kind]}
    schema = {"type": "array", "items": schema} if one.many else schema
    return {"name": one.name, "in": "query", "description": one.about, "schema": schema}


def _in_header(name: str, about: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": about, "schema": {"type": "string"}}


def _error() -> dict[str, Any]:
    fields = {name: {"type": ["string", "null"]} for name in _FIELDS}
    inner = {"type": "object", "required": list(_FIELDS), "properties": fields}
    return {"type": "object", "required": ["error"], "properties": {"error": inner}}
