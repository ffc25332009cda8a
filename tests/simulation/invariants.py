"""Invariants that need the truth about what runs (G9), by the names that failures are known by."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from sluice.events.base import Event, JobKey, WorkloadKey
from sluice.events.checks import ChecksPending, ChecksRejected, ChecksRequested, ChecksRetry, VerdictIgnored
from sluice.events.scheduler import (
    Evicted,
    Preempted,
    QuotaReserved,
    WorkloadDeactivated,
    WorkloadSliceReplaced,
)
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadFinished, WorkloadUpdated
from sluice.events.variants import VariantCreated
from sluice.log.contract import Entry

from .log import steps_of

if TYPE_CHECKING:
    from .truth import Proc
    from .watchman import Watchman

MOST_PREEMPTIONS = 12
"""So often a job may be preempted without a submission, an edit or a retry meanwhile."""


# What belongs to whom


def _created(watchman: "Watchman", event: WorkloadCreated, _: Entry) -> None:
    record = event.workload
    if record.job is not None:
        watchman.jobs[record.key] = (record.job.key, record.job.uid)
        watchman.workloads.setdefault(record.job.key, {})[record.key] = None


def _variant_created(watchman: "Watchman", event: VariantCreated, _: Entry) -> None:
    record = event.workload
    if record.parent is not None and record.parent in watchman.jobs:
        job = watchman.jobs[record.parent]
        watchman.jobs[record.key] = job
        watchman.workloads.setdefault(job[0], {})[record.key] = None


def _updated(watchman: "Watchman", event: WorkloadUpdated, entry: Entry) -> None:
    """Pods that a shrinking gives up run until their executor hears of it (WS3)."""
    if event.active is not None:
        watchman.retry_at.pop(event.workload, None)
    if event.pod_sets is None or event.workload not in watchman.jobs:
        return
    job, _uid = watchman.jobs[event.workload]
    had: dict[str, int] = {}
    for _, pods in held_for(watchman, job):
        for name, assigned in pods.items():
            had[name] = max(had.get(name, 0), assigned.count)
    if any(pods.count < had.get(pods.name, 0) for pods in event.pod_sets):
        watchman.shrunk.setdefault(job, []).append((entry.seq, had))


def _replaced(watchman: "Watchman", event: WorkloadSliceReplaced, entry: Entry) -> None:
    """A slice may have fewer pods of one set than the one before it, and more of another."""
    if event.workload not in watchman.jobs:
        return
    job, _uid = watchman.jobs[event.workload]
    had: dict[str, int] = {}
    for _, pods in held_for(watchman, job):
        for name, assigned in pods.items():
            had[name] = max(had.get(name, 0), assigned.count)
    watchman.shrunk.setdefault(job, []).append((entry.seq, had))


# runs-with-quota


def held_for(watchman: "Watchman", job: JobKey) -> list[tuple[WorkloadKey, dict[str, Any]]]:
    """Return the reservations of a job that the scheduler holds: (workload, pod set -> assignment)."""
    workloads = watchman.scheduler.world.workloads
    found = []
    for key in watchman.workloads.get(job, ()):
        workload = workloads.get(key)
        if workload is not None and workload.assignment is not None:
            found.append((key, {each.name: each for each in workload.assignment}))
    return found


def all_run_with_quota(watchman: "Watchman") -> None:
    for job in watchman.cell.truth.procs:
        runs_with_quota(watchman, job)


def runs_with_quota(watchman: "Watchman", job: JobKey) -> None:
    """No attempt runs without quota that the scheduler holds for it, in the same flavors and counts (G9)."""
    held = None
    for proc in watchman.cell.truth.of(job):
        if proc.lost:
            continue
        if held is None:
            held = held_for(watchman, job)
        spare = _spare(watchman, proc)
        if not any(_covers(proc, pods, spare) for _, pods in held):
            what = "; ".join(
                f"{key}: {', '.join(f'{p.count} {n} on {p.flavors}' for n, p in pods.items())}"
                for key, pods in held
            )
            watchman.fail("runs-with-quota", f"{proc} runs, the scheduler holds {what or 'nothing'}")


def _spare(watchman: "Watchman", proc: "Proc") -> dict[str, int]:
    """Return how many pods may still run because their executor has not heard yet that the job shrank."""
    spare: dict[str, int] = {}
    for seq, had in watchman.shrunk.get(proc.job, ()):
        if seq > proc.seq:
            for name, count in had.items():
                spare[name] = max(count, spare.get(name, 0))
    return spare


def _covers(proc: "Proc", held: dict[str, Any], spare: dict[str, int]) -> bool:
    for name, pods in proc.pods.items():
        if not pods.running:
            continue
        found = held.get(name)
        if found is None or found.flavors != pods.flavors:
            return False
        if pods.running > max(found.count, spare.get(name, 0)):
            return False
    return True


# one-attempt


def runs_once(watchman: "Watchman", job: JobKey) -> None:
    """Never two attempts of one job at once, but for those whose executor the cell has declared lost."""
    procs = [proc for proc in watchman.cell.truth.of(job) if not proc.lost]
    if len(procs) > 1:
        watchman.fail("one-attempt", "; ".join(map(str, procs)))


def presence(watchman: "Watchman", entry: Entry) -> None:
    """Of what runs on an executor that is declared lost nothing is promised."""
    if b'"Lost"' not in entry.payload:
        return
    name = entry.suffix.rpartition(".")[2]
    watchman.lost_at[name] = entry.seq
    for proc in watchman.cell.truth.all():
        if proc.executor == name:
            proc.lost = True


# success-is-done


def _finished(watchman: "Watchman", event: WorkloadFinished, entry: Entry) -> None:
    """A job is Succeeded only if its work was done."""
    if event.reason != "Succeeded":
        return
    job = watchman.jobs.get(event.workload)
    if job is not None and job not in watchman.cell.truth.succeeded:
        watchman.fail("success-is-done", f"{job[0]} is Succeeded at {entry.seq}, and its work was not done")


# no-circles


def _preempted(watchman: "Watchman", event: Preempted, entry: Entry) -> None:
    """Nothing circles: with no submission, edit or retry a job is preempted a bounded number of times."""
    job = watchman.jobs.get(event.workload)
    if job is None:
        return
    count = watchman.preempted.get(job[0], 0) + 1
    watchman.preempted[job[0]] = count
    if count > MOST_PREEMPTIONS:
        watchman.fail("no-circles", f"{job[0]} was preempted {count} times, last at {entry.seq}")


# retry-waits: of verdicts that are ignored the log's own invariant does not know the delay


def _asked_for(watchman: "Watchman", event: ChecksRequested, _: Entry) -> None:
    watchman.asked[event.workload] = (event.attempt, tuple(event.checks))


def _retried(watchman: "Watchman", event: ChecksRetry, _: Entry) -> None:
    # Others have meanwhile what it gives up, and make way for it when it is back: as after a submission.
    watchman.preempted.clear()
    attempt, until = watchman.retry_at.get(event.workload, (event.attempt, 0))
    if attempt == event.attempt:
        until = max(until, event.requeue_at)
    else:
        until = event.requeue_at
    watchman.retry_at[event.workload] = (event.attempt, until)


def _begins_anew(watchman: "Watchman", event: Any, _: Entry) -> None:
    watchman.retry_at.pop(event.workload, None)


def _evicted(watchman: "Watchman", event: Evicted, _: Entry) -> None:
    if event.reason != "AdmissionCheck":
        watchman.retry_at.pop(event.workload, None)


def _verdict_ignored(watchman: "Watchman", event: VerdictIgnored, entry: Entry) -> None:
    """Of several checks that say Retry the longest delay counts, whichever is heard of first (AC3)."""
    attempt, until = watchman.retry_at.get(event.workload, (0, 0))
    if event.state != "Retry" or event.reason != "StaleAttempt" or event.attempt != attempt:
        return
    if (
        (found := watchman.asked.get(event.workload)) is None
        or found[0] != attempt
        or event.check not in found[1]
    ):
        return
    said = msgspec.json.decode(watchman.cell.log.entries[event.cause - 1].payload)["data"]
    at = steps_of(entry)[0].at + said.get("requeueAfterSeconds", 0) * 1_000_000
    if at > until:
        text = f"{event.check} asked {event.workload} to wait until {at}, and it waits until {until} only"
        watchman.fail("retry-waits", text)


ON_EVENT: dict[type[Event], Callable[["Watchman", Any, Entry], None]] = {
    WorkloadCreated: _created,
    VariantCreated: _variant_created,
    WorkloadUpdated: _updated,
    WorkloadSliceReplaced: _replaced,
    WorkloadFinished: _finished,
    Preempted: _preempted,
    ChecksRequested: _asked_for,
    ChecksRetry: _retried,
    # The check that had asked for it is not asked any more.
    ChecksPending: _begins_anew,
    ChecksRejected: _begins_anew,
    QuotaReserved: _begins_anew,
    WorkloadDeactivated: _begins_anew,
    WorkloadDeleted: _begins_anew,
    Evicted: _evicted,
    VerdictIgnored: _verdict_ignored,
}

__all__ = ["ON_EVENT", "all_run_with_quota", "held_for", "presence", "runs_once", "runs_with_quota"]
