"""The controller: which functions perform which checks, registered by decorators, and how they are run."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast, overload

from ._check import Check, Function
from ._registry import ActiveHook, Lifespan, Registry, Settings
from ._request import Request


class DuplicateCheckError(ValueError):
    """Two functions for the same checks."""


@dataclass(slots=True)
class Controller(Registry):
    """A program that performs admission checks.

    *name*: the `controllerName` of the AdmissionChecks, as `example.com/budget`.

        app = Controller("example.com/budget")

        @app.check
        async def budget(request: Request) -> Verdict:
            return Ready()

        if __name__ == "__main__":
            app.run()
    """

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

    def on_active(self, function: ActiveHook) -> ActiveHook:
        """Register a function that gets every request there is when this replica becomes the active one.

        The place to release what belongs to none of them any more: workloads may have gone while no
        controller ran. Checks begin when it returns.
        """
        self.activated.append(function)
        return function

    def lifespan(self, function: Callable[["Controller"], AsyncIterator[None]] | Lifespan) -> Lifespan:
        """Register an asynchronous context manager (or generator) around the whole run, for connections."""
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
        from ._process import main  # here: a check in a test needs neither the client nor its loop

        main(self)


__all__ = ["Check", "Controller", "DuplicateCheckError", "Settings"]
