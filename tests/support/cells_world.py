"""The dispatcher alone, its neighbours and its worker cells played by the test.

A worker is a small model of a cell: it has room for so many jobs, holds what it is offered, and starts what
it is allowed to start. What links carry, either way, takes its time, is lost when they are cut, and may come
twice.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from sluice.api.labels import DRAIN
from sluice.core.dispatch.decider import Dispatcher
from sluice.core.dispatch.orders import orders_of, orphans, sayings
from sluice.core.dispatch.state import ABANDONED, State
from sluice.events import checks, dispatch, slices
from sluice.events.base import Event, JobKey, PodSet, WorkloadKey
from sluice.protocol.cells import Fact, Order, RemoteReport, Saying
from sluice.protocol.subjects import cell_suffix

from .memory_log import TICK, World

CHECK = "cells"


@dataclass
class Remote:
    """A job in a worker."""

    uid: str = ""
    attempt: int = 0
    """Its reservations so far."""
    held: bool = False
    runs: bool = False
    ran: bool = False
    over: bool = False
    pods: int = 1
    edition: int = 0
    growth: "Slice | None" = None
    slices: int = 0


@dataclass
class Slice:
    """By which a job in a worker is to grow."""

    key: WorkloadKey
    uid: str
    pods: int
    attempt: int = 0
    held: bool = False


@dataclass
class Worker:
    """A cell with `room` for so many jobs."""

    name: str
    room: int = 1
    seq: int = 0
    jobs: dict[JobKey, Remote] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    linked: bool = True
    refuses: bool = False
    inbox: deque[Order] = field(default_factory=deque)

    def used(self) -> int:
        """Return how many pods have quota."""
        found = 0
        for job in self.jobs.values():
            if job.held or job.runs:
                found += job.growth.pods if job.growth is not None and job.growth.held else job.pods
        return found

    def say(self, kind: str, job: JobKey, **more: Any) -> None:
        self.seq += 1
        fact = {"kind": kind, "job": job, "seq": self.seq, "at": self.seq, **more}
        self.facts.append(msgspec.convert(fact, Fact))

    def obey(self, order: Order) -> None:
        job = self.jobs.get(order.job)
        if order.do == "Withdraw":
            self.jobs.pop(order.job, None)
            self.say("Gone", order.job)
        elif job is None:
            if self.refuses:
                self.say("Refused", order.job, message="there is no such queue")
                return
            job = self.jobs[order.job] = Remote(f"uid-{self.seq}", pods=order.pods.get("main", 1))
            job.edition = order.edition
            key, pods = WorkloadKey(f"{order.job}-w"), {"main": job.pods}
            self.say("Present", order.job, workload=key, uid=job.uid, pods=pods)
            if order.edition:
                self.say("Edited", order.job, attempt=order.edition)
            self.look(order.job)
        elif order.edition > order.answered:
            self.edit(order, job)
        if job is not None and (order.remote_uid, order.lift) == (job.uid, job.attempt) and job.held:
            job.held, job.runs, job.ran = False, True, True
            self.say("Running", order.job)
        if order.do == "Offer" and job is not None and job.growth is not None and order.growth_lift:
            self.lift_growth(order, job, job.growth)

    def edit(self, order: Order, job: Remote) -> None:
        """Take up an edition of a job, as the slice-aggregator of a cell does."""
        pods = order.pods.get("main", job.pods)
        if order.edition >= job.edition and not job.over and not self.refuses:
            job.edition = order.edition
            if not (job.held or job.runs):
                if pods != job.pods:
                    job.pods = pods
                    self.say("Resized", order.job, pods={"main": pods})
            elif pods > job.pods:
                self.grow(order.job, job, pods)
            else:
                if job.growth is not None:
                    self.say("GrowthGone", order.job, workload=job.growth.key)
                    job.growth = None
                if pods < job.pods:
                    job.pods = pods
                    self.say("Resized", order.job, pods={"main": pods})
        why = "it will not" if self.refuses else ""
        self.say("Edited", order.job, attempt=order.edition, message=why)
        self.look(order.job)

    def grow(self, name: JobKey, job: Remote, pods: int) -> None:
        if job.growth is not None and job.growth.pods == pods:
            return
        if job.growth is None:
            job.slices += 1
            key = WorkloadKey(f"{name}-w{job.slices}")
            job.growth = Slice(key, f"uid-{self.seq}-{job.slices}", pods)
        elif job.growth.held and pods > job.growth.pods:
            job.growth.held = False
            self.say("GrowthFreed", name, workload=job.growth.key, attempt=job.growth.attempt)
        job.growth.pods = pods
        there = job.growth
        self.say("Growing", name, workload=there.key, uid=there.uid, pods={"main": pods})

    def lift_growth(self, order: Order, job: Remote, there: Slice) -> None:
        if (there.key, there.attempt) != (order.growth, order.growth_lift) or not there.held:
            return
        job.uid, job.attempt, job.pods, job.growth = there.uid, there.attempt, there.pods, None
        size = {"main": job.pods}
        self.say("Resized", order.job, workload=there.key, uid=there.uid, pods=size)
        if job.runs:
            self.say("Ready", order.job)

    def look(self, name: JobKey) -> None:
        """Reserve quota for a job, or say that there is none."""
        job = self.jobs[name]
        if job.over:
            return
        if job.held or job.runs:
            self.look_growth(name, job)
            return
        if self.used() + job.pods > self.room:
            self.say("NoRoom", name, message="insufficient unused quota")
            return
        job.attempt += 1
        job.held = True
        self.say("Held", name, attempt=job.attempt)

    def look_growth(self, name: JobKey, job: Remote) -> None:
        there = job.growth
        if there is None or there.held:
            return
        if self.used() + there.pods - job.pods > self.room:
            self.say("GrowthNoRoom", name, workload=there.key, message="insufficient unused quota")
            return
        there.attempt += 1
        there.held = True
        self.say("GrowthHeld", name, workload=there.key, attempt=there.attempt)

    def evict(self, name: JobKey) -> None:
        job = self.jobs[name]
        if job.growth is not None and (job.held or job.runs):
            self.say("GrowthGone", name, workload=job.growth.key)
            job.growth = None
        if job.held or job.runs:
            self.say("Freed", name, attempt=job.attempt, message="preempted")
            job.held = job.runs = False

    def finish(self, name: JobKey) -> None:
        job = self.jobs[name]
        if job.runs:
            job.runs, job.over = False, True
            self.say("Finished", name, success=True, message="done")


@dataclass
class CellsWorld(World):
    workers: dict[str, Worker] = field(default_factory=dict)
    attempts: dict[WorkloadKey, int] = field(default_factory=dict)
    """Workloads that there are, with their reservations so far."""
    holding: set[WorkloadKey] = field(default_factory=set)
    pods: dict[WorkloadKey, int] = field(default_factory=dict)
    """What each workload asks for."""
    reserved: dict[WorkloadKey, int] = field(default_factory=dict)
    grows: dict[WorkloadKey, WorkloadKey] = field(default_factory=dict)
    """Slice -> the workload whose place it is to take."""
    jobs: dict[WorkloadKey, slices.JobReference] = field(default_factory=dict)
    runs: dict[WorkloadKey, int] = field(default_factory=dict)
    """Those that the manager has started, and not stopped."""
    suspended: set[WorkloadKey] = field(default_factory=set)
    starts: dict[WorkloadKey, int] = field(default_factory=dict)
    said: list[Event] = field(default_factory=list)
    ran: dict[tuple[WorkloadKey, int], set[str]] = field(default_factory=dict)
    """(workload, attempt) -> the cells in which it has run."""
    made: int = 0

    def __post_init__(self) -> None:
        self.serve(Dispatcher())

    @property
    def state(self) -> State:
        found: State = self.services["dispatch"].state
        return found

    def append(self, suffix: str, payload: bytes) -> int:
        self.now += TICK
        return super().append(suffix, payload)

    # Configuration

    def ladder(self, *cells: str, **spec: Any) -> Self:
        """Define the workers, and the ladder over them."""
        for name in cells:
            self.workers.setdefault(name, Worker(name))
            self.configure("MultiKueueCluster", name, {"clusterSource": {"kubeConfig": {"location": name}}})
        ladder = {"apiVersion": "sluice.dev/v1alpha1", "kind": "CellLadder", "metadata": {"name": "all"}}
        self.apply({**ladder, "spec": {"cells": list(cells), **spec}})
        parameters = {"apiGroup": "sluice.dev", "kind": "CellLadder", "name": "all"}
        self.configure(
            "AdmissionCheck", CHECK, {"controllerName": "sluice.dev/cells", "parameters": parameters}
        )
        for name in cells:
            self.message(cell_suffix(name), "LinkUp", {})
        return self

    def drain(self, cell: str, how: str = "stay") -> Self:
        """Say that a cell is to get no more jobs; "" takes that back."""
        spec = {"clusterSource": {"kubeConfig": {"location": cell}}}
        metadata = {"name": cell, "annotations": {DRAIN: how} if how else {}}
        version = "kueue.x-k8s.io/v1beta2"
        return self.apply(
            {"apiVersion": version, "kind": "MultiKueueCluster", "metadata": metadata, "spec": spec}
        )

    # The manager's other services

    def create(
        self,
        name: str = "",
        pods: int = 1,
        replaces: WorkloadKey | None = None,
        job: slices.JobReference | None = None,
    ) -> WorkloadKey:
        """Make a workload: of a new job, of *job*, or the slice by which the job of *replaces* is to grow."""
        self.made += 1
        name = name or f"j{self.made}"
        job = self.jobs[replaces] if replaces is not None else job
        record = slices.WorkloadRecord(
            namespace="ns",
            name=f"job-{name}",
            uid=f"uid-{name}",
            queue_name="lq",
            created_at=self.now,
            pod_sets=(PodSet(name="main", count=pods),),
            job=job
            or slices.JobReference(
                api_version="batch/v1", kind="Job", key=JobKey(f"ns/{name}"), uid=f"job-uid-{self.made}"
            ),
            replaces=replaces,
        )
        assert record.job is not None
        self.pods[record.key], self.jobs[record.key] = pods, record.job
        if replaces is not None:
            self.grows[record.key] = replaces
        self.tell("slices", slices.WorkloadCreated(cause=len(self.log), workload=record))
        self.attempts[record.key] = 0
        return record.key

    def reserve(self, key: WorkloadKey) -> Self:
        self.attempts[key] += 1
        self.holding.add(key)
        self.reserved[key] = self.pods[key]
        event = checks.ChecksRequested(cause=1, workload=key, attempt=self.attempts[key], checks=(CHECK,))
        return self.tell("checks", event)

    def evict(self, key: WorkloadKey, reason: str = "Evicted") -> Self:
        """The manager takes the workload's quota back; what runs is suspended first, its growth ends."""
        if (growth := self.growth_of(key)) is not None:
            self.evict(growth)
        if key in self.runs and key not in self.suspended:
            self.suspended.add(key)
            job = self.state.placements[key].origin.job
            event = slices.JobSuspended(
                cause=1, job=job, workload=key, attempt=self.runs[key], reason="Preempted"
            )
            self.tell("slices", event)
        if key in self.holding:
            self.holding.discard(key)
            event2 = checks.ChecksWithdrawn(cause=1, workload=key, attempt=self.attempts[key], reason=reason)
            self.tell("checks", event2)
        return self

    def growth_of(self, key: WorkloadKey) -> WorkloadKey | None:
        return next((growth for growth, base in self.grows.items() if base == key), None)

    def scale(self, key: WorkloadKey, pods: int) -> Self:
        """Change the size of a job, of which *key* is the workload that has quota, as slices do."""
        growth = self.growth_of(key)
        if pods > self.pods[key] and key in self.holding and key in self.runs:
            if growth is None:
                self.create(pods=pods, replaces=key)
            else:
                self.resize(growth, pods)
            return self
        if growth is not None:
            self.resize(growth, self.pods[key])
            self.evict(growth)
            self.forget(growth)
        if pods < self.pods[key] or key not in self.holding:
            self.resize(key, pods)
        return self

    def resize(self, key: WorkloadKey, pods: int) -> None:
        self.pods[key] = pods
        if key in self.reserved:
            self.reserved[key] = min(pods, self.reserved[key])
        sets = (PodSet(name="main", count=pods),)
        self.tell("slices", slices.WorkloadUpdated(cause=len(self.log), workload=key, pod_sets=sets))

    def edit(self, key: WorkloadKey) -> Self:
        """Give a job another priority."""
        return self.tell("slices", slices.WorkloadUpdated(cause=len(self.log), workload=key, priority=5))

    def replace(self, new: WorkloadKey) -> None:
        """A growth is admitted: it takes the place of the slice that ran."""
        old, size = self.grows.pop(new), self.reserved[new]
        withdrawn = checks.ChecksWithdrawn(
            cause=1, workload=old, attempt=self.attempts[old], reason="Finished"
        )
        resized = slices.JobResized(
            cause=1, job=self.jobs[new].key, workload=new, attempt=self.runs[old], pods={"main": size}
        )
        told = [("checks", withdrawn), ("slices", resized)]
        for writer, event in told if self.made % 2 else reversed(told):
            self.tell(writer, event)
        self.runs[new], self.starts[new] = self.runs.pop(old), self.starts.pop(old)
        self.holding.discard(old)
        del self.attempts[old]
        wanted = self.pods[new]
        if wanted > size:
            self.resize(new, size)
            self.create(pods=wanted, replaces=new)
        self.tell("slices", slices.WorkloadDeleted(cause=1, workload=old))

    def forget(self, key: WorkloadKey, *, finished: bool = False) -> Self:
        if (growth := self.growth_of(key)) is not None:
            self.forget(growth)
        self.grows.pop(key, None)
        kind = slices.WorkloadFinished if finished else slices.WorkloadDeleted
        self.tell("slices", kind(cause=1, workload=key))
        self.holding.discard(key)
        self.suspended.discard(key)
        self.runs.pop(key, None)
        del self.attempts[key]
        return self

    def sayings(self) -> Iterator[Saying]:
        for key in list(self.state.placements):
            yield from sayings(self.state, key)

    def hear(self, said: Saying) -> None:
        """Let the manager's services take what the dispatcher says."""
        key = said.workload
        if said.what != "Verdict":
            key = next((k for k in self.runs if self.jobs[k].key == said.job), key)
        if key not in self.attempts:
            return
        if said.what == "Verdict":
            if key not in self.holding or said.number != self.attempts[key]:
                return
            self.tell(
                "checks",
                checks.CheckStateChanged(
                    cause=1, workload=key, check=CHECK, state=said.state, attempt=said.number
                ),
            )
            if said.state == "Retry":
                self.evict(key)
            elif key in self.grows:
                self.replace(key)
            elif key not in self.runs:
                self.starts[key] = self.starts.get(key, 0) + 1
                self.runs[key] = self.starts[key]
                self.tell(
                    "slices",
                    slices.JobResumed(cause=1, job=said.job, workload=key, attempt=self.runs[key]),
                )
        elif said.number != self.runs.get(key):
            return
        elif said.what == "PodsReady":
            self.tell("slices", slices.WorkloadPodsReady(cause=1, workload=key))
        elif said.what == "Finished":
            self.forget(key, finished=True)
        elif key in self.suspended:
            self.hold_stopped(key)
            self.suspended.discard(key)
            del self.runs[key]
            self.tell("slices", slices.WorkloadStopped(cause=1, workload=key))
            if (growth := self.growth_of(key)) is not None:
                # The job has stopped as a whole: its newest slice asks for all of it.
                del self.grows[growth]
                self.starts[growth] = self.starts.pop(key)
                reason = "WorkloadSliceReplaced"
                self.tell("slices", slices.WorkloadFinished(cause=1, workload=key, reason=reason))
                self.holding.discard(key)
                del self.attempts[key]

    def hold_stopped(self, key: WorkloadKey) -> None:
        """A stop is reported when nothing of the job runs, but for what was abandoned."""
        for worker in self.workers.values():
            for name, job in worker.jobs.items():
                if job.runs and self.state.by_offer.get(name) == key:
                    assert self.state.placements[key].offers[name].state == ABANDONED

    # The dispatcher

    def turn(self, seconds: float = 0) -> list[Event]:
        """Let time pass, and the dispatcher fold and decide; hold what must be true."""
        self.now += int(seconds * 1_000_000) + TICK
        found = self.step("dispatch")
        self.said += found
        self.check(found)
        return found

    def check(self, found: list[Event]) -> None:
        state = self.state
        assert not state.reports
        assert not state.todo
        moment = state.deadlines.next
        assert moment is None or moment > self.now, "would turn for ever"
        for placement in state.placements.values():
            cells = [offer.cell for offer in placement.offers.values()]
            assert len(cells) == len(set(cells)), "a cell has one offer of a workload at most"
        for event in found:
            if isinstance(event, dispatch.GrowthLifted):
                running = state.placements[event.workload]
                there = running.offers[event.offer].growth
                if there is not None:
                    most = self.reserved.get(event.workload, 0)
                    assert there.pods["main"] <= most, "it starts what the manager has no quota for"
                assert event.workload not in self.grows, "the growth is not admitted here"
            if isinstance(event, dispatch.OfferAbandoned):
                lost_at = state.cells[event.cell].lost_at
                assert lost_at is not None, "a cell in reach is not given up"
                whose = state.placements.get(event.workload)
                if whose is not None and (offer := whose.offers.get(event.offer)) is not None:
                    assert self.now >= lost_at + state.patience(whose, offer)
        won = [(e.workload, e.attempt) for e in self.said if isinstance(e, dispatch.Won)]
        assert len(won) == len(set(won)), "an attempt is won once"

    # Links

    def orders(self, cell: str) -> list[Order]:
        """Return what is to be in a worker, as the log says now."""
        found = [order for key in self.state.placements for order in orders_of(self.state, key)]
        return [order for order in (*found, *orphans(self.state)) if order.cell == cell]

    def carry(self, worker: Worker) -> None:
        """The link takes the orders of now to its worker, if it can."""
        if worker.linked:
            worker.inbox.extend(self.orders(worker.name))

    def deliver(self, worker: Worker, most: int | None = None) -> None:
        """The worker takes in what has arrived."""
        for _ in range(len(worker.inbox) if most is None else min(most, len(worker.inbox))):
            order = worker.inbox.popleft()
            before = {name for name, job in worker.jobs.items() if job.runs}
            worker.obey(order)
            for name in {name for name, job in worker.jobs.items() if job.runs} - before:
                self.note_start(worker, name)

    def note_start(self, worker: Worker, name: JobKey) -> None:
        """Hold that no attempt runs in two cells, and no two attempts run at once but for abandoned ones."""
        key = self.state.by_offer.get(name)
        assert key is not None, f"{name} runs, and the manager knows nothing of it"
        placement = self.state.placements[key]
        cells = self.ran.setdefault((key, placement.offers[name].attempt), set())
        cells.add(worker.name)
        assert cells == {worker.name}, f"an attempt of {key} has run in {cells}"
        for other in self.workers.values():
            for job, remote in other.jobs.items():
                if remote.runs and job != name and self.state.by_offer.get(job) == key:
                    state = placement.offers[job].state
                    assert state == ABANDONED, f"{key} runs in {worker.name} and {other.name} ({state})"

    def hand_in(self, worker: Worker, most: int | None = None) -> None:
        """The link says what the worker's log has behind what the manager knows."""
        if not worker.linked:
            return
        after = self.state.cells[worker.name].upto
        facts = [fact for fact in worker.facts if fact.seq > after][:most]
        if facts:
            self.send(worker.name, RemoteReport(after=after, upto=facts[-1].seq, facts=facts))

    def send(self, cell: str, data: RemoteReport) -> None:
        self.message(cell_suffix(cell), "RemoteReport", msgspec.to_builtins(data))

    def cut(self, worker: Worker, *, noticed: bool = True) -> None:
        worker.linked = False
        worker.inbox.clear()
        if noticed:
            self.message(cell_suffix(worker.name), "LinkDown", {"message": "no answer"})

    def mend(self, worker: Worker) -> None:
        worker.linked = True
        self.message(cell_suffix(worker.name), "LinkUp", {})

    def exchange(self, rounds: int = 60) -> None:
        """Let everybody hear everything, until nothing changes any more."""
        for _ in range(rounds):
            before = len(self.log)
            self.turn()
            for said in list(self.sayings()):
                self.hear(said)
            self.turn()
            for worker in self.workers.values():
                self.carry(worker)
                self.deliver(worker)
                self.hand_in(worker)
            if len(self.log) == before:
                return
        raise AssertionError("the cells do not settle")

    def running(self) -> dict[WorkloadKey, list[str]]:
        """Return where each workload runs."""
        found: dict[WorkloadKey, list[str]] = {}
        for worker in self.workers.values():
            for name, job in worker.jobs.items():
                if job.runs:
                    found.setdefault(self.state.by_offer[name], []).append(worker.name)
        return found
