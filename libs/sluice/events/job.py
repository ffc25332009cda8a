"""What upstream systems and executors publish: one CloudEvent per message on `job.<namespace>.<name>`.

These are inputs, not commits: `type` travels in the CloudEvent, `data` is one of these structs.
Fields are strict, so that a misspelt one is an error and not silence. Executor events carry the
`attempt` (and best the `uid`) of the dispatch that they answer; one of an older attempt is stale and
changes nothing. Without an attempt they speak of the present one.
"""

import msgspec

from sluice.api.meta import Int64


class JobEvent(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Base of the `data` of job events."""


class JobScaled(JobEvent, frozen=True, kw_only=True):
    """`pod_sets`: pod set name -> new count. An event of an older `generation` than seen is stale."""

    pod_sets: dict[str, int]
    generation: Int64 | None = None


class JobPodsReady(JobEvent, frozen=True, kw_only=True):
    """With `ready` false before any pod runs it says that `executor` has taken the attempt."""

    attempt: Int64 | None = None
    uid: str = ""
    executor: str = ""
    ready: bool = True


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


class Lost(JobEvent, frozen=True, kw_only=True):
    """On `presence.<kind>.<name>`: its heartbeat has stopped."""

    message: str = ""
