"""Jobs that do not live yet and have messages, in fair turns: whoever sends many holds up only themselves.

Most such messages are submissions. They wait here while what is said of live jobs is answered, and come in
turn: of one namespace after the other, since rights give each team its own, and within a namespace of one
source after the other.
"""

from collections.abc import Iterable, Iterator

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.base import JobKey

MAX_SOURCE = 128
"""Characters by which sources are told apart."""

Queue = tuple[str, str]
"""Namespace and source."""


class _Sent(msgspec.Struct, frozen=True):
    source: str = ""


_SENT = msgspec.json.Decoder(_Sent)


def queue_of(key: JobKey, payload: bytes) -> Queue:
    """Return where a job with a message waits. All on misshapen subjects are of one namespace."""
    namespace, found, _ = key.partition("/")
    try:
        source = _SENT.decode(payload).source[:MAX_SOURCE]
    except UNREADABLE:
        source = ""
    return (namespace if found else ""), source


class Backlog:
    """Jobs by queue. Orders are those of the fold: whose turn is over goes to the end."""

    __slots__ = ("_queue_of", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, dict[JobKey, None]]] = {}
        self._queue_of: dict[JobKey, Queue] = {}

    def __contains__(self, key: JobKey) -> bool:
        return key in self._queue_of

    def __len__(self) -> int:
        return len(self._queue_of)

    def __iter__(self) -> Iterator[JobKey]:
        """Yield the jobs as their turns come, as long as nothing changes."""
        return _in_turn(_of_namespace(sources) for sources in self._waiting.values())

    def as_they_stand(self) -> list[JobKey]:
        """Return the jobs in an order in which adding them makes the same turns."""
        return [key for sources in self._waiting.values() for jobs in sources.values() for key in jobs]

    def add(self, key: JobKey, queue: Queue) -> None:
        """Let a job wait behind the others of its queue."""
        namespace, source = self._queue_of[key] = queue
        self._waiting.setdefault(namespace, {}).setdefault(source, {})[key] = None

    def remove(self, key: JobKey) -> None:
        """Take a job out, with which its source and its namespace have had their turn."""
        namespace, source = self._queue_of.pop(key)
        sources = self._waiting.pop(namespace)
        jobs = sources.pop(source)
        del jobs[key]
        if jobs:
            sources[source] = jobs
        if sources:
            self._waiting[namespace] = sources


def _of_namespace(sources: dict[str, dict[JobKey, None]]) -> Iterator[JobKey]:
    if len(sources) == 1:
        return iter(next(iter(sources.values())))
    return _in_turn(iter(jobs) for jobs in sources.values())


def _in_turn(queues: Iterable[Iterator[JobKey]]) -> Iterator[JobKey]:
    """Yield the first of each queue, then the second of each, and so on."""
    going: list[Iterator[JobKey]] = []
    for queue in queues:
        for key in queue:
            yield key
            going.append(queue)
            break
    while going:
        left = []
        for queue in going:
            for key in queue:
                yield key
                left.append(queue)
                break
        going = left
