"""A look at one entry of a cycle: its nomination, and what then becomes of it (SC1, phases 3 and 5)."""

from collections.abc import Sequence

from sluice.core.queueing.pending_queue import Preemptor
from sluice.core.world.model import World

from .admission import Admission
from .entry import Entry, Outcome
from .nomination import nominate
from .precedence import give_way, keep_behind


class Looks:
    """The entries that one cycle has looked at; `admission` decides on them."""

    __slots__ = ("admission", "entries", "world")

    def __init__(self, world: World, *, blocked: bool) -> None:
        self.world = world
        self.admission = Admission(world, blocked=blocked)
        self.entries: list[Entry] = []
        """In the order in which they were processed."""

    def nominate(self, entry: Entry) -> bool:
        """Return whether the entry is to be processed; else it is finished."""
        lifted = self.lift_family(entry)
        is_possible = nominate(self.world, entry, may_defer=not self.admission.overcommit.pending)
        if is_possible:
            self.admission.reconcile(entry)
        for waiting in lifted:
            self.keep_beside(waiting, entry)
        if not is_possible:
            self.entries.append(entry)
        return is_possible

    def take(self, entry: Entry) -> None:
        """Decide on the entry, and on those behind it in its queue for which it leaves too little."""
        self.entries.append(entry)
        lifted = self.lift_family(entry)
        behind = give_way(self.world, self.admission, entry) if entry.queue.waiting else ()
        if entry.outcome is Outcome.NOMINATED:
            self.admission.process(entry)
            behind = (*behind, *self.admission.overtaken)
        # Before it, as nothing is promised twice at any time.
        self.entries[-1:] = [*keep_behind(self.world, self.admission, behind, entry), entry]
        if entry.outcome is Outcome.SKIPPED and entry.peers.waiting is not None:
            # It is looked at again in the next cycle: until then it waits on.
            self.keep_beside(entry.peers.waiting, entry)
        for waiting in lifted:
            self.keep_beside(waiting, entry)

    def lift_family(self, entry: Entry) -> Sequence[Preemptor]:
        """What siblings wait for is no obstacle to a variant: only one of them will have it (CA10)."""
        if entry.workload.record.parent is None:
            return ()
        return self.admission.overcommit.lift_family(entry.workload)

    def keep_beside(self, waiting: Preemptor, entry: Entry) -> None:
        """Keep on what a preemptor waits for, beside what *entry* has got, if it has got anything."""
        got = entry.outcome in (Outcome.ADMITTED, Outcome.PROMISED)
        self.admission.keep(waiting, entry.cq.node, entry.proposal.usage if got else None)
