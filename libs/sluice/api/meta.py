"""The parts of Kubernetes' `metav1` that manifests share.

All manifest structs decode strictly (an unknown field is an error that names its path), spell their
fields in camelCase on the wire, and leave defaults out when encoded. They are frozen:
defaulting makes new ones (`msgspec.structs.replace`), and states and events share them.
"""

from typing import Annotated, Any

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Seconds = Annotated[int, msgspec.Meta(ge=-9_000_000_000, le=9_000_000_000)]
"""285 years: as microseconds they fit into 64 bits, so that no sum of time and delay is out of range."""


class Manifest(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Base of every manifest struct."""


def always(value: str | bool) -> Any:
    """A default that is encoded all the same: what a manifest is must be readable from it."""
    return msgspec.field(default_factory=lambda: value)


class OwnerReference(Manifest, frozen=True):
    """The object that another belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Manifest, frozen=True):
    """Kubernetes object metadata; times are RFC 3339 strings, as on the wire."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Seconds | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []
    managed_fields: list[dict[str, Any]] = []
    self_link: str = ""


class Condition(Manifest, frozen=True):
    """A condition as Kubernetes writes it; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 = 0


class LabelSelectorRequirement(Manifest, frozen=True):
    """One requirement to a label: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(Manifest, frozen=True):
    """An empty selector matches everything; an absent one (None) matches nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []
