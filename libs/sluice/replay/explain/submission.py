"""Simulation of a submission: decided on a copy of the state, nothing is submitted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sluice.api.errors import FieldError
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.completions import left_in
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.records import new_record, no_elastic_variants, priority, read
from sluice.core.slices.state import State as SliceState
from sluice.core.slices.submission import Submission, parse
from sluice.core.workload.charges import counts, size_text
from sluice.core.workload.pending_reasons import PENDING_EVALUATION
from sluice.core.world.workload import Workload
from sluice.events.base import Event, JobKey, Micros
from sluice.events.ids import uid
from sluice.events.scheduler import QuotaReserved
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from sluice.replay.source.source import Source
from sluice.replay.source.suggest import did_you_mean
from sluice.replay.source.time_travel import Progress, configured_at, fold_at, scheduler_at, variants_at

from . import racing_sandbox, resize
from .activity import queue_words
from .sandbox import Outcome, Sandbox
from .why import explain

__all__ = ["InvalidManifestError", "simulate"]


class InvalidManifestError(ValueError):
    """The manifest is no job that can be taken; `errors` say what is wrong with which field."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


@dataclass(frozen=True)
class Simulated:
    """What would become of a job; a resize that needs no quota has no outcome."""

    state: SchedulerState
    record: WorkloadRecord
    job: str
    running: Workload | None
    outcome: Outcome | None
    more: tuple[str, ...] = ()
    """What else is to be said."""
    resizes: bool = False

    def plain(self) -> Any:
        """Return it as plain data."""
        if self.outcome is None:
            assert self.running is not None
            return {"resized": {"workload": self.running.key, "pods": counts(self.record.pod_sets)}}
        return msgspec.to_builtins(self.outcome)

    def lines(self) -> Iterator[str]:
        """Yield it as lines for people."""
        if self.outcome is None:
            assert self.running is not None
            had, has = (size_text(counts(r.pod_sets)) for r in (self.running.record, self.record))
            if had == has:
                yield f"{self.job} runs with {has} already."
            else:
                yield f"{self.job} would go on with {has} instead of {had}, at once."
            return
        if self.running is not None and not self.resizes:
            yield f"{self.job} is there already; this is about another job like it."
        yield from told(self.state, self.record, self.outcome)
        yield from self.more


def simulate(
    source: Source, seq: int, manifest: Mapping[str, Any], progress: Progress | None = None
) -> Simulated:
    """Return what would become of the job of *manifest*, submitted at *seq*.

    Preempted workloads are taken to stop at once. In a queue with concurrent admission the job's variants
    race as they would. Of an elastic job that runs already, it says what would become of its new size.

    Raises:
        InvalidManifestError: it is no job that can be taken.
    """
    fold = scheduler_at(source, seq, progress)
    jobs = configured_at(source, SliceAggregator(), seq, progress)
    submitted = _submission(manifest)
    record = _record(submitted, jobs, seq, fold.at)
    job = f"{record.namespace}/{_job_name(record)}"
    running = resize.workload_of(fold.state, job)
    resizes = running is not None and resize.is_resize(fold.state, running, record)
    if running is not None and resizes:
        slices = fold_at(source, SliceAggregator(), seq, progress=progress).state
        remaining = left_in(slices, JobKey(job), submitted)
        grown = resize.growth(fold.state, running, record, seq, remaining)
        if grown is None:
            return Simulated(fold.state, record, job, running, None, resizes=True)
        record, events = grown
        outcome = Sandbox(fold.state, seq, fold.at).attempt(events, record.key)
    elif racing_sandbox.policy_for(fold.state, record) is not None:
        families = variants_at(source, seq, progress).state
        outcome = racing_sandbox.Race(fold.state, families, seq, fold.at).run(record)
        return Simulated(fold.state, record, job, running, outcome)
    else:
        events = (WorkloadCreated(cause=seq, workload=record),)
        outcome = Sandbox(fold.state, seq, fold.at).attempt(events, record.key)
    unseen = outcome.reserved is None and not outcome.reason
    if unseen and queue_words(fold.state, record) is None:
        more = tuple(_unseen(Sandbox(fold.state, seq, fold.at), record, events))
    else:
        more = ()
    return Simulated(fold.state, record, job, running, outcome, more, resizes)


def _unseen(sandbox: Sandbox, record: WorkloadRecord, events: Sequence[Event]) -> Iterator[str]:
    """Yield what is to be said of a job that nobody looks at before others: as `why` would a moment later."""
    state, after = sandbox.after(events)
    report = explain(state, record.key, after.seq, after.at)
    yield f"  {report.message}"
    for remedy in report.remedies[:1]:
        yield f"  What would admit it: {remedy.text}"


def _job_name(record: WorkloadRecord) -> str:
    return record.name.removeprefix("job-").removesuffix("-simulated")


def told(state: SchedulerState, record: WorkloadRecord, outcome: Outcome) -> Iterator[str]:
    """Yield what would become of the job, as lines for people."""
    name = f"{record.namespace}/{record.name}"
    if outcome.reserved is None:
        yield f"{name} would wait: {_waits_for(state, record, outcome)}"
        if record.replaces is not None:
            yield f"  {resize.running_words(state.world, state.world.workloads[record.replaces])}"
    else:
        done = "be admitted" if outcome.admitted else "have quota reserved, and wait for its admission checks"
        where = f"{outcome.reserved.cluster_queue}{_as_variant(outcome.variant)}"
        yield f"{name} would {done} in {where}: {_flavors(outcome.reserved)}"
        if record.replaces is not None:
            yield f"  {resize.taking_place(state.world.workloads.get(record.replaces), record.replaces)}"
        yield from _later(state, outcome.reserved)
    for event in outcome.preempted:
        yield f"  It would preempt {event.workload} ({event.rule})."
    for variant, reserved in outcome.reserving.items():
        if variant != outcome.variant:
            where = _flavors(reserved)
            yield f"  Variant {variant} would have quota reserved, and wait for checks: {where}"
            yield from _later(state, reserved)
    for variant, why in outcome.waiting.items():
        yield f"  Variant {variant} would wait: {why}"


def _later(state: SchedulerState, reserved: QuotaReserved) -> Iterator[str]:
    """Yield whom the reservation waits for, to be preempted when its checks allow it (AC6)."""
    for victim in reserved.pending_victims if reserved.preemptions_pending else ():
        then = resize.until_then(state.world.workloads.get(victim))
        yield f"  It would preempt {victim}, once its admission checks allow it; until then that one {then}."


def _as_variant(variant: str) -> str:
    return f" as variant {variant}" if variant else ""


def _flavors(reserved: QuotaReserved) -> str:
    """Return how many pods get what; who asks for nothing has no flavor."""
    return "; ".join(
        f"{ps.count} of {ps.name} on {', '.join(f'{f} ({r})' for r, f in ps.flavors.items())}"
        if ps.flavors
        else f"{ps.count} of {ps.name}, without requests"
        for ps in reserved.pod_sets
    )


def _waits_for(state: SchedulerState, record: WorkloadRecord, outcome: Outcome) -> str:
    """Return reason and message; who never comes to a queue is told why not."""
    queues = state.world.local_queues
    closed = queue_words(state, record)
    if closed is not None:
        known = f"{record.namespace}/{record.queue_name}" in queues
        near = "" if known else did_you_mean(record.queue_name, [key.partition("/")[2] for key in queues])
        return f"{': '.join(closed)}{f'.{near}' if near else ''}"
    return ": ".join(filter(None, (outcome.reason or PENDING_EVALUATION, outcome.message)))


def _submission(manifest: Mapping[str, Any]) -> Submission:
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name", ""))
    submitted = parse(msgspec.json.encode(manifest), namespace, name)
    if isinstance(submitted, tuple):
        raise InvalidManifestError(submitted)
    return submitted


def _record(submitted: Submission, state: SliceState, seq: int, at: Micros) -> WorkloadRecord:
    """Return the workload that the job would have, by what *state* knows of the configuration."""
    request = read(submitted, state)
    if isinstance(request, tuple):
        raise InvalidManifestError(request)
    if errors := no_elastic_variants(state, request):
        raise InvalidManifestError(errors)
    record = new_record(request, priority(state, request), "", uid(seq + 1), at)
    # Of what runs under this name it is only a likeness.
    return msgspec.structs.replace(record, name=f"job-{request.name}-simulated", job=None)
