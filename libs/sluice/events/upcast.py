"""Upcasters: how events of older versions read today.

A tag is never used again with another meaning: the event gets a new tag, the version of its writer goes
up by one, and an upcaster from the old tag is added here. Upcasters work on the plain JSON object, so
that the old struct need not be kept. They run only on commits of older versions that need them.

    @upcaster("Suspended", 0)
    def _suspended(old: Plain) -> Plain: ...
"""

from collections.abc import Callable
from typing import Any

Plain = dict[str, Any]
Upcaster = Callable[[Plain], Plain]

_UPCASTERS: dict[tuple[str, int], Upcaster] = {}


def upcaster(tag: str, version: int) -> Callable[[Upcaster], Upcaster]:
    """Register the way of *tag* from *version* to *version* + 1. The result may bear another tag."""

    def register(function: Upcaster) -> Upcaster:
        if (tag, version) in _UPCASTERS:
            raise ValueError(f"two upcasters for {tag} of version {version}")
        _UPCASTERS[tag, version] = function
        return function

    return register


def needed(version: int, current: int) -> bool:
    """Tell whether a commit of *version* may hold events that read otherwise in version *current*."""
    return version < current and any(version <= since < current for _, since in _UPCASTERS)


def upcast(event: Plain, version: int, current: int) -> Plain:
    """Return *event* of *version* as version *current* has it; *event* itself where nothing changed."""
    for since in range(version, current):
        step = _UPCASTERS.get((event.get("type", ""), since))
        if step is not None:
            event = step(event)
    return event


@upcaster("Suspended", 0)
def _suspended_is_evicted(old: Plain) -> Plain:
    """Before version 1 an eviction was `Suspended`, and its reason lacked the condition's full name."""
    reason = {"PodsReady": "PodsReadyTimeout", "Check": "AdmissionCheck"}.get(old["reason"], old["reason"])
    return {**old, "type": "Evicted", "reason": reason}
