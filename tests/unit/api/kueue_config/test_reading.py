"""Kueue's own Configuration becomes Sluice's; nothing of it is passed over in silence."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.api import kueue
from sluice.api.decode import DecodeError, decode_object
from sluice.api.kueue_config import reading
from sluice.api.kueue_config.table import FIELDS, FRAMEWORKS, NEW, OLD, Field, How, Shape
from sluice.api.validation.everything import all_errors
from tests.support.examples import examples
from tests.unit.core.config.test_plan import Cell

SAMPLES: dict[Shape, Any] = {
    Shape.BOOL: False,
    Shape.INT: 7,
    Shape.NUMBER: 0.5,
    Shape.TEXT: "x",
    Shape.DURATION: "90s",
    Shape.TEXTS: ["x"],
    Shape.LIST: [{"a": 1}],
    Shape.MAPPING: {"a": "b"},
    Shape.GATES: {"PriorityBoost": True, "MultiKueue": False},
}
"""What may stand in a field of each shape; not what one of Sluice's defaults is."""
WORDS: dict[str, Any] = {
    "waitForPodsReady.enable": True,
    "waitForPodsReady.blockAdmission": True,
    "waitForPodsReady.requeuingStrategy.timestamp": "Creation",
    "fairSharing.enable": True,
    "fairSharing.preemptionStrategies": ["LessThanInitialShare"],
    "resources.quotaCheckStrategy": "IgnoreUndeclared",
    "integrations.frameworks": ["batch/job"],
}
"""Samples of fields that do not take any word."""


def manifest(version: str = NEW, **blocks: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Configuration", **blocks}


def nested(path: str, value: Any) -> dict[str, Any]:
    for step in reversed(path.split(".")):
        value = {step: value}
    return value


def spec(version: str = NEW, **blocks: Any) -> kueue.ConfigurationSpec:
    found = decode_object(manifest(version, **blocks))
    assert isinstance(found, kueue.Configuration)
    assert found.metadata.name == "default"
    return found.spec


def errors(written: dict[str, Any]) -> list[str]:
    with pytest.raises(DecodeError) as found:
        decode_object(written)
    return [str(error) for error in all_errors(found.value)]


@pytest.mark.parametrize(
    ("field", "version"),
    [(field, version) for field in FIELDS for version in field.versions],
    ids=lambda value: value.path if isinstance(value, Field) else value.rpartition("/")[2],
)
def test_no_field_is_passed_over(field: Field, version: str) -> None:
    """It changes the cell, or is warned of, or is refused, by the path that its author wrote."""
    value = WORDS.get(field.path, SAMPLES[field.shape])
    written = manifest(version, **nested(field.path, value))
    if field.how is How.REFUSED:
        (error,) = errors(written)
        assert error == f"{field.path}: Forbidden: not supported: {field.said}"
        return
    found = decode_object(written)
    assert isinstance(found, kueue.Configuration)
    warned = any(field.path in warning for warning in reading.warnings(written))
    partly = field.path in ("integrations.frameworks", "featureGates")
    assert warned == (field.how in (How.IGNORED, How.NOT_YET) or partly)
    # In the newer version a block is on for being there.
    around = {key: {} for key in written if key in ("waitForPodsReady", "fairSharing")}
    changed = found.spec != spec(version, **around)
    assert changed == bool(field.to)
    assert changed or warned


def test_all_errors_are_told_at_once_as_they_were_written() -> None:
    assert errors(
        manifest(
            OLD,
            waitForPodsReady={
                "enable": "yes",
                "timeout": "5 min",
                "blockAdmision": True,
                "recoveryTimeout": "1500ms",
                "requeuingStrategy": {"timestamp": "Later", "backoffMaxSeconds": 10},
            },
            fairSharing=[],
            featureGates={"PriorityBost": True, "TASProfileMixd": True, "PriorityBoost": 1},
            integrations={"frameworks": ["batch/jobs"]},
            tls={"minVersion": 12},
        )
    ) == [
        'waitForPodsReady.enable: Invalid value: "yes": expected a boolean',
        'waitForPodsReady.timeout: Invalid value: "5 min": expected a duration such as 5m or 1h30m',
        'waitForPodsReady.blockAdmision: Unknown field: did you mean "blockAdmission"?',
        'waitForPodsReady.recoveryTimeout: Invalid value: "1500ms": must be whole seconds',
        'fairSharing: Invalid value: "list": expected a mapping',
        "featureGates[PriorityBoost]: Invalid value: 1: expected a boolean",
        'featureGates[PriorityBost]: Unknown field: did you mean "PriorityBoost"?',
        'featureGates[TASProfileMixd]: Unknown field: did you mean "TASProfileMixed"?',
        'integrations.frameworks[0]: Unsupported value: "batch/jobs": supported values: '
        + ", ".join(f'"{name}"' for name in FRAMEWORKS),
        "tls.minVersion: Invalid value: 12: expected a string",
        'waitForPodsReady.requeuingStrategy.timestamp: Unsupported value: "Later": '
        'supported values: "Creation", "Eviction"',
        "waitForPodsReady.requeuingStrategy.backoffMaxSeconds: Invalid value: 10: "
        "must be at least backoffBaseSeconds, 60",
    ]


def test_a_field_of_the_other_version_is_refused() -> None:
    assert errors(manifest(NEW, fairSharing={"enable": True})) == [
        f"fairSharing.enable: Unknown field: only {OLD} has it"
    ]


def test_being_there_switches_on_in_the_newer_version() -> None:
    """In the older one `enable` does; what is left out is then what Kueue fills in."""
    new = spec(NEW, fairSharing={}, waitForPodsReady={})
    assert new.fair_sharing.enable
    assert new.wait_for_pods_ready == kueue.WaitForPodsReady(
        enable=True, timeout_seconds=1800, recovery_timeout_seconds=1800
    )
    old = spec(OLD, fairSharing={}, waitForPodsReady={"timeout": "10m"})
    assert not old.fair_sharing.enable
    assert not old.wait_for_pods_ready.enable
    on = spec(OLD, waitForPodsReady={"enable": True}).wait_for_pods_ready
    assert (on.timeout_seconds, on.recovery_timeout_seconds, on.block_admission) == (300, None, True)
    assert spec(NEW) == spec(OLD) == kueue.ConfigurationSpec()


def test_no_recovery_timeout_can_be_asked_for() -> None:
    found = spec(NEW, waitForPodsReady={"timeout": "1m", "recoveryTimeout": "0s"})
    assert found.wait_for_pods_ready.recovery_timeout_seconds is None


def test_a_gate_takes_waiting_for_pods_back() -> None:
    gates = {"DisableWaitForPodsReady": True}
    assert not spec(NEW, waitForPodsReady={"timeout": "1m"}, featureGates=gates).wait_for_pods_ready.enable


def test_gates_without_effect_are_told_apart_from_those_that_there_are_not() -> None:
    gates = {"PriorityBoost": True, "VisibilityOnDemand": False, "TASProfileMixed": True}
    assert spec(NEW, featureGates=gates).feature_gates == {"PriorityBoost": True, "VisibilityOnDemand": False}
    assert reading.warnings(manifest(featureGates=gates)) == [
        "featureGates[VisibilityOnDemand], featureGates[TASProfileMixed] have no effect here"
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("1h30m5s", 5405), ("1.5h", 5400), ("2000ms", 2), ("1.1h", 3960), ("5.m", 300)],
)
def test_durations_are_those_of_go(text: str, seconds: int) -> None:
    assert spec(NEW, waitForPodsReady={"timeout": text}).wait_for_pods_ready.timeout_seconds == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5m ", "five", "1d", "1h-5m", "9" * 400 + "h", "9" * 25 + "h"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    (error,) = errors(manifest(waitForPodsReady={"timeout": text}))
    assert error.startswith("waitForPodsReady.timeout: Invalid value")


@pytest.mark.parametrize("text", ["0s", "-5m"])
def test_what_the_cell_refuses_is_named_as_written(text: str) -> None:
    """Values are judged where Sluice's own Configuration is."""
    refused = Cell().apply(manifest(waitForPodsReady={"timeout": text}))
    assert refused.status is not None
    found = {cause.field: cause.message for cause in refused.status.details.causes}
    said = f'Invalid value: "{text}": must be greater than or equal to 1'
    assert found["waitForPodsReady.timeout"] == said


def test_it_is_applied_once_and_warned_of_each_time() -> None:
    """What it leaves out goes back to its default, as with any object."""
    cell = Cell()
    written = manifest(
        OLD,
        health={"healthProbeBindAddress": ":8081"},
        webhook={"port": 9443},
        fairSharing={"enable": True},
        admissionFairSharing={"usageHalfLifeTime": "168h"},
        integrations={"frameworks": list(FRAMEWORKS)},
        metrics={"enableClusterQueueResources": True},
        resources={"excludeResourcePrefixes": []},
        queueVisibility={"clusterQueues": {}},
    )
    first, again = cell.apply(written), cell.apply(written)
    assert (first.outcome, again.outcome) == ("created", "unchanged")
    assert [warning.partition(":")[0] for warning in first.warnings] == [
        "health.healthProbeBindAddress has no effect",
        "webhook.port has no effect",
        "admissionFairSharing.usageHalfLifeTime has no effect",
    ]
    assert again.warnings == first.warnings
    assert cell.apply(manifest(NEW)).outcome == "configured"
    assert not cell.stored("Configuration", "default").spec.fair_sharing.enable


def test_an_unknown_version_is_refused_with_those_that_are_read() -> None:
    (error,) = errors(manifest("config.kueue.x-k8s.io/v1alpha1"))
    assert error.startswith('apiVersion: Unsupported value: "config.kueue.x-k8s.io/v1alpha1"')
    assert OLD in error
    assert NEW in error


NAMES = sorted({step for field in FIELDS for step in field.path.split(".")} | {"foo", "PriorityBoost"})
TEXTS = st.sampled_from(["5m", "0s", "-1h", "", "Eviction", "batch/job", "x"]) | st.text(max_size=4)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.sampled_from([OLD, NEW]))
@settings(max_examples=examples(150), deadline=None)
def test_whatever_is_written_is_taken_or_refused_by_its_fields(blocks: dict[str, Any], version: str) -> None:
    """Errors begin with a field that is written there; nothing else is raised, also of warnings."""
    written = manifest(version, **blocks)
    reading.warnings(written)
    try:
        decode_object(written)
    except DecodeError as refused:
        for error in all_errors(refused):
            assert error.field.partition(".")[0].partition("[")[0] in blocks, error
