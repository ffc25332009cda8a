"""The dispatch projection: what each job should be doing now, for executors in any language.

Bucket `sluice_<cell>_dispatch`, key `dispatch_key(job)`, value a `DispatchEntry` as JSON. The protocol is
level-triggered, so an executor that missed entries needs only the newest:

- no key: nothing to run (the job waits for its first admission, is over, or is unknown);
- Running: run attempt `attempt`, once among all executors (`claim_key`), and report JobPodsReady,
  JobFinished or JobStopped with that attempt;
- Running with the same attempt but other counts, or another workload: an elastic job was resized. Start
  or end (highest index first) as many pods as it takes, leave the others alone, and report JobPodsReady
  again (WS7), also if the counts are what they were: an entry with others may have been missed in between;
- Suspended with `stop`: end attempt `attempt` and report JobStopped, also if nobody had begun it;
- Suspended without `stop`: the attempt is over, nothing is to be reported.

An executor that finds another attempt or uid than the one it runs has lost the job: it ends its
processes and reports nothing.
"""

from collections.abc import Sequence
from typing import Literal
from urllib.parse import quote, unquote

from sluice.api.core_v1 import Toleration
from sluice.api.mapped import Mapping
from sluice.events.base import JobKey, Value, WorkloadKey
from sluice.events.job import OnLoss

from .heartbeats import AnyHeartbeat

__all__ = [
    "Claim",
    "DispatchEntry",
    "DispatchPodSet",
    "Heartbeat",
    "claim_key",
    "dispatch_key",
    "is_claim_key",
    "job_of_key",
    "key_text",
    "key_token",
]


CLAIM_TOKENS = 4
LONGEST_ATTEMPT = 9
"""Digits."""


class DispatchPodSet(Value, frozen=True, kw_only=True):
    """Pods that are alike. Selector and tolerations are those to add to the template's own."""

    name: str
    count: int
    """Pods that may run at once: what was admitted, not what was asked for."""
    flavors: dict[str, str] = {}
    """Resource -> flavor."""
    node_selector: dict[str, str] = {}
    tolerations: Sequence[Toleration] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ungated: int = 0
    """How many of the pods may start now: all that were admitted."""
    gated: int = 0
    """How many more the job wants, which must not start before a workload slice is admitted (WS7)."""


class DispatchEntry(Value, frozen=True, kw_only=True):
    """What one job should be doing."""

    job: JobKey
    uid: str
    """Of this incarnation of the job."""
    state: Literal["Running", "Suspended"]
    attempt: int
    """Counts the job's starts from 1; fences executors."""
    workload: WorkloadKey
    kind: str = ""
    stop: bool = False
    """Suspended, and some executor still owes the JobStopped of `attempt`."""
    reason: str = ""
    message: str = ""
    manifest_seq: int = 0
    """Log sequence of the JobSubmitted message whose manifest is in force."""
    since: int = 0
    """Log sequence of the newest message when this attempt was decided, 0 where nobody knows any more. Only
    what stands behind it is about the attempt: before it, after an older log was put back, there may be
    reports of one that had the same number in what the log was."""
    seq: int = 0
    """Log sequence of the commit that made it so."""
    pod_sets: Sequence[DispatchPodSet] = ()
    mapping: Mapping | None = None
    """Of a job of a team's kind: where its manifest has its pods, and what says that it may run."""


class Claim(Value, frozen=True, kw_only=True):
    """Value of a claim: which executor has taken an attempt.

    Bucket `sluice_<cell>_claims`, key `claim_key`. Created if absent, so that one executor wins; a claim of
    an executor without a heartbeat may be taken over by an update of the revision seen.
    """

    executor: str
    instance: str = ""
    """The executor's process, so that a restarted one knows its predecessor's claims."""
    state: Literal["Active", "Done"] = "Active"


class Heartbeat(AnyHeartbeat, frozen=True, kw_only=True):
    """Value of `agent.<name>` in the bucket `sluice_<cell>_heartbeats`, whose entries expire."""

    host: str = ""
    pid: int = 0
    flavors: Sequence[str] = ()
    """Flavors that it serves; none means all."""
    kinds: Sequence[str] = ()
    """Kinds of jobs that it runs; none means all."""
    capacity: int = 0
    """Most pods at once; 0 means no limit."""
    jobs: int = 0
    """How many it runs."""
    on_loss: OnLoss | None = None
    """What is to become of these if it is away; what counts is what it has said with its claims."""
    lease: bool = False
    """It ends by itself, before they are queued again, what it can no longer report."""


def key_token(text: str) -> str:
    """Return *text* as one token of a bucket's key.

    Percent-encoding with `=`, because keys of JetStream buckets may hold `=` but no `%`.

    >>> key_token("a.b"), key_text("a=2Eb")
    ('a=2Eb', 'a.b')
    """
    if text.isascii() and text.replace("-", "").isalnum():
        return text
    return quote(text, safe="").replace(".", "%2E").replace("_", "%5F").replace("~", "%7E").replace("%", "=")


def key_text(token: str) -> str:
    """Return the text that `key_token` made a token of."""
    return unquote(token.replace("=", "%")) if "=" in token else token


def dispatch_key(job: JobKey) -> str:
    """Return the bucket key of a job: `<namespace>.<name>`, each part as `key_token`.

    >>> dispatch_key(JobKey("ml/train.v2")), job_of_key("ml.train=2Ev2")
    ('ml.train=2Ev2', 'ml/train.v2')
    """
    namespace, _, name = job.partition("/")
    return f"{key_token(namespace)}.{key_token(name)}"


def job_of_key(key: str) -> JobKey:
    """Return the job of a `dispatch_key`."""
    namespace, _, name = key.partition(".")
    return JobKey(f"{key_text(namespace)}/{key_text(name)}")


def claim_key(job: JobKey, uid: str, attempt: int) -> str:
    """Return the key of the claim on one attempt of one incarnation of a job.

    >>> claim_key(JobKey("ml/train"), "0000-2a", 1)
    'ml.train.0000-2a.1'
    """
    return f"{dispatch_key(job)}.{uid}.{attempt}"


def is_claim_key(key: str) -> bool:
    """Tell whether a key is one that `claim_key` makes; anybody may put others into the bucket.

    >>> is_claim_key("ml.train.0000-2a.1"), is_claim_key("ml.train.0000-2a.one"), is_claim_key("train")
    (True, False, False)
    """
    parts = key.split(".")
    if len(parts) != CLAIM_TOKENS or not all(parts):
        return False
    attempt = parts[-1]
    return attempt.isascii() and attempt.isdigit() and len(attempt) <= LONGEST_ATTEMPT
