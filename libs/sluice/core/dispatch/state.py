"""State of the dispatcher: ladders, cells, and where each workload is offered, or runs.

Plain mutable records, changed only by folding events. `State.todo` and the deadlines are derived: a settled
state has nothing to do before its next deadline.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from sluice.api.check_parameters import CellLadderSpec
from sluice.api.errors import FieldError
from sluice.core.deadlines import Deadlines
from sluice.core.timing import MICROS_PER_S
from sluice.events.base import JobKey, Micros, WorkloadKey
from sluice.protocol.cells import LinkDown, LinkUp, RemoteReport

OFFERED = "Offered"
NO_ROOM = "NoRoom"
HELD = "Held"
REFUSED = "Refused"
LEAVING = "Leaving"
ABANDONED = "Abandoned"
"""States of an offer. The last two are on their way out; of an abandoned one nobody waits to hear so."""

READY = "Ready"
RETRY = "Retry"
STANDS = "Stands"
PREEMPTS = "Preempts"


NOBODY = JobKey("")
NOWHERE = WorkloadKey("")


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """The job of a live workload."""

    job: JobKey
    uid: str
    source: int
    """Log sequence of what it was made of."""
    replaces: WorkloadKey = NOWHERE
    """Of a slice by which a job grows: the one whose place it is to take."""
    first: int = 0
    last: int = 0
    """Log sequences of what has made the job, and of its last change: its manifest lies between."""
    pods: dict[str, int] = {}
    """Pod set -> pods that it asks for."""


class CheckRow(msgspec.Struct, frozen=True, array_like=True):
    """An AdmissionCheck of the dispatcher's."""

    controller: str
    kind: str = ""
    name: str = ""
    """Kind and name of its parameters."""


@dataclass(slots=True)
class Worker:
    """What is known of a worker."""

    upto: int = 0
    """Everything that its log says up to here is known."""
    reachable: bool = False
    lost_at: Micros | None = None
    """When it was found out of reach; None if it never was in reach, or is."""
    since: Micros = 0
    """When it came in reach, or out of it; 0 before either."""
    message: str = ""
    """Why it is out of reach."""


@dataclass(slots=True)
class Drain:
    """A cell that is to get no more jobs."""

    since: Micros
    moves: bool = False
    """The jobs that it has are to go, too."""


@dataclass(slots=True)
class Growth:
    """A slice in a worker that is to take the place of the job's present one there."""

    remote: WorkloadKey
    remote_uid: str = ""
    remote_attempt: int = 0
    """Its reservation, 0 if it has none."""
    lifted: int = 0
    pods: dict[str, int] = field(default_factory=dict)
    message: str = ""
    """Why it waits."""
    since: Micros = 0


@dataclass(slots=True)
class Offer:
    """A job in a worker cell."""

    name: JobKey
    cell: str
    attempt: int
    rung: str
    source: int
    """Of the job's last change that it has, or is to have."""
    state: str = OFFERED
    since: Micros = 0
    """When it came to be in this state."""
    message: str = ""
    """What the cell has said of it last."""
    remote: WorkloadKey = NOWHERE
    remote_uid: str = ""
    remote_attempt: int = 0
    """Its reservation in the cell, 0 if it has none."""
    lifted: int = 0
    """The reservation in which it may start, 0 if it may not."""
    started_at: Micros = 0
    ready: bool = False
    asked: dict[str, int] = field(default_factory=dict)
    """Pods that it is to have there."""
    pods: dict[str, int] = field(default_factory=dict)
    """Pods that it has there; {} before anything was said of it."""
    edition: int = 0
    answered: int = 0
    """The edition that the cell has answered last."""
    refusal: str = ""
    """Why that was not taken up."""
    growth: Growth | None = None

    @property
    def is_leaving(self) -> bool:
        return self.state in (LEAVING, ABANDONED)


@dataclass(slots=True)
class RemoteEnd:
    """How the job has ended in its cell."""

    success: bool
    message: str


@dataclass(slots=True)
class Placement:
    """A workload with a check of the dispatcher's, and where it is offered."""

    key: WorkloadKey
    origin: Origin
    check: str = ""
    attempt: int = 0
    open: bool = False
    """The check is asked for in this attempt, and the attempt is not over."""
    ended: bool = False
    """The workload is finished or deleted."""
    rung: str = ""
    """Of the present round, or the last one; "" before the first."""
    cells: list[str] = field(default_factory=list)
    """Those of that round, the most preferred one first."""
    due: Micros = 0
    passes: int = 0
    asked: dict[str, list[str]] = field(default_factory=dict)
    """Rung -> the cells that were asked on it in this pass."""
    refusals: dict[str, str] = field(default_factory=dict)
    """Cell -> why it would not take the job, in this pass."""
    offers: dict[JobKey, Offer] = field(default_factory=dict)
    made: int = 0
    """How many offers were made of it, ever: so that each has a name of its own."""
    winner: JobKey = NOBODY
    evicted: str = ""
    """Why its winner cannot go on; "" while it can."""
    concluded: str = ""
    message: str = ""
    after_s: int = 0
    pods: dict[str, int] = field(default_factory=dict)
    """Pods for which it has quota here, as far as is known."""
    heard: bool = False
    """The log shows that the check says what was concluded."""
    run: int = 0
    """The job's start that the winner is for; 0 while there is none."""
    suspended: bool = False
    ready_heard: bool = False
    finish: RemoteEnd | None = None
    avoid: dict[str, Micros] = field(default_factory=dict)
    """Cell that has evicted it -> until when it is asked last."""
    cause: int = 0

    def offer_in(self, cell: str) -> Offer | None:
        """Return the offer of the present round in *cell*, None if there is none (any more)."""
        found = [one for one in self.offers.values() if one.cell == cell and not one.is_leaving]
        return found[0] if found else None


@dataclass(slots=True)
class Report:
    """A message of a link that waits to be decided on. `errors` says why it cannot be taken."""

    seq: int
    subject: str
    cell: str = ""
    event_type: str = ""
    data: RemoteReport | LinkUp | LinkDown | None = None
    errors: Sequence[FieldError] = ()


@dataclass(slots=True)
class State:
    checks: dict[str, CheckRow] = field(default_factory=dict)
    ladders: dict[tuple[str, str], CellLadderSpec] = field(default_factory=dict)
    """(kind, name) -> what it says."""
    clusters: dict[str, str] = field(default_factory=dict)
    """MultiKueueClusters, and where their links are described."""
    drained: dict[str, Drain] = field(default_factory=dict)
    cells: dict[str, Worker] = field(default_factory=dict)
    origins: dict[WorkloadKey, Origin] = field(default_factory=dict)
    refused: dict[JobKey, tuple[int, ...]] = field(default_factory=dict)
    """Job -> log sequences of manifests that were rejected."""
    newest: dict[JobKey, WorkloadKey] = field(default_factory=dict)
    """Of a job's live workloads the one that was made last."""
    placements: dict[WorkloadKey, Placement] = field(default_factory=dict)
    orphans: dict[tuple[str, JobKey], int] = field(default_factory=dict)
    """(cell, job) -> cause; jobs there that nobody here knows of, and that are to go."""
    reports: deque[Report] = field(default_factory=deque)
    by_offer: dict[JobKey, WorkloadKey] = field(default_factory=dict)
    todo: dict[WorkloadKey, None] = field(default_factory=dict)
    deadlines: Deadlines[WorkloadKey] = field(default_factory=Deadlines)

    def touch(self, placement: Placement, cause: int) -> None:
        """Look at a workload anew, and at the slice by which its job is to grow."""
        for each in (placement, self.growth_of(placement)):
            if each is not None:
                self.todo[each.key] = None
                each.cause = max(each.cause, cause)

    def touch_job(self, placement: Placement, cause: int) -> None:
        """Look at a workload anew, and at the slice whose place it is to take."""
        self.touch(placement, cause)
        base = self.placements.get(placement.origin.replaces)
        if base is not None:
            self.touch(base, cause)

    def growth_of(self, placement: Placement) -> Placement | None:
        """Return the slice by which a workload's job is to grow, while its check is asked for."""
        found = self.placements.get(self.newest.get(placement.origin.job, NOWHERE))
        if found is None or found.origin.replaces != placement.key or found.ended or not found.open:
            return None
        return found

    def running(self, key: WorkloadKey) -> Placement | None:
        """Return the placement that has the run of a workload's job: its own, or that of an older slice."""
        while key:
            found = self.placements.get(key)
            if found is not None and (found.run or not found.origin.replaces):
                return found
            origin = self.origins.get(key)
            key = origin.replaces if origin is not None else NOWHERE
        return None

    def is_reachable(self, cell: str) -> bool:
        """Can the cell be spoken to? Not one that was taken out of the configuration."""
        found = self.cells.get(cell)
        return found is not None and found.reachable and cell in self.clusters

    def ladder(self, check: str) -> CellLadderSpec | None:
        """Return the ladder that a check's parameters name, None if there is none."""
        row = self.checks.get(check)
        return None if row is None else self.ladders.get((row.kind, row.name))

    def patience(self, placement: Placement, offer: Offer) -> Micros:
        """Return for how long after its cell was lost the offer is waited for."""
        ladder = self.ladder(placement.check) or CellLadderSpec()
        seconds = ladder.lost_after_seconds if offer.lifted else ladder.retry_after_seconds
        return seconds * MICROS_PER_S

    def given_up_at(self, placement: Placement, offer: Offer) -> Micros | None:
        """Return when an offer in a lost cell is abandoned; None of one that nobody has to wait for."""
        cell = self.cells.get(offer.cell)
        if cell is None or cell.lost_at is None or offer.state == ABANDONED:
            return None
        if not (offer.lifted or offer.name == placement.winner):
            return None
        return cell.lost_at + self.patience(placement, offer)

    def blocks(self, placement: Placement, offer: Offer) -> bool:
        """Must the offer be gone before another one of the workload may start?

        What was never allowed to start cannot do so while its cell is out of reach: only the dispatcher lifts
        a hold. What was may still run there.
        """
        if offer.name == placement.winner or offer.state == ABANDONED:
            return False
        return bool(offer.lifted) or self.is_reachable(offer.cell)

    def drop(self, placement: Placement) -> None:
        for name in placement.offers:
            self.by_offer.pop(name, None)
        self.forget(placement)

    def forget(self, placement: Placement) -> None:
        self.placements.pop(placement.key, None)
        self.todo.pop(placement.key, None)
        self.deadlines.set(placement.key, None)


__all__ = ["State"]
