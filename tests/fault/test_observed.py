"""What the judges of a fault run find, and what they let pass: they are told of runs and of quota."""

from contextlib import closing
from pathlib import Path

import pytest

from sluice.events.base import Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.checks import CheckStateChanged
from sluice.events.scheduler import Admitted, QuotaReleased, QuotaReserved, WorkloadSliceReplaced
from sluice.events.slices import ReclaimablePodsUpdated, WorkloadCreated, WorkloadRecord, WorkloadUpdated
from sluice.protocol.dispatch import DispatchEntry, DispatchPodSet

from .audit import Account
from .check_audit import CheckAudit
from .observed import HEARD, Diary, Held, Pods, Run, compare, read_diary, without_lost

KEY, OTHER = WorkloadKey("default/w"), WorkloadKey("default/v")
LIFE = ("default/j", "uid")


def held(*history: tuple[Micros, Pods | None]) -> Held:
    """Return what was held for one job, from when on; None: nothing."""
    return Held(
        lives={KEY: LIFE, OTHER: LIFE},
        history={LIFE: [(at, [] if pods is None else [pods]) for at, pods in history]},
    )


def run_of(begin: Micros, end: Micros, count: int = 1, *, attempt: int = 1, executor: str = "left") -> Run:
    return Run(KEY, attempt, executor, {"main": ("metal", count)}, begin, end)


ONE: Pods = {"main": ("metal", 1)}


def test_a_run_within_its_quota_passes() -> None:
    assert compare([run_of(10, 20)], held((5, ONE), (25, None))) == ([], [])


@pytest.mark.parametrize(
    "history",
    [
        [(15, ONE), (25, None)],
        [(5, ONE), (15, None)],
        [(5, {"main": ("other", 1)})],
        [],
    ],
    ids=["before it was reserved", "after it was released", "of another flavor", "never"],
)
def test_a_run_beside_its_quota_is_found(history: list[tuple[Micros, Pods | None]]) -> None:
    without, _ = compare([run_of(10, 20)], held(*history))
    assert len(without) == 1


def test_more_pods_than_were_granted_are_found() -> None:
    without, _ = compare([run_of(10, 20), run_of(12, 18)], held((5, ONE)))
    assert len(without) == 1


def test_pods_that_a_shrinking_gives_up_may_run_until_their_executor_has_heard() -> None:
    two: Pods = {"main": ("metal", 2)}
    shrunk = held((5, two), (15, ONE))
    assert compare([run_of(10, 20, 2)], shrunk) == ([], [])
    without, _ = compare([run_of(10, 20), run_of(15 + HEARD, 16 + HEARD, 2)], shrunk)
    assert len(without) == 1


def test_two_attempts_at_once_are_found_but_not_of_a_lost_executor() -> None:
    runs = [run_of(10, 20), run_of(15, 30, attempt=2, executor="right")]
    quota = held((5, ONE))
    assert len(compare(runs, quota)[1]) == 1
    assert compare(without_lost(runs, {"left": [14]}), quota) == ([], [])
    assert len(compare(without_lost(runs, {"left": [9], "right": [14]}), quota)[1]) == 1


def test_a_diary_survives_its_process(tmp_path: Path) -> None:
    """What its process has not ended lasted until its last sign of life."""
    path = tmp_path / "diary"
    pods = DispatchPodSet(name="main", count=2, flavors={"cpu": "metal"}, ungated=2)
    entry = DispatchEntry(job=LIFE[0], uid="u", state="Running", attempt=3, workload=KEY, pod_sets=(pods,))  # type: ignore[arg-type]
    with closing(Diary(path, "east")) as diary:
        diary.end(diary.begin(entry), done=True)
        diary.begin(entry)
        diary.beat()
    with path.open("ab") as file:
        file.write(b'[1,{"worklo')
    ended, left = read_diary(path)
    assert (ended.done, left.done) == (True, False)
    assert left.end > left.begin >= ended.end
    assert (left.pods, left.attempt, left.executor) == ({"main": ("metal", 2)}, 3, "east")


# The account of quota

PLACE = ("q", "metal")


def account(nominal: int = 3) -> Account:
    found = Account()
    found.nominal[PLACE], found.most[PLACE], found.cohort[PLACE] = nominal, 2**62, ("c", "metal")
    found.used[PLACE] = 0
    return found


def created(key: WorkloadKey, count: int, replaces: WorkloadKey | None = None) -> WorkloadCreated:
    pods = PodSet(name="main", count=count, requests={"cpu": 1})
    return WorkloadCreated(
        cause=1,
        workload=WorkloadRecord(
            namespace="default",
            name=key.partition("/")[2],
            uid=key,
            queue_name="q",
            created_at=1,
            pod_sets=[pods],
            replaces=replaces,
        ),
    )


def reserved(key: WorkloadKey, count: int) -> QuotaReserved:
    pods = PodSetAssignment(name="main", count=count, flavors={"cpu": "metal"}, usage={"cpu": count})
    return QuotaReserved(cause=1, workload=key, cluster_queue="q", pod_sets=[pods])


def test_slices_of_a_job_are_charged_together() -> None:
    books = account()
    events = [created(KEY, 2), reserved(KEY, 2), created(OTHER, 3, replaces=KEY), reserved(OTHER, 3)]
    assert [books.add(event) for event in events] == [""] * 4
    assert books.used[PLACE] == 3
    books.add(WorkloadSliceReplaced(cause=1, workload=KEY, by=OTHER, message=""))
    assert books.used[PLACE] == 3
    books.add(
        WorkloadUpdated(cause=1, workload=OTHER, pod_sets=[PodSet(name="main", count=2, requests={"cpu": 1})])
    )
    assert books.used[PLACE] == 2
    books.add(ReclaimablePodsUpdated(cause=1, workload=OTHER, pods={"main": 1}))
    assert books.used[PLACE] == 1
    books.add(QuotaReleased(cause=1, workload=OTHER))
    assert books.used[PLACE] == 0


def test_more_than_there_is_is_found() -> None:
    books = account()
    assert not books.add(created(KEY, 2)) + books.add(reserved(KEY, 2)) + books.add(created(OTHER, 2))
    assert "uses 4 of 3" in books.add(reserved(OTHER, 2))


# The account of checks


def changed(state: str, attempt: int = 1) -> CheckStateChanged:
    return CheckStateChanged(cause=1, workload=KEY, check="a", state=state, attempt=attempt)


def test_an_approval_that_is_taken_back_is_found() -> None:
    audit = CheckAudit({"q": ("a",)})
    for event in (reserved(KEY, 1), changed("Ready"), changed("Pending")):
        audit.event(event, 7)
    assert audit.wrong == [f"{KEY}: a was Ready, and is Pending at 7"]


def test_an_admission_before_its_checks_is_found_only_where_there_are_checks() -> None:
    for checks, wrong in (({"q": ("a",)}, 1), ({}, 0)):
        audit = CheckAudit(checks)
        for event in (reserved(KEY, 1), Admitted(cause=1, workload=KEY)):
            audit.event(event, 7)
        assert len(audit.wrong) == wrong
