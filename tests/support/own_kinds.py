"""A kind of jobs of some team's own, and jobs of it."""

from typing import Any

API = "lab.example.org/v1"


def job_kind(kind: str = "Simulation", **changes: Any) -> dict[str, Any]:
    """Return a JobKind: a coordinator, and grids of nodes."""
    plural = f"{kind.lower()}s"
    spec = {
        "group": "lab.example.org",
        "versions": ["v1"],
        "names": {"kind": kind, "plural": plural},
        "mapping": mapping(),
        **changes,
    }
    return {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "JobKind",
        "metadata": {"name": f"{plural}.lab.example.org"},
        "spec": spec,
    }


def mapping(**changes: Any) -> dict[str, Any]:
    """Return what its JobKind says of a Simulation."""
    return {
        "podSets": [
            {"name": "coordinator", "template": "spec.coordinator"},
            {"each": "spec.grids", "nameFrom": "name", "template": "template", "count": ["nodes"]},
        ],
        "suspend": ["spec.paused"],
        "ttl": "spec.ttlSecondsAfterFinished",
        "status": {
            "ready": [{"condition": "Running"}],
            "succeeded": [{"path": "status.phase", "values": ["Done"]}],
            "failed": [{"path": "status.phase", "values": ["Crashed", "Lost"]}],
            "message": "status.why",
        },
        **changes,
    }


def pods(cpu: str = "1") -> dict[str, Any]:
    """Return a pod template of one container."""
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}


def simulation(name: str = "a", *, queue: str = "queue", nodes: Any = 2, **spec: Any) -> dict[str, Any]:
    """Return a job of the kind."""
    return {
        "apiVersion": API,
        "kind": "Simulation",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": queue},
        },
        "spec": {
            "paused": True,
            "coordinator": pods(),
            "grids": [{"name": "Fine", "nodes": nodes, "template": pods("2")}],
            **spec,
        },
    }


__all__ = ["API", "job_kind", "mapping", "pods", "simulation"]
