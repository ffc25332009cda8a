"""The controller: which functions perform which checks, and how they are run."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, cast, overload

from .request import Request
from .verdicts import Verdict

Function = Callable[[Request[Any]], Awaitable[Verdict] | Verdict]
"""Performs a check. One that is not `async` runs in a thread, and is not interrupted by a cancellation."""
Watch = Callable[[Request[Any]], Awaitable[Verdict | None] | Verdict | None]
Hook = Callable[[Request[Any]], Awaitable[None] | None]
ActiveHook = Callable[[Sequence[Request[Any]]], Awaitable[None] | None]
Lifespan = Callable[["Controller"], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a controller works. Times are seconds."""

    concurrency: int = 100
    """Calls of check functions at a time."""
    timeout_s: float | None = 300.0
    """Longest time of one call; one that takes longer has failed."""
    recheck_s: float = 60.0
    """When to ask again after Pending without a time of its own."""
    backoff_s: float = 1.0
    """Delay after a function's first failure; doubles with each further one."""
    backoff_most_s: float = 300.0
    ttl_s: int = 5
    """How long the heartbeat lasts, and with it the time until a stand-by takes over; whole seconds."""
    drain_s: float = 10.0
    """How long functions may go on when the controller is told to stop."""
    cancel_s: float = 30.0
    """How long a cancelled function may take before the next attempt begins without waiting for it."""
    overdue_s: float = 60.0
    """When to find out what became of a verdict that shows no effect."""


@dataclass(slots=True)
class Check:
    """A function that performs checks, with what belongs to it. Calling it calls the function."""

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
        None leaves it, and the function is called again after *every* seconds, or the `recheck_after` of a
        Ready that it returns. It may as well wait inside, for as long as it likes. *concurrency*: calls at
        a time, 0 for any number.
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


class DuplicateCheckError(ValueError):
    """Two functions for the same checks."""


@dataclass(slots=True)
class Controller:
    """A program that performs admission checks.

    *name*: the `controllerName` of the AdmissionChecks, as `example.com/budget`.

        app = Controller("example.com/budget")

        @app.check
        async def budget(request: Request) -> Verdict:
            return Ready()

        if __name__ == "__main__":
            app.run()
    """

    name: str
    settings: Settings = field(default_factory=Settings)
    version: str = ""
    """Shown in the heartbeat."""
    checks: list[Check] = field(default_factory=list)
    activated: list[ActiveHook] = field(default_factory=list)
    lifespans: list[Lifespan] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    """The author's own: connections and the like, made in a `lifespan`."""
    running: Any = None
    """The `Process` that runs this controller, while one does."""

    @overload
    def check(self, target: Function) -> Check: ...
    @overload
    def check(
        self, target: str = "", *, kind: str = "", parameters: Any = dict
    ) -> Callable[[Function], Check]: ...
    def check(
        self, target: Function | str = "", *, kind: str = "", parameters: Any = dict
    ) -> Check | Callable[[Function], Check]:
        """Register a function: for one AdmissionCheck by name, for a *kind* of parameters, or for all.

        *parameters*: a msgspec Struct (or dataclass) that the parameters' spec is decoded into.
        """

        def register(function: Function, name: str = "") -> Check:
            if any(one.name == name and one.kind == kind for one in self.checks):
                which = (
                    f"check {name!r}" if name else f"parameters of kind {kind!r}" if kind else "all checks"
                )
                raise DuplicateCheckError(f"controller {self.name!r}: two functions for {which}")
            made = Check(function, name, kind, parameters)
            self.checks.append(made)
            return made

        if isinstance(target, str):
            return lambda function: register(function, target)
        return register(target)

    def find(self, check: str, kind: str) -> Check | None:
        """Return what performs a check: by name before by kind of parameters before any."""
        for one in self.checks:
            if one.name and one.name == check:
                return one
        for one in self.checks:
            if not one.name and one.kind and one.kind == kind:
                return one
        return next((one for one in self.checks if not one.name and not one.kind), None)

    def on_active(self, function: ActiveHook) -> ActiveHook:
        """Register a function that gets every request there is when this replica becomes the active one.

        The place to release what belongs to none of them any more: workloads may have gone while no
        controller ran. Checks begin when it returns.
        """
        self.activated.append(function)
        return function

    def lifespan(self, function: Callable[["Controller"], AsyncIterator[None]] | Lifespan) -> Lifespan:
        """Register an asynchronous context manager (or generator) around the whole run, for connections."""
        from contextlib import asynccontextmanager

        made = asynccontextmanager(function) if inspect.isasyncgenfunction(function) else function
        self.lifespans.append(cast(Lifespan, made))
        return cast(Lifespan, made)

    def recheck(self, select: Callable[[Request[Any]], bool] = lambda _: True) -> int:
        """Ask again now about selected requests that wait or are watched; returns how many.

        For a change in the outside world that the check depends on. Does nothing on a stand-by.
        """
        return self.running.recheck(select) if self.running is not None else 0

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then exit: 0 in order, 2 for a bad setting. See `process`."""
        from .process import main

        main(self)
