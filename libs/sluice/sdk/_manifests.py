"""Manifests as users have them (dict, file, struct) to what goes into the log."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sluice.api.custom import CustomObject
from sluice.api.decode import DecodeError, decode_object, describe
from sluice.api.errors import FieldError, near_miss, not_supported, required
from sluice.api.mapped import as_submitted, with_groups
from sluice.api.meta import Manifest
from sluice.api.scheme import BY_GVK, JOB_KINDS, JOB_TYPES, kind_of
from sluice.api.unsupported import unknown_kind
from sluice.api.validation import validate
from sluice.api.validation.everything import all_errors
from sluice.api.validation.job import check_unread_job
from sluice.api.yaml import decode_yaml

from ._errors import ManifestError

Source = Manifest | Mapping[str, Any] | str | Path
"""A manifest, or the path of a YAML or JSON file."""


class JobManifest(msgspec.Struct, frozen=True):
    """A checked manifest, encoded."""

    namespace: str
    name: str
    data: msgspec.Raw

    @property
    def job(self) -> str:
        return f"{self.namespace}/{self.name}"


def load(source: Source, namespace: str = "") -> list[JobManifest]:
    """Return the jobs in *source*; *namespace* is for those that name none.

    Raises:
        ManifestError: it cannot be read, is no job, or is invalid.
    """
    if isinstance(source, str | Path):
        found = list(_from_file(Path(source)))
        return [
            checked(manifest, namespace, found[place][1])
            for place, manifest in with_groups([manifest for manifest, _ in found])
        ]
    if isinstance(source, Mapping):
        try:
            manifest = decode_object(dict(source), custom=True)
        except DecodeError as error:
            raise ManifestError(describe(dict(source)), all_errors(error)) from error
        return [checked(manifest, namespace)]
    return [checked(source, namespace)]


def _from_file(path: Path) -> Iterator[tuple[Manifest, str]]:
    try:
        text = path.read_bytes()
    except OSError as error:
        problem = FieldError(field="", detail=f"cannot be read: {error.strerror or error}")
        raise ManifestError(str(path), (problem,)) from error
    found = False
    for document in decode_yaml(text):
        if document.manifest is None:
            raise ManifestError(f"{path}:{document.line}: {document.what}", document.errors)
        found = True
        yield document.manifest, str(path)
    if not found:
        raise ManifestError(str(path), (required("", "the file holds no manifest"),))


def checked(manifest: Manifest, namespace: str = "", where: str = "") -> JobManifest:
    """Check a job's manifest as the cell will, and encode it.

    Of kinds that may be teams' own only the metadata is checked, as the cell knows their JobKinds; but a kind
    whose name is nearly that of one that there is in its group is taken for a misspelling.

    Raises:
        ManifestError: it is no job, or is invalid.
    """
    kind = kind_of(manifest)
    prefix = f"{where}: " if where else ""
    if not isinstance(manifest, (*JOB_TYPES, CustomObject)):
        raise ManifestError(f"{prefix}{kind.kind}", (not_supported("kind", kind.kind, JOB_KINDS),))
    metadata = manifest.metadata
    if not metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace or "default")
        manifest = msgspec.structs.replace(manifest, metadata=metadata)
    if errors := _errors(manifest):
        raise ManifestError(f'{prefix}{kind.kind} "{metadata.namespace}/{metadata.name}"', errors)
    whole = msgspec.json.encode(as_submitted(manifest))
    return JobManifest(metadata.namespace, metadata.name, msgspec.Raw(whole))


def _errors(manifest: Manifest) -> list[FieldError]:
    if not isinstance(manifest, CustomObject):
        return validate(manifest)
    beside = [kind for version, kind in BY_GVK if version == manifest.api_version]
    if near_miss(manifest.kind, beside):
        return [unknown_kind(manifest.api_version, manifest.kind, beside)]
    return check_unread_job(manifest.metadata)
