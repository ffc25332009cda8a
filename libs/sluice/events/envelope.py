"""Messages from outside, as deciders fold them."""

from .base import Event


class Message(Event, frozen=True, kw_only=True):
    """A message of an upstream system, plug-in or shell, undecoded; never written by a decider.

    `subject` is what follows the cell: `job.default.train`. The decider that owns the subject decodes
    `payload`, so that what it makes of bad bytes is a decision like any other.
    """

    subject: str
    payload: bytes
    cause: int = 0
