"""Older and alternative spellings of manifests, turned into the canonical `v1beta2` ones (G1, CA1).

Everything here works on decoded JSON and returns new dictionaries. What it does not know it leaves
alone, so that strict decoding reports it; what the spelling does not have, but its translation would, it
reports itself. `sluice.api.spelling` translates what is said of the result back.
"""

from collections.abc import Mapping
from typing import Any

from .errors import FieldError, near_miss, unknown_field

Object = dict[str, Any]

_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
MODES = {"UpgradeOnly": "TryPreferredFlavors", "NoMigration": "RetainFirstAdmission"}
"""The KEP's migration modes, and what they are called now."""
API_VERSION = "kueue.x-k8s.io/v1beta2"
OLDER = ("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1alpha1")
_POLICIES = ("concurrentAdmissionPolicy", "concurrentAdmission")
_PROPOSAL = ("migrationConstraints", "explicitVariants")
_LIMITS = ("mode", "minFlavor", "minVariant")

Errors = list[FieldError]


def to_v1beta2(manifest: Object, errors: Errors) -> Object:
    """Return a `kueue.x-k8s.io/v1beta1` (or v1alpha1) manifest as `v1beta2`; add what it may not have."""
    changed = {**manifest, "apiVersion": API_VERSION}
    spec = changed.get("spec")
    if isinstance(spec, dict) and manifest.get("kind") == "ClusterQueue":
        for word in _POLICIES:
            if word in spec:
                # CA1: not in the older API.
                detail = f"concurrent admission needs apiVersion {API_VERSION}"
                errors.append(FieldError(field=f"spec.{word}", detail=detail, type="FieldUnknown"))
        spec = {key: value for key, value in spec.items() if key not in _POLICIES}
    if isinstance(spec, dict):
        changed["spec"] = _SPECS.get(str(manifest.get("kind")), _same)(spec)
    status = changed.get("status")
    if isinstance(status, dict) and manifest.get("kind") == "Workload":
        changed["status"] = {k: v for k, v in status.items() if k != "accumulatedPastExexcutionTimeSeconds"}
    return cluster_queue(changed, errors) if manifest.get("kind") == "ClusterQueue" else changed


def is_proposal(spec: Mapping[str, Any]) -> bool:
    """Tell whether a ClusterQueue's spec has a policy in the KEP's spelling."""
    return "concurrentAdmission" in spec and "concurrentAdmissionPolicy" not in spec


def cluster_queue(manifest: Object, errors: Errors) -> Object:
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
    if is_proposal(kept):
        del kept["concurrentAdmission"]
        kept["concurrentAdmissionPolicy"] = (
            _policy(proposal, errors) if isinstance(proposal, dict) else proposal
        )
    return {**manifest, "spec": kept}


def _fungibility(fungibility: Object) -> Object:
    words = ("whenCanBorrow", "whenCanPreempt")
    return {
        key: _FUNGIBILITY.get(value, value) if key in words and isinstance(value, str) else value
        for key, value in fungibility.items()
    }


def _policy(proposal: Object, errors: Errors) -> Object:
    _report_unknown("spec.concurrentAdmission", proposal, _PROPOSAL, errors)
    policy = {"explicitVariants": proposal["explicitVariants"]} if "explicitVariants" in proposal else {}
    limits = proposal.get("migrationConstraints")
    if not isinstance(limits, dict):
        return policy if limits is None else {**policy, "migration": limits}
    _report_unknown("spec.concurrentAdmission.migrationConstraints", limits, _LIMITS, errors)
    migration: Object = {}
    if "mode" in limits:
        mode = limits["mode"]
        migration["mode"] = MODES.get(mode, mode) if isinstance(mode, str) else mode
    constraints = {
        canonical: limits[word]
        for word, canonical in (
            ("minFlavor", "lastAcceptableFlavorName"),
            ("minVariant", "lastAcceptableVariantName"),
        )
        if word in limits
    }
    if constraints:
        migration["constraints"] = constraints
    return {**policy, "migration": migration}


def _report_unknown(place: str, found: Object, known: tuple[str, ...], errors: Errors) -> None:
    errors += [unknown_field(f"{place}.{key}", near_miss(key, known)) for key in found if key not in known]


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


def _multikueue_cluster_spec(spec: Object) -> Object:
    if "kubeConfig" not in spec or "clusterSource" in spec:
        return spec
    rest = {key: value for key, value in spec.items() if key != "kubeConfig"}
    return {**rest, "clusterSource": {"kubeConfig": spec["kubeConfig"]}}


_SPECS = {
    "MultiKueueCluster": _multikueue_cluster_spec,
    "ClusterQueue": _cluster_queue_spec,
    "Cohort": _cohort_spec,
    "Workload": _workload_spec,
    "AdmissionCheck": _admission_check_spec,
}
