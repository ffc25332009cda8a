"""Checks of job manifests before they are sent: the same code that will judge them afterwards."""

from collections.abc import Sequence

from sluice.api.defaults import default
from sluice.api.errors import FieldError
from sluice.api.meta import Manifest
from sluice.api.validation import validate


def job_errors(manifest: Manifest) -> Sequence[FieldError]:
    """Return what is wrong with a job's manifest; empty when it can be submitted."""
    return validate(default(manifest))
