"""The wire contract as files: AsyncAPI 3, JSON Schema, golden messages, and the event catalogue for people.

Everything is generated from the structs, so that contract and code cannot drift apart; a test compares
`proto/` and `docs/events.md` with what this module returns. `files()` is pure; `make proto` writes.
"""

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from sluice.console import openapi
from sluice.events import job as job_events
from sluice.events.base import Event
from sluice.events.catalogue import VERSIONS, WRITERS
from sluice.events.codec import COMMIT_TYPE, CONTENT_TYPE, encode_commit, encode_message
from sluice.events.commit import Step
from sluice.events.job import JobEvent
from sluice.protocol.checks import CheckVerdict
from sluice.protocol.dispatch import Claim, DispatchEntry, Heartbeat

from . import schema_api, schema_cells, schema_checks
from .examples import example

CELL = "main"
_AT = 1_767_225_600_000_000
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_JOB_SUBMITTED = "JobSubmitted"
_PROJECTIONS: tuple[type[msgspec.Struct], ...] = (DispatchEntry, Claim, Heartbeat)

_WRITER_TEXT = {
    "config": "Configuration objects, written by the api service.",
    "slices": "Workload life-cycle and what each job should be doing, written by the slice-aggregator.",
    "variants": "Variants and parents, written by the variant-controller.",
    "scheduler": "Quota, admission, preemption and pending reasons, written by the scheduler.",
    "checks": "Admission check states, written by the admission-check service.",
    "dispatch": "Where jobs are placed in other cells, written by the dispatcher.",
}
_CHANNEL = {"dispatch": "dispatcher"}
"""Writer -> its channel, where the writer's own name is that of a bucket."""


def files() -> dict[str, str]:
    """Return every generated file: path from the project's root -> text."""
    result = {"proto/asyncapi.yaml": _asyncapi(), "docs/events.md": _catalogue()}
    for writer, events in WRITERS.items():
        result[f"proto/schema/{writer}.json"] = _schema_file(f"Events of {writer}", events)
    result["proto/schema/job.json"] = _schema_file("Data of job and presence messages", _inputs())
    result["proto/schema/projections.json"] = _schema_file("Values of the published buckets", _PROJECTIONS)
    for writer, events in WRITERS.items():
        for cls in events:
            result[f"proto/golden/{writer}/{cls.__name__}.json"] = _golden_commit(writer, cls)
    for kind in _inputs():
        result[f"proto/golden/job/{kind.__name__}.json"] = _golden_message(kind.__name__, example(kind))
    result[f"proto/golden/job/{_JOB_SUBMITTED}.json"] = _golden_message(_JOB_SUBMITTED, _MANIFEST)
    for value in _PROJECTIONS:
        golden = _pretty(msgspec.json.encode(example(value)))
        result[f"proto/golden/projections/{value.__name__}.json"] = golden
    result[f"proto/schema/{schema_api.FAMILY}.json"] = _schema_file(
        "Requests to the api service and its answers", schema_api.TYPES
    )
    for name, asked in schema_api.examples().items():
        result[f"proto/golden/{schema_api.FAMILY}/{name}.json"] = _pretty(msgspec.json.encode(asked))
    result["proto/console.openapi.json"] = _pretty(msgspec.json.encode(openapi.document()))
    family = schema_checks.FAMILY
    title = "Requests, verdicts and heartbeats of admission-check controllers"
    result[f"proto/schema/{family}.json"] = _schema_file(title, schema_checks.TYPES)
    result[f"proto/schema/{schema_cells.FAMILY}.json"] = _schema_file(
        "What links to worker cells say", schema_cells.TYPES
    )
    for name, message in schema_cells.examples().items():
        result[f"proto/golden/{schema_cells.FAMILY}/{name}.json"] = _pretty(message)
    for name, message in schema_checks.examples().items():
        result[f"proto/golden/{family}/{name}.json"] = _pretty(message)
    return result


_MANIFEST: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "team-a",
        "labels": {"kueue.x-k8s.io/queue-name": "research"},
    },
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "command": ["python", "train.py"],
                        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
                    }
                ],
            }
        },
    },
}


def _inputs() -> tuple[type[JobEvent], ...]:
    found = [
        value
        for value in vars(job_events).values()
        if isinstance(value, type) and issubclass(value, JobEvent) and value is not JobEvent
    ]
    return tuple(sorted(found, key=lambda cls: cls.__name__))


def _pretty(payload: bytes) -> str:
    return msgspec.json.format(payload, indent=2).decode() + "\n"


def _golden_commit(writer: str, cls: type[Event]) -> str:
    step = Step(upto=48212, at=_AT, events=(example(cls),))
    return _pretty(encode_commit(CELL, writer, f"{CELL}.{writer}.48213", [step]))


def _golden_message(kind: str, data: object) -> str:
    presence = kind in ("Seen", "Lost", "Away")
    return _pretty(
        encode_message(
            message_id="5b1f6c1e",
            source="sluice/agent" if presence else "ci-farm",
            event_type=kind,
            subject="agent/agent-1" if presence else "team-a/train",
            at=_AT,
            data=data,
        )
    )


def _schema_file(title: str, types: Iterable[type]) -> str:
    kinds = list(types)
    _, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    names = [cls.__name__ for cls in kinds]
    document = {
        "$schema": _DRAFT,
        "title": title,
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in names],
        "$defs": dict(sorted(definitions.items())),
    }
    return _pretty(msgspec.json.encode(document))


def _commit_schema(writer: str) -> dict[str, Any]:
    events = [{"$ref": f"./schema/{writer}.json#/$defs/{cls.__name__}"} for cls in WRITERS[writer]]
    step = {
        "type": "object",
        "required": ["upto", "at"],
        "properties": {
            "upto": {"type": "integer", "description": "Last log sequence folded before the decision."},
            "at": {"type": "integer", "description": "Time of the decision, microseconds since the epoch."},
            "events": {"type": "array", "items": {"oneOf": events}},
        },
    }
    data = {
        "type": "object",
        "required": ["writer", "version", "steps"],
        "properties": {
            "writer": {"const": writer},
            "version": {"const": VERSIONS[writer]},
            "since": {"type": "string", "description": "The oldest release that may go on from here"},
            "steps": {"type": "array", "items": step},
        },
    }
    return _cloud_event(COMMIT_TYPE, data)


def _cloud_event(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["specversion", "id", "source", "type", "data"],
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {"type": "string"},
            "source": {"type": "string"},
            "type": {"const": kind},
            "subject": {"type": "string"},
            "time": {"type": "string", "format": "date-time"},
            "datacontenttype": {"const": CONTENT_TYPE},
            "data": data,
        },
    }


def _asyncapi() -> str:
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for writer in WRITERS:
        channel = _CHANNEL.get(writer, writer)
        channels[channel] = {
            "address": f"sluice.{{cell}}.{writer}",
            "description": _WRITER_TEXT[writer],
            "parameters": {"cell": {"default": CELL}},
            "messages": {"commit": {"contentType": CONTENT_TYPE, "payload": _commit_schema(writer)}},
        }
        operations[f"follow-{channel}"] = {"action": "receive", "channel": {"$ref": f"#/channels/{channel}"}}
    channels |= {"job": _job_channel(), "presence": _presence_channel(), "dispatch": _dispatch_channel()}
    channels |= _executor_channels()
    channels |= schema_checks.channels(CELL, _cloud_event) | schema_api.channels(CELL)
    channels |= schema_cells.channels(CELL, _cloud_event)
    operations["publish-job-events"] = {"action": "send", "channel": {"$ref": "#/channels/job"}}
    operations["report-presence"] = {"action": "send", "channel": {"$ref": "#/channels/presence"}}
    operations["watch-dispatch"] = {"action": "receive", "channel": {"$ref": "#/channels/dispatch"}}
    operations["claim-attempts"] = {"action": "send", "channel": {"$ref": "#/channels/claims"}}
    operations["keep-executor-alive"] = {
        "action": "send",
        "channel": {"$ref": "#/channels/executor-heartbeat"},
    }
    operations |= schema_checks.operations() | schema_api.operations() | schema_cells.operations()
    document = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Sluice",
            "version": "1.0.0",
            "description": "Messages of one cell, on the JetStream stream SLUICE_<cell>. Names that hold "
            "dots, blanks, `*` or `>` are percent-encoded in subjects. Payloads are CloudEvents 1.0, JSON, "
            "structured mode; examples of each are in `golden/`.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": CONTENT_TYPE,
        "channels": channels,
        "operations": operations,
    }
    text: str = yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)
    return text


def _messages(kinds: Iterable[type[JobEvent]]) -> dict[str, Any]:
    return {
        cls.__name__: {
            "contentType": CONTENT_TYPE,
            "summary": _summary(cls),
            "payload": _cloud_event(cls.__name__, {"$ref": f"./schema/job.json#/$defs/{cls.__name__}"}),
        }
        for cls in kinds
    }


def _job_channel() -> dict[str, Any]:
    submitted = {
        "contentType": CONTENT_TYPE,
        "summary": "A job: batch/v1 Job, RayCluster, RayJob, JobSet, or the plain Job of sluice.dev.",
        "payload": _cloud_event(_JOB_SUBMITTED, {"type": "object", "description": "The manifest."}),
    }
    kinds = [cls for cls in _inputs() if cls.__name__ not in ("Seen", "Lost", "Away")]
    return {
        "address": "sluice.{cell}.job.{namespace}.{name}",
        "description": "What upstream systems and executors say about one job. Nats-Msg-Id = id.",
        "parameters": {"cell": {"default": CELL}, "namespace": {}, "name": {}},
        "messages": {_JOB_SUBMITTED: submitted, **_messages(kinds)},
    }


def _presence_channel() -> dict[str, Any]:
    return {
        "address": "sluice.{cell}.presence.{kind}.{name}",
        "description": "An agent or a check's controller has come or is gone; on change only.",
        "parameters": {"cell": {"default": CELL}, "kind": {"enum": ["agent", "controller"]}, "name": {}},
        "messages": _messages(cls for cls in _inputs() if cls.__name__ in ("Seen", "Lost", "Away")),
    }


def _dispatch_channel() -> dict[str, Any]:
    return {
        "address": "$KV.sluice_{cell}_dispatch.{namespace}.{job}",
        "description": "KV bucket: what each job should be doing now. The key's deletion means nothing.",
        "parameters": {"cell": {"default": CELL}, "namespace": {}, "job": {}},
        "messages": {
            "entry": {
                "contentType": CONTENT_TYPE,
                "payload": {"$ref": "./schema/projections.json#/$defs/DispatchEntry"},
            }
        },
    }


def _executor_channels() -> dict[str, Any]:
    """Return the keys that executors write."""

    def bucket(address: str, text: str, parameters: Iterable[str], value: type) -> dict[str, Any]:
        schema = f"./schema/projections.json#/$defs/{value.__name__}"
        return {
            "address": address,
            "description": f"{text} Each part of a key is percent-encoded with `=` for `%`.",
            "parameters": {"cell": {"default": CELL}, **{name: {} for name in parameters}},
            "messages": {value.__name__: {"contentType": CONTENT_TYPE, "payload": {"$ref": schema}}},
        }

    return {
        "claims": bucket(
            "$KV.sluice_{cell}_claims.{namespace}.{job}.{uid}.{attempt}",
            "KV bucket: which executor runs an attempt. Created once, with the header "
            "Nats-Expected-Last-Subject-Sequence: 0. The slice-aggregator makes the bucket.",
            ("namespace", "job", "uid", "attempt"),
            Claim,
        ),
        "executor-heartbeat": bucket(
            "$KV.sluice_{cell}_heartbeats.agent.{name}",
            "KV bucket in memory: the executor is there. Written with the header Nats-TTL (seconds), and "
            "with Nats-Expected-Last-Subject-Sequence: 0 to create it, the last revision to renew it.",
            ("name",),
            Heartbeat,
        ),
    }


def _summary(cls: type) -> str:
    """First paragraph of the docstring; inherited ones say nothing about the class."""
    own = cls.__dict__.get("__doc__") or ""
    text = inspect.cleandoc(own).split("\n\n")[0].replace("\n", " ")
    return "" if text.startswith(f"{cls.__name__}(") else text


def _catalogue() -> str:
    lines = [
        "# Event catalogue",
        "",
        "Generated from `libs/sluice/events` by `make proto`. Each event has a `cause`: the log sequence of",
        "the message that brought it about. Schemas: `proto/schema`; an example of each: `proto/golden`.",
    ]
    for writer, events in WRITERS.items():
        lines += [
            "",
            f"## `{writer}`",
            "",
            _WRITER_TEXT[writer],
            "",
            "| event | fields | meaning |",
            "|---|---|---|",
        ]
        lines += [_row(cls) for cls in events]
    lines += ["", "## `job.<namespace>.<name>` and `presence.<kind>.<name>`", ""]
    lines += [
        "What upstream systems, executors and service shells publish: `data` of one CloudEvent each.",
        "",
    ]
    lines += ["| type | fields of `data` | meaning |", "|---|---|---|"]
    lines += [f"| `{_JOB_SUBMITTED}` | the manifest | A new job, or a new version of a live one. |"]
    lines += [_row(cls) for cls in _inputs()]
    lines += ["", "## `verdict.<controller>`", ""]
    lines += ["What admission-check controllers answer; see [admission checks](admission-checks.md).", ""]
    lines += ["| type | fields of `data` | meaning |", "|---|---|---|", _row(CheckVerdict)]
    lines += ["", "## `cell.<name>`", "", "What the dispatcher's link to a worker cell says.", ""]
    lines += ["| type | fields of `data` | meaning |", "|---|---|---|"]
    lines += [_row(cls) for cls in schema_cells.TYPES]
    return "\n".join(lines) + "\n"


def _row(cls: type[msgspec.Struct]) -> str:
    fields = ", ".join(f"`{name}`" for name in cls.__struct_encode_fields__ if name != "cause")
    return f"| `{cls.__name__}` | {fields} | {_summary(cls)} |"
