"""Budgets count exactly, and let in what fits."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.api.check_parameters import BudgetSpec
from sluice.core.budgets.budgets import (
    GIB,
    HOUR_US,
    Candidate,
    Limit,
    Standing,
    committed,
    estimate,
    judge,
    rate,
    reached_at,
    rounded,
    terms,
    used,
)
from sluice.core.budgets.consumption import Account, Consumption, Held, Series


def spec(**fields: Any) -> BudgetSpec:
    return msgspec.convert({"scope": {"namespace": "a"}, **fields}, BudgetSpec)


PRICES = [
    {"resource": "cpu", "perHour": "0.04"},
    {"resource": "cpu", "flavor": "spot", "perHour": "0.01"},
    {"resource": "memory", "perHour": 0.005},
    {"resource": "nvidia.com/gpu", "perHour": "2.50"},
]


def money(**fields: Any) -> BudgetSpec:
    return spec(limits={"cost": "100"}, currency="EUR", prices=PRICES, **fields)


def account(flavor: str, resource: str, *, namespace: str = "a", local: str = "q", cq: str = "c") -> Account:
    return Account(namespace, local, cq, flavor, resource)


def series(amount: int, start: int, end: int) -> Series:
    made = Series()
    made.change(amount, start)
    made.change(-amount, end)
    return made


@pytest.mark.parametrize(
    ("key", "amount", "hours", "cost"),
    [
        (("on-demand", "cpu"), 1000, 1, "0.04"),
        (("spot", "cpu"), 1000, 1, "0.01"),
        (("spot", "cpu"), 1500, 2, "0.03"),
        (("spot", "memory"), 3 * GIB, 10, "0.15"),
        (("x", "nvidia.com/gpu"), 8, 3, "60"),
        (("x", "example.com/licence"), 8, 3, "0"),
    ],
)
def test_prices(key: tuple[str, str], amount: int, hours: int, cost: str) -> None:
    """An hour of a core, a GiB, a unit has its price; a flavor's own comes first, without one it is free."""
    assert terms(money()).weigh([(key, amount * hours * HOUR_US)]) == (Fraction(cost),)


def test_hours_of_one_flavor_or_of_all() -> None:
    limits = {
        "resourceHours": [{"resource": "cpu", "hours": 10}, {"resource": "cpu", "flavor": "spot", "hours": 5}]
    }
    found = terms(spec(limits=limits)).weigh(
        [(("spot", "cpu"), 2000 * HOUR_US), (("on-demand", "cpu"), 500 * HOUR_US), (("spot", "memory"), GIB)]
    )

    assert found == (Fraction("2.5"), Fraction(2))


def test_only_the_scope_counts() -> None:
    consumed = {
        account("spot", "cpu"): series(1000, 0, HOUR_US),
        account("spot", "cpu", namespace="b"): series(1000, 0, HOUR_US),
        account("spot", "cpu", local="other"): series(1000, 0, HOUR_US),
        account("spot", "cpu", cq="other"): series(1000, 0, HOUR_US),
    }

    def cost(**scope: str) -> Fraction:
        ready = terms(msgspec.structs.replace(money(), scope=msgspec.convert(scope, type(money().scope))))
        return used(ready, consumed, 0, 2 * HOUR_US)[0] / Fraction("0.01")

    assert cost(namespace="a") == 3
    assert cost(namespace="a", localQueue="q") == 2
    assert cost(clusterQueue="c") == 3
    assert cost(namespace="a", clusterQueue="other") == 1


def test_only_the_period_counts() -> None:
    """What was consumed before its start is not its business; what runs on is counted up to now."""
    one = Series()
    one.change(1000, 0)
    ready = terms(money())

    assert used(ready, {account("spot", "cpu"): one}, 5 * HOUR_US, 8 * HOUR_US) == (Fraction("0.03"),)
    assert rate(ready, {account("spot", "cpu"): one}) == (Fraction("0.01") / HOUR_US,)


def held(seconds: int | None, since: int, **fields: Any) -> Held:
    made = Held("a", "q", {}, seconds, cluster_queue="c", admitted_at=since, **fields)
    made.charge = {("spot", "cpu"): 1000}
    return made


def test_running_workloads_commit_what_they_may_still_use_in_the_period() -> None:
    state, hour = Consumption(), 3600
    state.running = {
        "a/ends-in-2h": held(3 * hour, 0),
        "a/ends-after-the-period": held(100 * hour, 0),
        "a/ran-before": held(3 * hour, 0, ran_us=HOUR_US),
        "a/overdue": held(1, 0),
        "a/for-ever": held(None, 0),
    }

    def hours(assumed: int | None) -> Fraction:
        amounts = committed(terms(money()), state, assumed, now=HOUR_US, period_end=5 * HOUR_US)
        return amounts[0] / Fraction("0.01")

    assert hours(None) == 2 + 4 + 1
    assert hours(2 * hour) == 2 + 4 + 1 + 1


def test_an_estimate_ends_with_the_period() -> None:
    per_us = terms(money()).rate({("spot", "cpu"): 4000})

    assert estimate(per_us, 2 * 3600, 0, 10 * HOUR_US) == (Fraction("0.08"),)
    assert estimate(per_us, 2 * 3600, 9 * HOUR_US, 10 * HOUR_US) == (Fraction("0.04"),)
    assert estimate(per_us, None, 0, 10 * HOUR_US) == (Fraction(0),)


def test_when_a_limit_is_reached() -> None:
    limits = (Limit(Fraction(10), "EUR"), Limit(Fraction(3), "h", "cpu"))

    assert reached_at(5, (Fraction(4), Fraction(0)), (Fraction(1, 3), Fraction(0)), limits) == 5 + 18
    assert reached_at(5, (Fraction(4), Fraction(0)), (Fraction(1, 7), Fraction(1, 2)), limits) == 5 + 6
    assert reached_at(5, (Fraction(10), Fraction(0)), (Fraction(0), Fraction(0)), limits) == 5
    assert reached_at(5, (Fraction(4), Fraction(0)), (Fraction(0), Fraction(0)), limits) is None


@pytest.mark.parametrize(
    ("amount", "digits", "text"),
    [
        (Fraction(1, 3), 2, "0.33"),
        (Fraction(2, 3), 2, "0.67"),
        (Fraction(5, 1000), 2, "0.00"),
        (Fraction(15, 1000), 2, "0.02"),
        (Fraction(1234567), 2, "1234567.00"),
        (Fraction(10**20), 2, "100000000000000000000.00"),
    ],
)
def test_rounding_is_for_people_only(amount: Fraction, digits: int, text: str) -> None:
    """Halves to even, as banks do, and never in scientific notation."""
    assert rounded(amount, digits) == text


def standing(have: str, promised: str = "0", limit: str = "100") -> Standing:
    return Standing(
        "team-a",
        (Limit(Fraction(limit), "EUR"),),
        (Fraction(have),),
        (Fraction(promised),),
        "2026-12-01T00:00+01:00",
    )


def candidate(name: str, wants: str, priority: int = 0, at: int = 0) -> Candidate:
    return Candidate(f"a/{name}", priority, at, name, {"team-a": (Fraction(wants),)})


def why(have: str, promised: str = "0", *, wants: str = "0") -> str:
    refusal = standing(have, promised).refusal((Fraction(wants),))
    assert refusal is not None
    return refusal.text


def test_messages() -> None:
    """They say what was used, what is promised, what is left, what it may need, and until when."""
    assert why("98.204", "1.5", wants="2.4") == (
        "Budget 'team-a' has 0.30 EUR left: 98.20 of 100.00 EUR used, 1.50 EUR committed; this workload may "
        "need 2.40 EUR; the period ends 2026-12-01T00:00+01:00"
    )
    assert why("100") == (
        "Budget 'team-a' is used up: 100.00 of 100.00 EUR used; the period ends 2026-12-01T00:00+01:00"
    )
    assert standing("99.99").refusal((Fraction("0.01"),)) is None
    assert standing("100").exceeded
    assert not standing("99.999").exceeded


def test_each_that_is_let_in_leaves_less_for_the_next() -> None:
    """Priority first, then who waited longer, then uid; one that is too large keeps no smaller one out."""
    found = judge(
        {"team-a": standing("40")},
        [
            candidate("late", "30", at=9),
            candidate("early", "30", at=1),
            candidate("urgent", "25", priority=5, at=20),
            candidate("huge", "61", priority=9),
            candidate("small", "5", at=10),
        ],
    )

    assert [key for key, refusal in found.items() if not refusal] == ["a/urgent", "a/early", "a/small"]


def test_every_budget_must_have_room() -> None:
    both = Candidate("a/w", 0, 0, "w", {"team-a": (Fraction(1),), "team-b": (Fraction(1),)})
    full = Standing("team-b", (Limit(Fraction(0), "h", "cpu"),), (Fraction(0),), (Fraction(0),), "then")

    found = judge({"team-a": standing("0"), "team-b": full}, [both])

    refusal = found["a/w"]
    assert refusal is not None
    assert refusal.text == "Budget 'team-b' is used up: 0.000 of 0.000 h of cpu used; the period ends then"


AMOUNTS = st.integers(0, 1200).map(lambda number: Fraction(number, 12))


@given(
    st.lists(st.tuples(AMOUNTS, st.integers(0, 3), st.integers(0, 5)), max_size=12),
    AMOUNTS,
    st.randoms(use_true_random=False),
)
def test_never_more_is_promised_than_there_is(
    wants: list[tuple[Fraction, int, int]], have: Fraction, shuffle: Any
) -> None:
    """What is let in together fits, and does not depend on the order of asking."""
    now = Standing("team-a", (Limit(Fraction(100), "EUR"),), (have,), (Fraction(0),), "then")
    candidates = [
        Candidate(f"a/{i}", priority, at, str(i), {"team-a": (want,)})
        for i, (want, priority, at) in enumerate(wants)
    ]
    found = judge({"team-a": now}, candidates)
    shuffle.shuffle(candidates)

    assert have + sum(wants[int(key[2:])][0] for key, no in found.items() if not no) <= max(
        have, Fraction(100)
    )
    assert judge({"team-a": now}, candidates) == found
