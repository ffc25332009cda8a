"""Delays of explicit variants: what they count from, and what starts them anew (CA12)."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from sluice.core.workload.reasons import FLAVOR_MIGRATION
from sluice.events.scheduler import Admitted, Evicted
from sluice.events.variants import ParentEvicted, VariantActivated, VariantDeactivated
from tests.support.family_world import SECOND, FamilyWorld, cell, cluster_queue, configuration, local_queue
from tests.support.objects import priority_class

HIGH = priority_class("high", 100)
FORGIVING = configuration(
    waitForPodsReady={
        "enable": True,
        "timeoutSeconds": 10_000,
        "recoveryTimeoutSeconds": 1,
        "requeuingStrategy": {"backoffBaseSeconds": 1},
    }
)
NAMED = re.compile(r'deleteDelaySeconds: (\d+) after Variant "([^"]+)" was admitted')


def queue(running: str = "rest", *, res: int = 0, od: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a queue whose better variant gives up 50 s after another one was admitted."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"], "deleteDelaySeconds": 50},
            {"name": running, "allowedResourceFlavors": ["od"]},
        ],
    }
    return cluster_queue(
        {"res": res, "od": od}, policy, preemption={"withinClusterQueue": "LowerPriority"}, **spec
    )


def rename(world: FamilyWorld) -> None:
    world.apply(queue("other"))


def drain(world: FamilyWorld) -> None:
    world.apply(queue(stopPolicy="HoldAndDrain")).settle_all()
    world.run_until(60)
    world.apply(queue())


def drain_local(world: FamilyWorld) -> None:
    drained = local_queue()
    drained["spec"]["stopPolicy"] = "HoldAndDrain"
    world.apply(drained).settle_all()
    world.apply(local_queue())


def deactivate(world: FamilyWorld) -> None:
    world.message("job.default.a", "JobDeactivated", {}).settle_all()
    world.run_until(5)
    world.message("job.default.a", "JobActivated", {})


def crash(world: FamilyWorld) -> None:
    world.report("a", "JobStopped")


def preempt(world: FamilyWorld) -> None:
    world.submit("b", priority_class="high").settle_all()
    assert world.flavor_of("a") == ""
    world.report("b", "JobFinished", success=True)


def never_ready(world: FamilyWorld) -> None:
    world.report("a", "JobPodsReady").settle()
    world.report("a", "JobPodsReady", ready=False).settle()
    world.run_until(3)


STOPS: list[Callable[[FamilyWorld], None]] = [
    rename,
    drain,
    drain_local,
    deactivate,
    crash,
    preempt,
    never_ready,
]


def given_up(world: FamilyWorld) -> list[tuple[int, int]]:
    """Return the delays for which variants gave up, each with the time since the admission that it names."""
    admitted: dict[str, int] = {}
    found = []
    for at, event in timed(world):
        if isinstance(event, Admitted):
            admitted[event.workload] = at
        elif isinstance(event, VariantDeactivated) and (named := NAMED.search(event.message)):
            found.append((int(named[1]) * SECOND, at - admitted[named[2]]))
    return found


def timed(world: FamilyWorld) -> list[tuple[int, Any]]:
    ats = {entry.seq: entry.at for entry in world.log}
    return [(ats[seq], event) for seq, _, event in world.history]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("late", [False, True], ids=["within the delay", "after it"])
def test_a_delete_delay_counts_from_the_admission_that_it_names(
    stop: Callable[[FamilyWorld], None], late: bool
) -> None:
    """Whatever has stopped the job, the next admission starts it anew, and the better one has its time."""
    world = cell(queue(), HIGH, FORGIVING)
    world.submit("a").settle_all()
    assert world.flavor_of("a") == "od"
    world.run_until(60 if late else 30)
    assert ("best" in world.active("a")) is not late
    stop(world)
    world.settle_all()
    world.run_until(2)
    assert len(world.events(ParentEvicted)) == 1
    assert world.flavor_of("a") == "od"
    world.run_until(40)
    assert "best" in world.active("a"), "it has not had the time that is said of it"
    world.run_until(12)
    assert "best" not in world.active("a")
    found = given_up(world)
    assert len(found) == 1 + late
    for delay, since in found:
        assert delay <= since <= delay + SECOND
    world.verify()


def test_a_move_is_an_admission_too() -> None:
    """What has moved has started again, so the best one has its time from there."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"], "deleteDelaySeconds": 50},
            {"name": "mid", "allowedResourceFlavors": ["od"]},
            {"name": "last", "allowedResourceFlavors": ["spot"]},
        ],
    }
    world = cell(cluster_queue({"res": 0, "od": 0, "spot": 1}, policy))
    world.submit("a").settle_all()
    assert world.flavor_of("a") == "spot"
    world.run_until(60)
    world.apply(cluster_queue({"res": 0, "od": 1, "spot": 1}, policy)).settle_all()
    assert [event.reason for event in world.events(Evicted)] == [FLAVOR_MIGRATION]
    assert world.flavor_of("a") == "od"
    assert "best" in world.active("a")
    world.run_until(55)
    assert world.active("a") == ["mid"]
    assert len(given_up(world)) == 2
    for delay, since in given_up(world):
        assert delay <= since <= delay + SECOND
    world.verify()


@pytest.mark.parametrize("stop", [drain_local, deactivate, crash, preempt])
def test_a_create_delay_counts_from_the_creation_or_the_latest_preemption(
    stop: Callable[[FamilyWorld], None],
) -> None:
    """Only who was preempted by others waits for its later variants as if the job had just come."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"]},
            {"name": "rest", "allowedResourceFlavors": ["od"], "createDelaySeconds": 20},
        ],
    }
    world = cell(
        cluster_queue({"res": 0, "od": 1}, policy, preemption={"withinClusterQueue": "LowerPriority"}), HIGH
    )
    world.submit("a").run_until(21)
    assert world.flavor_of("a") == "od"
    activated = len(world.events(VariantActivated))
    if stop is preempt:
        world.submit("b", priority_class="high").run_until(21)
        world.settle_all()
        assert world.flavor_of("a") == ""
        assert world.active("a") == ["best"]
        world.run_until(21)
        assert len(world.events(VariantActivated)) > activated
        return
    stop(world)
    world.settle_all()
    assert world.flavor_of("a") == "od"
    world.verify()


def both_delays() -> FamilyWorld:
    """Return a cell whose better variant comes 5 s after its job, and gives up 50 s after an admission."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {
                "name": "best",
                "allowedResourceFlavors": ["res"],
                "createDelaySeconds": 5,
                "deleteDelaySeconds": 50,
            },
            {"name": "rest", "allowedResourceFlavors": ["od"]},
        ],
    }
    return cell(cluster_queue({"res": 0, "od": 1}, policy))


def test_a_variant_with_both_delays_comes_by_itself_and_goes_again() -> None:
    """Nothing but time passes while its sibling runs: it comes for the one delay, and goes for the other."""
    world = both_delays()
    world.submit("a").settle_all()
    assert world.active("a") == ["rest"]
    world.run_until(6)
    assert world.active("a") == ["best", "rest"]
    world.run_until(60)
    assert world.active("a") == ["rest"]
    world.verify()


def test_a_controller_that_was_away_for_both_delays_settles() -> None:
    """Both are over when it is back: there is nothing to be done, and it does not wake for it again."""
    world = both_delays()
    world.submit("a").settle_all()
    world.now += 100 * SECOND
    world.settle_all()
    assert world.active("a") == ["rest"]
    controller = world.services["variants"]
    assert controller.decider.deadline(controller.state) is None
    world.verify()
