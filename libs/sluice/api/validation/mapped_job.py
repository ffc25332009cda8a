"""Jobs of the kinds that are read by a table: their labels, and all of their pods; and teams' own kinds."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from sluice.api import constraints, labels
from sluice.api._walk import shape_errors, without_nulls
from sluice.api.custom import may_be_custom
from sluice.api.errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    plain,
    required,
    too_long,
    too_many,
)
from sluice.api.features import NONE
from sluice.api.kueue import AdmissionConstraints
from sluice.api.mapped import MAPPED, JobKind, MappedJob, Pods, find, read, rules_of
from sluice.api.mapped.rules import check_mapping
from sluice.api.mapped.table import POD
from sluice.api.unsupported import instead_of

from . import names
from .job import MAX_POD_SETS, annotation_field, check_job_metadata, check_template


def check_mapped_job(job: MappedJob, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check a new job of such a kind."""
    found = check_job_metadata(job.metadata, gates, constraints.field_of(job))
    if job.metadata.annotations.get(labels.ELASTIC_JOB) == "true":
        field = annotation_field(labels.ELASTIC_JOB)
        found.append(forbidden(field, f"is not supported for {job.kind}: its pod sets cannot be resized"))
    known = MAPPED.get((job.api_version, job.kind))
    found += [
        invalid(path, True, why)
        for path, why in (known.refused if known is not None else ())
        if find({"spec": job.spec}, path) is True
    ]
    if (job.api_version, job.kind) == POD and labels.POD_GROUP_NAME in job.metadata.labels:
        text = "pods of a group are one job: `sluice submit -f` makes it of those that one file has"
        found.append(forbidden(f"metadata.labels[{labels.POD_GROUP_NAME}]", text))
    if (own := job.spec.get("admissionConstraints")) is not None:
        wrong = shape_errors(without_nulls(own), AdmissionConstraints)
        found += [replace(error, field=f"{constraints.FIELD}.{error.field}") for error in wrong]
    kept = rules_of(job).ttl
    ttl = find({"spec": job.spec}, kept) if kept else None
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int) or ttl < 0):
        found.append(invalid(kept, plain(ttl), "must be a number of seconds that is not negative"))
    pods, errors = read(job)
    return [*found, *errors, *_check_pods(pods, gates)]


def _check_pods(pods: list[Pods], gates: Mapping[str, bool]) -> Iterator[FieldError]:
    if len(pods) > MAX_POD_SETS:
        yield too_many("spec", len(pods), MAX_POD_SETS)
    seen: set[str] = set()
    partial = 0
    for one in pods:
        if messages := names.dns_label(one.name):
            yield from names.check_name(one.field, one.name, messages)
        if one.name in seen:
            yield duplicate(one.field, one.name, "two pod sets of this name")
        seen.add(one.name)
        if one.min_count is not None:
            partial += 1
            if not 0 < one.min_count <= one.count:
                yield invalid(one.min_field, one.min_count, f"should be between 1 and {one.count}")
            if partial > 1:
                yield invalid(one.min_field, one.min_count, "at most one pod set can have a least number")
        yield from check_template(one.field, one.template, gates)


def no_effect(job: MappedJob) -> Iterator[str]:
    """Yield what of such a job is accepted, so that manifests go in as they are, and has no effect."""
    known = MAPPED.get((job.api_version, job.kind))
    for path, why in known.no_effect if known is not None else ():
        if find({"spec": job.spec}, path) is not None:
            yield f"{path} has no effect: {why}"


MAX_MAPPING_BYTES: Final = 16 * 1024
"""The mapping stands in the log with each job that goes by it."""
MAX_VERSIONS: Final = 10


def check_job_kind(kind: JobKind) -> list[FieldError]:
    """Check a team's kind of jobs, alone; that its names are nobody else's is for whoever knows all."""
    spec = kind.spec
    found = names.check_name("spec.group", spec.group, names.dns_subdomain(spec.group))
    if spec.group and not may_be_custom(f"{spec.group}/v"):
        text = "must have a dot, and be none of Kubernetes' or Sluice's own groups"
        found.append(invalid("spec.group", spec.group, text))
    found += _check_names(kind)
    if not spec.versions:
        found.append(required("spec.versions", "at least one"))
    if len(spec.versions) > MAX_VERSIONS:
        found.append(too_many("spec.versions", len(spec.versions), MAX_VERSIONS))
    for i, version in enumerate(spec.versions[:MAX_VERSIONS]):
        found += names.check_name(f"spec.versions[{i}]", version, names.dns_label(version))
        if version in spec.versions[:i]:
            found.append(duplicate(f"spec.versions[{i}]", version))
    if len(msgspec.json.encode(spec.mapping)) > MAX_MAPPING_BYTES:
        found.append(too_long("spec.mapping", MAX_MAPPING_BYTES))
        return found
    return [*found, *check_mapping("spec.mapping", spec.mapping)]


def _check_names(kind: JobKind) -> Iterator[FieldError]:
    own, group = kind.spec.names, kind.spec.group
    listed = [(f"shortNames[{i}]", word) for i, word in enumerate(own.short_names)]
    for word, value in (("kind", own.kind), ("plural", own.plural), ("singular", own.singular), *listed):
        if value or word.startswith("shortNames"):
            yield from names.check_name(f"spec.names.{word}", value, names.dns_label(value.lower()))
        elif word != "singular":
            yield required(f"spec.names.{word}")
    if own.kind and instead_of(f"{group}/v", own.kind):
        yield invalid("spec.names.kind", own.kind, "is a kind of Kubernetes or Kueue")
    expected = f"{own.plural}.{group}"
    if own.plural and group and kind.metadata.name != expected:
        text = f'must be spec.names.plural+"."+spec.group: {expected}'
        yield invalid("metadata.name", kind.metadata.name, text)


def check_job_kind_update(new: JobKind, old: JobKind) -> list[FieldError]:
    """Check a kind in place of another: jobs in the log are known by its name."""
    if new.spec.names.kind == old.spec.names.kind:
        return []
    return [invalid("spec.names.kind", new.spec.names.kind, IMMUTABLE)]
