"""Answers of the HTTP API, as structs: `proto/console.openapi.json` is made from them."""

from typing import Any

import msgspec

from .shapes import Amount as Amount
from .shapes import CheckNote as CheckNote
from .shapes import Envelope as Envelope
from .shapes import Failure as Failure
from .shapes import FlavorRow as FlavorRow
from .shapes import FlavorTotal as FlavorTotal
from .shapes import JobGroup as JobGroup
from .shapes import JobRow as JobRow
from .shapes import Loan as Loan
from .shapes import LocalQueueRow as LocalQueueRow
from .shapes import LogEvent as LogEvent
from .shapes import NodeRow as NodeRow
from .shapes import Object as Object
from .shapes import PendingRow as PendingRow
from .shapes import Problem as Problem
from .shapes import QueueRow as QueueRow
from .shapes import QuotaRow as QuotaRow
from .shapes import SourceInfo as SourceInfo
from .shapes import Struct as Struct


class WhoAmI(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Who asks, and what may be done."""

    user: str
    role: str
    """viewer or admin."""
    auth: str
    """none, token or proxy."""
    read_only: bool
    actions: list[str]
    """What may be done, by this user."""
    action_token: str
    """To be sent with an action, as `X-Sluice-Token`; empty for whoever may do nothing."""
    cell: str
    source: SourceInfo
    version: str


class QuotaAnswer(Envelope, frozen=True, kw_only=True):
    nodes: list[NodeRow]
    """In the order of the tree, parents first."""
    flavors: list[FlavorRow]


class QueuesAnswer(Envelope, frozen=True, kw_only=True):
    queues: list[QueueRow]


class SeriesLine(Struct, frozen=True, omit_defaults=False, kw_only=False):
    """A node's quota of one flavor and resource, at each of the points."""

    kind: str
    name: str
    flavor: str
    resource: str
    nominal: list[Amount]
    used: list[Amount]
    borrowed: list[Amount]
    lent: list[Amount]


class SeriesAnswer(Envelope, frozen=True, kw_only=True):
    """A queue or cohort over time: itself first, then its members."""

    from_: int = msgspec.field(name="from")
    to: int
    step: int
    """Messages between two points."""
    seqs: list[int]
    times: list[str]
    pending: list[int]
    admitted: list[int]
    lines: list[SeriesLine]


class PendingAnswer(Envelope, frozen=True, kw_only=True):
    items: list[PendingRow]
    total: int
    reasons: dict[str, int]
    continue_: str = msgspec.field(name="continue")


class JobsAnswer(Envelope, frozen=True, kw_only=True):
    items: list[JobRow]
    total: int
    phases: dict[str, int]
    groups: list[JobGroup]
    continue_: str = msgspec.field(name="continue")


class QueueAnswer(Envelope, frozen=True, kw_only=True):
    queue: QueueRow
    object: Object
    local_queues: list[str]
    locals: list[LocalQueueRow]
    """The same, with who is in them."""
    head: PendingRow | None
    waiting: list[PendingRow]
    holding: list[JobRow]
    policies: Object
    checks: list[str]


class CohortsAnswer(Envelope, frozen=True, kw_only=True):
    cohorts: list[NodeRow]


class CohortAnswer(Envelope, frozen=True, kw_only=True):
    node: NodeRow
    members: list[NodeRow]
    lending: list[Loan]
    object: Object | None


class JobAnswer(Envelope, frozen=True, kw_only=True):
    row: JobRow
    object: Object
    workloads: list[Object]
    state: Object
    history: list[Object]


class EventsAnswer(Envelope, frozen=True, kw_only=True):
    items: list[LogEvent]
    total: int
    continue_: str = msgspec.field(name="continue")


class Span(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A stretch of a lane. `to` "" and `to_seq` 0: it lasts."""

    from_: str = msgspec.field(name="from")
    to: str
    from_seq: int
    to_seq: int
    state: str
    detail: str


class Lane(Struct, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    kind: str
    """phase, variant, slice or check."""
    spans: list[Span]


class Mark(Struct, frozen=True, kw_only=True, omit_defaults=False):
    seq: int
    time: str
    type: str
    lane: str
    text: str
    other: str
    """Whom it leads to: the job that preempted, or the flavor moved to."""


class TimelineAnswer(Envelope, frozen=True, kw_only=True):
    from_: str = msgspec.field(name="from")
    to: str
    lanes: list[Lane]
    marks: list[Mark]


class SpecAnswer(Envelope, frozen=True, kw_only=True):
    seq: int
    manifest: Object | None


class ReportAnswer(Envelope, frozen=True, kw_only=True):
    """The answer of a heavy question: `report` is what the command prints with `-o json`."""

    text: list[str]
    report: Any


class LogAnswer(Envelope, frozen=True, kw_only=True):
    items: list[LogEvent]
    first: int
    end: int
    next: int
    """Where the next page begins; 0: there is none."""


class Consequence(Struct, frozen=True, kw_only=True, omit_defaults=False):
    depth: int
    event: LogEvent


class CommitAnswer(Envelope, frozen=True, kw_only=True):
    seq: int
    subject: str
    events: list[LogEvent]
    causes: list[LogEvent]
    consequences: list[Consequence]
    cut: bool


class Bucket(Struct, frozen=True, kw_only=True, omit_defaults=False):
    from_: int = msgspec.field(name="from")
    to: int
    time: str
    counts: dict[str, int]


class DensityAnswer(Envelope, frozen=True, kw_only=True):
    first: int
    end: int
    buckets: list[Bucket]


class PreemptionRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    seq: int
    time: str
    preemptor: str
    preemptor_queue: str
    victim: str
    victim_queue: str
    rule: str
    message: str


class LoopNote(Struct, frozen=True, kw_only=True, omit_defaults=False):
    kind: str
    """loops or thrashing."""
    seq: int
    time: str
    text: str


class PreemptionsAnswer(Envelope, frozen=True, kw_only=True):
    items: list[PreemptionRow]
    loops: list[LoopNote]
    total: int
    continue_: str = msgspec.field(name="continue")


class CheckRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    controller: str
    active: bool | None
    """None: not known yet."""
    inactive: str
    waiting: list[str]
    oldest: str
    object: Object


class ChecksAnswer(Envelope, frozen=True, kw_only=True):
    checks: list[CheckRow]


class ObjectsAnswer(Envelope, frozen=True, kw_only=True):
    """As `sluice get KIND -o json`."""

    api_version: str = "v1"
    kind: str = "List"
    items: list[Object]
    continue_: str = msgspec.field(name="continue", default="")


class ObjectAnswer(Envelope, frozen=True, kw_only=True):
    object: Object


class ReasonRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    reason: str
    count: int
    queues: dict[str, int]
    example: str


class Borrower(Struct, frozen=True, kw_only=True, omit_defaults=False):
    queue: str
    flavor: str
    resource: str
    borrowed: Amount


class Warning_(Struct, frozen=True, kw_only=True, omit_defaults=False):
    severity: str
    code: str
    text: str
    queue: str


class OverviewAnswer(Envelope, frozen=True, kw_only=True):
    sentence: str
    jobs: dict[str, int]
    workloads: dict[str, int]
    queues: list[QueueRow]
    reasons: list[ReasonRow]
    oldest: list[PendingRow]
    borrowers: list[Borrower]
    configuration: list[LogEvent]
    warnings: list[Warning_]
    agents: list[Object]


class Replica(Struct, frozen=True, kw_only=True, omit_defaults=False):
    service: str
    instance: str
    role: str
    upto: int
    lag: int
    pid: int


class WriterAt(Struct, frozen=True, kw_only=True, omit_defaults=False):
    seq: int
    time: str


class LogSize(Struct, frozen=True, kw_only=True, omit_defaults=False):
    first: int
    end: int
    bytes: int


class Questions(Struct, frozen=True, kw_only=True, omit_defaults=False):
    running: int
    waiting: int


class ConsoleState(Struct, frozen=True, kw_only=True, omit_defaults=False):
    upto: int
    lag: int
    clients: int
    questions: Questions
    memory_bytes: int


class SystemAnswer(Envelope, frozen=True, kw_only=True):
    replicas: list[Replica]
    writers: dict[str, WriterAt]
    agents: list[Object]
    rejected: int
    log: LogSize
    console: ConsoleState


class StateAnswer(Envelope, frozen=True, kw_only=True):
    """As `sluice replay state -o json`; with *name*, what that name has."""

    state: Object


class DiffAnswer(Envelope, frozen=True, kw_only=True):
    """As `sluice replay diff -o json`."""

    before: int
    after: int
    diff: Object


class SimulateRequest(Struct, frozen=True, kw_only=True):
    """`manifest`, or `text` with one manifest in YAML."""

    manifest: Object | None = None
    text: str = ""
    at: str = ""


class WhatIfRequest(Struct, frozen=True, kw_only=True):
    """As the options of `sluice replay what-if`."""

    set: list[str] = []
    apply: list[Object] = []
    drop: list[str] = []
    from_: str = msgspec.field(name="from", default="")
    control: bool = True


class LoginRequest(Struct, frozen=True, kw_only=True):
    token: str


class Delta(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A frame of the stream: all that changed after `since`, up to `upto`."""

    since: int
    upto: int
    time: str
    lag: int
    changed: dict[str, list[Object]]
    gone: dict[str, list[str]]
    places: dict[str, list[str]]
    log: list[LogEvent]
    log_cut: bool
