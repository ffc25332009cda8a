"""The wheel, made of what the image is made of, in a fresh venv: it does everything, far from a checkout."""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice import __version__

from .secured import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.nats,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("pip", "setuptools")),
        reason="building a wheel needs pip and setuptools",
    ),
]

PURELIB = Path(sysconfig.get_path("purelib"))


class Installed:
    """A venv with the wheel, and an empty directory to be in."""

    def __init__(self, venv: Path, directory: Path) -> None:
        self.venv, self.directory = venv, directory
        self.site = venv / PURELIB.relative_to(sys.prefix)

    def __call__(self, *words: str, inside: str = "") -> str:
        """Run a program of the venv; return what it printed."""
        done = subprocess.run(
            [str(self.venv / "bin" / words[0]), *words[1:]],
            cwd=self.directory / inside,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.directory)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def sources() -> list[str]:
    """Return what the Dockerfile copies to make the wheel of."""
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    return [source for words in copied for source in words if not source.startswith("deploy/")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The wheel in a venv that has everything else from the one of the tests: no index is needed."""
    base = tmp_path_factory.mktemp("wheel")
    tree, there = base / "tree", Installed(base / "venv", base / "elsewhere")
    there.directory.mkdir()
    # Of a name that Sluice imports: what lies where somebody stands is not taken for a module.
    (there.directory / "click.py").write_text("raise SystemExit('not this one')\n")
    for source in sources():
        if (ROOT / source).is_dir():
            skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / source, tree / source, symlinks=True, ignore=skipped)
        else:
            tree.mkdir(exist_ok=True)
            shutil.copy(ROOT / source, tree / source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    quiet = ["-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "wheel", *quiet, "--no-build-isolation", "-w", base, tree], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", there.venv], check=True)
    # A folder that is named in a .pth file has its own .pth files ignored: the checkout stays out.
    (there.site / "dependencies.pth").write_text(f"{PURELIB}\n")
    python = str(there.venv / "bin" / "python")
    subprocess.run([*pip, "--python", python, "install", *quiet, *base.glob("*.whl")], check=True)
    yield there
    if (there.directory / ".sluice").exists():
        there("sluice", "down")


def test_one_package_is_installed(installed: Installed) -> None:
    """No `services` beside it, which would be anybody's name; the version is the code's."""
    found = {path.name for path in installed.site.iterdir()} - {"dependencies.pth"}
    assert found == {"sluice", f"sluice_admission-{__version__}.dist-info"}
    assert installed("sluice", "--version") == installed("sluice", "version") == f"sluice {__version__}\n"
    for name in ("sluice.services.agent", "sluice"):
        assert installed("python", "-c", f"import {name} as it; print(it.__file__)").startswith(
            str(installed.site)
        )
    installed("python", "-c", "from importlib.util import find_spec; assert find_spec('services') is None")


def test_a_cell_runs_jobs(installed: Installed) -> None:
    """Services, agents and the demo's queues come with it."""
    installed("sluice", "up", "--detach", "--agents", "1")
    installed("sluice", "apply", "-f", str(installed.site / "sluice/cli/templates/demo"))
    installed("sluice", "submit", "-q", "vision", "--name", "hello", "--cpu", "1", "--wait", "--", "true")
    assert "Succeeded" in installed("sluice", "get", "jobs")
    installed("sluice", "down")


def test_a_check_project_passes_its_tests(installed: Installed) -> None:
    """What `sluice check new` makes asks for this distribution, and finds it."""
    installed("sluice", "check", "new", "budget")
    wanted = (installed.directory / "budget" / "requirements.txt").read_text().splitlines()
    assert wanted == ["sluice-admission", "pytest"]
    installed("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", inside="budget")
