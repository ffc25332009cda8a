"""Other clusters that jobs may be placed in: Kueue's MultiKueueCluster and MultiKueueConfig."""

from typing import Any, Literal

from sluice.api.meta import Manifest, always

from ._object import KueueObject

__all__ = [
    "ClusterProfileReference",
    "ClusterSource",
    "KubeConfig",
    "MultiKueueCluster",
    "MultiKueueClusterSpec",
    "MultiKueueConfig",
    "MultiKueueConfigSpec",
]


class KubeConfig(Manifest, frozen=True):
    """Where the connection to a worker is described: a file of the dispatcher's machine, or its secret.

    What stands there is a link of Sluice (server, cell, credentials), and no kubeconfig.
    """

    location: str = ""
    location_type: Literal["Secret", "Path"] = "Secret"


class ClusterProfileReference(Manifest, frozen=True):
    """Another way to name a worker in Kueue, which has no meaning here."""

    name: str = ""


class ClusterSource(Manifest, frozen=True):
    """How a worker is found."""

    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileReference | None = None


class MultiKueueClusterSpec(Manifest, frozen=True):
    """Which worker it is."""

    cluster_source: ClusterSource = ClusterSource()


class MultiKueueCluster(KueueObject, frozen=True):
    """A worker: to Sluice, another cell."""

    kind: str = always("MultiKueueCluster")
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: dict[str, Any] = {}


class MultiKueueConfigSpec(Manifest, frozen=True):
    """The workers that jobs may go to; to Sluice, the most preferred one first."""

    clusters: list[str] = []


class MultiKueueConfig(KueueObject, frozen=True):
    """Parameters of a check that places jobs in other cells."""

    kind: str = always("MultiKueueConfig")
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()
