"""Manifests in files: people hear of everything that is wrong at once."""

from pathlib import Path

import pytest

from sluice.cli.commands.jobs.submit import _jobs_in
from sluice.cli.kit.errors import CliError

JOBS = """
apiVersion: sluice.dev/v1alpha1
kind: Job
metadata: {name: shape}
spec: {queueName: q, command: ["true"], replicas: "three"}
---
apiVersion: sluice.dev/v1alpha1
kind: Job
metadata: {name: fine}
spec: {queueName: q, command: ["true"]}
---
apiVersion: sluice.dev/v1alpha1
kind: Job
metadata: {generateName: meaning-}
spec: {queueName: q, command: ["true"], replicas: -1, resources: {cpu: 1 core}}
"""


def test_what_cannot_be_read_hides_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS)
    with pytest.raises(CliError) as error:
        _jobs_in([str(path)])
    text = str(error.value)
    assert "3 problems in the manifests" in text
    for field in ('spec.replicas: Invalid value: "three"', "spec.replicas: Invalid value: -1", "cpu"):
        assert field in text
    path.write_text(JOBS.replace('"three"', "3"))
    assert len(_jobs_in([str(path)])) == 3, "what they mean is checked when they are submitted"
