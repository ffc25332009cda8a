"""Actions that the check machine wants done, and their outcomes: plain structs.

A shell or a simulator stands around the machine. An outcome told twice, or of what was given up, or after
the end, changes nothing.
"""

import msgspec

from sluice.protocol.checks import CheckRequest, CheckVerdict

from ._verdict_messages import Said
from ._verdicts import Verdict


class Struct(msgspec.Struct, frozen=True):
    """Base of all that goes in and out."""


# actions. *attempt*: number of what is held of one attempt's request, never used again.


class Call(Struct, frozen=True):
    """Call the check function, or the watch; `Machine.call_ended(call, ...)` follows, for whatever reason."""

    call: int
    attempt: int
    request: CheckRequest
    watching: bool
    failures: int
    """Calls for this attempt that have failed without a success since."""


class CancelCall(Struct, frozen=True):
    """Cancel the function; it may take its time, and even answer."""

    call: int


class Publish(Struct, frozen=True):
    """Publish a verdict under *ident*; `Machine.published(number, ...)` follows. Unanswered: comes again."""

    number: int
    ident: str
    verdict: CheckVerdict
    recheck_after_s: float | None


class CancelPublish(Struct, frozen=True):
    """Nobody waits for the answer any more; the verdict may be in the log."""

    number: int


class AskFate(Struct, frozen=True):
    """Find out whether the service passed over a verdict; `Machine.fate(number, ...)` follows."""

    number: int
    key: str
    said: Said


class CallStop(Struct, frozen=True):
    """Call `on_stop`; `Machine.stop_ended(number, ...)` follows."""

    number: int
    attempt: int
    request: CheckRequest
    tried: int
    """Counts the calls from 1."""


class Change(Struct, frozen=True):
    """The request of an attempt is another one now: the author's is to be brought up to date."""

    attempt: int
    request: CheckRequest


class Withdraw(Struct, frozen=True):
    """The attempt is void: the author's request is to say so."""

    attempt: int


class Forget(Struct, frozen=True):
    """Nothing will be called for this attempt any more."""

    attempt: int


Action = Call | CancelCall | Publish | CancelPublish | AskFate | CallStop | Change | Withdraw | Forget


# how a call ended


class Answered(Struct, frozen=True):
    """What the function returned; None: a watch that leaves things as they are."""

    verdict: Verdict | None


class Failed(Struct, frozen=True):
    """It raised, or returned no verdict; *what* is shown to people."""

    what: str


class Cancelled(Struct, frozen=True):
    """It let a cancellation through."""


CallEnd = Answered | Failed | Cancelled


# what became of a verdict


class Found(Struct, frozen=True):
    """What the log has under the id now: this verdict, or that of a predecessor."""

    seq: int
    verdict: CheckVerdict


class Refused(Struct, frozen=True):
    """The log does not take it."""

    what: str


class Unanswered(Struct, frozen=True):
    """Nobody says; it may be in the log."""


Publication = Found | Refused | Unanswered
