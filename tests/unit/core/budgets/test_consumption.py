"""Consumption counts what is admitted, as long as it is, for whom it is."""

from sluice.core.budgets.consumption import KEPT_US, QUARTER_US, Account, Consumption, Series, dump, load
from sluice.events.base import Event, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.scheduler import Admitted, QuotaReleased, QuotaReserved, WorkloadSliceReplaced
from sluice.events.slices import (
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadFinished,
    WorkloadRecord,
    WorkloadUpdated,
)
from sluice.events.variants import VariantCreated

KEY = WorkloadKey("a/w")
GIB64 = 64 << 30


def record(
    name: str = "w", pods: int = 4, parent: str | None = None, max_s: int | None = None
) -> WorkloadRecord:
    return WorkloadRecord(
        namespace="a",
        name=name,
        uid=name,
        queue_name="q",
        created_at=0,
        pod_sets=[PodSet(name="main", count=pods, requests={"cpu": 1000})],
        maximum_execution_time_s=max_s,
        parent=WorkloadKey(parent) if parent else None,
    )


def reserved(key: str = KEY, pods: int = 4, flavor: str = "spot") -> QuotaReserved:
    assigned = PodSetAssignment(
        name="main",
        count=pods,
        flavors={"cpu": flavor, "memory": flavor},
        usage={"cpu": 1000 * pods, "memory": GIB64 * pods},
    )
    return QuotaReserved(cause=0, workload=WorkloadKey(key), cluster_queue="c", pod_sets=[assigned])


def admitted(key: str = KEY) -> Admitted:
    return Admitted(cause=0, workload=WorkloadKey(key))


def play(*events: tuple[int, Event]) -> Consumption:
    state = Consumption()
    for at, event in events:
        state.apply(event, at)
    return state


def cpu(state: Consumption, at: int, queue: str = "q", flavor: str = "spot") -> int:
    series = state.series.get(Account("a", queue, "c", flavor, "cpu"))
    return 0 if series is None else series.total(at)


def created(**fields: object) -> WorkloadCreated:
    return WorkloadCreated(cause=0, workload=record(**fields))  # type: ignore[arg-type]


def test_a_reservation_that_waits_for_its_checks_consumes_nothing() -> None:
    state = play((0, created()), (10, reserved()))
    assert not state.series

    state.apply(admitted(), 30)
    assert cpu(state, 50) == 4000 * 20


def test_it_ends_with_the_quota_or_the_workload() -> None:
    running = ((0, created()), (10, reserved()), (10, admitted()))

    evicted = play(*running, (40, QuotaReleased(cause=0, workload=KEY)))
    assert cpu(evicted, 99) == 4000 * 30
    assert not evicted.running
    assert KEY in evicted.workloads

    finished = play(*running, (60, WorkloadFinished(cause=0, workload=KEY)))
    assert cpu(finished, 99) == 4000 * 50
    assert not finished.workloads


def test_pods_that_have_ended_consume_no_more() -> None:
    state = play(
        (0, created()),
        (0, reserved()),
        (0, admitted()),
        (100, ReclaimablePodsUpdated(cause=0, workload=KEY, pods={"main": 3})),
    )

    assert cpu(state, 200) == 4000 * 100 + 1000 * 100


def test_pods_scaled_away_consume_no_more() -> None:
    fewer = [PodSet(name="main", count=1, requests={"cpu": 1000})]
    state = play(
        (0, created()),
        (0, reserved()),
        (0, admitted()),
        (100, WorkloadUpdated(cause=0, workload=KEY, pod_sets=fewer)),
    )

    assert cpu(state, 200) == 4000 * 100 + 1000 * 100


def test_pods_scaled_away_before_their_reservation_is_told_consume_nothing() -> None:
    """The scheduler had not heard of the new size when it reserved quota, and gives back what is too much."""
    fewer = [PodSet(name="main", count=1, requests={"cpu": 1000})]
    state = play(
        (0, created()),
        (0, WorkloadUpdated(cause=0, workload=KEY, pod_sets=fewer)),
        (0, reserved()),
        (0, admitted()),
    )

    assert cpu(state, 100) == 1000 * 100


def test_another_queue_is_another_account() -> None:
    state = play(
        (0, created()),
        (0, reserved()),
        (0, admitted()),
        (100, WorkloadUpdated(cause=0, workload=KEY, queue_name="other")),
        (150, WorkloadFinished(cause=0, workload=KEY)),
    )

    assert (cpu(state, 200), cpu(state, 200, "other")) == (4000 * 100, 4000 * 50)


def test_a_slice_takes_over_and_the_time_the_job_has_run() -> None:
    state = play(
        (0, created(max_s=100)),
        (0, reserved()),
        (0, admitted()),
        (5, created(name="w2", pods=6, max_s=100)),
        (9, reserved("a/w2", 6)),
        (9_000_000, admitted("a/w2")),
        (9_000_000, WorkloadSliceReplaced(cause=0, workload=KEY, by=WorkloadKey("a/w2"), message="")),
    )

    assert cpu(state, 10_000_000) == 4000 * 9_000_000 + 6000 * 1_000_000
    assert state.running["a/w2"].ends_at(None) == 100_000_000


def test_the_assumed_time_is_the_jobs_too() -> None:
    """Growing does not begin it anew; a stop does."""
    state = play(
        (0, created()),
        (0, reserved()),
        (0, admitted()),
        (5, created(name="w2", pods=6)),
        (9, reserved("a/w2", 6)),
        (9_000_000, admitted("a/w2")),
        (9_000_000, WorkloadSliceReplaced(cause=0, workload=KEY, by=WorkloadKey("a/w2"), message="")),
    )
    assert state.running["a/w2"].ends_at(100) == 100_000_000
    assert load(dump(state)).running["a/w2"].ends_at(100) == 100_000_000

    for at, event in (
        (20_000_000, QuotaReleased(cause=0, workload=WorkloadKey("a/w2"))),
        (30_000_000, reserved("a/w2", 6)),
        (30_000_000, admitted("a/w2")),
    ):
        state.apply(event, at)
    assert state.running["a/w2"].ends_at(100) == 130_000_000


def test_time_ran_before_an_eviction_counts_against_the_maximum() -> None:
    state = play(
        (0, created(max_s=100)),
        (0, reserved()),
        (0, admitted()),
        (30_000_000, QuotaReleased(cause=0, workload=KEY)),
        (50_000_000, reserved()),
        (60_000_000, admitted()),
    )

    assert state.running[KEY].ends_at(None) == 60_000_000 + 70_000_000
    assert state.running[KEY].ends_at(5) == 60_000_000 + 70_000_000


def test_variants_end_with_their_parent() -> None:
    """There are no events of their own then (CA7)."""
    child = record("w-spot", parent=KEY)
    state = play(
        (0, created()),
        (0, VariantCreated(cause=0, workload=child, variant="spot")),
        (0, VariantCreated(cause=0, workload=record("w-other", parent=KEY), variant="other")),
        (0, reserved("a/w-spot")),
        (0, admitted("a/w-spot")),
        (70, WorkloadFinished(cause=0, workload=KEY)),
    )

    assert cpu(state, 100) == 4000 * 70
    assert not state.workloads
    assert not state.variants


def test_amounts_beyond_64_bits_survive_a_snapshot() -> None:
    """A month of a terabyte in byte-microseconds is more than a machine's integer holds."""
    month = 30 * 86_400 * 1_000_000
    state = play(
        (0, created(pods=40)),
        (0, reserved(pods=40)),
        (0, admitted()),
        (month, WorkloadFinished(cause=0, workload=KEY)),
    )
    memory = Account("a", "q", "c", "spot", "memory")

    assert state.series[memory].total(month) == 40 * GIB64 * month > 2**64
    assert load(dump(state)).series[memory].total(month) == 40 * GIB64 * month


def test_a_clock_that_goes_back_a_little_counts_nothing_twice() -> None:
    state = play(
        (0, created()), (0, reserved()), (100, admitted()), (99, WorkloadFinished(cause=0, workload=KEY))
    )

    assert cpu(state, 1000) == 0


def test_old_marks_are_dropped_and_totals_of_the_last_month_stay_exact() -> None:
    series = Series()
    quarters = KEPT_US // QUARTER_US
    for number in range(2 * quarters):
        series.change(1 if number % 2 == 0 else -1, number * QUARTER_US)
    end = 2 * quarters * QUARTER_US

    assert len(series.marks) <= quarters + 66
    assert series.total(end) - series.total(end - KEPT_US) == KEPT_US // 2
