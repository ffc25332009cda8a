"""Least nominal quota that would admit a workload, found by deciding on copies of the state."""

from collections.abc import Callable, Mapping, Sequence
from math import gcd

from sluice.api.quantity import format_value
from sluice.core.flavors.eligibility import FlavorRule
from sluice.core.quota.tree import FlavorResource
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.charges import beyond
from sluice.core.world.model import ClusterQueue
from sluice.core.world.reservations import without
from sluice.core.world.variants import allowed_flavors, family_usage
from sluice.core.world.workload import Workload
from sluice.replay.views.pending_preemptions import at_hand, available, preemptors_in

from .remedy import Remedy, follows
from .sandbox import Outcome, Sandbox, with_quota
from .stopping import kept_slice, queues_of_tree

PROBES = 24
"""Decisions spent on finding one smallest number."""
MOST_TIMES = 1 << 12
"""No more quota is tried than so many times what a workload needs."""
STEPS = 8
"""Amounts below the one that was found that are all tried, where there are no more than so many."""

Attempt = Callable[[dict[FlavorResource, int]], Outcome]
"""What comes of so much more in the nominal quota."""


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


def more_quota(sandbox: Sandbox, state: SchedulerState, workload: Workload, cq: ClusterQueue) -> list[Remedy]:
    """Find, per flavor that its pods may use, the least nominal quota to add to its queue."""
    found: list[Remedy] = []
    seen: list[dict[FlavorResource, int]] = []
    tried: dict[tuple[tuple[FlavorResource, int], ...], Outcome] = {}

    def attempt(amounts: dict[FlavorResource, int]) -> Outcome:
        """Try these amounts, each of them once."""
        key = tuple(sorted(item for item in amounts.items() if item[1]))
        if key not in tried:
            tried[key] = sandbox.attempt((with_quota(cq, amounts),), workload.key)
        return tried[key]

    for flavors in _choices(state, workload, cq):
        needs = _needs(state, workload, cq, flavors)
        amounts = _least_quota(attempt, needs, _guesses(sandbox, state, workload, cq, needs))
        if amounts:
            amounts = _smaller(attempt, amounts, _steps(state, cq, needs))
        if not amounts or amounts in seen:
            continue  # with another choice of what there is enough of, the same is short
        seen.append(amounts)
        outcome = attempt(amounts)
        parts = [f"{format_value(r, a)} more {r} of {f}" for (f, r), a in amounts.items()]
        text = f"{' and '.join(parts)} in the nominal quota of {cq.name}"
        text += follows(sandbox, workload.key, (with_quota(cq, amounts),), outcome)
        plain = {f"{f}/{r}": a for (f, r), a in amounts.items()}
        found.append(Remedy("quota", text, amounts=plain, preempts=len(outcome.preempted)))
    # Amounts of different resources cannot be compared; fewer kinds come first, then less.
    found.sort(key=lambda remedy: (len(remedy.amounts or ()), sum((remedy.amounts or {}).values())))
    return found


def _choices(state: SchedulerState, workload: Workload, cq: ClusterQueue) -> list[tuple[str, ...]]:
    """Return one tuple of flavors per alternative: one flavor of each resource group."""
    choices: list[tuple[str, ...]] = [()]
    old = kept_slice(state, workload)
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
    old = kept_slice(state, workload)
    if old is not None:
        return beyond(needs, old.usage)
    return beyond(needs, family_usage(state.world, workload, cq.name))


def _guesses(
    sandbox: Sandbox,
    state: SchedulerState,
    workload: Workload,
    cq: ClusterQueue,
    needs: Mapping[FlavorResource, int],
) -> list[dict[FlavorResource, int]]:
    """Return what it lacks as all is charged; then beside what is promised, and when leavers have gone.

    With more quota than it lacks, others may get what was promised to them, and leave less for it: the
    greater amount is no answer, and from there the lesser one is not found.
    """

    def lacks(left: Callable[[FlavorResource], int]) -> dict[FlavorResource, int]:
        missing = {fr: n - at_hand(state, workload, cq, fr, left(fr)) for fr, n in needs.items()}
        return {fr: amount for fr, amount in missing.items() if amount > 0}

    found = [lacks(cq.node.available)]
    if preemptors := [w for w in preemptors_in(state, cq) if w is not workload]:
        left = available(state, cq, preemptors)
        found.append(lacks(lambda fr: left[fr] if fr in left else cq.node.available(fr)))
    if sandbox.leavers is not None:
        with without(state.world, sandbox.leavers.holders):
            found.append(lacks(cq.node.available))
    return found


def _steps(
    state: SchedulerState, cq: ClusterQueue, needs: Mapping[FlavorResource, int]
) -> dict[FlavorResource, int]:
    """Return in which steps of each it comes to matter how much there is."""
    found = dict(needs)
    for queue in queues_of_tree(state, cq):
        for fr in found:
            held = (w.usage.get(fr, 0) for w in queue.workloads.values())
            found[fr] = gcd(found[fr], queue.node.nominal(fr), *held)
    return found


def _smaller(
    attempt: Attempt, amounts: dict[FlavorResource, int], steps: Mapping[FlavorResource, int]
) -> dict[FlavorResource, int]:
    """Return amounts of which no smaller one admits, where there are few: between may be some that do not."""
    found = dict(amounts)
    for fr in sorted(found):
        fewer = range(steps[fr], found[fr], steps[fr])
        for amount in fewer if len(fewer) <= STEPS else ():
            if attempt({**found, fr: amount}).reserved is not None:
                found[fr] = amount
                break
    return found


def _least_quota(
    attempt: Attempt,
    needs: Mapping[FlavorResource, int],
    guesses: Sequence[dict[FlavorResource, int]],
) -> dict[FlavorResource, int] | None:
    """Return the least amounts to add: no single one of them can be made smaller."""
    short, *others = guesses
    if not short:
        # Enough for it, but others come first: it takes more of everything that it needs.
        short = dict.fromkeys(needs, 1)

    def admits(amounts: dict[FlavorResource, int]) -> bool:
        return attempt(amounts).reserved is not None

    others = [guess for guess in others if guess and guess != short]
    if enough := [guess for guess in sorted(others, key=lambda g: sum(g.values())) if admits(guess)]:
        short = enough[0]
    elif not admits(short):
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
