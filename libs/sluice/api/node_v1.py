"""Kubernetes' `node.k8s.io/v1`: what a pod of a runtime class needs beside its containers."""

from typing import Any

from .meta import Manifest, ObjectMeta, always
from .quantity import Quantity

API_VERSION = "node.k8s.io/v1"


class Overhead(Manifest, frozen=True):
    """`pod_fixed` is added to the requests of each pod of the class."""

    pod_fixed: dict[str, Quantity] = {}


class RuntimeClass(Manifest, frozen=True):
    """`scheduling` is kept as it is: only Kubernetes' own scheduler looks at it."""

    api_version: str = always(API_VERSION)
    kind: str = always("RuntimeClass")
    metadata: ObjectMeta = ObjectMeta()
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: dict[str, Any] | None = None
