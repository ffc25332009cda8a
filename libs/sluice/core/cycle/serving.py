"""Serving those that wait for victims, before anybody else in a cycle (CA6).

Nobody else has a claim on what is kept for a preemptor, but those of its queue that come before it and would
preempt it as soon as it runs (decision 0023). So, in the usual order:

| what the preemptor waits for | then |
|---|---|
| is there: its victims have gone | who comes first gets it; it gets what is left, or competes anew |
| is there already, as others ended | it gets it; its victims were told, and stop for others |
| is not there yet | it is kept on |
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from sluice.core.flavors.assignment import Mode
from sluice.core.preemption.targets import could_preempt
from sluice.core.queueing.pending_queue import CohortQueues, PendingQueue, Preemptor
from sluice.core.world.workload import Workload

from .entry import Entry, Order, Ordering, Outcome
from .looks import Looks
from .nomination import nominate
from .requeue_filter import least_request, may_be_free
from .woken import Woken


class Waiting(NamedTuple):
    """A preemptor that is to be looked at, and its place among the others."""

    order: Order
    preemptor: Preemptor
    queue: PendingQueue


def waiting_preemptors(tree: CohortQueues, ordering: Ordering) -> list[Waiting]:
    """Return the preemptors that wait in *tree* and are to be looked at, in order."""
    waiting = [
        Waiting(ordering.key(one.workload, one.borrowing), one, queue)
        for queue in tree.waiting.values()
        for one in queue.holding()
        if one.is_due() or tree.dirty
    ]
    waiting.sort(key=attrgetter("order"))
    return waiting


class Serving:
    """Serves the preemptors that wait in one tree, within its cycle; `taken`: queues not to be looked at."""

    __slots__ = ("_admission", "_looks", "_taken", "_tree", "_woken", "_world")

    def __init__(self, looks: Looks, tree: CohortQueues, woken: Woken, taken: set[str]) -> None:
        self._looks = looks
        self._admission = looks.admission
        self._world = looks.world
        self._tree = tree
        self._woken = woken
        self._taken = taken

    def serve(self, waiting: Sequence[Waiting]) -> list[Entry]:
        """Serve those that can be served now; return those that must look again.

        Who does not fit although its victims have gone, competes anew, as the head of its queue.
        """
        again: list[Entry] = []
        for _, one, queue in waiting:
            entry = Entry(one.workload, queue, self._world.cluster_queues[queue.name])
            if one.is_due():
                self._admission.lift(one)
                if self._looks.nominate(entry) and not self._goes_to_those_before(entry, one):
                    if self._has_its_part(entry, one):
                        self._looks.take(entry)
                    else:
                        self._taken.add(queue.name)
                        again.append(entry)
            elif self._concerns(entry):
                self._admission.lift(one)
                if self._comes_early(entry):
                    self._looks.take(entry)
                else:
                    self._admission.keep(one, queue.node)
        return again

    def _has_its_part(self, entry: Entry, one: Preemptor) -> bool:
        """Does a preemptor whose victims have gone fit, if need be with what it was promised?"""
        return entry.proposal.mode is Mode.FIT or (not one.victims and self._gets_promised(entry, one))

    def _gets_promised(self, entry: Entry, one: Preemptor) -> bool:
        lifted = self._looks.lift_family(entry)
        gets = self._admission.gets_promised(entry, one)
        for waiting in lifted:
            self._looks.keep_beside(waiting, entry)
        return gets

    def _concerns(self, entry: Entry) -> bool:
        """Was anything freed that a preemptor could do with, although its victims have not gone yet?"""
        return self._tree.concerns(least_request(self._world, entry.workload, entry.cq))

    def _comes_early(self, entry: Entry) -> bool:
        """Does a preemptor fit although its victims have not gone? Those before it can wait for them."""
        return (
            not self._admission.blocked
            and may_be_free(self._world, entry.cq, entry.peers)
            and nominate(self._world, entry)
            and entry.proposal.mode is Mode.FIT
            and self._admission.is_free(entry)
        )

    def _goes_to_those_before(self, preemptor: Entry, one: Preemptor) -> bool:
        """Give what was kept for a preemptor whose victims have gone to those that would preempt it for it.

        It would be admitted for nothing, and those who have gone for it would have gone for nobody. True:
        somebody preempts, and it is looked at in the next cycle; or nothing is left of it. Else it is
        nominated, for what is left.
        """
        looks = self._looks
        for head, lacks in self._before(preemptor, one):
            entry = Entry(head, preemptor.queue, preemptor.cq)
            if not looks.nominate(entry):
                continue
            if entry.proposal.mode is not Mode.FIT and not (lacks and entry.proposal.is_possible()):
                continue
            self._taken.add(preemptor.queue.name)
            looks.take(entry)
            self._admission.withheld.release(entry.cq)
            if entry.outcome in (Outcome.PREEMPTING, Outcome.PROMISED):
                return True
            if entry.outcome is Outcome.ADMITTED and not looks.nominate(preemptor):
                return True
        return False

    def _before(self, preemptor: Entry, one: Preemptor) -> Iterator[tuple[Workload, bool]]:
        """Yield those of its queue that come before it, could preempt it, and would not fit once it runs.

        Second: would they get nothing then, as they could not preempt anybody else for it?
        """
        queue = preemptor.queue
        if queue.strict or queue.stopped:
            return
        # One may have been served in the place of another preemptor of the queue already.
        seen = {entry.workload.key for entry in self._looks.entries}
        for peers in self._woken.candidates(queue):
            head = peers.head()
            if head.rank > preemptor.workload.rank:
                break
            if head.key in seen or not could_preempt(self._world, head, preemptor.workload):
                continue
            entry = Entry(head, queue, preemptor.cq)
            self._admission.keep(one, preemptor.cq.node)
            is_admissible = nominate(self._world, entry, may_defer=False)
            self._admission.lift(one)
            if is_admissible and entry.proposal.mode is not Mode.FIT:
                yield head, not entry.proposal.is_possible()
