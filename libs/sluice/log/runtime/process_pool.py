"""Work in child processes that begin as copies of this one: what they change, nobody else sees.

outcome = in_copy(lambda: decide_on(state))       # `state` here stays as it was
results = side_by_side([work_a, work_b], show)    # one process each

A child gets all memory by copy-on-write, so a large state costs milliseconds instead of a copy.
"""

import contextlib
import gc
import multiprocessing
import os
import pickle
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

Progress = Callable[[int], None]

AVAILABLE = "fork" in multiprocessing.get_all_start_methods()

PROGRESS_S = 0.1
"""How often a child says how far it has come."""

_PIECE = 1 << 16
"""Bytes of a result that are sent at a time: whoever listens does something else in between."""

_DONE = object()


class ChildLostError(RuntimeError):
    """A child ended without a result: it was killed, or memory ran out."""


class Child[T]:
    """A process at work, and what it has said so far. *daemon*: it ends with this one."""

    def __init__(self, work: Callable[[Progress], T], *, daemon: bool = False) -> None:
        fork = multiprocessing.get_context("fork")
        self.pipe, told = fork.Pipe(duplex=False)
        self._process = fork.Process(target=_serve, args=(work, told), daemon=daemon)
        with warnings.catch_warnings():
            # Threads of this process do not go on in the child, and it needs nothing that they hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        told.close()
        self.at = 0
        """Progress."""
        self.ended = False
        self._said = bytearray()
        self._result: Any = None

    def listen(self) -> None:
        """Take in what it says; waits for something. Sets `ended` when that was all."""
        try:
            said = self.pipe.recv()
        except EOFError:
            self.ended = True
            return
        if isinstance(said, int):
            self.at = said
        else:
            self._said += said

    def result(self) -> T:
        """Return what its work returned, or raise what that raised."""
        if self._result is None:
            if not self._said:
                raise ChildLostError(f"process {self._process.pid} ended without a result")
            self._result = pickle.loads(self._said)
        found, error = self._result
        if error is None:
            return found  # type: ignore[no-any-return]
        kind, args, rest = error
        # Not called: an error's arguments need not be those of its initialiser.
        error = kind.__new__(kind, *args)
        error.__dict__.update(rest)
        raise error

    def close(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def _serve(work: Callable[[Progress], object], told: Connection) -> None:
    """Be the child: work, and say what came of it; without a word where nobody listens any more."""
    # Collecting would touch, and so copy, every object there is.
    gc.disable()
    due = 0.0

    def progress(seq: int) -> None:
        nonlocal due
        # Few enough for the pipe to take them all while the parent does something else.
        if (now := time.monotonic()) >= due:
            due = now + PROGRESS_S
            told.send(seq)

    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        try:
            said = pickle.dumps((work(progress), None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            said = pickle.dumps((None, (type(error), error.args, error.__dict__)))
        for start in range(0, len(said), _PIECE):
            told.send(said[start : start + _PIECE])


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
        while True:
            there: dict[Any, Child[T]] = {child.pipe: child for child in children if not child.ended}
            while len(children) < len(works) and len(there) < most:
                children.append(child := Child(works[len(children)]))
                there[child.pipe] = child
            busy = busy and next(own, _DONE) is not _DONE
            if not there and not busy:
                break
            for pipe in wait(there, 0 if busy else None):
                child = there[pipe]
                child.listen()
                if child.ended:
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


__all__ = [
    "AVAILABLE",
    "Child",
    "ChildLostError",
    "Progress",
    "each",
    "in_copy",
    "processors",
    "side_by_side",
]
