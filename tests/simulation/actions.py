"""What can happen next: each action is a step, chosen by weights that the seed has drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.core.config.objects import object_key
from sluice.events.base import JobKey, Micros
from sluice.events.job import JobActivated, JobDeactivated, JobDeleted, JobScaled
from sluice.protocol.subjects import presence_suffix
from sluice.services.admission_check.presence import Controllers
from sluice.services.agent.pods import Pod
from sluice.services.slice_aggregator.presence import Agents

from .cell import STEP_TIME, Cell
from .choices import Choices, Weights
from .controllers import Controller
from .executors import Executor, Life
from .grammar import CONTROLLERS, Grammar, Manifest, copied
from .jobs import JobGrammar
from .log import SECOND
from .pods import LARGE, Work
from .queries import Queries
from .replica import Fenced, Replica
from .swarm import Features

NAMES = tuple(f"j{n}" for n in range(14))
LOST_AFTER: Micros = 3 * SECOND
TELL_AGAIN: Micros = 5 * SECOND
EXPIRY: Micros = 5 * SECOND
RUNS = frozenset({Pod.RUNNING})
BACKLOG = 80
"""Nobody submits more while the service that answers is so far behind."""

Action = Callable[[], bool]

USUAL = frozenset(("deliver", "store", "project", "tick", "follow", "question", "pods", "control", "lead"))
"""What happens all the time in a cell at work."""

STEADY = frozenset(("return", "lead", "executor-back", "controller-back"))
"""What ends faults: in no run so rare that nothing else happens any more."""


def _rotated(ways: Sequence[tuple[str, Action]]) -> list[list[tuple[str, Action]]]:
    """Return all of *ways*, from each of them on."""
    return [[*ways[first:], *ways[:first]] for first in range(len(ways))]


@dataclass
class Actions:
    cell: Cell
    grammar: Grammar
    jobs: JobGrammar
    quick: float = 0.7
    """How often a commit is stored and acknowledged at once."""
    told: dict[tuple[str, str, str], Micros] = field(default_factory=dict)
    unheard: dict[tuple[str, str], Micros] = field(default_factory=dict)
    """(kind, name) of who is expected and has no heartbeat -> when it had one last, or was first expected."""
    queries: Queries = field(init=False)
    table: list[tuple[str, Action]] = field(default_factory=list)
    usual: list[list[tuple[str, Action]]] = field(default_factory=list)
    """What happens all the time, from each of these on."""
    quiet: list[list[tuple[str, Action]]] = field(default_factory=list)
    """What may happen where all is quiet, from each of these on."""
    weights: Weights = field(init=False)
    choices: Choices = field(init=False)

    def __post_init__(self) -> None:
        self.choices = self.cell.choices
        on, choices = self.cell.on, self.choices
        self.queries = Queries(self.cell)
        rows: list[tuple[str, float, Action]] = [
            ("deliver", 40, self.deliver),
            ("store", 6, self.store),
            ("project", 8, self.project),
            ("tick", 2, self.tick),
            ("follow", 8, self.follow),
            ("question", 16, self.question),
            ("alarm", 6, self.alarm),
            ("pods", 8, self.pods_move),
            ("work", 2.5, self.work_ends),
            ("control", 5 if on.checks else 0, self.control),
            ("time", 1.5, self.pass_time),
            ("presence", 1, self.presence),
            ("submit", 3, self.submit),
            ("finalize", 0.2, self.cell.finalize),
            ("edit-job", 1.6 if on.job_edits else 0, self.edit_job),
            ("switch-job", 0.3 if on.inactive else 0, self.switch_job),
            ("delete-job", 0.5 if on.deletions else 0, self.delete_job),
            ("edit", 0.7 if on.config_edits else 0, self.edit),
            ("delete", 0.12 if on.config_edits and on.deletions else 0, self.delete),
            ("again", 0.25 if on.config_edits and on.deletions else 0, self.make_again),
            ("pod-ends", 0.7 if on.reclaimable else 0, self.pod_ends),
            ("unready", 0.3 if on.pods_ready else 0, self.unready),
            ("crash", 0.35 if on.crashes else 0, self.crash),
            ("return", 2, self.come_back),
            ("pause", 0.25 if on.pauses else 0, self.pause),
            ("lead", 2, self.take_over),
            ("depose", 0.3 if on.pauses and on.standby else 0, self.depose),
            ("skew", 0.1 if on.skews else 0, self.skew),
            ("snapshot", 0.25 if on.snapshots else 0, self.snapshot),
            ("executor-crash", 0.2 if on.executor_crashes else 0, self.executor_crash),
            ("executor-cut", 0.2 if on.executor_cuts else 0, self.executor_cut),
            ("executor-back", 1, self.executor_back),
            ("bucket-lost", 0.2 if on.lost_buckets else 0, self.bucket_lost),
            ("shutdown", 0.05 if on.shutdowns else 0, self.shutdown),
            ("controller-away", 0.15 if on.checks and on.controllers_away else 0, self.controller_away),
            ("controller-back", 0.4 if on.checks else 0, self.controller_back),
            ("copy", 0.6 if on.late_copies else 0, self.late_copy),
            ("query", 0.5 if on.queries else 0, self.queries.ask),
            ("garbage", 0.15 if on.garbage else 0, self.garbage),
        ]
        factors = (1.0, 1.0, 0.5, 2.0, 0.2, 4.0)
        drawn = [
            weight if name in STEADY or not weight else weight * choices.pick(factors)
            for name, weight, _ in rows
        ]
        self.table = [(name, action) for name, _, action in rows]
        self.usual = _rotated([(name, action) for name, action in self.table if name in USUAL])
        people = [
            (name, action)
            for (name, action), weight in zip(self.table, drawn, strict=True)
            if weight and name in ("delete-job", "edit-job", "work", "edit")
        ]
        self.quiet = _rotated(
            [("submit", self.submit), ("alarm", self.alarm), ("time", self.pass_time), *people]
        )
        self.weights = Weights(drawn)
        self.quick = choices.pick((0.7, 0.95, 0.3)) if on.slow_services else 1.0
        self.most = choices.pick((1, 3, 100))

    def next(self) -> str:
        """Do the next thing; what is not possible gives way to what keeps a cell going. '' if nothing is."""
        self.cell.log.now += STEP_TIME
        name, action = self.table[self.choices.weighted(self.weights)]
        if action():
            return name
        for ways in (self.usual, self.quiet):
            for name, action in ways[self.choices.below(len(ways))]:
                if action():
                    return name
        return ""

    # services

    def deliver(self) -> bool:
        """Let a replica have what comes next in the log, and decide if it leads."""
        able = [r for r in self.cell.replicas if r.alive and not r.paused and r.cursor < len(r.entries)]
        if not able:
            return False
        replica = self.choices.pick(able)
        most = self.choices.pick((1, 2, 10, 1000))
        try:
            if not replica.machine.leads:
                replica.take_in(max(most, 20))  # it may be fenced, but only comes to lead when it takes over
                return True
            replica.take_in(most)
            self._carry(replica)
        except Fenced:
            self.fenced(replica)
        return True

    def _carry(self, replica: Replica) -> None:
        """Mostly what was decided is committed and acknowledged at once."""
        if (
            replica.flight is None
            and (replica.unsent or replica.machine.pending)
            and (self.quick >= 1.0 or self.choices.chance(self.quick))
        ):
            replica.send(1000)
            replica.arrive()
            try:
                replica.hear()
            except Fenced:
                self.fenced(replica)

    def store(self) -> bool:
        """Let a commit go on its way: sent, stored, answered; messages and answers may get lost."""
        busy = [
            r
            for r in self.cell.replicas
            if r.machine.leads
            and r.alive
            and not r.paused
            and (r.flight is not None or r.unsent or r.machine.pending)
        ]
        if not busy:
            return False
        replica = self.choices.pick(busy)
        if replica.flight is None:
            replica.send(self.choices.pick((1000, self.most)))
        elif not replica.flight.answered:
            lost = self.cell.unanswered()
            if lost == "lost":
                self.cell.delay(replica.copy())
            else:
                replica.arrive(knows=not self.choices.chance(0.3))
                if lost:
                    replica.unanswered()
        elif not self.cell.unanswered():
            try:
                replica.hear()
            except Fenced:
                self.fenced(replica)
        return True

    def fenced(self, replica: Replica) -> None:
        """Another leads: drop the state and become a stand-by."""
        self.cell.stats.fault("fenced")
        self._leave(replica)
        replica.begin(self._some_snapshot(replica))

    def _leave(self, replica: Replica) -> None:
        """A leader's life ends: what it has sent may arrive, although it does not wait for the answer."""
        if replica.flight is not None and not replica.flight.answered:
            self.cell.delay(replica.copy())
        if replica.service.holder is replica:
            replica.service.holder = None

    def _some_snapshot(self, replica: Replica) -> Any:
        kept = replica.service.snapshots
        if not kept or not self.choices.chance(0.7):
            return None
        return self.choices.pick(kept)

    def project(self) -> bool:
        """Let a leader write what it shows, or look at what is there."""
        due = [p for p in self.cell.publishers if p.due]
        # Who is idle looks at its bucket every second, and mostly sees what it has left there.
        ready = [p for p in due if p.todo or not p.machine.idle]
        if not ready and due and self.choices.chance(0.2):
            ready = due
        if not ready:
            return False
        publisher = self.choices.pick(ready)
        try:
            publisher.step(quick=self.quick >= 1.0 or self.choices.chance(self.quick))
        except Fenced:
            if publisher.replica is not None:
                self.fenced(publisher.replica)
        return True

    def tick(self) -> bool:
        """Let a leader act because of the time."""
        for replica in self.cell.replicas:
            machine = replica.machine
            if machine.due is not None and machine.leads and replica.able and replica.now >= machine.due:
                replica.settle()
                self._carry(replica)
                return True
        return False

    def crash(self) -> bool:
        alive = [r for r in self.cell.replicas if r.alive]
        if not alive:
            return False
        replica = self._busy_one(alive)
        if replica.flight is not None and not replica.flight.answered and self.choices.chance(0.5):
            replica.arrive()
        self._leave(replica)
        replica.crash()
        self.cell.stats.fault("crash")
        return True

    def come_back(self) -> bool:
        away = [r for r in self.cell.replicas if not r.alive or r.paused]
        if not away:
            return False
        replica = self.choices.pick(away)
        if not replica.alive:
            replica.paused = False
            replica.start(self._some_snapshot(replica))
        else:
            replica.paused = False
            holder = replica.service.holder
            if replica.leading and holder is not replica and self.choices.chance(0.5):
                # It looks at its lease before anything else.
                self.fenced(replica)
        return True

    def pause(self) -> bool:
        able = [r for r in self.cell.replicas if r.able]
        if not able:
            return False
        replica = self._busy_one(able)
        replica.paused = True
        self.cell.stats.fault("pause")
        return True

    def take_over(self) -> bool:
        for service in self.cell.services.values():
            holder = service.holder
            if holder is not None and holder.machine.leads and holder.alive and not holder.paused:
                continue
            if holder is not None and holder.seeks and holder.able:
                replica = holder
            else:
                able = [r for r in service.replicas if r.able and not r.leading]
                if not able:
                    continue
                replica = self.choices.pick(able)
                replica.take_in(1000)
                replica.seek()
                if not self.cell.calm and self.choices.chance(0.2):
                    return True
            replica.lead()
            self._carry(replica)
            return True
        return False

    def _busy_one(self, replicas: Sequence[Replica]) -> Replica:
        """Return any of them, as often as not one that waits for an answer of the log or of a bucket."""
        busy = [r for r in replicas if r.busy or (r.publisher is not None and r.publisher.todo)]
        return self.choices.pick(busy if busy and self.choices.chance(0.5) else replicas)

    def depose(self) -> bool:
        """The lease moves although its holder is well: for a while two believe to lead."""
        if all(service.holder is None for service in self.cell.services.values()):
            return False
        service = self._busy_one([r for r in self.cell.replicas if r.service.holder is r]).service
        able = [r for r in service.replicas if r.able and not r.leading]
        if not able:
            return False
        self.choices.pick(able).take_over()
        self.cell.stats.fault("depose")
        return True

    def skew(self) -> bool:
        replica = self.choices.pick(self.cell.replicas)
        replica.skew = self.choices.pick((0, -SECOND, SECOND, -60 * SECOND, 60 * SECOND))
        self.cell.stats.fault("skew")
        return True

    def snapshot(self) -> bool:
        leaders = [r for r in self.cell.replicas if r.leading and r.able and r.idle]
        if not leaders:
            return False
        replica = self.choices.pick(leaders)
        found = replica.snapshot()
        if found is None or replica.service.holder is not replica:
            return False
        replica.service.snapshots.append(found)
        return True

    # time and presence

    def pass_time(self) -> bool:
        choices, cell = self.choices, self.cell
        match choices.below(8):
            case 0 | 1 | 2 | 3:
                cell.wait(choices.pick((SECOND, SECOND // 5, 3 * SECOND)))
            case 4 | 5:
                due = [at for at in cell.deadlines() if at > cell.now]
                if not due:
                    return False
                cell.wait(min(min(due) - cell.now, 120 * SECOND))
            case 6:
                cell.wait(10 * SECOND)
            case _:
                cell.wait(choices.pick((60, 30, 400)) * SECOND)
        return True

    def presence(self) -> bool:
        """Let a leader compare heartbeats with what the log says of them."""
        kind = "controller" if self.cell.on.checks and self.choices.chance(0.5) else "agent"
        return self.look_at(kind)

    def look_at(self, kind: str) -> bool:
        cell = self.cell
        leader = cell.leader("slices" if kind == "agent" else "checks")
        if leader is None:
            return False
        state = leader.state
        who: dict[str, Executor | Controller]
        known: Agents | Controllers
        if kind == "agent":
            who, known = {each.name: each for each in cell.executors}, Agents()
        else:
            who, known = {each.name: each for each in cell.controllers}, Controllers()
        expected = {name for name in known.expected(state) if not who[name].beating}
        for name, each in who.items():
            if name not in expected:
                self.unheard.pop((kind, name), None)
            else:
                since = each.since if known.present(state, name) else cell.now
                self.unheard.setdefault((kind, name), since)
        said = False
        for name, each in who.items():
            if each.beating:
                if not known.present(state, name):
                    said |= self._tell(kind, name, "Seen")
            elif name in expected and cell.now - self.unheard[kind, name] >= EXPIRY + LOST_AFTER:
                del self.unheard[kind, name]
                said |= self._tell(kind, name, "Lost")
        return said

    def _tell(self, kind: str, name: str, what: str) -> bool:
        cell = self.cell
        last = self.told.get((kind, name, what))
        if last is not None and cell.now - last < TELL_AGAIN:
            return False
        self.told[kind, name, what] = cell.now
        self.told.pop((kind, name, "Lost" if what == "Seen" else "Seen"), None)
        cell.message(presence_suffix(kind, name), what, {})
        return True

    # executors

    def _lives(self) -> list[Life]:
        return [each.life for each in self.cell.executors if each.life is not None and not each.life.ended]

    def follow(self) -> bool:
        """Let an executor hear of what is wanted."""
        able = [
            life
            for life in self._lives()
            if life.executor.connected and life.watcher is not None and life.watcher.behind
        ]
        if not able:
            return False
        return self.choices.pick(able).follow(self.choices.pick((1000, 1, 3)))

    def question(self) -> bool:
        """Answer something that an executor asks."""
        lives = [life for life in self._lives() if life.asked]
        if not lives:
            return False
        found = [(life, ask) for life in lives for ask in life.asked]
        life, ask = self.choices.pick(found)
        if self.choices.chance(0.5):
            life.answer(ask)
        else:
            for each in list(life.asked):
                life.answer(each)
        return True

    def alarm(self) -> bool:
        """Let an executor act because of the time."""
        lives = self._lives()
        return bool(lives) and self.choices.pick(lives).tick()

    def pods_move(self) -> bool:
        lives = [life for life in self._lives() if life.works]
        return bool(lives) and self.choices.pick(lives).pods_move(self.choices)

    def _running(self) -> list[Work]:
        return [work for life in self._lives() for work in life.works.values() if not work.over]

    def work_ends(self) -> bool:
        """All pods of a job that run end by themselves, most of them well."""
        found = self._running()
        if not found:
            return False
        work = self.choices.pick(found)
        fails = self.cell.on.failures and self.choices.chance(0.2)
        pods = work.pods(RUNS)
        for pod in pods:
            if work.over or work.machine.state(pod) is not Pod.RUNNING:
                break
            work.exits(pod, 1 if fails else 0)
        return bool(pods)

    def pod_ends(self) -> bool:
        """One pod ends by itself."""
        found = self._running()
        if not found:
            return False
        work = self.choices.pick(found)
        pods = work.pods(RUNS)
        if not pods:
            return False
        work.exits(self.choices.pick(pods), 1 if self.cell.on.failures and self.choices.chance(0.2) else 0)
        return True

    def unready(self) -> bool:
        found = [work for work in self._running() if work.readiness]
        if not found:
            return False
        self.choices.pick(found).unready()
        return True

    def executor_crash(self) -> bool:
        able = [each for each in self.cell.executors if each.alive]
        if not able:
            return False
        self.choices.pick(able).crash()
        self.cell.stats.fault("executor-crash")
        return True

    def executor_cut(self) -> bool:
        able = [each for each in self.cell.executors if each.able]
        if not able:
            return False
        self.choices.pick(able).cut()
        self.cell.stats.fault("executor-cut")
        return True

    def executor_back(self) -> bool:
        away = [each for each in self.cell.executors if not each.able]
        if not away:
            return False
        executor = self.choices.pick(away)
        if executor.alive:
            executor.reconnect()
        else:
            executor.begin()
        return True

    def shutdown(self) -> bool:
        """An executor ends in order: what runs is stopped and reported, so that it runs elsewhere."""
        able = [life for life in self._lives() if life.executor.connected]
        if not able:
            return False
        life = self.choices.pick(able)
        life.do(life.machine.stop(life.now))
        self.cell.stats.fault("shutdown")
        return True

    def bucket_lost(self) -> bool:
        """Somebody deletes a bucket; whoever writes it notices some time."""
        which = self.choices.pick(("dispatch", "checks", "claims"))
        if which == "claims":
            self.cell.claims.lose()
        else:
            self.cell.shown["slices" if which == "dispatch" else "checks"].bucket.lose()
        self.cell.stats.fault(f"{which}-lost")
        return True

    # controllers

    def control(self) -> bool:
        able = [each for each in self.cell.controllers if each.alive]
        if not able:
            return False
        controller = self.choices.pick(able)
        if self.choices.chance(0.5) and controller.follow(self.choices.pick((1000, 1))):
            return True
        if self.cell.on.rare_verdicts and self.choices.chance(0.02):
            return controller.odd(self.choices)
        return controller.term.step(self.choices) or controller.follow(1000)

    def controller_away(self) -> bool:
        able = [each for each in self.cell.controllers if each.alive]
        if not able:
            return False
        controller = self.choices.pick(able)
        if self.choices.chance(0.5):
            controller.replace()
            self.cell.stats.fault("controller-replaced")
        else:
            controller.leave()
            self.cell.stats.fault("controller-away")
        return True

    def controller_back(self) -> bool:
        away = [each for each in self.cell.controllers if not each.alive]
        if not away:
            return False
        self.choices.pick(away).come()
        return True

    # people

    def submit(self) -> bool:
        cell, choices = self.cell, self.choices
        live = cell.watchman.slices.jobs
        if cell.log.end - cell.watchman.standers["slices"].fold.own > BACKLOG:
            return False
        free = [name for name in NAMES if JobKey(f"default/{name}") not in live]
        if cell.on.resubmission and choices.chance(0.1):
            known = [name for name in NAMES if name in cell.manifests]
            if known:
                cell.submit(cell.manifests[choices.pick(known)])
                return True
        if not free:
            return False
        many = 3 if cell.on.bursts and choices.chance(0.1) else 1
        for name in free[:many]:
            cell.submit(self.jobs.job(name))
        return True

    def _some_job(self) -> str:
        """Return a live job, one that runs as often as not."""
        truth = self.cell.truth
        live = [key.partition("/")[2] for key in self.cell.watchman.slices.jobs]
        running = [name for name in live if truth.of(JobKey(f"default/{name}"))]
        if running and self.choices.chance(0.5):
            live = running
        return self.choices.pick(live) if live else ""

    def edit_job(self) -> bool:
        name = self._some_job()
        before = self.cell.manifests.get(name)
        if before is None:
            return False
        elastic = "kueue.x-k8s.io/elastic-job" in before["metadata"]["annotations"]
        if self.choices.chance(0.8 if elastic else 0.25):
            for _ in range(
                3 if self.choices.chance(0.15) else 1
            ):  # an autoscaler that cannot make up its mind
                data = JobScaled(pod_sets=self.jobs.pod_sets(before))
                self.cell.message(f"job.default.{name}", "JobScaled", data)
            self.cell.watchman.touched_by_people()
            return True
        self.cell.submit(self.jobs.edited(before))
        return True

    def switch_job(self) -> bool:
        """Stop a job without deleting it, or let it go on."""
        name = self._some_job()
        if not name:
            return False
        job = self.cell.watchman.slices.jobs[JobKey(f"default/{name}")]
        data = JobDeactivated() if job.record.active else JobActivated()
        self.cell.message(f"job.default.{name}", type(data).__name__, data)
        self.cell.watchman.touched_by_people()
        return True

    def delete_job(self) -> bool:
        name = self._some_job()
        if not name:
            return False
        self.cell.message(f"job.default.{name}", "JobDeleted", JobDeleted())
        self.cell.watchman.touched_by_people()
        return True

    def edit(self) -> bool:
        found = self.grammar.edit()
        if found is None:
            return False
        if not self.cell.apply(found):
            self.grammar.note(found)
        self.cell.watchman.touched_by_people()
        return True

    def delete(self) -> bool:
        kind, name = self.grammar.deletion()
        self.cell.watchman.touched_by_people()
        return bool(name) and self.cell.delete(kind, name)

    def make_again(self) -> bool:
        """Make something again that is not there."""
        objects = self.cell.objects
        gone = [
            (kind, name)
            for kind, name in self.grammar.objects
            if objects.get(kind, object_key(kind, "default", name)) is None
        ]
        if not gone:
            return False
        found = self.grammar.again(*self.choices.pick(gone))
        if found is None:
            return False
        if not self.cell.apply(found):
            self.grammar.note(found)
        self.cell.watchman.touched_by_people()
        return True

    def late_copy(self) -> bool:
        cell = self.cell
        if cell.delayed and (not cell.transit or self.choices.chance(0.5)):
            cell.delayed.pop(self.choices.below(len(cell.delayed)))()
            return True
        if not cell.transit:
            return False
        suffix, payload, message_id = cell.transit.pop(self.choices.below(len(cell.transit)))
        cell.log.message(suffix, payload, message_id)
        return True

    def _take_id(self, suffix: str) -> None:
        """Somebody else uses the message id of a commit that is on its way."""
        flights = [r.flight for r in self.cell.replicas if r.flight is not None and not r.flight.answered]
        if flights:
            self.cell.log.message(suffix, b"{", self.choices.pick(flights).send.message_id)

    def garbage(self) -> bool:
        """Publish what cannot be taken."""
        choices, cell = self.choices, self.cell
        name = self._some_job() or "j0"
        suffix = f"job.default.{name}"
        match choices.below(11 if cell.on.large else 8):
            case 0:
                cell.ids += 1
                cell.log.message(suffix, b"{", f"m{cell.ids}")
            case 1:
                cell.message(suffix, "JobPaused", {})
            case 2:
                cell.message(suffix, "JobPodsReady", {"attempt": 99})
            case 3:
                cell.message(suffix, "JobScaled", {"podSets": {"nobody": 3, "main": -1}})
            case 4:
                cell.message("job.default.never", "JobStopped", {"attempt": 1})
            case 5:
                self._take_id(suffix)
            case 6:
                cell.message("verdict.ctl-a", "CheckVerdict", {"workload": "x", "state": "Ready"})
            case 7:
                cell.message(suffix, "JobSubmitted", {"kind": "Job", "apiVersion": "batch/v1"})
            case 8:
                found = copied(cell.manifests.get(name) or self.jobs.job(name))
                found["metadata"]["annotations"]["example.com/data"] = LARGE
                cell.message(suffix, "JobSubmitted", found)
            case 9:
                cell.message(suffix, choices.pick(("JobDeleted", "JobDeactivated")), {"message": LARGE})
            case _:
                verdict = {"workload": "default/j0", "check": "check-a", "attempt": 1, "state": "Ready"}
                cell.message("verdict.ctl-a", "CheckVerdict", {**verdict, "message": LARGE})
        if cell.log.entries:
            cell.watchman.garbage.add(cell.log.entries[-1].header)  # of copies that come late, too
        cell.stats.fault("garbage")
        return True


def prepare(
    cell: Cell,
    without: frozenset[tuple[str, str]] = frozenset(),
    world: Callable[[Choices], list[Manifest]] | None = None,
) -> Actions:
    """Make a world's objects (but those *without*), executors and controllers, and the actions on them."""
    choices, on = cell.choices, cell.on
    grammar = Grammar(choices, on)
    found = grammar.world() if world is None else grammar.take(world(choices))
    objects = [each for each in found if (each["kind"], each["metadata"]["name"]) not in without]
    cell.apply(*objects)
    for name in CONTROLLERS if on.checks else ():
        cell.controllers.append(Controller(cell, name))
        cell.message(presence_suffix("controller", name), "Seen", {})
    for number in range(choices.between(1, 3)):
        flavors: tuple[str, ...] = ()
        if number and on.flavor_choice and choices.chance(0.3):
            flavors = (choices.pick(grammar.flavors),)
        executor = Executor(cell, f"e{number}", flavors)
        cell.executors.append(executor)
        executor.begin()
        cell.message(presence_suffix("agent", executor.name), "Seen", {})
    if on.silent_executors:
        cell.executors.append(Executor(cell, "silent", silent=True))
        cell.executors[-1].begin()
    return Actions(cell, grammar, JobGrammar(choices, on, grammar))


__all__ = ["Actions", "Features", "prepare"]
