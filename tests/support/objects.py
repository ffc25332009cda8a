"""Manifests of Kueue's kinds, as `sluice apply` reads them."""

from collections.abc import Mapping
from typing import Any

API_VERSION = "kueue.x-k8s.io/v1beta2"


def kueue_object(
    kind: str, name: str, spec: Mapping[str, Any] | None = None, *, namespace: str = ""
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec or {}}


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


__all__ = ["kueue_object", "priority_class"]
