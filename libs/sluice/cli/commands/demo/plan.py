"""Plan of the demo's submissions: manifests with two annotations of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.files import ManifestFile, read
from sluice.cli.kit.manifests import job_errors

AT = "demo.sluice.dev/at"
COUNT = "demo.sluice.dev/count"


@dataclass(frozen=True, slots=True)
class Planned:
    """A job and when to submit it, seconds after the start."""

    at_s: float
    source: ManifestFile


def load(directory: Path) -> tuple[list[ManifestFile], list[Planned]]:
    """Return the demo's configuration, and its jobs in order of submission.

    Raises:
        CliError: the manifests are missing or wrong.
    """
    if not directory.is_dir():
        raise CliError(
            f"the demo's manifests are missing: {directory}",
            hint="A checkout has a symbolic link there: was it made without links?",
        )
    config = read([str(directory)])
    jobs = [planned for source in read([str(directory / "jobs")]) for planned in _planned(source)]
    wrong = [(planned.source, errors) for planned in jobs if (errors := job_errors(planned.source.manifest))]
    if wrong:
        source, errors = wrong[0]
        raise CliError(f"{source.place}: {errors[0]}")
    return config, sorted(jobs, key=lambda planned: planned.at_s)


def _planned(source: ManifestFile) -> Sequence[Planned]:
    annotations = source.metadata.annotations
    at_s, count = float(annotations.get(AT, "0")), int(annotations.get(COUNT, "1"))
    rest = {key: value for key, value in annotations.items() if key not in (AT, COUNT)}
    manifest: Any = source.manifest
    planned = []
    for number in range(1, count + 1):
        name = source.manifest_name + (f"-{number}" if count > 1 else "")
        metadata = msgspec.structs.replace(manifest.metadata, name=name, annotations=rest)
        # A moment between jobs of one kind, as when people and programs submit them.
        moment = at_s + 0.02 * (number - 1)
        copy = msgspec.structs.replace(manifest, metadata=metadata)
        planned.append(Planned(moment, ManifestFile(source.place, copy, source.written)))
    return planned
