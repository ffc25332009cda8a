"""The protocol between the provisioning check and a capacity provider: REST with JSON.

| request | answer |
|---|---|
| `POST /v1/provisioningrequests`, a `ProvisioningRequest` | 201, a `ProvisioningStatus`; 409 if it exists |
| `GET /v1/provisioningrequests/<namespace>/<name>` | 200 with a `ProvisioningStatus`; 404 |
| `DELETE /v1/provisioningrequests/<namespace>/<name>` | 204, also if there is none |
| `GET /v1/provisioningrequests?owner=<owner>` | 200 with `{"items": [ProvisioningStatus, ...]}` |

Conditions are those of Kubernetes' ProvisioningRequest: Accepted, Provisioned, Failed, BookingExpired,
CapacityRevoked, with status True, False or Unknown.
"""

from collections.abc import Sequence

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.api.kueue import PodSetUpdate, ProvisioningRequestConfigSpec
from sluice.api.meta import Condition
from sluice.api.quantity import format_value
from sluice.core.timing import backoff_s
from sluice.events.base import PodSet
from sluice.protocol.checks import CheckRequest
from sluice.sdk.checks import Pending, Ready, Rejected, Retry, Verdict, pod_set_update

PATH = "/v1/provisioningrequests"
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME = "autoscaling.x-k8s.io/provisioning-class-name"
"""Annotations by which a Kubernetes autoscaler finds the pods' request."""

_STATUS = "True"


class PodSetRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Pods that are alike. `requests` per pod, as Kubernetes quantities; `flavors` per resource."""

    name: str
    count: int
    requests: dict[str, str] = {}
    flavors: dict[str, str] = {}
    node_selector: dict[str, str] = {}


class ProvisioningRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is asked for. `owner` names the cell and the controller that will delete it."""

    name: str
    namespace: str
    owner: str
    workload: str
    workload_uid: str
    check: str
    attempt: int
    provisioning_class_name: str
    parameters: dict[str, str] = {}
    pod_sets: list[PodSetRequest] = []


class ProvisioningStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What has become of it. Fields that are not known here are ignored.

    `provisioning_class_details` are what `podSetUpdates` of the ProvisioningRequestConfig refers to;
    `node_selector` is added to all pods as it is.
    """

    name: str
    namespace: str
    workload_uid: str = ""
    conditions: list[Condition] = []
    provisioning_class_details: dict[str, str] = {}
    node_selector: dict[str, str] = {}

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type if it is True."""
        return next((one for one in self.conditions if one.type == kind and one.status == _STATUS), None)


class StatusList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ProvisioningStatus] = []


def request_name(request: CheckRequest) -> str:
    """Return the name: `<workload>-<check>-<attempt>`."""
    return f"{request.workload.name}-{request.check}-{request.attempt}"


def managed(spec: ProvisioningRequestConfigSpec, pod_sets: Sequence[PodSet]) -> list[PodSet]:
    """Return the pod sets that need something to be provisioned."""
    if not spec.managed_resources:
        return list(pod_sets)
    wanted = frozenset(spec.managed_resources)
    return [one for one in pod_sets if any(one.requests.get(resource) for resource in wanted)]


def ask_for(request: CheckRequest, spec: ProvisioningRequestConfigSpec, owner: str) -> ProvisioningRequest:
    """Return what the workload needs."""
    assigned = {one.name: one for one in request.assignment}
    pod_sets = [
        PodSetRequest(
            name=one.name,
            # Of a workload that was admitted in part, fewer pods than it wants.
            count=assigned[one.name].count if one.name in assigned else one.count,
            requests={resource: format_value(resource, amount) for resource, amount in one.requests.items()},
            flavors=dict(assigned[one.name].flavors) if one.name in assigned else {},
            node_selector=dict(one.node_selector),
        )
        for one in managed(spec, request.pod_sets)
    ]
    return ProvisioningRequest(
        name=request_name(request),
        namespace=request.workload.namespace,
        owner=owner,
        workload=request.workload.name,
        workload_uid=request.workload.uid,
        check=request.check,
        attempt=request.attempt,
        provisioning_class_name=spec.provisioning_class_name,
        parameters=dict(spec.parameters),
        pod_sets=pod_sets,
    )


def judge(
    status: ProvisioningStatus, request: CheckRequest, spec: ProvisioningRequestConfigSpec, poll_s: float
) -> Verdict:
    """Return what a status means for a workload that is not admitted yet."""
    for kind in ("Failed", "CapacityRevoked", "BookingExpired"):
        if (found := status.condition(kind)) is not None:
            return failed(f"{kind}{_said(found)}", request, spec)
    provisioned = status.condition("Provisioned")
    if provisioned is not None:
        return _ready(status, request, spec, poll_s)
    accepted = status.condition("Accepted")
    text = next((one.message for one in status.conditions if one.type == "Provisioned" and one.message), "")
    text = text or ("accepted, not provisioned yet" if accepted is not None else "not accepted yet")
    return Pending(f"Provisioning request {status.name!r}: {text}", poll_s)


def failed(what: str, request: CheckRequest, spec: ProvisioningRequestConfigSpec) -> Verdict:
    """Return Retry after base * 2^(n-1) seconds, at most the maximum; Rejected once the limit is reached."""
    strategy, retries = spec.retry_strategy, request.retry_count
    text = f"Provisioning request {request_name(request)!r}: {what}"
    if retries >= strategy.backoff_limit_count:
        return Rejected(f"{text}; given up after {retries} {'retry' if retries == 1 else 'retries'}")
    wait_s = backoff_s(retries + 1, strategy.backoff_base_seconds, strategy.backoff_max_seconds)
    return Retry(wait_s, f"{text}; retry {retries + 1} of {strategy.backoff_limit_count} in {wait_s} s")


def _ready(
    status: ProvisioningStatus, request: CheckRequest, spec: ProvisioningRequestConfigSpec, poll_s: float
) -> Verdict:
    selector = dict(status.node_selector)
    for update in spec.pod_set_updates.node_selector if spec.pod_set_updates else ():
        wanted = update.value_from_provisioning_class_detail
        value = status.provisioning_class_details.get(wanted)
        if value is None:
            text = f"Provisioning request {status.name!r} is provisioned, but has no detail {wanted!r}"
            return Pending(text, poll_s)
        selector[update.key] = value
    notes = {CONSUME: status.name, CLASS_NAME: spec.provisioning_class_name}
    updates: tuple[PodSetUpdate, ...] = tuple(
        pod_set_update(one.name, annotations=notes, node_selector=selector)
        for one in managed(spec, request.pod_sets)
    )
    return Ready(updates, f"Provisioning request {status.name!r} is provisioned")


def _said(condition: Condition) -> str:
    text = condition.message or condition.reason
    return f": {text}" if text else ""


def decode_status(data: bytes) -> ProvisioningStatus:
    """Raises ValueError: the provider's answer is not of this protocol."""
    return _decode(data, ProvisioningStatus)


def decode_list(data: bytes) -> StatusList:
    """Raises ValueError: the provider's answer is not of this protocol."""
    return _decode(data, StatusList)


def _decode[T](data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except UNREADABLE as error:
        raise ValueError(f"the answer cannot be read: {error}") from error
