"""Request to a check: one workload that has quota reserved, with everything known of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec
import structlog

from sluice.api.kueue import AdmissionCheckParametersReference, PodSetUpdate
from sluice.events.base import Micros, PodSet, PodSetAssignment
from sluice.protocol.checks import CheckedWorkload, CheckRequest

from ._failures import told
from ._verdicts import pod_set_update

CPU = "cpu"


class ParametersError(ValueError):
    """The parameters of the check are not what its author's type asks for."""


@dataclass(slots=True)
class Request[P]:
    """One check of one attempt of one workload.

    The same object is given to every call for an attempt, brought up to date in between. *P* is the type
    of `parameters`: that given to `@app.check(parameters=...)`, else a dict.

    >>> from sluice.sdk.checks.testing import make_request
    >>> raw = make_request(requests={"cpu": 4000, "nvidia.com/gpu": 1}, count=8, flavors="spot")
    >>> request = Request(raw, parameters={})
    >>> request.pods, request.flavors, request.amount("cpu")
    (8, ['spot'], 32.0)
    >>> request.usage_by_flavor()
    {'spot': {'cpu': 32000, 'nvidia.com/gpu': 8}}
    """

    raw: CheckRequest
    """As it stands in the bucket."""
    parameters: P
    """`spec` of the object that the AdmissionCheck's `parameters` name."""
    memory: dict[str, Any] = field(default_factory=dict)
    """The author's own, from call to call of one attempt; a restart of the controller empties it."""
    withdrawn: bool = False
    """The workload was evicted, finished or deleted, or there is another attempt: this one is void."""

    @property
    def workload(self) -> CheckedWorkload:
        """The workload as the log has it: its pod sets, what it was assigned, its priority."""
        return self.raw.workload

    @property
    def namespace(self) -> str:
        """Namespace of the workload."""
        return self.raw.workload.namespace

    @property
    def name(self) -> str:
        """The workload's name; the job's is `workload.job`."""
        return self.raw.workload.name

    @property
    def key(self) -> str:
        """`namespace/name` of the workload."""
        return f"{self.raw.workload.namespace}/{self.raw.workload.name}"

    @property
    def uid(self) -> str:
        """Of the workload; one of the same name that is made later has another."""
        return self.raw.workload.uid

    @property
    def check(self) -> str:
        """Name of the AdmissionCheck."""
        return self.raw.check

    @property
    def attempt(self) -> int:
        """Counts the workload's reservations from 1."""
        return self.raw.attempt

    @property
    def state(self) -> Literal["Pending", "Ready"]:
        """What counts at present; Ready while an approval is watched."""
        return self.raw.state

    @property
    def admitted(self) -> bool:
        """Every check was Ready and the job may run."""
        return self.raw.admitted

    @property
    def preemptions_pending(self) -> bool:
        """Others must be preempted before the workload fits; they are not yet told (AC6)."""
        return self.raw.preemptions_pending

    @property
    def retry_count(self) -> int:
        """How often this check has answered Retry for this workload."""
        return self.raw.retry_count

    @property
    def reserved_at(self) -> Micros:
        """When the quota was reserved; microseconds since the epoch."""
        return self.raw.reserved_at

    @property
    def pod_sets(self) -> Sequence[PodSet]:
        """`requests` are per pod: cpu in milli-units, all else in whole units."""
        return self.raw.pod_sets

    @property
    def assignment(self) -> Sequence[PodSetAssignment]:
        """Flavor and usage (of all pods) per resource, for each pod set."""
        return self.raw.assignment

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pods, and those of the workload (of the job's own, only Kueue's are copied there)."""
        return _merged((*(one.labels for one in self.pod_sets), self.workload.labels))

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the pods, and those of the workload."""
        return _merged((*(one.annotations for one in self.pod_sets), self.workload.annotations))

    @property
    def parameters_reference(self) -> AdmissionCheckParametersReference | None:
        """The object that the AdmissionCheck names, if it names one."""
        return self.raw.parameters

    @property
    def flavors(self) -> list[str]:
        """The flavors assigned, sorted."""
        return sorted({flavor for one in self.assignment for flavor in one.flavors.values()})

    @property
    def pods(self) -> int:
        """Pods in all."""
        return sum(one.count for one in self.assignment) or sum(one.count for one in self.pod_sets)

    def usage(self) -> dict[str, int]:
        """Return resource -> usage of all pods: cpu in milli-units, all else in whole units."""
        return _summed(one.usage for one in self.assignment)

    def usage_by_flavor(self) -> dict[str, dict[str, int]]:
        """Return flavor -> resource -> usage of all pods."""
        result: dict[str, dict[str, int]] = {}
        for one in self.assignment:
            for resource, amount in one.usage.items():
                of_flavor = result.setdefault(one.flavors.get(resource, ""), {})
                of_flavor[resource] = of_flavor.get(resource, 0) + amount
        return result

    def amount(self, resource: str, flavor: str = "") -> float:
        """Return the usage of one resource in its plain unit (cpu: cores), of one flavor or all."""
        used = self.usage_by_flavor().get(flavor, {}) if flavor else self.usage()
        return used.get(resource, 0) / (1000 if resource == CPU else 1)

    def update_all(
        self,
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        node_selector: dict[str, str] | None = None,
    ) -> tuple[PodSetUpdate, ...]:
        """Return the same update for every pod set, for `Ready(...)`."""
        return tuple(
            pod_set_update(one.name, labels=labels, annotations=annotations, node_selector=node_selector)
            for one in self.pod_sets
        )

    @property
    def log(self) -> Any:
        """A logger that says which workload, check and attempt it is about."""
        return structlog.get_logger("sluice.sdk.checks").bind(
            workload=self.key, check=self.check, attempt=self.attempt
        )


def _merged(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for part in parts:
        merged |= part
    return merged


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def decode_parameters(spec: Mapping[str, Any] | None, kind: Any) -> Any:
    """Return the parameters as *kind*; without an object, from nothing at all.

    Raises:
        ParametersError: they do not fit; says which field.
    """
    if kind is dict:
        return dict(spec or {})
    try:
        return cast(Any, msgspec.convert(dict(spec or {}), kind))
    except msgspec.ValidationError as error:
        detail = str(error).replace("`$", "`spec")
        if spec is None:
            raise ParametersError(f"the check has no parameters, or they are not known: {detail}") from error
        raise ParametersError(f"parameters: {detail}") from error
    except Exception as error:
        # Of the author's own type: what it does when it is made.
        raise ParametersError(f"parameters: {told(error)}") from error
