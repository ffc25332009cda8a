"""The scheduler's lists agree with what they are derived from after each step, not only in the end."""

from collections.abc import Iterator, Sequence
from typing import Any

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.invariants import violations
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.variants import BETTER_NEXT
from sluice.events.scheduler import WorkloadDeactivated
from sluice.log.contract import Entry
from sluice.log.fold import Fold
from tests.support.family_world import cell, cluster_queue
from tests.support.objects import kueue_object
from tests.support.verify import entries_for

CHECK = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})


def wrong(entries: Sequence[Entry]) -> Iterator[tuple[int, str]]:
    """Yield (sequence, what is wrong) of each step."""
    fold: Fold[SchedulerState] = Fold(Scheduler())
    for seq, _ in fold.take_in(entries):
        yield from ((seq, text) for text in violations(fold.state))


def test_who_was_to_come_next_is_switched_off_and_the_next_is_barred_no_more() -> None:
    """It had quota and its checks; they are rejected while the job stops for it, in a commit of two steps."""
    quotas = {"a": 0, "b": 0, "c": 1}
    strategy: dict[str, Any] = {"admissionChecks": [{"name": "slow"}]}
    world = cell(cluster_queue(quotas, admissionChecksStrategy=strategy), CHECK)
    world.submit("moving").settle_all()
    variants = world.variants("moving")
    world.checks_say(variants["c"].key, "Ready").settle_all()
    assert world.flavor_of("moving") == "c"
    world.apply(cluster_queue({"a": 1, "b": 1, "c": 1}, admissionChecksStrategy=strategy)).settle()
    world.checks_say(variants["a"].key, "Ready").settle()
    peers = world.services["scheduler"].state.world.workloads[variants["b"].key].peers
    assert peers is not None
    assert peers.key == ("barred", BETTER_NEXT)
    world.checks_say(variants["a"].key, "Rejected").settle()
    assert [event.workload for event in world.events(WorkloadDeactivated)] == [variants["a"].key]
    world.settle_all()
    assert list(wrong(list(entries_for(Scheduler(), world.log)))) == []
    world.verify()
