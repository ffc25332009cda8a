"""Node for tests: a project's dependencies installed once per lock file, or a reason to skip."""

import functools
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

OLDEST = 20
INSTALL_S = 120


@functools.cache
def why_not() -> str:
    """Return why JavaScript cannot run here, "" if it can."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node and npm are not installed"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    major = version.lstrip("v").partition(".")[0]
    if not major.isdigit() or int(major) < OLDEST:
        return f"node {version} is older than {OLDEST}"
    return ""


def installed(project: Path, cache: Path, target: Path) -> Path:
    """Copy a project to *target*, with its dependencies from *cache*, and return *target*.

    Skips the test where node is missing or the packages cannot be had.
    """
    if reason := why_not():
        pytest.skip(reason)
    shutil.copytree(project, target, ignore=shutil.ignore_patterns("node_modules"), dirs_exist_ok=True)
    lock = hashlib.sha256((project / "package-lock.json").read_bytes()).hexdigest()[:16]
    modules = cache / lock / "node_modules"
    if not (cache / lock / "ready").exists():
        _install(project, cache / lock)
    (target / "node_modules").symlink_to(modules)
    return target


def _install(project: Path, into: Path) -> None:
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(project / name, into)
    try:
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts"],
            cwd=into,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not install the packages: no answer in time")
    if done.returncode != 0:
        pytest.skip(f"npm could not install the packages: {done.stderr.strip()[-300:]}")
    (into / "ready").touch()
