"""`sluice replay traces`: printed, and sent to a collector."""

import pytest

from sluice.replay.source import json_lines
from tests.support.command import sluice
from tests.support.otlp import collector
from tests.unit.replay.traces.story import a_full_life


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("traces") / "life.jsonl"
    with path.open("wb") as file:
        json_lines.write(a_full_life().log, file)
    return str(path)


def test_a_job_is_shown_as_a_tree(log: str) -> None:
    said = sluice("replay", "traces", "train", "-l", log).ok()
    assert said.lines[0] == "trace 0af7651916cd43dd8448eb211c80319c"
    assert said.lines[1].endswith("process job.{namespace}.{name} job.default.train Succeeded")
    [stopped] = [line for line in said.lines if "preempted by" in line]
    assert stopped.split(" s ")[1].startswith("     attempt default/job-train-variant-res-")
    assert stopped.endswith("1 res preempted by default/urgent")
    assert any(line.endswith("migration od res") for line in said.lines)


def test_spans_are_printed_as_json_and_sent_to_a_collector(log: str) -> None:
    """Both are the same; all jobs that are over come with --all."""
    printed = sluice("replay", "traces", "--all", "-l", log, "-o", "json").ok().json
    with collector() as found:
        said = sluice("replay", "traces", "--all", "-l", log, "--otlp", f"{found.url}/").ok()
    assert f"2 traces, {len(printed)} spans sent" in said.err
    assert [f"0x{span.span_id.hex()}" for span in found.spans()] == [s["context"]["span_id"] for s in printed]


def test_what_cannot_be_shown_is_said(log: str) -> None:
    assert "name a job, or say --all" in sluice("replay", "traces", "-l", log).err
    assert 'Did you mean "default/urgent"' in sluice("replay", "traces", "urgnt", "-l", log).err
    with collector(status=400) as found:
        refused = sluice("replay", "traces", "train", "-l", log, "--otlp", found.url)
    assert refused.code != 0
    assert "has not taken the traces" in refused.err
