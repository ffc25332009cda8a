"""The budget check lets in what the budget has room for, and nothing else, at any time."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from sluice.api.check_parameters import BudgetPeriod
from sluice.api.kueue import AdmissionCheckParametersReference
from sluice.api.periods import period_at
from sluice.events.base import WorkloadKey
from sluice.events.slices import ReclaimablePodsUpdated
from sluice.sdk.checks import Pending, Ready, Request, Retry, Verdict
from sluice.services.check_budget.follower import dump, load
from sluice.services.check_budget.ledger import Ledger, Reading
from sluice.services.check_budget.prometheus import ReadingError, filled_in, number_in
from tests.unit.services.check_budget.budget_ledger import HOUR, MONDAY, SECOND, World

DAY = 24 * HOUR
PROMETHEUS: dict[str, Any] = {"source": {"prometheus": {"url": "http://p", "query": "x"}}}


def test_what_fits_is_let_in_and_the_rest_is_told_why() -> None:
    world = World()
    world.budget(cost=10)
    world.start("old", cores=3)
    world.now += 2 * HOUR

    assert world.ask(world.request("small", max_execution_time_s=3 * 3600)) == Ready()
    held = world.ask(world.request("large", max_execution_time_s=2 * 3600))
    assert isinstance(held, Pending)
    assert held.message == (
        "Budget 'team-a' has 1.00 EUR left: 6.00 of 10.00 EUR used, 3.00 EUR committed; this workload may "
        "need 2.00 EUR; the period ends 2026-11-30T00:00+00:00"
    )


def test_a_budget_that_is_used_up_holds_all() -> None:
    world = World()
    world.budget(cost=6)
    world.start("old", cores=3)
    world.now += 2 * HOUR

    held = world.ask(world.request("w"))
    assert isinstance(held, Pending)
    assert held.message == (
        "Budget 'team-a' is used up: 6.00 of 6.00 EUR used; the period ends 2026-11-30T00:00+00:00"
    )


def test_workloads_of_others_are_let_in() -> None:
    """Other namespaces are not concerned, nor is anybody without a budget."""
    world = World()
    world.budget(cost=0, scope={"namespace": "b"})

    assert world.ask(world.request("w")) == Ready()


def test_a_named_budget_counts_alone() -> None:
    world = World()
    world.budget("full", cost=0)
    world.budget("rich", cost=100)
    named = world.request("w")
    reference = AdmissionCheckParametersReference(api_group="sluice.dev", kind="Budget", name="rich")
    named.raw = msgspec.structs.replace(named.raw, parameters=reference)
    missing = world.request("v")
    missing.raw = msgspec.structs.replace(
        missing.raw, parameters=msgspec.structs.replace(reference, name="gone")
    )

    assert world.ask(named) == Ready()
    assert isinstance(world.ask(world.request("u")), Pending)
    assert getattr(world.ask(missing), "message", "") == "Budget 'gone' does not exist"


def test_raising_the_budget_lets_in_what_was_held() -> None:
    world = World()
    world.budget(cost=1)
    world.start("old", cores=1)
    world.now += HOUR
    request = world.request("w")
    assert isinstance(world.ask(request), Pending)

    world.budget(cost=2)

    assert [case.request for case in world.judge()] == [request]
    assert world.ask(request) == Ready()


def test_deleting_the_budget_lets_in_what_was_held() -> None:
    world = World()
    world.budget(cost=0)
    request = world.request("w")
    assert isinstance(world.ask(request), Pending)

    world.no_budget("team-a")

    assert [case.request for case in world.judge()] == [request]


def test_the_next_period_begins_with_nothing_used() -> None:
    world = World()
    world.budget(cost=1)
    world.start("old", cores=1)
    world.now += HOUR
    world.finish("old")
    request = world.request("w")
    assert isinstance(world.ask(request), Pending)
    assert world.ledger.next_change(world.now) == MONDAY + 7 * DAY

    world.now = MONDAY + 7 * DAY - SECOND
    assert world.judge() == []
    world.now += SECOND
    assert [case.request for case in world.judge()] == [request]


def test_what_is_promised_counts_until_the_workload_runs() -> None:
    """A crowd that asks at once is not let in beyond the budget, whatever becomes of its other checks."""
    world = World()
    world.budget(cost=5)
    requests = [world.request(f"w{i}", max_execution_time_s=3600) for i in range(8)]
    answers = [world.ask(request) for request in requests]
    assert [isinstance(answer, Ready) for answer in answers] == [True] * 5 + [False] * 3

    world.reserve("w0", max_s=3600)
    world.admit("w0")
    assert isinstance(world.ask(requests[5]), Pending)
    world.now += HOUR // 2
    world.finish("w0")
    world.ledger.leave(requests[0])
    assert isinstance(world.ask(requests[5]), Pending), "half of its hour is used, and four are promised"
    world.ledger.leave(requests[1])
    assert world.ask(requests[5]) == Ready()


def test_a_restart_remembers_what_was_promised() -> None:
    """Requests that are Ready in the bucket are promises of a predecessor."""
    world = World()
    world.budget(cost=1)
    promised = world.request("w0", max_execution_time_s=3600, state="Ready")
    world.ledger.enter(promised)

    assert isinstance(world.ask(world.request("w1", max_execution_time_s=3600)), Pending)


def test_another_attempt_is_asked_anew() -> None:
    world = World()
    world.budget(cost=1)
    assert world.ask(world.request("w", max_execution_time_s=3600)) == Ready()
    world.start("other", cores=1)
    world.now += HOUR

    assert isinstance(world.ask(world.request("w", attempt=2)), Pending)


HOURS_10 = 36_000


def grown(world: World, to: int, max_s: int | None = HOURS_10) -> tuple[Verdict, Request[Any]]:
    """Let a slice of *to* cores wait that is to replace `w1`; return the answer, and what was asked."""
    world.reserve("w2", cores=to, max_s=max_s, replaces=WorkloadKey("a/w1"))
    request = world.request("w2", cores=to, max_execution_time_s=max_s)
    return world.ask(request), request


def committed(world: World) -> Fraction:
    standings, problems = world.ledger.standings(world.now)
    assert not problems
    return standings["team-a"].committed[0]


@pytest.mark.parametrize("hours", [0, 1, 9])
@pytest.mark.parametrize("let_in", [True, False])
def test_a_growth_is_charged_what_it_adds(hours: int, let_in: bool) -> None:
    """Whose end state fits is not held: the job's time goes on, and what runs is committed already."""
    world = World()
    used, before, after = 2 * hours, 2 * (10 - hours), 4 * (10 - hours)
    world.budget(cost=used + after - (0 if let_in else 1))
    world.start("w1", cores=2, max_s=HOURS_10)
    world.now += hours * HOUR
    assert committed(world) == before

    answer, _ = grown(world, to=4)

    assert (answer == Ready()) is let_in
    assert committed(world) == (after if let_in else before)


@pytest.mark.parametrize("assumed_s", [None, HOURS_10])
@pytest.mark.parametrize("size", [3, 4])
def test_what_is_committed_is_the_same_before_and_after_a_slice_takes_over(
    size: int, assumed_s: int | None
) -> None:
    """No pod is counted for both slices, while the new one waits for others either."""
    world = World()
    assumed: dict[str, Any] = {"assumedSeconds": assumed_s} if assumed_s else {}
    world.budget(cost=200, **assumed)
    max_s = None if assumed_s else HOURS_10
    world.start("w1", cores=2, max_s=max_s)
    world.now += 3 * HOUR

    answer, request = grown(world, size, max_s)

    assert answer == Ready()
    assert committed(world) == size * 7
    world.now += HOUR
    assert committed(world) == size * 6
    world.replace("w1", "w2")
    world.ledger.leave(request)
    assert committed(world) == size * 6


def test_a_growth_whose_slice_has_gone_is_charged_in_full() -> None:
    """What it was to take over is not committed any more."""
    world = World()
    world.budget(cost=40)
    world.start("w1", cores=2, max_s=HOURS_10)
    assert grown(world, to=4)[0] == Ready()
    world.finish("w1")

    assert committed(world) == 40


def test_a_growth_counts_no_pods_that_have_ended() -> None:
    """An Indexed job's: they are not charged once it is admitted either."""
    world = World()
    world.budget(cost=20)
    world.start("w1", cores=2, max_s=HOURS_10)
    world.reserve("w2", cores=4, max_s=HOURS_10, replaces=WorkloadKey("a/w1"))
    key = WorkloadKey("a/w2")
    world.ledger.apply(ReclaimablePodsUpdated(cause=0, workload=key, pods={"main": 2}), 1, world.now)

    assert world.ask(world.request("w2", cores=4, max_execution_time_s=HOURS_10)) == Ready()
    assert committed(world) == 20


def test_a_variant_is_charged_what_it_costs_more_than_the_one_that_runs() -> None:
    """At most one of them is admitted: when it is, the other one has ended (CA2)."""
    world = World()
    world.budget(cost=30)
    parent = WorkloadKey("a/w")
    world.start("w-spot", cores=2, max_s=HOURS_10, parent=parent)
    world.reserve("w-fixed", cores=3, max_s=HOURS_10, parent=parent)

    assert world.ask(world.request("w-fixed", cores=3, max_execution_time_s=HOURS_10)) == Ready()
    assert committed(world) == 30


def test_assumed_time_of_workloads_without_a_maximum() -> None:
    world = World()
    world.budget(cost=5, assumedSeconds=2 * 3600)

    answers = [world.ask(world.request(f"w{i}")) for i in range(3)]
    assert [isinstance(answer, Ready) for answer in answers] == [True, True, False]


def test_amounts_in_messages_are_renewed_seldom() -> None:
    """Every message is stored in the log, so a cent more used is no news; ten minutes later it is."""
    world = World()
    world.budget(cost=10)
    world.start("old", cores=9, max_s=100 * 3600)
    request = world.request("w", max_execution_time_s=3600)
    first = world.ask(request)
    world.now += 60 * SECOND
    assert world.judge() == []
    assert world.ask(request) == first

    world.now += 600 * SECOND
    assert [case.request for case in world.judge()] == [request]
    assert world.ask(request) != first


def test_evict_takes_approvals_back_until_the_period_ends() -> None:
    world = World()
    world.budget(cost=2, onExceeded="Evict")
    request = world.request("w", state="Ready", admitted=True)
    world.start("w", cores=1)
    assert world.ledger.next_change(world.now) == world.now + 2 * HOUR
    assert world.ledger.exceeded(world.now) == {}

    world.now += 2 * HOUR
    over = world.ledger.exceeded(world.now)
    assert world.ledger.withdrawal(request, over, world.now) == Retry(
        6 * 24 * 3600 - 2 * 3600,
        "Budget 'team-a' is used up: 2.00 of 2.00 EUR used; the period ends 2026-11-30T00:00+00:00",
    )


def test_hold_leaves_running_workloads_alone() -> None:
    world = World()
    world.budget(cost=0)
    world.start("w", cores=1)
    world.now += HOUR

    assert world.ledger.exceeded(world.now) == {}


def test_retry_after_seconds_is_a_shorter_wait() -> None:
    world = World()
    world.budget(cost=0, onExceeded="Evict", retryAfterSeconds=300)
    over = world.ledger.exceeded(world.now)

    found = world.ledger.withdrawal(world.request("w", state="Ready"), over, world.now)
    assert found is not None
    assert found.after == 300


def test_a_held_workload_may_give_its_quota_back() -> None:
    world = World()
    world.budget(cost=0, releaseQuotaAfterSeconds=60, retryAfterSeconds=600)
    request = world.request("w")
    held = world.ask(request)
    assert isinstance(held, Pending)
    assert held.recheck_after == 60

    world.now += 60 * SECOND
    given = world.ask(request)
    assert isinstance(given, Retry)
    assert given.after == 600
    assert given.message.startswith("Gives its quota back: Budget 'team-a' is used up")


def test_prometheus_tells_what_was_consumed() -> None:
    world = World()
    world.budget(cost=10, **PROMETHEUS)
    request = world.request("w", max_execution_time_s=3600)
    held = world.ask(request)
    assert getattr(held, "message", "") == (
        "Budget 'team-a': consumption cannot be read: it has not been read yet"
    )

    world.ledger.accounts["team-a"].reading = Reading(Fraction("8.5"))
    assert [case.request for case in world.judge()] == [request]
    assert world.ask(request) == Ready()
    assert isinstance(world.ask(world.request("v", max_execution_time_s=3600)), Pending)


def test_prometheus_away_may_let_in() -> None:
    world = World()
    source = {"prometheus": {**PROMETHEUS["source"]["prometheus"], "failurePolicy": "Allow"}}
    world.budget(cost=0, source=source)

    assert world.ask(world.request("w")) == Ready()


def test_a_snapshot_goes_on_where_it_was_taken() -> None:
    world = World()
    world.budget(cost=10)
    world.start("old", cores=3)
    world.now += HOUR
    again = Ledger()
    load(dump(world.ledger), again)

    assert dump(again) == dump(world.ledger)
    assert again.standings(world.now + HOUR) == world.ledger.standings(world.now + HOUR)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"status":"success","data":{"resultType":"scalar","result":[1,"12.34"]}}', "12.34"),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1e3"]}]}}',
            "1000",
        ),
    ],
)
def test_numbers_are_read_exactly(body: bytes, value: str) -> None:
    assert number_in(body) == Fraction(value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>", "the answer is not that of a Prometheus server"),
        (b'{"status":"success"}', "the answer is not that of a Prometheus server"),
        (b"[1]", "the answer is not that of a Prometheus server"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', "bad_data: parse error"),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[]}}',
            "the query has 0 results; `or vector(0)` makes nothing 0",
        ),
        (
            b'{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}',
            "the result is NaN",
        ),
        (
            b'{"status":"success","data":{"resultType":"scalar","result":[1,"x"]}}',
            "'x' is no number",
        ),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "the query's result is a matrix; want one number",
        ),
    ],
)
def test_what_is_no_number_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(ReadingError) as caught:
        number_in(body)
    assert str(caught.value) == text


def test_queries_know_their_period() -> None:
    now = MONDAY + HOUR
    period = period_at(BudgetPeriod(unit="Weekly"), now)

    assert filled_in("increase(cost[$period]) + $start - ${end} $other", period, now) == (
        f"increase(cost[3600s]) + {MONDAY // SECOND} - {(MONDAY + 7 * DAY) // SECOND} $other"
    )
