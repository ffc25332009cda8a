"""Questions to the api service and its answers, over NATS request/reply (JSON).

Not events: nothing here is in the log. Requests go to `sluice.<cell>.api.apply|delete` and
`sluice.<cell>.query.list|watch|history|why|status`; a request that cannot be served is answered with a
Kubernetes `Status` (`kind: "Status"`, `status: "Failure"`), field errors in `details.causes`.
Objects travel as Kubernetes objects: `apiVersion`, `kind`, `metadata`, `spec`, `status`.
"""

from typing import Annotated, Any, Literal

import msgspec

Object = dict[str, Any]


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of requests and answers; answers may gain fields, so unknown ones are ignored."""


class Request(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of requests: a misspelt field is an error."""


class Cause(Wire, frozen=True, kw_only=True):
    """One wrong field of a refused object."""

    field: str = ""
    message: str = ""
    reason: str = ""


class StatusDetails(Wire, frozen=True, kw_only=True):
    """Which object a `Status` is about, and what is wrong with its fields."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: list[Cause] = []
    retry_after_seconds: int = 0


class Status(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Kubernetes' answer when something was refused; `reason` is for programs, `message` for people."""

    message: str
    reason: str
    code: int
    details: StatusDetails = StatusDetails()
    kind: Literal["Status"] = "Status"
    api_version: Literal["v1"] = "v1"
    status: Literal["Failure", "Success"] = "Failure"


class ApplyRequest(Request, frozen=True, kw_only=True):
    """Objects to create or change; each stands for itself, what is valid is committed together.

    `namespace` is for objects that name none. With `dry_run` everything happens but the commit.
    """

    objects: list[Object]
    namespace: str = "default"
    dry_run: bool = False


class Reference(Wire, frozen=True, kw_only=True):
    """Names an object; namespace "" means that of the request."""

    kind: str
    name: str
    namespace: str = ""


class DeleteRequest(Request, frozen=True, kw_only=True):
    """Delete objects, in the order given."""

    objects: list[Reference]
    namespace: str = "default"
    dry_run: bool = False


Outcome = Literal["created", "configured", "unchanged", "deleted", "terminating", "refused"]


class Result(Wire, frozen=True, kw_only=True):
    """What became of one object of the request, in the request's order."""

    outcome: Outcome
    kind: str = ""
    name: str = ""
    namespace: str = ""
    object: Object | None = None
    status: Status | None = None
    warnings: list[str] = []


class ChangeAnswer(Wire, frozen=True, kw_only=True):
    """`seq` is the commit's sequence (with nothing committed: the last one folded); use it as `min_seq`."""

    seq: int
    results: list[Result]


class ListRequest(Request, frozen=True, kw_only=True):
    """Objects of a kind: all namespaces unless one is given; `name` asks for one object.

    `min_seq`: answer only with a state at least as new. `continue_` is an earlier answer's: the next page.
    `label_selector` and `field_selector` are written as for kubectl (`a=b,c!=d`, `x in (y,z)`).
    `whole`: jobs with the spec that they were submitted with, read from the log.
    `waiting_in`: of workloads, those that wait in this queue (a cluster queue, or the `namespace/name` of a
    local one), the next one first; `limit` of them, without further pages.
    `within`: nothing is seen but what lies in these namespaces. The gate writes it for teams.
    """

    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: str = ""
    field_selector: str = ""
    min_seq: int = 0
    limit: Annotated[int, msgspec.Meta(ge=0)] = 500
    whole: bool = False
    waiting_in: str = ""
    within: list[str] | None = None
    continue_: str = msgspec.field(default="", name="continue")


class ListAnswer(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Objects as of `seq`, and where the list goes on ("": it does not). A list of none has its `items`, too.

    `omitted`: of a history, how many earlier events are not among them.
    """

    seq: int
    items: list[Object] = []
    continue_: str = msgspec.field(default="", name="continue")
    kind: str = "List"
    omitted: int = 0


class WatchRequest(Request, frozen=True, kw_only=True):
    """As a list, of what changed after `since`; the answer waits up to `timeout_ms` for a change.

    `places`: of jobs and workloads, also the first so many that wait in each cluster queue that changed:
    their places may have.
    """

    kind: str
    since: int
    namespace: str = ""
    name: str = ""
    label_selector: str = ""
    field_selector: str = ""
    timeout_ms: int = 10_000
    whole: bool = False
    places: int = 0
    within: list[str] | None = None
    continue_: str = msgspec.field(default="", name="continue")


class WatchAnswer(Wire, frozen=True, kw_only=True):
    """`items` changed after `since`, `deleted` are gone. `seq` is the next request's `since`.

    With `continue_` there is more: ask at once, with both. `reset` says that `since` was too long ago to
    tell: list again.
    """

    seq: int
    items: list[Object] = []
    deleted: list[Reference] = []
    reset: bool = False
    continue_: str = msgspec.field(default="", name="continue")


class StatusRequest(Request, frozen=True, kw_only=True):
    """How is this replica? It answers once it is as far as `min_seq`."""

    min_seq: int = 0


class WriterHead(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """A writer's newest commit: sequence, and time in microseconds since the epoch."""

    seq: int
    at: int


class LogStanding(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """How the server stores the log: from which message on, what it takes, and of how many copies it has how
    many are `current`."""

    first: int
    messages: int
    bytes: int
    copies: int
    current: int


class StatusAnswer(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """How far this replica is (`seq`; the log ends at `end`), messages `rejected`, and what there is."""

    cell: str
    seq: int
    end: int
    lag: int
    instance: str
    rejected: int
    writers: dict[str, WriterHead]
    agents: list[Object]
    totals: list[dict[str, Any]]
    """What metrics count: of each its name, labels and value."""
    counts: dict[str, int]
    log: LogStanding | None = None
    """Asked of the server; None of releases that did not say it."""


class HistoryRequest(Request, frozen=True, kw_only=True):
    """Events that concern one object, oldest first, at most `limit` of the newest."""

    kind: str
    name: str
    namespace: str = ""
    limit: int = 50
    min_seq: int = 0
    within: list[str] | None = None


class WhyRequest(Request, frozen=True, kw_only=True):
    """Why is a workload, or a job's, pending? For who may not read the log; the others ask that."""

    name: str
    namespace: str
    min_seq: int = 0
    within: list[str] | None = None


class WhyAnswer(Wire, frozen=True, kw_only=True):
    """The answer as of `seq`: `text` for people, `report` with the same for programs."""

    seq: int
    text: list[str]
    report: dict[str, Any]
