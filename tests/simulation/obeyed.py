"""What people ask for is done: no message is refused or ignored without a reason that holds (the log's answer
to it is read once more, as the person would who sent it)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from sluice.core.slices.resize import wanted
from sluice.core.slices.state import Phase
from sluice.core.workload.charges import counts
from sluice.events.base import JobKey
from sluice.events.codec import type_of
from sluice.events.slices import InputsIgnored, JobSuspended, Rejected, WorkloadDeleted
from sluice.log.contract import Entry

from .log import steps_of
from .pods import LARGE

if TYPE_CHECKING:
    from .watchman import Watchman

PEOPLE = frozenset(("JobSubmitted", "JobScaled", "JobActivated", "JobDeactivated", "JobDeleted"))
ELASTIC = "kueue.x-k8s.io/elastic-job"
FOLLOW = "kueue.x-k8s.io/job-completions-equal-parallelism"


def check(watchman: "Watchman", entry: Entry) -> None:
    """Look at the answers in a commit of the slice-aggregator, behind which its state is now."""
    answered: dict[JobKey, tuple[int, Any]] = {}
    now: set[int] = set()
    deleted: set[JobKey] = set()
    before = watchman.answered
    event: Any
    for step in steps_of(entry):
        for event in step.events:
            kind = type(event)
            if kind is WorkloadDeleted and event.workload in watchman.jobs:
                deleted.add(watchman.jobs[event.workload][0])
            for seq in event.seqs if kind is InputsIgnored else (event.cause,):
                if seq in before:
                    continue  # what comes later of what was taken
                message = watchman.cell.log.entries[seq - 1]
                if not message.suffix.startswith("job.") or kind is JobSuspended:
                    continue
                now.add(seq)
                namespace, _, name = message.suffix.removeprefix("job.").partition(".")
                answered[JobKey(f"{namespace}/{name}")] = (seq, event)
    watchman.answered |= now
    for key, (seq, event) in answered.items():
        message = watchman.cell.log.entries[seq - 1]
        if message.header in watchman.garbage:
            continue
        if type_of(message.payload) not in PEOPLE:
            continue
        if isinstance(event, InputsIgnored | Rejected) and key in deleted:
            continue  # it was there when the message came, and is over now
        found = msgspec.json.decode(message.payload)
        for text in _wrong(watchman, key, found["type"], found["data"], event):
            watchman.fail("obeyed", f"{found['type']} of {key} at {seq}: {text} ({type(event).__name__})")


def _wrong(watchman: "Watchman", key: JobKey, kind: str, data: Any, event: Any) -> Iterator[str]:
    job = watchman.slices.jobs.get(key)
    if isinstance(event, Rejected):
        if not event.errors:
            yield "refused, and nobody says why"
        yield from (
            f"refused for {error.field}: {error.detail or error.type}"
            for error in event.errors
            if not _may_refuse(job, kind, data, error)
        )
        return
    if isinstance(event, InputsIgnored) and event.reason == "Superseded":
        return
    if job is None:
        if kind == "JobSubmitted" and key not in watchman.slices.finished:
            yield "it was taken, and there is no such job"
        return
    if job.phase is Phase.STOPPING:
        return
    if kind in ("JobScaled", "JobSubmitted") and isinstance(event, InputsIgnored):
        # Who asks again for growth that was rejected means it.
        grown = any(n > counts(job.record.pod_sets).get(name, n) for name, n in counts(wanted(job)).items())
        if grown and job.pending is not None and job.record.active and not job.pending.active:
            yield "its growth stays rejected"
    match kind:
        case "JobDeleted":
            yield "the job is still there"
        case "JobDeactivated" if job.record.active:
            yield "the job is active"
        case "JobActivated" if not job.record.active:
            yield "the job is not active"
        case "JobScaled":
            sizes, most = counts(wanted(job)), _most(_manifest(watchman, job))
            if any(sizes.get(name) != min(n, most.get(name, n)) for name, n in data["podSets"].items()):
                yield f"its sizes are {sizes}, not {data['podSets']}, of at most {most}"
        case "JobSubmitted" if isinstance(event, InputsIgnored):
            if _manifest(watchman, job) != data:
                yield "another manifest was submitted before"


def _manifest(watchman: "Watchman", job: Any) -> Any:
    """Return the manifest that the job goes by."""
    return msgspec.json.decode(watchman.cell.log.entries[job.manifest_seq - 1].payload)["data"]


def _most(manifest: Any) -> dict[str, int]:
    """Return pod set -> how many of its pods there can be, since no more must complete."""
    spec, notes = manifest["spec"], manifest["metadata"].get("annotations", {})
    if manifest["kind"] == "JobSet":
        return {
            part["name"]: part["replicas"] * part["template"]["spec"]["completions"]
            for part in spec["replicatedJobs"]
        }
    if "completions" not in spec or notes.get(FOLLOW) == "true":
        return {}
    return {"main": spec["completions"]}


def _may_refuse(job: Any, kind: str, data: Any, error: Any) -> bool:
    """Tell whether an error can be right. Those of what the grammar does not make are not looked into."""
    text: str = error.detail
    if "changes wait for" in text:
        return True
    if error.field == "subject":
        return job is None
    if "keeps at least one pod" in text:
        return True
    if kind == "JobScaled":
        name = error.field.removeprefix("podSets[").removesuffix("]")
        return job is None or name not in counts(job.record.pod_sets)
    if kind != "JobSubmitted":
        return False
    annotations = data["metadata"].get("annotations", {})
    if "concurrentAdmissionPolicy" in text:
        return bool(annotations.get(ELASTIC) == "true")
    if "immutable" in text:
        return job is not None
    if error.type == "FieldValueTooLong" and not error.field:
        return len(msgspec.json.encode(data)) > len(LARGE)  # each of its pod templates may be large
    return "should be between" in text or "contradicts" in text


__all__ = ["check"]
