"""Events of the variant-controller: families of a parent workload and its variants (CA4-CA14).

What becomes of a variant is said by the `Variant...` events, which mean to the readers of workloads what the
slice-aggregator's events of the same name mean (`core.variant_events`). What becomes of the parent, and so
of the job, is said by the `Parent...` events.
"""

from collections.abc import Sequence
from typing import Any, Final

from sluice.api.kueue import PodSetUpdate

from .base import Event, PodSet, PodSetAssignment, WorkloadKey
from .slices import WorkloadRecord

WRITER: Final = "variants"
"""The subject of these events, `sluice.<cell>.variants`: on the wire, so it outlives the module's name."""


class ParentMarked(Event, frozen=True, kw_only=True):
    """The workload is a parent from here on (CA4): it has variants, and never gets quota itself."""

    workload: WorkloadKey


class ParentUnmarked(Event, frozen=True, kw_only=True):
    """It is an ordinary workload again: it has gone to a queue without concurrent admission."""

    workload: WorkloadKey


class ParentAdmitted(Event, frozen=True, kw_only=True):
    """A variant is admitted, hence the parent, with the variant's assignment (CA7)."""

    workload: WorkloadKey
    variant: WorkloadKey
    cluster_queue: str
    pod_sets: Sequence[PodSetAssignment]
    updates: dict[str, Sequence[PodSetUpdate]] = {}
    """Admission check of the variant -> what it adds to the pods."""
    message: str = ""
    observed_generation: int = 0
    """How many changes of the parent's pods it takes into account; 0 also if that is not known."""


class ParentEvicted(Event, frozen=True, kw_only=True):
    """The running variant is evicted or its flavor gone, hence the job must stop (CA10, CA13).

    `cause_reason` and `cause_message` are those of the variant's own eviction.
    """

    workload: WorkloadKey
    variant: WorkloadKey
    reason: str
    message: str
    cause_reason: str = ""
    cause_message: str = ""


class ParentReleased(Event, frozen=True, kw_only=True):
    """The job has stopped; the parent is not admitted any more.

    `reset`: delays count from here, as if it had just been created (CA12).
    """

    workload: WorkloadKey
    variant: WorkloadKey
    reset: bool = False


class ParentDeactivated(Event, frozen=True, kw_only=True):
    """No variant may run any more, for this reason of the last one. As with `WorkloadDeactivated`, a later
    switch of the parent counts more.
    """

    workload: WorkloadKey
    reason: str
    message: str = ""
    observed_switch: int | None = None
    """Cause of the last `WorkloadUpdated` with `active` that came before this; 0: none, None: not known."""


class VariantCreated(Event, frozen=True, kw_only=True):
    """`variant` is the flavor's name, or the explicit variant's. Inactive while its create delay lasts."""

    workload: WorkloadRecord
    variant: str
    message: str = ""


class VariantUpdated(Event, frozen=True, kw_only=True):
    """What has changed in the parent's spec, or of the variant's place in it; None means unchanged."""

    workload: WorkloadKey
    queue_name: str | None = None
    priority: int | None = None
    priority_class: str | None = None
    maximum_execution_time_s: int | None = None
    pod_sets: Sequence[PodSet] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    preference: int | None = None
    allowed_flavors: Sequence[str] | None = None
    misconfigured: str | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """Return the fields of the record that have other values now."""
        return {name: value for name in _CHANGEABLE if (value := getattr(self, name)) is not None}


_CHANGEABLE = tuple(name for name in VariantUpdated.__struct_fields__ if name not in ("cause", "workload"))


class VariantActivated(Event, frozen=True, kw_only=True):
    """The variant may be queued (again): nothing better is admitted (CA9)."""

    workload: WorkloadKey
    parent: WorkloadKey
    message: str = ""


class VariantDeactivated(Event, frozen=True, kw_only=True):
    """The variant is not queued while a sibling that is preferred is admitted (CA9)."""

    workload: WorkloadKey
    parent: WorkloadKey
    message: str = ""


class PreemptionGateOpened(Event, frozen=True, kw_only=True):
    """From here on the variant may preempt; no sibling may (CA11)."""

    workload: WorkloadKey
    parent: WorkloadKey
    gate: str
    message: str = ""


class PreemptionGateClosed(Event, frozen=True, kw_only=True):
    """`spent`: it has had its turn; the others come first."""

    workload: WorkloadKey
    parent: WorkloadKey
    gate: str
    spent: bool = False


class VariantPodsReady(Event, frozen=True, kw_only=True):
    """As `slices.WorkloadPodsReady`, of the variant that the parent runs as."""

    workload: WorkloadKey
    ready: bool = True


class VariantPodsReclaimed(Event, frozen=True, kw_only=True):
    """See `slices.ReclaimablePodsUpdated`."""

    workload: WorkloadKey
    pods: dict[str, int]


class VariantStopped(Event, frozen=True, kw_only=True):
    """See `slices.WorkloadStopped`: the job has stopped, the variant's quota can be given back."""

    workload: WorkloadKey
    reason: str = ""
    message: str = ""


class VariantDeleted(Event, frozen=True, kw_only=True):
    """Its flavor is not in the queue any more (CA13).

    There is none of these when a parent ends: WorkloadFinished and WorkloadDeleted of a parent finish and
    delete its variants too.
    """

    workload: WorkloadKey
    parent: WorkloadKey
    message: str = ""
