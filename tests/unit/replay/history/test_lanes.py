"""A job's life as lanes: what follows what, where it was stopped, what variants and checks did meanwhile."""

from sluice.replay.history.causes import Happening, happenings
from sluice.replay.history.lanes import CHECK, PHASE, SLICE, VARIANT, tell
from tests.support.family_world import cell, cluster_queue

WORKLOAD = {"namespace": "default", "name": "w", "job": {"key": "default/train"}}


def _told(seq, kind, workload="default/w", **data):
    return Happening(seq, "scheduler", seq * 1_000_000, 0, kind, {"workload": workload, **data})


def _reserved(seq, workload="default/w", flavor="spot"):
    pod_sets = [{"name": "main", "count": 1, "flavors": {"cpu": flavor}}]
    return _told(seq, "QuotaReserved", workload, podSets=pod_sets)


def _created(seq, name="w", **record):
    return _told(seq, "WorkloadCreated", {**WORKLOAD, "name": name, **record})


def _variant(seq, name):
    record = {"namespace": "default", "name": name, "parent": "default/w"}
    return _told(seq, "VariantCreated", record)


def _waits(seq, reason, *workloads):
    return Happening(
        seq, "scheduler", seq * 1_000_000, 0, "WorkloadsParked", {"workloads": workloads, "reason": reason}
    )


def _spans(lane):
    return [
        (s.state, s.detail, s.begin // 1_000_000, None if s.end is None else s.end // 1_000_000)
        for s in lane.spans
    ]


def _lanes(*found):
    return {(lane.kind, lane.name): lane for lane in tell(found).shown()}


def test_phases_follow_each_other_without_a_gap_until_the_end():
    """Waiting is cut by its reasons; an eviction is Stopping until the quota is given back."""
    (lane,) = _lanes(
        _created(1),
        _waits(2, "WaitingForQuota", "default/w"),
        _reserved(3),
        _told(4, "Admitted"),
        _told(5, "WorkloadPodsReady", ready=True),
        _told(6, "Evicted", reason="Preempted", message="for x"),
        _told(6, "Preempted", preemptor="default/x", rule="InClusterQueue"),
        _told(7, "QuotaReleased"),
        _reserved(8),
        _told(9, "WorkloadFinished"),
    ).values()

    assert _spans(lane) == [
        ("Queued", "", 1, 2),
        ("Queued", "WaitingForQuota", 2, 3),
        ("QuotaReserved", "spot", 3, 4),
        ("Admitted", "spot", 4, 5),
        ("Running", "spot", 5, 6),
        ("Stopping", "spot", 6, 7),
        ("Queued", "", 7, 8),
        ("QuotaReserved", "spot", 8, 9),
    ]
    assert [(mark.type, mark.seq, mark.other) for mark in lane.marks] == [("Preempted", 6, "default/x")]


def test_a_reservation_that_is_admitted_at_once_is_one_span():
    lane = _lanes(_created(1), _reserved(2), _told(2, "Admitted"))[PHASE, "default/train"]
    assert _spans(lane)[1:] == [("Admitted", "spot", 2, None)]


def test_each_variant_has_a_lane_and_the_job_that_of_the_furthest():
    """The parent has none: nobody queues it."""
    lanes = _lanes(
        _created(1),
        _variant(2, "v-spot"),
        _variant(2, "v-res"),
        _waits(3, "NoQuota", "default/v-res"),
        _reserved(4, "default/v-spot"),
        _told(4, "Admitted", "default/v-spot"),
        _told(6, "Evicted", "default/v-spot", reason="FlavorMigration"),
        _reserved(6, "default/v-res", "res"),
        _told(8, "QuotaReleased", "default/v-spot"),
        _told(8, "Admitted", "default/v-res"),
        _told(9, "WorkloadFinished"),
    )

    assert set(lanes) == {
        (PHASE, "default/train"), (VARIANT, "default/v-spot"), (VARIANT, "default/v-res"),
    }  # fmt: skip
    assert _spans(lanes[VARIANT, "default/v-res"]) == [
        ("Queued", "", 2, 3),
        ("Queued", "NoQuota", 3, 6),
        ("QuotaReserved", "res", 6, 8),
        ("Admitted", "res", 8, 9),
    ]
    assert _spans(lanes[PHASE, "default/train"])[1:] == [
        ("Admitted", "spot", 4, 6),
        ("QuotaReserved", "res", 6, 8),
        ("Admitted", "res", 8, 9),
    ]
    assert [mark.type for mark in lanes[PHASE, "default/train"].marks] == ["Migrated"]


def test_a_slice_that_takes_the_place_of_another_has_its_own_lane():
    lanes = _lanes(
        _created(1),
        _reserved(2),
        _created(3, "w2", replaces="default/w"),
        _reserved(4, "default/w2"),
        _told(4, "WorkloadSliceReplaced", "default/w", by="default/w2"),
    )
    assert _spans(lanes[SLICE, "default/w"]) == [("Queued", "", 1, 2), ("QuotaReserved", "spot", 2, 4)]
    assert _spans(lanes[SLICE, "default/w2"]) == [("QuotaReserved", "spot", 4, None)]
    assert _spans(lanes[PHASE, "default/train"])[-1] == ("QuotaReserved", "spot", 2, None)


def test_checks_have_lanes_until_they_are_withdrawn():
    lane = _lanes(
        _created(1),
        _reserved(2),
        _told(3, "ChecksRequested", checks=["prov"], attempt=1),
        _told(5, "CheckStateChanged", check="prov", state="Ready"),
        _told(7, "ChecksWithdrawn", attempt=1, reason="Evicted"),
    )[CHECK, "prov"]
    assert _spans(lane) == [("Pending", "", 3, 5), ("Ready", "", 5, 7)]


def test_what_a_log_holds_before_its_first_message_about_a_workload_is_not_guessed():
    """An excerpt may begin anywhere."""
    (lane,) = _lanes(_told(1, "Admitted"), _reserved(2), _told(3, "QuotaReleased")).values()
    assert _spans(lane) == [("QuotaReserved", "spot", 2, 3), ("Queued", "", 3, None)]


def test_pods_of_a_racing_job_are_told_of_its_parent_too() -> None:
    """A parent has no lane of its own: its variants have."""
    world = cell(cluster_queue({"res": 1}))
    world.submit("a").settle_all()
    world.report("a", "JobPodsReady").settle_all()
    assert "WorkloadPodsReady" in [h.type for h in happenings(world.log)]
    lanes = tell(happenings(world.log)).lanes
    assert lanes[("default/a", PHASE, "default/a")].spans[-1].state == "Running"
    assert [lane.kind for lane in lanes.values() if lane.spans] == [PHASE, VARIANT]


def test_a_move_is_told_where_the_new_quota_is_older_than_the_eviction():
    """As with admission checks: the better variant is asked about while the job runs on the other one."""
    story = tell(
        [
            _created(1),
            _variant(2, "w-res"),
            _variant(2, "w-od"),
            _reserved(3, "default/w-od", "od"),
            _told(4, "Admitted", "default/w-od"),
            _reserved(5, "default/w-res", "res"),
            _told(6, "Evicted", "default/w-od", reason="FlavorMigration"),
            _told(7, "QuotaReleased", "default/w-od"),
            _told(8, "Admitted", "default/w-res"),
        ]
    )
    assert [(left.detail, left.state, new.detail, new.from_seq) for left, new in story.moves] == [
        ("od", "Stopping", "res", 5)
    ]


def test_a_replaced_slice_that_is_deleted_ends_its_own_lane_only():
    found = [
        _created(1),
        _reserved(2),
        _told(3, "Admitted"),
        _created(4, "w2", replaces="default/w"),
        _reserved(5, "default/w2"),
        _told(6, "WorkloadSliceReplaced"),
        _told(7, "Admitted", "default/w2"),
        _told(8, "WorkloadDeleted"),
    ]
    lanes = _lanes(*found)
    assert lanes[PHASE, "default/train"].spans[-1].end is None
    assert lanes[SLICE, "default/w2"].spans[-1].end is None
    assert _spans(lanes[SLICE, "default/w"])[-1][3] is not None
    over = _lanes(*found, _told(9, "WorkloadDeleted", "default/w2"))
    assert over[PHASE, "default/train"].spans[-1].end == 9_000_000
