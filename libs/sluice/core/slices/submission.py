"""A submitted manifest as the slice-aggregator sees it: what admission needs of it, and its digests."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from sluice.api import batch_v1, jobset, ray, sluice_v1
from sluice.api.decode import any_own_kind, decode_json
from sluice.api.errors import FieldError, InvalidError, invalid, not_supported, required
from sluice.api.mapped import MappedJob, OwnJob, OwnKinds
from sluice.api.scheme import JOB_KINDS, JOB_TYPES
from sluice.api.validation import validate
from sluice.api.validation.names import dns_label, dns_subdomain
from sluice.core.workload.limit_ranges import encode as encode_resources

from .fields import named_queue, queue_field, spec_to_edit, suspended, ttl_of
from .job_request import JobRequest, is_plain, job_request, resources_of

__all__ = ["Submission", "parse", "queue_named_in", "template_digest"]

JobManifest = batch_v1.Job | sluice_v1.Job | ray.RayCluster | ray.RayJob | jobset.JobSet | MappedJob

MAX_TTL_S = 10**9

_encode = msgspec.json.Encoder(order="deterministic").encode


class Submission(msgspec.Struct, frozen=True):
    """A manifest that could be decoded, and is about the job on whose subject it came.

    `digest` tells manifests apart by all that users can edit. `suspend` is not theirs: it says whether
    the job may run now.
    """

    manifest: JobManifest
    digest: bytes

    @property
    def ttl_s(self) -> int | None:
        """How long the job is to be kept when it has finished."""
        found = ttl_of(self.manifest)
        return None if found is None else max(0, min(found, MAX_TTL_S))

    @property
    def generation(self) -> int:
        return self.manifest.metadata.generation


def parse(
    data: msgspec.Raw | bytes, namespace: str, name: str, own_kinds: OwnKinds | None = None
) -> Submission | tuple[FieldError, ...]:
    """Return the submission in a manifest that came on the subject of *namespace* and *name*.

    *own_kinds*: how jobs of teams' kinds are read.
    """
    if not data:
        return (required("data", "the job's manifest"),)
    try:
        manifest = decode_json(data, own_kinds=own_kinds)
    except InvalidError as error:
        return error.errors
    if not isinstance(manifest, JOB_TYPES):
        kind = getattr(manifest, "kind", type(manifest).__name__)
        return (not_supported("kind", kind, JOB_KINDS),)
    return _mismatch(manifest, namespace, name) or Submission(manifest, _editable(manifest))


def queue_named_in(data: msgspec.Raw | bytes) -> tuple[str, str]:
    """Return the queue that `parse` would find in a manifest, "" if none, and the field that names it.

    Raises:
        InvalidError: it would find no manifest.
    """
    # The label is in one place in all kinds of teams, whether there is such a kind or not.
    manifest = decode_json(data, own_kinds=any_own_kind)
    return named_queue(manifest), queue_field(manifest)


def _mismatch(manifest: JobManifest, namespace: str, name: str) -> tuple[FieldError, ...]:
    """The subject says which job a message is about; its manifest must not speak of another one."""
    metadata = manifest.metadata
    if metadata.name == name and (metadata.namespace or "default") == namespace:
        return ()
    errors = []
    if (metadata.namespace or "default") != namespace:
        detail = f"the message came on the subject of namespace {namespace!r}"
        errors.append(invalid("metadata.namespace", metadata.namespace, detail))
    if metadata.name != name:
        detail = f"the message came on the subject of job {name!r}"
        errors.append(invalid("metadata.name", metadata.name, detail))
    return tuple(errors)


def _editable(manifest: JobManifest) -> bytes:
    metadata = manifest.metadata
    spec = spec_to_edit(manifest)
    told = (manifest.api_version, manifest.kind, metadata.labels, metadata.annotations, spec)
    # What is kept by digest depends on how the manifest was read.
    return _digest((*told, manifest.mapping) if isinstance(manifest, OwnJob) else told)


_CACHED = 8192
_requests: dict[tuple[bytes, tuple[tuple[str, bool], ...]], JobRequest] = {}
"""Digest and feature gates -> what a valid manifest asks for. Users submit the same job many times over."""


def read(submission: Submission, gates: Mapping[str, bool]) -> JobRequest | tuple[FieldError, ...]:
    """Return what the manifest asks of admission, or what is wrong with it."""
    manifest, metadata = submission.manifest, submission.manifest.metadata
    key = (submission.digest, tuple(gates.items()))
    known = _requests.get(key)
    # Labels and annotations are part of the digest; only the name is this job's own.
    if known is not None and not (dns_subdomain(metadata.name) or dns_label(metadata.namespace or "default")):
        return msgspec.structs.replace(
            known,
            namespace=metadata.namespace or "default",
            name=metadata.name,
            generation=metadata.generation,
            suspend=suspended(manifest),
        )
    errors = [*validate(manifest, gates)]
    if not named_queue(manifest):
        errors.append(required(queue_field(manifest)))
    if errors:
        return tuple(errors)
    return _keep(_requests, key, job_request(manifest))


def _keep[K, V](cache: dict[K, V], key: K, value: V) -> V:
    if len(cache) >= _CACHED:
        del cache[next(iter(cache))]
    cache[key] = value
    return value


_templates: dict[bytes, bytes] = {}
"""Digest -> template digest."""


def template_digest(submission: Submission) -> bytes:
    """Return what tells manifests apart by what must stay while the job runs: pods, not their number."""
    digest = submission.digest
    return _templates.get(digest) or _keep(_templates, digest, _digest(_template(submission.manifest)))


def _template(manifest: JobManifest) -> object:
    match manifest:
        case batch_v1.Job():
            return manifest.spec.template, manifest.spec.completion_mode
        case sluice_v1.Job():
            groups = sluice_v1.groups(manifest.spec)
            return [msgspec.structs.replace(g, replicas=None, min_replicas=None) for g in groups]
        case _:
            pod_sets = job_request(manifest).pod_sets
            return [msgspec.structs.replace(pods, count=0, min_count=None) for pods in pod_sets]


_resources: dict[bytes, bytes] = {}
"""Digest -> the resources of its pods."""


def encoded_resources(submission: Submission) -> bytes:
    """Return what the pods of a valid manifest say of resources (`limit_ranges.encode`).

    b"" when the requests of its pod sets say all: one container each, without limits, as most jobs are.
    """
    if is_plain(submission.manifest):
        return b""
    digest, manifest = submission.digest, submission.manifest
    return _resources.get(digest) or _keep(_resources, digest, encode_resources(resources_of(manifest)))


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(_encode(value), digest_size=16).digest()
