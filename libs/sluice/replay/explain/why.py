"""Explanation of a pending workload (DB2): numbers, the blocking rule, who could be preempted, what would
help."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sluice.api.features import PARTIAL_ADMISSION, enabled
from sluice.api.quantity import format_value
from sluice.core.checks.state import State as ChecksState
from sluice.core.cycle.nomination import matches_namespace
from sluice.core.dispatch.state import State as DispatchState
from sluice.core.scheduler.state import SchedulerState
from sluice.core.variants.state import State as VariantState
from sluice.core.workload.admission_checks import READY
from sluice.core.workload.charges import given_back
from sluice.core.workload.pending_reasons import (
    MISCONFIGURED,
    NAMESPACE_MISMATCH,
    ON_HOLD,
    WAITING_FOR_PREEMPTED,
)
from sluice.core.workload.reasons import DEACTIVATED
from sluice.core.world.inadmissible import without_other_flavors
from sluice.core.world.model import ClusterQueue
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import replaced_slice
from sluice.events.base import Micros, WorkloadKey
from sluice.events.codec import rfc3339
from sluice.replay.source.errors import UnknownWorkloadError
from sluice.replay.views.cells import notes_of
from sluice.replay.views.pending_preemptions import (
    at_hand,
    available,
    checks_wait,
    imposed,
    leaving_sibling,
    pending_preemption_of,
    preemptors_in,
    reservation_words,
    used,
    victim_words,
)
from sluice.replay.views.queues import phase_of, queue_of, waiting_in

from .activity import deactivated_words, queue_words
from .candidates import add_candidates
from .checks import checks_of
from .executors import Executors
from .kept_out import kept_out
from .quota import SHOWN, add_numbers, wanted_beyond
from .remedy import Remedy
from .report import Report
from .resize import growth_words
from .sandbox import Sandbox
from .stopping import not_running, told_to_stop, unanswered
from .suggestions import held_back, remedies
from .suggestions_checks import giving_up, passing
from .variants import VariantNote, notes
from .verdict import look, recorded

__all__ = ["Others", "explain", "find"]

HELPED = 4
"""Variants for which changes are tried."""

CHECKS_MESSAGE = "It has quota and waits for its admission checks."


def find(state: SchedulerState, name: str) -> Workload:
    """Return a workload by its own key or by its job's; without a namespace it is `default`.

    Raises:
        UnknownWorkloadError: none is meant.
    """
    key = name if "/" in name else f"default/{name}"
    world = state.world
    if (found := world.workloads.get(key)) is not None:  # type: ignore[call-overload]
        return found  # type: ignore[no-any-return]
    of_job = [w for w in world.workloads.values() if w.record.job is not None and w.record.job.key == key]
    if of_job:
        return max(of_job, key=lambda w: w.uid)
    known = [*world.workloads, *(w.record.job.key for w in world.workloads.values() if w.record.job)]
    raise UnknownWorkloadError(name, [str(k) for k in known])


@dataclass
class Others:
    """What other services know at the same sequence, for jobs with variants or checks."""

    families: VariantState | None = None
    checks: ChecksState | None = None
    executors: Executors | None = None
    """Who is there, who has claimed what, and who was told to stop for good."""
    cells: DispatchState | None = None
    """Of a manager: in which cells jobs are."""


def explain(
    state: SchedulerState,
    name: str,
    seq: int,
    at: Micros,
    *,
    help_: bool = True,
    others: Others | None = None,
) -> Report:
    """Explain what keeps the workload from being admitted, and find what would help.

    >>> from pathlib import Path
    >>> from sluice.core.scheduler.decider import Scheduler
    >>> from sluice.log.fold import Fold
    >>> from sluice.replay.source.source import FileSource
    >>> fold, log = Fold(Scheduler()), FileSource(Path("incident.jsonl"))
    >>> for entries in log.read(until=26, patterns=[Scheduler.writer, *Scheduler.reads]):
    ...     for _ in fold.take_in(entries):
    ...         pass
    >>> fold.release()
    >>> report = explain(fold.state, "default/api-rollout", seq=fold.upto, at=fold.at)
    >>> print(report.message)
    It needs the preemption of default/job-train-4-..., default/job-train-3-....

    Raises:
        UnknownWorkloadError: there is none of this name.
    """
    workload = find(state, name)
    record = workload.record
    others = others or Others()
    of = record.parent or workload.key
    said = notes(others.families, of, at) if others.families is not None else {}
    members = state.world.families.get(workload.key)
    if not members:
        report = _single(state, workload, seq, at, others.executors, help_=help_, note=said.get(workload.key))
        _add_checks(report, others)
        if others.cells is not None:
            report.cells = notes_of(others.cells, workload.key)
        return report
    report = _blank(state, workload, seq, at)
    variants = sorted(members.values(), key=lambda v: (v.record.preference, v.uid))
    for number, variant in enumerate(variants):
        # The better ones matter most, and each trial takes time.
        helped = help_ and number < HELPED
        note = said.get(variant.key)
        report.variants.append(_single(state, variant, seq, at, others.executors, help_=helped, note=note))
        _add_checks(report.variants[-1], others)
    _family(state, workload, report, others.executors)
    return report


def _add_checks(report: Report, others: Others) -> None:
    """Say which checks it waits for, by their own states where those are known."""
    if others.checks is None:
        return
    report.checks = checks_of(others.checks, report.workload)
    waiting = [check for check in report.checks if check.state != "Ready"]
    if report.rule != "UnsatisfiedAdmissionChecks" or not waiting:
        return
    names = ", ".join(f"{check.name} ({check.state})" for check in waiting)
    report.message = report.message.replace(
        CHECKS_MESSAGE, f"It has quota, and waits for its admission checks: {names}."
    )
    for remedy in report.remedies:
        if remedy.kind == "check":
            who = " and ".join(f"{check.name} ({check.controller})" for check in waiting)
            remedy.text = remedy.text.replace("its checks", who, 1)


def _family(state: SchedulerState, parent: Workload, report: Report, executors: Executors | None) -> None:
    """Sum up what its variants say: the parent is what the one is that got furthest (CA7)."""
    report.trials = sum(variant.trials for variant in report.variants)
    if parent.finished or not parent.active:
        report.rule, report.message = _outside(state, parent, 0)
        return
    for phase in ("Running", "Admitted", "Evicted", "QuotaReserved"):
        best = next((v for v in report.variants if v.phase == phase), None)
        if best is not None:
            report.phase, report.rule = phase, best.rule
            report.message = f"Its variant {_called(best)} is the one."
            if best.rule == "Stopping":
                report.message += f" {best.message}"
                return
            if phase not in ("Running", "Admitted"):
                report.message += f" {best.message}"
            elif note := not_running(state, executors, state.world.workloads[WorkloadKey(best.workload)]):
                report.message += f" {note}"
            if phase == "QuotaReserved":
                _reserving(report)
            return
    waiting = [v for v in report.variants if v.phase == "Pending"]
    report.rule = waiting[0].rule if waiting else DEACTIVATED
    report.message = f"None of its {len(report.variants)} variants has quota; see each."
    _collect(report, waiting)


def _reserving(report: Report) -> None:
    """Sum up a race some of whose variants have quota: the first to be admitted wins it (CA7).

    That may be one that has none yet: what admits it admits the job.
    """
    racing = [v for v in report.variants if v.phase == "QuotaReserved"]
    waiting = [v for v in report.variants if v.phase == "Pending" and v.remedies]
    names = ", ".join(_called(variant) for variant in racing)
    if waiting:
        others = ", ".join(_called(variant) for variant in waiting)
        has, wait = "have" if racing[1:] else "has", "wait" if waiting[1:] else "waits"
        first = f"{names} {has} quota, {others} {wait} for it; whichever is admitted first is the one."
        report.message = f"Of its variants, {first}" + (f" {names}: {racing[0].message}" * (not racing[1:]))
    elif len(racing) > 1:
        report.message = f"Its variants {names} have quota; whichever passes its checks first is admitted."
    _collect(report, [*racing, *waiting])


def _collect(report: Report, variants: Sequence[Report]) -> None:
    """Take over the best remedy of each variant; what happens by itself comes first, then the least."""
    for variant in variants:
        for remedy in variant.remedies[:1]:
            better = replace(remedy, text=f"{remedy.text} (as variant {_called(variant)})", smallest=False)
            report.remedies.append(better)
    report.remedies.sort(key=_effort)
    if report.remedies:
        report.remedies[0].smallest = True


def _effort(remedy: Remedy) -> tuple[int, int, int, int]:
    """Nothing at all, nothing but time, then changes, the fewest first: of quota, the smaller one."""
    rank = {"none": 0, "stop": 1, "turn": 1, "time": 1, "podsReady": 1}.get(remedy.kind, 2)
    amounts = (remedy.amounts or {}).values()
    return (rank, remedy.parts, len(amounts), sum(amounts))


def _called(variant: Report) -> str:
    return variant.note.name if variant.note is not None else variant.workload


def _least(state: SchedulerState, workload: Workload) -> dict[str, int]:
    """Return with how many pods of each set it would run, of those sets of which it need not be all."""
    if not enabled(state.world.config.feature_gates, PARTIAL_ADMISSION):
        return {}
    return {ps.name: ps.min_count for ps in workload.pod_sets if ps.min_count is not None}


def _blank(state: SchedulerState, workload: Workload, seq: int, at: Micros) -> Report:
    record = workload.record
    return Report(
        workload=workload.key,
        job="" if record.job is None else record.job.key,
        seq=seq,
        at=rfc3339(at),
        phase=phase_of(workload),
        cluster_queue=queue_of(state, workload),
        local_queue=f"{record.namespace}/{record.queue_name}",
        rule="",
        message="",
    )


def _single(
    state: SchedulerState,
    workload: Workload,
    seq: int,
    at: Micros,
    executors: Executors | None,
    *,
    help_: bool,
    note: VariantNote | None,
) -> Report:
    record = workload.record
    report = _blank(state, workload, seq, at)
    report.note = note
    report.rule, report.message = _outside(state, workload, at)
    if report.rule == "Admitted" and (why := told_to_stop(executors, workload)):
        report.rule = "Stopping"
        report.message = f"It is not pending: it was admitted, and is told to stop, as {why}. It has not yet."
    elif report.rule == "Admitted":
        more = (not_running(state, executors, workload), victim_words(state.world, workload))
        report.message = " ".join(filter(None, (report.message, *more)))
    if report.rule in ("Stopping", "Evicted") and (missing := unanswered(state, executors, [workload])):
        report.message += f" {missing[:1].upper()}{missing[1:]}."
    if note is not None and note.inactive_because and report.rule == "Deactivated":
        report.message = f"It is not active: {note.inactive_because}."
    report.constraints = imposed(state, record)
    report.least = _least(state, workload)
    old = replaced_slice(state.world, workload)
    if old is not None:
        report.replaces, report.meanwhile = old.key, growth_words(state.world, old, workload)
        report.not_needed = dict(given_back(state.world.config, workload.reclaimable))
    cq = state.world.cluster_queues.get(report.cluster_queue)
    queues = workload.active and workload.key not in state.world.families
    if workload.assignment is None and cq is not None and queues and not workload.finished:
        _place(state, workload, report)
        add_numbers(state, workload, cq, report)
        but = ""
        if workload.peers is not None and not report.rule:
            but = look(state, workload, cq, report)
        if workload.cluster_queue:
            # Else it is in no queue, and preempts nobody however things stand.
            add_candidates(state, workload, cq, report, but=but)
        _claims(state, workload, cq, report)
    if workload.preemptions:
        report.claims.append(pending_preemption_of(state.world, workload))
    if record.parent is not None:
        report.message = without_other_flavors(report.message)
    if help_ and _reserved(workload):
        sandbox = Sandbox(state, seq, at)
        report.remedies = passing(sandbox, state, workload, executors)
        report.trials = sandbox.trials
    if help_ and workload.assignment is None and not workload.finished and (note is None or note.active):
        sandbox = Sandbox(state, seq, at)
        report.remedies = remedies(sandbox, state, workload, executors)
        if report.claims and not any(r.kind in ("none", "stop") for r in report.remedies):
            report.remedies += giving_up(sandbox, state, workload, executors)
        report.trials = sandbox.trials
        if not report.remedies:
            report.remedies = held_back(state, workload, executors)
            report.instead = sandbox.instead[0] if sandbox.instead else None
    return report


def _reserved(workload: Workload) -> bool:
    return (
        workload.assignment is not None
        and workload.admitted_at is None
        and workload.evicted_at is None
        and not workload.finished
    )


def _claims(state: SchedulerState, workload: Workload, cq: ClusterQueue, report: Report) -> None:
    """Name the reservations that hold what it lacks, and tell numbers with what is promised to them (AC6).

    The tree is overdrawn by what is promised: who waits for checks is charged, and so are those who run on
    meanwhile.
    """
    preemptors = [w for w in preemptors_in(state, cq) if w is not workload]
    if not preemptors:
        return
    left = available(state, cq, preemptors)
    short = set()
    for numbers in report.numbers:
        fr = (numbers.flavor, numbers.resource)
        if fr not in left or numbers.obstacle:
            continue
        resource = numbers.resource
        in_use = used(cq, preemptors, fr)
        wanted = wanted_beyond(numbers)
        numbers.used = format_value(resource, in_use)
        numbers.promised = format_value(resource, cq.node.used(fr) - in_use)
        mine = at_hand(state, workload, cq, fr, left[fr])
        numbers.available = format_value(resource, mine)
        free = max(0, cq.node.nominal(fr) - cq.node.used(fr))
        numbers.borrowable = format_value(resource, max(0, left[fr] - free))
        numbers.short = format_value(resource, max(0, wanted - mine))
        if numbers.short != "0":
            short.add(fr)
    report.claims = [
        pending_preemption_of(state.world, w) for w in preemptors if any(fr in short for fr in w.usage)
    ]
    to_go = {key: claim.claimant for claim in report.claims for key in claim.victims}
    for candidate in report.candidates:
        if candidate.workload in to_go:
            whose = to_go[candidate.workload]
            candidate.allowed, candidate.why = False, f"its quota is promised to {whose} already"
    reason, message = recorded(state, workload)
    if report.claims and reason:
        # Looked at by itself, it would be judged by an overdrawn tree; the scheduler knew better.
        report.rule, report.message = reason, message


def _outside(state: SchedulerState, workload: Workload, at: Micros) -> tuple[str, str]:
    """Return what keeps it from being considered at all; ("", "") if nothing does."""
    world, record = state.world, workload.record
    if workload.finished:
        return "Finished", "It has finished."
    if workload.evicted_at is not None:
        return "Evicted", f"It was evicted ({workload.evicted_reason}) and has not stopped yet."
    if workload.admitted_at is not None:
        return "Admitted", "It is not pending: it was admitted."
    if workload.assignment is not None:
        reserved = f"{reservation_words(world, workload)} {victim_words(world, workload)}".strip()
        sibling = leaving_sibling(world, workload)
        if sibling is not None and not checks_wait(world, workload):
            text = f"It has quota, and takes over when {sibling.key} has stopped. {reserved}"
            return WAITING_FOR_PREEMPTED, text.rstrip()
        if workload.checks == READY and workload.preemptions:
            return WAITING_FOR_PREEMPTED, f"It has quota, and its checks are Ready. {reserved}"
        return "UnsatisfiedAdmissionChecks", f"{CHECKS_MESSAGE} {reserved}".rstrip()
    if not workload.active:
        grows = replaced_slice(state.world, workload) is not None
        return DEACTIVATED, deactivated_words(workload, grows=grows)
    held = f"It was evicted ({workload.held_for}) and is held back"
    said = f" {workload.evicted_message}." if workload.evicted_message else ""
    if workload.held_for and workload.requeue_at:
        return ON_HOLD, f"{held} until {rfc3339(workload.requeue_at)}.{said}"
    closed = queue_words(state, record)
    if closed is not None:
        return closed
    if workload.held_for:
        return ON_HOLD, f"{held}.{said}"
    if workload.peers is None:
        return kept_out(state, workload)
    local = world.local_queues[f"{record.namespace}/{record.queue_name}"]
    cq = world.cluster_queues[local.cluster_queue]
    if not matches_namespace(world, workload, cq.spec.namespace_selector):
        return MISCONFIGURED, NAMESPACE_MISMATCH
    if record.misconfigured:
        return MISCONFIGURED, record.misconfigured
    del at
    return "", ""


def _place(state: SchedulerState, workload: Workload, report: Report) -> None:
    # A place is a job's, which its variants have together (CA6); one that has quota does not wait.
    mine = workload.record.parent or workload.key
    places: dict[str, int] = {}
    for other in waiting_in(state, report.cluster_queue):
        job = other.record.parent or other.key
        if job in places or any(v.assignment is not None for v in state.world.families.get(job, {}).values()):
            continue
        places[job] = len(places) + 1
        if job == mine:
            report.position = places[job]
        elif not report.position and len(places) <= SHOWN:
            report.ahead.append(job)
    report.queue_size = len(places)
