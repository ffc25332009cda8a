"""An answer to a check that names a job is for the workload of that job which asks."""

from typing import Any

import pytest

from sluice.cli.commands.checks.choice import asking, known_of, live_workloads
from sluice.cli.kit.errors import CliError


def workload(name: str, state: str = "Pending", *, quota: bool = True, attempt: int = 1) -> dict[str, Any]:
    checks = [{"name": "sign-off", "state": state, "attempt": attempt, "controller": "people.sluice.dev"}]
    return {
        "kind": "Workload",
        "metadata": {"name": name},
        "status": {"admissionChecks": checks, **({"admission": {"clusterQueue": "q"}} if quota else {})},
    }


RUNNING = workload("running", "Ready")
GROWTH = workload("growth")


@pytest.mark.parametrize(
    "workloads",
    [
        pytest.param([RUNNING, GROWTH], id="growth beside what runs"),
        pytest.param(
            [workload("best", quota=False), GROWTH, workload("last", "Ready")], id="one of variants"
        ),
        pytest.param([workload("new", attempt=0), GROWTH], id="another one was not asked for yet"),
    ],
)
def test_the_one_that_waits_is_meant(workloads: list[dict[str, Any]]) -> None:
    """In whatever order they come."""
    assert asking("job", "sign-off", workloads) is GROWTH
    assert asking("job", "sign-off", workloads[::-1]) is GROWTH


def test_the_only_one_is_meant_whatever_it_does() -> None:
    """An approval can be said again, or taken back."""
    assert asking("job", "sign-off", [RUNNING]) is RUNNING


@pytest.mark.parametrize(
    ("workloads", "why", "named"),
    [
        pytest.param(
            [RUNNING, workload("growth", quota=False)],
            "no workload of job waits",
            ("running: Ready", "growth: without quota"),
            id="growth without quota",
        ),
        pytest.param(
            [RUNNING, workload("growth", "Ready")],
            "no workload of job waits",
            ("running: Ready", "growth: Ready"),
            id="both approved",
        ),
        pytest.param(
            [GROWTH, workload("other"), RUNNING],
            "2 workloads of job wait",
            ("growth: Pending", "other: Pending"),
            id="two wait",
        ),
    ],
)
def test_what_runs_is_never_hit_by_default(
    workloads: list[dict[str, Any]], why: str, named: tuple[str, ...]
) -> None:
    """Where it is not clear who is meant, all that may be are named."""
    with pytest.raises(CliError, match=why) as refused:
        asking("job", "sign-off", workloads)
    assert all(text in refused.value.hint for text in named)


def test_a_check_of_nobody() -> None:
    """The hint says which checks there are."""
    with pytest.raises(CliError, match="does not concern job") as refused:
        asking("job", "budget", [RUNNING, GROWTH])
    assert "sign-off" in refused.value.hint
    with pytest.raises(CliError, match="does not concern running"):
        known_of(RUNNING, "budget")
    with pytest.raises(CliError, match="has no quota"):
        known_of(workload("w", quota=False), "sign-off")


def test_a_job_none_of_whose_variants_has_quota_is_told_so() -> None:
    """Which checks concern a variant depends on the flavors that it gets."""
    variants = [{**workload(name, quota=False), "status": {}} for name in ("a", "b")]
    with pytest.raises(CliError, match="job has no quota, so its checks are not being performed"):
        asking("job", "sign-off", variants)


def test_slices_that_are_over_are_not_asked() -> None:
    """All that live are; a job without slices has one workload."""
    slices = [
        {"name": name, "state": state}
        for name, state in (("a", "Replaced"), ("b", "Admitted"), ("c", "QuotaReserved"))
    ]
    assert live_workloads({"status": {"workload": "b", "slices": slices}}) == ["b", "c"]
    assert live_workloads({"status": {"workload": "w"}}) == ["w"]
    assert live_workloads({"status": {}}) == []
