"""Executors as `sluice.sdk.executor` has them, one awaited thing a step; their processes are in `truth`.

An executor follows dispatch, claims attempts, starts, resizes and ends processes, and reports at least once.
It crashes (its pods end within the grace of the agent's guardian), is cut off and comes back, or shuts down.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.events.base import JobKey, Micros
from sluice.events.dispatch import Claim, DispatchEntry, claim_key
from sluice.events.job import JobEvent, JobFinished, JobPodsReady, JobPodsReclaimable, JobStopped

from .buckets import Kept, Watcher
from .log import SECOND
from .truth import Proc, pods_of

if TYPE_CHECKING:
    from .cell import Cell

TTL: Micros = 5 * SECOND
TAKEOVER: Micros = 10 * SECOND
GUARDIAN: Micros = 3 * SECOND
"""Within this after a crash the agent's guardian has ended its pods."""
KEEP_DONE: Micros = 30 * 86_400 * SECOND
"""`claims.KEEP_DONE_S` is ten minutes, after which what is done runs again if dispatch lags: NEW-2."""

CLAIM, PERFORM, SAY, START, RUN, STOP, REPORT, DONE = range(8)
NETWORK = frozenset((CLAIM, PERFORM, SAY, REPORT, DONE))
"""What takes a server that answers."""


@dataclass(eq=False, slots=True)
class Attempt:
    entry: DispatchEntry
    revision: int = 0
    stage: int = CLAIM
    ending: str = ""
    """'' while wanted, `stop` or `lost`."""
    claimed: bool = False
    proc: Proc | None = None
    given: DispatchEntry | None = None
    """What the work was given, with its later sizes."""
    resized: bool = False
    up: bool = False
    told_up: bool = False
    readiness: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    """Pod set -> pods that have ended for good."""
    told_ended: int = 0
    outcome: bool | None = None
    """Whether it succeeded, once it has ended by itself."""


@dataclass(eq=False)
class Executor:
    cell: "Cell"
    name: str
    flavors: tuple[str, ...] = ()
    lives: int = 1
    alive: bool = True
    connected: bool = True
    since: Micros = 0
    """Of its crash, or when it was cut off."""
    was_away: bool = False
    stopping: bool = False
    wanted: dict[JobKey, DispatchEntry] = field(default_factory=dict)
    attempts: dict[JobKey, Attempt] = field(default_factory=dict)
    waiting: dict[JobKey, None] = field(default_factory=dict)
    foreign: dict[JobKey, DispatchEntry] = field(default_factory=dict)
    missing: dict[str, Micros] = field(default_factory=dict)
    orphans: list[Proc] = field(default_factory=list)
    results: dict[tuple[JobKey, str, int], bool] = field(default_factory=dict)
    """How attempts ended of which that was not reported yet: the agent's RESULT files."""
    earlier: list[tuple[str, JobKey, str, int]] = field(default_factory=list)
    """Claims of earlier lives to be settled before it serves."""
    watcher: Watcher[DispatchEntry] = field(init=False)

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.cell.dispatch)

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.lives}"

    @property
    def able(self) -> bool:
        return self.alive and self.connected

    @property
    def beating(self) -> bool:
        """Is its heartbeat there? It lasts for a while after the last beat."""
        return self.able or self.cell.now - self.since < TTL

    # life

    def crash(self) -> None:
        """The process dies; what it had begun is left to the guardian."""
        self.alive = False
        self.since = self.cell.now
        for attempt in self.attempts.values():
            if attempt.proc is not None:
                self.orphans.append(attempt.proc)
            elif attempt.stage == REPORT and attempt.outcome is not None:
                entry = attempt.entry
                self.results[entry.job, entry.uid, entry.attempt] = attempt.outcome
        for kept in (self.attempts, self.wanted, self.waiting, self.foreign, self.missing):
            kept.clear()

    def end_orphans(self) -> bool:
        """End what an earlier life left."""
        for proc in self.orphans:
            self.cell.truth.end(proc)
        found, self.orphans = bool(self.orphans), []
        return found

    def restart(self) -> None:
        """Begin anew: end orphans, take over one's own name, settle earlier claims."""
        self.end_orphans()
        self.lives += 1
        self.alive = self.connected = True
        self.stopping = self.was_away = False
        self.watcher = Watcher(self.cell.dispatch)
        self.earlier = [
            self.cell.claimed[key]
            for key, kept in self.cell.claims.values.items()
            if kept.value.executor == self.name and kept.value.state == "Active"
        ]

    def cut(self) -> None:
        self.connected = False
        self.since = self.cell.now

    def reconnect(self) -> None:
        self.connected = True
        if self.cell.now - self.since > TTL:
            self.was_away = True

    # steps

    def settle_earlier(self) -> bool:
        """Report on one claim of an earlier life."""
        if not self.earlier:
            return False
        key, job, uid, number = self.earlier[0]
        outcome = self.results.get((job, uid, number))
        data: JobEvent
        if outcome is None:
            data = JobStopped(attempt=number, uid=uid, executor=self.name, message="was restarted")
        else:
            data = JobFinished(success=outcome, attempt=number, uid=uid, executor=self.name)
        if self.cell.report(job, data, f"{uid}-{number}-end"):
            self.earlier.pop(0)
            self._done(key, None)
        return True

    def follow(self, most: int) -> bool:
        """Hear of what is wanted."""
        watcher = self.watcher
        if not watcher.lag:
            return False
        if watcher.position == 0 or self.cell.gap():
            changes = watcher.begin_anew()
        else:
            changes = watcher.take(most)
        for job, entry in changes:
            self.take(JobKey(job), entry)
        return True

    def check(self) -> bool:
        """Compare every attempt with what is wanted now, and with its claim."""
        self.was_away = False
        for job, attempt in list(self.attempts.items()):
            self.refresh(job)
            if attempt.claimed and not self._mine(attempt.entry):
                self._end(attempt, "lost")
        return bool(self.attempts)

    def look_for_lost(self) -> bool:
        """Take over claims of executors that are gone."""
        if not self.foreign:
            self.missing.clear()
            return False
        now = self.cell.now
        for job, entry in list(self.foreign.items()):
            claim = self._claim_of(entry)
            if claim is None:
                del self.foreign[job]
                self.consider(job)
                continue
            held = claim.value
            if held.state == "Done" or self.cell.beats(held.executor):
                self.missing.pop(held.executor, None)
                continue
            since = self.missing.setdefault(held.executor, now)
            if (
                now - since >= TAKEOVER
                and job not in self.attempts
                and (entry.state == "Suspended" or self._serves(entry))
            ):
                del self.foreign[job]
                self.cell.taken_over(entry, held.executor)
                self.attempts[job] = Attempt(entry, claim.revision)
        return True

    def start_waiting(self) -> bool:
        for job in list(self.waiting):
            del self.waiting[job]
            entry = self.wanted.get(job)
            if entry is not None:
                self.attempts[job] = Attempt(entry)
                return True
        return False

    # following

    def take(self, job: JobKey, entry: DispatchEntry | None) -> None:
        if entry is not None and (entry.state == "Running" or entry.stop):
            self.wanted[job] = entry
        else:
            self.wanted.pop(job, None)
        self.consider(job)

    def consider(self, job: JobKey) -> None:
        entry, attempt = self.wanted.get(job), self.attempts.get(job)
        self.waiting.pop(job, None)
        foreign = self.foreign.get(job)
        if foreign is not None and (entry is None or not same(entry, foreign)):
            del self.foreign[job]
        if attempt is not None:
            if entry is None or not same(entry, attempt.entry):
                self._end(attempt, "lost")
            elif entry.state == "Suspended":
                self._end(attempt, "stop")
            else:
                self._resize(attempt, entry)
        elif entry is None or self.stopping:
            return
        elif job in self.foreign:
            self.foreign[job] = entry
        elif entry.state == "Suspended":
            self.attempts[job] = Attempt(entry)
        elif self._serves(entry):
            self.waiting[job] = None

    def _resize(self, attempt: Attempt, entry: DispatchEntry) -> None:
        before = attempt.entry
        if entry.seq < before.seq or before.state != "Running":
            return
        attempt.entry = entry
        if attempt.given is None or attempt.given is entry:
            return
        attempt.resized |= counts(attempt.given) != counts(entry)
        attempt.given = entry

    def _serves(self, entry: DispatchEntry) -> bool:
        return not self.flavors or all(
            flavor in self.flavors for pods in entry.pod_sets for flavor in pods.flavors.values()
        )

    def _end(self, attempt: Attempt, how: str) -> None:
        if attempt.ending not in ("lost", how):
            attempt.ending = how

    # one attempt

    def advance(self, attempt: Attempt) -> bool:
        """Do the next thing of an attempt; False if that waits for something."""
        match attempt.stage:
            case 0:  # CLAIM
                self._claim(attempt)
            case 1:  # PERFORM
                self.refresh(attempt.entry.job)
                if attempt.entry.state == "Suspended" or attempt.ending:
                    attempt.stage = REPORT
                else:
                    attempt.stage = SAY
            case 2:  # SAY
                entry = attempt.entry
                said = JobPodsReady(attempt=entry.attempt, uid=entry.uid, executor=self.name, ready=False)
                if self._report(attempt, said, f"claim-{self.instance}"):
                    attempt.given = attempt.entry
                    attempt.stage = REPORT if attempt.ending else START
            case 3:  # START
                self._start(attempt)
            case 4:  # RUN
                return self._run(attempt)
            case 5:  # STOP
                assert attempt.proc is not None
                self.cell.truth.end(attempt.proc)
                attempt.proc = None
                attempt.stage = REPORT
            case 6:  # REPORT
                self._finish(attempt)
            case _:
                if attempt.claimed:
                    entry = attempt.entry
                    self._done(claim_key(entry.job, entry.uid, entry.attempt), attempt.revision)
                self._leave(attempt)
        return True

    def _claim(self, attempt: Attempt) -> None:
        if attempt.ending == "lost":
            self._leave(attempt)
            return
        entry = attempt.entry
        key = claim_key(entry.job, entry.uid, entry.attempt)
        unanswered = self.cell.unanswered()
        if unanswered == "lost":
            return
        value = Claim(executor=self.name, instance=self.instance)
        self.cell.claimed[key] = (key, entry.job, entry.uid, entry.attempt)
        revision = self.cell.claims.put(key, value, expected=attempt.revision)
        if unanswered:
            return
        if revision is None:
            found = self._claim_of(entry)
            mine = (
                found is not None and found.value.instance == self.instance and found.value.state == "Active"
            )
            if found is None or not mine:
                self.foreign[entry.job] = entry
                self._leave(attempt)
                return
            revision = found.revision
        attempt.revision, attempt.claimed, attempt.stage = revision, True, PERFORM

    def _start(self, attempt: Attempt) -> None:
        if attempt.ending:
            attempt.stage = REPORT
            return
        entry = attempt.given
        assert entry is not None
        attempt.resized = False
        attempt.proc = Proc(
            entry.job, entry.uid, entry.attempt, entry.workload, self.name, self.instance, pods_of(entry)
        )
        attempt.proc.seq = entry.seq
        self.cell.truth.start(attempt.proc)
        attempt.stage = RUN

    def _run(self, attempt: Attempt) -> bool:
        """Go on with what runs: obey, resize, become ready, report ended pods."""
        if attempt.ending:
            attempt.stage = STOP
            return True
        proc, entry = attempt.proc, attempt.given
        assert proc is not None
        assert entry is not None
        if attempt.resized:
            attempt.resized, attempt.up, attempt.told_up = False, False, False
            ended = attempt.ended
            proc.pods = pods_of(entry)
            for name, pods in proc.pods.items():
                pods.running = max(0, pods.running - ended.get(name, 0))
            proc.seq = entry.seq
            self.cell.truth.changed[proc.job] = None
            return True
        if not attempt.up:
            attempt.up = True
            return True
        if not self.able:
            return False
        if not attempt.told_up:
            attempt.readiness += 1
            said = JobPodsReady(attempt=entry.attempt, uid=entry.uid, executor=self.name)
            attempt.told_up = self._report(attempt, said, f"ready{attempt.readiness}")
            return True
        total = sum(attempt.ended.values())
        if total > attempt.told_ended:
            reclaimed = JobPodsReclaimable(pods=dict(attempt.ended), attempt=entry.attempt, uid=entry.uid)
            if self._report(attempt, reclaimed, f"reclaimable{total}"):
                attempt.told_ended = total
            return True
        return False

    def pod_ends(self, attempt: Attempt, number: int) -> bool:
        """A pod has done its work and will not be needed again."""
        proc = attempt.proc
        if proc is None or attempt.stage != RUN:
            return False
        live = [name for name, pods in proc.pods.items() if pods.running > 1]
        if not live:
            return False
        name = live[number % len(live)]
        proc.pods[name].running -= 1
        attempt.ended[name] = attempt.ended.get(name, 0) + 1
        return True

    def work_ends(self, attempt: Attempt, *, success: bool) -> bool:
        """What runs ends of its own accord."""
        proc = attempt.proc
        if proc is None or attempt.stage != RUN:
            return False
        self.cell.truth.end(proc)
        if success:
            self.cell.truth.succeeded[proc.job, proc.uid] = proc.executor
        attempt.proc, attempt.outcome, attempt.stage = None, success, REPORT
        return True

    def readiness_lost(self, attempt: Attempt) -> bool:
        """A pod is not ready any more; that will be said, and that it is again."""
        entry = attempt.given
        if attempt.stage != RUN or not attempt.told_up or entry is None:
            return False
        attempt.readiness += 1
        said = JobPodsReady(attempt=entry.attempt, uid=entry.uid, executor=self.name, ready=False)
        if self._report(attempt, said, f"ready{attempt.readiness}"):
            attempt.told_up = False
        return True

    def _finish(self, attempt: Attempt) -> None:
        entry = attempt.entry
        if attempt.ending == "lost":
            attempt.stage = DONE
            return
        data: JobEvent
        if attempt.outcome is not None:
            data = JobFinished(
                success=attempt.outcome, attempt=entry.attempt, uid=entry.uid, executor=self.name
            )
        else:
            data = JobStopped(attempt=entry.attempt, uid=entry.uid, executor=self.name)
        if self._report(attempt, data, "end"):
            attempt.stage = DONE

    def _leave(self, attempt: Attempt) -> None:
        job = attempt.entry.job
        self.attempts.pop(job, None)
        newest = self.wanted.get(job)
        if newest is not None and not same(newest, attempt.entry):
            self.consider(job)

    # buckets

    def refresh(self, job: JobKey) -> None:
        found = self.cell.dispatch.get(job)
        self.take(job, found.value if found is not None else None)

    def _report(self, attempt: Attempt, data: JobEvent, what: str) -> bool:
        entry = attempt.entry
        return self.cell.report(entry.job, data, f"{entry.uid}-{entry.attempt}-{what}")

    def _claim_of(self, entry: DispatchEntry) -> Kept[Claim] | None:
        return self.cell.claims.get(claim_key(entry.job, entry.uid, entry.attempt))

    def _mine(self, entry: DispatchEntry) -> bool:
        found = self._claim_of(entry)
        return found is not None and found.value.instance == self.instance

    def _done(self, key: str, revision: int | None) -> None:
        value: Any = Claim(executor=self.name, instance=self.instance, state="Done")
        self.cell.claims.put(key, value, expected=revision, expires=self.cell.now + KEEP_DONE)


def same(one: DispatchEntry, other: DispatchEntry) -> bool:
    return one.uid == other.uid and one.attempt == other.attempt


def counts(entry: DispatchEntry) -> dict[str, int]:
    return {pods.name: pods.count for pods in entry.pod_sets}


__all__ = ["Attempt", "Executor"]
