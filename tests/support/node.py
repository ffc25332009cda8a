"""Node for tests: a project's dependencies installed once per lock file, or a reason to skip."""

import functools
import hashlib
import json
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


def installed(project: Path, cache: Path) -> Path:
    """Link the dependencies of *project*, kept in *cache*, into it, and return it.

    Skips the test where node is missing or the packages cannot be had.
    """
    if reason := why_not():
        pytest.skip(reason)
    packages = json.loads((project / "package-lock.json").read_text())["packages"]
    own = {path: package for path, package in packages.items() if path}
    kept = cache / hashlib.sha256(json.dumps(own).encode()).hexdigest()[:16]
    if not (kept / "ready").exists():
        _install(project, kept)
    (project / "node_modules").symlink_to(kept / "node_modules")
    return project


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
