"""Events of the log as one line for people."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluice.api.quantity import format_value
from sluice.core.workload.charges import size_text
from sluice.events.codec import rfc3339

__all__ = ["describe", "subject_of"]

Fields = Mapping[str, Any]


def describe(event: Fields) -> str:
    """Return what happened, from an event as plain data (with its `type`)."""
    tag = str(event.get("type", ""))
    text = _TEXTS.get(tag)
    return text(event) if text is not None else _generic(event)


def subject_of(event: Fields) -> str:
    """Return what an event is about: a workload, a job, a queue; of several the first."""
    for field in ("workload", "job", "clusterQueue", "localQueue", "executor", "controller", "check"):
        value = event.get(field)
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping):
            return f"{value.get('namespace', '')}/{value.get('name', '')}"
    if "kind" in event and "name" in event:
        namespace = f"{event['namespace']}/" if event.get("namespace") else ""
        return f"{str(event['kind']).lower()}/{namespace}{event['name']}"
    keys = event.get("workloads")
    if isinstance(keys, list) and keys:
        return str(keys[0]) if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"
    return ""


def resources(amounts: Mapping[str, int]) -> str:
    """Return base units as people write them: `cpu 2, memory 4Gi`."""
    return ", ".join(f"{name} {format_value(name, value)}" for name, value in amounts.items())


def _generic(event: Fields) -> str:
    left_out = {"type", "cause", "workload", "job", "workloads"}
    parts = [f"{key}={_short(value)}" for key, value in event.items() if key not in left_out]
    return " ".join(parts)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _said(event: Fields, *fields: str) -> str:
    return ": ".join(str(event[field]) for field in fields if event.get(field))


def _brief(event: Fields, *fields: str) -> str:
    """As `_said`, without a word that the next one begins with."""
    words = [str(event[field]) for field in fields if event.get(field)]
    return ": ".join(
        word for word, after in zip(words, [*words[1:], ""], strict=True) if not after.startswith(word)
    )


def _pod_sets(pod_sets: Sequence[Fields]) -> str:
    return "; ".join(
        f"{pod_set.get('count', 0)} x {pod_set.get('name', 'main')}"
        + (f" ({resources(pod_set['requests'])} each)" if pod_set.get("requests") else "")
        for pod_set in pod_sets
    )


def _created(event: Fields) -> str:
    record = event["workload"]
    priority = f", priority {record['priority']}" if record.get("priority") else ""
    return f"in queue {record.get('queueName') or '<none>'}{priority}: {_pod_sets(record.get('podSets', ()))}"


def _reserved(event: Fields) -> str:
    parts = []
    for assigned in event.get("podSets", ()):
        flavors = ", ".join(
            f"{resource} {format_value(resource, assigned.get('usage', {}).get(resource, 0))} of {flavor}"
            for resource, flavor in assigned.get("flavors", {}).items()
        )
        parts.append(f"{assigned.get('count')} x {assigned.get('name')} ({flavors or 'without requests'})")
    return f"in {event.get('clusterQueue')}: {'; '.join(parts)}"


def _preempted(event: Fields) -> str:
    path = (
        f" ({event.get('preemptorPath')} over {event.get('preempteePath')})"
        if event.get("preemptorPath")
        else ""
    )
    return f"by {event.get('preemptor')}, rule {event.get('rule')}{path}"


def _applied(event: Fields) -> str:
    generation = event.get("object", {}).get("metadata", {}).get("generation")
    what = "created" if event.get("created") else f"changed, generation {generation}"
    if generation is None:
        what = "applied"
    deleted = event.get("object", {}).get("metadata", {}).get("deletionTimestamp")
    return "terminating" if deleted else what


def _rejected(event: Fields) -> str:
    errors = "; ".join(
        f"{error.get('field', '')}: {error.get('detail') or error.get('type')}"
        for error in event.get("errors", ())
    )
    return f"message {event.get('cause')} ({event.get('eventType', '')} on {event.get('subject')}): {errors}"


def _many(event: Fields) -> str:
    keys = event.get("workloads", ())
    some = f"{len(keys)} workloads: " if len(keys) > 1 else ""
    return f"{some}{_said(event, 'reason', 'message')}"


def _updated(event: Fields) -> str:
    changes = {k: v for k, v in event.items() if k not in ("type", "cause", "workload")}
    if "podSets" in changes:
        changes["podSets"] = _pod_sets(changes["podSets"])
    if changes.get("misconfigured") == "":
        changes["misconfigured"] = "no"
    if "active" in changes:
        said, switched = changes.pop("message", ""), "activated" if changes.pop("active") else "deactivated"
        return ", ".join([f"{switched}: {said}" if said else switched, *_pairs(changes)])
    # Without any change another manifest is in force, of which the workload shows nothing.
    return ", ".join(_pairs(changes)) or "another manifest, of the same workload"


def _pairs(changes: Fields) -> list[str]:
    return [f"{key}={_short(value)}" for key, value in changes.items()]


def _check_state(event: Fields) -> str:
    after = event.get("requeueAfterS")
    state = f"{event.get('check')} is {event.get('state')}{f' (again after {after}s)' if after else ''}"
    said = _said(event, "reason", "message")
    return f"{state}, attempt {event.get('attempt', 1)}{f': {said}' if said else ''}"


def _checks(event: Fields) -> str:
    return ", ".join(event.get("checks", ()))


def _requests(event: Fields) -> str:
    """Requests change with the workload (its size, say), too, which the event does not tell."""
    if event.get("preemptionsPending"):
        return "preemptions pending"
    return "admitted" if event.get("admitted") else "edited, or no preemptions pending any more"


def _verdict(event: Fields) -> str:
    what = f"{event.get('state')} of {event.get('check')} by {event.get('controller')}"
    return f"{what} for attempt {event.get('attempt')}: {_said(event, 'reason', 'message')}"


def _sizes(event: Fields) -> str:
    return size_text(event.get("pods", {})) or "none"


def _names(event: Fields) -> str:
    victims = list(event.get("victims", ()))
    more = f" and {len(victims) - 3} more" if len(victims) > 3 else ""
    return f"{', '.join(map(str, victims[:3]))}{more}" if victims else "nobody"


def _needed(event: Fields) -> str:
    """Return what it asks for; keys are `flavor/resource`, amounts base units."""
    usage = event.get("usage", {})
    found = [f"{format_value(fr.rpartition('/')[2], n)} {fr}" for fr, n in usage.items()]
    return ", ".join(found) or "nothing"


def _trees(event: Fields) -> str:
    names = [*event.get("cohorts", ()), *event.get("clusterQueues", ())]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(map(str, names[:3]))}{more}" if names else "no tree"


_TEXTS: dict[str, Callable[[Fields], str]] = {
    "WorkloadCreated": _created,
    "WorkloadUpdated": _updated,
    "QuotaReserved": _reserved,
    "Admitted": lambda _: "may start",
    "Evicted": lambda e: _brief(e, "reason", "underlyingCause", "message"),
    "Preempted": _preempted,
    "QuotaReleased": lambda _: "its quota is free",
    "Requeued": lambda e: f"back in its queue: {e.get('reason')}",
    "WorkloadFinished": lambda e: _said({"reason": "Succeeded", **e}, "reason", "message"),
    "WorkloadStopped": lambda e: _said(e, "reason", "message") or "no pod runs any more",
    "WorkloadPodsReady": lambda e: "pods ready" if e.get("ready", True) else "pods not ready",
    "WorkloadDeleted": lambda _: "gone",
    "WorkloadDeactivated": lambda e: _said(e, "reason", "message"),
    "JobResumed": lambda e: f"attempt {e.get('attempt')} may run",
    "JobSuspended": lambda e: f"attempt {e.get('attempt')} must stop: {_said(e, 'reason', 'message')}",
    "JobClaimed": lambda e: f"attempt {e.get('attempt')} taken by {e.get('executor')}",
    "PendingReasonChanged": _many,
    "WorkloadsParked": _many,
    "ObjectApplied": _applied,
    "ObjectDeleted": lambda _: "deleted",
    "Rejected": _rejected,
    "ClusterQueueStatusChanged": lambda e: _status(e),
    "LocalQueueStatusChanged": lambda e: _status(e),
    "ChecksRequested": lambda e: f"attempt {e.get('attempt')} needs {_checks(e) or 'no check'}",
    "CheckRequestsUpdated": lambda e: f"attempt {e.get('attempt')}: {_requests(e)}",
    "ChecksWithdrawn": lambda e: f"attempt {e.get('attempt')} is over: {e.get('reason')}",
    "CheckStateChanged": _check_state,
    "ChecksReady": lambda e: f"all checks of attempt {e.get('attempt', '?')}",
    "ChecksPending": lambda e: f"not all checks of attempt {e.get('attempt')} are Ready any more",
    "ChecksRetry": lambda e: _said({**e, "checks": _checks(e)}, "checks", "message"),
    "ChecksRejected": lambda e: _said({**e, "checks": _checks(e)}, "checks", "message"),
    "PreemptionsAllowed": lambda e: f"attempt {e.get('attempt')}: {e.get('reason')}",
    "VerdictIgnored": _verdict,
    "CheckInputRejected": _rejected,
    "ControllerSeen": lambda _: "it is there",
    "ControllerLost": lambda _: "its heartbeat has stopped",
    "AdmissionCheckStatusChanged": lambda e: _status(e),
    "BlockedOnPreemptionGates": lambda e: _said(e, "message") or "its preemption gate is closed",
    "ExecutorAway": lambda _: "it has no heartbeat, and keeps its jobs for now",
    "ExecutorLost": lambda _: "it has no heartbeat",
    "ExecutorSeen": lambda _: "it is there",
    "FlavorScanAdvanced": lambda _: "the next attempt goes on behind the flavors tried",
    "JobResized": lambda e: f"attempt {e.get('attempt')} may run {_sizes(e)}",
    "ParentAdmitted": lambda e: f"runs as {e.get('variant')}, {_reserved(e)}",
    "ParentDeactivated": lambda e: _said(e, "reason", "message"),
    "ParentEvicted": lambda e: _said(e, "reason", "causeReason", "causeMessage"),
    "ParentMarked": lambda _: "has variants, which queue for it",
    "ParentReleased": lambda _: "has stopped",
    "ParentUnmarked": lambda _: "is an ordinary workload again",
    "PendingPreemptionsIssued": lambda e: (
        f"preempts {_names(e)} now" if e.get("victims") else "needs to preempt nobody any more"
    ),
    "PreemptionGateClosed": lambda e: f"may not preempt any more ({e.get('gate')})",
    "PreemptionGateOpened": lambda e: f"may preempt ({e.get('gate')})",
    "PreemptionIssued": lambda e: f"waits for {_names(e)} to stop, {_needed(e)} in all",
    "PreemptionWaitEnded": lambda _: "waits for its victims no more",
    "CompletionsUpdated": lambda e: f"completions left to do: {_sizes({'pods': e.get('remaining', {})})}",
    "ReclaimablePodsUpdated": lambda e: f"pods that need no quota: {_sizes(e)}",
    "RequeueBackoffStarted": lambda e: _held_back(e),
    "TreesSettled": lambda e: f"whoever waits in {_trees(e)} has been looked at",
    "VariantActivated": lambda e: _said(e, "message") or "active",
    "VariantCreated": lambda e: f"variant {e.get('variant')} of {e['workload'].get('parent')}",
    "VariantDeactivated": lambda e: _said(e, "message") or "inactive",
    "VariantDeleted": lambda e: _said(e, "message") or "gone",
    "VariantPodsReady": lambda e: "pods ready" if e.get("ready", True) else "pods not ready",
    "VariantPodsReclaimed": lambda e: f"pods that need no quota: {_sizes(e)}",
    "VariantStopped": lambda e: _said(e, "reason", "message") or "no pod runs any more",
    "WorkloadSliceReplaced": lambda e: f"by {e.get('by')}",
    "WorkloadSliceWithdrawn": lambda e: f"not needed beside {e.get('running')}",
    "InputsIgnored": lambda e: f"messages {_short(e.get('seqs'))}: {e.get('reason')}",
}


def _held_back(event: Fields) -> str:
    """Counted are attempts whose pods were not ready in time; a check's Retry is none."""
    until = event.get("requeueAt")
    parts = [f"held back until {rfc3339(until)}" if isinstance(until, int) else "held back"]
    if event.get("count"):
        parts.append(f"failed attempts: {event['count']}")
    return ", ".join(parts)


def _status(event: Fields) -> str:
    return f"{'active' if event.get('active') else 'inactive'}: {_said(event, 'reason', 'message')}"
