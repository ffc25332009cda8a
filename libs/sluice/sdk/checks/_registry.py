"""Registry of a controller: its checks by name and kind, its hooks, and how it works."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from ._check import Check
from ._request import Request

ActiveHook = Callable[[Sequence[Request[Any]]], Awaitable[None] | None]
Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]
"""Gets the controller."""


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
class Registry:
    """The part of a controller that runs: `controller.Controller` fills it by decorators.

    *name*: the `controllerName` of the AdmissionChecks, as `example.com/budget`.
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

    def find(self, check: str, kind: str) -> Check | None:
        """Return what performs a check: by name before by kind of parameters before any."""
        for one in self.checks:
            if one.name and one.name == check:
                return one
        for one in self.checks:
            if not one.name and one.kind and one.kind == kind:
                return one
        return next((one for one in self.checks if not one.name and not one.kind), None)
