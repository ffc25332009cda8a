"""A whole cell with admission checks under lag: every service falls behind, controllers come and go.

What must hold of the log alone is in the invariants (`approval-kept`, `retry-waits`, quota and the rest);
what takes a view of the whole, here.
"""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.workload.admission_checks import READY, RETRY
from sluice.events.checks import CheckInputRejected, ChecksRetry, CheckStateChanged, VerdictIgnored
from sluice.events.scheduler import Admitted
from tests.support.checked_cell import PEOPLE, CheckedCell, checked_cell
from tests.support.examples import examples

CHECKS = ("a", "b", "people")
STATES = ("Ready", "Ready", "Ready", "Ready", "Pending", "Retry", "Retry", "Rejected")


class History:
    """Plays what a seed chooses."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cell: CheckedCell = checked_cell(*CHECKS, quota=6)
        self.cell.add_check("people", controllerName=PEOPLE)  # made anew under another name
        self.cell.settle()
        self.jobs: list[str] = []
        self.verdicts = 0

    def act(self) -> None:
        getattr(self, self.random.choice(ACTS))()

    def some_job(self) -> str | None:
        known = self.cell.services["checks"].state.workloads.values()
        names = [w.record.job.key.partition("/")[2] for w in known if w.record.job is not None]
        return self.random.choice(names) if names else None

    def submit(self) -> None:
        name = f"job{len(self.jobs)}"
        self.jobs.append(name)
        self.cell.submit(name, cpu=self.random.choice([1, 2, 4]))

    def verdict(self) -> None:
        name = self.some_job()
        if name is None:
            return
        state = self.random.choice(STATES)
        fields = {"requeueAfterSeconds": self.random.choice([0, 5, 60])} if state == RETRY else {}
        _, _, attempts = self.cell.reservation(name)
        attempt = max(1, attempts - self.random.choice([0, 0, 0, 1]))
        self.cell.say(name, self.random.choice(CHECKS), state, attempt=attempt, **fields)
        self.verdicts += 1

    def approve(self) -> None:
        name = self.some_job()
        for check in CHECKS if name is not None else ():
            assert name is not None
            self.cell.say(name, check, "Ready", attempt=max(1, self.cell.reservation(name)[2]))
            self.verdicts += 1

    def retries(self) -> None:
        """Two checks send a job back at about the same time."""
        name = self.some_job()
        if name is None or not (attempts := self.cell.reservation(name)[2]):
            return
        key, _, _ = self.cell.reservation(name)
        for check in self.random.sample(CHECKS, 2):
            if key not in self.cell.services["checks"].state.workloads:
                return  # it has ended meanwhile
            delay = self.random.choice([0, 5, 60])
            self.cell.say(name, check, "Retry", attempt=attempts, requeueAfterSeconds=delay)
            self.verdicts += 1
            for writer in self.random.choice([(), ("checks",), ("checks", "scheduler", "slices")]):
                self.cell.step(writer)

    def flap(self) -> None:
        self.cell.presence(self.random.choice(["ctl-a", "ctl-b", PEOPLE]), there=self.random.random() < 0.5)

    def step(self) -> None:
        """One service catches up, not always quite."""
        writer = self.random.choice(list(self.cell.services))
        self.cell.step(writer, self.random.choice([1, 2, 5, None]))
        self.cell.now += 1000

    def wait(self) -> None:
        self.cell.now += self.random.choice([1, 10, 40]) * 1_000_000

    def obey(self) -> None:
        self.cell.obey()

    def finish(self) -> None:
        name = self.random.choice(self.jobs) if self.jobs else None
        if name is not None and (entry := self.cell.dispatch(name)) is not None and entry.state == "Running":
            self.cell.report(name, "JobFinished", success=True)

    # What must be true

    def hold(self) -> None:
        cell = self.cell
        answered = {e.cause for e in cell.events(CheckStateChanged, VerdictIgnored, ChecksRetry)}
        sent = [entry.seq for entry in cell.log if entry.suffix.startswith("verdict.")]
        assert len(sent) == self.verdicts
        assert not set(sent) - answered
        assert not cell.events(CheckInputRejected)
        scheduler, checks = cell.services["scheduler"].state.world, cell.services["checks"].state
        for key, workload in scheduler.workloads.items():
            tracked = checks.workloads[key]
            assert workload.reservations == tracked.attempts
            held = tracked.reservation
            assert (held is None) == (workload.assignment is None), key
            if held is not None and held.outcome == READY and not held.over:
                assert workload.admitted_at is not None, f"{key} has passed all its checks and waits"

    def drain(self) -> None:
        """Everybody is there and says Ready: all that is active is admitted in the end, and finishes."""
        cell = self.cell
        for name in ("ctl-a", "ctl-b"):
            cell.presence(name)
        for _ in range(60):
            cell.run_until(70)
            cell.settle_all()
            waiting = False
            for name in self.jobs:
                entry = cell.dispatch(name)
                if entry is not None and entry.state == "Running":
                    cell.report(name, "JobFinished", success=True)
                    waiting = True
                    continue
                try:
                    key, held, _ = cell.reservation(name)
                except KeyError:
                    continue  # over
                waiting = waiting or cell.services["scheduler"].state.world.workloads[key].active
                if held is not None and not held.over and held.outcome != READY:
                    for check in CHECKS:
                        cell.say(name, check, "Ready")
                        self.verdicts += 1
            if not waiting:
                return
        raise AssertionError("who has everybody's approval is not admitted")


ACTS = (
    *["submit"] * 3,
    *["verdict"] * 8,
    *["approve"] * 3,
    *["retries"] * 3,
    *["step"] * 30,
    *["flap"] * 2,
    *["wait"] * 3,
    *["obey"] * 4,
    *["finish"] * 2,
)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_random_histories(seed: int) -> None:
    """Every verdict is answered, services agree when they have caught up, and everybody gets through."""
    history = History(seed)
    for _ in range(150):
        history.act()
    history.cell.settle_all()
    history.hold()
    history.drain()
    history.hold()
    history.cell.verify()
    assert history.cell.events(Admitted) or not history.jobs
