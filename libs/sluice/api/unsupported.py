"""Kinds that users of Kueue have and Sluice does not take, each with what to do instead."""

from collections.abc import Iterable
from typing import Final

from .errors import FieldError, near_miss

_ROLES: Final = "submit a JobSet with one replicatedJob for each role"
_PROVISIONING: Final = "apply a ProvisioningRequestConfig, and an AdmissionCheck that names it"
_NOTHING: Final = "admission does not look at it: leave it out, or use `sluice apply --skip-unsupported`"

INSTEAD: Final[dict[tuple[str, str], str]] = {
    ("", "PodTemplate"): "submit a Job with its template",
    ("kubeflow.org", "MXJob"): _ROLES,
    ("apps", "ReplicaSet"): "submit the Deployment that makes it",
    ("apps", "DaemonSet"): _NOTHING,
    ("batch", "CronJob"): "submit its jobTemplate as a Job whenever it is due",
    ("autoscaling.x-k8s.io", "ProvisioningRequest"): _PROVISIONING,
    **{
        ("", kind): _NOTHING
        for kind in (
            "ConfigMap",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        )
    },
    **{
        ("rbac.authorization.k8s.io", kind): _NOTHING
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    },
}
"""(API group, kind) -> what to do instead; the group is '' for Kubernetes' core."""


def instead_of(api_version: str, kind: str) -> str:
    """Return what to do instead of giving an object of this kind to Sluice, '' if nobody knows one.

    >>> instead_of("batch/v1", "CronJob")
    'submit its jobTemplate as a Job whenever it is due'
    """
    group, slash, _ = api_version.partition("/")
    return INSTEAD.get((group if slash else "", kind), "")


def unknown_kind(api_version: object, kind: object, known: Iterable[str]) -> FieldError:
    """Return that there is no such kind, and what to do: a word for the one that was meant, or the way round.

    *known*: the kinds that there are, which are not listed: nobody reads twenty names.
    """
    name = str(kind)
    detail = instead_of(str(api_version), name)
    if not detail:
        meant = near_miss(name, list(known))
        detail = f'did you mean "{meant}"?' if meant else "`sluice get --help` names the kinds that there are"
    return FieldError(field="kind", detail=detail, bad_value=name, type="FieldValueNotSupported")


def is_unsupported(error: FieldError) -> bool:
    """Tell whether an error says that there is no such kind of object, or none of that version."""
    return error.type == "FieldValueNotSupported" and error.field in ("kind", "apiVersion")
