"""Work in child processes that begin as copies of this one: what they change, nobody else sees.

outcome = in_copy(lambda: decide_on(state))       # `state` here stays as it was
results = side_by_side([work_a, work_b], show)    # one process each

A child gets all memory by copy-on-write, so a large state costs milliseconds instead of a copy.
"""

import gc
import os
import pickle
import selectors
import signal
import struct
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Progress = Callable[[int], None]

AVAILABLE = hasattr(os, "fork")

PROGRESS_S = 0.1
"""How often a child says how far it has come."""

_SIZE = struct.Struct("=Q")
_HEAD = 1 + _SIZE.size
_PROGRESS, _RESULT, _ERROR = b"p", b"r", b"e"
_DONE = object()


class ChildLostError(RuntimeError):
    """A child ended without a result: it was killed, or memory ran out."""


class Child[T]:
    """A process at work, and what it has said so far."""

    def __init__(self, work: Callable[[Progress], T]) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Threads of this process do not go on in the child, and it needs nothing that they hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            os.close(reading)
            _serve(work, writing)
        os.close(writing)
        self.pipe = reading
        self.at = 0
        """Progress."""
        self.ended = False
        self._said = bytearray()
        self._result: list[T] = []
        self._message: tuple[bytes, bytes] | None = None

    def listen(self) -> None:
        """Take in what it says; waits for something. Sets `ended` when that was all."""
        data = os.read(self.pipe, 1 << 20)
        self.ended = not data
        self._said += data
        while len(self._said) >= _HEAD:
            end = _HEAD + _SIZE.unpack_from(self._said, 1)[0]
            if len(self._said) < end:
                return
            kind, body = bytes(self._said[:1]), bytes(self._said[_HEAD:end])
            del self._said[:end]
            if kind == _PROGRESS:
                self.at = int(body)
            else:
                self._message = kind, body

    def result(self) -> T:
        """Return what its work returned, or raise what that raised."""
        if self._result:
            return self._result[0]
        if self._message is None:
            raise ChildLostError(f"process {self.pid} ended without a result")
        kind, body = self._message
        found: Any = pickle.loads(body)
        if kind == _ERROR:
            kind_of, args, rest = found
            # Not called: an error's arguments need not be those of its initialiser.
            error = kind_of.__new__(kind_of, *args)
            error.__dict__.update(rest)
            raise error
        self._result.append(found)
        return self._result[0]

    def close(self) -> None:
        os.close(self.pipe)
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _serve(work: Callable[[Progress], object], pipe: int) -> None:
    """Be the child: work, say what came of it, and end without any of the parent's cleaning up."""
    status = 1
    try:
        # Collecting would touch, and so copy, every object there is.
        gc.disable()
        due = 0.0

        def progress(seq: int) -> None:
            nonlocal due
            # Few enough for the pipe to take them all while the parent does something else.
            if (now := time.monotonic()) >= due:
                due = now + PROGRESS_S
                _say(pipe, _PROGRESS, b"%d" % seq)

        try:
            _say(pipe, _RESULT, pickle.dumps(work(progress), pickle.HIGHEST_PROTOCOL))
        except Exception as error:
            _say(pipe, _ERROR, pickle.dumps((type(error), error.args, error.__dict__)))
        status = 0
    finally:
        os._exit(status)


def _say(pipe: int, kind: bytes, body: bytes) -> None:
    data = memoryview(kind + _SIZE.pack(len(body)) + body)
    while data:
        data = data[os.write(pipe, data) :]


def in_copy[T](work: Callable[[], T]) -> T:
    """Return what *work* returns, done in a child process; results and errors must be picklable.

    Raises:
        ChildLostError: the child was killed.
    """
    return side_by_side([lambda _: work()])[0]


def side_by_side[T](
    works: Sequence[Callable[[Progress], T]],
    progress: Progress | None = None,
    meanwhile: Iterable[None] | None = None,
    at_once: int | None = None,
) -> list[T]:
    """Do all *works*, in a process each, *at_once* so many (default: all); return their results in order.

    *progress* is told how far the slowest has come, or all on average if they are not done at once.
    *meanwhile*: what this process does itself, in small steps. The first error is raised; it ends the others.
    """
    children: list[Child[T]] = []
    own = iter(meanwhile or ())
    busy = True
    most = at_once or len(works)
    try:
        with selectors.DefaultSelector() as selector:
            while True:
                while len(children) < len(works) and len(selector.get_map()) < most:
                    child = Child(works[len(children)])
                    children.append(child)
                    selector.register(child.pipe, selectors.EVENT_READ, child)
                busy = busy and next(own, _DONE) is not _DONE
                if not selector.get_map() and not busy:
                    break
                for key, _ in selector.select(0 if busy else None) if selector.get_map() else ():
                    child = key.data
                    child.listen()
                    if child.ended:
                        selector.unregister(child.pipe)
                        child.result()
                if progress is not None:
                    progress(_come(children, len(works), most))
        return [child.result() for child in children]
    finally:
        for child in children:
            child.close()


def _come(children: Sequence[Child[Any]], works: int, most: int) -> int:
    if works > most:
        return sum(child.at for child in children) // works
    return min((child.at for child in children if not child.ended), default=0)


def processors() -> int:
    """Return how many processes can work at a time."""
    return os.cpu_count() or 1


def each[T](
    works: Sequence[Callable[[Progress | None], T]],
    progress: Progress | None,
    *,
    apart: bool,
    meanwhile: Iterable[None] | None = None,
    at_once: int | None = None,
) -> list[T]:
    """Do works that each read a whole log: *apart*, in a process each where there are such, or in turn.

    *meanwhile*, *at_once*: as of `side_by_side`; an error of the former ends the works.
    """
    if apart and AVAILABLE and (len(works) > 1 or meanwhile is not None):
        return side_by_side(works, progress, meanwhile, at_once)
    for _ in meanwhile or ():
        pass
    return [work(progress) for work in works]


__all__ = ["AVAILABLE", "ChildLostError", "each", "in_copy", "processors", "side_by_side"]
