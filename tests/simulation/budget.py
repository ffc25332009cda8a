"""Budgets: one check is performed by production's own ledger (`sluice.services.check_budget.ledger`).

It reads the log as its service does, from the beginning of each term, and judges whoever waits. What it
counts is compared with what the scheduler charges while everybody runs and nothing moves.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.core.budgets import consumption
from sluice.core.budgets.consumption import Consumption
from sluice.core.world.charging import needs
from sluice.protocol.checks import CheckRequest
from sluice.sdk.checks import Request, Verdict
from sluice.services.check_budget.follower import READS
from sluice.services.check_budget.ledger import Ledger, case_key

from .log import steps_of

if TYPE_CHECKING:
    from .cell import Cell

CHECK = "check-a"
"""The check that is the budgets', where there are any."""


@dataclass(eq=False)
class Term:
    """The ledger of one term of a controller, and how far it has read the log."""

    cell: "Cell"
    ledger: Ledger = field(default_factory=Ledger)
    position: int = 0

    def follow(self) -> None:
        entries = self.cell.log.entries
        for entry in entries[self.position :]:
            if entry.suffix in READS:
                for step in steps_of(entry):
                    for event in step.events:
                        self.ledger.apply(event, entry.seq, step.at)
        self.position = len(entries)

    @property
    def now(self) -> int:
        return max(self.cell.now, self.ledger.consumption.at)

    def answer(self, request: CheckRequest, waiting: list[CheckRequest]) -> Verdict:
        """Judge all that wait; return the verdict on one."""
        ledger = self.ledger
        self.follow()
        asked = [_request(each) for each in waiting if each.check == CHECK]
        for case in list(ledger.cases.values()):
            if case.key not in {case_key(each) for each in asked}:
                ledger.leave(case.request)
        for each in asked:
            ledger.enter(each)
        case = ledger.enter(_request(request))
        before = {each.key for each in ledger.cases.values() if each.approved}
        if not case.approved:
            ledger.judge(self.now)
        self._within([each for each in ledger.cases.values() if each.approved and each.key not in before])
        return ledger.answer(case, self.now)

    def _within(self, approved: list[Any]) -> None:
        """Nobody is let in for whom a budget has no room, but who use no more of it than runs already."""
        approved = [case for case in approved if not self._adds_nothing(case.request.key)]
        if not approved:
            return
        standings, _ = self.ledger.standings(self.now)
        for case in approved:
            for account in self.ledger.concerning(case.request):
                found = standings[account.name]
                wants = self.ledger._wants(account, case, self.now)
                for limit, used, promised, wanted in zip(
                    found.limits, found.used, found.committed, wants, strict=True
                ):
                    if wanted and used + promised > limit.amount:
                        text = f"{case.key} was let in, and of {account.name} are {found.describe()}"
                        self.cell.watchman.fail("within-budget", text)

    def _adds_nothing(self, key: str) -> bool:
        consumption = self.ledger.consumption
        slice_ = consumption.workloads.get(key)
        before = consumption.running.get(slice_.replaces) if slice_ is not None else None
        if slice_ is None or before is None:
            return False
        return all(amount <= before.charge.get(fr, 0) for fr, amount in consumption.charge(slice_).items())

    def withdrawal(self, request: CheckRequest) -> Verdict | None:
        """Return what takes an approval back, None if it stays."""
        self.follow()
        return self.ledger.withdrawal(_request(request), self.ledger.exceeded(self.now), self.now)


def _request(raw: CheckRequest) -> Request[Any]:
    return Request(raw, {})


def check_counted(cell: "Cell") -> None:
    """Who runs consumes what the scheduler charges, and nobody else consumes anything."""
    found = Consumption()
    for entry in cell.log.entries:
        if entry.suffix in READS:
            for step in steps_of(entry):
                for event in step.events:
                    found.apply(event, step.at)
    holder = cell.services["scheduler"].holder
    assert holder is not None
    world = holder.state.world
    wanted = {
        key: {fr: amount for fr, amount in needs(world, workload).items() if amount}
        for key, workload in world.workloads.items()
        if workload.admitted_at is not None and workload.assignment is not None
    }
    counted = {
        key: {fr: amount for fr, amount in held.charge.items() if amount}
        for key, held in found.running.items()
    }
    for key in {**wanted, **counted}:
        if wanted.get(key) != counted.get(key):
            text = f"{key} consumes {counted.get(key)}, and is charged for {wanted.get(key)}"
            cell.watchman.fail("budgets-count", text)
    data = consumption.dump(found)
    if consumption.dump(consumption.load(data)) != data:
        cell.watchman.fail("budgets-count", "a snapshot does not come out as it went in")


__all__ = ["CHECK", "Term", "check_counted"]
