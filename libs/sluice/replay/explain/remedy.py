"""A change that admits a pending workload, and how a trial of one becomes words."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.admission_checks import checks_for
from sluice.core.world.preemption_history import actor
from sluice.events.base import Event, WorkloadKey

from .sandbox import Outcome, Sandbox
from .stopping import FEW, Leavers

BY_ITSELF = ("look", "turn")
"""Kinds of changes after which all is as it was, but for whose turn it is."""


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


def if_so(sandbox: Sandbox, key: str, kind: str, text: str, *events: Event) -> list[Remedy]:
    """Return the change as a remedy, [] if *key* gets no quota by it."""
    outcome = sandbox.attempt(events, key)
    if outcome.reserved is None:
        if outcome.sibling:
            sandbox.instead.append((text, outcome.sibling))
        return []
    if kind in BY_ITSELF and _in_circles(sandbox.state, key, outcome):
        return []
    leavers = needed(sandbox, key, events, outcome)
    if leavers is not None and events and _alone(sandbox, key, leavers):
        return [Remedy("stop", leavers.alone())]
    text += outcome.preempting + _then(leavers) + then_checks(sandbox, outcome)
    return [Remedy(kind, text, preempts=len(outcome.preempted))]


def _in_circles(state: SchedulerState, key: str, outcome: Outcome) -> bool:
    """Would it preempt whom it has preempted in vain? A copy forgets that by a change of no meaning."""
    world = state.world
    asked = world.workloads.get(WorkloadKey(key))
    if asked is None or not world.circles:
        return False
    spared = world.circles.spared_by(actor(asked))
    victims = (world.workloads.get(event.workload) for event in outcome.preempted)
    return any(actor(victim) in spared for victim in victims if victim is not None)


def _alone(sandbox: Sandbox, key: str, leavers: Leavers) -> bool:
    """Is it enough for a variant that these stop? Then the change that was tried is none that helps.

    When others stop as well, it may be a sibling that gets in. Of other workloads, strangers would.
    """
    asked = sandbox.state.world.workloads.get(WorkloadKey(key))
    if asked is None or asked.record.parent is None:
        return False
    trial = sandbox.patient(leavers)
    tried = trial.attempt((), key)
    sandbox.trials += trial.trials
    return tried.reserved is not None and not tried.preempted


def follows(sandbox: Sandbox, key: str, events: Sequence[Event], outcome: Outcome) -> str:
    """Return whom it preempts after *events*, who must have stopped for it, and what its checks must say."""
    stops = then_stops(sandbox, key, events, outcome)
    return outcome.preempting + stops + then_checks(sandbox, outcome)


def then_stops(sandbox: Sandbox, key: str, events: Sequence[Event], outcome: Outcome) -> str:
    """Return who of those that leave already must have stopped, beside *events*; "" for nobody."""
    return _then(needed(sandbox, key, events, outcome))


def _then(leavers: Leavers | None) -> str:
    return "" if leavers is None else f"; then {leavers.words()}"


def needed(sandbox: Sandbox, key: str, events: Sequence[Event], outcome: Outcome) -> Leavers | None:
    """Return those of them who leave already without whom *events* would not do; None for nobody."""
    leavers = sandbox.leavers
    if not outcome.patient or leavers is None:
        return None
    for holder in leavers.holders if 1 < len(leavers.holders) <= FEW else ():
        fewer = leavers.without(holder)
        trial = sandbox.patient(fewer)
        tried = trial.attempt(events, key)
        sandbox.trials += trial.trials
        if fewer.holders and tried.reserved is not None and len(tried.preempted) <= len(outcome.preempted):
            leavers = fewer
    return leavers


def then_checks(sandbox: Sandbox, outcome: Outcome) -> str:
    """Return what it takes beyond the quota that it gets, where checks have a say; "" if nothing."""
    names = checks_of(sandbox.state, outcome)
    return f"; then Ready from its checks ({', '.join(names)})" if names else ""


def checks_of(state: SchedulerState, outcome: Outcome) -> Sequence[str]:
    if outcome.reserved is None:
        return ()
    queue = state.world.cluster_queues.get(outcome.reserved.cluster_queue)
    return () if queue is None else checks_for(queue.spec, outcome.reserved.pod_sets)
