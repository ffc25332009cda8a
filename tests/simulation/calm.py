"""Liveness: faults end, everybody is healthy and does what is asked, time runs; all must come to rest.

Within a bound every job has finished, or waits for a reason that is true: alone in an idle cell it
could not be admitted either.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.events.base import Event, JobKey, Micros, WorkloadKey
from sluice.sdk.execution.actions import Publish, PutClaim, Recover
from sluice.services.agent.pods import Pod

from .actions import RUNS, Actions
from .budget import check_counted
from .cell import Cell
from .choices import Choices
from .executors import Executor
from .log import SECOND, steps_of
from .plain import must_run
from .pods import BEGINNING, ENDING, Work
from .replica import Fenced, Replica
from .swarm import nothing

ROUNDS = 600
"""So many rounds of everybody doing all there is to do; a cell that goes on then goes on for ever."""

CONTENDING = 60
"""So many rounds at most in which no job ends."""

ALARMS = 6
"""So often the executors' alarms are waited for before time is let run on."""

ASKED = 6
"""Of so many jobs that wait it is found out whether they would run alone."""

HORIZON: Micros = 7 * 86_400 * SECOND
"""What is due later is not waited for."""


@dataclass
class Calm:
    cell: Cell
    actions: Actions
    rounds: int = 0
    steps: int = 0
    ends: bool = True
    """Whether what runs comes to its end."""

    def run(self) -> None:
        """Play until nobody has anything to do any more; at first while no job ends, so that all compete."""
        self.begin()
        self.contend()
        end = self.cell.now + HORIZON
        idle = 0
        for _ in range(ROUNDS):
            self.rounds += 1
            if self._round():
                idle = 0
                continue
            idle += 1
            if idle <= ALARMS:
                # Executors look around every few seconds, and wait before they take over.
                self.cell.wait(3 * SECOND)
                continue
            due = [at for at in self.cell.deadlines() if at > self.cell.now]
            if not due or min(due) > end:
                return
            self.cell.wait(min(due) - self.cell.now + 1)
        self.cell.watchman.fail("comes-to-rest", f"still busy after {ROUNDS} rounds: {self._busy()}")

    def contend(self) -> None:
        """Let all there is to preempt be preempted: without any input it comes to an end."""
        self.ends = False
        for _ in range(CONTENDING):
            self.rounds += 1
            if not self._round():
                if self.cell.on.budgets:
                    check_counted(self.cell)
                break
            self.cell.watchman.rested()
        self.ends = True

    def begin(self) -> None:
        """End all faults."""
        cell = self.cell
        cell.calm = True
        cell.watchman.touched_by_people()
        for replica in cell.replicas:
            replica.skew = 0
            replica.paused = False
            if not replica.alive:
                replica.start(None)
            elif replica.leading and replica.service.holder is not replica:
                self._fenced(replica)
        for executor in cell.executors:
            if executor.silent:
                executor.crash()  # for good; nobody has ever said that it was there
                continue
            if not executor.alive:
                executor.begin()
            executor.reconnect()
        for controller in cell.controllers:
            if not controller.alive:
                controller.come()
        while cell.transit:
            suffix, payload, message_id = cell.transit.pop(0)
            cell.log.message(suffix, payload, message_id)
        while cell.delayed:
            cell.delayed.pop(0)()

    def _fenced(self, replica: Replica) -> None:
        if replica.service.holder is replica:
            replica.service.holder = None
        replica.begin(None)

    def _round(self) -> bool:
        """Let everybody do all that there is to do now; tell whether anybody did anything."""
        found = False
        for part in (self._services, self._presence, self._controllers, self._executors):
            found |= part()
        self.cell.log.now += 1000
        return found

    def _did(self, done: object) -> bool:
        if done:
            self.steps += 1
        return bool(done)

    def _services(self) -> bool:
        cell, found = self.cell, False
        while self.actions.take_over():
            found = True
        for replica in cell.replicas:
            if not replica.able:
                continue
            try:
                found |= self._did(replica.take_in(10_000))
                due = replica.machine.due
                if replica.leading and (
                    not replica.machine.settled or (due is not None and replica.now >= due)
                ):
                    replica.settle()
                while replica.leading and replica.busy:
                    if replica.flight is None:
                        replica.send(10_000)
                    replica.arrive()
                    replica.hear()
                    found |= self._did(True)
            except Fenced:
                self._fenced(replica)
                found = True
        for publisher in cell.publishers:
            while publisher.due:
                found |= self._did(publisher.step(quick=True))
        found |= self._did(cell.finalize())
        return found

    def _presence(self) -> bool:
        found = False
        for kind in ("agent", "controller"):
            found |= self._did(self.actions.look_at(kind))
        return found

    def _controllers(self) -> bool:
        cell, found = self.cell, False
        for controller in cell.controllers:
            while controller.follow(10_000):
                found |= self._did(True)
            found |= self._did(controller.term.calm())
        return found

    def _executors(self) -> bool:
        found = False
        for executor in self.cell.executors:
            life = executor.life
            if life is None or not self._awake(executor):
                continue
            if life.ended:
                executor.begin()
                continue
            if executor.connected:
                found |= self._did(life.follow(10_000))
            while life.asked:
                does = isinstance(life.asked[0].request, Publish | PutClaim | Recover)
                life.answer(life.asked[0])
                found |= self._did(does)
            life.tick()
            for work in list(life.works.values()):
                found |= self._work(work)
            self.cell.watchman.ran()
        return found

    def _awake(self, _executor: Executor) -> bool:
        return True

    def _work(self, work: Work) -> bool:
        """Pods begin, and end when they are told to; every third round what runs has done its work."""
        found = self._did(work.tick())
        for pod in work.pods(BEGINNING):
            work.starts(pod)
            found |= self._did(True)
        for pod in work.pods(ENDING):
            work.exits(pod, 0)
            found |= self._did(True)
        if not self.ends:
            return found
        if self.rounds % 3 == 0:
            for pod in work.pods(RUNS):
                if not work.over and work.machine.state(pod) is Pod.RUNNING:
                    work.exits(pod, 0)
                    found |= self._did(True)
        return found or bool(not work.over and work.pods(RUNS))

    def _busy(self) -> str:
        tail = self.cell.log.entries[-12:]
        return ", ".join(f"{entry.suffix} at {entry.seq}" for entry in tail)


def _leader(cell: Cell, writer: str = "scheduler") -> Any:
    """Return the state of who leads a service: it has folded everything."""
    holder = cell.services[writer].holder
    assert holder is not None
    return holder.state


def waiting(cell: Cell) -> Iterator[JobKey]:
    """Yield the jobs that are not over and could be: those that are inactive wait for people."""
    for key, job in _leader(cell, "slices").jobs.items():
        if job.record.active and not _paused(cell, key) and not _failed(cell, job.record.key):
            yield key


def _failed(cell: Cell, key: WorkloadKey) -> bool:
    """Has a variant of the job been given up for good, by a check or after too many tries?"""
    family = _leader(cell, "variants").families.get(key)
    return family is not None and any(variant.failed for variant in family.variants.values())


def _paused(cell: Cell, job: JobKey) -> bool:
    """Does the job run without pods until somebody resizes it (parallelism 0)?"""
    procs = cell.truth.of(job)
    return bool(procs) and not any(pods.running for proc in procs for pods in proc.pods.values())


def check_waiting(cell: Cell) -> None:
    """Every job that is left could not be admitted alone either, or waits behind one that cannot."""
    stuck = list(waiting(cell))
    jobs = _leader(cell, "slices").jobs
    # Who waits in such a tree may wait behind a head that can never run.
    strict = {tree for key in stuck for tree in _strict_trees(cell, key)}
    asked = [key for key in stuck if not strict.intersection(_trees(cell, key))]
    for key in asked:
        if must_run(cell, jobs[key].record, key):
            cell.watchman.fail(
                "liveness", f"{key} waits for ever, and its queue has the quota: {_why(cell, key)}"
            )
    heads = set(_strict_heads(cell))
    asked += [key for key in stuck if key in heads and key not in asked]
    # Of those who ask for the same one is enough.
    different = {_shape(jobs[key]): key for key in asked}
    alone = Alone(cell)
    for key in list(different.values())[-ASKED:]:
        if alone.runs(key):
            cell.watchman.fail("liveness", f"{key} waits for ever; alone it would run: {_why(cell, key)}")


def _strict_heads(cell: Cell) -> Iterator[JobKey]:
    """Yield the jobs at the head of StrictFIFO queues: they wait behind nobody of their own queue."""
    for queue in _leader(cell).pending.queues.values():
        head = next(queue.in_order(), None) if queue.strict else None
        if head is not None and head.key in cell.watchman.jobs:
            yield cell.watchman.jobs[head.key][0]


def _shape(job: Any) -> str:
    record = job.pending or job.record
    parts = (record.queue_name, record.pod_sets, record.annotations, record.priority, record.allowed_flavors)
    return str((*parts, record.cannot_borrow, record.cannot_preempt, record.preemption_gates))


def _why(cell: Cell, job: JobKey) -> str:
    found = []
    workloads = _leader(cell).world.workloads
    for key in cell.watchman.workloads.get(job, ()):
        workload = workloads.get(key)
        if workload is None:
            continue
        peers = workload.peers
        state = "quota" if workload.assignment is not None else "none"
        reason = f"{peers.reason} {peers.message}" if peers is not None else f"not queued {workload.held_for}"
        found.append(f"{key} ({state}, {reason})")
    record = _leader(cell, "slices").jobs[job]
    return f"{record.phase.name} {record.reason}; {'; '.join(found)}"


def _trees(cell: Cell, job: JobKey) -> Iterator[str]:
    """Yield the cohort trees (by root) in which a job waits."""
    world = _leader(cell).world
    for key in cell.watchman.workloads.get(job, ()):
        workload = world.workloads.get(key)
        queue = world.cluster_queues.get(workload.cluster_queue) if workload is not None else None
        if queue is not None:
            yield queue.node.path().split("/")[1]


def _strict_trees(cell: Cell, job: JobKey) -> Iterator[str]:
    """Yield the trees in which the job may be at the head of a StrictFIFO queue, and keep others waiting."""
    world = _leader(cell).world
    for key in cell.watchman.workloads.get(job, ()):
        workload = world.workloads.get(key)
        queue = world.cluster_queues.get(workload.cluster_queue) if workload is not None else None
        if queue is not None and queue.spec.queueing_strategy == "StrictFIFO":
            yield queue.node.path().split("/")[1]


@dataclass
class Alone:
    """Tries jobs out, each in a cell with the same configuration and nothing else."""

    cell: Cell
    configuration: list[list[Event]] = field(default_factory=list)
    """What was committed to the first of these cells: the others get the same."""

    def runs(self, job: JobKey) -> bool:
        """Would the job run?"""
        cell = self.cell
        record = _leader(cell, "slices").jobs[job]
        entry = cell.log.entries[record.manifest_seq - 1]
        found: Any = msgspec.json.decode(entry.payload)
        if found["type"] != "JobSubmitted":
            return False
        off = nothing()
        off.checks = cell.on.checks
        choices = Choices(0, [])
        choices.step()
        fresh = Cell(choices, off)
        self._configure(fresh)
        actions = idle(fresh, cell)
        namespace, _, name = job.partition("/")
        fresh.message(f"job.{namespace}.{name}", "JobSubmitted", found["data"])
        newest = record.pending if record.pending is not None else record.record
        sizes = {pods.name: pods.count for pods in newest.pod_sets}
        fresh.message(f"job.{namespace}.{name}", "JobScaled", {"podSets": sizes})
        Calm(fresh, actions).run()
        return bool(fresh.truth.started)

    def _configure(self, fresh: Cell) -> None:
        fresh.log.now = self.cell.now
        if not self.configuration:
            configure(fresh, self.cell)
            commits = (steps_of(entry) for entry in fresh.log.entries)
            self.configuration = [[event for step in steps for event in step.events] for steps in commits]
            return
        for events in self.configuration:
            fresh.commit_config(events)


def configure(fresh: Cell, cell: Cell) -> None:
    """Give a fresh cell the configuration of another."""
    from sluice.core.config.objects import manifest_of

    for kind, stored in cell.objects.by_kind.items():
        for each in stored.values():
            plain: Any = manifest_of(kind, each.object)
            terminating = plain["metadata"].get("deletionTimestamp")
            plain["metadata"] = {
                name: plain["metadata"][name]
                for name in ("name", "namespace", "labels", "annotations")
                if name in plain["metadata"]
            }
            fresh.apply(plain)
            if terminating:
                fresh.delete(kind, plain["metadata"]["name"])


def idle(fresh: Cell, cell: Cell) -> Actions:
    """Give a fresh cell the executors and controllers of another."""
    from .controllers import Controller
    from .grammar import Grammar
    from .jobs import JobGrammar

    for controller in cell.controllers:
        fresh.controllers.append(Controller(fresh, controller.name))
    for executor in (each for each in cell.executors if not each.silent):
        fresh.executors.append(Executor(fresh, executor.name, executor.flavors))
        fresh.executors[-1].begin()
    grammar = Grammar(fresh.choices, fresh.on)
    actions = Actions(fresh, grammar, JobGrammar(fresh.choices, fresh.on, grammar))
    for kind in ("agent", "controller"):
        actions.look_at(kind)
    return actions


Check = Callable[[Cell], None]

__all__ = ["Alone", "Calm", "check_waiting"]
