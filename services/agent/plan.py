"""Plan of a job's pods on this machine: commands, environments, counts. Pure.

Container images are not used: the first container's command and args run as a process on the host.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.api import batch_v1, jobset, sluice_v1
from sluice.api.core_v1 import Container, EnvVar, PodTemplateSpec
from sluice.api.defaults import default
from sluice.api.labels import ELASTIC_JOB
from sluice.api.meta import Manifest
from sluice.api.validation.job import sync_completions
from sluice.protocol.dispatch import DispatchEntry, DispatchPodSet

from .errors import ImageError, PlanError
from .policies import FailureRule, SuccessRule, failure_rules, success_rules
from .secrets import SecretRef, no_secrets, secret_ref

BACKOFF_LIMIT = 6
NO_LIMIT = 2**31 - 1

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.\-]*)\)")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class PodSetPlan:
    """Pods of one set, as the manifest has them: references to variables are not replaced yet.

    *completions*: how many must succeed; None: any success lets the rest run out, and no more are started.
    *indexed*: each of the indexes below *completions* must succeed; otherwise that many pods, whichever.
    *resizable*: the job may change its size, and *completions* stay what they are.
    """

    name: str
    parallelism: int
    completions: int | None
    indexed: bool
    command: Sequence[str]
    env: Sequence[tuple[str, str | SecretRef]]
    working_dir: str = ""
    grace_s: float | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    failure_policy: Sequence[FailureRule | None] = ()
    success_policy: Sequence[SuccessRule] = ()
    resizable: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    pod_sets: Sequence[PodSetPlan]
    backoff_limit: int = BACKOFF_LIMIT
    active_deadline_s: float | None = None


def make_plan(manifest: Manifest, entry: DispatchEntry) -> Plan:
    """Return what to run of *manifest*, as many pods as *entry* allows.

    Raises:
        PlanError: this cannot be run here.
    """
    granted = {pods.name: pods for pods in entry.pod_sets}
    match manifest:
        case batch_v1.Job():
            spec = default(manifest).spec
            pods = _granted(granted, "main")
            follows = sync_completions(manifest)
            completions = pods.count if follows else spec.completions
            plan = _with_policies(
                _batch_pods("main", spec, pods, completions, job=manifest.metadata.name), spec
            )
            plan = replace(plan, resizable=_is_elastic(manifest) and not follows)
            limit = BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
            if manifest.spec.backoff_limit is None and spec.backoff_limit_per_index is not None:
                limit = NO_LIMIT
            return Plan([plan], limit, spec.active_deadline_seconds)
        case sluice_v1.Job():
            own = default(manifest).spec
            plans = [_own_pods(group, _granted(granted, group.name), own) for group in sluice_v1.groups(own)]
            if _is_elastic(manifest) and not own.pod_sets and own.completions is not None:
                plans = [replace(plan, resizable=True) for plan in plans]
            return Plan(plans, BACKOFF_LIMIT if own.backoff_limit is None else own.backoff_limit)
        case jobset.JobSet():
            plans = [
                _batch_pods(
                    part.name,
                    part.template.spec,
                    pods := _granted(granted, part.name),
                    pods.count,
                    job=manifest.metadata.name,
                )
                for part in manifest.spec.replicated_jobs
            ]
            return Plan(plans, 0)
        case _:
            kind = getattr(manifest, "kind", type(manifest).__name__)
            raise PlanError(f"agents run batch/v1 Jobs, JobSets and sluice.dev Jobs as processes, no {kind}")


def _is_elastic(manifest: batch_v1.Job | sluice_v1.Job) -> bool:
    return manifest.metadata.annotations.get(ELASTIC_JOB) == "true"


def _granted(granted: Mapping[str, DispatchPodSet], name: str) -> DispatchPodSet:
    if name not in granted:
        raise PlanError(f"the job has no pod set {name!r}")
    return granted[name]


def _batch_pods(
    name: str, spec: batch_v1.JobSpec, pods: DispatchPodSet, completions: int | None, job: str
) -> PodSetPlan:
    template: PodTemplateSpec = spec.template
    if not template.spec.containers:
        raise PlanError(f"pod set {name}: there is no container")
    container = template.spec.containers[0]
    if not container.command:
        raise (ImageError if container.image else PlanError)(
            f"pod set {name}: no command; agents run processes on the host and no container images, "
            "so the container needs a command"
        )
    return PodSetPlan(
        name=name,
        parallelism=pods.count,
        completions=completions,
        indexed=spec.completion_mode == "Indexed",
        command=(*container.command, *container.args),
        env=container_env(container, job),
        working_dir=container.working_dir,
        grace_s=template.spec.termination_grace_period_seconds,
    )


def _with_policies(pods: PodSetPlan, spec: batch_v1.JobSpec) -> PodSetPlan:
    """Return the pods with what a batch/v1 Job says of its indexes, and of single failures."""
    return replace(
        pods,
        backoff_limit_per_index=spec.backoff_limit_per_index if pods.indexed else None,
        max_failed_indexes=spec.max_failed_indexes if pods.indexed else None,
        failure_policy=failure_rules(spec.pod_failure_policy),
        success_policy=success_rules(spec.success_policy) if pods.indexed else (),
    )


def _own_pods(group: sluice_v1.PodGroup, pods: DispatchPodSet, spec: sluice_v1.JobSpec) -> PodSetPlan:
    if not group.command:
        raise PlanError(f"pod set {group.name}: no command")
    alone = not spec.pod_sets
    return PodSetPlan(
        name=group.name,
        parallelism=pods.count,
        completions=spec.completions if alone and spec.completions is not None else pods.count,
        indexed=True,
        command=(*group.command, *group.args),
        env=tuple(group.env.items()),
        working_dir=group.working_dir,
        grace_s=spec.termination_grace_period_seconds,
    )


def container_env(container: Container, job: str) -> tuple[tuple[str, str | SecretRef], ...]:
    """Return the container's variables.

    Raises:
        PlanError: a value comes from where an agent cannot look.
    """
    if container.env_from:
        raise PlanError("envFrom is not supported by agents")
    return tuple(
        (variable.name, variable.value if variable.value_from is None else _referred(variable, job))
        for variable in container.env
    )


def resolve(
    pods: PodSetPlan, own: Mapping[str, str], secret: Callable[[SecretRef], str | None] = no_secrets
) -> tuple[list[str], dict[str, str]]:
    """Return command line and variables of one pod; *own* are those of `pod_env`, which win.

    A variable may refer to those before it, the command to all. *secret* finds what the manifest only names.

    Raises:
        PlanError: there is no such secret.
    """
    env = dict(own)
    for name, value in pods.env:
        if isinstance(value, SecretRef):
            found = secret(value)
            if found is not None:
                env[name] = found
        else:
            env[name] = expand(value, env)
    env |= own
    return [expand(word, env) for word in pods.command], env


def _referred(variable: EnvVar, job: str) -> str | SecretRef:
    secret = (variable.value_from or {}).get("secretKeyRef")
    if isinstance(secret, dict):
        return secret_ref(secret)
    path = ((variable.value_from or {}).get("fieldRef") or {}).get("fieldPath", "")
    if path == "metadata.labels['batch.kubernetes.io/job-name']":
        return job
    known = {"metadata.name": "$(SLUICE_POD)", "metadata.namespace": "$(SLUICE_NAMESPACE)"}
    if path in known:
        return known[path]
    if path.startswith("metadata.annotations['batch.kubernetes.io/job-completion-index']"):
        return "$(JOB_COMPLETION_INDEX)"
    raise PlanError(
        f"environment variable {variable.name}: this kind of valueFrom is not supported by agents"
    )


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does: unknown names stay, `$$` is one `$`."""

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replaced, text)


def variable_name(text: str) -> str:
    """Return *text* as part of a variable's name: cloud.example.com/pool -> CLOUD_EXAMPLE_COM_POOL."""
    return _NOT_IN_NAMES.sub("_", text).upper()


def pod_env(
    entry: DispatchEntry, pods: DispatchPodSet, index: int, *, indexed: bool, agent: str, cell: str
) -> dict[str, str]:
    """Return the variables that tell a pod where it is. They win over the manifest's."""
    namespace, _, name = entry.job.partition("/")
    env = {
        "SLUICE_CELL": cell,
        "SLUICE_AGENT": agent,
        "SLUICE_JOB": entry.job,
        "SLUICE_NAMESPACE": namespace,
        "SLUICE_JOB_NAME": name,
        "SLUICE_WORKLOAD": entry.workload,
        "SLUICE_ATTEMPT": str(entry.attempt),
        "SLUICE_POD": f"{name}-{pods.name}-{index}",
        "SLUICE_POD_SET": pods.name,
        "SLUICE_POD_INDEX": str(index),
        "SLUICE_POD_COUNT": str(pods.count),
    }
    for resource, flavor in pods.flavors.items():
        env[f"SLUICE_FLAVOR_{variable_name(resource)}"] = flavor
    for label, value in pods.node_selector.items():
        env[f"SLUICE_NODE_LABEL_{variable_name(label)}"] = value
    if indexed:
        env["JOB_COMPLETION_INDEX"] = str(index)
    return env
