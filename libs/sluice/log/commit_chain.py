"""One chain of commits as a machine without I/O: what to send, and what each answer means.

Each commit names its predecessor, so that of two leaders one is refused (fencing). A commit whose answer
got lost is sent again as it was; whether a refused one stands in the log after all is settled by looking
at the subject's last message, never by guessing.

    chain.go_on(seq of the subject's last message)
    send = chain.begin()
    while True: carry `send` out; then
        an acknowledgement -> chain.acknowledged(seq, duplicate=...)
        no answer          -> send the same again
        refused as stale   -> look up the subject's last message -> chain.found(seq, message_id)
"""

from collections.abc import Callable
from typing import NamedTuple

from .errors import StaleSequenceError


class Send(NamedTuple):
    """A message to be published: its id, and the sequence that the subject's last message must have."""

    message_id: str
    expected_last: int


class Chain:
    """The chain of *writer*, as the replica *instance* continues it; one message is in flight at a time.

    *nonce*: returns something new for each message, so that nobody else can know its id before it is sent.
    """

    def __init__(self, writer: str, instance: str, nonce: Callable[[], str]) -> None:
        self.writer, self._nonce = writer, nonce
        self.instance = instance
        """In the ids of its messages: who wrote them."""
        self.head = 0
        """Sequence of the chain's last commit, as far as this writer knows."""
        self._sent: Send | None = None

    def go_on(self, head: int) -> None:
        """Continue the chain behind *head*. Whatever was sent before is another leader's from now on."""
        self.head, self._sent = head, None

    def begin(self) -> Send:
        """Return what to send next."""
        self._sent = Send(f"{self.writer}-{self.head}-{self._nonce()}-{self.instance}", self.head)
        return self._sent

    def sent(self, message_id: str) -> bool:
        """Tell whether this is the message sent last. Any other behind `head` is another leader's."""
        return self._sent is not None and message_id == self._sent.message_id

    def acknowledged(self, seq: int, *, duplicate: bool) -> bool:
        """Tell whether the message stands in the log, at *seq*; if not, the last message must be looked up.

        A server that says "duplicate" knows the message id only. Anybody may have used it.
        """
        if duplicate:
            return False
        self.head = seq
        return True

    def found(self, sent: Send, seq: int, message_id: str) -> None:
        """Take what the subject's last message is, 0 and '' for none, after *sent* was not taken.

        It may be our own first attempt that made the second stale; a copy still under way changes nothing,
        since it carries the same expectation. Nobody can have written after it: they would have to know its
        sequence, as fenced leaders do not, and a leader that took over has made this one stale either way.

        Raises:
            StaleSequenceError: it is another's: this writer is fenced.
        """
        if message_id != sent.message_id:
            raise StaleSequenceError(self.writer, sent.expected_last, seq)
        self.head = seq


__all__ = ["Chain"]
