"""The admission-check service through random histories: what it says is always true (AC1-AC8)."""

import random
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.workload.admission_checks import READY
from sluice.events.base import WorkloadKey
from sluice.events.checks import (
    AdmissionCheckStatusChanged,
    CheckInputRejected,
    ChecksPending,
    ChecksReady,
    ChecksRejected,
    ChecksRequested,
    ChecksRetry,
    CheckStateChanged,
    ChecksWithdrawn,
    VerdictIgnored,
)
from tests.support.checked_cell import PEOPLE
from tests.support.checks_world import ChecksWorld, check, configuration, queue, world
from tests.support.examples import examples

CHECKS = ("a", "b", "c")
BY_PEOPLE = "c"
"""Answered by people now and then: its controllerName changes with the check."""
FLAVORS = ("spot", "fixed")
TIMEOUT_S = 30


class Neighbours:
    """Everybody whom the service hears: plays what comes, and knows what should be true by now."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cell: ChecksWorld = world(*CHECKS, flavors=FLAVORS)
        self.rules: list[str | tuple[str, list[str]]] = list(CHECKS)
        self.define()
        self.attempts: dict[WorkloadKey, int] = {}
        self.holding: dict[WorkloadKey, str] = {}
        """Workloads with quota -> "" or Admitted or Evicted."""
        self.made = 0
        self.rejected: set[tuple[WorkloadKey, int]] = set()
        self.sent: dict[int, int] = {}
        """Sequence of each message that needs an answer -> the attempt that it speaks of."""

    def define(self) -> None:
        self.cell.apply(queue(*self.rules, flavors=FLAVORS))

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def some(self, keys: list[WorkloadKey]) -> WorkloadKey | None:
        return self.random.choice(keys) if keys else None

    def act(self) -> None:
        getattr(self, self.random.choice(ACTS))()

    # What may happen

    def create(self) -> None:
        self.made += 1
        parent = self.coin() and self.some([k for k in self.attempts if "-of-" not in k])
        name = f"w{self.made}-of-{parent.partition('/')[2]}" if parent else f"w{self.made}"
        key = self.cell.create(name, parent=parent or None)
        self.attempts[key] = 0

    def reserve(self) -> None:
        key = self.some([k for k in self.attempts if k not in self.holding])
        if key is not None:
            self.cell.reserve(
                key,
                flavor=self.random.choice(FLAVORS),
                preemptions_pending=self.coin(),
            )
            self.attempts[key] += 1
            self.holding[key] = ""

    def admit(self) -> None:
        """The scheduler admits what it was told is Ready; it may be told otherwise meanwhile."""
        ready = [
            e.workload for e in self.cell.said if isinstance(e, ChecksReady) and self.current(e) and e.attempt
        ]
        key = self.some([k for k in ready if self.holding.get(k) == ""])
        if key is not None:
            self.cell.admit(key)
            self.holding[key] = "Admitted"

    def current(self, event: ChecksReady) -> bool:
        return self.attempts.get(event.workload) == event.attempt

    def evict(self) -> None:
        key = self.some([k for k, how in self.holding.items() if how != "Evicted"])
        if key is None:
            return
        released = self.coin()
        self.cell.evict(key, release=released)
        if released:
            del self.holding[key]
        else:
            self.holding[key] = "Evicted"

    def release(self) -> None:
        key = self.some(list(self.holding))
        if key is not None:
            self.cell.release(key)
            del self.holding[key]

    def finish(self) -> None:
        key = self.some(list(self.attempts))
        if key is not None:
            self.cell.finish(key)
            for gone in [k for k in self.attempts if k == key or k.endswith(f"-of-{key.partition('/')[2]}")]:
                del self.attempts[gone]
                self.holding.pop(gone, None)

    def verdict(self) -> None:
        everybody = [*self.attempts, WorkloadKey("ns/nobody")]
        key = self.some(list(self.holding) if self.holding and self.random.random() < 0.85 else everybody)
        assert key is not None
        now = self.attempts.get(key, 1)
        attempt = self.random.choice([now, now, now, now, now - 1, now + 1])
        name = self.random.choice([*CHECKS, *CHECKS, *CHECKS, "unknown"])
        state = self.random.choice(["Ready", "Ready", "Ready", "Pending", "Retry", "Rejected"])
        fields = self.spoken_by(name)
        if self.random.randint(0, 9) == 0:
            fields["controller"] = self.random.choice(["ctl-a", "other"])
        if state == "Retry" and self.coin():
            fields["requeueAfterSeconds"] = self.random.randint(0, 100)
        if state == "Pending" and self.coin():
            fields["reason"] = "PreemptionRequired"
        if state == "Ready" and self.random.randint(0, 3) == 0:
            label = self.random.choice(["one", "two"])
            fields["podSetUpdates"] = [{"name": "main", "labels": {"x": label}}]
        self.cell.say(key, name, state, attempt, **fields)  # type: ignore[arg-type]
        self.sent[len(self.cell.log)] = attempt

    def approve_all(self) -> None:
        key = self.some([k for k, how in self.holding.items() if how == ""])
        for name in CHECKS if key is not None else ():
            assert key is not None
            self.cell.say(key, name, "Ready", self.attempts[key], **self.spoken_by(name))  # type: ignore[arg-type]
            self.sent[len(self.cell.log)] = self.attempts[key]

    def rubbish(self) -> None:
        self.sent[self.cell.append("verdict.ctl-a", b"rubbish")] = 0

    def flap(self) -> None:
        name = self.random.choice([*(f"ctl-{name}" for name in CHECKS), PEOPLE])
        self.cell.presence(name, there=self.coin())

    def spoken_by(self, name: str) -> dict[str, object]:
        """Return who speaks for a check, mostly whom it names."""
        found = self.cell.state.checks.get(name)
        return {"controller": PEOPLE} if found is not None and found.by_people else {}

    def edit_queue(self) -> None:
        self.rules = [
            name if on is None else (name, [str(on)])
            for name in CHECKS
            if (on := self.random.choice([None, *FLAVORS, "out"])) != "out"
        ]
        self.define()

    def edit_check(self) -> None:
        name = self.random.choice(CHECKS)
        if self.random.randint(0, 5) == 0:
            self.cell.delete("AdmissionCheck", name)
            return
        controller = self.random.choice([f"ctl-{name}"] * 5 + ["other"])
        if name == BY_PEOPLE and self.coin():
            controller = PEOPLE
        policy = self.random.choice(["Anytime", "AfterCheckPassedOrOnDemand"])
        self.cell.apply(check(name, str(controller), preemptionPolicy=policy))

    def set_timeout(self) -> None:
        seconds = self.random.choice([None, 0, TIMEOUT_S])
        self.cell.apply(configuration(admissionChecks={"answerTimeoutSeconds": seconds} if seconds else {}))

    def settle(self) -> None:
        before = len(self.cell.said)
        self.cell.settle(float(self.random.choice([0, 0, 5, 40])))
        self.hold(self.cell.said[before:])

    # What must be true

    def hold(self, said: Sequence[object]) -> None:
        cell = self.cell
        state = cell.state
        assert not state.todo
        assert not state.verdicts
        assert not state.gone
        for event in said:
            if isinstance(event, ChecksReady | ChecksRetry | ChecksRejected | ChecksRequested):
                assert event.attempt <= self.attempts.get(event.workload, event.attempt)
            if isinstance(event, CheckStateChanged) and event.reason == "AnswerTimeout":
                assert (event.state, event.attempt) == ("Retry", self.attempts[event.workload])
                assert self.holding[event.workload] == ""
                assert event.cause not in self.sent
            elif isinstance(event, CheckStateChanged):
                # Only what is said of the attempt that lasts is heard (AC4).
                assert self.sent[event.cause] == event.attempt == self.attempts[event.workload]
                assert self.holding[event.workload] != "Evicted"
                assert (event.workload, event.attempt) not in self.rejected
            if isinstance(event, ChecksRejected):
                self.rejected.add((event.workload, event.attempt))
            if isinstance(event, ChecksPending | ChecksReady):
                self.rejected.discard((event.workload, event.attempt))
        wanted = set()
        for key, how in self.holding.items():
            tracked = state.workloads[key]
            reservation = tracked.reservation
            assert reservation is not None
            assert reservation.attempt == self.attempts[key]
            if how == "Evicted":
                continue
            checks = reservation.requested
            if checks is None:
                assert how == "Admitted"
                continue
            states = [tracked.states[name].state for name in checks]
            if how == "":
                assert sorted(checks) == state.relevant(reservation)
                # What was said last of all checks is what they are.
                expected = (
                    "Rejected"
                    if "Rejected" in states
                    else "Retry"
                    if "Retry" in states
                    else READY
                    if all(each == READY for each in states)
                    else ""
                )
                assert reservation.outcome == expected, (key, states)
            wanted |= {
                (key, name)
                for name, basis in checks.items()
                if tracked.states[name].state in ("Pending", READY) and basis.controller
            }
        assert set(cell.requests()) == wanted
        for (whose, name), request in cell.requests().items():
            assert request.attempt == self.attempts[WorkloadKey(whose)]
            assert request.state == state.workloads[WorkloadKey(whose)].states[name].state
        for key, tracked in state.workloads.items():
            if key not in self.holding:
                assert {each.state for each in tracked.states.values()} <= {"Pending"}
        answered = [
            event.cause
            for event in cell.said
            if isinstance(event, CheckStateChanged | VerdictIgnored | CheckInputRejected)
            and getattr(event, "reason", "") != "AnswerTimeout"
        ]
        # What was said after the eviction is answered by a longer wait (AC3).
        answered += [e.cause for e in cell.said if isinstance(e, ChecksRetry) and self.came_late(e)]
        assert sorted(answered) == sorted(self.sent), "each verdict is answered, once"
        self.silence()
        self.presence()

    def silence(self) -> None:
        """Nobody waits longer than allowed for a check that was never answered, nor any shorter."""
        cell, state = self.cell, self.cell.state
        limit = state.config.admission_checks.answer_timeout_seconds
        heard = {
            (e.workload, e.check, e.attempt)
            for e in cell.said
            if isinstance(e, CheckStateChanged) or (isinstance(e, VerdictIgnored) and e.reason == "Duplicate")
        }
        unheard = {
            (key, name)
            for key, how in self.holding.items()
            if how == "" and (held := state.workloads[key].reservation) is not None
            for name in held.requested or ()
            if (key, name, held.attempt) not in heard
        }
        waiting = {(key, name) for name, found in state.unanswered.items() for key in found}
        # What another controller was asked anew after somebody had answered is waiting, and heard of.
        assert unheard <= waiting
        for name, found in state.unanswered.items():
            assert list(found.values()) == sorted(found.values())
            by_people = name in state.checks and state.checks[name].by_people
            assert (
                not limit
                or by_people
                or all(cell.now < since + limit * 1_000_000 for since in found.values())
            )
        deadline = cell.deadline()
        assert deadline is None or deadline > cell.now, "would turn for ever"

    def presence(self) -> None:
        state = self.cell.state
        for name, found in state.checks.items():
            last = [
                e for e in self.cell.said if isinstance(e, AdmissionCheckStatusChanged) and e.check == name
            ][-1]
            controller = state.controllers.get(found.spec.controller_name)
            if found.by_people:
                assert last.active, "nobody need be there"
            elif controller is None:
                assert not last.active
            elif controller.present:
                assert last.active
            elif last.active:
                assert self.cell.now < controller.since + 30_000_000

    def came_late(self, event: ChecksRetry) -> bool:
        """Nothing else was said of the verdict."""
        said = [e for e in self.cell.said if getattr(e, "cause", 0) == event.cause]
        return event.cause in self.sent and not any(
            isinstance(e, CheckStateChanged | VerdictIgnored) for e in said
        )

    def withdrawals(self) -> None:
        """Every request that was made was taken back exactly once, or stands."""
        cell = self.cell
        asked = {(e.workload, e.attempt) for e in cell.said if isinstance(e, ChecksRequested)}
        back = [(e.workload, e.attempt) for e in cell.said if isinstance(e, ChecksWithdrawn)]
        assert len(back) == len(set(back))
        live = {(key, self.attempts[key]) for key, how in self.holding.items() if how != "Evicted"}
        assert asked - set(back) <= live
        assert set(back) <= asked
        assert not set(back) & live


ACTS = (
    *["create"] * 2,
    *["reserve"] * 10,
    *["verdict"] * 14,
    *["approve_all"] * 6,
    *["admit"] * 8,
    *(
        "evict",
        "evict",
        "release",
        "finish",
        "rubbish",
        "flap",
        "flap",
        "edit_queue",
        "edit_check",
        "set_timeout",
    ),
    *["settle"] * 12,
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_random_histories(seed: int) -> None:
    """Outcomes, requests and conditions are true after every step; the log decides itself again."""
    neighbours = Neighbours(seed)
    neighbours.create()
    for _ in range(60):
        neighbours.act()
    neighbours.settle()
    neighbours.withdrawals()
    neighbours.cell.verify()
