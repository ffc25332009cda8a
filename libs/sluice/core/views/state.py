"""All objects that the view knows, by key."""

from sluice.api import kueue
from sluice.events.base import JobKey, Micros, WorkloadKey

from .finished import Finished
from .lazy_dict import LazyDict, Stored
from .records import ActiveState, ClusterQueueView, JobView, LocalQueueView, WorkloadView
from .totals import Exemplars, Totals


class State:
    """All objects by key; only folding events changes it."""

    def __init__(self) -> None:
        self.workloads: LazyDict[WorkloadKey, WorkloadView] = LazyDict(self._open_workload)
        self.jobs: LazyDict[JobKey, JobView] = LazyDict(self._open_job)
        self.finished = Finished(self)
        """Where jobs that are over lie packed, with their workloads."""
        self.parents: dict[WorkloadKey, None] = {}
        """Workloads that have variants instead of queueing themselves (CA4)."""
        self.slices: dict[WorkloadKey, None] = {}
        """Workloads that are slices of elastic jobs (WS1)."""
        self.cluster_queues: dict[str, ClusterQueueView] = {}
        self.local_queues: dict[str, LocalQueueView] = {}
        self.cohorts: dict[str, kueue.CohortSpec] = {}
        self.checks: dict[str, ActiveState] = {}
        """Admission checks of which the service has said something."""
        self.config = kueue.ConfigurationSpec()
        self.totals: Totals = {}
        self.exemplars: Exemplars = {}
        """What is counted for operators, see `totals`."""
        self.seq = 0
        """Of the last event folded."""
        self.at: Micros = 0
        """When it was decided."""
        self.settings_seq = 0
        """Of the last change of settings that the scheduler goes by."""
        self._awaited = (-1, False)
        self._preemptors: tuple[int, dict[str, list[WorkloadView]]] = (-1, {})

    def _open_workload(self, key: WorkloadKey, stored: Stored) -> WorkloadView:
        if isinstance(stored, int):
            return self.finished.workload(key, stored)
        reader = self.finished.reader
        history = reader.unread.pop(key, None)
        found = self.workloads[key] = reader.workload(stored, lambda: history)
        return reader.linked(found, self.workloads)

    def _open_job(self, key: JobKey, stored: Stored) -> JobView:
        if isinstance(stored, int):
            return self.finished.job(stored)
        found = self.jobs[key] = self.finished.reader.job(stored, self.workloads)
        return found

    def live(self, key: WorkloadKey) -> WorkloadView | None:
        """Return a workload that is not over: what services that lag say of others changes nothing."""
        if self.workloads.is_packed(key):
            return None
        workload = self.workloads.get(key)
        return workload if workload is not None and workload.finished_at is None else None

    def awaits_pods(self) -> bool:
        """Tell whether any workload is admitted, and its pods are not ready, or are not any more.

        Looked up once for each sequence, and only for what is said to wait for it.
        """
        if self._awaited[0] != self.seq:
            # The latest are the likeliest.
            holders = (
                self.workloads[key]
                for queue in self.cluster_queues.values()
                for key in reversed(queue.workloads)
            )
            self._awaited = (self.seq, any(_awaits_pods(workload) for workload in holders))
        return self._awaited[1]

    def preemptors(self, queue: ClusterQueueView) -> list[WorkloadView]:
        """Return those of the queue that were said last to wait for victims; looked up as above."""
        if self._preemptors[0] != self.seq:
            self._preemptors = (self.seq, {})
        known = self._preemptors[1]
        if queue.name not in known:
            known[queue.name] = [
                workload
                for local in queue.local_queues.values()
                for workload in map(self.workloads.__getitem__, local.pending)
                if workload.pending is not None and workload.pending.preempts
            ]
        return known[queue.name]

    # What the api service must know before it deletes something

    def reserving(self, cluster_queue: str) -> int:
        """Return how many workloads hold quota of the queue."""
        queue = self.cluster_queues.get(cluster_queue)
        return len(queue.workloads) if queue is not None else 0

    def unadmitted(self, cluster_queue: str) -> int:
        """Return how many of these are not admitted yet."""
        queue = self.cluster_queues.get(cluster_queue)
        return len(queue.workloads) - queue.admitted if queue is not None else 0

    def waiting(self, local_queue: str) -> int:
        """Return how many workloads wait in the local queue `namespace/name`."""
        queue = self.local_queues.get(local_queue)
        return len(queue.pending) if queue is not None else 0

    def holding(self, local_queue: str) -> tuple[int, int]:
        """Return how many workloads of the local queue are admitted, and how many have quota only."""
        queue = self.local_queues.get(local_queue)
        return (0, 0) if queue is None else (queue.admitted, max(0, queue.reserving - queue.admitted))

    def of_priority_class(self, name: str) -> int:
        """Return how many workloads that are not over name the WorkloadPriorityClass; for deletions only."""
        return sum(
            1
            for workload in self.workloads.unpacked()
            if workload.record.priority_class == name
            and workload.record.parent is None
            and workload.finished_at is None
        )

    def unfinished_jobs(self, namespace: str) -> int:
        """Return how many jobs of the namespace are not over."""
        prefix = f"{namespace}/"
        return sum(
            1
            for job in self.jobs.unpacked()
            if job.key.startswith(prefix) and any(w.finished_at is None for w in job.workloads.values())
        )

    def unfinished_of_kind(self, kind: str) -> int:
        """Return how many jobs of the kind are not over."""
        return sum(
            1
            for job in self.jobs.unpacked()
            if job.reference.kind == kind and any(w.finished_at is None for w in job.workloads.values())
        )

    # Objects that exist because somebody names them

    def local_queue(self, key: str) -> LocalQueueView:
        """Return the local queue `namespace/name`, made if need be."""
        queue = self.local_queues.get(key)
        if queue is None:
            queue = self.local_queues[key] = LocalQueueView(key)
        return queue

    def drop_if_unused(self, queue: LocalQueueView) -> None:
        """Forget a local queue that has no manifest, and that nobody names."""
        if queue.spec is None and not queue.users:
            self.local_queues.pop(queue.key, None)

    def drop_queue_if_unused(self, queue: ClusterQueueView) -> None:
        """Forget a cluster queue that has no manifest, and that nobody names or holds quota of."""
        if queue.spec is None and not (queue.workloads or queue.local_queues):
            self.cluster_queues.pop(queue.name, None)

    def cluster_queue(self, name: str) -> ClusterQueueView:
        """Return the cluster queue, made if need be."""
        queue = self.cluster_queues.get(name)
        if queue is None:
            queue = self.cluster_queues[name] = self.named_queue(name)
        return queue

    def named_queue(self, name: str) -> ClusterQueueView:
        """Return the cluster queue for the sake of its name: one of its own if there is none."""
        queue = self.cluster_queues.get(name)
        if queue is None:
            queue = ClusterQueueView(name)
            queue.reserved_message = f"Quota reserved in ClusterQueue {name}"
        return queue


def _awaits_pods(workload: WorkloadView) -> bool:
    ready = workload.conditions.get("PodsReady")
    return workload.admitted_at is not None and (ready is None or not ready.status)
