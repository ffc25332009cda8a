"""JobKind: a team's own kind of jobs, described in an object that an administrator applies."""

from collections.abc import Callable, Iterable

from sluice.api.kueue import KueueObject
from sluice.api.meta import Manifest, always

from .rules import Mapping

API_VERSION = "sluice.dev/v1alpha1"


class JobKindNames(Manifest, frozen=True):
    """What people call it."""

    kind: str = ""
    plural: str = ""
    singular: str = ""
    short_names: list[str] = []


class JobKindSpec(Manifest, frozen=True):
    """`versions`: the versions of the group in which its manifests may come."""

    group: str = ""
    versions: list[str] = []
    names: JobKindNames = JobKindNames()
    mapping: Mapping = Mapping()


class JobKind(KueueObject, frozen=True):
    """A kind of jobs, and where in its manifests that stands which admission must know."""

    api_version: str = always(API_VERSION)
    kind: str = always("JobKind")
    spec: JobKindSpec = JobKindSpec()


OwnKinds = Callable[[str, str], Mapping | None]
"""(apiVersion, kind) -> the mapping of a team's kind, None if there is no such kind."""


def mappings_of(specs: Iterable[JobKindSpec]) -> dict[tuple[str, str], Mapping]:
    """Return (apiVersion, kind) -> mapping of all kinds that are described."""
    return {
        (f"{spec.group}/{version}", spec.names.kind): spec.mapping
        for spec in specs
        for version in spec.versions
    }
