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


_WRITTEN = MappedJob.__struct_fields__
"""What a manifest says, in the structs' order; a team's mapping comes behind."""


def own_job(job: MappedJob, mapping: Mapping) -> OwnJob:
    """Return the job with the mapping that it goes by."""
    return OwnJob(*(getattr(job, field) for field in _WRITTEN), mapping)


def as_submitted(manifest: Manifest) -> Manifest:
    """Return what is encoded of a manifest: of a team's kind, all but the mapping."""
    if not isinstance(manifest, OwnJob):
        return manifest
    return MappedJob(*(getattr(manifest, field) for field in _WRITTEN))
