"""Reservations: the one place where quota is taken from the tree and given back.

`reserve` and `release` are for folding events. `Trial` is for deciding: it takes workloads out, or charges
usage, and puts everything back in the end.
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from sluice.core.quota.tree import FlavorResource, Node

from .model import ClusterQueue, World
from .workload import Workload


def reserve(world: World, workload: Workload) -> None:
    """Charge `workload.usage` to `workload.cluster_queue`, and count the workload as its reservation.

    Set the workload's own fields (usage, reserved_at, ...) first.
    """
    queue = world.cluster_queues[workload.cluster_queue]
    world.tree.add(queue.node, workload.usage)
    queue.workloads[workload.key] = workload
    queue.candidates.put(workload)


def release(world: World, workload: Workload) -> None:
    """Give the reservation back. Call it before the workload's usage and queue are cleared.

    Without a reservation there, nothing happens.
    """
    queue = world.cluster_queues.get(workload.cluster_queue)
    if queue is None or queue.workloads.pop(workload.key, None) is None:
        return
    queue.candidates.discard(workload.key)
    world.tree.remove(queue.node, workload.usage)


def change_usage(world: World, workload: Workload, usage: dict[FlavorResource, int]) -> None:
    """Replace what a reservation charges, e.g. when pods are reclaimable or a slice shrinks in place."""
    queue = world.cluster_queues.get(workload.cluster_queue)
    if queue is not None and workload.key in queue.workloads:
        world.tree.remove(queue.node, workload.usage)
        world.tree.add(queue.node, usage)
        workload.usage = usage
        queue.candidates.put(workload)
    workload.usage = usage


def reorder(world: World, workload: Workload) -> None:
    """Tell the queue that the workload's priority, reservation time or eviction has changed."""
    queue = world.cluster_queues.get(workload.cluster_queue)
    if queue is not None and workload.key in queue.workloads:
        queue.candidates.put(workload)


def index(queue: ClusterQueue) -> None:
    """Make the queue's order of candidates anew, e.g. after its workloads were loaded from a snapshot."""
    queue.candidates.clear()
    for workload in queue.workloads.values():
        queue.candidates.put(workload)


class Trial:
    """Changes of usage that are undone at the end of the `with` block. Trials nest.

    A workload that was taken out is not a candidate for preemption either.
    """

    __slots__ = ("_mark", "_removed", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self._mark = 0
        self._removed: list[Workload] = []

    def __enter__(self) -> Self:
        self._mark = self.world.tree.mark()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.world.tree.rollback(self._mark)
        for workload in self._removed:
            self.world.absent.discard(workload.key)

    def remove(self, workload: Workload) -> None:
        """Take the workload's reservation out; nothing happens if it is out already, or has none."""
        queue = self.world.cluster_queues.get(workload.cluster_queue)
        if queue is None or workload.key not in queue.workloads or workload.key in self.world.absent:
            return
        self.world.tree.remove(queue.node, workload.usage)
        self.world.absent.add(workload.key)
        self._removed.append(workload)

    def restore(self, workload: Workload) -> None:
        """Put back what `remove` of this same trial took out; nothing happens if it is not out."""
        if workload.key in self.world.absent:
            self.world.absent.discard(workload.key)
            self.world.tree.add(self.world.cluster_queues[workload.cluster_queue].node, workload.usage)

    def charge(self, node: Node, usage: Mapping[FlavorResource, int]) -> None:
        """Charge *usage* to *node*, as if a workload had been admitted."""
        self.world.tree.add(node, usage)

    def discharge(self, node: Node, usage: Mapping[FlavorResource, int]) -> None:
        """Take *usage* from *node*."""
        self.world.tree.remove(node, usage)


def without(world: World, workloads: Iterable[Workload]) -> Trial:
    """Return a trial, to be entered, in which *workloads* hold nothing.

    with without(world, targets): ...
    """
    return _Without(world, workloads)


class _Without(Trial):
    __slots__ = ("_workloads",)

    def __init__(self, world: World, workloads: Iterable[Workload]) -> None:
        super().__init__(world)
        self._workloads = workloads

    def __enter__(self) -> Self:
        super().__enter__()
        for workload in self._workloads:
            self.remove(workload)
        return self
