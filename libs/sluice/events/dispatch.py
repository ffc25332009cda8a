"""Events of the dispatcher, which places jobs of a manager cell in worker cells (decision 0044).

`attempt` is that of the admission-check service: it counts the reservations of a workload. An *offer* is a
job in a worker cell, named by its key there; `remote_attempt` counts the reservations that it has had there.
"""

from collections.abc import Sequence
from typing import Final, Literal

from .base import Event, FieldError, JobKey, Micros, WorkloadKey

WRITER: Final = "dispatch"
"""The subject of these events, `sluice.<cell>.dispatch`: on the wire, so it outlives the module's name."""

Rung = Literal["Fits", "Borrows", "Preempts", "Stands"]
Answer = Literal["Taken", "Held", "Freed", "NoRoom", "Refused"]
GrowthAnswer = Literal["Asked", "NoRoom", "Held", "Freed", "Gone"]


class RoundStarted(Event, frozen=True, kw_only=True):
    """These cells are asked next, the most preferred one first; each gets an offer in the same step.

    Without cells there is none to be asked now: the ladder goes on once one is in reach again.
    """

    workload: WorkloadKey
    attempt: int
    rung: Rung
    cells: Sequence[str]
    passes: int = 1
    """How often the ladder was begun in this attempt."""
    due: Micros = 0
    """Until when the answers of more preferred cells are waited for."""


class Offered(Event, frozen=True, kw_only=True):
    """A job is submitted in the cell, where it may reserve quota and is held before it starts.

    `source`: log sequence of its manifest.
    """

    workload: WorkloadKey
    attempt: int
    cell: str
    offer: JobKey
    rung: Rung
    source: int


class OfferAnswered(Event, frozen=True, kw_only=True):
    """What the cell says of an offer.

    Taken: it is a workload there, `remote` of uid `remote_uid`. Held: it has quota there, in
    `remote_attempt`. Freed: no longer. NoRoom: it waits in a queue. Refused: there is no such job there, and
    `message` says why.
    """

    workload: WorkloadKey
    cell: str
    offer: JobKey
    answer: Answer
    remote: WorkloadKey = WorkloadKey("")
    remote_uid: str = ""
    remote_attempt: int = 0
    message: str = ""
    pods: dict[str, int] = {}
    """Pod set -> how many pods the workload there has."""


class OfferEdited(Event, frozen=True, kw_only=True):
    """The offer is to be what its job is by now: of another size, or by another manifest.

    `edition` counts these for an offer. `source`: log sequence of the job's last change.
    """

    workload: WorkloadKey
    cell: str
    offer: JobKey
    edition: int
    pods: dict[str, int]
    source: int


class EditAnswered(Event, frozen=True, kw_only=True):
    """The cell has taken up this edition of the offer; with `message` it has refused it, and says why."""

    workload: WorkloadKey
    cell: str
    offer: JobKey
    edition: int
    message: str = ""


class GrowthAnswered(Event, frozen=True, kw_only=True):
    """What the cell says of the growth of an elastic job that runs there.

    Asked: a slice of `pods` asks for it there, `remote` of uid `remote_uid`. NoRoom: it waits. Held: it has
    quota there, in `remote_attempt`. Freed: no longer. Gone: it was withdrawn.
    """

    workload: WorkloadKey
    cell: str
    offer: JobKey
    answer: GrowthAnswer
    remote: WorkloadKey = WorkloadKey("")
    remote_uid: str = ""
    remote_attempt: int = 0
    pods: dict[str, int] = {}
    message: str = ""


class GrowthLifted(Event, frozen=True, kw_only=True):
    """The growth is admitted in the manager: in this reservation the cell may start its pods."""

    workload: WorkloadKey
    cell: str
    offer: JobKey
    remote: WorkloadKey
    remote_attempt: int


class RemoteResized(Event, frozen=True, kw_only=True):
    """The job has another size in its cell, or another slice there speaks for it: `remote`."""

    workload: WorkloadKey
    cell: str
    offer: JobKey
    pods: dict[str, int] = {}
    remote: WorkloadKey = WorkloadKey("")
    remote_uid: str = ""


class Won(Event, frozen=True, kw_only=True):
    """The attempt is this cell's, and no other's: the only event that decides so. Once for an attempt."""

    workload: WorkloadKey
    attempt: int
    cell: str
    offer: JobKey


class WithdrawalStarted(Event, frozen=True, kw_only=True):
    """The offer is to go, with what runs of it.

    `reason`: Lost (another cell has won), NextRound, Over (the attempt is), Suspended, Finished,
    Drained (the cell is to get no more jobs).
    """

    workload: WorkloadKey
    cell: str
    offer: JobKey
    reason: str


class Withdrawn(Event, frozen=True, kw_only=True):
    """The cell has confirmed that there is no such job any more, and that nothing of it runs."""

    workload: WorkloadKey
    cell: str
    offer: JobKey


class OfferAbandoned(Event, frozen=True, kw_only=True):
    """The cell is out of reach for too long: what becomes of the offer is not waited for.

    It may still run there. It is withdrawn as soon as the cell is back.
    """

    workload: WorkloadKey
    cell: str
    offer: JobKey


class PlacementConcluded(Event, frozen=True, kw_only=True):
    """What the check says of the attempt: Ready, once no other offer is left; Retry in `after_s` seconds."""

    workload: WorkloadKey
    attempt: int
    check: str
    state: Literal["Ready", "Retry"]
    message: str
    after_s: int = 0


class HoldLifted(Event, frozen=True, kw_only=True):
    """The winner may start, in this reservation of its cell. `run` counts the job's starts, as JobResumed."""

    workload: WorkloadKey
    attempt: int
    run: int
    cell: str
    offer: JobKey
    remote_attempt: int


class RemoteStarted(Event, frozen=True, kw_only=True):
    """The job runs in its cell; `ready` once all of its pods do."""

    workload: WorkloadKey
    cell: str
    offer: JobKey
    at: Micros
    ready: bool = False


class RemoteEvicted(Event, frozen=True, kw_only=True):
    """The winner has lost its quota, or its job, in its cell: the attempt is over."""

    workload: WorkloadKey
    cell: str
    offer: JobKey
    message: str


class RemoteFinished(Event, frozen=True, kw_only=True):
    """The job has ended in its cell, at `finished_at` by the clock there; its events end at `remote_seq`."""

    workload: WorkloadKey
    cell: str
    offer: JobKey
    success: bool
    message: str
    started_at: Micros
    finished_at: Micros
    remote_seq: int


class PlacementEnded(Event, frozen=True, kw_only=True):
    """The workload is over and nothing of it is left in any cell: it is forgotten."""

    workload: WorkloadKey


class CellHeard(Event, frozen=True, kw_only=True):
    """Everything that the cell's log says up to `upto` is known; `cause` is the report's sequence."""

    cell: str
    upto: int


class CellLost(Event, frozen=True, kw_only=True):
    """The cell is out of reach."""

    cell: str
    message: str = ""


class CellBack(Event, frozen=True, kw_only=True):
    """The cell is in reach (again)."""

    cell: str


class OrphanFound(Event, frozen=True, kw_only=True):
    """The cell has a job of this manager's that the manager knows nothing of: it is to go."""

    cell: str
    offer: JobKey


class OrphanCollected(Event, frozen=True, kw_only=True):
    """The orphan is gone."""

    cell: str
    offer: JobKey


class ReportIgnored(Event, frozen=True, kw_only=True):
    """A message of a link that changes nothing.

    `reason`: Duplicate (known already), Gap (it does not follow on what is known).
    """

    cell: str
    reason: Literal["Duplicate", "Gap"]


class ReportRejected(Event, frozen=True, kw_only=True):
    """A message on `cell.<name>` that could not be taken; `cause` is its sequence."""

    subject: str
    event_type: str = ""
    errors: Sequence[FieldError] = ()
