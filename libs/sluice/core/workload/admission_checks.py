"""The states of a workload's admission checks: which belong to it, and what eviction does (AC1-AC4)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sluice.api.kueue import ClusterQueueSpec, PodSetUpdate
from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Micros, PodSetAssignment

PENDING = "Pending"
READY = "Ready"
RETRY = "Retry"
REJECTED = "Rejected"
PREEMPTION_REQUIRED = "PreemptionRequired"


class CheckState(NamedTuple):
    """`at`: when `state` last changed, None if unknown."""

    name: str
    state: str
    at: Micros | None
    message: str = ""
    requeue_after_s: int | None = None
    retry_count: int = 0
    pod_set_updates: Sequence[PodSetUpdate] = ()
    reason: str = ""
    """PreemptionRequired, or why the service has rejected what the controller has said."""


def check_names(spec: ClusterQueueSpec) -> list[str]:
    """Return the admission checks that the queue names, in its order."""
    strategy = spec.admission_checks_strategy
    return [] if strategy is None else [rule.name for rule in strategy.admission_checks]


def relevant_checks(spec: ClusterQueueSpec, flavors: Iterable[str] | None) -> list[str]:
    """Return the names of the checks that concern a workload, sorted (AC1).

    *flavors*: those assigned to it; None before it has quota, when only checks that cover every flavor
    of the queue are certain to concern it.
    """
    strategy = spec.admission_checks_strategy
    if strategy is None:
        return []
    assigned = None if flavors is None else frozenset(flavors)
    of_queue = frozenset(flavor.name for group in spec.resource_groups for flavor in group.flavors)
    names = []
    for rule in strategy.admission_checks:
        on_flavors = frozenset(rule.on_flavors)
        if not on_flavors or (of_queue <= on_flavors if assigned is None else assigned & on_flavors):
            names.append(rule.name)
    return sorted(names)


def checks_for(spec: ClusterQueueSpec, pod_sets: Iterable[PodSetAssignment]) -> list[str]:
    """Return the names of the checks that concern a workload with this assignment, sorted (AC1)."""
    return relevant_checks(spec, (flavor for pod_set in pod_sets for flavor in pod_set.flavors.values()))


def sync_states(states: Iterable[CheckState], names: Iterable[str], at: Micros | None) -> list[CheckState]:
    """Return one state for each of *names*, sorted: what *states* says of it, else Pending since *at*."""
    known = {state.name: state for state in states}
    return [known.get(name) or CheckState(name, PENDING, at) for name in sorted(names)]


def asked_for(
    states: Mapping[str, CheckState], names: Iterable[str], new: Collection[str], at: Micros
) -> dict[str, CheckState]:
    """Return the states of *names*, which count from *at* on; of those the *new* ones are asked for only now.

    What is Pending is so since it was asked for in this attempt, not since an earlier one was over.
    """
    return {
        found.name: found._replace(at=at) if found.name in new and found.state == PENDING else found
        for found in sync_states(states.values(), names, at)
    }


def reset_on_eviction(states: Collection[CheckState], at: Micros) -> list[CheckState]:
    """Return *states* with all that was said taken back; retries are counted (AC4).

    Also what was said while a check was Pending: that others should be preempted now counts for that attempt.
    A check that was Ready has its retries forgotten, unless another one's Retry has ended the attempt: two
    that take turns would send the job round without end.
    """
    sent_back = any(state.state == RETRY for state in states)
    return [
        _unsaid(state)
        if state.state == PENDING
        else CheckState(
            state.name,
            PENDING,
            at,
            _reset(state.state),
            state.requeue_after_s,
            state.retry_count + (state.state == RETRY) if sent_back else 0,
        )
        for state in states
    ]


def _unsaid(state: CheckState) -> CheckState:
    """Return a Pending check as before its controller said so; whose text Kueue keeps, too, is its own."""
    if not state.reason:
        return state
    return state._replace(message=_reset(state.reason), reason="", pod_set_updates=())


def _reset(previously: str) -> str:
    return f"Reset to Pending after eviction. Previously: {previously}"


def retried_late(states: Mapping[str, CheckState], names: Iterable[str], at: Micros) -> dict[str, CheckState]:
    """Return *states*, the Retry of those of *names* counted that were reset before they said it (AC3)."""
    found = dict(states)
    for name in names:
        state = found.get(name) or CheckState(name, PENDING, at)
        if state.state == PENDING:
            found[name] = CheckState(
                name, PENDING, at, _reset(RETRY), state.requeue_after_s, state.retry_count + 1
            )
    return found


def max_retry_at(states: Iterable[CheckState]) -> Micros | None:
    """Return when the longest of the delays that Retry checks ask for is over, None without one (AC3)."""
    return max(
        (
            state.at + state.requeue_after_s * MICROS_PER_S
            for state in states
            if state.state == RETRY and state.at is not None and state.requeue_after_s is not None
        ),
        default=None,
    )


def why_not_admitted(states: Iterable[CheckState], *, has_quota: bool) -> tuple[str, str] | None:
    """Return (reason, message) of Admitted=False, or None when nothing is in the way (AC1)."""
    if not has_quota:
        return ("NoReservation", "The workload has no reservation")
    if any(state.state != READY for state in states):
        return ("UnsatisfiedAdmissionChecks", "The workload has not all checks ready")
    return None
