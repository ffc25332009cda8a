"""Admission of one entry of a cycle, given what the entries before it got (SC1, phase 5)."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from sluice.api.features import RECOMPUTE_ASSIGNMENT_UPON_PREEMPTION_TARGETS_OVERLAP, enabled
from sluice.core.flavors.assignment import Mode
from sluice.core.preemption.targets import get_targets
from sluice.core.queueing.overcommit import Overcommit, came_later, keep_waiting
from sluice.core.queueing.pending_queue import CohortQueues, EquivalenceClass, Preemptor
from sluice.core.queueing.request_index import Least
from sluice.core.quota.tree import FlavorResource, Node
from sluice.core.workload import pending_reasons as texts
from sluice.core.workload.admission_checks import checks_for
from sluice.core.workload.admission_constraints import may_borrow
from sluice.core.world.activity import blocks_admission
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.preemption_history import IN_VAIN, actor
from sluice.core.world.preemption_rules import waits_for_checks
from sluice.core.world.reservations import Trial, without
from sluice.core.world.variants import MAY_PREEMPT, Standing, is_gated, siblings, standing, waits_on_for
from sluice.core.world.workload import Workload
from sluice.events.base import PodSetAssignment, WorkloadKey

from .entry import Entry, Outcome, Part
from .growths import kept_for_growths, stops_fewer
from .nomination import propose
from .withheld_quota import WithheldQuota


class Admission:
    """Decides on entries one after the other; `trial` must be entered meanwhile.

    Entries are judged as if the victims of earlier ones had gone already, and what those wait for were in
    use; and, where they need nobody to go, by what is really free (see `overcommit`).
    """

    __slots__ = (
        "_blocks",
        "_changed",
        "_parts",
        "_preempted",
        "_recompute_overlaps",
        "_world",
        "blocked",
        "overcommit",
        "overtaken",
        "recomputations",
        "skipped_preemptions",
        "trial",
        "withheld",
    )

    def __init__(self, world: World, *, blocked: bool) -> None:
        self._world = world
        self._recompute_overlaps = enabled(
            world.config.feature_gates, RECOMPUTE_ASSIGNMENT_UPON_PREEMPTION_TARGETS_OVERLAP
        )
        self._blocks = blocks_admission(world.config)
        self.blocked = blocked
        """Must the pods of somebody be ready before the next one is admitted (waitForPodsReady)?"""
        self._preempted: dict[str, Workload] = {}
        """Victims of entries of this cycle."""
        self._changed = False
        """An entry of this cycle has got something, or waits for it."""
        self._parts: dict[WorkloadKey, Part] = {}
        """What those who share quota had of this cycle: by the parent of variants, or the slice replaced."""
        self.trial = Trial(world)
        self.withheld = WithheldQuota(self.trial)
        """What is not lent to others, as it is for those that wait."""
        self.overcommit = Overcommit(self.trial, ())
        """What others of the tree wait for: their victims are out of the tree."""
        self.overtaken: list[Preemptor] = []
        """Growths of those that the entry at work would have preempted: it comes before them."""
        self.skipped_preemptions: dict[str, int] = {}
        self.recomputations: dict[str, str] = {}

    def begin(self, tree: CohortQueues, *, but: Preemptor | None = None) -> None:
        """Start on the entries of this tree, with the trial entered.

        `but`: the preemptor that is looked at first. What it waits for would be lifted at once.
        """
        self._world.circles.planned.clear()
        self.overcommit = Overcommit(self.trial, tree.members)
        keep_waiting(self.overcommit, tree, but)

    def lift(self, waiting: Preemptor) -> None:
        """Keep nothing for this preemptor for now."""
        self.overcommit.lift(waiting)
        if not self.overcommit:
            self.overcommit.pending = False

    def keep(
        self, waiting: Preemptor, node: Node, beside: Mapping[FlavorResource, int] | None = None
    ) -> None:
        """Keep what it waits for, see `Overcommit.keep`."""
        self.overcommit.keep(waiting, node, beside)

    def reconcile(self, entry: Entry) -> None:
        """Look again for one that can get what it needs, but only once others' victims have gone.

        It has to take their place, then, or do without: see `overcommit`.
        """
        overcommit = self.overcommit
        if not overcommit.pending:
            self._look_beside(entry)
            return
        if not entry.proposal.is_possible():
            return
        targets = entry.proposal.preempted
        if not overcommit.concern(targets) and self.is_free(entry, targets):
            return
        with overcommit.shown():
            propose(self._world, entry)
        entry.proposal.overdrawn = True

    def _look_beside(self, entry: Entry) -> None:
        """Look for another flavor where what would fit is still in use by those whom others wait for."""
        if entry.proposal.mode is not Mode.FIT or all(len(group.flavors) == 1 for group in entry.cq.groups):
            return
        if self.is_free(entry):
            return
        planned = entry.proposal
        with self.overcommit.shown():
            propose(self._world, entry)
        if entry.proposal.mode is Mode.FIT:
            entry.proposal.overdrawn = True
        else:
            entry.proposal = planned

    def gets_promised(self, entry: Entry, promised: Preemptor) -> bool:
        """Is as much free as *entry* was promised, whose victims have gone? Then that is what it gets (CA6).

        It may want more by now: all its pods, or a better flavor, by preempting once more. While it waited
        for that, those who went for it would come back, to be preempted again. Pod sets that choose one
        after the other, each for itself, may need more than they were promised together.
        """
        planned = entry.proposal
        borrows = may_borrow(self._world.config, entry.workload.record)
        later = () if borrows else came_later(entry.workload, entry.cq)
        for pinned in (None, promised.flavors) if promised.flavors else (None,):
            with without(self._world, later):
                propose(self._world, entry, pinned, may_preempt=False)
            found = entry.proposal
            found.promised = True
            if found.mode is Mode.FIT and found.has_enough(promised.usage) and self._fits(entry):
                return True
        entry.proposal = planned
        return False

    def process(self, entry: Entry) -> None:
        """Decide on *entry* against the tree as the entries before it have left it."""
        self.overtaken = []
        shared = _shared(entry.workload)
        part = self._parts.get(shared) if shared is not None else None
        if part is Part.BLOCKED and not entry.workload.in_turn:
            entry.finish_barred(Outcome.SKIPPED, MAY_PREEMPT)
            return
        if part is not None and part is not Part.BLOCKED:
            # Of a slice: its job is to stop, and starts again as a whole (WS6).
            self._skip(entry, texts.NO_LONGER_FITS)
            return
        queue, planned = entry.queue, entry.proposal
        if (
            queue.waiting
            and planned.mode is Mode.PREEMPT
            and queue.is_kept_from(entry.workload, planned.usage)
        ):
            entry.finish(Outcome.PARKED, texts.WAITING_FOR_QUOTA, texts.BEHIND)
            return
        found = planned.deferred
        if found:
            if self._search(entry):
                return
        elif self._recompute_overlaps and self._overlaps(entry) and self._recompute(entry):
            return
        planned = entry.proposal
        if planned.mode is Mode.NO_FIT:
            entry.set_aside(planned.assignment.no_fit_reason or texts.PENDING_EVALUATION)
            return
        if planned.mode is Mode.PREEMPT:
            if not planned.targets:
                self.withheld.withhold(entry)
                entry.set_aside(texts.WAITING_FOR_QUOTA)
                return
            if is_gated(entry.workload) and not waits_on_for(entry.workload, planned.preempted):
                self._block(entry)
                return
            if self.overcommit and self._goes_before_growths(entry):
                planned = entry.proposal
        if self._parts and self._leave_heirs(planned.preempted):
            self._skip(entry, texts.OVERLAPS)
        elif found and self._plan_is_real():
            self._take(entry)  # its targets were found so that it fits, after those before it
        elif self._overlaps(entry):
            self._skip(entry, texts.OVERLAPS)
        elif not self._fits_beside_promises(entry):
            if entry.peers.waiting is None or not self._wait_on(entry):
                self._skip(entry, texts.NO_LONGER_FITS)
        else:
            self._take(entry)

    def _goes_before_growths(self, entry: Entry) -> bool:
        """Look again as if nothing were kept for growths of its targets; true if fewer have to stop then.

        Who may stop a job may have what the growth of that job waits for: the growth would go with it
        (WS6), and the job, or others beside it, would be stopped for more than is needed (decision 0023).
        """
        planned = entry.proposal
        growths = kept_for_growths(self._world, self.overcommit, entry)
        if not growths:
            return False
        for growth, _ in growths:
            self.lift(growth)
        propose(self._world, entry)
        self.reconcile(entry)
        found = entry.proposal
        if self.is_free(entry) if found.mode is Mode.FIT else stops_fewer(found, planned):
            self.overtaken = [growth for growth, _ in growths]
            return True
        entry.proposal = planned
        for growth, node in growths:
            self.keep(growth, node)
        return False

    def _take(self, entry: Entry) -> None:
        """The entry fits, now or when its targets have gone: what it gets is its own from here on."""
        planned, workload = entry.proposal, entry.workload
        if workload.record.parent is not None and entry.moves_nowhere(self._world):
            entry.finish_where_it_runs()
            return
        if planned.mode is Mode.PREEMPT and self._closes_circle(entry):
            self._skip(entry, texts.OVERLAPS)
            return
        self._changed = True
        self._note(_shared(workload), Part.GETS)
        if planned.mode is Mode.PREEMPT:
            pod_sets = planned.assignment.pod_set_assignments()
            if waits_for_checks(self._world, entry.cq.spec, pod_sets):
                if self._world.circles.given_up(actor(workload)) >= IN_VAIN:
                    planned.circling = True
                    entry.set_aside(texts.WAITING_FOR_QUOTA)
                elif self._is_issuable(entry):
                    self._promise(entry, pod_sets)
                else:
                    entry.set_aside(texts.WAITING_FOR_QUOTA)
                return
            self._wait_for(entry, planned.preempted)
            why, count = planned.assignment.message, len(planned.targets)
            message = f"{why}. {texts.TO_PREEMPT.format(count)}"
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, message)
        elif self.blocked:
            outcome = Outcome.PARKED
            if entry.peers.waiting is not None:
                outcome = Outcome.PREEMPTING  # others have gone for it: what it waited for is kept on
                self._wait_for(entry, ())
            entry.finish(outcome, texts.WAITING_FOR_PODS_READY, texts.PODS_NOT_READY)
        else:
            if workload.record.parent is not None:
                self._beside_sibling(entry)
            self.trial.charge(entry.cq.node, planned.usage)
            entry.finish(Outcome.ADMITTED)
            if self._blocks:
                # The pods of who is not admitted in this step are not waited for: its end would wake nobody.
                self.blocked = not entry.beside and not checks_for(entry.cq.spec, planned.pod_sets)

    def _closes_circle(self, entry: Entry) -> bool:
        """Would its preemptions close a circle with those of entries before it? Else they are planned now."""
        circles = self._world.circles
        preemptor = actor(entry.workload)
        victims = [actor(victim) for victim in entry.proposal.preempted if victim.evicted_at is None]
        if circles.closed_by(preemptor, victims):
            return True
        circles.plan(preemptor, victims)
        return False

    def _is_issuable(self, entry: Entry) -> bool:
        """Would there be targets also when they are issued, and nothing withheld for those that wait in vain?

        What is withheld for them makes their queues seem to use more than they do. Else the reservation would
        be given up when its preemptions are to be issued, and be made again, for ever.
        """
        planned = entry.proposal
        if not self.withheld.by_queue or planned.overdrawn:
            return True
        world = self._world
        mark = world.tree.mark()
        for name, usage in self.withheld.by_queue.items():
            world.tree.remove(world.cluster_queues[name].node, usage)
        frs = planned.assignment.needs_preemption()
        found = bool(get_targets(world, entry.workload, planned.usage, frs))
        world.tree.rollback(mark)
        return found

    def _promise(self, entry: Entry, pod_sets: tuple[PodSetAssignment, ...]) -> None:
        """AC6: reserve quota now, and let the targets run until the checks allow their preemption.

        Those that were themselves promised quota only lose it at once: nothing of theirs runs.
        """
        if self.blocked:
            entry.finish(Outcome.PARKED, texts.WAITING_FOR_PODS_READY, texts.PODS_NOT_READY)
            return
        planned = entry.proposal
        targets = planned.preempted
        running = [workload for workload in targets if not workload.preemptions]
        reserved_only = [workload for workload in targets if workload.preemptions]
        for workload in reserved_only:
            self.trial.remove(workload)
        self.overcommit.drop(reserved_only)
        self.trial.charge(entry.cq.node, planned.usage)
        self.overcommit.add(entry.workload.key, entry.cq.node, planned.usage, running)
        self.overcommit.pending = True
        planned.pod_sets = pod_sets
        entry.victims = running
        entry.finish(Outcome.PROMISED)

    def _beside_sibling(self, entry: Entry) -> None:
        """CA10: quota beside that of an admitted sibling, which has to go before the variant is admitted.

        It is told at once, unless there are checks to pass first (`transitions`).
        """
        how, sibling, _ = standing(self._world, entry.workload)
        entry.beside = sibling is not None
        if how is Standing.MIGRATES and not checks_for(entry.cq.spec, entry.proposal.pod_sets):
            entry.migrates = sibling

    def _wait_on(self, entry: Entry) -> bool:
        """Let a preemptor whose victims have gone wait for those of others, if that is all it lacks now."""
        usage = entry.proposal.usage
        if entry.proposal.mode is not Mode.FIT:
            return False
        victims = self.overcommit.in_the_way(usage)
        if not victims or self._leave_heirs(victims) or not self._world.tree.fits(entry.cq.node, usage):
            return False
        self._wait_for(entry, victims)
        entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.DEFERRED)
        return True

    def _wait_for(self, entry: Entry, victims: Sequence[Workload]) -> None:
        """Keep what the entry would use for it until the victims have gone."""
        usage = entry.proposal.usage
        self._changed = True
        self.trial.charge(entry.cq.node, usage)
        entry.victims = victims
        for victim in victims:
            self._preempted[victim.key] = victim
            self._note(victim.record.parent or victim.key, Part.LEAVES)
            if victim.preemptions:
                self.overcommit.drop((victim,))
        self.overcommit.add(entry.workload.key, entry.cq.node, usage, victims)

    def _block(self, entry: Entry) -> None:
        entry.finish(Outcome.GATED, texts.ADMISSION_GATED, texts.GATED)
        if not entry.workload.blocked_on_gates:
            self._note(_shared(entry.workload), Part.BLOCKED)

    def _note(self, shared: WorkloadKey | None, part: Part) -> None:
        if shared is not None and part > self._parts.get(shared, 0):
            self._parts[shared] = part

    def _skip(self, entry: Entry, message: str) -> None:
        if entry.proposal.mode is Mode.PREEMPT:
            name = entry.cq.name
            self.skipped_preemptions[name] = self.skipped_preemptions.get(name, 0) + 1
        # Unless an entry before it was in its way, the next cycle would find the same.
        outcome = Outcome.SKIPPED if self._changed or self.withheld.by_queue else Outcome.PARKED
        entry.finish(outcome, texts.WAITING_FOR_QUOTA, message)

    def _plan_is_real(self) -> bool:
        """Is there nothing in use, or promised, but by those whom this cycle preempts, and for it?"""
        return not self.overcommit.pending and self.overcommit.have_all_gone(self._preempted.values())

    def _leave_heirs(self, victims: Iterable[Workload]) -> bool:
        """Would what one of *victims* gives up stay, in part, with who has got quota just now?

        That is a sibling, or the slice that takes its place.
        """
        return any(self._parts.get(victim.record.parent or victim.key) is Part.GETS for victim in victims)

    def _overlaps(self, entry: Entry) -> bool:
        planned = entry.proposal
        if not planned.targets:
            return False
        if any(target.workload.key in self._preempted for target in planned.targets):
            return True
        # Since it was nominated, a target has come to be promised to somebody else.
        return not planned.overdrawn and self.overcommit.concern(planned.preempted)

    def _fits_beside_promises(self, entry: Entry) -> bool:
        """Does the entry fit without anything that is promised to others, and on what is really free?"""
        if entry.proposal.overdrawn:
            with self.overcommit.shown(but=self._preempted):
                return self._fits(entry)
        if not self._fits(entry):
            return False
        if entry.proposal.mode is not Mode.PREEMPT:
            return True
        gone = [*self._preempted.values(), *entry.proposal.preempted]
        return self.is_free(entry, gone)

    def _fits(self, entry: Entry) -> bool:
        tree, node, planned = self._world.tree, entry.cq.node, entry.proposal
        if planned.mode is Mode.PREEMPT:
            with without(self._world, planned.preempted):
                return tree.fits(node, planned.usage)
        # Victims can be larger than what is needed of them. The rest is for others, but not yet.
        return tree.fits(node, planned.usage) and self.is_free(entry)

    def _recompute(self, entry: Entry) -> bool:
        """Look again for targets, those of earlier entries gone; True when the entry is finished."""
        overlapping = [victim for victim in entry.proposal.preempted if victim.key in self._preempted]
        propose(self._world, entry, entry.proposal.assignment.pinned())
        planned, name = entry.proposal, entry.cq.name
        if planned.mode is Mode.FIT and not self.is_free(entry, self._preempted.values()):
            self.recomputations[name] = "skipped"
            self._skip(entry, texts.OVERLAPS)
            return True
        if planned.mode is Mode.FIT and is_gated(entry.workload):
            self.recomputations[name] = "skipped"
            self._block(entry)
            return True
        if planned.mode is Mode.FIT:
            self.recomputations[name] = "deferred_fit"
            self._wait_for(entry, overlapping)
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.DEFERRED)
            return True
        self.recomputations[name] = "new_targets" if planned.targets else "skipped"
        return False

    def _search(self, entry: Entry) -> bool:
        """Look for the targets of a deferred entry; True when it is finished."""
        planned = entry.proposal
        planned.deferred = False
        fits = self._world.tree.fits(entry.cq.node, planned.usage)
        if fits and not self.is_free(entry, self._preempted.values()):
            self._skip(entry, texts.OVERLAPS)
            return True
        if self._preempted and fits and is_gated(entry.workload):
            self._block(entry)
            return True
        if self._preempted and fits:
            self._wait_for(entry, list(self._preempted.values()))
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.DEFERRED)
            return True
        frs = planned.assignment.needs_preemption()
        self._world.circles.stopped = False
        planned.targets = get_targets(self._world, entry.workload, planned.usage, frs)
        planned.circling = self._world.circles.stopped
        return False

    def is_apart(self, workload: Workload) -> bool:
        """Has no variant of its job a part in this cycle, or waits for victims? True of other workloads."""
        parent = workload.record.parent
        if parent is None:
            return True
        if parent in self._parts:
            return False
        others = siblings(self._world, workload)
        return all(other.peers is None or other.peers.waiting is None for other in others)

    def is_in_use(self, cq: ClusterQueue, peers: EquivalenceClass) -> bool:
        """Would a look at this woken class only say once more that others still use what it needs?

        As planned it fits, so that it would preempt nobody (`_skip`). False is always right.
        """
        if not self._is_as_it_was() or not peers.common or peers.circling:
            return False
        usage = dict(peers.least)
        return self._world.tree.fits(cq.node, usage) and not self.overcommit.fit_now(cq.node, usage)

    def are_in_use(self, tree: CohortQueues, least: Least) -> bool:
        """Would `is_in_use` say so of every class of this size that could fit, as the root lacks it?

        Asked of queues that have to borrow and could not preempt. Where there are cohorts below the root, one
        of them may have quota to take back since that was asked last. False is always right.
        """
        if not self._is_as_it_was():
            return False
        if least in tree.uncommon or self._world.circles.refused or tree.root.child_cohorts:
            return False
        return self.overcommit.root_lacks(tree.root, least)

    def _is_as_it_was(self) -> bool:
        """Has nobody got anything in this cycle, while some wait for others to go?"""
        overcommit = self.overcommit
        return not (
            overcommit.pending or self._changed or self.withheld.by_queue or overcommit.have_all_gone()
        )

    def is_free(self, entry: Entry, gone: Collection[Workload] = ()) -> bool:
        """Does what fits as planned also fit when *gone* have gone, and nobody else whom others wait for?"""
        overcommit = self.overcommit
        if overcommit.have_all_gone(gone):
            return True
        may = entry.proposal.promised or may_borrow(self._world.config, entry.workload.record)
        return overcommit.fit_now(entry.cq.node, entry.proposal.usage, gone, may_borrow=may)


def _shared(workload: Workload) -> WorkloadKey | None:
    """Return what names those beside whom it gets quota: its parent, or the slice that it is to replace."""
    return workload.record.parent or workload.record.replaces
