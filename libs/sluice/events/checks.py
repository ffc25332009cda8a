"""Events of the admission-check service.

`attempt` counts the reservations of a workload from 1: each QuotaReserved begins one. Whoever acts on what is
said of an attempt compares it with its own count, since the reservation may be another one by then.
"""

from collections.abc import Sequence
from typing import Final, Literal

from sluice.api.kueue import PodSetUpdate

from .base import Event, FieldError, Micros, WorkloadKey

WRITER: Final = "checks"
"""The subject of these events, `sluice.<cell>.checks`: on the wire, so it outlives the module's name."""


class ChecksRequested(Event, frozen=True, kw_only=True):
    """These checks, and no others, count for the workload's reservation from here on (AC1).

    Those that did before keep their state, new ones are Pending. Said again when the queue's checks change.
    """

    workload: WorkloadKey
    attempt: int
    checks: Sequence[str]


class CheckRequestsUpdated(Event, frozen=True, kw_only=True):
    """What the requests say of the workload has changed, beside the states of its checks."""

    workload: WorkloadKey
    attempt: int
    admitted: bool = False
    preemptions_pending: bool = False


class ChecksWithdrawn(Event, frozen=True, kw_only=True):
    """The attempt is over: controllers stop, and what they said is taken back (AC4).

    `reason`: Evicted, QuotaReleased, Finished or Deleted.
    """

    workload: WorkloadKey
    attempt: int
    reason: str


class CheckStateChanged(Event, frozen=True, kw_only=True):
    """State of one check of one workload: Pending, Ready, Retry or Rejected (AC2).

    `reason`: PreemptionRequired as the controller has said it (AC6); InvalidPodSetUpdates of a Rejected that
    was meant as Ready, whose updates cannot be made (AC2); AnswerTimeout of a Retry that nobody has said,
    because the controller was silent for too long (AC3), `cause` is the reservation, or the change that made
    the check count later; "" mostly.
    """

    workload: WorkloadKey
    check: str
    state: str
    attempt: int = 1
    message: str = ""
    requeue_after_s: int | None = None
    retry_count: int = 0
    pod_set_updates: Sequence[PodSetUpdate] = ()
    reason: str = ""


class ChecksReady(Event, frozen=True, kw_only=True):
    """Every relevant check of the workload is Ready (AC1)."""

    workload: WorkloadKey
    attempt: int = 0
    """0 in logs that do not say."""


class ChecksPending(Event, frozen=True, kw_only=True):
    """What was said of all checks holds no more: they are neither all Ready, nor has one of them failed.

    An approval was withdrawn, a check was added, or the one that failed was taken away. What is admitted
    stays so.
    """

    workload: WorkloadKey
    attempt: int


class ChecksRetry(Event, frozen=True, kw_only=True):
    """Checks want the workload requeued, not before `requeue_at`, the end of their longest delay (AC3).

    Said again when another check's delay is longer, also after the eviction, until the next attempt begins.
    """

    workload: WorkloadKey
    checks: Sequence[str]
    requeue_at: Micros
    message: str = ""
    """Of the last of `checks`."""
    attempt: int = 0
    messages: Sequence[str] = ()
    """Of each of `checks`; none in logs that do not say."""


class ChecksRejected(Event, frozen=True, kw_only=True):
    """A check will never let the workload run (AC3)."""

    workload: WorkloadKey
    checks: Sequence[str]
    message: str = ""
    """Of the last of `checks`."""
    attempt: int = 0
    messages: Sequence[str] = ()
    """Of each of `checks`; none in logs that do not say."""


class PreemptionsAllowed(Event, frozen=True, kw_only=True):
    """The pending preemptions of this reservation may be issued now (AC6).

    ChecksReady: all checks with preemptionPolicy AfterCheckPassedOrOnDemand are Ready. PreemptionRequired: a
    check has asked for it. Said once per attempt.
    """

    workload: WorkloadKey
    attempt: int
    reason: Literal["ChecksReady", "PreemptionRequired"]


class VerdictIgnored(Event, frozen=True, kw_only=True):
    """A verdict that changes nothing; `cause` is its sequence.

    `reason`: StaleAttempt (of a reservation that is over), UnknownWorkload, UnknownCheck (there is none, or
    it does not concern the workload), WrongController (of another check), Duplicate (said before), Final (the
    workload is being evicted for what was said before), Immutable (other podSetUpdates than it is admitted
    with; `message` says what else is wrong with them).
    """

    workload: WorkloadKey
    check: str
    controller: str
    attempt: int
    state: str
    reason: str
    message: str = ""


class CheckInputRejected(Event, frozen=True, kw_only=True):
    """A verdict or a record of a controller's presence that could not be taken; `cause` is its sequence."""

    subject: str
    event_type: str = ""
    errors: Sequence[FieldError] = ()


class ControllerSeen(Event, frozen=True, kw_only=True):
    """A controller of checks has come (back)."""

    controller: str


class ControllerLost(Event, frozen=True, kw_only=True):
    """A controller's heartbeat has stopped."""

    controller: str


class AdmissionCheckStatusChanged(Event, frozen=True, kw_only=True):
    """The check's Active condition: whether its controller is there (AC8)."""

    check: str
    active: bool
    reason: str
    message: str = ""
