"""Kubernetes' `v1` kinds and pod parts that admission looks at."""

from typing import Any

from .meta import Int32, LabelSelectorRequirement, Manifest, ObjectMeta, Seconds, always
from .quantity import Quantity


class Taint(Manifest, frozen=True):
    """Keeps pods off the nodes of a flavor unless they tolerate it."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(Manifest, frozen=True):
    """An empty key with operator Exists tolerates everything; an empty effect matches every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Seconds | None = None


class NodeSelectorTerm(Manifest, frozen=True):
    """Requirements to labels of nodes; all of them must hold."""

    match_expressions: list[LabelSelectorRequirement] = []
    match_fields: list[LabelSelectorRequirement] = []


class NodeSelector(Manifest, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Manifest, frozen=True):
    """A term that nodes are preferred for; admission does not look at it."""

    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(Manifest, frozen=True):
    """Which nodes a pod may run on: of a flavor, its `nodeLabels` must match what is required (SC4)."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []


class Affinity(Manifest, frozen=True):
    """Affinity of a pod; admission looks at `node_affinity` only."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class ResourceRequirements(Manifest, frozen=True):
    """What a container asks for, and its limits. A limit without a request is the request."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    claims: list[dict[str, Any]] = []


class EnvVar(Manifest, frozen=True):
    """A variable of a container's environment."""

    name: str
    value: str = ""
    value_from: dict[str, Any] | None = None


class Container(Manifest, frozen=True):
    """A container; fields that admission ignores are accepted by name and kept as they are."""

    name: str = ""
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[EnvVar] = []
    resources: ResourceRequirements = ResourceRequirements()
    working_dir: str = ""
    restart_policy: str | None = None
    env_from: list[dict[str, Any]] = []
    image_pull_policy: str = ""
    lifecycle: dict[str, Any] | None = None
    liveness_probe: dict[str, Any] | None = None
    ports: list[dict[str, Any]] = []
    readiness_probe: dict[str, Any] | None = None
    resize_policy: list[dict[str, Any]] = []
    security_context: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None
    stdin: bool = False
    stdin_once: bool = False
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool = False
    volume_devices: list[dict[str, Any]] = []
    volume_mounts: list[dict[str, Any]] = []


class PodSchedulingGate(Manifest, frozen=True):
    """Keeps a pod from being scheduled while it is there; kept as written."""

    name: str


class PodSpec(Manifest, frozen=True):
    """A pod; fields that admission ignores are accepted by name and kept as they are."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    restart_policy: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    overhead: dict[str, Quantity] = {}
    priority_class_name: str = ""
    priority: Int32 | None = None
    runtime_class_name: str | None = None
    scheduling_gates: list[PodSchedulingGate] = []
    termination_grace_period_seconds: Seconds | None = None
    resources: ResourceRequirements | None = None
    resource_claims: list[dict[str, Any]] = []
    active_deadline_seconds: Seconds | None = None
    automount_service_account_token: bool | None = None
    dns_config: dict[str, Any] | None = None
    dns_policy: str = ""
    enable_service_links: bool | None = None
    ephemeral_containers: list[dict[str, Any]] = []
    host_aliases: list[dict[str, Any]] = []
    host_ipc: bool | None = None
    host_network: bool | None = None
    host_pid: bool | None = None
    host_users: bool | None = None
    hostname: str | None = None
    image_pull_secrets: list[dict[str, Any]] = []
    node_name: str | None = None
    os: dict[str, Any] | None = None
    preemption_policy: str | None = None
    readiness_gates: list[dict[str, Any]] = []
    scheduler_name: str | None = None
    security_context: dict[str, Any] | None = None
    service_account: str | None = None
    service_account_name: str | None = None
    set_hostname_as_fqdn: bool | None = None
    share_process_namespace: bool | None = None
    subdomain: str | None = None
    topology_spread_constraints: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []


class PodTemplateSpec(Manifest, frozen=True):
    """What all pods of a pod set are made of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class NamespaceSpec(Manifest, frozen=True):
    """Spec of a namespace; kept as written."""

    finalizers: list[str] = []


class Namespace(Manifest, frozen=True):
    """A namespace: its labels decide which cluster queues take its workloads (`namespaceSelector`)."""

    api_version: str = always("v1")
    kind: str = always("Namespace")
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: dict[str, Any] = {}


class LimitRangeItem(Manifest, frozen=True):
    """What resources each Container (init containers too) or Pod of a namespace may and should ask for.

    `default` are limits, `default_request` requests, of containers that give none.
    """

    type: str
    max: dict[str, Quantity] = {}
    min: dict[str, Quantity] = {}
    default: dict[str, Quantity] = {}
    default_request: dict[str, Quantity] = {}
    max_limit_request_ratio: dict[str, Quantity] = {}


class LimitRangeSpec(Manifest, frozen=True):
    """The limits of a limit range, one item for each type."""

    limits: list[LimitRangeItem]


class LimitRange(Manifest, frozen=True):
    """Defaults and bounds of what pods of a namespace ask for, as Kueue applies them."""

    api_version: str = always("v1")
    kind: str = always("LimitRange")
    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec(limits=[])
