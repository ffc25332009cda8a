"""Settings of a cell, Sluice's own kind."""

from typing import Literal

from sluice.api.meta import Int32, Manifest, Seconds, always

from ._object import KueueObject

__all__ = [
    "AdmissionChecksConfig",
    "Configuration",
    "ConfigurationSpec",
    "FairSharingConfig",
    "RequeuingStrategy",
    "WaitForPodsReady",
]


class RequeuingStrategy(Manifest, frozen=True):
    """Backoff after a PodsReady timeout: base * 2^(n-1) seconds, at most the maximum."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    backoff_limit_count: Int32 | None = None
    backoff_base_seconds: Seconds = 60
    backoff_max_seconds: Seconds = 3600


class WaitForPodsReady(Manifest, frozen=True):
    """How long pods may take to become ready, and whether others wait for them (SC7)."""

    enable: bool = False
    timeout_seconds: Seconds = 300
    recovery_timeout_seconds: Seconds | None = None
    block_admission: bool = False
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()


class AdmissionChecksConfig(Manifest, frozen=True):
    """A check that answers Retry without a delay waits base * 2^(n-1) seconds, at most the maximum (AC3).

    A check stays active for the grace period after the heartbeat of its controller has stopped (AC8). One
    that its controller has not answered after the answer timeout is Retry (None or 0: it waits for ever);
    an AdmissionCheck may say otherwise in an annotation.
    """

    backoff_base_seconds: Seconds = 60
    backoff_max_seconds: Seconds = 1800
    controller_grace_seconds: Seconds = 30
    answer_timeout_seconds: Seconds | None = None


class FairSharingConfig(Manifest, frozen=True):
    """Fair sharing for the whole cell, and whom it may preempt."""

    enable: bool = False
    preemption_strategies: list[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]] = []


class ConfigurationSpec(Manifest, frozen=True):
    """Settings of a cell (G2). In the log, so that a replay knows what was on when.

    `feature_gates` overrides defaults by name; see `docs/configuration.md` for the gates.
    Finished jobs are forgotten after `retain_finished_jobs_seconds` (None: not for their age), and the
    oldest of them when there are more than `retain_finished_jobs_count`. Replaced workload slices are deleted
    likewise, by `workload_slice_retention_seconds` and `workload_slice_history_limit` per job (WS8).
    """

    feature_gates: dict[str, bool] = {}
    fair_sharing: FairSharingConfig = FairSharingConfig()
    wait_for_pods_ready: WaitForPodsReady = WaitForPodsReady()
    admission_checks: AdmissionChecksConfig = AdmissionChecksConfig()
    workload_slice_history_limit: Int32 = 10
    workload_slice_retention_seconds: Seconds | None = None
    preemption_gate_timeout_seconds: Seconds = 300
    retain_finished_jobs_seconds: Seconds | None = None
    retain_finished_jobs_count: Int32 = 100_000
    queue_visibility_max_count: Int32 | None = None
    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    """What a request of a resource without quota in the queue does: keep the workload out, or nothing."""


class Configuration(KueueObject, frozen=True):
    """At most one per cell, named `default`, apiVersion `sluice.dev/v1alpha1`."""

    api_version: str = always("sluice.dev/v1alpha1")
    kind: str = always("Configuration")
    spec: ConfigurationSpec = ConfigurationSpec()
