"""Plan of an action: a manifest to apply, or a message about a job, and the command that does the same."""

import shlex
from typing import Any, NamedTuple

import msgspec
import yaml

from sluice.api.decode import DecodeError, decode_object
from sluice.api.defaults import default
from sluice.api.errors import InvalidError
from sluice.api.labels import PRIORITY_CLASS
from sluice.console.problems import NotFoundError, ProblemError
from sluice.core.views.present.job import Phase
from sluice.events.base import JobKey
from sluice.events.config import ObjectApplied
from sluice.events.job import JobActivated, JobDeactivated, JobDeleted, JobEvent
from sluice.readmodel.objects import keys, render
from sluice.readmodel.world import World
from sluice.replay.explain.forecast import Change, deleted, edited

from .shapes import ActionRequest

Plain = dict[str, Any]
_KEPT = ("name", "namespace", "labels", "annotations", "resourceVersion")
"""Of metadata: what people write, and which state of the object they have seen."""


class ConflictError(ProblemError):
    """Somebody else came first."""

    status, code = 409, "Conflict"


class Plan(NamedTuple):
    """What is to be done. One of *manifest* (applied), *event* and *job* (submitted anew) is there."""

    command: str
    summary: str
    version: str
    change: Change
    """What the scheduler would hear, for a forecast."""
    manifest: Plain | None = None
    event: JobEvent | None = None
    job: Plain | None = None


def plan(request: ActionRequest, world: World, submitted: Plain | None) -> Plan:
    """Return what an action says. *submitted*: a job's manifest, for those actions that need it.

    Raises:
        ProblemError: there is no such thing, or it makes no sense.
    """
    match request.action:
        case "stop" | "resume":
            return _stop(request, world)
        case "quota":
            return _quota(request, world)
        case "priority":
            return _priority(request, world, submitted)
    return _said(request, world)


# Queues


def _stop(request: ActionRequest, world: World) -> Plan:
    policy = (request.value or "Hold") if request.action == "stop" else "None"
    if request.action == "stop" and policy not in ("Hold", "HoldAndDrain"):
        raise ProblemError(f"value={policy[:40]}: want Hold or HoldAndDrain")
    found = _manifest(request, world, request.kind)
    found["spec"]["stopPolicy"] = policy
    what = {
        "Hold": "admits nobody more; who runs goes on",
        "HoldAndDrain": "admits nobody more; who runs is evicted",
        "None": "admits again",
    }
    return _applied(request.kind, found, f"{request.kind} {request.name} {what[policy]}.")


def _quota(request: ActionRequest, world: World) -> Plan:
    found = _manifest(request, world, "ClusterQueue")
    for group in found["spec"].get("resourceGroups", ()):
        for flavor in group.get("flavors", ()):
            for resource in flavor.get("resources", ()):
                if (flavor["name"], resource["name"]) == (request.flavor, request.resource):
                    before, resource["nominalQuota"] = resource.get("nominalQuota", 0), request.value
                    where = f"{request.resource} of {request.flavor} in {request.name}"
                    return _applied(
                        "ClusterQueue",
                        found,
                        f"Nominal quota for {where}: {request.value} instead of {before}.",
                    )
    raise ProblemError(f"{request.name} has no quota for {request.resource} of {request.flavor}")


def _manifest(request: ActionRequest, world: World, kind: str) -> Plain:
    key = f"{request.namespace}/{request.name}" if kind == "LocalQueue" else request.name
    found = render(world, kind, key)
    if found is None:
        raise NotFoundError(kind, key, keys(world, kind))
    metadata = {name: value for name, value in found["metadata"].items() if name in _KEPT and value}
    metadata["resourceVersion"] = _unchanged(request, str(metadata.get("resourceVersion", "")))
    spec = msgspec.json.decode(msgspec.json.encode(found.get("spec", {})))
    return {"apiVersion": found["apiVersion"], "kind": kind, "metadata": metadata, "spec": spec}


def _unchanged(request: ActionRequest, now: str) -> str:
    """Return the version that is there, which has to be the one that people were shown.

    Raises:
        ConflictError: it is another one.
    """
    if request.version not in ("", now):
        raise ConflictError(f"{request.name} was changed meanwhile", "look again at what this would do")
    return now


def _applied(kind: str, manifest: Plain, summary: str) -> Plan:
    try:
        whole = default(decode_object(manifest))
    except (DecodeError, InvalidError) as error:
        raise ProblemError(str(error)) from None
    metadata = manifest["metadata"]
    event = ObjectApplied(
        cause=0,
        kind=kind,
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        object=msgspec.Raw(msgspec.json.encode(whole)),
    )
    text = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=120)
    command = f"sluice apply -f - <<'END'\n{text}END"
    return Plan(command, summary, metadata["resourceVersion"], lambda _: (event,), manifest=manifest)


# Jobs


def _said(request: ActionRequest, world: World) -> Plan:
    """Plan a message about a job: deactivate, activate, delete."""
    key, message = _job(request, world), request.message
    words = ["sluice", "job", request.action, request.name]
    if request.namespace != "default":
        words += ["-n", request.namespace]
    event: JobEvent
    match request.action:
        case "deactivate":
            event, change = JobDeactivated(message=message), edited(key, active=False)
            summary = f"Job {key} is stopped if it runs, and keeps out of its queue until it is activated."
        case "activate":
            event, change = JobActivated(message=message), edited(key, active=True)
            summary = f"Job {key} is queued again; its failures are counted anew."
        case _:
            event, change = JobDeleted(), deleted(key)
            summary = f"Job {key} is stopped if it runs, and deleted."
    if message and request.action != "delete":
        words += ["-m", message]
    return Plan(shlex.join(words), summary, "", change, event=event)


def _priority(request: ActionRequest, world: World, submitted: Plain | None) -> Plan:
    key, wanted = _job(request, world), request.value
    classes = world.objects.by_kind["WorkloadPriorityClass"]
    if wanted not in classes:
        raise NotFoundError("WorkloadPriorityClass", wanted, classes)
    if submitted is None:
        raise ProblemError(f"the log does not have the manifest of {key}")
    if (render(world, "Job", key) or {})["status"]["phase"] == Phase.SUSPENDED:
        raise ProblemError(f"{key} is deactivated, and to be submitted again would activate it")
    offered = world.jobs.get(JobKey(key))
    version = _unchanged(request, "" if offered is None else str(offered.shown.seq))
    stored = classes[wanted].object
    value = int(getattr(stored, "value", 0))
    job = _with_class(submitted, wanted)
    words = ["sluice", "get", "job", request.name, "-n", request.namespace, "-o", "yaml"]
    again = ["sluice", "submit", "-n", request.namespace, "--priority-class", wanted, "-f", "-"]
    change = edited(key, priority=value, priority_class=wanted)
    summary = f"Job {key} has priority {value}, of the class {wanted}: its manifest is submitted again."
    return Plan(f"{shlex.join(words)} | {shlex.join(again)}", summary, version, change, job=job)


def _with_class(manifest: Plain, name: str) -> Plain:
    """Return a job's manifest with another priority class, where manifests of its kind name it."""
    spec, metadata = dict(manifest.get("spec") or {}), dict(manifest.get("metadata") or {})
    if spec.get("priorityClassName") or str(manifest.get("apiVersion", "")).startswith("sluice.dev/"):
        spec["priorityClassName"] = name
    else:
        metadata["labels"] = {**(metadata.get("labels") or {}), PRIORITY_CLASS: name}
    return {**manifest, "metadata": metadata, "spec": spec}


def _job(request: ActionRequest, world: World) -> str:
    key = f"{request.namespace}/{request.name}"
    found = render(world, "Job", key)
    if found is None:
        raise NotFoundError("job", key, keys(world, "Job"))
    if found["status"]["phase"] in (Phase.SUCCEEDED, Phase.FAILED) and request.action != "delete":
        raise ProblemError(f"{key} has ended")
    return key
