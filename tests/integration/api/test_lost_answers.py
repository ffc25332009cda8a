"""An answer of the api service is lost on its way: a question is asked once more, an order is not."""

import msgspec
import pytest

from sluice.cli.cell import client
from sluice.cli.cell.client import Target, connect
from sluice.cli.kit.errors import CliError
from sluice.log.nats.responder import Responder
from sluice.protocol import query

pytestmark = pytest.mark.nats


@pytest.fixture
async def asked(nats_server, monkeypatch):
    """What was asked of a service that is silent when it is asked for the first time."""
    monkeypatch.setattr(client, "REQUEST_TIMEOUT_S", 2.0)
    monkeypatch.setattr(client, "LAST_CHANCE_S", 1.8)
    subjects = []

    def answering(subject, answer):
        async def heard(_):
            subjects.append(subject)
            return msgspec.json.encode(answer) if subjects.count(subject) > 1 else None

        return heard

    responder = Responder(nats_server.url, "test")
    await responder.open()
    for subject, answer in (
        ("query.list", query.ListAnswer(seq=7, items=[])),
        ("api.delete", query.ChangeAnswer(seq=7, results=[])),
    ):
        await responder.subscribe(f"sluice.main.{subject}", answering(subject, answer))
    yield subjects
    await responder.close()


async def test_a_question_is_asked_again(nats_server, asked):
    async with connect(Target(nats_server.url, "main")) as api:
        assert (await api.list(query.ListRequest(kind="Job"))).seq == 7
    assert asked == ["query.list", "query.list"]


async def test_an_order_is_given_once(nats_server, asked):
    """It may have been carried out."""
    async with connect(Target(nats_server.url, "main")) as api:
        with pytest.raises(CliError, match="did not answer"):
            await api.delete(query.DeleteRequest(objects=[]))
    assert asked == ["api.delete"]
