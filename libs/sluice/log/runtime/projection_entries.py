"""Conditions that hold the entries of one write together: none is taken without all those before it.

A write of a leader that was replaced may arrive when its successor has written. If each entry merely named
the sequence that it expects, as many as the successor wrote would be refused, and those behind them taken.

* One server: each entry names the one before it by message id.
* Several servers: an atomic batch. Ids would do harm: a server compares them with what is stored, not with
  what is under way, and when they turn out not to agree, the whole stream stops (2.15: "critical write error:
  last msgid mismatch").
* Several servers, and a bucket without atomic batches, made by a release or a server that did not know them:
  each entry waits for the answer to the one before it.
"""

from collections.abc import Iterator
from enum import Enum


class Tie(Enum):
    IDS = "message ids"
    BATCH = "atomic batch"
    ANSWERS = "answers"


def tie_of(replicas: int, *, atomic: bool) -> Tie:
    """Return what holds writes together in a bucket that has these settings."""
    if replicas == 1:
        return Tie.IDS
    return Tie.BATCH if atomic else Tie.ANSWERS


def conditions(tie: Tie, after: int, count: int, mark: str) -> Iterator[dict[str, str]]:
    """Yield the headers of *count* entries that are sent behind sequence *after* without waiting for answers.

    The answer to the last one is that to all. *mark*: no other write has it.
    """
    expected = {"Nats-Expected-Last-Sequence": str(after)}
    if count == 1:
        yield expected
        return
    assert tie is not Tie.ANSWERS, "entries that nothing holds together are sent one by one"
    for n in range(1, count + 1):
        headers = dict(expected) if n == 1 else {}
        if tie is Tie.IDS:
            headers["Nats-Msg-Id"] = f"{mark}-{n}"
            if n > 1:
                headers["Nats-Expected-Last-Msg-Id"] = f"{mark}-{n - 1}"
        else:
            headers["Nats-Batch-Id"] = mark
            headers["Nats-Batch-Sequence"] = str(n)
            if n == count:
                headers["Nats-Batch-Commit"] = "1"
        yield headers
