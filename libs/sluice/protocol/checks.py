"""The protocol between the admission-check service and the controllers that perform checks (AC1-AC8).

Requests: bucket `sluice_<cell>_checks`, key `request_key(...)`, value a `CheckRequest` as JSON. The protocol
is level-triggered, so a controller that missed values needs only the newest of each key:

- state Pending: perform the check, and answer with a verdict of the same `attempt`;
- another `attempt` than the one being performed: what was begun is void, begin anew;
- state Ready, also after the workload was admitted: keep watching; Retry or Rejected takes the approval
  back (AC5);
- the key is gone: stop, and release what was taken for this workload.

Verdicts: one CloudEvent of type CheckVerdict on `sluice.<cell>.verdict.<controller>`, its `data` a
`CheckVerdict`. One of an older attempt, for an unknown workload or check, or of a controller that does not
own the check changes nothing and is recorded.

Presence: the controller keeps `controller.<name>` (the name as `key_token`) in the bucket
`sluice_<cell>_heartbeats` alive, as a `ControllerHeartbeat`; entries expire. Without it the check is
inactive, and so are the queues that use it (AC8).
"""

from collections.abc import Sequence
from typing import Any, Literal

from sluice.api.kueue import AdmissionCheckParametersReference, PodSetUpdate
from sluice.api.meta import Int64, Seconds
from sluice.events.base import PodSet, PodSetAssignment, Value, WorkloadKey
from sluice.events.job import JobEvent

from .dispatch import key_token
from .heartbeats import AnyHeartbeat

CONTROLLER = "controller"
"""Kind of presence and of heartbeats."""

VERDICT_MOST = 64 * 1024
"""Bytes of the largest verdict that is taken: those of all 64 checks of a workload must fit into one step."""

DELAY_MOST_S = 10 * 366 * 86_400
"""Seconds of the longest delay that a Retry may ask for."""


class CheckedWorkload(Value, frozen=True, kw_only=True):
    """The workload that is to be checked."""

    namespace: str
    name: str
    uid: str
    job: str = ""
    """Name of the job in the same namespace that it stands for."""
    job_kind: str = ""
    local_queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    parent: str = ""
    """Name of the parent workload, of a variant (concurrent admission)."""
    max_execution_time_s: int | None = None


class CheckRequest(Value, frozen=True, kw_only=True):
    """One check to be performed for one workload that has quota reserved."""

    workload: CheckedWorkload
    check: str
    controller: str
    attempt: int
    """Counts the workload's reservations from 1; a verdict must carry it."""
    state: Literal["Pending", "Ready"] = "Pending"
    """What counts at present."""
    admitted: bool = False
    """Every check was Ready and the job may run."""
    preemptions_pending: bool = False
    """Others must be preempted before it fits; they are not yet told (AC6). Answer Pending with reason
    PreemptionRequired to have it done now."""
    retry_count: int = 0
    """How often this check has answered Retry for this workload."""
    parameters: AdmissionCheckParametersReference | None = None
    """As in the AdmissionCheck's spec."""
    parameters_spec: dict[str, Any] | None = None
    """`spec` of the object that `parameters` names, when Sluice has it."""
    pod_sets: Sequence[PodSet] = ()
    """`requests` per pod: cpu in milli-units, all else in whole units."""
    assignment: Sequence[PodSetAssignment] = ()
    """Flavor and total usage (all `count` pods) per resource."""
    reserved_at: int = 0
    """When the quota was reserved; microseconds since the epoch."""
    since: int = 0
    """Since when `state` counts: Pending since the check was asked for; microseconds since the epoch."""
    seq: int = 0
    """Log sequence of the commit that made it so."""


class CheckVerdict(JobEvent, frozen=True, kw_only=True):
    """A controller's answer (AC2). The latest of an attempt counts."""

    workload: WorkloadKey
    """`namespace/name`."""
    check: str
    attempt: Int64
    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    uid: str = ""
    """Of the workload; when given it must match, so that a namesake is not meant."""
    reason: Literal["", "PreemptionRequired"] = ""
    """With Pending only: the check could pass if the pending preemptions were done (AC6)."""
    message: str = ""
    requeue_after_seconds: Seconds | None = None
    """With Retry only: not to be tried again before, 0 to ten years; without it the backoff of the service
    applies. A check that says Retry over and over waits at least 1, 2, 4 ... s."""
    pod_set_updates: Sequence[PodSetUpdate] = ()
    """With Ready only: added to the pods; what contradicts the job or another check fails the admission."""


class ControllerHeartbeat(AnyHeartbeat, frozen=True, kw_only=True):
    """Value of `controller.<name>` in the bucket `sluice_<cell>_heartbeats`, whose entries expire.

    Of several replicas the one whose `instance` holds the key is the active one.
    """

    host: str = ""
    pid: int = 0
    version: str = ""


def request_key(controller: str, namespace: str, workload: str, check: str) -> str:
    """Return a request's key: `<controller>.<namespace>.<workload>.<check>`, each as `key_token`.

    >>> request_key("example.com/budget", "ml", "job-train-1a2b3", "budget")
    'example=2Ecom=2Fbudget.ml.job-train-1a2b3.budget'
    """
    return ".".join(map(key_token, (controller, namespace, workload, check)))
