"""The machine: whatever is lost, late or said twice, no attempt runs twice, and none is forgotten."""

import dataclasses
from random import Random

import msgspec
import pytest

from sluice.events.base import JobKey, WorkloadKey
from sluice.events.job import JobFinished, JobPodsReady, JobStopped
from sluice.protocol.dispatch import Claim, claim_key
from sluice.sdk.execution import ExecutorSettings, Outcome
from sluice.sdk.execution import actions as act
from tests.support.execution_world import SETTINGS, World, entry_of

JOB = JobKey("default/a")


def reports(world: World, job: JobKey = JOB) -> list[str]:
    return [type(told.data).__name__ for told in world.log[job] if told.data is not None]


def claim_of(world: World, attempt: int = 1) -> Claim | None:
    entry = world.dispatch[JOB]
    kept = world.claims.get(claim_key(JOB, entry.uid, attempt))
    return kept.value if kept is not None else None


def started(*names: str) -> World:
    world = World(Random(1))
    for name in names:
        world.start(name)
    world.settle(1)
    return world


def test_work_is_claimed_announced_run_and_reported() -> None:
    """One of two executors runs the attempt; the log hears who has it, and how it ended."""
    world = started("x", "y")
    world.submit("a")
    world.settle(1)
    assert len(world.running("a")) == 1
    world.finish("a")
    world.settle(1)
    assert reports(world) == ["JobPodsReady", "JobFinished"]
    assert len(world.started) == 1
    assert not world.dispatch


def test_a_first_attempt_reads_nothing_from_the_log() -> None:
    """What nobody can have begun costs no more than its claim, a look at dispatch and the announcement."""
    world = started("x")
    world.processes["x"].asked.clear()
    world.submit("a")
    asked: list[str] = []
    process = world.processes["x"]
    while process.asked:
        asked += [type(ask.request).__name__ for ask in process.asked]
        for ask in list(process.asked):
            world.answer(process, ask)
    assert asked == ["PutClaim", "GetEntry", "Publish"]


def test_what_is_done_is_not_begun_again_when_its_claim_is_lost() -> None:
    """While dispatch lags, and is read anew: the log's copy of the announcement tells nothing new."""
    world = started("x")
    world.submit("a")
    world.settle(1)
    world.decide = lambda: None
    world.finish("a")
    world.settle(1)
    world.claims.lose()
    world.tell(world.dispatch[JOB])
    world.settle(60)
    assert len(world.started) == 1
    assert reports(world) == ["JobPodsReady", "JobFinished"]


def test_lost_claims_are_put_back_by_who_has_the_attempts() -> None:
    """The bucket of claims is lost while work runs: the claim is back after a look, and the work goes on."""
    world = started("x")
    world.submit("a")
    world.settle(1)
    before = claim_of(world)
    world.claims.lose()
    world.settle(30)
    assert claim_of(world) == before
    assert world.running("a") == ["x"]
    world.finish("a")
    world.settle(1)
    assert reports(world) == ["JobPodsReady", "JobFinished"]


@pytest.mark.parametrize("attempt", [1, 2])
def test_nobody_starts_what_runs_although_its_claim_is_lost(attempt: int) -> None:
    """Who has never heard of the claim finds in the log whose the attempt is, and puts the claim back."""
    world = started("x")
    world.submit("a")
    world.settle(1)
    if attempt == 2:
        world.kill("x")
        world.settle(6)
        world.lose_executor("x")
        world.start("x")
        world.settle(1)
    world.claims.lose()
    world.start("y")
    world.settle(3)
    assert world.running("a") == ["x"]
    assert not world.double
    claim = claim_of(world, attempt)
    assert claim is not None
    assert claim.executor == "x"
    world.settle(60)
    assert world.running("a") == ["x"]
    assert reports(world)[-1] == "JobPodsReady"


def test_a_claim_is_put_back_however_often_that_is_not_answered() -> None:
    """Who took it up leaves its own claim there meanwhile, and the owner would leave that alone for ever."""
    world = started("x")
    world.submit("a")
    world.settle(1)
    world.claims.lose()
    world.start("y")
    process, lost = world.processes["y"], 0
    for _ in range(100):
        for ask in list(process.asked):
            puts_back = isinstance(ask.request, act.PutClaim) and ask.request.claim.executor == "x"
            world.answer(process, ask, done=not (puts_back and lost < 2))
            lost += puts_back
        world.now += 0.1
        world.do(process, process.machine.tick(world.now))
    claim = claim_of(world)
    assert claim is not None
    assert (lost, claim.executor) == (3, "x")
    world.settle(30)
    assert world.running("a") == ["x"]
    assert len(world.started) == 1


def test_a_claim_is_given_back_although_it_has_another_revision_by_now() -> None:
    """Who took it up put it back itself when the bucket was lost once more, and did not hear of that."""
    world = started("x")
    world.submit("a")
    world.settle(1)
    world.claims.lose()
    world.start("y")
    process, again = world.processes["y"], 0
    for _ in range(100):
        for ask in list(process.asked):
            request = ask.request
            if not again and isinstance(request, act.PutClaim) and request.claim.executor == "x":
                mine = claim_of(world)
                assert mine is not None
                assert mine.executor == "y"
                world.claims.lose()
                again = world.claims.put(request.key, mine) or 0
            world.answer(process, ask)
        world.now += 0.1
        world.do(process, process.machine.tick(world.now))
    claim = claim_of(world)
    assert claim is not None
    assert again
    assert claim.executor == "x"


def test_a_stop_is_answered_by_who_has_the_attempt() -> None:
    """With the claims lost, nobody says that what still runs has stopped."""
    world = started("x")
    entry = world.submit("a")
    world.settle(1)
    (number,) = world.processes["x"].works
    world.claims.lose()
    world.start("y")
    stop = entry_of("a", entry.manifest_seq, stop=True)
    world.tell(stop)
    for _ in range(200):
        process = world.processes["y"]
        for ask in list(process.asked):
            world.answer(process, ask)
        world.now += 0.1
        world.do(process, process.machine.tick(world.now))
    assert "JobStopped" not in reports(world)
    world.end_work(world.processes["x"], number, None)
    world.settle(1)
    stops = [told.data for told in world.log[JOB] if isinstance(told.data, JobStopped)]
    assert [stop.executor for stop in stops] == ["x"]


def test_a_restarted_executor_settles_what_only_the_log_remembers() -> None:
    """It crashed, and claims were lost while it was away: its attempt is reported stopped, to run again."""
    world = started("x")
    world.submit("a")
    world.settle(1)
    world.kill("x")
    world.claims.lose()
    world.start("x")
    world.settle(5)
    assert [held.attempt for held in world.recovered] == [1]
    assert reports(world)[:2] == ["JobPodsReady", "JobStopped"]
    assert world.running("a") == ["x"]
    assert [attempt for _, _, attempt, _ in world.started] == [1, 2]


def test_without_room_it_settles_too() -> None:
    """Also when it has no room for the job, and another executor has put the claim back into its name."""
    world = World(Random(1))
    world.start("x", ExecutorSettings(capacity=1))
    world.settle(1)
    world.submit("a")
    world.settle(1)
    world.kill("x")
    world.claims.lose()
    world.submit("b")
    world.dispatch = dict(reversed(world.dispatch.items()))
    world.start("x", ExecutorSettings(capacity=1))
    world.settle(1)
    assert world.running("b") == ["x"]
    assert "JobStopped" not in reports(world)
    world.settle(10)
    assert "JobStopped" in reports(world)


def test_an_earlier_claim_of_what_another_runs_is_not_reported() -> None:
    """A claim that a crashed process had made in a new bucket does not stop what another executor runs."""
    world = started("x")
    entry = world.submit("a")
    world.settle(1)
    world.claims.lose()
    key = claim_key(JOB, entry.uid, 1)
    world.claims.put(key, Claim(executor="y", instance="y-earlier"), expected=0)
    world.start("y")
    world.settle(30)
    assert reports(world) == ["JobPodsReady"]
    assert world.running("a") == ["x"]
    claim = claim_of(world)
    assert claim is not None
    assert claim.executor == "x"


def test_a_bucket_that_is_written_anew_ends_nothing() -> None:
    """A job missing in a dispatch bucket that is not whole yet is not lost."""
    world = started("x")
    entry = world.submit("a")
    world.settle(1)
    world.dispatch.clear()
    world.dispatch_whole = False
    world.settle(30)
    assert world.running("a") == ["x"]
    world.dispatch_whole = True
    world.tell(entry)
    world.settle(30)
    assert world.running("a") == ["x"]
    world.tell(None, JOB)
    world.settle(1)
    assert world.running("a") == []
    assert reports(world) == ["JobPodsReady"]


@pytest.mark.parametrize("stop", [False, True])
def test_an_attempt_given_up_by_mistake_is_reported(stop: bool) -> None:
    """A key of dispatch that somebody deleted by hand comes back: what was ended is said to have stopped."""
    world = started("x")
    entry = world.submit("a")
    world.settle(1)
    world.tell(None, JOB)
    world.settle(1)
    assert world.running("a") == []
    world.tell(entry_of("a", entry.manifest_seq, stop=stop))
    world.settle(2)
    assert reports(world)[:2] == ["JobPodsReady", "JobStopped"]
    assert [attempt for _, _, attempt, _ in world.started] == ([1] if stop else [1, 2])


@pytest.mark.parametrize("announced", [False, True])
def test_what_is_followed_may_be_behind_of_what_was_read(announced: bool) -> None:
    """An entry that is older than the attempt in hand ends that one, but not for good: it is still wanted."""
    world = started("x")
    process = world.processes["x"]
    born = world.say(JOB, None)
    first, second = entry_of("a", born), entry_of("a", born, 2)
    world.tell(second)
    while not (world.running("a") if announced else JOB in process.machine.book.attempts):
        world.answer(process, process.asked[0])
    world.do(process, process.machine.dispatched([(JOB, first)], world.now))
    world.do(process, process.machine.dispatched([(JOB, second)], world.now))
    world.settle(3)
    assert len(world.running("a")) == 1
    assert not world.double


def test_a_heartbeat_that_is_lost_is_made_again() -> None:
    """The bucket of heartbeats is lost: the next beat is there, and nobody thinks of a duplicate."""
    world = started("x")
    world.beats.lose()
    world.settle(2)
    assert world.beats.get("x") is not None
    assert world.processes["x"].ended is None


def test_two_processes_of_one_name() -> None:
    """The earlier one ends, reports nothing, and says whose the name is now."""
    world = started("x")
    world.submit("a")
    world.settle(1)
    earlier = world.processes.pop("x")
    world.start("x")
    world.processes["earlier"] = earlier
    world.settle(3)
    assert earlier.ended is not None
    assert earlier.ended.duplicate == world.processes["x"].machine.book.who.instance


def test_stop_reports_what_ran() -> None:
    """An end in order: work is cancelled, reported as stopped, the heartbeat taken back."""
    world = started("x")
    world.submit("a")
    world.settle(1)
    process = world.processes["x"]
    world.do(process, process.machine.stop(world.now))
    world.settle(1)
    assert process.ended == act.Ended()
    assert reports(world) == ["JobPodsReady", "JobStopped"]
    assert world.beats.get("x") is None


def test_resize_goes_to_the_work() -> None:
    """The same attempt with other counts is handed on, once it is known to be newer."""
    world = started("x")
    entry = world.submit("a", count=2)
    world.settle(1)
    bigger = msgspec.structs.replace(entry_of("a", entry.manifest_seq, count=3), seq=entry.seq + 5)
    world.tell(bigger)
    world.tell(msgspec.structs.replace(entry, seq=entry.seq + 1))
    (work,) = world.processes["x"].works.values()
    assert work.entry is bigger
    assert world.processes["x"].machine.book.used == 3


def test_another_slice_of_the_same_size_is_a_resize() -> None:
    """A smaller size may have been missed in between: its pods have to be said to be ready again."""
    world = started("x")
    entry = world.submit("a", count=2)
    world.settle(1)
    (work,) = world.processes["x"].works.values()
    world.tell(msgspec.structs.replace(entry, seq=entry.seq + 1))
    assert work.resizes == 0
    slice_ = WorkloadKey(f"{entry.workload}-2")
    world.tell(msgspec.structs.replace(entry, seq=entry.seq + 2, workload=slice_))
    assert work.resizes == 1


def test_late_and_repeated_answers_change_nothing() -> None:
    """An answer counts once."""
    world = started("x")
    process = world.processes["x"]
    process.asked.clear()
    world.submit("a")
    (ask,) = process.asked
    world.answer(process, ask)
    assert process.machine.answer(ask.number, act.Refused(), world.now) == []


@pytest.mark.parametrize("seed", range(40))
def test_no_attempt_runs_twice_whatever_is_lost(seed: int) -> None:
    """Three executors; claims, heartbeats and answers get lost, processes crash: each attempt runs once, each
    job runs in one place at a time, and in the end every job has finished."""
    random = Random(seed)
    world = World(random, unanswered=random.choice([0.0, 0.05, 0.3]), judges=seed % 2 == 0)
    names = ["x", "y", "z"]
    for name in names:
        world.start(name, ExecutorSettings(capacity=random.choice([0, 2])))
    jobs = 0
    for _ in range(1500):
        drawn = random.random()
        if drawn < 0.01:
            world.submit(f"j{jobs}")
            jobs += 1
        elif drawn < 0.013:
            world.claims.lose()
        elif drawn < 0.015:
            world.beats.lose()
        elif drawn < 0.019:
            _crash(world, random.choice(names))
        elif drawn < 0.05:
            _finish_one(world, random)
        elif drawn < 0.06:
            _evict_one(world, random)
        elif drawn < 0.12:
            world.wait()
        else:
            world.step()
        assert not world.double, world.double
    world.unanswered = 0.0
    for _ in range(8):
        world.settle(30)
        for number in range(jobs):
            world.finish(f"j{number}")
    assert not world.double, world.double
    attempts = [(job, uid, attempt) for job, uid, attempt, _ in world.started]
    assert len(attempts) == len(set(attempts))
    assert list(world.dispatch) == []
    ended = [j for j, told in world.log.items() if any(isinstance(t.data, JobFinished) for t in told)]
    stopped = [j for j, told in world.log.items() if any(isinstance(t.data, JobStopped) for t in told)]
    assert len({*ended, *stopped}) == jobs
    assert all(_announced_first(world, job) for job in world.log)


def _crash(world: World, name: str) -> None:
    world.kill(name)
    world.start(name)


def _finish_one(world: World, random: Random) -> None:
    works = [(p, n) for p in world.processes.values() for n, w in p.works.items() if not w.cancelled]
    if works:
        process, number = random.choice(works)
        world.finish(process.works[number].entry.job.partition("/")[2])


def _evict_one(world: World, random: Random) -> None:
    running = [entry for entry in world.dispatch.values() if entry.state == "Running"]
    if running:
        entry = random.choice(running)
        name = entry.job.partition("/")[2]
        world.tell(entry_of(name, entry.manifest_seq, entry.attempt, stop=True))


def _announced_first(world: World, job: JobKey) -> bool:
    """Tell whether every attempt that was started had been announced, once."""
    said = [t.data.attempt for t in world.log[job] if isinstance(t.data, JobPodsReady) and not t.data.ready]
    began = [attempt for each, _, attempt, _ in world.started if each == job]
    return len(said) == len(set(said)) and set(began) <= set(said)


@pytest.mark.parametrize("kind", ["PyTorchJob", "Job", ""])
def test_jobs_of_kinds_that_it_does_not_run_are_left_alone(kind: str) -> None:
    """An executor that does run them takes them; an entry of old names no kind, and is anybody's."""
    world = World(Random(1))
    world.start("agent", dataclasses.replace(SETTINGS, kinds=("Job",)))
    world.settle(1)
    seq = world.say(JOB, None)
    world.tell(msgspec.structs.replace(entry_of("a", seq), kind=kind))
    world.settle(1)
    assert world.running("a") == (["agent"] if kind != "PyTorchJob" else [])
    assert (claim_of(world) is None) == (kind == "PyTorchJob")
    world.start("torch", dataclasses.replace(SETTINGS, kinds=("PyTorchJob", "JAXJob")))
    world.settle(1)
    assert len(world.running("a")) == 1


def test_a_stop_is_answered_whatever_the_kind() -> None:
    """What nobody has begun any executor may say of that it has stopped."""
    world = World(Random(1))
    world.start("agent", dataclasses.replace(SETTINGS, kinds=("JobSet",)))
    world.settle(1)
    seq = world.say(JOB, None)
    world.tell(msgspec.structs.replace(entry_of("a", seq, stop=True), kind="PyTorchJob"))
    world.settle(1)
    assert reports(world) == ["JobStopped"]


def test_what_cannot_be_run_here_is_never_claimed() -> None:
    """Until its manifest is another one; what can be run is run, however many questions are not answered."""
    world = World(Random(3), unanswered=0.3, judges=True)
    world.images.add(JOB)
    world.start("x")
    world.submit("a")
    world.submit("b")
    world.settle(30)
    assert (world.running("a"), world.running("b")) == ([], ["x"])
    assert claim_of(world) is None
    world.images.clear()
    world.tell(msgspec.structs.replace(world.dispatch[JOB], manifest_seq=world.say(JOB, None)))
    world.settle(30)
    assert world.running("a") == ["x"]
    assert not world.double


def test_looking_at_manifests_makes_no_more_room() -> None:
    """Many are looked at before the first is claimed, and no more are run than there is room for."""
    world = World(Random(1), judges=True)
    world.start("x", dataclasses.replace(SETTINGS, capacity=2))
    world.settle(1)
    for name in "abcde":
        world.submit(name)
    world.settle(5)
    assert sum(len(world.running(name)) for name in "abcde") == 2
    (first, second) = [name for name in "abcde" if world.running(name)]
    world.finish(first)
    world.finish(second)
    world.settle(5)
    assert sum(len(world.running(name)) for name in "abcde") == 2


def test_what_was_reported_of_another_history_drops_no_report_of_this_one() -> None:
    """An older log is put back while work runs, and the next job gets the uid of the one that ran: the ends
    of both have one id, of which the log takes one."""
    world = started("x")
    world.seq = 10
    before = world.back_up()
    first = world.submit("a")
    world.settle(1)
    world.restore(before)
    second = world.submit("b")
    assert second.uid == first.uid
    world.settle(1)
    assert world.running("b") == ["x"]
    world.finish("a")
    world.settle(1)
    world.finish("b")
    world.settle(1)
    assert reports(world, JobKey("default/b")) == ["JobPodsReady", "JobFinished"]
    assert JobKey("default/b") not in world.dispatch


def test_what_ended_in_another_history_begins_when_its_turn_comes_in_this_one() -> None:
    """A job waited when the log that is put back was copied, and ran in its first attempt after that. What is
    reported of that attempt when there is none yet is not about the one that comes."""
    world = started("x")
    world.seq = 10
    born = world.say(JOB, None)
    before = world.back_up()
    world.admit("a", born)
    world.settle(1)
    assert world.running("a") == ["x"]
    world.restore(before)
    world.finish("a")
    world.settle(1)
    assert reports(world) == ["JobFinished"]
    world.admit("a", born)
    world.settle(1)
    assert world.running("a") == ["x"]
    world.finish("a")
    world.settle(1)
    assert reports(world) == ["JobFinished", "JobPodsReady", "JobFinished"]
    assert not world.dispatch


@pytest.mark.parametrize("seed", range(40))
def test_after_an_older_log_was_put_back_jobs_end_that_are_submitted_then(seed: int) -> None:
    """Whatever runs then, is being reported or has its claim still under way, whoever hears late of it."""
    random = Random(seed)
    world = World(random, unanswered=0.1)
    for name in ("x", "y"):
        world.start(name)
    world.settle(2)
    world.seq = 10
    for number in range(random.randrange(3)):
        world.submit(f"old{number}")
    for _ in range(random.randrange(30)):
        world.step()
    waiting = {name: world.say(JobKey(f"default/{name}"), None) for name in ("waits1", "waits2")}
    before = world.back_up()
    for number, (name, born) in enumerate(waiting.items()):
        world.submit(f"lost{number}")
        _work(world, random, random.randrange(20))
        world.admit(name, born)
        _work(world, random, random.randrange(20))
        world.lose_executor(random.choice("xy-"))
    world.restore(before, random.choice(("put back", "lost", "kept")))
    for number, (name, born) in enumerate(waiting.items()):
        world.submit(f"new{number}")
        _work(world, random, random.randrange(20))
        world.admit(name, born)
        _work(world, random, random.randrange(20))
    world.tell_all()
    world.unanswered = 0.0
    for _ in range(200):
        world.settle(1)
        _end_any(world, random)
    assert not world.dispatch


def _work(world: World, random: Random, steps: int) -> None:
    for _ in range(steps):
        world.step()
        if random.random() < 0.3:
            _end_any(world, random)


def _end_any(world: World, random: Random) -> None:
    works = [(process, number) for process in world.processes.values() for number in process.works]
    if works:
        process, number = random.choice(works)
        ended = None if process.works[number].cancelled else Outcome()
        world.end_work(process, number, ended)
