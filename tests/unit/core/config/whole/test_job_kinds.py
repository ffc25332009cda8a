"""JobKinds: what may be described, whose names they take, and what becomes of their jobs."""

from typing import Any

import pytest

from sluice.core.config.objects import Objects
from tests.support.own_kinds import job_kind, mapping, simulation
from tests.unit.core.config.test_plan import Cell, causes
from tests.unit.core.config.whole.test_custom_kinds import definition

NAME = "simulations.lab.example.org"


@pytest.fixture
def cell() -> Cell:
    found = Cell()
    assert found.apply(job_kind()).outcome == "created"
    return found


def test_it_is_stored_as_it_was_written(cell: Cell) -> None:
    """It is found again in a snapshot."""
    assert cell.apply(job_kind()).outcome == "unchanged"
    again = Objects.of_rows(cell.objects.rows(), ())
    stored = again.get("JobKind", NAME)
    assert stored is not None
    assert stored.object == cell.stored("JobKind", NAME)


def test_an_edit_says_that_jobs_keep_their_mapping(cell: Cell) -> None:
    """Not one of labels alone."""
    edited = cell.apply(job_kind(mapping=mapping(suspend=["spec.off"])))
    assert (edited.outcome, edited.warnings) == (
        "configured",
        ["jobs that live go on by the mapping that they were submitted with"],
    )
    labelled = job_kind(mapping=mapping(suspend=["spec.off"]))
    labelled["metadata"]["labels"] = {"a": "b"}
    assert (cell.apply(labelled).outcome, cell.apply(labelled).warnings) == ("configured", [])


@pytest.mark.parametrize(
    ("count", "warnings"),
    [
        (0, []),
        (1, ["1 Simulation is not over: it goes on by the mapping that it had; new ones are refused"]),
        (2, ["2 Simulation jobs are not over: they go on by the mapping that it had; new ones are refused"]),
    ],
)
def test_it_goes_at_once_and_jobs_go_on(cell: Cell, count: int, warnings: list[str]) -> None:
    cell.usage.of_kind["Simulation"] = count
    gone = cell.delete("JobKind", NAME)
    assert (gone.outcome, gone.warnings) == ("deleted", warnings)
    assert cell.stored("JobKind", NAME) is None


def test_its_jobs_are_not_applied(cell: Cell) -> None:
    """Whoever tries is told what to do."""
    refused = cell.apply(simulation())
    assert refused.status is not None
    assert "jobs are submitted, not applied" in refused.status.message
    unknown = cell.apply(simulation() | {"kind": "Measurement"})
    assert unknown.status is not None
    assert unknown.status.message.endswith("or of jobs, the JobKind")


def test_a_name_has_one_meaning() -> None:
    """Of what there is, of teams' definitions, of other JobKinds; the kind itself stays."""
    cell = Cell()
    cell.apply(definition())
    cell.apply(job_kind())
    names = {"kind": "TeamBudget", "plural": "teambudgets"}
    assert causes(cell.apply(job_kind("TeamBudget", names=names))) == [
        ("spec.names.kind", "FieldValueInvalid")
    ]
    assert causes(cell.apply(job_kind("PyTorchJob"))) == [("spec.names.kind", "FieldValueInvalid")]
    short = {"kind": "Run", "plural": "runs", "shortNames": ["tb", "wl"]}
    assert causes(cell.apply(job_kind("Run", names=short))) == [
        ("spec.names.shortNames[0]", "FieldValueInvalid"),
        ("spec.names.shortNames[1]", "FieldValueInvalid"),
    ]
    assert causes(cell.apply(definition("Simulation"))) == [("spec.names.kind", "FieldValueInvalid")]
    renamed = job_kind(names={"kind": "Other", "plural": "simulations"})
    assert causes(cell.apply(renamed)) == [("spec.names.kind", "FieldValueInvalid")]


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"group": "batch.k8s.io"}, ["spec.group", "metadata.name"]),
        ({"group": "kubeflow"}, ["spec.group", "metadata.name"]),
        ({"versions": []}, ["spec.versions"]),
        ({"versions": ["v1", "v1"]}, ["spec.versions[1]"]),
        ({"names": {"kind": "Simulation"}}, ["spec.names.plural"]),
        ({"mapping": {}}, ["spec.mapping.podSets"]),
        ({"mapping": mapping(ttl="spec.keep")}, ["spec.mapping.ttl"]),
        ({"mapping": mapping(suspend=["spec.a[0].b", "status.x"])}, ["suspend[0]", "suspend[1]"]),
        ({"mapping": mapping(podSets=[{"name": "a", "template": "coordinator"}])}, ["podSets[0].template"]),
        ({"mapping": mapping(status={"ready": [{}], "failed": [{"path": "a..b"}]})}, ["ready", "failed"]),
        ({"mapping": mapping(suspend=["spec." + "x" * 190] * 99)}, ["spec.mapping"]),
    ],
)
def test_what_is_wrong_is_said_with_its_field(changes: dict[str, Any], fields: list[str]) -> None:
    found = causes(Cell().apply(job_kind(**changes)))
    assert len(found) == len(fields)
    for (field, _), wanted in zip(found, fields, strict=True):
        assert wanted in field
