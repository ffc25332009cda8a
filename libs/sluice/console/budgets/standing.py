"""Standing of a budget: by the same rules as the check that keeps it, from what the log tells."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from sluice.api.check_parameters import Budget, BudgetScope
from sluice.api.periods import Period, period_at
from sluice.core.budgets import budgets
from sluice.core.budgets.budgets import Amounts, Limit, Terms
from sluice.core.budgets.consumption import Account, Consumption, Series
from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Micros
from sluice.events.codec import rfc3339

from .books import Note
from .shapes import BudgetAmount, BudgetLimit, BudgetPoint, BudgetRow, Consumer, Held, RunningPart

SHOWN = 50
"""Consumers, and running workloads, at most."""
HOUR_US = 3_600 * MICROS_PER_S


class Moment(NamedTuple):
    """The consumption at a moment, and what else is known of it."""

    now: Micros
    state: Consumption
    notes: Sequence[Note]
    cut_at: Micros
    """When the log begins, if what was before was cut off; else 0."""


def stands(budget: Budget, moment: Moment, held: list[Held]) -> tuple[BudgetRow, int]:
    """Return how a budget stands, and how many consumers and workloads are left out of its row."""
    spec = budget.spec
    terms = budgets.terms(spec)
    try:
        period = period_at(spec.period, moment.now)
    except (ValueError, OSError, LookupError) as error:
        return _row(budget, None, f"its period cannot be computed: {error}", held), 0
    mine = {
        account: series
        for account, series in moment.state.series.items()
        if terms.concerns(account.namespace, account.local_queue, account.cluster_queue)
    }
    read = spec.source.prometheus is not None
    consumers, left_out = _consumers(terms, mine, period, moment.now)
    running = sorted(_running(budget, terms, moment), key=lambda row: -sum(a.value for a in row.per_hour))
    row = _row(
        budget,
        period,
        _problem(read, period, moment),
        held,
        limits=_limits(budget, terms, mine, period, moment, read=read),
        consumers=[] if read else consumers,
        running=running[:SHOWN],
        points=[] if read else list(_points(terms, mine, period, moment)),
    )
    return row, left_out + max(0, len(running) - SHOWN)


def _row(
    budget: Budget,
    period: Period | None,
    problem: str,
    held: list[Held],
    *,
    limits: Sequence[BudgetLimit] = (),
    consumers: Sequence[Consumer] = (),
    running: Sequence[RunningPart] = (),
    points: Sequence[BudgetPoint] = (),
) -> BudgetRow:
    return BudgetRow(
        name=budget.metadata.name,
        scope=scope_text(budget.spec.scope),
        unit=budget.spec.period.unit,
        start=rfc3339(period.start) if period is not None else "",
        end=rfc3339(period.end) if period is not None else "",
        on_exceeded=budget.spec.on_exceeded,
        used_up=any(one.used is not None and one.used.value >= one.limit.value for one in limits),
        problem=problem,
        limits=list(limits),
        consumers=list(consumers),
        running=list(running),
        held=held,
        points=list(points),
    )


def scope_text(scope: BudgetScope) -> str:
    """Return a scope as `sluice get budgets` writes it: `cq:research`, `team-a/main`, or both."""
    local = "/".join(filter(None, (scope.namespace, scope.local_queue)))
    cluster = f"cq:{scope.cluster_queue}" if scope.cluster_queue else ""
    return ",".join(filter(None, (local, cluster)))


def _problem(read: bool, period: Period, moment: Moment) -> str:
    if read:
        return "its consumption is read from Prometheus, and not in the log: `sluice get budgets` has it"
    if moment.cut_at > period.start:
        return f"the log was cut: what was consumed before {rfc3339(moment.cut_at)} is not in it"
    return ""


def _limits(
    budget: Budget,
    terms: Terms,
    mine: Mapping[Account, Series],
    period: Period,
    moment: Moment,
    *,
    read: bool,
) -> list[BudgetLimit]:
    now, state = moment.now, moment.state
    used = budgets.used(terms, mine, period.start, now)
    rate = budgets.rate(terms, mine)
    committed = budgets.committed(terms, state, budget.spec.assumed_seconds, now, period.end)
    found = []
    for limit, have, per_us, promised in zip(terms.limits, used, rate, committed, strict=True):
        reached = budgets.reached_at(now, (have,), (per_us,), (limit,))
        in_time = not read and reached is not None and reached < period.end
        found.append(
            BudgetLimit(
                unit=limit.unit,
                resource=limit.resource,
                flavor=limit.flavor,
                limit=_amount(limit, limit.amount),
                used=None if read else _amount(limit, have),
                committed=_amount(limit, promised),
                left=None if read else _amount(limit, max(Fraction(0), limit.amount - have - promised)),
                per_hour=_amount(limit, per_us * HOUR_US),
                reached_at=rfc3339(reached) if in_time and reached is not None else "",
            )
        )
    return found


def _amount(limit: Limit, amount: Fraction) -> BudgetAmount:
    return BudgetAmount(text=limit.text(amount), value=round(float(amount), 6))


def _amounts(terms: Terms, amounts: Amounts) -> list[BudgetAmount]:
    return [_amount(limit, amount) for limit, amount in zip(terms.limits, amounts, strict=True)]


def _consumers(
    terms: Terms, mine: Mapping[Account, Series], period: Period, now: Micros
) -> tuple[list[Consumer], int]:
    """Return who has used something in the period, or does, most first; and how many are left out."""
    parts: dict[tuple[str, str, str], dict[Account, Series]] = defaultdict(dict)
    for account, series in mine.items():
        parts[account.namespace, account.local_queue, account.cluster_queue][account] = series
    found = []
    for (namespace, local_queue, cluster_queue), accounts in parts.items():
        used = budgets.used(terms, accounts, period.start, now)
        rate = budgets.rate(terms, accounts)
        if not any(used) and not any(rate):
            continue
        row = Consumer(
            namespace=namespace,
            local_queue=local_queue,
            cluster_queue=cluster_queue,
            used=_amounts(terms, used),
            per_hour=_amounts(terms, tuple(each * HOUR_US for each in rate)),
        )
        found.append((used, row))
    found.sort(key=lambda one: (tuple(-each for each in one[0]), one[1].namespace, one[1].local_queue))
    return [row for _, row in found[:SHOWN]], max(0, len(found) - SHOWN)


def _running(budget: Budget, terms: Terms, moment: Moment) -> Iterator[RunningPart]:
    for key, held in moment.state.running.items():
        if not terms.concerns(held.namespace, held.local_queue, held.cluster_queue):
            continue
        rate = terms.rate(held.charge)
        ends = held.ends_at(budget.spec.assumed_seconds)
        yield RunningPart(
            job=key,
            cluster_queue=held.cluster_queue,
            since=rfc3339(held.admitted_at) if held.admitted_at is not None else "",
            ends=rfc3339(ends) if ends is not None else "",
            per_hour=_amounts(terms, tuple(each * HOUR_US for each in rate)),
        )


def _points(
    terms: Terms, mine: Mapping[Account, Series], period: Period, moment: Moment
) -> Iterator[BudgetPoint]:
    """Yield what had been used since the period began: at its begin, at each note, and now."""
    before = {account: series.total(period.start) for account, series in mine.items()}

    def used(totals: Iterable[tuple[Account, int]]) -> list[float]:
        weighed = terms.weigh(
            ((account.flavor, account.resource), total - before[account])
            for account, total in totals
            if account in before
        )
        return [round(float(each), 6) for each in weighed]

    for note in moment.notes:
        if period.start <= note.at < moment.now:
            yield BudgetPoint(time=rfc3339(note.at), used=used(note.totals.items()))
    now = ((account, series.total(moment.now)) for account, series in mine.items())
    yield BudgetPoint(time=rfc3339(moment.now), used=used(now))
