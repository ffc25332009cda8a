"""Budgets: what consumption costs, what is committed already, and who may still start. Pure.

All amounts are exact fractions, in the limit's own unit (money, or hours); they are rounded for people only.
A limit weighs consumption: what a base unit of a resource of a flavor counts for in a microsecond.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from sluice.api.check_parameters import BudgetScope, BudgetSpec
from sluice.api.quantity import parse
from sluice.events.base import Micros

from .consumption import Account, Consumption, Held, Series

HOUR_US = 3600 * 1_000_000
GIB = 1 << 30

Usage = Mapping[tuple[str, str], int]
"""(flavor, resource) -> base units."""
Amounts = tuple[Fraction, ...]
"""One per limit of a budget, in its order."""


def scale(resource: str) -> int:
    """Return how many base units make one that is priced: a core, a GiB, else one."""
    if resource == "cpu":
        return 1000
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return GIB
    return 1


class Limit(NamedTuple):
    """`amount` in `unit`: a currency, or `h` of `resource` (of `flavor`, if one is named)."""

    amount: Fraction
    unit: str
    resource: str = ""
    flavor: str = ""

    def text(self, amount: Fraction) -> str:
        """Return an amount for people: money with two digits, hours with three, and what of."""
        of = f" of {self.resource}" if self.resource else ""
        where = f" on {self.flavor}" if self.flavor else ""
        unit = f" {self.unit}" if self.unit else ""
        return f"{rounded(amount, 3 if self.resource else 2)}{unit}{of}{where}"


def rounded(amount: Fraction, digits: int) -> str:
    """Return *amount* with so many decimals, halves to even."""
    units = round(amount * 10**digits)
    return f"{Decimal(units).scaleb(-digits):.{digits}f}"


@dataclass(frozen=True, slots=True)
class Terms:
    """A budget's limits and prices, made ready. `weights` remembers what was looked up."""

    scope: BudgetScope
    limits: tuple[Limit, ...]
    prices: Mapping[tuple[str, str], Fraction]
    """(flavor, resource) -> price of an hour of one priced unit; flavor "" for all without their own."""
    weights: dict[tuple[str, str], Amounts] = field(default_factory=dict)

    def weight(self, flavor: str, resource: str) -> Amounts:
        """Return what a base unit counts for in a microsecond, per limit; without a price nothing."""
        found = self.weights.get((flavor, resource))
        if found is None:
            per_hour = Fraction(1, scale(resource) * HOUR_US)
            price = self.prices.get((flavor, resource), self.prices.get(("", resource), Fraction(0)))
            found = self.weights[flavor, resource] = tuple(
                price * per_hour
                if not limit.resource
                else per_hour * (limit.resource == resource and limit.flavor in ("", flavor))
                for limit in self.limits
            )
        return found

    def weigh(self, amounts: Iterable[tuple[tuple[str, str], int]]) -> Amounts:
        """Return what base units times microseconds come to."""
        total = [Fraction(0)] * len(self.limits)
        for key, amount in amounts:
            for number, weight in enumerate(self.weight(*key)):
                if weight:
                    total[number] += weight * amount
        return tuple(total)

    def rate(self, usage: Usage) -> Amounts:
        """Return what is consumed per microsecond while so much is used."""
        return self.weigh(usage.items())

    def concerns(self, namespace: str, local_queue: str, cluster_queue: str) -> bool:
        """Tell whether the budget is of such a workload."""
        scope = self.scope
        return (
            scope.namespace in ("", namespace)
            and scope.local_queue in ("", local_queue)
            and scope.cluster_queue in ("", cluster_queue)
        )


def terms(spec: BudgetSpec) -> Terms:
    """Return the terms of a valid budget."""
    limits = [
        Limit(Fraction(parse(each.hours)), "h", each.resource, each.flavor)
        for each in spec.limits.resource_hours
    ]
    if spec.limits.cost is not None:
        limits.insert(0, Limit(Fraction(parse(spec.limits.cost)), spec.currency))
    prices = {(price.flavor, price.resource): Fraction(parse(price.per_hour)) for price in spec.prices}
    return Terms(spec.scope, tuple(limits), prices)


# What was consumed, and what is promised


def used(terms: Terms, series: Mapping[Account, Series], start: Micros, end: Micros) -> Amounts:
    """Return what the budget's scope has consumed from *start*, a quarter of an hour's end, to *end*."""
    return terms.weigh(
        ((account.flavor, account.resource), one.total(end) - one.total(start))
        for account, one in series.items()
        if terms.concerns(account.namespace, account.local_queue, account.cluster_queue)
    )


def rate(terms: Terms, series: Mapping[Account, Series]) -> Amounts:
    """Return what is being consumed per microsecond."""
    return terms.weigh(
        ((account.flavor, account.resource), one.level)
        for account, one in series.items()
        if terms.concerns(account.namespace, account.local_queue, account.cluster_queue)
    )


def committed(
    terms: Terms, state: Consumption, assumed_s: int | None, now: Micros, period_end: Micros
) -> Amounts:
    """Return what running workloads may still consume in the period, those that may run for ever left out."""
    return terms.weigh(
        (key, amount * left_us)
        for held in state.running.values()
        if terms.concerns(held.namespace, held.local_queue, held.cluster_queue)
        and (left_us := _left_us(held.ends_at(assumed_s), now, period_end)) > 0
        for key, amount in held.charge.items()
    )


def _left_us(ends_at: Micros | None, now: Micros, period_end: Micros) -> Micros:
    """Return for how long what ends then may consume in the period; 0 if nobody knows when it ends."""
    return 0 if ends_at is None else max(0, min(ends_at, period_end) - now)


def estimate(per_us: Amounts, seconds: int | None, now: Micros, period_end: Micros) -> Amounts:
    """Return what a workload that starts now may consume in the period; nothing if *seconds* is None.

    *per_us*: what it consumes per microsecond (`Terms.rate`).
    """
    left_us = _left_us(None if seconds is None else now + seconds * 1_000_000, now, period_end)
    return tuple(each * left_us for each in per_us)


def successor_ends_at(before: Held, seconds: int | None, assumed_s: int | None, now: Micros) -> Micros | None:
    """Return when a slice ends that takes over from *before*: its job's time goes on.

    *seconds*: its maximum execution time.
    """
    taken_over = replace(before, max_s=seconds)
    ends_at = taken_over.ends_at(assumed_s)
    return None if ends_at is None else max(now, ends_at)


def growth(
    terms: Terms,
    per_us: Amounts,
    ends_at: Micros | None,
    before: Held,
    assumed_s: int | None,
    now: Micros,
    period_end: Micros,
) -> Amounts:
    """Return what a workload may consume beyond what *before* has committed, which ends when it starts.

    With what others have committed it comes to what will be committed then: nothing counts twice.
    """
    wants = [each * _left_us(ends_at, now, period_end) for each in per_us]
    if terms.concerns(before.namespace, before.local_queue, before.cluster_queue):
        left_us = _left_us(before.ends_at(assumed_s), now, period_end)
        had = (each * left_us for each in terms.rate(before.charge))
        wants = [max(Fraction(0), more - less) for more, less in zip(wants, had, strict=True)]
    return tuple(wants)


def reached_at(now: Micros, used: Amounts, rate: Amounts, limits: Sequence[Limit]) -> Micros | None:
    """Return when the first limit is reached as things go, *now* if one is; None: not as things go."""
    times = []
    for limit, have, per_us in zip(limits, used, rate, strict=True):
        left = limit.amount - have
        if left <= 0:
            return now
        if per_us > 0:
            times.append(now + -(-left // per_us))
    return min(times, default=None)


# Judging


@dataclass(frozen=True, slots=True)
class Standing:
    """How a budget stands. `period_end` as people write it is in `until`."""

    name: str
    limits: tuple[Limit, ...]
    used: Amounts
    committed: Amounts
    until: str

    @property
    def exceeded(self) -> bool:
        """Tell whether a limit is used up."""
        return any(have >= limit.amount for limit, have in zip(self.limits, self.used, strict=True))

    def describe(self) -> str:
        """Return `98.20 of 100.00 EUR used, 1.50 EUR committed` for every limit."""
        parts = []
        for limit, have, promised in zip(self.limits, self.used, self.committed, strict=True):
            digits = 3 if limit.resource else 2
            text = f"{rounded(have, digits)} of {limit.text(limit.amount)} used"
            if promised:
                text += f", {limit.text(promised)} committed"
            parts.append(text)
        return "; ".join(parts)

    def refusal(self, wants: Amounts, promised: Amounts | None = None) -> "Refusal | None":
        """Return why a workload that may consume *wants* must wait, None if it need not.

        *promised*: what is committed by now, by default `committed`.
        """
        promised = self.committed if promised is None else promised
        for number, limit in enumerate(self.limits):
            left = limit.amount - self.used[number]
            if left <= 0:
                return Refusal(self.name, "used up", self)
            left -= promised[number]
            if wants[number] > left or left <= 0:
                return Refusal(self.name, "too little left", self, number, left, wants[number])
        return None


class Refusal(NamedTuple):
    """Why a workload must wait. `kind` does not change with every cent that is used, as the text does.

    `left` of the limit with that `number`, when the workload `wants` more. `plain`: the text, if nothing else
    is known.
    """

    budget: str
    kind: str
    standing: Standing | None = None
    number: int = 0
    left: Fraction = Fraction(0)
    wants: Fraction = Fraction(0)
    plain: str = ""

    @property
    def text(self) -> str:
        """Return it in words: made when it is given out, as most are not."""
        standing = self.standing
        if standing is None:
            return self.plain
        end = f"the period ends {standing.until}"
        if self.kind == "used up":
            return f"Budget {self.budget!r} is used up: {standing.describe()}; {end}"
        limit = standing.limits[self.number]
        asked = f"; this workload may need {limit.text(self.wants)}" if self.wants else ""
        left = limit.text(max(self.left, Fraction(0)))
        return f"Budget {self.budget!r} has {left} left: {standing.describe()}{asked}; {end}"


class Candidate(NamedTuple):
    """A workload that waits to be let in. `wants`: estimate for each budget that concerns it."""

    key: str
    priority: int
    reserved_at: Micros
    uid: str
    wants: Mapping[str, Amounts]

    @property
    def order(self) -> tuple[int, Micros, str]:
        """Higher priority first, then who has waited longer, then uid."""
        return (-self.priority, self.reserved_at, self.uid)


def judge(standings: Mapping[str, Standing], candidates: Iterable[Candidate]) -> dict[str, Refusal | None]:
    """Return key -> why it must wait, None if it may run; each that may run leaves less for the next.

    A workload that does not fit does not keep smaller ones behind it from running.
    """
    promised = {name: standing.committed for name, standing in standings.items()}
    result: dict[str, Refusal | None] = {}
    for candidate in sorted(candidates, key=lambda one: one.order):
        concerned = [(name, wants) for name, wants in candidate.wants.items() if name in standings]
        refusals = (standings[name].refusal(wants, promised[name]) for name, wants in concerned)
        refusal = result[candidate.key] = next(filter(None, refusals), None)
        if refusal is None:
            for name, wants in concerned:
                promised[name] = tuple(a + b for a, b in zip(promised[name], wants, strict=True))
    return result


__all__ = [
    "Amounts",
    "Candidate",
    "Limit",
    "Refusal",
    "Standing",
    "Terms",
    "Usage",
    "committed",
    "estimate",
    "growth",
    "judge",
    "rate",
    "reached_at",
    "rounded",
    "successor_ends_at",
    "terms",
    "used",
]
