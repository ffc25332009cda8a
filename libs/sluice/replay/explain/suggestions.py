"""Changes that would admit a pending workload: each is tried on a copy of the state, by really deciding."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from sluice.api import kueue
from sluice.core.cycle.withheld_quota import ALWAYS_RECLAIMS
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.model import ClusterQueue
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import replaced_slice
from sluice.events.base import Event
from sluice.events.slices import WorkloadFinished
from sluice.replay.views.pending_preemptions import imposed
from sluice.replay.views.queues import queue_of

from .activity import activate_command
from .executors import Executors
from .remedy import Remedy, checks_of, follows, if_so, then_checks, then_stops
from .sandbox import Sandbox, applied_queue
from .stopping import FEW, Leavers, job_of, leavers, must_stop, queues_of_tree
from .suggestions_outside import LOCAL_QUEUE, outside_changes, pods_ready, waits_until
from .suggestions_quota import more_quota
from .verdict import withholding
from .whole_job import has_quota, moves_from, recreated, updated

HOLDERS = 8
"""Workloads whose end is tried."""
HEADS = 3
"""Jobs before it in a StrictFIFO queue whose end is tried."""


def remedies(
    sandbox: Sandbox,
    state: SchedulerState,
    workload: Workload,
    executors: Executors | None = None,
    *,
    combine: bool = True,
    outside: bool = True,
) -> list[Remedy]:
    """Return the changes that were found to admit the workload, the smallest first.

    *executors*: who there is, and who was told to stop for good. *combine*: where no change alone does, all
    that keeps it out of its queue is lifted at once. *outside*: try to lift any of that alone.
    """
    key = workload.key
    now = sandbox.attempt((), key)
    if now.sibling:
        sandbox.instead.append(("nothing", now.sibling))
        return []
    if now.reserved is not None:
        names = ", ".join(event.workload for event in now.preempted)
        text = f"nothing: it gets quota in the next decisions{f', preempting {names}' if names else ''}"
        text += then_checks(sandbox, now)
        return [Remedy("none", text, smallest=True, preempts=len(now.preempted))]
    leaving = leavers(state, workload, executors)
    if waiting := _stops(sandbox, workload, leaving):
        return waiting
    patient = sandbox.patient(leaving)
    found = _changes(patient, state, workload, executors, outside=outside)
    sandbox.trials += patient.trials
    if not found and combine:
        found = _together(sandbox, state, workload, executors)
    if found:
        found[0].smallest = True
    return found


def held_back(state: SchedulerState, workload: Workload, executors: Executors | None) -> list[Remedy]:
    """Return until when it is held back; a growth, as its slice is when that one has stopped (WS6)."""
    old = replaced_slice(state.world, workload)
    leaves = old if old is not None and old.evicted_at is not None and not old.stopped else None
    until = waits_until(leaves or workload)
    then = f"it is queued again at {until}" if until else ""
    if leaves is not None and not leaves.active:
        then = activate_command(workload) or "setting spec.active to true"
    if not then:
        return []
    if leaves is None:
        return [Remedy("time", f"waiting: {then}", smallest=True)]
    first = must_stop(state, executors, [leaves], leaves.key)
    return [Remedy("time", f"{first}; then {then}", smallest=True)]


def _changes(
    sandbox: Sandbox,
    state: SchedulerState,
    workload: Workload,
    executors: Executors | None,
    *,
    outside: bool,
) -> list[Remedy]:
    """Return the single changes that admit it, those who leave already having stopped for it."""
    key = workload.key
    found: list[Remedy] = []
    # What is held back is in no queue, and waits for one all the same.
    meant = state.world.cluster_queues.get(queue_of(state, workload))
    queued = workload.cluster_queue or replaced_slice(state.world, workload) is not None
    cq = meant if queued else None
    if cq is not None:
        # Whatever else wakes it up would seem to help, too.
        text = f"nothing but being looked at: applying ClusterQueue {cq.name} again, unchanged, does it"
        unseen = if_so(sandbox, key, "look", text, applied_queue(cq, cq.spec))
        if unseen:
            return unseen
    if not workload.active and outside:
        found += _activation(sandbox, state, workload)
    found += _constraints(sandbox, state, workload)
    lifting = outside_changes(state, workload, meant, executors, sandbox.facts) if outside else ()
    for kind, text, events in lifting:
        if kind == LOCAL_QUEUE and any(remedy.kind == kind for remedy in found):
            continue  # one that helps is enough
        found += if_so(sandbox, key, kind, text, *events)
    if cq is not None:
        for more in sandbox.apart(
            [
                lambda: more_quota(sandbox, state, workload, cq),
                lambda: _priority(sandbox, state, workload),
                lambda: _ends(sandbox, state, workload, cq),
                lambda: _heads(sandbox, state, workload),
                lambda: _withheld(sandbox, state, workload),
            ]
        ):
            found += more
    return [remedy for remedy in found if remedy.kind == "stop"][:1] or found


def _together(
    sandbox: Sandbox,
    state: SchedulerState,
    workload: Workload,
    executors: Executors | None,
) -> list[Remedy]:
    """Lift all that keeps it out at once, and try what it takes beyond that."""
    key = workload.key
    meant = state.world.cluster_queues.get(queue_of(state, workload))
    parts: dict[str, tuple[str, tuple[Event, ...]]] = {}
    if not workload.active:
        text = activate_command(workload) or "setting spec.active to true"
        parts["active"] = (text, updated(state, workload, active=True))
    for kind, text, events in outside_changes(state, workload, meant, executors, sandbox.facts):
        if kind != "turn":  # of variants in an open queue
            parts.setdefault(kind if kind == LOCAL_QUEUE else text, (text, events))
    if not parts:
        return []
    for name in [*parts] if len(parts) > 1 else ():
        fewer = [part for other, part in parts.items() if other != name]
        if len(fewer) > 1 and _admits(sandbox, key, fewer):
            del parts[name]
    lifted = [event for _, events in parts.values() for event in events]
    texts = [text for text, _ in parts.values()]
    outcome = sandbox.attempt(lifted, key)
    if outcome.sibling:
        sandbox.instead.append((_all_of(texts), outcome.sibling))
    if outcome.reserved is not None:
        suffix, preempts = follows(sandbox, key, lifted, outcome), len(outcome.preempted)
    else:
        moves = not outcome.sibling or moves_from(state, workload, outcome.sibling)
        more = _beside(sandbox, state, workload, executors, lifted, afterwards=moves)
        if not more:
            return []
        texts.append(more[0].text)
        suffix, preempts = "", more[0].preempts
    return [Remedy("together", _all_of(texts) + suffix, preempts=preempts, parts=len(texts))]


def _all_of(texts: Sequence[str]) -> str:
    return "all of these together: " + "; ".join(texts) if texts[1:] else texts[0]


def _beside(
    sandbox: Sandbox,
    state: SchedulerState,
    workload: Workload,
    executors: Executors | None,
    lifted: Sequence[Event],
    *,
    afterwards: bool,
) -> list[Remedy]:
    """Return what it takes beside *lifted*: at the same time, or when all has been decided that follows.

    Not *afterwards* if a sibling is admitted by then that the job does not leave for this variant.
    """
    at_once = sandbox.given(lifted)
    found = remedies(at_once, state, workload, executors, combine=False, outside=False)
    sandbox.trials += at_once.trials
    if not found and afterwards:
        then, later = sandbox.after(lifted)
        found = remedies(later, then, then.world.workloads[workload.key], executors, combine=False)
        sandbox.trials += later.trials
    return found


def _admits(sandbox: Sandbox, key: str, parts: Sequence[tuple[str, tuple[Event, ...]]]) -> bool:
    events = [event for _, found in parts for event in found]
    return sandbox.attempt(events, key).reserved is not None


def _stops(sandbox: Sandbox, workload: Workload, leaving: Leavers) -> list[Remedy]:
    """Return that it has to wait for some who leave, and for whom: not for those who make room for others.

    With waitForPodsReady the pods of others may have to be ready besides.
    """

    def waiting(left: Leavers, *, ready: bool = False) -> list[Remedy]:
        text, events = left.alone(), left.events()
        for _, then, more in pods_ready(left.state, left.holders, sandbox.facts) if ready else ():
            text += f"; then {then}"
            events += more
        return if_so(sandbox, workload.key, "stop", text, *events)

    if not leaving.holders:
        return []
    found, ready = waiting(leaving), False
    if not found:
        found, ready = waiting(leaving, ready=True), True
    if not found and workload.record.parent is not None:
        # When all have stopped, a sibling comes first: it may get in by those that it waits for itself.
        for fewer in leaving.each():
            if found := waiting(fewer):
                leaving, ready = fewer, False
                break
    for holder in leaving.holders if found and len(leaving.holders) <= FEW else ():
        fewer = leaving.without(holder)
        tried = waiting(fewer, ready=ready) if fewer.holders else []
        if tried and tried[0].preempts <= found[0].preempts:
            leaving, found = fewer, tried
    if found:
        found[0].smallest = True
    return found


def _activation(sandbox: Sandbox, state: SchedulerState, workload: Workload) -> list[Remedy]:
    """Try it as an active workload; quota is not yet all that it needs where checks have a say."""
    events = updated(state, workload, active=True)
    outcome = sandbox.attempt(events, workload.key)
    if outcome.reserved is None:
        return []
    text = (activate_command(workload) or "setting spec.active to true") + outcome.preempting
    text += then_stops(sandbox, workload.key, events, outcome)
    if names := checks_of(state, outcome):
        text += f", and Ready from its checks ({', '.join(names)})"
    return [Remedy("active", text, preempts=len(outcome.preempted))]


def _constraints(sandbox: Sandbox, state: SchedulerState, workload: Workload) -> list[Remedy]:
    """Try it without what it imposes on itself: that is fixed while its job has quota (AX1)."""
    found: list[Remedy] = []
    record = workload.record
    if has_quota(state, workload):
        return found
    for name in imposed(state, record):
        events = recreated(state, workload, **{name.replace("-", "_"): False})
        found += if_so(sandbox, workload.key, name, f"removing {name} from it", *events)
    if record.allowed_flavors and record.parent is None:
        # A variant is made for its flavors; nobody can take that from it.
        events = recreated(state, workload, allowed_flavors=())
        text = "removing its allowedResourceFlavors"
        found += if_so(sandbox, workload.key, "allowedResourceFlavors", text, *events)
    return found


def _priority(sandbox: Sandbox, state: SchedulerState, workload: Workload) -> list[Remedy]:
    """Find the lowest of the priorities in use, or one above, that admits it."""
    values = {w.priority for w in state.world.workloads.values() if not w.finished}
    steps = sorted({p for value in values for p in (value, value + 1) if p > workload.priority})
    low, high = 0, len(steps)
    best: Remedy | None = None
    while low < high:
        middle = (low + high) // 2
        text = f"priority {steps[middle]} instead of {workload.priority}"
        events = updated(state, workload, priority=steps[middle])
        tried = if_so(sandbox, workload.key, "priority", text, *events)
        if tried:
            best, high = tried[0], middle
        else:
            low = middle + 1
    return [] if best is None else [best]


def _ends(sandbox: Sandbox, state: SchedulerState, workload: Workload, cq: ClusterQueue) -> list[Remedy]:
    """Find one workload, the smallest, whose end would make room."""
    wanted = {(f, r) for group in cq.groups for f in group.flavors for r in group.covered_resources}
    holders = [
        (sum(a for fr, a in w.usage.items() if fr in wanted), w.uid, w)
        for queue in queues_of_tree(state, cq)
        for w in queue.workloads.values()
        if any(fr in wanted for fr in w.usage)
        and w.key != workload.record.replaces
        and (w.record.parent is None or w.record.parent != workload.record.parent)
    ]
    holders.sort(key=lambda item: item[:2])
    step = max(1, len(holders) // HOLDERS)
    for _, _, holder in [*holders[::step], *holders[-1:]]:
        # A job ends, and its variants with it; no variant ends by itself.
        ends = holder.record.parent or holder.key
        text = f"the end of {ends} (in {holder.cluster_queue})"
        tried = if_so(sandbox, workload.key, "finish", text, WorkloadFinished(cause=0, workload=ends))
        if tried:
            return tried
    return []


def _heads(sandbox: Sandbox, state: SchedulerState, workload: Workload) -> list[Remedy]:
    """Try it without those who stand before it in a queue in which nobody overtakes (StrictFIFO)."""
    queue = state.pending.queues.get(workload.cluster_queue)
    if queue is None or not queue.strict:
        return []
    passed = (w for w in queue.in_order() if w.peers is not None and not w.peers.aside)
    mine = job_of(workload)
    before = dict.fromkeys(job_of(w) for w in takewhile(lambda w: w.rank < workload.rank, passed))
    events: list[WorkloadFinished] = []
    for job in [key for key in before if key != mine][:HEADS]:
        events.append(WorkloadFinished(cause=0, workload=job))
        names = " and ".join(event.workload for event in events)
        text = f"deactivating or ending {names}, which nobody overtakes (StrictFIFO)"
        if found := if_so(sandbox, workload.key, "head", text, *events):
            return found
    return []


def _withheld(sandbox: Sandbox, state: SchedulerState, workload: Workload) -> list[Remedy]:
    """Try it without the heads of StrictFIFO queues for which quota is withheld, or without withholding."""
    found: list[Remedy] = []
    for queue in withholding(state, workload):
        blocker, cq = queue.withheld_for, state.world.cluster_queues[queue.name]
        assert blocker is not None
        job = job_of(blocker.head())
        text = f"deactivating or ending {job}, for which {queue.name} withholds it (StrictFIFO)"
        found += if_so(sandbox, workload.key, "head", text, WorkloadFinished(cause=0, workload=job))
        policy = cq.spec.preemption or kueue.ClusterQueuePreemption()
        policy = msgspec.structs.replace(policy, reclaim_within_cohort=ALWAYS_RECLAIMS)
        text = f"reclaimWithinCohort: {ALWAYS_RECLAIMS} in {queue.name}, which lends what it can take back"
        spec = msgspec.structs.replace(cq.spec, preemption=policy)
        found += if_so(sandbox, workload.key, "policy", text, applied_queue(cq, spec))
    return found
