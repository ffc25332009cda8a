"""The protocol between the dispatcher of a manager cell and its links to worker cells (decision 0044).

A link follows the log of its worker, and tells the manager what concerns the manager's jobs: one CloudEvent
per message on `sluice.<manager>.cell.<worker>`, of type RemoteReport, LinkUp or LinkDown. A report says which
part of the worker's log it covers: from behind `after` to `upto`. Reports are taken once and in order, so
what a link begins with after whatever outage is the `upto` that the manager's log has last.

Orders are what a worker is to have, as the manager's log says: level-triggered, so that carrying one out
twice is the same as once. They are derived from the dispatcher's state, and in no log.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from sluice.api.meta import Int64
from sluice.events.base import JobKey, Micros, Value, WorkloadKey
from sluice.events.job import JobEvent

CONTROLLERS: Final = ("sluice.dev/cells", "kueue.x-k8s.io/multikueue")
"""Names of the controller of checks that place jobs in other cells; the second one is Kueue's."""

ORIGIN: Final = "kueue.x-k8s.io/multikueue-origin"
"""Label of jobs in a worker cell: the manager that they come from."""

FOLLOWED: Final = ("slices", "checks", "scheduler", "config")
"""Subjects of a worker's log that a link reads."""

END_DIGITS: Final = 5
"""Hexadecimal digits by which a cell tells the jobs of its managers from each other's and its own."""

REPORT_MOST: Final = 1000
"""Facts of one report at most."""


def hold_controller(manager: str) -> str:
    """Return the controller of the checks by which *manager* holds its offers in a worker cell.

    >>> hold_controller("main")
    'sluice.dev/hold.main'
    """
    return f"sluice.dev/hold.{manager}"


FactKind = Literal[
    "Present",
    "Refused",
    "NoRoom",
    "Held",
    "Freed",
    "Running",
    "Ready",
    "Stopped",
    "Finished",
    "Gone",
    "Edited",
    "Resized",
    "Growing",
    "GrowthNoRoom",
    "GrowthHeld",
    "GrowthFreed",
    "GrowthGone",
]


def end_of_names(manager: str) -> str:
    """Return what the names of *manager*'s jobs end with in a cell where it places them, and no others.

    >>> end_of_names("main")
    '-b28b7'
    """
    return f"-{hashlib.sha1(manager.encode(), usedforsecurity=False).hexdigest()[:END_DIGITS]}"


class Fact(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that the worker's log says of a job of this manager's.

    Present: there is a workload for it. Refused: it was not taken. NoRoom: it waits. Held: it has quota
    reserved, in `attempt`, and waits for the manager. Freed: that reservation is over. Running, Ready: its
    pods start, run. Stopped: they do not run any more, and nobody had asked for that. Finished. Gone: there
    is no such job, and nothing of it runs.

    Edited: the edition `attempt` of the job was taken up; with `message` it was not. Resized: the job has
    `pods` now, and `workload` speaks for it. Growing: a slice of `pods` is to take its place; GrowthNoRoom,
    GrowthHeld, GrowthFreed, GrowthGone say of that slice what their likes say of a job.
    """

    kind: FactKind
    job: JobKey
    seq: Int64 = 0
    """Where the worker's log says so."""
    at: Micros = 0
    workload: WorkloadKey = WorkloadKey("")
    uid: str = ""
    """Of the workload."""
    attempt: Int64 = 0
    success: bool = True
    message: str = ""
    pods: dict[str, Int64] = {}


class RemoteReport(JobEvent, frozen=True, kw_only=True):
    """What the worker's log says behind `after`, up to and with `upto`."""

    after: Int64
    upto: Int64
    facts: Sequence[Fact] = ()


class LinkUp(JobEvent, frozen=True, kw_only=True):
    """The worker is in reach."""


class LinkDown(JobEvent, frozen=True, kw_only=True):
    """The worker is out of reach."""

    message: str = ""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be with one job in a worker cell.

    Offer: it is to be there, on its rung, with these `pods`; with `lift` its reservation of that number may
    start. `edition` says how often that was changed, and `answered` which change the cell has answered last.
    Withdraw: it is to go.
    """

    cell: str
    job: JobKey
    do: Literal["Offer", "Withdraw"]
    rung: str = ""
    first: int = 0
    last: int = 0
    refused: tuple[int, ...] = ()
    """Log sequences in the manager: the job's manifest is the last one from `first` to `last` that was not
    refused."""
    pods: dict[str, int] = {}
    edition: int = 0
    answered: int = 0
    origin: JobKey = JobKey("")
    """The job in the manager's cell."""
    remote: WorkloadKey = WorkloadKey("")
    remote_uid: str = ""
    """Its workload there, as far as is known: a namesake, made of a message that came late, may not start."""
    lift: int = 0
    started: bool = False
    """It runs there already, so nobody has to be told again that it may."""
    growth: WorkloadKey = WorkloadKey("")
    growth_uid: str = ""
    growth_lift: int = 0
    """Of the slice by which it grows there, as of the job itself."""


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """What the dispatcher has to say in its own cell, until the log shows that it was heard.

    Verdict: of a check. PodsReady, Stopped, Finished: of a job's run, as its executor.
    """

    what: Literal["Verdict", "PodsReady", "Stopped", "Finished"]
    workload: WorkloadKey
    job: JobKey
    uid: str
    controller: str = ""
    check: str = ""
    number: int
    """The attempt of a verdict, the run of all else."""
    state: Literal["", "Ready", "Retry"] = ""
    after_s: int = 0
    success: bool = True
    message: str = ""
