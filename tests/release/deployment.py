"""What is deployed: the image, and manifests, each with the tool that reads it, where that is installed."""

import shutil
import sys
from pathlib import Path

import yaml

from sluice import __version__

from .lines import Failed, Skipped, run
from .packages import Packages, committed


def kustomize(packages: Packages) -> str:
    """Render the manifests with keys that were made for it, as docs/deploy.md says."""
    if not shutil.which("kubectl") and not shutil.which("kustomize"):
        raise Skipped("neither kubectl nor kustomize is installed")
    tree = packages.work / "kustomize"
    committed(packages.root, tree)
    words = (
        "auth",
        "init",
        "--dir",
        tree / "deploy/auth",
        "--host",
        "nats",
        "--server-dir",
        "/etc/nats/auth",
    )
    run(sys.executable, "-m", "sluice.cli.main", *words)
    tool = ("kubectl", "kustomize") if shutil.which("kubectl") else ("kustomize", "build")
    objects = [one for one in yaml.safe_load_all(run(*tool, "deploy", cwd=tree)) if one]
    kinds = {(one["kind"], one["metadata"]["name"]) for one in objects}
    if len(kinds) != len(objects) or not kinds:
        raise Failed("objects of one kind and name")
    return f"{len(objects)} objects by {tool[0]}"


def helm() -> str:
    """There is nothing to render."""
    raise Skipped("there is no chart: kustomize only (docs/decisions/0048)")


def alerts(root: Path) -> str:
    """Check the alert rules, and run their tests."""
    if not shutil.which("promtool"):
        raise Skipped("promtool is not installed (Debian: prometheus)")
    folder = root / "deploy" / "prometheus"
    run("promtool", "check", "rules", folder / "alerts.yaml")
    run("promtool", "test", "rules", folder / "alerts_test.yaml")
    return "rules and their tests, by promtool"


def image(packages: Packages) -> str:
    """Build the image of the bases that the engine has, and ask it for its version."""
    if not shutil.which("docker"):
        raise Skipped("docker is not installed")
    try:
        run("docker", "version", within_s=20)
    except Failed:
        raise Skipped("no Docker engine answers") from None
    base = _base(packages.root)
    try:
        run("docker", "image", "inspect", base)
    except Failed:
        try:
            run("docker", "pull", "-q", base)
        except Failed:
            raise Skipped(
                f"{base} is not there and cannot be pulled; `deploy/local-images/make python`"
            ) from None
    tag = f"sluice:{__version__}-check"
    tree = packages.work / "image"
    committed(packages.root, tree)
    # Wheels that lie about in the checkout are taken by hash only, so they may be used here as well.
    wheels = list((packages.root / "deploy" / "wheels").glob("*.whl"))
    for wheel in wheels:
        shutil.copy(wheel, tree / "deploy" / "wheels")
    offline = ("--build-arg", "PIP_NO_INDEX=1") if wheels else ()
    run("docker", "build", "-q", *offline, "-f", tree / "deploy/Dockerfile", "-t", tag, tree, within_s=1200)
    try:
        said = run("docker", "run", "--rm", "--network", "none", tag, "sluice", "--version").strip()
    finally:
        run("docker", "image", "rm", "-f", tag)
    if said != f"sluice {__version__}":
        raise Failed(f"`sluice --version` says {said!r} in the image")
    return f"built on {base}; {said}"


def _base(root: Path) -> str:
    lines = (root / "deploy" / "Dockerfile").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("ARG PYTHON_IMAGE="))
