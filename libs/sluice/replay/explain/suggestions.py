"""What would admit a pending workload: each change is tried on a copy of the state, by really deciding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from sluice.api.quantity import format_value
from sluice.core.flavors.eligibility import FlavorRule
from sluice.core.quota.tree import FlavorResource
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.admission_checks import checks_for
from sluice.core.workload.charges import beyond
from sluice.core.world.model import ClusterQueue
from sluice.core.world.variants import allowed_flavors, family_usage
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import replaced_slice
from sluice.events.base import Event
from sluice.events.slices import (
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadStopped,
    WorkloadUpdated,
)
from sluice.replay.views.pending_preemptions import at_hand, imposed
from sluice.replay.views.queues import queue_of

from .activity import activate_command
from .executors import Executors
from .sandbox import Laboratory, Outcome, applied_queue, with_quota
from .stopping import gone, must_stop, told_to_stop
from .suggestions_outside import LOCAL_QUEUE, outside_changes, pods_ready

PROBES = 24
"""Decisions spent on finding one smallest number."""
MOST_TIMES = 1 << 12
"""No more quota is tried than so many times what a workload needs."""
SHOWN = 3
HOLDERS = 8
"""Workloads whose end is tried."""


@dataclass
class Remedy:
    """A change that admits the workload. `amounts`: of quota, in base units (cpu in milli-units)."""

    kind: str
    text: str
    smallest: bool = False
    """The least change of its kind, and the first to be considered."""
    amounts: dict[str, int] | None = None
    preempts: int = 0
    parts: int = 1
    """How many changes it takes, all of them together."""


def remedies(
    laboratory: Laboratory,
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
    now = laboratory.attempt((), key)
    if now.reserved is not None:
        names = ", ".join(event.workload for event in now.preempted)
        text = f"nothing: it gets quota in the next decisions{f', preempting {names}' if names else ''}"
        text += then_checks(laboratory, now)
        return [Remedy("none", text, smallest=True, preempts=len(now.preempted))]
    if waiting := _stops(laboratory, state, workload, executors):
        return waiting
    found: list[Remedy] = []
    cq = state.world.cluster_queues.get(workload.cluster_queue)
    if cq is not None:
        # Whatever else wakes it up would seem to help, too.
        text = f"nothing but being looked at: applying ClusterQueue {cq.name} again, unchanged, does it"
        unseen = _if(laboratory, key, "look", text, applied_queue(cq, cq.spec))
        if unseen:
            unseen[0].smallest = True
            return unseen
    if not workload.active and outside:
        found += _activation(laboratory, state, workload)
    found += _constraints(laboratory, state, workload)
    # What is held back is in no queue, and waits for one all the same.
    meant = state.world.cluster_queues.get(queue_of(state, workload))
    lifting = outside_changes(state, workload, meant, executors, laboratory.facts) if outside else ()
    for kind, text, events in lifting:
        if kind == LOCAL_QUEUE and any(remedy.kind == kind for remedy in found):
            continue  # one that helps is enough
        found += _if(laboratory, key, kind, text, *events)
    if cq is not None:
        for more in laboratory.apart(
            [
                lambda: _quota(laboratory, state, workload, cq),
                lambda: _priority(laboratory, state, workload),
                lambda: _ends(laboratory, state, workload, cq),
            ]
        ):
            found += more
    if not found and combine:
        found = _together(laboratory, state, workload, executors, meant)
    if found:
        found[0].smallest = True
    return found


def _together(
    laboratory: Laboratory,
    state: SchedulerState,
    workload: Workload,
    executors: Executors | None,
    meant: ClusterQueue | None,
) -> list[Remedy]:
    """Lift all that keeps it out at once, and try what it takes beyond that."""
    key = workload.key
    parts: dict[str, tuple[str, tuple[Event, ...]]] = {}
    if not workload.active:
        text = activate_command(workload) or "setting spec.active to true"
        parts["active"] = (text, (_updated(key, active=True),))
    for kind, text, events in outside_changes(state, workload, meant, executors, laboratory.facts):
        if kind != "turn":  # of variants in an open queue
            parts.setdefault(kind if kind == LOCAL_QUEUE else text, (text, events))
    if not parts:
        return []
    for name in [*parts] if len(parts) > 1 else ():
        fewer = [part for other, part in parts.items() if other != name]
        if len(fewer) > 1 and _admits(laboratory, key, fewer):
            del parts[name]
    lifted = [event for _, events in parts.values() for event in events]
    texts = [text for text, _ in parts.values()]
    outcome = laboratory.attempt(lifted, key)
    if outcome.reserved is not None:
        suffix, preempts = outcome.preempting + then_checks(laboratory, outcome), len(outcome.preempted)
    else:
        more = _beside(laboratory, state, workload, executors, lifted)
        if not more:
            return []
        texts.append(more[0].text)
        suffix, preempts = "", more[0].preempts
    text = "all of these together: " + "; ".join(texts) + suffix
    return [Remedy("together", text, preempts=preempts, parts=len(texts))]


def _beside(
    laboratory: Laboratory,
    state: SchedulerState,
    workload: Workload,
    executors: Executors | None,
    lifted: Sequence[Event],
) -> list[Remedy]:
    """Return what it takes beside *lifted*: at the same time, or when all has been decided that follows."""
    at_once = laboratory.given(lifted)
    found = remedies(at_once, state, workload, executors, combine=False, outside=False)
    laboratory.trials += at_once.trials
    if not found:
        then, later = laboratory.after(lifted)
        found = remedies(later, then, then.world.workloads[workload.key], executors, combine=False)
        laboratory.trials += later.trials
    return found


def _admits(laboratory: Laboratory, key: str, parts: Sequence[tuple[str, tuple[Event, ...]]]) -> bool:
    events = [event for _, found in parts for event in found]
    return laboratory.attempt(events, key).reserved is not None


def _stops(
    laboratory: Laboratory, state: SchedulerState, workload: Workload, executors: Executors | None
) -> list[Remedy]:
    """Return that it has to wait for some who leave, and for whom: not for those who make room for others.

    With waitForPodsReady the pods of others may have to be ready besides.
    """
    leaving = _leaving(state, workload, executors)
    if not leaving:
        return []

    def waiting(holders: Sequence[Workload], *, ready: bool = False) -> list[Remedy]:
        names = ", ".join(holder.key for holder in holders[:SHOWN])
        rest = f" and {len(holders) - SHOWN} more" if len(holders) > SHOWN else ""
        events = [_stop(holder, executors) for holder in holders]
        text = must_stop(state, executors, holders, names + rest)
        for _, then, more in pods_ready(state, holders, laboratory.facts) if ready else ():
            text += f"; then {then}"
            events += more
        return _if(laboratory, workload.key, "stop", text, *events)

    found, ready = waiting(leaving), False
    if not found:
        found, ready = waiting(leaving, ready=True), True
    for holder in leaving if found and len(leaving) <= HOLDERS else ():
        fewer = [other for other in leaving if other is not holder]
        tried = waiting(fewer, ready=ready) if fewer else []
        if tried and tried[0].preempts <= found[0].preempts:
            leaving, found = fewer, tried
    if found:
        found[0].smallest = True
    return found


def _leaving(state: SchedulerState, workload: Workload, executors: Executors | None) -> list[Workload]:
    """Return who must stop and has not stopped yet, in the workload's tree."""
    cq = state.world.cluster_queues.get(workload.cluster_queue)
    if cq is None:
        return []
    holders = (w for queue in _tree(state, cq) for w in queue.workloads.values())
    return [w for w in holders if not w.stopped and (w.evicted_at is not None or told_to_stop(executors, w))]


def _stop(holder: Workload, executors: Executors | None) -> Event:
    """Return what is said of it when it has stopped."""
    if told_to_stop(executors, holder):
        return gone(holder)
    return WorkloadStopped(cause=0, workload=holder.key)


def _if(laboratory: Laboratory, key: str, kind: str, text: str, *events: Event) -> list[Remedy]:
    outcome = laboratory.attempt(events, key)
    if outcome.reserved is None:
        return []
    text += outcome.preempting + then_checks(laboratory, outcome)
    return [Remedy(kind, text, preempts=len(outcome.preempted))]


def then_checks(laboratory: Laboratory, outcome: Outcome) -> str:
    """Return what it takes beyond the quota that it gets, where checks have a say; "" if nothing."""
    names = _checks_of(laboratory.state, outcome)
    return f"; then Ready from its checks ({', '.join(names)})" if names else ""


def _checks_of(state: SchedulerState, outcome: Outcome) -> Sequence[str]:
    if outcome.reserved is None:
        return ()
    queue = state.world.cluster_queues.get(outcome.reserved.cluster_queue)
    return () if queue is None else checks_for(queue.spec, outcome.reserved.pod_sets)


def _activation(laboratory: Laboratory, state: SchedulerState, workload: Workload) -> list[Remedy]:
    """Try it as an active workload; quota is not yet all that it needs where checks have a say."""
    outcome = laboratory.attempt((_updated(workload.key, active=True),), workload.key)
    if outcome.reserved is None:
        return []
    text = (activate_command(workload) or "setting spec.active to true") + outcome.preempting
    if names := _checks_of(state, outcome):
        text += f", and Ready from its checks ({', '.join(names)})"
    return [Remedy("active", text, preempts=len(outcome.preempted))]


def _updated(key: str, *, priority: int | None = None, active: bool | None = None) -> Event:
    return WorkloadUpdated(cause=0, workload=key, priority=priority, active=active)  # type: ignore[arg-type]


def _recreated(workload: Workload, **changes: object) -> tuple[Event, ...]:
    record = msgspec.structs.replace(workload.record, **changes)
    return WorkloadDeleted(cause=0, workload=workload.key), WorkloadCreated(cause=0, workload=record)


def _constraints(laboratory: Laboratory, state: SchedulerState, workload: Workload) -> list[Remedy]:
    """Try it without what it imposes on itself (AX1)."""
    found: list[Remedy] = []
    record = workload.record
    for name in imposed(state, record):
        events = _recreated(workload, **{name.replace("-", "_"): False})
        found += _if(laboratory, workload.key, name, f"removing {name} from it", *events)
    if record.allowed_flavors and record.parent is None:
        # A variant is made for its flavors; nobody can take that from it.
        events = _recreated(workload, allowed_flavors=())
        text = "removing its allowedResourceFlavors"
        found += _if(laboratory, workload.key, "allowedResourceFlavors", text, *events)
    return found


def least(admits: Callable[[int], bool], guess: int, most: int, probes: int = PROBES) -> int | None:
    """Return a number that admits while the one below it does not; None if none up to *most* does.

    Starts at *guess*, which usually is the answer.
    """
    low, high = 0, max(1, guess)
    while not admits(high):
        if high >= most or probes <= 0:
            return None
        low, high = high, min(most, high * 2)
        probes -= 1
    if high - 1 > low and not admits(high - 1):
        return high
    high = max(low + 1, high - 1) if high - 1 > low else high
    while high - low > 1:
        middle = (low + high) // 2
        if admits(middle):
            high = middle
        else:
            low = middle
    return high


def _quota(
    laboratory: Laboratory, state: SchedulerState, workload: Workload, cq: ClusterQueue
) -> list[Remedy]:
    """Find, per flavor that its pods may use, the least nominal quota to add to its queue."""
    found: list[Remedy] = []
    seen: list[dict[FlavorResource, int]] = []
    tried: dict[tuple[tuple[FlavorResource, int], ...], Outcome] = {}

    def attempt(amounts: dict[FlavorResource, int]) -> Outcome:
        """Try these amounts, each of them once."""
        key = tuple(sorted(item for item in amounts.items() if item[1]))
        if key not in tried:
            tried[key] = laboratory.attempt((with_quota(cq, amounts),), workload.key)
        return tried[key]

    for flavors in _choices(state, workload, cq):
        amounts = _least_quota(attempt, state, workload, cq, flavors)
        if not amounts or amounts in seen:
            continue  # with another choice of what there is enough of, the same is short
        seen.append(amounts)
        outcome = attempt(amounts)
        parts = [f"{format_value(r, a)} more {r} of {f}" for (f, r), a in amounts.items()]
        text = f"{' and '.join(parts)} in the nominal quota of {cq.name}"
        text += outcome.preempting + then_checks(laboratory, outcome)
        plain = {f"{f}/{r}": a for (f, r), a in amounts.items()}
        found.append(Remedy("quota", text, amounts=plain, preempts=len(outcome.preempted)))
    # Amounts of different resources cannot be compared; fewer kinds come first, then less.
    found.sort(key=lambda remedy: (len(remedy.amounts or ()), sum((remedy.amounts or {}).values())))
    return found


def _choices(state: SchedulerState, workload: Workload, cq: ClusterQueue) -> list[tuple[str, ...]]:
    """Return one tuple of flavors per alternative: one flavor of each resource group."""
    choices: list[tuple[str, ...]] = [()]
    old = replaced_slice(state.world, workload)
    slices = () if old is None or old.assignment is None else old.assignment
    for group in cq.groups:
        # Pods that run keep their flavors, and those that join them have the same (WS5).
        kept = {f for a in slices for r, f in a.flavors.items() if r in group.covered_resources}
        usable = [f for f in group.flavors if _usable(state, workload, f) and (not kept or f in kept)]
        needed = any(
            r in group.covered_resources for ps in workload.record.pod_sets for r in (*ps.requests, "pods")
        )
        if needed:
            choices = [(*chosen, flavor) for chosen in choices for flavor in usable]
    return [choice for choice in choices if choice][:16]


def _usable(state: SchedulerState, workload: Workload, flavor: str) -> bool:
    manifest = state.world.flavors.get(flavor)
    allowed = allowed_flavors(state.world.config, workload.record)
    if manifest is None or (allowed and flavor not in allowed):
        return False
    rule = FlavorRule(manifest)
    return all(not rule.obstacle(pod_set) for pod_set in workload.record.pod_sets)


def _needs(
    state: SchedulerState, workload: Workload, cq: ClusterQueue, flavors: Sequence[str]
) -> dict[FlavorResource, int]:
    """Return what it would be charged: a slice what it has beyond the one that it replaces (WS3), a variant
    what it needs beyond its siblings (CA10).
    """
    needs: dict[FlavorResource, int] = {}
    for pod_set in workload.record.pod_sets:
        requests = {r: a * pod_set.count for r, a in pod_set.requests.items()}
        if "pods" in cq.group_of:
            requests["pods"] = pod_set.count
        for resource, amount in requests.items():
            group = cq.group_of.get(resource)
            flavor = next((f for f in flavors if group is not None and f in group.flavors), None)
            if flavor is not None:
                needs[flavor, resource] = needs.get((flavor, resource), 0) + amount
    old = replaced_slice(state.world, workload)
    if old is not None:
        return beyond(needs, old.usage)
    return beyond(needs, family_usage(state.world, workload, cq.name))


def _least_quota(
    attempt: Callable[[dict[FlavorResource, int]], Outcome],
    state: SchedulerState,
    workload: Workload,
    cq: ClusterQueue,
    flavors: Sequence[str],
) -> dict[FlavorResource, int] | None:
    """Return the least amounts to add: no single one of them can be made smaller."""
    needs = _needs(state, workload, cq, flavors)
    short = {
        fr: max(0, amount - at_hand(state, workload, cq, fr, cq.node.available(fr)))
        for fr, amount in needs.items()
    }
    short = {fr: amount for fr, amount in short.items() if amount}
    if not short:
        # Enough for it, but others come first: it takes more of everything that it needs.
        short = dict.fromkeys(needs, 1)

    def admits(amounts: dict[FlavorResource, int]) -> bool:
        return attempt(amounts).reserved is not None

    if not admits(short):
        base = {fr: max(short.get(fr, 0), amount) for fr, amount in needs.items()}
        if not admits({fr: a * MOST_TIMES for fr, a in base.items()}):
            return None  # it is not quota that it lacks
        factor = least(lambda n: admits({fr: a * n for fr, a in base.items()}), 1, MOST_TIMES, 12)
        if factor is None:
            return None
        short = {fr: a * factor for fr, a in base.items()}
    for fr in sorted(short):
        if admits({**short, fr: 0}):
            short[fr] = 0
            continue
        guess = short[fr]
        rest = dict(short)
        found = least(lambda n, fr=fr, rest=rest: admits({**rest, fr: n}), guess, guess)  # type: ignore[misc]
        short[fr] = guess if found is None else found
    return {fr: amount for fr, amount in short.items() if amount}


def _priority(laboratory: Laboratory, state: SchedulerState, workload: Workload) -> list[Remedy]:
    """Find the lowest of the priorities in use, or one above, that admits it."""
    values = {w.priority for w in state.world.workloads.values() if not w.finished}
    steps = sorted({p for value in values for p in (value, value + 1) if p > workload.priority})
    low, high = 0, len(steps)
    best: Remedy | None = None
    while low < high:
        middle = (low + high) // 2
        text = f"priority {steps[middle]} instead of {workload.priority}"
        event = _updated(workload.key, priority=steps[middle])
        tried = _if(laboratory, workload.key, "priority", text, event)
        if tried:
            best, high = tried[0], middle
        else:
            low = middle + 1
    return [] if best is None else [best]


def _ends(
    laboratory: Laboratory, state: SchedulerState, workload: Workload, cq: ClusterQueue
) -> list[Remedy]:
    """Find one workload, the smallest, whose end would make room."""
    wanted = {(f, r) for group in cq.groups for f in group.flavors for r in group.covered_resources}
    holders = [
        (sum(a for fr, a in w.usage.items() if fr in wanted), w.uid, w)
        for queue in _tree(state, cq)
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
        tried = _if(laboratory, workload.key, "finish", text, WorkloadFinished(cause=0, workload=ends))
        if tried:
            return tried
    return []


def _tree(state: SchedulerState, cq: ClusterQueue) -> list[ClusterQueue]:
    root = cq.node.root()
    return [q for _, q in sorted(state.world.cluster_queues.items()) if q.node.root() is root]
