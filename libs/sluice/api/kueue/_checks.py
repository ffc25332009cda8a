"""Admission checks, and what those of provisioning are configured with."""

from typing import Any, Literal

from sluice.api.meta import Int32, Manifest, Seconds, always

from ._object import KueueObject

__all__ = [
    "AdmissionCheck",
    "AdmissionCheckParametersReference",
    "AdmissionCheckSpec",
    "NodeSelectorUpdate",
    "PodSetMergePolicy",
    "ProvisioningPodSetUpdates",
    "ProvisioningRequestConfig",
    "ProvisioningRequestConfigSpec",
    "RetryStrategy",
]


class AdmissionCheckParametersReference(Manifest, frozen=True):
    """The object that a check's controller is to read."""

    api_group: str
    kind: str
    name: str


class AdmissionCheckSpec(Manifest, frozen=True):
    """Who answers a check, with which parameters, and whether preemptions wait for the answer."""

    controller_name: str = ""
    parameters: AdmissionCheckParametersReference | None = None
    preemption_policy: Literal["Anytime", "AfterCheckPassedOrOnDemand"] | None = None


class AdmissionCheck(KueueObject, frozen=True):
    """Something beyond quota that must say Ready before jobs start (AC1)."""

    kind: str = always("AdmissionCheck")
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: dict[str, Any] = {}


class RetryStrategy(Manifest, frozen=True):
    """Wait base * 2^(n-1) seconds before the n-th retry, at most the maximum; give up after the limit."""

    backoff_limit_count: Int32 = 3
    backoff_base_seconds: Seconds = 60
    backoff_max_seconds: Seconds = 1800


class NodeSelectorUpdate(Manifest, frozen=True):
    """The pods' node selector gets `key` with a value that the provider has answered under another key."""

    key: str
    value_from_provisioning_class_detail: str


class ProvisioningPodSetUpdates(Manifest, frozen=True):
    """What of a provider's answer goes into the pods."""

    node_selector: list[NodeSelectorUpdate] = []


PodSetMergePolicy = Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"]


class ProvisioningRequestConfigSpec(Manifest, frozen=True):
    """What a capacity provider is asked for. `managed_resources`: () means all."""

    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}
    managed_resources: list[str] = []
    retry_strategy: RetryStrategy = RetryStrategy()
    pod_set_updates: ProvisioningPodSetUpdates | None = None
    pod_set_merge_policy: PodSetMergePolicy | None = None


class ProvisioningRequestConfig(KueueObject, frozen=True):
    """Parameters of a check's controller, kept as written; `ProvisioningRequestConfigSpec` is its shape.

    A dict, because logs hold such objects from before their shape was checked.
    """

    kind: str = always("ProvisioningRequestConfig")
    spec: dict[str, Any] = {}
