"""Knowledge of one executor: what is wanted, what it has, what waits, and what is another's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from sluice.events.base import JobKey
from sluice.events.job import OnLoss
from sluice.protocol.dispatch import Claim, DispatchEntry, claim_key

from ._ownership import Owner

LEASE_S = 8.0
"""How long a lease lasts, unless the executor has a time of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """*flavors*: those served, () for all. *capacity*: most pods at once, 0 for any number.

    *kinds*: kinds of jobs that are run (`PyTorchJob`), () for all; others are left alone.
    *namespaces*: whose jobs are run, () for all; a pool's user may see those of its own only.
    """

    flavors: Sequence[str] = ()
    capacity: int = 0
    heartbeat_s: float = 1.0
    ttl_s: float = 5.0
    """How long a heartbeat lasts: whole seconds, several beats."""
    takeover_s: float = 10.0
    """How long an owner's heartbeat must be missing before its claims are taken over."""
    namespaces: Sequence[str] = ()
    check_s: float = 10.0
    """How often what runs is compared with what should run, beside following the changes."""
    on_loss: Literal["Requeue", "Wait"] = "Requeue"
    """What becomes of jobs while this executor is away: queued again, or they wait until it is back."""
    requeue_after_s: float | None = None
    """Of Requeue: how long the heartbeat must have been missing; by default what the cell has, 3 s."""
    kinds: Sequence[str] = ()
    lease: bool = False
    """End what runs, by itself, before it is queued again because nobody hears of this executor."""
    stop_s: float = 3.0
    """How long before that `run` is cancelled: it must have ended everything by then."""

    def __post_init__(self) -> None:
        if self.on_loss == "Wait" and (self.lease or self.requeue_after_s is not None):
            raise ValueError(
                "on_loss Wait: nothing is queued again, so there is no lease and no requeue_after_s"
            )
        least = self.stop_s + 2 * self.heartbeat_s
        if self.lease and self.lasts_s < least:
            raise ValueError(f"requeue_after_s {self.lasts_s:g}: with a lease it must be at least {least:g}")

    @property
    def lasts_s(self) -> float:
        """How long a lease lasts from a heartbeat on."""
        return LEASE_S if self.requeue_after_s is None else self.requeue_after_s

    @property
    def wish(self) -> OnLoss | None:
        """What is said with each claim."""
        if self.on_loss == "Wait":
            return OnLoss(policy="Wait")
        own = self.lease or self.requeue_after_s is not None
        return OnLoss(after_s=self.lasts_s) if own else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One process of an executor: *instance* is of this process alone."""

    name: str
    instance: str
    host: str = ""
    pid: int = 0


class Stage(Enum):
    CLAIM = "claim"
    """The claim is being made."""
    LOOK = "look"
    """It is made; is the attempt still wanted, and nobody else's?"""
    ANNOUNCE = "announce"
    """The log is told who has it."""
    WORK = "work"
    REPORT = "report"
    """It has ended; the log is told how."""
    CLOSE = "close"
    """The claim is given up."""
    RECOVER = "recover"
    """It was an earlier process's of this executor: what that left is ended and reported."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt of one job, from the claim to the report."""

    entry: DispatchEntry
    pods: int
    after: int | None
    """The newest message about the job, None before that is known."""
    revision: int = 0
    """Of the claim."""
    stage: Stage = Stage.CLAIM
    ending: str = ""
    """'' while wanted; `stop`: to be stopped and reported; `lost`: not ours any more, nothing to report."""
    announced: bool = False
    """The log says that this process has it."""
    owner: Owner | None = None
    """As last read in the log."""
    open: int = 0
    """Answers waited for before the next stage."""
    work: int = 0
    given: DispatchEntry | None = None
    """What the work was given."""
    why: str = ""
    """Why this executor has stopped it by itself."""

    @property
    def key(self) -> str:
        return claim_key(self.entry.job, self.entry.uid, self.entry.attempt)


@dataclass
class Book:
    """State of one executor. *ending*: '' while it works; `stop`: in order; `abandon`: without reports."""

    who: Identity
    settings: ExecutorSettings
    wanted: dict[JobKey, DispatchEntry] = field(default_factory=dict)
    attempts: dict[JobKey, Attempt] = field(default_factory=dict)
    waiting: dict[JobKey, None] = field(default_factory=dict)
    """Jobs to be started as soon as there is room, in the order in which they came."""
    foreign: dict[JobKey, DispatchEntry] = field(default_factory=dict)
    """Wanted, but another executor's."""
    unfit: dict[JobKey, tuple[str, int]] = field(default_factory=dict)
    """Jobs that cannot be run here -> uid, and the manifest that says so."""
    used: int = 0
    """Pods of all attempts."""
    ending: str = ""
    leased: bool = True
    """Whether anything may run here: not if it could be queued again unheard of."""

    def mine(self, state: str = "Active") -> Claim:
        done = state == "Done"
        return Claim(executor=self.who.name, instance=self.who.instance, state="Done" if done else "Active")

    def serves(self, entry: DispatchEntry) -> bool:
        flavors, kinds = self.settings.flavors, self.settings.kinds
        if kinds and entry.kind and entry.kind not in kinds:
            return False
        if self.unfit and self.unfit.get(entry.job) == manifest_of(entry):
            return False
        return not flavors or all(
            flavor in flavors for pods in entry.pod_sets for flavor in pods.flavors.values()
        )


def same(one: DispatchEntry, other: DispatchEntry) -> bool:
    """Tell whether both are about the same attempt of the same job."""
    return one.uid == other.uid and one.attempt == other.attempt


def manifest_of(entry: DispatchEntry) -> tuple[str, int]:
    """Return what is the same as long as the job goes by the same manifest."""
    return entry.uid, entry.manifest_seq


def counts(entry: DispatchEntry) -> dict[str, int]:
    return {pods.name: pods.count for pods in entry.pod_sets}


def pods_of(entry: DispatchEntry) -> int:
    return sum(pods.count for pods in entry.pod_sets)
