"""The OpenAPI document of the HTTP API, made from its routes and structs."""

import re
from typing import Any

import msgspec

from . import answers
from .routes import PARAMETERS, PREFIX, ROUTES, SESSIONS, Route

_TEMPLATE = "#/components/schemas/{name}"
_EXTRA = (answers.Failure, answers.Delta)


def document() -> dict[str, Any]:
    """Return the document as plain data."""
    kinds = [kind for route in (*ROUTES, *SESSIONS) for kind in (route.kind, route.body) if kind is not None]
    known = list(dict.fromkeys([*kinds, *_EXTRA]))
    references, schemas = msgspec.json.schema_components(known, ref_template=_TEMPLATE)
    named = dict(zip(known, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in (*ROUTES, *SESSIONS):
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, named)
    paths[f"{PREFIX}/stream"] = {"get": _stream(named)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice console",
            "version": "1",
            "description": "The cell and its past. Each answer says of which sequence of the log it is.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _operation(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": PARAMETERS[name], "schema": {"type": "string"}}
        for name in route.query
    ]
    responses: dict[str, Any] = {
        "default": _content("What is wrong with the request", named[answers.Failure])
    }
    if route.kind is None:
        responses["204"] = {"description": "Done"}
    else:
        responses["200"] = _content(route.summary, named[route.kind])
        if route.method == "GET":
            responses["304"] = {"description": "As the ETag in If-None-Match says"}
    found: dict[str, Any] = {
        "operationId": _identity(route),
        "summary": route.summary,
        "responses": responses,
    }
    if parameters:
        found["parameters"] = parameters
    if route.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": named[route.body]}},
        }
    return found


def _identity(route: Route) -> str:
    words = re.findall(r"\w+", route.path)
    return "".join([route.method.lower(), *(word[:1].upper() + word[1:] for word in words)])


def _content(text: str, schema: Any) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _stream(named: dict[Any, Any]) -> dict[str, Any]:
    return {
        "operationId": "getStream",
        "summary": "Changes as they happen: server-sent events whose id is the log's sequence",
        "parameters": [
            {
                "name": name,
                "in": "query",
                "description": text,
                "schema": {"type": "string"},
            }
            for name, text in (
                ("since", "Go on after this sequence, as the header Last-Event-ID does."),
                ("kinds", "Only of these kinds, with commas between: Job, ClusterQueue, ..."),
                ("log", "1: events of the log, too."),
                ("namespace", PARAMETERS["namespace"]),
            )
        ],
        "responses": {
            "200": {
                "description": "Frames `hello`, `delta` and `resync`; the data of a `delta` is a Delta",
                "content": {"text/event-stream": {"schema": named[answers.Delta]}},
            }
        },
    }
