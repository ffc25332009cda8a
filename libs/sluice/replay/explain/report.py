"""Report of `why`, as data: the texts and JSON of the commands are made of it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from sluice.replay.views.cells import CellNote
from sluice.replay.views.pending_preemptions import PendingPreemption

from .checks import CheckNote
from .remedy import Remedy
from .variants import VariantNote


@dataclass
class Numbers:
    """One flavor and resource, in the resource's own unit as manifests write it."""

    flavor: str
    resource: str
    pod_set: str
    requested: str
    nominal: str = "0"
    used: str = "0"
    borrowable: str = "0"
    available: str = "0"
    short: str = "0"
    shared: str = "0"
    """Of a variant: what of it is charged to siblings already, so that it is needed no second time (CA10)."""
    promised: str = "0"
    """Reserved beside what is used, for when pending preemptions have been made (AC6)."""
    obstacle: str = ""
    """Why the flavor is out of the question, apart from quota."""


@dataclass
class Candidate:
    """Someone who holds what is needed: may it be preempted, and if not, why not."""

    workload: str
    cluster_queue: str
    priority: int
    usage: dict[str, str]
    allowed: bool
    why: str


@dataclass
class Report:
    """Everything about one pending workload, at one sequence."""

    workload: str
    job: str
    seq: int
    at: str
    phase: str
    cluster_queue: str
    local_queue: str
    rule: str
    """The blocking rule: a G6 reason, or what keeps the workload out of the queue."""
    message: str
    instead: tuple[str, str] | None = None
    """Of a variant that nothing admits before a sibling: a change that admits the sibling, and which."""
    position: int = 0
    """Place in the queue, 1 is the head; 0 when it does not queue."""
    queue_size: int = 0
    ahead: list[str] = field(default_factory=list)
    """The first of those before it."""
    numbers: list[Numbers] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    candidates_left_out: int = 0
    remedies: list[Remedy] = field(default_factory=list)
    trials: int = 0
    """How many states were decided on to find the remedies."""
    constraints: list[str] = field(default_factory=list)
    """What it imposes on itself (AX1)."""
    least: dict[str, int] = field(default_factory=dict)
    """Pod set -> with how many of its pods it would run, if that is less than all (SC7)."""
    replaces: str = ""
    """The slice that it is to take the place of: numbers are what it asks for beyond that one (WS3)."""
    meanwhile: str = ""
    """Which growth it is, and what becomes of that slice until then."""
    not_needed: dict[str, int] = field(default_factory=dict)
    """Pod set -> how many of its pods need no quota: no completion is left for them (WS3)."""
    note: VariantNote | None = None
    """Of a variant: what the variant-controller says of it."""
    checks: list[CheckNote] = field(default_factory=list)
    """The admission checks of its reservation."""
    cells: list[CellNote] = field(default_factory=list)
    """Where it is in other cells, if this one places jobs there."""
    claims: list[PendingPreemption] = field(default_factory=list)
    """Reservations for which others are still to go (AC6): its own, or those that hold what it waits for."""
    variants: list["Report"] = field(default_factory=list)
    """Of a parent: the same of each of its variants, the most preferred first."""

    def plain(self) -> dict[str, Any]:
        return asdict(self)
