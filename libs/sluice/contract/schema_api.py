"""The wire contract of the api service: requests over NATS and their answers, for proto/."""

from typing import Any

import msgspec

from sluice.events.codec import CONTENT_TYPE
from sluice.protocol import query

FAMILY = "api"

ENDPOINTS: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct], str]] = {
    "api.apply": (
        query.ApplyRequest,
        query.ChangeAnswer,
        "Create or change objects of the configuration; what is valid is committed together.",
    ),
    "api.delete": (
        query.DeleteRequest,
        query.ChangeAnswer,
        "Delete objects of the configuration; what is in use goes when it is free (`terminating`).",
    ),
    "query.list": (query.ListRequest, query.ListAnswer, "Objects of a kind, or one of them."),
    "query.watch": (
        query.WatchRequest,
        query.WatchAnswer,
        "What has changed since a sequence; waits for a change.",
    ),
    "query.history": (
        query.HistoryRequest,
        query.ListAnswer,
        "The events of a job or workload, oldest first.",
    ),
    "query.status": (query.StatusRequest, query.StatusAnswer, "How far the cell is, and what it counts."),
}
"""Subject behind `sluice.<cell>.` -> request, answer, and what it is for."""

TYPES: tuple[type[msgspec.Struct], ...] = tuple(
    dict.fromkeys([*(kind for pair in ENDPOINTS.values() for kind in pair[:2]), query.Status])
)

_FLAVOR: dict[str, Any] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "on-demand"},
}
_MISSPELT = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "Company"}}


def examples() -> dict[str, msgspec.Struct]:
    """Return golden messages by name: `<type>` or `<type>-<case>`."""
    wrong = query.Cause(
        field="metadata.name", message='Invalid value: "Company": ...', reason="FieldValueInvalid"
    )
    details = query.StatusDetails(name="Company", kind="Cohort", causes=[wrong])
    refused = query.Status(message='Cohort "Company" is invalid', reason="Invalid", code=422, details=details)
    return {
        "ApplyRequest": query.ApplyRequest(objects=[_FLAVOR]),
        "ApplyRequest-OneRefused": query.ApplyRequest(objects=[_FLAVOR, _MISSPELT]),
        "ChangeAnswer": query.ChangeAnswer(
            seq=48213,
            results=[
                query.Result(outcome="created", kind="ResourceFlavor", name="on-demand", object=_FLAVOR),
                query.Result(outcome="refused", kind="Cohort", name="Company", status=refused),
            ],
        ),
        "DeleteRequest": query.DeleteRequest(
            objects=[query.Reference(kind="ResourceFlavor", name="on-demand")]
        ),
        "ListRequest": query.ListRequest(kind="Job", namespace="team-a", label_selector="team=a", min_seq=12),
        "ListRequest-Waiting": query.ListRequest(kind="Workload", waiting_in="research", limit=10),
        "ListAnswer": query.ListAnswer(seq=48213, items=[_FLAVOR], continue_="research/train"),
        "WatchRequest": query.WatchRequest(kind="Job", since=48213, timeout_ms=5000),
        "WatchAnswer": query.WatchAnswer(
            seq=48230, items=[], deleted=[query.Reference(kind="Job", name="train", namespace="team-a")]
        ),
        "HistoryRequest": query.HistoryRequest(kind="Job", name="train", namespace="team-a"),
        "StatusRequest": query.StatusRequest(),
        "StatusAnswer": query.StatusAnswer(
            cell="main",
            seq=48213,
            end=48213,
            lag=0,
            instance="host-1-4711-9f3a",
            rejected=0,
            writers={"scheduler": query.WriterHead(seq=48213, at=1_767_225_600_000_000)},
            agents=[],
            totals=[],
            counts={"jobs": 3, "workloads": 3, "clusterQueues": 2},
            log=query.LogStanding(first=1, messages=48213, bytes=61_000_000, copies=3, current=3),
        ),
        "Status": query.Status(message="there is no kind 'Jobb'", reason="NotFound", code=404),
    }


def channels(cell: str) -> dict[str, Any]:
    return {
        _channel(name): {
            "address": f"sluice.{{cell}}.{name}",
            "description": f"{text} Request/reply over core NATS, not in the log. What cannot be served is "
            "answered with a Kubernetes Status.",
            "parameters": {"cell": {"default": cell}},
            "messages": {
                "request": _message(request),
                "answer": _message(answer),
                "failure": _message(query.Status),
            },
        }
        for name, (request, answer, text) in ENDPOINTS.items()
    }


def operations() -> dict[str, Any]:
    return {
        _channel(name): {
            "action": "send",
            "channel": {"$ref": f"#/channels/{_channel(name)}"},
            "messages": [{"$ref": f"#/channels/{_channel(name)}/messages/request"}],
            "reply": {
                "channel": {"$ref": f"#/channels/{_channel(name)}"},
                "messages": [
                    {"$ref": f"#/channels/{_channel(name)}/messages/answer"},
                    {"$ref": f"#/channels/{_channel(name)}/messages/failure"},
                ],
            },
        }
        for name in ENDPOINTS
    }


def _channel(name: str) -> str:
    return name.replace(".", "-")


def _message(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        "contentType": CONTENT_TYPE,
        "payload": {"$ref": f"./schema/{FAMILY}.json#/$defs/{kind.__name__}"},
    }
