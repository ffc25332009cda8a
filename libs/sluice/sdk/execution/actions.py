"""Actions of an executor and their results: plain structs, so that a shell or a simulator can stand around
it.

`Ask(number, request)` wants `Machine.answer(number, answer)`, once: late, or `Unanswered`. An answer that
comes twice, or after the end, changes nothing.
"""

import msgspec

from sluice.events.base import JobKey
from sluice.events.job import JobEvent
from sluice.protocol.dispatch import Claim, DispatchEntry, Heartbeat
from sluice.protocol.heartbeats import AnyHeartbeat

from ._outcome import Held, Outcome


class _Struct(msgspec.Struct, frozen=True):
    """Base of all that goes in and out."""


# requests


class GetEntry(_Struct, frozen=True):
    """What the job should be doing now. Answer: `HasEntry`, `Absent` or `Unanswered`.

    `Absent` only if that is certain: a bucket that is being written anew (`Bucket.whole`) does not say it.
    """

    job: JobKey


class GetClaim(_Struct, frozen=True):
    """Who has an attempt. Answer: `HasClaim`, `Absent` or `Unanswered`."""

    key: str


class PutClaim(_Struct, frozen=True):
    """Answer: `Stored`, `Refused` (the key is not of *revision*; 0: there is one), `Unanswered`."""

    key: str
    claim: Claim
    revision: int
    ttl_s: int | None = None


class ListClaims(_Struct, frozen=True):
    """All claims. Answer: `HasClaims` or `Unanswered`."""


class GetHeartbeat(_Struct, frozen=True):
    """This executor's own. Answer: `HasHeartbeat`, `Absent` or `Unanswered`."""


class PutHeartbeat(_Struct, frozen=True):
    """Answer: `Stored`, `Refused` (not of *revision*), `Unanswered`. *revision* None: whatever there is."""

    heartbeat: Heartbeat
    revision: int | None
    ttl_s: float


class ListHeartbeats(_Struct, frozen=True):
    """Answer: `Present` or `Unanswered`."""


class RemoveHeartbeat(_Struct, frozen=True):
    """Answer: anything."""


class ReadJob(_Struct, frozen=True):
    """What the log has about a job from sequence *since* on. Answer: `JobRead` or `Unanswered`."""

    job: JobKey
    since: int


class Publish(_Struct, frozen=True):
    """Say something about a job. Answer: `Stored`, `Refused` or `Unanswered` (it may be in the log).

    *after*: the newest message about this job must be the one at that sequence; None: whichever it is.
    A message whose id the log has is stored already, and answered so (`Stored.before`), whatever is newest.
    """

    job: JobKey
    data: JobEvent
    message_id: str
    after: int | None = None


class Recover(_Struct, frozen=True):
    """End what an earlier process of this executor left of an attempt. Answer: `Recovered`."""

    held: Held


class Judge(_Struct, frozen=True):
    """Can what the manifest asks for be run here? Answer: `Judged` or `Unanswered`."""

    entry: DispatchEntry


Request = (
    GetEntry
    | GetClaim
    | PutClaim
    | ListClaims
    | GetHeartbeat
    | PutHeartbeat
    | ListHeartbeats
    | RemoveHeartbeat
    | ReadJob
    | Publish
    | Recover
    | Judge
)


# answers


class Stored(_Struct, frozen=True):
    """Written; *revision*: of the key, or the sequence in the log.

    *before*: the log had a message of this id already, of which nobody can tell what has come since.
    """

    revision: int = 0
    before: bool = False


class Refused(_Struct, frozen=True):
    """Not written: something else is there than was expected."""


class Unanswered(_Struct, frozen=True):
    """Nobody says; what was to be written may be there."""

    detail: str = ""


class Absent(_Struct, frozen=True):
    """There is no such thing."""


class HasEntry(_Struct, frozen=True):
    """The job's entry."""

    entry: DispatchEntry


class HasClaim(_Struct, frozen=True):
    """The claim that there is, and its revision."""

    claim: Claim
    revision: int


class HasClaims(_Struct, frozen=True):
    """All claims there are."""

    claims: tuple[tuple[str, Claim, int], ...]
    """(key, claim, revision), by key."""


class HasHeartbeat(_Struct, frozen=True):
    """The heartbeat that there is."""

    heartbeat: AnyHeartbeat


class Present(_Struct, frozen=True):
    """The executors that are there."""

    executors: frozenset[str]
    """Names of those with a heartbeat."""


class Told(_Struct, frozen=True):
    """One message about a job. *data* is none of the reports: a submission, a scaling."""

    seq: int
    message_id: str
    data: JobEvent | None


class JobRead(_Struct, frozen=True):
    """What the log says of a job, in its order."""

    told: tuple[Told, ...]
    last: int
    """Sequence of the newest message about the job, 0 if the log has none (any more)."""


class Recovered(_Struct, frozen=True):
    """What came of looking for the work of an earlier process."""

    outcome: Outcome | None
    """How the attempt had ended, if it had."""


class Judged(_Struct, frozen=True):
    """Whether it can; what cannot is left alone."""

    fit: bool


Answer = (
    Stored
    | Refused
    | Unanswered
    | Absent
    | HasEntry
    | HasClaim
    | HasClaims
    | HasHeartbeat
    | Present
    | JobRead
    | Recovered
    | Judged
)


# actions


class Ask(_Struct, frozen=True):
    """A request that is to be answered, by its number."""

    number: int
    request: Request


class Follow(_Struct, frozen=True):
    """Follow dispatch from now on: first all there is, then what changes, by `Machine.dispatched`."""


class StartWork(_Struct, frozen=True):
    """Begin the work of an attempt; say `Machine.work_ended` when it has ended, for whatever reason."""

    work: int
    entry: DispatchEntry


class ResizeWork(_Struct, frozen=True):
    """The same attempt in other words: *resized* if it is of another size, or of another slice of its job."""

    work: int
    entry: DispatchEntry
    resized: bool


class CancelWork(_Struct, frozen=True):
    """End what runs."""

    work: int


class HurryWork(_Struct, frozen=True):
    """What runs must have ended within so many seconds; it is cancelled, or will be at once."""

    work: int
    within_s: float


class Leased(_Struct, frozen=True):
    """Nobody else is given what runs here before *until*, by the clock of whoever tells the time."""

    until: float


class Reported(_Struct, frozen=True):
    """What was handed to `Machine.report` is in the log; or will not be, as the executor is about to end."""

    report: int
    in_log: bool


class Ended(_Struct, frozen=True):
    """Everything has ended; nothing more is asked. *duplicate*: instance of another process of this name."""

    duplicate: str = ""


Action = Ask | Follow | StartWork | ResizeWork | CancelWork | HurryWork | Leased | Reported | Ended
