"""Validation of what places jobs in other cells: MultiKueueCluster, MultiKueueConfig, CellLadder."""

from collections.abc import Iterator, Sequence

from sluice.api.check_parameters import CellLadder
from sluice.api.errors import FieldError, duplicate, forbidden, invalid, required, too_many
from sluice.api.kueue import MultiKueueCluster, MultiKueueConfig

from . import names

MAX_CELLS = 20
"""As many as Kueue has in a MultiKueueConfig."""
MAX_SECONDS = 366 * 24 * 3600
MAX_LOCATION = 256


def check_cluster(cluster: MultiKueueCluster) -> list[FieldError]:
    """Check a new or changed MultiKueueCluster; the link that it names need not exist (yet)."""
    source = cluster.spec.cluster_source
    name = cluster.metadata.name
    found = names.check_name("metadata.name", name, names.dns_label(name))
    if source.cluster_profile_ref is not None:
        text = "there are no ClusterProfiles here: name a link by kubeConfig"
        found.append(forbidden("spec.clusterSource.clusterProfileRef", text))
    if source.kube_config is None:
        found.append(required("spec.clusterSource.kubeConfig"))
    elif not 0 < len(source.kube_config.location) <= MAX_LOCATION:
        text = f"must have 1 to {MAX_LOCATION} characters"
        found.append(
            invalid("spec.clusterSource.kubeConfig.location", source.kube_config.location[:64], text)
        )
    return found


def check_config(config: MultiKueueConfig) -> list[FieldError]:
    """Check a new or changed MultiKueueConfig."""
    return list(_check_cells("spec.clusters", config.spec.clusters))


def check_ladder(ladder: CellLadder) -> list[FieldError]:
    """Check a new or changed CellLadder."""
    spec = ladder.spec
    found = list(_check_cells("spec.cells", spec.cells))
    found += [
        duplicate(f"spec.rungs[{i}]", rung) for i, rung in enumerate(spec.rungs) if rung in spec.rungs[:i]
    ]
    if spec.step_size is not None and spec.step_size < 1:
        found.append(invalid("spec.stepSize", spec.step_size, "must be greater than or equal to 1"))
    for word, seconds in (
        ("decideWithinSeconds", spec.decide_within_seconds),
        ("preemptWithinSeconds", spec.preempt_within_seconds),
        ("standSeconds", spec.stand_seconds),
        ("lostAfterSeconds", spec.lost_after_seconds),
        ("retryAfterSeconds", spec.retry_after_seconds),
    ):
        if not 1 <= seconds <= MAX_SECONDS:
            found.append(invalid(f"spec.{word}", seconds, f"must be between 1 and {MAX_SECONDS}"))
    return found


def _check_cells(field: str, cells: Sequence[str]) -> Iterator[FieldError]:
    if not cells:
        yield required(field)
    if len(cells) > MAX_CELLS:
        yield too_many(field, len(cells), MAX_CELLS)
    for i, name in enumerate(cells):
        yield from names.check_name(f"{field}[{i}]", name, names.dns_label(name))
        if name in cells[:i]:
            yield duplicate(f"{field}[{i}]", name)
