"""Ownership of an attempt: its first claim in the log. Entries of the bucket only save the others from
trying.

A bucket can be lost and made again, with attempts at work that it knows nothing of. So who begins an attempt
says so behind the newest message about the job that it has read (`Publish.after`): of several, one succeeds,
and the others find that message when they read again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sluice.events.ids import seq_of
from sluice.events.job import JobFinished, JobPodsReady, JobPodsReclaimable, JobStopped
from sluice.protocol.dispatch import DispatchEntry

from .actions import Told

_AGAIN = "~"
"""Before the number of an id that is not the first one."""


class Owner(NamedTuple):
    """*executor* '': it gives no name. *over*: the attempt has ended."""

    executor: str
    instance: str
    over: bool


def claim_id(uid: str, attempt: int, instance: str) -> str:
    """Return the id of the message by which a process takes an attempt."""
    return f"{uid}-{attempt}-claim-{instance}"


def another_id(message_id: str) -> str:
    """Return the id to use where this one was used for something else.

    >>> another_id("2a-1-end"), another_id("2a-1-end~2")
    ('2a-1-end~2', '2a-1-end~3')
    """
    first, again, number = message_id.rpartition(_AGAIN)
    if again and number.isdecimal():
        return f"{first}{_AGAIN}{int(number) + 1}"
    return f"{message_id}{_AGAIN}2"


def owner_of(told: Sequence[Told], uid: str, attempt: int) -> Owner | None:
    """Return whose attempt it is, by what the log has about the job; None: nobody's yet."""
    owner: Owner | None = None
    for message in told:
        data = message.data
        if not isinstance(data, JobPodsReady | JobPodsReclaimable | JobStopped | JobFinished):
            continue
        if data.attempt != attempt or data.uid not in ("", uid):
            continue
        over = isinstance(data, JobStopped | JobFinished)
        if owner is None:
            executor = "" if isinstance(data, JobPodsReclaimable) else data.executor
            prefix = claim_id(uid, attempt, "")
            named = message.message_id.startswith(prefix)
            instance = message.message_id.removeprefix(prefix).partition(_AGAIN)[0] if named else ""
            owner = Owner(executor, instance, over)
        elif over:
            owner = owner._replace(over=True)
    return owner


def born(uid: str) -> int:
    """Return where the log speaks of this life of the job first, 1 if its uid does not tell."""
    try:
        return max(1, seq_of(uid))
    except ValueError:
        return 1


def begun(entry: DispatchEntry) -> int:
    """Return where the log speaks of an attempt first. See `DispatchEntry.since`."""
    return max(born(entry.uid), entry.since + 1)


def nothing_said_since(entry: DispatchEntry) -> int | None:
    """Return the message that must be the newest of a job if nobody has begun its first attempt.

    None: others may have come, the log must be read.
    """
    birth = born(entry.uid)
    return birth if entry.attempt == 1 and birth > 1 and entry.manifest_seq <= birth else None
