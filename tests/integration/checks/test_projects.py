"""What `sluice check new` makes, and the Python example: their own tests pass, their manifests are valid."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.api.validation import validate
from sluice.api.yaml import decode_yaml
from sluice.cli.main import cli
from tests.support.system import ROOT

EXAMPLE = ROOT / "examples" / "checks" / "python"


def make(directory: Path, *more: str) -> Path:
    said = CliRunner().invoke(cli, ["check", "new", "gate", "--directory", str(directory), *more])
    assert said.exit_code == 0, said.output
    return directory


def valid(path: Path) -> list[str]:
    """Return the kinds in a file whose manifests are all in order."""
    documents = list(decode_yaml(path.read_bytes()))
    for document in documents:
        assert document.manifest is not None, (document.what, document.errors)
        assert not validate(document.manifest), document.what
    return [type(document.manifest).__name__ for document in documents]


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_project(tmp_path: Path, language: str) -> None:
    """Nothing is left of the templates' placeholders, names fit together, manifests apply."""
    project = make(tmp_path / "gate", "--language", language, "--controller", "x.example.com/gate")
    for path in project.iterdir():
        assert "__" not in path.read_text().replace("__name__", "").replace("__main__", ""), path
    assert valid(project / "manifests.yaml") == [
        "AdmissionCheck",
        "ResourceFlavor",
        "ClusterQueue",
        "LocalQueue",
    ]
    assert valid(project / "job.yaml") == ["Job"]
    assert "controllerName: x.example.com/gate" in (project / "manifests.yaml").read_text()
    program = project / ("check.py" if language == "python" else "index.js")
    assert '"x.example.com/gate"' in program.read_text()


def test_new_refuses(tmp_path: Path) -> None:
    """A name that no object may have, and a folder with something in it."""
    said = CliRunner().invoke(cli, ["check", "new", "Not_A_Name", "--directory", str(tmp_path / "x")])
    assert "want a name of lower-case letters" in said.output
    assert not (tmp_path / "x").exists()
    make(tmp_path / "gate")
    said = CliRunner().invoke(cli, ["check", "new", "gate", "--directory", str(tmp_path / "gate")])
    assert "exists already, and is not empty" in said.output


@pytest.mark.parametrize("which", ["new", "example"])
def test_own_tests_pass(tmp_path: Path, which: str) -> None:
    """As a user runs them."""
    project = EXAMPLE if which == "example" else make(tmp_path / "gate")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_example_manifests() -> None:
    assert valid(EXAMPLE / "manifests.yaml")[0] == "AdmissionCheck"
