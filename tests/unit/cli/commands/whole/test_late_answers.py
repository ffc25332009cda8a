"""What the commands say of a change that the job can take only when it has stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sluice.cli.cell import await_reply
from sluice.cli.commands.jobs import job as commands
from sluice.cli.commands.jobs import submit
from sluice.log.nats import jetstream_api

SEQ = 12


class _Api:
    """A cell whose slice-aggregator says nothing; its one job is in *phase*."""

    connection = None
    target = SimpleNamespace(cell="main")

    def __init__(self, phase: str, reason: str) -> None:
        self.status = {"phase": phase, "reason": reason, "podSets": [{"name": "main", "count": 1}]}

    async def get(self, kind: str, name: str, namespace: str = "", _min_seq: int = 0, **_: Any) -> Any:
        return (
            {"metadata": {"name": name, "namespace": namespace}, "status": self.status}
            if kind == "Job"
            else None
        )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    async def published(*_: Any) -> int:
        return SEQ

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    def ask(phase: str, reason: str, *arguments: str) -> Result:
        api = _Api(phase, reason)

        def run(_: Any, work: Callable[[Any], Awaitable[Any]]) -> Any:
            return asyncio.run(work(api))  # type: ignore[arg-type]

        monkeypatch.setattr(commands, "run", run)
        return CliRunner().invoke(commands.job, [*arguments], standalone_mode=False)

    monkeypatch.setattr(await_reply, "ANSWER_TIMEOUT_S", 0.02)
    monkeypatch.setattr(jetstream_api, "message", nothing)
    monkeypatch.setattr(commands, "publish_job_event", published)
    return ask


def test_a_job_that_is_stopping_is_scaled_when_it_has_stopped(asked: Callable[..., Result]) -> None:
    """No service is at fault, and nobody need say it again."""
    assert asked("Stopping", "Preempted", "scale", "a", "3", "-n", "team").output.splitlines() == [
        f"job/a is stopping (Preempted), and is scaled when it has stopped (main=3), event {SEQ}",
        "The log keeps the change until then: `sluice get job a -n team -w` shows when.",
    ]


def test_a_job_that_is_being_deleted_is_not_scaled(asked: Callable[..., Result]) -> None:
    found = asked("Stopping", "JobDeleted", "scale", "a", "3")
    assert not found.output
    assert str(found.exception) == (
        f"job/a is being deleted: nothing is left to scale when it has stopped (main=3), event {SEQ}"
    )


def test_a_service_that_says_nothing_of_what_runs_is_late(asked: Callable[..., Result]) -> None:
    (line,) = asked("Running", "", "scale", "a", "3").output.splitlines()
    assert line.startswith(f"job/a scaled (main=3), event {SEQ}: slices has not answered within")


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("phase", "words"), [("Stopping", "is stopping (Preempted)"), ("Queued", "slices has not")]
)
def test_a_manifest_for_a_job_that_is_stopping_counts_later(
    capsys: pytest.CaptureFixture[str], phase: str, words: str
) -> None:
    request: Any = SimpleNamespace(name="a", namespace="default", key="default/a")
    api: Any = _Api(phase, "Preempted")
    asyncio.run(submit._report(api, [("job/a", request, SEQ)], None))
    assert words in capsys.readouterr().out
