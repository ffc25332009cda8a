"""The structs of all kinds that are read by a table: their spec is kept as it was written."""

from typing import Any

from sluice.api.meta import Manifest, ObjectMeta

from .rules import Mapping


class MappedJob(Manifest, frozen=True):
    """A job of a kind that `table` knows, or that a team has described."""

    api_version: str
    kind: str
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: Any = None


class OwnJob(MappedJob, frozen=True):
    """A job of a kind that a team has described, with the mapping that it goes by.

    The mapping is no part of the manifest, and never decoded from one.
    """

    mapping: Mapping = Mapping()


def _written(job: MappedJob) -> dict[str, Any]:
    """Return what the manifest says, without a team's mapping."""
    return {field: getattr(job, field) for field in MappedJob.__struct_fields__}


def own_job(job: MappedJob, mapping: Mapping) -> OwnJob:
    """Return the job with the mapping that it goes by."""
    return OwnJob(**_written(job), mapping=mapping)


def as_submitted(manifest: Manifest) -> Manifest:
    """Return what is encoded of a manifest: of a team's kind, all but the mapping."""
    if not isinstance(manifest, OwnJob):
        return manifest
    return MappedJob(**_written(manifest))
