"""Dependencies of one workload's history: its cohort tree's queues, and every job that was in them.

The scheduler decides tree by tree, and jobs of other trees never touch this one.
"""

from collections.abc import Iterable

import msgspec

from sluice.events.base import Event
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.slices import WorkloadCreated, WorkloadFinished, WorkloadRecord, WorkloadUpdated
from sluice.events.variants import VariantCreated
from sluice.log.contract import Entry
from sluice.log.fold import steps_of
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, check_whole, tracked

_TOLD = frozenset((WorkloadCreated, VariantCreated, WorkloadUpdated, WorkloadFinished, ObjectApplied))


class Closure:
    """The tree of the workload or job called *name*, read from the whole log.

    Queues and cohorts that were ever linked, by configuration or by a job sent to both, are one tree.
    """

    def __init__(self, source: Source, name: str, progress: Progress | None = None) -> None:
        self.key = name if "/" in name else f"default/{name}"
        self.jobs: dict[str, dict[str, None]] = {}
        """Job -> the local queues that it was sent to, `namespace/name`."""
        self.workloads: dict[str, dict[str, None]] = {}
        """Workload -> the same."""
        self.job_of: dict[str, str] = {}
        """Workload -> its job; a variant's is its parent's."""
        self.finished: dict[str, int] = {}
        """Job -> the sequence of the last commit that finished a workload of it."""
        self._locals: dict[str, dict[str, None]] = {}
        """Local queue -> the cluster queues that it has led to."""
        self._links: dict[str, dict[str, None]] = {}
        check_whole(source)
        for entries in tracked(source.read(1, None, ("config", "slices", "variants")), progress):
            for entry in entries:
                self._look(entry)
        queues = self.jobs.get(self.key) or self.workloads.get(self.key)
        self.found = queues is not None
        self.job = self.key if self.key in self.jobs else self.job_of.get(self.key, "")
        self._join()
        self.wanted = self._tree(self._led_to(queues or ()))
        self.members = frozenset((self.job, *(job for job in self.jobs if self._holds(job))))
        """Jobs of the tree."""

    def _look(self, entry: Entry) -> None:
        for step in steps_of(entry):
            for event in step.events:
                if type(event) in _TOLD:
                    self._take(event, entry.seq)

    def _take(self, event: Event, seq: int) -> None:
        match event:
            case WorkloadCreated(workload=record) | VariantCreated(workload=record):
                self._created(record)
            case WorkloadUpdated(workload=key, queue_name=str(name)):
                self._sent(key, self.job_of.get(key, ""), f"{key.partition('/')[0]}/{name}")
            case WorkloadFinished(workload=key):
                self.finished[self.job_of.get(key, "")] = seq
            case ObjectApplied():
                self._configure(event)
            case _:
                pass

    def _created(self, record: WorkloadRecord) -> None:
        job = record.job.key if record.job is not None else self.job_of.get(record.parent or "", "")
        self.job_of[record.key] = job
        self._sent(record.key, job, f"{record.namespace}/{record.queue_name}")

    def _sent(self, workload: str, job: str, queue: str) -> None:
        self.workloads.setdefault(workload, {})[queue] = None
        if job:
            self.jobs.setdefault(job, {})[queue] = None

    def _configure(self, event: ObjectApplied) -> None:
        spec = msgspec.json.decode(event.object).get("spec", {})
        if event.kind == "LocalQueue":
            name = f"{event.namespace or 'default'}/{event.name}"
            self._locals.setdefault(name, {})[spec.get("clusterQueue", "")] = None
        elif event.kind in ("ClusterQueue", "Cohort"):
            here = f"{event.kind}/{event.name}"
            self._links.setdefault(here, {})
            if parent := spec.get("cohortName") or spec.get("parentName"):
                self._link(here, f"Cohort/{parent}")

    def _link(self, one: str, other: str) -> None:
        self._links.setdefault(one, {})[other] = None
        self._links.setdefault(other, {})[one] = None

    def _join(self) -> None:
        """Link the queues of each job that was sent to several."""
        for queues in self.jobs.values():
            led_to = list(self._led_to(queues)) if len(queues) > 1 else []
            for other in led_to[1:]:
                self._link(led_to[0], other)
        for queues in self._locals.values():
            first, *others = (f"ClusterQueue/{queue}" for queue in queues)
            for other in others:
                self._link(first, other)

    def _led_to(self, queues: Iterable[str]) -> dict[str, None]:
        return {f"ClusterQueue/{name}": None for queue in queues for name in self._locals.get(queue, ())}

    def _tree(self, queues: Iterable[str]) -> frozenset[str]:
        todo = list(queues)
        seen: set[str] = set()
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                todo += self._links.get(here, ())
        return frozenset(seen)

    def _holds(self, job: str) -> bool:
        return not self.wanted.isdisjoint(self._led_to(self.jobs[job]))

    def holds(self, job: str) -> bool:
        """Tell whether the job belongs to the tree; one that never became a workload does not."""
        return job in self.members

    def own(self) -> frozenset[str]:
        """Return the job, and its workloads."""
        mine = (key for key, job in self.job_of.items() if job and job == self.job)
        return frozenset(filter(None, (self.job, self.key, *mine)))

    def everybody(self) -> frozenset[str]:
        """Return all jobs and workloads of the tree."""
        return frozenset((*self.members, *(key for key, job in self.job_of.items() if job in self.members)))

    def keeps_object(self, event: ObjectApplied | ObjectDeleted) -> bool:
        """Tell whether a configuration object can matter: queues and cohorts of other trees do not."""
        if event.kind == "LocalQueue":
            queue = f"{event.namespace or 'default'}/{event.name}"
            return not self.wanted.isdisjoint(self._led_to((queue,)))
        return event.kind not in ("ClusterQueue", "Cohort") or f"{event.kind}/{event.name}" in self.wanted
