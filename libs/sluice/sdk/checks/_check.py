"""A check as its author writes it: a function, what watches an approval, what releases what was taken."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast, overload

from ._request import Request
from ._verdicts import Verdict

Function = Callable[[Request[Any]], Awaitable[Verdict] | Verdict]
"""Performs a check. One that is not `async` runs in a thread, and is not interrupted by a cancellation."""
Watch = Callable[[Request[Any]], Awaitable[Verdict | None] | Verdict | None]
Hook = Callable[[Request[Any]], Awaitable[None] | None]


@dataclass(slots=True)
class Check:
    """A function that performs checks, with what belongs to it. Calling it calls the function.

    What `@app.check` returns; what else the check does is registered on it:

    >>> from sluice.sdk.checks import Controller, Ready, Rejected
    >>> app = Controller("example.com/licences")
    >>> @app.check
    ... async def licences(request):
    ...     return Ready() if request.pods <= 4 else Rejected(message="4 licences in all")
    >>> @licences.watch(every=30)
    ... async def still_licensed(request):
    ...     return None  # the approval stays
    >>> @licences.on_stop
    ... async def give_back(request):
    ...     request.log.info("licences are free again")
    """

    function: Function
    name: str = ""
    """Of the AdmissionCheck; "": any."""
    kind: str = ""
    """Of the AdmissionCheck's parameters; "": any."""
    parameters: Any = dict
    """The type of `Request.parameters`."""
    watcher: Watch | None = None
    watch_every_s: float = 60.0
    watch_concurrency: int = 0
    stopper: Hook | None = None

    async def __call__(self, request: Request[Any]) -> Verdict:
        return cast(Verdict, await call(self.function, request))

    @overload
    def watch(self, function: Watch) -> Watch: ...
    @overload
    def watch(self, *, every: float = 60.0, concurrency: int = 0) -> Callable[[Watch], Watch]: ...
    def watch(
        self, function: Watch | None = None, *, every: float = 60.0, concurrency: int = 0
    ) -> Watch | Callable[[Watch], Watch]:
        """Register what looks after an approved workload, until the approval's end.

        The function is called when the check is Ready. Retry or Rejected takes the approval back (AC5);
        None leaves it, and the function is called again after *every* seconds, or the
        `Ready.recheck_after` that it returns. It may as well wait inside, for as long as it likes.
        *concurrency*: calls at a time, 0 for any number.
        """

        def register(watcher: Watch) -> Watch:
            self.watcher, self.watch_every_s, self.watch_concurrency = watcher, every, concurrency
            return watcher

        return register if function is None else register(function)

    def on_stop(self, function: Hook) -> Hook:
        """Register what releases what was taken for a workload, once its request is withdrawn.

        Called after a running function has ended by cancellation; tried again if it fails. Not called when
        only the controller stops: then its successor goes on.
        """
        self.stopper = function
        return function


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, in a thread unless it is `async`."""
    import asyncio

    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    ):
        return await function(*arguments)
    result = await asyncio.to_thread(function, *arguments)
    return await result if inspect.isawaitable(result) else result
