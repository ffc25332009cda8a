"""State of the admission-check service: workloads, their reservations, checks and controllers.

Plain mutable records, changed only by folding events. `State.todo` and `State.watched` are the work lists;
they are derived: a settled state has nothing in either.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sluice.api import kueue
from sluice.api.errors import FieldError
from sluice.api.labels import answered_by_people
from sluice.core.workload.admission_checks import CheckState, checks_for
from sluice.core.world.pending_preemptions import AFTER_CHECK
from sluice.events.base import Micros, PodSetAssignment, WorkloadKey
from sluice.events.slices import WorkloadRecord
from sluice.protocol.checks import CheckVerdict


@dataclass(slots=True)
class Verdict:
    """A verdict that waits to be decided on. `errors` says why it cannot be taken."""

    seq: int
    subject: str
    payload: bytes
    event_type: str = ""
    controller: str = ""
    data: CheckVerdict | None = None
    errors: Sequence[FieldError] = ()


@dataclass(slots=True)
class Presence:
    """A record that a controller has come or gone, not decided on yet."""

    seq: int
    subject: str
    payload: bytes
    event_type: str = ""
    controller: str = ""
    present: bool = False
    errors: Sequence[FieldError] = ()


class Basis(msgspec.Struct, frozen=True, array_like=True):
    """What a request says of its check: whose it is, and the log sequence of its spec and parameters."""

    controller: str
    version: int


class Withdrawal(msgspec.Struct, frozen=True, array_like=True):
    """Requests of an attempt that is over, to be taken back before anything else is said of the workload."""

    attempt: int
    why: str
    requests: dict[str, Basis]
    cause: int


class Retried(msgspec.Struct, frozen=True, array_like=True):
    """The latest attempt, which ended with Retry; its other checks can still make the wait longer (AC3)."""

    attempt: int
    checks: tuple[str, ...]
    """Those that counted."""
    requeue_at: Micros


@dataclass(slots=True)
class Reservation:
    """Quota that a workload holds, and what its checks say of that."""

    attempt: int
    cluster_queue: str
    assignment: Sequence[PodSetAssignment]
    at: Micros
    seq: int
    admitted: bool = False
    preemptions_pending: bool = False
    allowed: bool = False
    """PreemptionsAllowed was said."""
    over: str = ""
    """Why the attempt is over although the quota is not released yet, '' if it is not."""
    requested: dict[str, Basis] | None = None
    """Check -> what its request rests on; None before ChecksRequested."""
    outcome: str = ""
    """What was said of all checks together: Ready, Retry, Rejected; '' if nothing yet."""
    requeue_at: Micros = 0
    retried: tuple[str, ...] = ()
    """When, and because of which checks, as ChecksRetry has said."""
    told_admitted: bool = False
    told_pending: bool = False
    """What the requests say of `admitted` and `preemptions_pending`."""
    edited: bool = False
    """Its workload is not as the requests say: it has shrunk, or has another priority or other labels."""
    unanswered: dict[str, Micros] = field(default_factory=dict)
    """Check -> since when its controller has said nothing; nothing of what is admitted or over."""
    added: dict[str, int] = field(default_factory=dict)
    """Check that was asked for after the others -> log sequence of what brought that about."""


@dataclass(slots=True)
class Tracked:
    """A live workload."""

    record: WorkloadRecord
    attempts: int = 0
    states: dict[str, CheckState] = field(default_factory=dict)
    reservation: Reservation | None = None
    withdrawal: Withdrawal | None = None
    retried: Retried | None = None
    """Until the next attempt begins."""
    cause: int = 0
    """Sequence of the newest input that concerned it, for `Event.cause`."""


@dataclass(slots=True)
class Check:
    """An AdmissionCheck object."""

    spec: kueue.AdmissionCheckSpec
    version: int
    """Log sequence of its latest change."""
    status: tuple[bool, str, str] | None = None
    """(active, reason, message) as last said; None when nothing was."""
    answer_timeout_s: int | None = None
    """As its annotation says; None: as the configuration does."""

    @property
    def parameters(self) -> tuple[str, str] | None:
        """Return kind and name of its parameters object."""
        reference = self.spec.parameters
        return None if reference is None else (reference.kind, reference.name)

    @property
    def by_people(self) -> bool:
        """Do people answer it, so that nobody need be there (AC9)?"""
        return answered_by_people(self.spec.controller_name)

    @property
    def guards(self) -> bool:
        """Must it pass before preemptions are issued (AC6)?"""
        return self.spec.preemption_policy == AFTER_CHECK


@dataclass(slots=True)
class Controller:
    """Whether a check's controller is there, since when, and the log sequence that said so."""

    present: bool
    since: Micros
    seq: int


@dataclass(slots=True)
class State:
    workloads: dict[WorkloadKey, Tracked] = field(default_factory=dict)
    families: dict[WorkloadKey, dict[WorkloadKey, None]] = field(default_factory=dict)
    """Parent -> its variants. Derived."""
    by_queue: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    """Cluster queue -> workloads with its quota. Derived."""
    unanswered: dict[str, OrderedDict[WorkloadKey, Micros]] = field(default_factory=dict)
    """Check -> workloads that its controller has said nothing of, the longest wait first. Derived."""
    gone: dict[WorkloadKey, Withdrawal] = field(default_factory=dict)
    """Of workloads that ended while requests were out. Part of the work list."""

    cluster_queues: dict[str, kueue.ClusterQueueSpec] = field(default_factory=dict)
    flavors: dict[str, kueue.ResourceFlavorSpec] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    parameters: dict[tuple[str, str], tuple[int, msgspec.Raw]] = field(default_factory=dict)
    """(kind, name) of objects that checks may name -> log sequence and spec."""
    controllers: dict[str, Controller] = field(default_factory=dict)
    config: kueue.ConfigurationSpec = field(default_factory=kueue.ConfigurationSpec)

    verdicts: dict[WorkloadKey, dict[int, Verdict]] = field(default_factory=dict)
    """Workload -> verdicts by sequence, in order; unreadable ones stand under their subject."""
    verdict_of: dict[int, WorkloadKey] = field(default_factory=dict)
    presence: deque[Presence] = field(default_factory=deque)
    todo: dict[WorkloadKey, None] = field(default_factory=dict)
    """Workloads to be looked at."""
    watched: dict[str, None] = field(default_factory=dict)
    """Checks whose Active condition is to be looked at."""
    touched: dict[tuple[str, WorkloadKey, str], None] = field(default_factory=dict)
    """Requests (controller, workload, check) that the latest step may have changed.

    For the projection to read; no part of what is decided on, and never dumped.
    """
    step: tuple[int, Micros] = (0, 0)
    """Sequence and time of the events that `touched` is of."""

    def begin_step(self, seq: int, at: Micros) -> None:
        """Forget what steps before have changed: whom that concerns has read it by now."""
        self.step = (seq, at)
        if self.touched:
            self.touched = {}

    def order(self, key: WorkloadKey) -> tuple[str, str]:
        """Return what sorts workloads by age; those that are gone come first."""
        tracked = self.workloads.get(key)
        return ("" if tracked is None else tracked.record.uid, key)

    def touch(self, tracked: Tracked, cause: int) -> None:
        self.todo[tracked.record.key] = None
        tracked.cause = max(tracked.cause, cause)

    def basis(self, name: str) -> Basis:
        """Return what a request for this check rests on now."""
        check = self.checks.get(name)
        if check is None:
            return Basis("", 0)
        version = check.version
        if check.parameters is not None:
            version = max(version, self.parameters.get(check.parameters, (0, None))[0])
        return Basis(check.spec.controller_name, version)

    def relevant(self, reservation: Reservation) -> list[str]:
        """Return the checks that concern the reservation as the queue is now, sorted (AC1)."""
        spec = self.cluster_queues.get(reservation.cluster_queue)
        return [] if spec is None else checks_for(spec, reservation.assignment)

    def restate(self, key: WorkloadKey, requests: Mapping[str, Basis], names: Iterable[str]) -> None:
        """Note that these requests of a workload have changed."""
        for name in names:
            if name in requests:
                self.touched[requests[name].controller, key, name] = None

    def receive(self, key: WorkloadKey, verdict: Verdict) -> None:
        self.todo[key] = None
        self.verdicts.setdefault(key, {})[verdict.seq] = verdict
        self.verdict_of[verdict.seq] = key

    def answered(self, seq: int) -> bool:
        """Take the verdict at *seq* off the list; return whether there was one."""
        key = self.verdict_of.pop(seq, None)
        if key is None:
            return False
        waiting = self.verdicts[key]
        del waiting[seq]
        if not waiting:
            del self.verdicts[key]
        return True


__all__ = ["State"]
