"""Verdicts of a check (AC2).

Delays are seconds, or a `timedelta`, up to ten years. Shorter than a second is a second, also when it is
negative: `deadline - now` of a deadline that has passed means soon.
"""

import math
from collections.abc import Iterable
from datetime import timedelta

import msgspec

from sluice.api.core_v1 import Toleration
from sluice.api.kueue import PodSetUpdate
from sluice.protocol.checks import DELAY_MOST_S

DELAY_LEAST_S = 1.0
"""What is less would ask without a pause."""

Delay = float | timedelta


class Ready(msgspec.Struct, frozen=True):
    """The workload may run, as far as this check goes.

    >>> near = pod_set_update("main", node_selector={"topology.kubernetes.io/zone": "a"})
    >>> verdict = Ready((near,), recheck_after=timedelta(hours=1))
    """

    updates: tuple[PodSetUpdate, ...] = ()
    """Added to the pods: labels, annotations, node selector, tolerations (see `Request.update_all`)."""
    message: str = ""
    recheck_after: Delay | None = None
    """Look again after so long; then Retry or Rejected takes the approval back (AC5)."""


class Retry(msgspec.Struct, frozen=True):
    """Not now: give the quota back, and try again not before *after* (None: the cell's own backoff).

    >>> verdict = Retry(after=600, message="budget exhausted")
    >>> verdict = Retry(after=timedelta(days=1), message="opens tomorrow")
    """

    after: Delay | None = None
    message: str = ""


class Rejected(msgspec.Struct, frozen=True):
    """Never: the workload is deactivated."""

    message: str = ""


class Pending(msgspec.Struct, frozen=True):
    """Not decided: the workload keeps its quota and waits; the check is asked again."""

    message: str = ""
    recheck_after: Delay | None = None
    """None: the controller's `Settings.recheck_s`."""


class PreemptionRequired(msgspec.Struct, frozen=True):
    """Could pass if the workloads in its way were preempted now (AC6); the check is asked again."""

    message: str = ""
    recheck_after: Delay | None = None


Verdict = Ready | Retry | Rejected | Pending | PreemptionRequired


class VerdictError(TypeError):
    """A check returned something that is no verdict."""


def seconds(delay: Delay | None) -> float | None:
    """Return a delay in seconds, a second at least.

    Raises:
        VerdictError: it is no number, or of more than ten years.
    """
    if delay is None:
        return None
    if isinstance(delay, timedelta):
        found = delay.total_seconds()
    elif isinstance(delay, int | float):
        found = delay
    else:
        raise VerdictError(f"a delay must be seconds or a timedelta, not {type(delay).__name__}")
    if not math.isfinite(found) or found > DELAY_MOST_S:
        raise VerdictError(f"a delay must be a number of seconds, at most {DELAY_MOST_S}, not {found:g}")
    return max(DELAY_LEAST_S, float(found))


def pod_set_update(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    node_selector: dict[str, str] | None = None,
    tolerations: Iterable[Toleration] = (),
) -> PodSetUpdate:
    """Return what is added to the pods of one pod set.

    >>> pod_set_update("workers", labels={"rack": "r7"}).labels
    {'rack': 'r7'}
    """
    return PodSetUpdate(
        name=name,
        labels=labels or {},
        annotations=annotations or {},
        node_selector=node_selector or {},
        tolerations=list(tolerations),
    )


def checked(result: object) -> Verdict:
    """Return what a function returned, if it is a verdict.

    Raises:
        VerdictError: it is not; says what is wrong.
    """
    if isinstance(result, Verdict) and not isinstance(result.message, str):
        kind, given = type(result).__name__, type(result.message).__name__
        raise VerdictError(f"{kind}: message must be text, not {given}")
    if isinstance(result, Retry):
        seconds(result.after)
    elif isinstance(result, Ready | Pending | PreemptionRequired):
        seconds(result.recheck_after)
    if isinstance(result, Ready):
        updates = result.updates
        many = (updates,) if isinstance(updates, PodSetUpdate) else tuple(updates)
        if wrong := [one for one in many if not isinstance(one, PodSetUpdate)]:
            raise VerdictError(f"Ready: updates must be PodSetUpdate, not {type(wrong[0]).__name__}")
        return msgspec.structs.replace(result, updates=many)
    if isinstance(result, Retry | Rejected | Pending | PreemptionRequired):
        return result
    raise VerdictError(
        "a check must return Ready, Retry, Rejected, Pending or PreemptionRequired, "
        f"not {type(result).__name__}"
    )
