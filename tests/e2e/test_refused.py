"""A job that is only a refused message: whoever asks about it hears why, by every way to ask."""

import json

import pytest

from sluice.sdk import AsyncClient
from tests.support.command import sluice
from tests.support.raw_publisher import publish_bytes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nats


@pytest.fixture(scope="module")
def refused(cell):
    data = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "wrong"},
        "spec": {"replicas": -4},
    }
    message = {
        "specversion": "1.0",
        "id": "refused-1",
        "source": "tests",
        "type": "JobSubmitted",
        "subject": "job.default.wrong",
        "time": "2026-11-26T00:00:00Z",
        "data": data,
    }
    publish_bytes(cell.url, b"sluice.main.job.default.wrong", json.dumps(message).encode())
    shown = ("get", "job", "wrong", "-o", "{.status.phase}")
    wait_until(lambda: sluice(*shown, env={"SLUICE_NATS_URL": cell.url}).out.strip() == "Rejected")
    return "wrong"


def test_why_and_the_timeline_say_what_was_wrong(run, refused):
    said = run("why", refused)
    assert said.code == 1
    assert "Rejected at" in said.err
    assert "spec.replicas" in said.err
    assert "Rejected" in run("replay", "timeline", refused).ok().out


async def test_the_api_says_so_too(cell, refused):
    async with AsyncClient(cell.url) as client:
        connection = await client.log.connection()
        question = json.dumps({"name": refused, "namespace": "default"}).encode()
        reply = await connection.request("sluice.main.query.why", question, timeout_s=60)
    answer = json.loads(reply.payload)
    assert answer["reason"] == "NotFound"
    assert "the job is Rejected: " in answer["message"]
    assert "spec.replicas" in answer["message"]
