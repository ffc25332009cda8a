"""Controllers of admission checks with users of their own: each can do its work, and no other's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.log.errors import AppendRefusedError
from sluice.log.nats.kv import Bucket
from sluice.protocol.subjects import verdict_suffix
from sluice.rights.roles import User
from sluice.sdk import AsyncClient
from tests.support.node import installed, why_not
from tests.support.waiting import PATIENCE_S, wait_until

from .secured import ROOT, SecuredCell

pytestmark = pytest.mark.nats

JAVASCRIPT = "example.com/javascript"
USERS = [
    User(name=language, role="controller", controller=f"example.com/{language}")
    for language in ("python", "javascript")
]


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    directory = tmp_path_factory.mktemp("secured")
    with SecuredCell(directory, users=USERS) as cell:
        cell.start_services()
        yield cell


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_controller_does_its_work(
    cell: SecuredCell, tmp_path: Path, pytestconfig: pytest.Config, language: str
) -> None:
    """Requests, verdicts and heartbeats pass, told to stop it ends in order, and nothing was refused."""
    before = len(cell.violations())
    project, cache = tmp_path / language, pytestconfig.cache
    made = cell.sluice("admin", "check", "new", language, "--language", language, "--directory", str(project))
    assert made.code == 0, made.err
    if language == "javascript":
        if reason := why_not():
            pytest.skip(reason)
        assert cache is not None
        installed(project, Path(cache.mkdir("javascript")))
    applied = cell.sluice("admin", "apply", "-f", str(project / "manifests.yaml"))
    assert applied.code == 0, applied.err
    with (cell.directory / f"{language}.log").open("ab") as log:
        controller = subprocess.Popen(
            [sys.executable, "check.py"] if language == "python" else ["node", "index.js"],
            cwd=project,
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "SLUICE_NATS_URL": cell.url(language),
                "PYTHONPATH": str(ROOT / "libs"),
            },
        )
    cell.processes.append(controller)
    submitted = cell.sluice("admin", "submit", "-f", str(project / "job.yaml"))
    assert submitted.code == 0, submitted.err
    job = ("get", "job", f"{language}-job", "-o", "{.status.phase}")
    wait_until(lambda: cell.sluice("viewer", *job).out.strip() == "Admitted")
    assert "0 pending, 1 approved" in cell.sluice("viewer", "check", "describe", language).out
    controller.terminate()
    assert controller.wait(PATIENCE_S) == 0, (cell.directory / f"{language}.log").read_text()
    assert cell.violations()[before:] == []


async def test_nobody_answers_for_another(cell: SecuredCell) -> None:
    """A controller can neither give another's verdicts nor hold its heartbeat, nor ask for checks itself."""
    async with AsyncClient(cell.url("python")) as client:
        with pytest.raises(AppendRefusedError, match="Permissions Violation"):
            await client.log.append(verdict_suffix(JAVASCRIPT), b"{}")
        with pytest.raises(AppendRefusedError, match="Permissions Violation"):
            await Bucket(client.log, "heartbeats").put("controller.example=2Ecom=2Fjavascript", b"{}")
        with pytest.raises(AppendRefusedError, match="Permissions Violation"):
            await Bucket(client.log, "checks").put("example=2Ecom=2Fpython.a.b.c", b"{}")
