"""Messages of upstream systems and executors: one CloudEvent per message on `job.<namespace>.<name>`.

These are inputs, not commits: `type` travels in the CloudEvent, `data` is one of these structs.
Fields are strict, so that a misspelt one is an error and not silence. Executor events carry the
`attempt` (and best the `uid`) of the dispatch that they answer; one of an older attempt is stale and
changes nothing. Without an attempt they speak of the present one.
"""

from typing import Annotated, Literal

import msgspec

from sluice.api.meta import Int64

from .base import Value

AWAY_MOST_S = 31_536_000.0
"""Longest time that an executor may ask for, a year."""


class JobEvent(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Base of the `data` of job events."""


class JobScaled(JobEvent, frozen=True, kw_only=True):
    """`pod_sets`: pod set name -> new count. An event of an older `generation` than seen is stale."""

    pod_sets: dict[str, int]
    generation: Int64 | None = None


class OnLoss(Value, frozen=True, kw_only=True):
    """What is to become of an attempt whose executor is away.

    Requeue: the executor is lost when its heartbeat has been missing for `after_s` seconds, and the job is
    queued again. Wait: the job stays with it until it is back, or somebody ends the attempt.
    """

    policy: Literal["Requeue", "Wait"] = "Requeue"
    after_s: Annotated[float, msgspec.Meta(ge=0, le=AWAY_MOST_S)] = 0.0
    """Of Requeue. It counts from when the heartbeat is found missing, which its time to live delays."""


class JobPodsReady(JobEvent, frozen=True, kw_only=True):
    """With `ready` false before any pod runs it says that `executor` has taken the attempt.

    `on_loss`: what is to become of it if the executor is away; by default what the cell's settings say.
    """

    attempt: Int64 | None = None
    uid: str = ""
    executor: str = ""
    ready: bool = True
    on_loss: OnLoss | None = None


class JobPodsReclaimable(JobEvent, frozen=True, kw_only=True):
    """`pods`: how many of each set have ended for good. `counts`: out of how many; it may be fewer by now.

    `succeeded`, of elastic jobs: how many completions of each set are done, succeeded or given up, so that no
    pod is run for them again in this attempt, whatever its size. The newest report counts.
    """

    pods: dict[str, int]
    counts: dict[str, int] = {}
    succeeded: dict[str, int] = {}
    attempt: Int64 | None = None
    uid: str = ""


class JobStopped(JobEvent, frozen=True, kw_only=True):
    """No pod of the attempt runs any more, because it was suspended or its executor gave it up."""

    attempt: Int64 | None = None
    uid: str = ""
    executor: str = ""
    message: str = ""


class JobFinished(JobEvent, frozen=True, kw_only=True):
    """The job has ended for good. `exit_codes`: pod -> code, of those that failed."""

    success: bool = True
    message: str = ""
    attempt: Int64 | None = None
    uid: str = ""
    executor: str = ""
    exit_codes: dict[str, Int64] = {}


class JobActivated(JobEvent, frozen=True, kw_only=True):
    """A job that was deactivated, by people, by a check or for its failures, may be queued again."""

    message: str = ""


class JobDeactivated(JobEvent, frozen=True, kw_only=True):
    """The job is stopped if it runs, and keeps out of its queue until it is activated."""

    message: str = ""


class JobDeleted(JobEvent, frozen=True, kw_only=True):
    """Whoever submitted the job does not want it any more."""

    message: str = ""


class Seen(JobEvent, frozen=True, kw_only=True):
    """On `presence.<kind>.<name>`: an agent or a check's controller has come (back)."""

    message: str = ""
    flavors: list[str] = []
    kinds: list[str] = []
    """Of jobs that an agent runs; none means all."""


class Lost(JobEvent, frozen=True, kw_only=True):
    """On `presence.<kind>.<name>`: its heartbeat has stopped."""

    message: str = ""


class Away(JobEvent, frozen=True, kw_only=True):
    """On `presence.agent.<name>`: its heartbeat has stopped; its attempts stay with it for now."""

    message: str = ""
    on_loss: OnLoss | None = None
