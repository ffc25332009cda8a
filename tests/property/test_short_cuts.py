"""What a cycle asks in a cheaper way has the answer that the long way gives, in histories with contention."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from sluice.core.cycle import cycle
from sluice.core.cycle.admission import Admission
from sluice.core.cycle.entry import Entry
from sluice.core.cycle.requeue_filter import fits_root, is_refused_again, root_bounds
from sluice.core.cycle.woken import Woken
from sluice.core.queueing.overcommit import Overcommit
from sluice.core.queueing.pending_queue import CohortQueues, EquivalenceClass
from sluice.core.queueing.request_index import Least, fits
from sluice.core.quota.tree import Node
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.workload import Workload
from tests.bench import core_variants
from tests.bench.scenario import BASELINE
from tests.property.test_wake import Preempting
from tests.support.contended_history import Contended

ACTIONS = 60
SEEDS = range(12)


def test_short_cuts_lead_to_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    is_free, take, has_more = Admission.is_free, Admission._take, Woken.has_more
    have_all_gone = Overcommit.have_all_gone

    def really_free(admission: Admission, entry: Entry, gone: Collection[Workload] = ()) -> bool:
        """Without the question whether all have gone, there is a trial."""
        found = is_free(admission, entry, gone)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Overcommit, "have_all_gone", lambda _self, _gone=(): False)
            assert found == is_free(admission, entry, gone)
        if admission.overcommit and have_all_gone(admission.overcommit, gone):
            asked["free"] += 1
        return found

    def taken(admission: Admission, entry: Entry) -> None:
        """Whoever is not asked whether it fits, as its targets were just found, does."""
        assert not admission._overlaps(entry)
        assert admission._fits_beside_promises(entry)
        asked["taken beside others"] += bool(admission.overcommit)
        take(admission, entry)

    def more(woken: Woken, entry: Entry) -> bool:
        found = has_more(woken, entry)
        others = (p for p in woken.classes(entry.queue) if p is not entry.peers or p.size > 1)
        assert found == (entry.queue.strict or next(others, None) is not None)
        asked[f"more: {found}"] += 1
        return found

    def at_root(root: Node, least: Least) -> bool:
        asked["root"] += 1
        assert fits_root(root, least) == fits(least, root_bounds(root))
        return fits_root(root, least)

    monkeypatch.setattr(Admission, "is_free", really_free)
    monkeypatch.setattr(Admission, "_take", taken)
    monkeypatch.setattr(Woken, "has_more", more)
    monkeypatch.setattr(cycle, "fits_root", at_root)
    for seed in SEEDS:
        Contended(seed).play(ACTIONS)
    for what in ("free", "taken beside others", "more: True", "more: False", "root"):
        assert asked[what], what


REFUSED_AGAIN = range(100, 140)
VARIANTS = replace(
    BASELINE,
    cohorts=1,
    classes=tuple(replace(job, count=job.count // 8) for job in BASELINE.classes),
    flavors=tuple(core_variants.FLAVORS),
    policy="RetainFirstAdmission",
)


def test_a_look_that_is_left_out_would_have_changed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes whose refusal is foretold are not looked at; the histories are the same to the last event."""
    foretold = 0

    def counted(world: World, cq: ClusterQueue, peers: EquivalenceClass) -> bool:
        nonlocal foretold
        found = is_refused_again(world, cq, peers)
        foretold += found
        return found

    for seed in REFUSED_AGAIN:
        logs = []
        for answer in (counted, lambda _world, _cq, _peers: False):
            monkeypatch.setattr(cycle, "is_refused_again", answer)
            logs.append(Contended(seed).play(ACTIONS).log)
        assert logs[0] == logs[1]
    assert foretold


IN_USE = range(100, 110)


class Borrowing(Preempting):
    """Queues of one cohort with little of their own, and lend all of it."""

    def queue(self, name: str) -> dict[str, Any]:
        manifest: dict[str, Any] = super().queue(name)
        manifest["spec"]["cohortName"] = "all"
        for flavor in manifest["spec"]["resourceGroups"][0]["flavors"]:
            flavor["resources"] = [{"name": "cpu", "nominalQuota": self.random.randint(0, 4)}]
        return manifest


def test_classes_that_the_root_speaks_for_need_not_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the root lacks what classes of a size need, each of them would have said so by itself."""
    spoke = 0
    are_in_use = Admission.are_in_use

    def counted(admission: Admission, tree: CohortQueues, least: Least) -> bool:
        nonlocal spoke
        found = are_in_use(admission, tree, least)
        spoke += found
        return found

    for seed in IN_USE:
        logs = []
        for answer in (counted, lambda _admission, _tree, _least: False):
            monkeypatch.setattr(Admission, "are_in_use", answer)
            logs.append(Borrowing(seed).play(2 * ACTIONS).log)
        assert logs[0] == logs[1]
    assert spoke


def test_a_variant_whose_refusal_is_foretold_would_have_been_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, of jobs that borrow, on queues with concurrent admission."""
    foretold = 0

    def counted(world: World, cq: ClusterQueue, peers: EquivalenceClass) -> bool:
        nonlocal foretold
        found = is_refused_again(world, cq, peers)
        foretold += found and peers.head().record.parent is not None
        return found

    worlds: list[core_variants.Timed] = []

    class Kept(core_variants.Timed):
        def __post_init__(self) -> None:
            super().__post_init__()
            worlds.append(self)

    monkeypatch.setattr(core_variants, "Timed", Kept)
    for answer in (counted, lambda _world, _cq, _peers: False):
        monkeypatch.setattr(cycle, "is_refused_again", answer)
        core_variants.virtual(VARIANTS)
    assert worlds[0].history == worlds[1].history
    assert foretold
