"""Jobs: what their labels and annotations say to admission, and the pods they ask for.

On the hot path: a good job leaves each check early.
"""

from collections.abc import Callable, Iterator, Mapping

from sluice.api import batch_v1, constraints, labels, sluice_v1
from sluice.api.core_v1 import PodSpec, PodTemplateSpec
from sluice.api.errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_many
from sluice.api.features import ADMISSION_GATED_BY, ELASTIC_JOBS_VIA_WORKLOAD_SLICES, NONE, enabled
from sluice.api.kueue import AdmissionConstraints
from sluice.api.meta import ObjectMeta

from . import names, pods, quotas
from .family import check_gate_names, check_parent_label
from .gated_by import check_gated_by
from .meta import check_metadata
from .workload import PARTIAL_AND_ELASTIC

MAX_POD_SETS = 8
_FLAGS = (labels.CANNOT_PREEMPT, labels.CANNOT_BORROW, labels.ELASTIC_JOB)
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


def label_field(name: str) -> str:
    """Return the path of a label, for errors."""
    return f"metadata.labels[{name}]"


def annotation_field(name: str) -> str:
    """Return the path of an annotation, for errors."""
    return f"metadata.annotations[{name}]"


def check_job_metadata(
    metadata: ObjectMeta, gates: Mapping[str, bool] = NONE, field: AdmissionConstraints | None = None
) -> list[FieldError]:
    """Check the labels and annotations that admission reads; *field*: the constraints that the spec has."""
    found: list[FieldError] = []
    marks, notes = metadata.labels, metadata.annotations
    if marks:
        for key, check in _LABEL_CHECKS.items():
            value = marks.get(key)
            if value is not None:
                found += check(label_field(key), value)
    if notes:
        for key in _FLAGS:
            if notes.get(key, "true") not in ("true", "false"):
                found.append(not_supported(annotation_field(key), notes[key], ("true", "false")))
        if labels.ADMISSION_GATED_BY in notes and enabled(gates, ADMISSION_GATED_BY):
            found += check_gated_by(notes)
        if labels.PREEMPTION_GATES in notes:
            gates_named = [name.strip() for name in notes[labels.PREEMPTION_GATES].split(",")]
            found += check_gate_names(annotation_field(labels.PREEMPTION_GATES), gates_named)
        if field is not None:
            found += constraints.contradictions(metadata, field)
    return found


def check_unread_job(metadata: ObjectMeta) -> list[FieldError]:
    """Check a job of a team's kind where its mapping is not known."""
    return [*check_metadata(metadata, namespaced=True), *check_job_metadata(metadata)]


def _check_object_name(field: str, value: str) -> list[FieldError]:
    messages = names.dns_subdomain(value)
    return [invalid(field, value, ",".join(messages))] if messages else []


def _check_seconds(field: str, value: str) -> list[FieldError]:
    if not names.is_integer(value):
        return [invalid(field, value, f'strconv.Atoi: parsing "{value}": invalid syntax')]
    return [] if int(value) > 0 else [invalid(field, int(value), "should be greater than 0")]


_LABEL_CHECKS: Mapping[str, Callable[[str, str], list[FieldError]]] = {
    labels.QUEUE_NAME: _check_object_name,
    labels.PRIORITY_CLASS: _check_object_name,
    labels.MAX_EXEC_TIME_SECONDS: _check_seconds,
    labels.PREBUILT_WORKLOAD: _check_object_name,
    labels.CONCURRENT_ADMISSION_PARENT: check_parent_label,
}


def check_batch_job(job: batch_v1.Job, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check a new batch/v1 Job."""
    found = check_job_metadata(job.metadata, gates, job.spec.admission_constraints)
    if job.metadata.annotations:
        found += check_partial_admission(job, gates)
        found += _check_sync_completions(job)
    return found + check_job_spec("spec", job.spec, gates)


def check_job_spec(field: str, spec: batch_v1.JobSpec, gates: Mapping[str, bool]) -> list[FieldError]:
    """Check counts and pods; *field* is where the spec is (a JobSet has several)."""
    found: list[FieldError] = []
    for word, count in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("backoffLimit", spec.backoff_limit),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
    ):
        if count is not None and count < 0:
            found.append(invalid(f"{field}.{word}", count, quotas.NOT_NEGATIVE))
    if spec.completion_mode == "Indexed" and spec.completions is None:
        text = "when completion mode is Indexed"
        found.append(required(f"{field}.completions", text))
    if spec.template.spec.restart_policy == "Always":
        place = f"{field}.template.spec.restartPolicy"
        found.append(not_supported(place, "Always", ("OnFailure", "Never")))
    if field != "spec":
        found += no_constraints_here(field, spec.admission_constraints)
    return found + check_template(f"{field}.template", spec.template, gates)


def no_constraints_here(field: str, found: AdmissionConstraints | None) -> list[FieldError]:
    """Refuse constraints of a part: they are those of the job as a whole."""
    if found is None:
        return []
    return [forbidden(f"{field}.admissionConstraints", f"belongs to the whole job: {constraints.FIELD}")]


def check_template(
    field: str, template: PodTemplateSpec, gates: Mapping[str, bool] = NONE
) -> list[FieldError]:
    """Check one pod template."""
    if not template.spec.containers:
        return [required(f"{field}.spec.containers")]
    found = pods.check_pod(f"{field}.spec", template.spec, gates)
    found += pods.check_limits(f"{field}.spec", template.spec)
    found += pods.check_template_metadata(field, template, gates)
    return found + pods.schema_pod(f"{field}.spec", template.spec)


def check_partial_admission(job: batch_v1.Job, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check the annotation with the least parallelism that the job can do with (SC7, WS1)."""
    notes = job.metadata.annotations
    text = notes.get(labels.JOB_MIN_PARALLELISM)
    if text is None:
        return []
    field = annotation_field(labels.JOB_MIN_PARALLELISM)
    if not names.is_integer(text):
        return [invalid(field, text, f'strconv.Atoi: parsing "{text}": invalid syntax')]
    count = pods_count(job.spec)
    if not 0 < int(text) < count:
        return [invalid(field, int(text), f"should be between 0 and {count - 1}")]
    if notes.get(labels.ELASTIC_JOB) == "true" and enabled(gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES):
        return [invalid(field, text, PARTIAL_AND_ELASTIC)]
    return []


def pods_count(spec: batch_v1.JobSpec) -> int:
    """Return how many pods run at once: parallelism, but never more than must still complete."""
    parallelism = _or_one(spec.parallelism)
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def _or_one(count: int | None) -> int:
    return 1 if count is None else count


def sync_completions(job: batch_v1.Job) -> bool:
    """Return whether completions follow parallelism, by annotation."""
    return job.metadata.annotations.get(labels.JOB_COMPLETIONS_EQUAL_PARALLELISM) in _TRUE


def _check_sync_completions(job: batch_v1.Job) -> Iterator[FieldError]:
    text = job.metadata.annotations.get(labels.JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if text is None or text in _FALSE:
        return
    field = annotation_field(labels.JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if text not in _TRUE:
        yield invalid(field, text, f'strconv.ParseBool: parsing "{text}": invalid syntax')
        return
    if job.spec.completion_mode in (None, "NonIndexed"):
        yield invalid(field, text, "should not be enabled for NonIndexed jobs")
    if _or_one(job.spec.parallelism) != _or_one(job.spec.completions):
        detail = (
            "should be equal to parallelism when "
            f"{labels.JOB_COMPLETIONS_EQUAL_PARALLELISM} is annotation is true"
        )
        yield invalid("spec.completions", job.spec.completions, detail)


_SHORT_FORM = (
    "command",
    "args",
    "env",
    "working_dir",
    "replicas",
    "parallelism",
    "min_replicas",
    "resources",
    "node_selector",
    "node_affinity",
    "tolerations",
)


def check_own_job(job: sluice_v1.Job, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check a new Job of ours."""
    spec = job.spec
    found = check_job_metadata(job.metadata, gates, spec.admission_constraints)
    if spec.queue_name:
        found += _check_object_name("spec.queueName", spec.queue_name)
    if spec.priority_class_name:
        found += _check_object_name("spec.priorityClassName", spec.priority_class_name)
    for word, count, least in (
        ("maximumExecutionTimeSeconds", spec.maximum_execution_time_seconds, 1),
        ("backoffLimit", spec.backoff_limit, 0),
        ("completions", spec.completions, 0),
        ("terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0),
    ):
        if count is not None and count < least:
            found.append(invalid(f"spec.{word}", count, f"must be greater than or equal to {least}"))
    if spec.replicas is not None and spec.parallelism is not None:
        found.append(forbidden("spec.parallelism", "another word for replicas: set one of them"))
    if spec.pod_sets:
        found += _check_no_short_form(spec)
    elastic = job.metadata.annotations.get(labels.ELASTIC_JOB) == "true" and enabled(
        gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES
    )
    return [*found, *_check_groups(spec, elastic=elastic)]


def _check_no_short_form(spec: sluice_v1.JobSpec) -> list[FieldError]:
    text = "may not be set together with podSets: set it there"
    return [
        forbidden(f"spec.{_camel(word)}", text)
        for word in _SHORT_FORM
        if getattr(spec, word) not in (None, "", [], {})
    ]


def _camel(word: str) -> str:
    head, *rest = word.split("_")
    return head + "".join(part.title() for part in rest)


def _check_groups(spec: sluice_v1.JobSpec, *, elastic: bool) -> Iterator[FieldError]:
    groups = sluice_v1.groups(spec)
    if len(groups) > MAX_POD_SETS:
        yield too_many("spec.podSets", len(groups), MAX_POD_SETS)
    seen: dict[str, None] = {}
    variable: list[tuple[str, int]] = []
    for i, group in enumerate(groups):
        field = f"spec.podSets[{i}]" if spec.pod_sets else "spec"
        if messages := names.dns_label(group.name):
            yield from names.check_name(f"{field}.name", group.name, messages)
        if group.name in seen:
            yield duplicate(f"{field}.name", group.name)
        seen[group.name] = None
        yield from _check_group(field, group)
        if group.min_replicas is not None:
            variable.append((f"{field}.minReplicas", group.min_replicas))
    yield from (invalid(place, n, "at most one podSet can use minReplicas") for place, n in variable[1:])
    if elastic:
        yield from (invalid(place, n, PARTIAL_AND_ELASTIC) for place, n in variable)


def _check_group(field: str, group: sluice_v1.PodGroup) -> Iterator[FieldError]:
    replicas = 1 if group.replicas is None else group.replicas
    if replicas < 0:
        yield invalid(f"{field}.replicas", replicas, quotas.NOT_NEGATIVE)
    least = group.min_replicas
    if least is not None and not 0 < least <= replicas:
        text = f"should be between 1 and {replicas}"
        yield invalid(f"{field}.minReplicas", least, text)
    for name, quantity in group.resources.items():
        place = f"{field}.resources[{name}]"
        if messages := names.qualified_name(name):
            yield from names.check_name(place, name, messages)
        yield from quotas.check_quantity(place, quantity)
    pod = PodSpec(node_selector=group.node_selector, tolerations=group.tolerations)
    if group.node_selector or group.tolerations:
        yield from pods.schema_pod(field, pod)
