"""Sluice's own Configuration (G2)."""

from collections.abc import Iterator

from sluice.api.errors import FieldError, duplicate, invalid, near_miss, not_supported, unknown_field
from sluice.api.features import DEFAULTS
from sluice.api.kueue import AdmissionChecksConfig, Configuration, ConfigurationSpec, WaitForPodsReady

NAME = "default"
MAX_SLICE_HISTORY = 1000


def check_configuration(configuration: Configuration) -> list[FieldError]:
    """Check that gates are known and numbers make sense."""
    spec = configuration.spec
    found: list[FieldError] = []
    if configuration.metadata.name not in ("", NAME):
        found.append(not_supported("metadata.name", configuration.metadata.name, (NAME,)))
    known = list(DEFAULTS)
    found += [
        unknown_field(f"spec.featureGates[{gate}]", near_miss(gate, known))
        for gate in spec.feature_gates
        if gate not in DEFAULTS
    ]
    found += _check_numbers(spec)
    found += _check_pods_ready(spec.wait_for_pods_ready)
    found += _check_checks(spec.admission_checks)
    strategies = spec.fair_sharing.preemption_strategies
    if len(strategies) > 1 and strategies[0] == strategies[1]:
        found.append(duplicate("spec.fairSharing.preemptionStrategies[1]", strategies[1]))
    elif strategies == ["LessThanInitialShare", "LessThanOrEqualToFinalShare"]:
        text = "LessThanOrEqualToFinalShare must come first: the other is tried where it finds nothing"
        found.append(invalid("spec.fairSharing.preemptionStrategies", strategies, text))
    return found


def _check_numbers(spec: ConfigurationSpec) -> Iterator[FieldError]:
    limit = spec.workload_slice_history_limit
    if not 0 <= limit <= MAX_SLICE_HISTORY:
        text = f"must be between 0 and {MAX_SLICE_HISTORY}"
        yield invalid("spec.workloadSliceHistoryLimit", limit, text)
    for word, number, least in (
        ("preemptionGateTimeoutSeconds", spec.preemption_gate_timeout_seconds, 1),
        ("workloadSliceRetentionSeconds", spec.workload_slice_retention_seconds, 0),
        ("retainFinishedJobsSeconds", spec.retain_finished_jobs_seconds, 0),
        ("queueVisibilityMaxCount", spec.queue_visibility_max_count, 0),
    ):
        if number is not None and number < least:
            yield invalid(f"spec.{word}", number, f"must be greater than or equal to {least}")


def _check_pods_ready(settings: WaitForPodsReady) -> Iterator[FieldError]:
    field, strategy = "spec.waitForPodsReady", settings.requeuing_strategy
    yield from [
        invalid(f"{field}.{word}", number, f"must be greater than or equal to {least}")
        for word, number, least in (
            ("timeoutSeconds", settings.timeout_seconds, 1),
            ("recoveryTimeoutSeconds", settings.recovery_timeout_seconds, 1),
            ("requeuingStrategy.backoffLimitCount", strategy.backoff_limit_count, 0),
            ("requeuingStrategy.backoffBaseSeconds", strategy.backoff_base_seconds, 0),
            ("requeuingStrategy.backoffMaxSeconds", strategy.backoff_max_seconds, 0),
        )
        if number is not None and number < least
    ]
    if strategy.backoff_base_seconds > strategy.backoff_max_seconds >= 0:
        text = f"must be at least backoffBaseSeconds, {strategy.backoff_base_seconds}"
        place = f"{field}.requeuingStrategy.backoffMaxSeconds"
        yield invalid(place, strategy.backoff_max_seconds, text)


def _check_checks(settings: AdmissionChecksConfig) -> Iterator[FieldError]:
    field = "spec.admissionChecks"
    base, most = settings.backoff_base_seconds, settings.backoff_max_seconds
    yield from [
        invalid(f"{field}.{word}", number, "must be greater than or equal to 0")
        for word, number in (
            ("backoffBaseSeconds", base),
            ("backoffMaxSeconds", most),
            ("controllerGraceSeconds", settings.controller_grace_seconds),
            ("answerTimeoutSeconds", settings.answer_timeout_seconds or 0),
        )
        if number < 0
    ]
    if base > most >= 0:
        yield invalid(f"{field}.backoffMaxSeconds", most, f"must be at least backoffBaseSeconds, {base}")
