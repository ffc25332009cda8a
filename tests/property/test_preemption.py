"""Preemption in random worlds: against the plain way, and what must hold of every answer (SC5, SC6)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.api.kueue import BorrowWithinCohort, FairSharingConfig
from sluice.core.preemption.targets import (
    Possibility,
    get_targets,
    possibility_of,
    possible_victims,
    refusals,
)
from sluice.core.quota.tree import WEIGHT_SCALE, Quota
from sluice.core.world.reservations import Trial, release, reserve
from tests.support.examples import examples
from tests.support.preemption_worlds import (
    CPU,
    GPU,
    pending,
    plain_possible_victims,
    plain_targets,
    queue,
    running,
    world,
)

COHORTS = ("root", "left", "right", "deep")
QUEUES = ("q0", "q1", "q2", "q3", "q4")
FRS = (CPU, GPU)

limits = st.none() | st.none() | st.integers(0, 6)
quotas = st.fixed_dictionaries(
    {CPU: st.builds(Quota, st.integers(0, 8), limits, limits)}
) | st.fixed_dictionaries({fr: st.builds(Quota, st.integers(0, 8), limits, limits) for fr in FRS})
weights = st.sampled_from((0, WEIGHT_SCALE // 2, WEIGHT_SCALE, WEIGHT_SCALE, 2 * WEIGHT_SCALE))
borrow = st.none() | st.builds(
    BorrowWithinCohort, policy=st.sampled_from(("Never", "LowerPriority")), max_priority_threshold=limits
)
usages = st.fixed_dictionaries({CPU: st.integers(1, 5)}) | st.fixed_dictionaries(
    {fr: st.integers(1, 5) for fr in FRS}
)


@st.composite
def questions(draw):
    """A world with reservations, a pending workload, what it would use, and what of that is short."""
    fair = draw(st.booleans())
    gates = {}
    if fair and draw(st.booleans()):
        gates["FairSharingPreemptWithinNominal"] = False
    w = world(fair=fair, **gates)
    if fair:
        strategies = draw(st.sampled_from(([], ["LessThanOrEqualToFinalShare"], ["LessThanInitialShare"])))
        w.config = type(w.config)(
            fair_sharing=FairSharingConfig(enable=True, preemption_strategies=strategies), feature_gates=gates
        )
    for name, parent in zip(
        COHORTS, ("", "root", "root", draw(st.sampled_from(("left", "right")))), strict=True
    ):
        w.tree.set_cohort(name, parent, draw(quotas) if draw(st.booleans()) else {}, draw(weights))
    for name in QUEUES[: draw(st.integers(1, 5))]:
        queue(
            w,
            name,
            draw(st.sampled_from(("", *COHORTS, *COHORTS))),
            quotas=draw(quotas),
            weight=draw(weights),
            within=draw(st.sampled_from(("Never", "LowerPriority", "LowerOrNewerEqualPriority"))),
            reclaim=draw(st.sampled_from(("Never", "LowerPriority", "Any", "Any"))),
            borrow=draw(borrow),
        )
    held = sorted(w.cluster_queues)
    for i in range(draw(st.integers(0, 14))):
        name = draw(st.sampled_from(held))
        usage = draw(usages)
        running(
            w,
            f"w{i}",
            name,
            usage,
            priority=draw(st.integers(-1, 3)),
            at=draw(st.integers(1, 3)),
            created_at=draw(st.integers(0, 3)),
            evicted=draw(st.integers(0, 5)) == 0,
        )
    preemptor = pending("in", draw(st.sampled_from(held)), priority=draw(st.integers(-1, 3)), created_at=1)
    usage = draw(usages)
    short = draw(st.lists(st.sampled_from(sorted(usage)), min_size=1, unique=True))
    return w, preemptor, usage, short


def state(w):
    nodes = [*w.tree.cluster_queues.values(), *w.tree.cohorts.values()]
    return {repr(n): (n.usage, sorted(n.borrowed)) for n in nodes}, set(w.absent)


@settings(max_examples=examples(200), deadline=None)
@given(questions())
def test_targets_are_those_of_the_plain_way(question):
    """Indexes, bounds and heaps change what it costs, not what is decided."""
    w, preemptor, usage, short = question
    actual = [(t.workload.record.name, t.reason) for t in get_targets(w, preemptor, usage, short)]
    assert actual == plain_targets(w, preemptor, usage, short)


@settings(max_examples=examples(150), deadline=None)
@given(questions())
def test_possible_victims_are_all_whom_the_rules_allow(question):
    """Enough or not; so every target is one of them."""
    w, preemptor, usage, short = question
    found = possible_victims(w, preemptor, usage, short)
    assert found == plain_possible_victims(w, preemptor, usage, short)
    assert found >= {t.workload.key for t in get_targets(w, preemptor, usage, short)}


@settings(max_examples=examples(150), deadline=None)
@given(questions())
def test_shares_keep_only_who_would_make_room(question):
    """Nobody whom the search takes; and somebody where all candidates together were enough, and none goes."""
    w, preemptor, usage, short = question
    before = state(w)
    kept = refusals(w, preemptor, usage, short)
    assert state(w) == before
    possible = possible_victims(w, preemptor, usage, short)
    targets = {t.workload.key for t in get_targets(w, preemptor, usage, short)}
    assert kept.keys() <= possible - targets
    with Trial(w) as trial:
        for key in sorted(possible):
            trial.remove(w.workloads[key])
        room = w.tree.fits(w.cluster_queues[preemptor.cluster_queue].node, usage)
    if not w.config.fair_sharing.enable or not room:
        assert not kept
    elif not targets and possible:
        assert kept


@settings(max_examples=examples(120), deadline=None)
@given(questions())
def test_targets_suffice_and_none_is_needless(question):
    """With all targets gone the workload fits; with any one of them kept it does not (unless it must not
    borrow to fit). Asking leaves no trace."""
    w, preemptor, usage, short = question
    before = state(w)
    targets = get_targets(w, preemptor, usage, short)
    assert state(w) == before
    if not targets:
        return
    node = w.cluster_queues[preemptor.cluster_queue].node
    with Trial(w) as trial:
        for target in targets:
            trial.remove(target.workload)
        assert w.tree.fits(node, usage)
        borrows = any(node.borrowing_with(fr, amount) for fr, amount in usage.items())
    for kept in targets:
        with Trial(w) as trial:
            for target in targets:
                if target is not kept:
                    trial.remove(target.workload)
            if borrows and len(targets) > 1:
                assert not w.tree.fits(node, usage)
    assert state(w) == before
    keys = [t.workload.key for t in targets]
    assert len(set(keys)) == len(keys)


@settings(max_examples=examples(200), deadline=None)
@given(questions())
def test_possibility_says_where_victims_are(question):
    w, preemptor, usage, short = question
    fr = short[0]
    own = w.cluster_queues[preemptor.cluster_queue]
    before = state(w)
    targets = get_targets(w, preemptor, {fr: usage[fr]}, (fr,))
    possibility, height = possibility_of(w, own, fr, usage[fr], targets)
    assert state(w) == before
    assert (possibility is Possibility.NO_CANDIDATES) == (not targets)
    inside = [t for t in targets if t.workload.cluster_queue == own.name]
    assert (possibility is Possibility.PREEMPT) == bool(inside)
    assert 0 <= height <= own.node.root().height


@settings(max_examples=examples(100), deadline=None)
@given(questions(), st.data())
def test_a_workload_that_was_taken_out_is_no_candidate(question, data):
    """In a trial, what was removed before is neither there nor chosen: as if it had been released."""
    w, preemptor, usage, short = question
    if not w.workloads:
        return
    gone = w.workloads[data.draw(st.sampled_from(sorted(w.workloads)))]
    with Trial(w) as trial:
        trial.remove(gone)
        tried = [(t.workload.key, t.reason) for t in get_targets(w, preemptor, usage, short)]
    release(w, gone)
    assert [(t.workload.key, t.reason) for t in get_targets(w, preemptor, usage, short)] == tried
    reserve(w, gone)


@settings(max_examples=examples(100), deadline=None)
@given(questions())
def test_who_must_not_borrow_ends_within_quota(question):
    """Whatever victims it has, afterwards its queue is within its own quota (AX6)."""
    w, preemptor, usage, short = question
    bound = pending("in", preemptor.cluster_queue, priority=preemptor.priority, cannot_borrow=True)
    node = w.cluster_queues[preemptor.cluster_queue].node
    with Trial(w) as trial:
        targets = get_targets(w, bound, usage, short)
        for target in targets:
            trial.remove(target.workload)
        if targets:
            assert w.tree.fits(node, usage)
            assert not any(node.borrowing_with(fr, amount) for fr, amount in usage.items())
