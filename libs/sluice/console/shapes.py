"""Parts of the HTTP API's answers: amounts, rows of lists, events."""

from typing import Any

import msgspec

Object = dict[str, Any]


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all answers: names as JSON has them; what has its default is left out."""


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What every answer begins with: of which sequence it is."""

    upto: int
    """Sequence of the log that the answer is of."""
    time: str
    """When the log took that message; RFC 3339, UTC. Empty before the first one."""
    live: bool
    """Of the end of a cell that goes on; not of the past, or of a file."""
    lag: int
    """Messages that the log has and the console has not folded; 0 for the past."""


class Amount(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """An amount of a resource."""

    text: str
    """As the command line prints it."""
    value: int
    """In base units, the same for all amounts of one resource."""


class Problem(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    hint: str = ""


class Failure(Struct, frozen=True, kw_only=True):
    """What went wrong with a request."""

    error: Problem


class SourceInfo(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Where the console reads."""

    kind: str
    """cell or file."""
    name: str
    first: int
    end: int
    first_time: str
    end_time: str
    redacted: bool


class QuotaRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One flavor and resource at a queue or cohort."""

    flavor: str
    resource: str
    nominal: Amount
    """Of a cohort: of its whole subtree."""
    used: Amount
    """What is held, as `used` of `sluice replay state`: promises left out."""
    own: Amount
    """Of `used`, what is within the nominal quota."""
    borrowed: Amount
    """Of `used`, what is above it."""
    lent: Amount
    """Of the nominal quota, what others of the tree use now: each lender's part is in proportion to what it
    could lend, as no unit of quota has a name."""
    promised: Amount
    """Promised to those whose victims have not gone yet, beside `used`."""
    reserved: Amount
    """Of `used`, what is reserved and not admitted yet."""
    free: Amount
    """What could still be used, borrowing included: `available` of `sluice replay state`."""
    borrowing_limit: Amount | None
    lending_limit: Amount | None


class NodeRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A cohort or cluster queue of the tree."""

    name: str
    kind: str
    parent: str
    path: str
    depth: int
    weight: float
    pending: int
    reserving: int
    admitted: int
    active: bool
    inactive: str
    stop_policy: str
    quota: list[QuotaRow]


class FlavorTotal(Struct, frozen=True, kw_only=True, omit_defaults=False):
    resource: str
    nominal: Amount
    used: Amount


class FlavorRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A flavor: who offers how much of it, and which agents serve it."""

    name: str
    node_labels: dict[str, str]
    quota: list[FlavorTotal]
    queues: list[str]
    agents: list[str]


class QueueRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A cluster queue in a list."""

    name: str
    cohort: str
    strategy: str
    active: bool
    inactive: str
    stop_policy: str
    pending: int
    reserving: int
    admitted: int
    oldest: str
    """When the one that has waited longest was created; "" when nobody waits."""
    quota: list[QuotaRow]


class LocalQueueRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A local queue of a cluster queue."""

    namespace: str
    name: str
    active: bool
    inactive: str
    stop_policy: str
    pending: int
    reserving: int
    admitted: int


class CheckNote(Struct, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    state: str


class PendingRow(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A workload that waits for quota."""

    key: str
    """Of its job; of a workload without one, its own."""
    workload: str
    variant: str
    queue: str
    cluster_queue: str
    priority: int
    position: int
    """1 is next; 0: it has no place."""
    of: int
    reason: str
    message: str
    since: str
    """Since when for this reason; "" when the scheduler has not said anything."""
    created: str
    waiting_seconds: float
    pods: int
    requests: dict[str, Amount]
    checks: list[CheckNote]
    attempts: int
    count: int
    """With group=equal: how many are equal to it, itself included."""
    more: list[str]


class JobRow(Struct, frozen=True, kw_only=True):
    """A job in a list; what is empty is left out."""

    key: str
    namespace: str
    name: str
    kind: str
    phase: str
    queue: str = ""
    cluster_queue: str = ""
    reason: str = ""
    message: str = ""
    position: int = 0
    priority: int = 0
    priority_class: str = ""
    pods: int = 0
    flavors: list[str] = []
    attempts: int = 0
    evictions: int = 0
    executor: str = ""
    created: str = ""
    started: str = ""
    finished: str = ""
    waited_seconds: float | None = None
    ran_seconds: float | None = None
    labels: dict[str, str] = {}
    workload: str = ""
    version: int = 0
    """Sequence of its last change."""


class JobGroup(Struct, frozen=True, kw_only=True, omit_defaults=False):
    value: str
    count: int
    phases: dict[str, int]


class LogEvent(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One event of a commit, or one message from outside."""

    seq: int
    index: int
    time: str
    writer: str
    type: str
    text: str
    cause: int
    about: list[str]
    data: Object


class Loan(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Who lends to whom, `from` a lender `to` a borrower: in proportion, see `QuotaRow.lent`."""

    from_: str = msgspec.field(name="from")
    to: str
    flavor: str
    resource: str
    amount: Amount
