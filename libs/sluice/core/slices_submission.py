"""A submitted manifest as the slice-aggregator sees it: what admission needs of it, and its digests."""

import hashlib
from typing import Any

import msgspec

from sluice.api import batch_v1, jobset, labels, ray, sluice_v1
from sluice.api.decode import decode_json
from sluice.api.errors import FieldError, InvalidError, invalid, not_supported, required
from sluice.api.meta import Manifest

from .jobs import JobRequest, job_request

JOB_KINDS = (batch_v1.Job, sluice_v1.Job, ray.RayCluster, ray.RayJob, jobset.JobSet)

MAX_TTL_S = 10**9

_encode = msgspec.json.Encoder(order="deterministic").encode


class Submission(msgspec.Struct, frozen=True, gc=False):
    """A valid manifest.

    `digest` tells manifests apart by all that users can edit; `template` by what must stay as it is while
    the job runs: its pods, their number left out.
    """

    request: JobRequest
    digest: bytes
    template: bytes
    ttl_s: int | None


def parse(data: msgspec.Raw | bytes, namespace: str, name: str) -> Submission | tuple[FieldError, ...]:
    """Return the submission in a manifest that came on the subject of *namespace* and *name*."""
    if not data:
        return (required("data", "the job's manifest"),)
    try:
        manifest = decode_json(data)
    except InvalidError as error:
        return error.errors
    if not isinstance(manifest, JOB_KINDS):
        kind = getattr(manifest, "kind", type(manifest).__name__)
        return (not_supported("kind", kind, dict.fromkeys(job.__name__ for job in JOB_KINDS)),)
    errors = _mismatch(manifest, namespace, name) or validate(manifest)
    if errors:
        return tuple(errors)
    request = job_request(manifest)
    ttl_s = getattr(manifest.spec, "ttl_seconds_after_finished", None)
    return Submission(
        request=request,
        digest=_digest(_editable(manifest)),
        template=_digest(_template(manifest, request)),
        ttl_s=None if ttl_s is None else max(0, min(ttl_s, MAX_TTL_S)),
    )


def validate(manifest: Any) -> list[FieldError]:
    """Return what is wrong with a job manifest."""
    request = job_request(manifest)
    if not request.queue_name:
        return [required(f"metadata.labels[{labels.QUEUE_NAME}]")]
    return []


def _mismatch(manifest: Any, namespace: str, name: str) -> list[FieldError]:
    """The subject says which job a message is about; its manifest must not speak of another one."""
    errors = []
    metadata = manifest.metadata
    if (metadata.namespace or "default") != namespace:
        detail = f"the message came on the subject of namespace {namespace!r}"
        errors.append(invalid("metadata.namespace", metadata.namespace, detail))
    if metadata.name != name:
        detail = f"the message came on the subject of job {name!r}"
        errors.append(invalid("metadata.name", metadata.name, detail))
    return errors


def _digest(value: object) -> bytes:
    return hashlib.blake2b(_encode(value), digest_size=16).digest()


def _editable(manifest: Any) -> tuple[Any, ...]:
    """Return what users edit. `suspend` is not theirs: it says whether the job may run now."""
    metadata, spec = manifest.metadata, manifest.spec
    if spec.suspend is not None:
        spec = msgspec.structs.replace(spec, suspend=None)
    return manifest.api_version, manifest.kind, metadata.labels, metadata.annotations, spec


def _template(manifest: Manifest, request: JobRequest) -> object:
    match manifest:
        case batch_v1.Job():
            return manifest.spec.template, manifest.spec.completion_mode
        case sluice_v1.Job():
            return [
                msgspec.structs.replace(group, replicas=None, min_replicas=None)
                for group in sluice_v1.groups(manifest.spec)
            ]
        case _:
            return [msgspec.structs.replace(pods, count=0, min_count=None) for pods in request.pod_sets]
