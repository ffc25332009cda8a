"""Older and alternative spellings of manifests, turned into the canonical `v1beta2` ones (G1, CA1).

Everything here works on decoded JSON and returns new dictionaries; what it does not know it leaves
alone, so that strict decoding reports it.
"""

from typing import Any

Object = dict[str, Any]

_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
_MODES = {"UpgradeOnly": "TryPreferredFlavors", "NoMigration": "RetainFirstAdmission"}
API_VERSION = "kueue.x-k8s.io/v1beta2"


def to_v1beta2(manifest: Object) -> Object:
    """Return a `kueue.x-k8s.io/v1beta1` (or v1alpha1) manifest as `v1beta2`."""
    changed = {**manifest, "apiVersion": API_VERSION}
    spec = changed.get("spec")
    if isinstance(spec, dict):
        changed["spec"] = _SPECS.get(str(manifest.get("kind")), _same)(spec)
    status = changed.get("status")
    if isinstance(status, dict) and manifest.get("kind") == "Workload":
        changed["status"] = {k: v for k, v in status.items() if k != "accumulatedPastExexcutionTimeSeconds"}
    return cluster_queue(changed) if manifest.get("kind") == "ClusterQueue" else changed


def cluster_queue(manifest: Object) -> Object:
    """Return a ClusterQueue with the KEP's `concurrentAdmission` as `concurrentAdmissionPolicy` (CA1)."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return manifest
    kept = dict(spec)
    fungibility = kept.get("flavorFungibility")
    if isinstance(fungibility, dict):
        # v1beta2 still accepts the old words; they mean the same.
        kept["flavorFungibility"] = _fungibility(fungibility)
    proposal = kept.get("concurrentAdmission")
    if isinstance(proposal, dict) and "concurrentAdmissionPolicy" not in kept:
        del kept["concurrentAdmission"]
        kept["concurrentAdmissionPolicy"] = _policy(proposal)
    return {**manifest, "spec": kept}


def _fungibility(fungibility: Object) -> Object:
    words = ("whenCanBorrow", "whenCanPreempt")
    return {
        key: _FUNGIBILITY.get(value, value) if key in words and isinstance(value, str) else value
        for key, value in fungibility.items()
    }


def _policy(proposal: Object) -> Object:
    policy = {key: value for key, value in proposal.items() if key != "migrationConstraints"}
    limits = proposal.get("migrationConstraints")
    if not isinstance(limits, dict):
        return policy if limits is None else {**policy, "migration": limits}
    migration: Object = {}
    constraints: Object = {}
    for key, value in limits.items():
        if key == "mode":
            migration["mode"] = _MODES.get(value, value) if isinstance(value, str) else value
        elif key == "minFlavor":
            constraints["lastAcceptableFlavorName"] = value
        elif key == "minVariant":
            constraints["lastAcceptableVariantName"] = value
        else:
            constraints[key] = value
    if constraints:
        migration["constraints"] = constraints
    return {**policy, "migration": migration}


def _same(spec: Object) -> Object:
    return spec


def _renamed(spec: Object, old: str, new: str) -> Object:
    if old not in spec or new in spec:
        return spec
    return {(new if key == old else key): value for key, value in spec.items()}


def _cluster_queue_spec(spec: Object) -> Object:
    spec = _renamed(spec, "cohort", "cohortName")
    checks = spec.get("admissionChecks")
    if isinstance(checks, list) and "admissionChecksStrategy" not in spec:
        spec = {key: value for key, value in spec.items() if key != "admissionChecks"}
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    return spec


def _workload_spec(spec: Object) -> Object:
    if "priorityClassName" not in spec:
        return spec
    source = spec.get("priorityClassSource", "")
    name = spec["priorityClassName"]
    spec = {key: value for key, value in spec.items() if not key.startswith("priorityClass")}
    if name:
        group, _, kind = str(source or "kueue.x-k8s.io/workloadpriorityclass").partition("/")
        kinds = {"workloadpriorityclass": "WorkloadPriorityClass", "priorityclass": "PriorityClass"}
        spec["priorityClassRef"] = {"group": group, "kind": kinds.get(kind, kind), "name": name}
    return spec


def _admission_check_spec(spec: Object) -> Object:
    # Deprecated in v1beta1, gone in v1beta2; the delay is the controller's answer now.
    return {key: value for key, value in spec.items() if key != "retryDelayMinutes"}


def _cohort_spec(spec: Object) -> Object:
    return _renamed(_renamed(spec, "parent", "parentName"), "cohortName", "parentName")


_SPECS = {
    "ClusterQueue": _cluster_queue_spec,
    "Cohort": _cohort_spec,
    "Workload": _workload_spec,
    "AdmissionCheck": _admission_check_spec,
}
