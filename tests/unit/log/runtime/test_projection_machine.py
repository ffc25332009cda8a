"""What a projection writes: in the end the bucket shows what there should be, whatever befell it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, cast

import pytest

from sluice.log.nats.streams import WHOLE
from sluice.log.runtime import projection_machine as pub


class Step(NamedTuple):
    events: tuple[tuple[str, int | None], ...]


class Shown:
    """Shows a dictionary; steps say what to put into it."""

    bucket = "shown"

    def changes(self, _state: Any, step: Any) -> Iterable[tuple[str, int | None]]:
        return tuple(step.events)

    def everything(self, state: dict[str, int]) -> Iterable[tuple[str, int]]:
        return state.items()


@dataclass
class Bucket:
    created: str
    entries: list[tuple[str, int | None, int]] = field(default_factory=list)
    """(key, value, commit) in the order in which they were written."""

    def found(self) -> dict[str, int]:
        return {key: value for key, value in {k: v for k, v, _ in self.entries}.items() if value is not None}

    @property
    def whole(self) -> bool:
        return any(key == WHOLE for key, _, _ in self.entries)


@dataclass(eq=False)
class Leader:
    machine: pub.Publishing[dict[str, int], int]
    state: dict[str, int]
    asked: list[pub.Ask] = field(default_factory=list)


@dataclass
class World:
    """One log, one bucket, a leader, and leaders of before that do not know it yet.

    *cut*: share of writes of which only a part arrives. *clustered*: of those nothing is taken.
    """

    random: Random
    cut: float = 0.0
    clustered: bool = False
    commits: list[tuple[int, Step]] = field(default_factory=list)
    bucket: Bucket | None = None
    made: int = 0
    now: float = 0.0
    leader: Leader | None = None
    stale: list[Leader] = field(default_factory=list)
    in_flight: list[tuple[Step, object]] = field(default_factory=list)

    def lead(self, floor: int = 0) -> None:
        """Another replica takes over, from a snapshot of commit *floor*."""
        if self.leader is not None:
            self.stale.append(self.leader)
        machine: pub.Publishing[dict[str, int], int] = pub.Publishing(
            Shown(), lambda one, other: one == other
        )
        machine.rebuilding(floor)
        state: dict[str, int] = {}
        for seq, step in self.commits:
            _apply(state, step)
            if seq > floor:
                machine.replayed(state, cast("Any", step), seq)
        self.in_flight.clear()
        self.leader = Leader(machine, state)
        self.leader.asked += machine.leading(state, self.commits[-1][0] if self.commits else 0, self.now)

    def decide(self, *events: tuple[str, int | None]) -> None:
        assert self.leader is not None
        step = Step(events)
        _apply(self.leader.state, step)
        self.in_flight.append((step, self.leader.machine.decided(self.leader.state, step)))  # type: ignore[arg-type]

    def commit(self) -> None:
        """What is decided comes into the log."""
        assert self.leader is not None
        if self.in_flight:
            seq = len(self.commits) + 1
            effects: Any = [effect for _, effect in self.in_flight]
            self.commits.append((seq, Step(tuple(e for step, _ in self.in_flight for e in step.events))))
            self.in_flight.clear()
            self.leader.asked += self.leader.machine.committed(seq, effects, self.now)

    def answer(self, leader: Leader, ask: pub.Ask, *, lost: bool = False) -> None:
        leader.asked.remove(ask)
        answer = self._answered(leader, ask.question)
        leader.asked += leader.machine.answer(
            ask.number, pub.Unanswered("lost") if lost else answer, self.now
        )

    def _answered(self, leader: Leader, question: pub.Question) -> pub.Answer:
        bucket = self.bucket
        match question:
            case pub.Confirm():
                return pub.Confirmed(leader is self.leader)
            case pub.Look():
                return pub.Missing() if bucket is None else _stood(bucket, 0)
            case pub.Stand():
                if bucket is None:
                    self.made += 1
                    bucket = self.bucket = Bucket(str(self.made))
                return _stood(bucket, len(self.commits))
            case pub.Read(end):
                if bucket is None:
                    return pub.Unanswered("no bucket")
                return pub.Contents(Bucket("", bucket.entries[:end]).found())
            case pub.Write(after, items):
                if bucket is None:
                    return pub.Unanswered("no bucket")
                if after != len(bucket.entries):
                    return pub.Refused()
                kept = items
                if self.random.random() < self.cut:
                    kept = () if self.clustered else items[: self.random.randrange(len(items))]
                bucket.entries += [(item.key, item.value, item.of) for item in kept]
                return pub.Written(after + len(items)) if len(kept) == len(items) else pub.Unanswered("cut")

    def pass_time(self) -> None:
        leaders = [*self.stale, *([self.leader] if self.leader else [])]
        due = [each.machine.deadline for each in leaders if each.machine.deadline is not None]
        if due:
            self.now = max(self.now, min(due))
            for each in leaders:
                each.asked += each.machine.tick(self.now)

    def settle(self) -> None:
        """Only the leader is left, and everybody answers."""
        self.stale.clear()
        assert self.leader is not None
        self.commit()
        end, steps = self.now + 10, 0
        while self.now < end or self.leader.asked:
            steps += 1
            assert steps < 10_000
            if self.leader.asked:
                self.answer(self.leader, self.leader.asked[0])
            else:
                self.pass_time()

    def wanted(self) -> dict[str, int]:
        state: dict[str, int] = {}
        for _, step in self.commits:
            _apply(state, step)
        return state


def _apply(state: dict[str, int], step: Step) -> None:
    for key, value in step.events:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def _stood(bucket: Bucket, end: int) -> pub.Stood:
    confirmed = bucket.entries[-1][2] if bucket.entries else 0
    return pub.Stood(bucket.created, len(bucket.entries), bucket.whole, confirmed, end)


def led(world: World) -> Leader:
    assert world.leader is not None
    return world.leader


def shown(count: int) -> World:
    """Return a world whose bucket shows *count* keys."""
    world = World(Random(1))
    world.lead()
    world.decide(*((f"k{n}", n) for n in range(count)))
    world.settle()
    assert world.bucket is not None
    assert world.bucket.found() == world.wanted()
    return world


def test_a_commit_is_written_at_once() -> None:
    """An idle leader that commits asks for one write, and looks at nothing before it."""
    world = shown(3)
    world.decide(("k1", 7))
    world.commit()
    (ask,) = led(world).asked
    assert isinstance(ask.question, pub.Write)
    assert [(item.key, item.value) for item in ask.question.items] == [("k1", 7)]


def test_writing_much_looks_seldom() -> None:
    """However often the leader is idle in between, one look is planned."""
    world = shown(3)
    for n in range(50):
        world.decide(("k1", n))
        world.commit()
        for ask in list(led(world).asked):
            world.answer(led(world), ask)
        assert len(led(world).machine._alarms) <= 1


@pytest.mark.parametrize("count", [0, 3, 1200])
def test_a_bucket_that_is_deleted_is_written_anew(count: int) -> None:
    """While nobody decides anything, too; whole is said last."""
    world = shown(count)
    world.bucket = None
    world.settle()
    assert world.bucket is not None
    assert world.bucket.found() == world.wanted()
    assert world.bucket.entries[-1][0] == WHOLE


def test_a_bucket_in_the_middle_of_being_written_is_compared_again() -> None:
    """Its leader crashes half-way: the next one does not take what is there for all there was."""
    world = shown(1200)
    world.bucket = None
    while world.bucket is None or not world.bucket.entries:
        if led(world).asked:
            world.answer(led(world), led(world).asked[0])
        else:
            world.pass_time()
    assert not world.bucket.whole
    world.lead(floor=0)
    world.settle()
    assert world.bucket is not None
    assert world.bucket.found() == world.wanted()


def test_a_comparison_cut_short_is_made_again() -> None:
    """Also in a bucket that is whole: entries of a comparison do not say which commit they are of."""
    world = shown(1200)
    assert world.bucket is not None
    for n in range(700):
        world.bucket.entries.append((f"k{n}", -1, 0))
    world.lead(floor=1)
    for _ in range(3):
        world.answer(led(world), led(world).asked[0])
    assert world.bucket.entries[-1][2] == 0
    world.lead(floor=0)
    world.settle()
    assert world.bucket.found() == world.wanted()


def test_what_others_write_is_put_right() -> None:
    """A value put, or a key deleted, by hand."""
    world = shown(3)
    assert world.bucket is not None
    world.bucket.entries += [("k1", 99, 0), ("k2", None, 0), ("k9", 9, 0)]
    world.settle()
    assert world.bucket.found() == world.wanted()


def test_only_the_last_commit_that_the_bucket_shows_may_be_incomplete() -> None:
    """Each entry says which commit it is of, in the order of commits."""
    world = World(Random(1))
    world.lead()
    world.decide(("k1", 1), ("k2", 2))
    world.commit()
    world.decide(("k3", 3))
    world.commit()
    world.settle()
    assert world.bucket is not None
    world.decide(("k1", 4), ("k2", 5))
    world.commit()
    (ask,) = led(world).asked
    assert isinstance(ask.question, pub.Write)
    assert [(item.key, item.of) for item in ask.question.items] == [("k1", 3), ("k2", 3)]


@pytest.mark.parametrize("clustered", [False, True], ids=["single", "clustered"])
@pytest.mark.parametrize("seed", range(150))
def test_the_bucket_shows_the_log_in_the_end(seed: int, *, clustered: bool) -> None:
    """Leaders change, stale ones still write, answers get lost, the bucket is deleted, others write to it."""
    random = Random(seed)
    world = World(random, cut=0.1, clustered=clustered)
    world.lead()
    for _ in range(random.choice([50, 300])):
        drawn = random.random()
        leaders = [each for each in (*world.stale, led(world)) if each.asked]
        if drawn < 0.25:
            world.decide((f"k{random.randrange(8)}", random.choice([None, random.randrange(100)])))
        elif drawn < 0.4:
            world.commit()
        elif drawn < 0.43:
            world.lead(floor=random.randrange(len(world.commits) + 1))
        elif drawn < 0.45:
            world.bucket = None
        elif drawn < 0.46 and world.bucket is not None:
            world.bucket.entries.append((f"k{random.randrange(9)}", 1000, 0))
        elif drawn < 0.5:
            world.pass_time()
        elif leaders:
            leader = random.choice(leaders)
            world.answer(leader, random.choice(leader.asked), lost=random.random() < 0.05)
    world.cut = 0.0
    world.settle()
    assert world.bucket is not None
    assert world.bucket.found() == world.wanted()
    assert world.bucket.whole


@pytest.mark.parametrize("leads", [True, False])
def test_who_begins_to_lead_asks_whether_it_still_does_before_it_writes(leads: bool) -> None:
    """A later leader may be comparing, and what it has written so far does not say which commit it is of."""
    machine: pub.Publishing[dict[str, int], int] = pub.Publishing(Shown(), lambda a, b: a == b)
    (stand,) = machine.leading({"a": 1}, 5, 0.0)
    (confirm,) = machine.answer(stand.number, pub.Stood("b", 7, whole=False, confirmed=0, end=9), 0.0)
    assert confirm.question == pub.Confirm()
    asked = machine.answer(confirm.number, pub.Confirmed(leads=leads), 0.0)
    assert [ask.question for ask in asked] == ([pub.Read(7)] if leads else [])
