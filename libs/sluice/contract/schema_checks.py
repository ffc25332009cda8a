"""The wire contract of admission-check controllers: what `schema` puts into proto/ for them."""

from typing import Any

import msgspec

from sluice.api.core_v1 import Toleration
from sluice.api.kueue import AdmissionCheckParametersReference, PodSetUpdate
from sluice.events.base import PodSet, PodSetAssignment, WorkloadKey
from sluice.events.codec import CONTENT_TYPE, encode_message
from sluice.protocol.checks import CheckedWorkload, CheckRequest, CheckVerdict, ControllerHeartbeat

FAMILY = "admission-check"
TYPES: tuple[type[msgspec.Struct], ...] = (CheckRequest, CheckVerdict, ControllerHeartbeat)

CONTROLLER = "example.com/budget"
_UID = "00000000-0000-bc55-8000-000000000000"
_AT = 1_767_225_600_000_000


def _request(**more: Any) -> CheckRequest:
    return CheckRequest(
        workload=CheckedWorkload(
            namespace="team-a",
            name="job-train-3f9c1",
            uid=_UID,
            job="train",
            job_kind="Job",
            local_queue="research",
            cluster_queue="research",
            priority=100,
            labels={"team": "a"},
            max_execution_time_s=3600,
        ),
        check="budget",
        controller=CONTROLLER,
        parameters=AdmissionCheckParametersReference(
            api_group="example.com", kind="Budget", name="team-budgets"
        ),
        parameters_spec={"hoursPerWeek": 100},
        pod_sets=(PodSet(name="main", count=2, requests={"cpu": 2000, "memory": 4 << 30}),),
        assignment=(
            PodSetAssignment(
                name="main",
                count=2,
                flavors={"cpu": "on-demand", "memory": "on-demand"},
                usage={"cpu": 4000, "memory": 8 << 30},
            ),
        ),
        reserved_at=_AT,
        seq=48213,
        **more,
    )


def _verdict(**more: Any) -> CheckVerdict:
    return CheckVerdict(
        workload=WorkloadKey("team-a/job-train-3f9c1"), check="budget", attempt=1, uid=_UID, **more
    )


def examples() -> dict[str, bytes]:
    """Return golden messages by name: requests and heartbeat as values, verdicts as CloudEvents."""
    verdicts = {
        "Ready": _verdict(
            state="Ready",
            message="12 of 100 hours used",
            pod_set_updates=(
                PodSetUpdate(
                    name="main",
                    labels={"budget": "team-a"},
                    node_selector={"pool": "reserved-1"},
                    tolerations=[Toleration(key="reserved", operator="Exists", effect="NoSchedule")],
                ),
            ),
        ),
        "Retry": _verdict(state="Retry", message="100 of 100 hours used", requeue_after_seconds=600),
        "Rejected": _verdict(state="Rejected", message="team-a has no budget"),
        "Pending": _verdict(state="Pending", message="waiting for the approval of finance"),
        "PreemptionRequired": _verdict(
            state="Pending", reason="PreemptionRequired", message="fits once others are preempted"
        ),
    }
    result = {f"CheckVerdict-{name}": _message(name, verdict) for name, verdict in verdicts.items()}
    requests = {
        "Pending": _request(attempt=1),
        "PreemptionsPending": _request(attempt=1, preemptions_pending=True),
        "Admitted": _request(attempt=2, state="Ready", admitted=True, retry_count=1),
    }
    for name, request in requests.items():
        result[f"CheckRequest-{name}"] = msgspec.json.encode(request)
    result["ControllerHeartbeat"] = msgspec.json.encode(
        ControllerHeartbeat(
            name=CONTROLLER, instance="host-1-4711-9f3a", host="host-1", pid=4711, version="1.2.0"
        )
    )
    return result


def _message(name: str, verdict: CheckVerdict) -> bytes:
    return encode_message(
        message_id=f"{_UID}.budget.1.{1 if name != 'Retry' else 2}",
        source=f"controller/{CONTROLLER}",
        event_type="CheckVerdict",
        subject=verdict.workload,
        at=_AT,
        data=verdict,
    )


def channels(cell: str, cloud_event: Any) -> dict[str, Any]:
    """Return the channels; *cloud_event*: makes the schema of a CloudEvent from type and data."""
    return {
        "checks-requested": _bucket(
            cell,
            "$KV.sluice_{cell}_checks.{controller}.{namespace}.{workload}.{check}",
            "KV bucket: the checks to be performed. Level-triggered: the newest value of a key says what is "
            "asked now, its deletion (header KV-Operation: DEL) that the request is withdrawn. Controllers "
            "watch `{controller}.>`. Each part of a key is percent-encoded with `=` for `%`.",
            ("controller", "namespace", "workload", "check"),
            "CheckRequest",
        ),
        "verdict": {
            "address": "sluice.{cell}.verdict.{controller}",
            "description": "A controller's answers, in the log. Nats-Msg-Id = id. The controller's name is "
            "percent-encoded. What is of an older attempt, for an unknown workload or check, or of a "
            "controller that does not own the check changes nothing and is recorded.",
            "parameters": {"cell": {"default": cell}, "controller": {}},
            "messages": {
                "CheckVerdict": {
                    "contentType": CONTENT_TYPE,
                    "payload": cloud_event("CheckVerdict", {"$ref": _ref("CheckVerdict")}),
                }
            },
        },
        "controller-heartbeat": _bucket(
            cell,
            "$KV.sluice_{cell}_heartbeats.controller.{controller}",
            "KV bucket in memory: the controller is there. Written with the header Nats-TTL (seconds), and "
            "with Nats-Expected-Last-Subject-Sequence, so that one of several replicas holds it: 0 to "
            "create it, the last revision to renew it. Renew it several times within its time.",
            ("controller",),
            "ControllerHeartbeat",
        ),
    }


def operations() -> dict[str, Any]:
    return {
        "watch-check-requests": {"action": "receive", "channel": {"$ref": "#/channels/checks-requested"}},
        "publish-verdicts": {"action": "send", "channel": {"$ref": "#/channels/verdict"}},
        "keep-controller-alive": {"action": "send", "channel": {"$ref": "#/channels/controller-heartbeat"}},
    }


def _ref(name: str) -> str:
    return f"./schema/{FAMILY}.json#/$defs/{name}"


def _bucket(cell: str, address: str, text: str, parameters: tuple[str, ...], value: str) -> dict[str, Any]:
    return {
        "address": address,
        "description": text,
        "parameters": {"cell": {"default": cell}, **{name: {} for name in parameters}},
        "messages": {value: {"contentType": CONTENT_TYPE, "payload": {"$ref": _ref(value)}}},
    }
