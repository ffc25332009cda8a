"""Manifests as programs give them: what can be known here is checked here, the rest is the cell's."""

from pathlib import Path

import msgspec
import pytest

from sluice.sdk import ManifestError
from sluice.sdk._manifests import load
from tests.support.own_kinds import simulation


def test_a_job_of_a_teams_kind_is_sent_as_it_is() -> None:
    """Its pods are read by the cell, which has its JobKind."""
    (job,) = load(simulation("a", nodes="any"))
    assert msgspec.json.decode(job.data) == simulation("a", nodes="any")


def test_its_metadata_is_checked() -> None:
    with pytest.raises(ManifestError, match=r"metadata\.name"):
        load(simulation("No Name"))


def test_a_misspelt_kind_is_none_of_a_team() -> None:
    with pytest.raises(ManifestError, match='did you mean "PyTorchJob"'):
        load(simulation() | {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJb"})


def test_errors_of_shape_and_of_values_come_together(tmp_path: Path) -> None:
    """From a mapping and from a file alike."""
    wrong = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "No Name"},
        "spec": {"paralelism": 1},
    }
    (tmp_path / "job.json").write_bytes(msgspec.json.encode(wrong))
    for source in (wrong, tmp_path / "job.json"):
        with pytest.raises(ManifestError) as refused:
            load(source)
        assert {"spec.paralelism", "metadata.name"} <= {error.field for error in refused.value.errors}
