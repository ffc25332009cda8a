"""Ledger of budgets: what was consumed and promised, and who may run. No input or output: the log is told.

Workloads that wait are judged together, whenever something has happened, so that what one is promised is
not promised to the next. What is promised is remembered until the workload is admitted; from then on the log
says what it consumes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from sluice.api.check_parameters import Budget
from sluice.api.periods import Period, period_at
from sluice.core.budgets import budgets
from sluice.core.budgets.budgets import Amounts, Candidate, Refusal, Standing, Terms, Usage
from sluice.core.budgets.consumption import Consumption
from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Event, Micros
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import Admitted, QuotaReleased, WorkloadSliceReplaced
from sluice.events.slices import WorkloadDeleted, WorkloadFinished
from sluice.sdk.checks import Pending, Ready, Request, Retry, Verdict

HOUR_S = 3600.0
KIND = "Budget"

_FREES = (QuotaReleased, WorkloadSliceReplaced, WorkloadFinished, WorkloadDeleted, Admitted)
"""Events after which what is committed may be less, or is counted elsewhere."""


class Reading(NamedTuple):
    """What Prometheus said of a budget, or why it said nothing."""

    value: Fraction | None
    error: str = ""


NOT_READ = Reading(None, "it has not been read yet")


@dataclass(slots=True)
class Account:
    """A budget, ready to be asked. `generation` tells editions apart."""

    budget: Budget
    terms: Terms
    generation: int
    reading: Reading = NOT_READ
    period: Period | None = None
    """The present one, as of the last time that was asked for."""

    @property
    def name(self) -> str:
        return self.budget.metadata.name


@dataclass(slots=True)
class Case:
    """A request of one attempt. `refusal` is that of the last judgement; None if it may run."""

    key: str
    request: Request[Any]
    approved: bool = False
    judged: bool = False
    refusal: Refusal | None = None
    said: tuple[object, ...] = ()
    """Class of the message that was given out, and since when it has been."""
    text: str = ""
    said_at: Micros = 0
    asking: int = 0
    """Calls that wait for a judgement."""
    rates: dict[str, tuple[int, Amounts]] = field(default_factory=dict)
    """Budget -> its generation, and what the workload consumes per microsecond."""


def case_key(request: Request[Any]) -> str:
    """Return what tells cases apart; of a workload's attempts there is one at a time."""
    return f"{request.uid}/{request.check}"


class Problem(NamedTuple):
    """A budget that cannot be judged by."""

    text: str
    let_in: bool = False


@dataclass(slots=True)
class Ledger:
    """Budgets, what was consumed, and requests. `refresh_us`: how old amounts in a message may get."""

    consumption: Consumption = field(default_factory=Consumption)
    accounts: dict[str, Account] = field(default_factory=dict)
    cases: dict[str, Case] = field(default_factory=dict)
    refresh_us: Micros = 600 * MICROS_PER_S

    # The log

    def apply(self, event: Event, seq: int, at: Micros) -> bool:
        """Fold an event; True if it may change what was judged."""
        match event:
            case ObjectApplied(kind="Budget"):
                budget = msgspec.json.decode(event.object, type=Budget)
                self.accounts[event.name] = Account(budget, budgets.terms(budget.spec), seq)
                return True
            case ObjectDeleted(kind="Budget"):
                return self.accounts.pop(event.name, None) is not None
        self.consumption.apply(event, at)
        return isinstance(event, _FREES)

    # Requests

    def enter(self, request: Request[Any]) -> Case:
        """Return the case of a request, opened if there was none of this attempt."""
        key = case_key(request)
        case = self.cases.get(key)
        if case is None or case.request.attempt != request.attempt:
            case = self.cases[key] = Case(key, request)
        case.request = request
        if request.state == "Ready":
            # By us before a restart, or by a person.
            case.approved, case.refusal, case.said = True, None, ("Ready",)
        return case

    def leave(self, request: Request[Any]) -> None:
        """Forget a request that was withdrawn."""
        case = self.cases.get(case_key(request))
        if case is not None and case.request.attempt == request.attempt:
            del self.cases[case.key]

    def concerning(self, request: Request[Any]) -> list[Account]:
        """Return the budgets in whose scope a request is; with one as its parameter, that one at most."""
        reference = request.parameters_reference
        workload = request.workload
        named = reference.name if reference is not None and reference.kind == KIND else ""
        return [
            account
            for name, account in self.accounts.items()
            if named in ("", name)
            and account.terms.concerns(workload.namespace, workload.local_queue, workload.cluster_queue)
        ]

    def _missing(self, request: Request[Any]) -> str:
        reference = request.parameters_reference
        if reference is None or reference.kind != KIND or reference.name in self.accounts:
            return ""
        return f"Budget {reference.name!r} does not exist"

    # Judging

    def judge(self, now: Micros) -> list[Case]:
        """Judge all that wait; return those whose answer is another one than was last given out."""
        standings, problems = self.standings(now)
        waiting = {case.key: case for case in self.cases.values() if not case.approved}
        verdicts: dict[str, Refusal | None] = {}
        candidates = []
        for case in waiting.values():
            refusal = self._in_the_way(case, problems)
            if refusal is not None:
                verdicts[case.key] = refusal
            else:
                candidates.append(self._candidate(case, now))
        verdicts |= budgets.judge(standings, candidates)
        for key, refusal in verdicts.items():
            case = waiting[key]
            case.judged, case.refusal = True, refusal
            case.approved = refusal is None
        return [case for case in self.cases.values() if case.judged and self._outdated(case, now)]

    def _in_the_way(self, case: Case, problems: Mapping[str, Problem]) -> Refusal | None:
        """Return why a case cannot be judged at all, None if it can."""
        if missing := self._missing(case.request):
            return Refusal("", "missing", plain=missing)
        for account in self.concerning(case.request):
            problem = problems.get(account.name)
            if problem is not None and not problem.let_in:
                text = f"Budget {account.name!r}: {problem.text}"
                return Refusal(account.name, "unreadable", plain=text)
        return None

    def _candidate(self, case: Case, now: Micros) -> Candidate:
        request = case.request
        wants = {
            account.name: self._wants(account, case, now)
            for account in self.concerning(request)
            if not self._adds_nothing(account, case)
        }
        return Candidate(case.key, request.workload.priority, request.reserved_at, request.uid, wants)

    def _adds_nothing(self, account: Account, case: Case) -> bool:
        """Tell whether a slice consumes no more than the one that it replaces: no budget is in its way."""
        held = self.consumption.workloads.get(case.request.key)
        before = self.consumption.predecessor(held) if held is not None and held.replaces else None
        if held is None or before is None or not held.assignment:
            return False
        if not account.terms.concerns(before.namespace, before.local_queue, before.cluster_queue):
            return False
        after = account.terms.rate(self.consumption.charge(held))
        return all(more <= had for more, had in zip(after, account.terms.rate(before.charge), strict=True))

    def _wants(self, account: Account, case: Case, now: Micros) -> Amounts:
        """Return the estimate for a request: its usage for as long as it may run in this period.

        Of a growth, or a variant beside another one, what it needs more than what runs of its job.
        """
        request, terms = case.request, account.terms
        assumed_s = account.budget.spec.assumed_seconds
        seconds = request.workload.max_execution_time_s
        try:
            end = self.period(account, now).end
        except (ValueError, OSError, LookupError):
            end = now
        held = self.consumption.workloads.get(request.key)
        before = self.consumption.predecessor(held) if held is not None else None
        own_s = assumed_s
        if seconds is not None:
            own_s = max(0, seconds - (held.ran_us // MICROS_PER_S if held is not None else 0))
        if held is None or before is None:
            return budgets.estimate(self._rate(account, case), own_s, now, end)
        # Of pods that have ended while it waits the successor is never charged.
        per_us = terms.rate(self.consumption.charge(held)) if held.assignment else self._rate(account, case)
        if held.replaces:
            ends_at = budgets.successor_ends_at(before, seconds, assumed_s, now)
        else:
            ends_at = None if own_s is None else now + own_s * MICROS_PER_S
        return budgets.growth(terms, per_us, ends_at, before, assumed_s, now, end)

    def _rate(self, account: Account, case: Case) -> Amounts:
        known = case.rates.get(account.name)
        if known is None or known[0] != account.generation:
            rate = account.terms.rate(_usage(case.request))
            known = case.rates[account.name] = (account.generation, rate)
        return known[1]

    def _outdated(self, case: Case, now: Micros) -> bool:
        """Tell whether a case's answer is news. Amounts alone are seldom: each answer is kept in the log."""
        if self._class(case) != case.said:
            return True
        refusal = case.refusal
        old = now - case.said_at >= self.refresh_us
        return old and refusal is not None and refusal.text != case.text

    def _class(self, case: Case) -> tuple[object, ...]:
        """Return what an answer says but for its amounts."""
        refusal = case.refusal
        if refusal is None:
            return ("Ready",)
        account = self.accounts.get(refusal.budget)
        return (refusal.budget, refusal.kind, account.generation if account else 0)

    def standings(self, now: Micros) -> tuple[dict[str, Standing], dict[str, Problem]]:
        """Return how every budget stands, and which cannot be judged by."""
        promised: dict[str, list[Amounts]] = {}
        for case in self.cases.values():
            # Once it is admitted, `committed` counts it.
            if case.approved and case.request.key not in self.consumption.running:
                for account in self.concerning(case.request):
                    wants = self._wants(account, case, now)
                    promised.setdefault(account.name, []).append(wants)
        standings: dict[str, Standing] = {}
        problems: dict[str, Problem] = {}
        for name, account in self.accounts.items():
            try:
                standings[name] = self._standing(account, promised.get(name, ()), now)
            except _UnreadableError as error:
                source = account.budget.spec.source.prometheus
                problems[name] = Problem(str(error), source is not None and source.failure_policy == "Allow")
            except (ValueError, OSError, LookupError) as error:
                problems[name] = Problem(f"its period cannot be computed: {error}")
        return standings, problems

    def _standing(self, account: Account, promised: Iterable[Amounts], now: Micros) -> Standing:
        terms, spec = account.terms, account.budget.spec
        period = self.period(account, now)
        if spec.source.prometheus is None:
            used = budgets.used(terms, self.consumption.series, period.start, now)
        elif account.reading.value is None:
            raise _UnreadableError(f"consumption cannot be read: {account.reading.error}")
        else:
            used = (account.reading.value,)
        committed = budgets.committed(terms, self.consumption, spec.assumed_seconds, now, period.end)
        for wants in promised:
            committed = tuple(a + b for a, b in zip(committed, wants, strict=True))
        return Standing(account.name, terms.limits, used, committed, period.until)

    def period(self, account: Account, now: Micros) -> Period:
        """Return the present period; raises as `period_at`."""
        found = account.period
        if found is None or not found.start <= now < found.end:
            found = account.period = period_at(account.budget.spec.period, now)
        return found

    # Answers

    def answer(self, case: Case, now: Micros) -> Verdict:
        """Return the verdict of a case that was judged, to be given out."""
        refusal = case.refusal
        if self._outdated(case, now):
            case.said, case.said_at = self._class(case), now
            case.text = refusal.text if refusal is not None else ""
        if refusal is None:
            return Ready()
        account = self.accounts.get(refusal.budget)
        if account is None:
            return Pending(refusal.text, HOUR_S)
        release_s = account.budget.spec.release_quota_after_seconds
        if release_s is None:
            return Pending(case.text, HOUR_S)
        left_s = release_s - (now - case.request.reserved_at) / MICROS_PER_S
        if left_s > 0:
            return Pending(case.text, min(HOUR_S, left_s))
        return Retry(self.retry_after_s(account, now), f"Gives its quota back: {refusal.text}")

    def withdrawal(self, request: Request[Any], over: Mapping[str, Standing], now: Micros) -> Retry | None:
        """Return what takes an approval back while some budgets are *over*, None if it stays."""
        if not over:
            return None
        for account in self.concerning(request):
            standing = over.get(account.name)
            if standing is not None:
                text = f"Budget {account.name!r} is used up: {standing.describe()}"
                until = f"; the period ends {standing.until}"
                return Retry(self.retry_after_s(account, now), text + until)
        return None

    def retry_after_s(self, account: Account, now: Micros) -> int:
        """Return in how many seconds what had to go is tried again."""
        after_s = account.budget.spec.retry_after_seconds
        if after_s is not None:
            return after_s
        return -((now - self.period(account, now).end) // MICROS_PER_S)

    def next_change(self, now: Micros) -> Micros | None:
        """Return when time alone will change something: a period's end, or a limit that is being reached."""
        times = []
        for account in self.accounts.values():
            try:
                period = self.period(account, now)
            except (ValueError, OSError, LookupError):
                continue
            times.append(period.end)
            spec = account.budget.spec
            if spec.on_exceeded == "Evict" and spec.source.prometheus is None:
                used = budgets.used(account.terms, self.consumption.series, period.start, now)
                rate = budgets.rate(account.terms, self.consumption.series)
                at = budgets.reached_at(now, used, rate, account.terms.limits)
                if at is not None and at > now:
                    times.append(at)
        return min(times, default=None)

    def exceeded(self, now: Micros) -> dict[str, Standing]:
        """Return the budgets that evict now."""
        standings, _ = self.standings(now)
        return {
            name: standing
            for name, standing in standings.items()
            if standing.exceeded and self.accounts[name].budget.spec.on_exceeded == "Evict"
        }


class _UnreadableError(Exception):
    """Prometheus did not say."""


def _usage(request: Request[Any]) -> Usage:
    return {
        (flavor, resource): amount
        for flavor, resources in request.usage_by_flavor().items()
        for resource, amount in resources.items()
    }
