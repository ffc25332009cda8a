"""What was tried on a cell's server by users who may do something else, and must not work."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError

from sluice.log.nats.protocol import addresses
from sluice.rights.roles import User
from tests.support.waiting import stays, wait_until

from .secured import USERS, SecuredCell

pytestmark = pytest.mark.nats

CHECK = User(name="check_hello", role="controller", controller="example.com/hello")
OUTSIDERS = ("agent", "upstream", "admin", "viewer", "check_hello")
LOG, PREFIX = "SLUICE_main", "sluice.main."
APIS = ("$JS.API.", "$JS.sluice.API.")


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    with SecuredCell(tmp_path_factory.mktemp("attacked"), users=[CHECK]) as cell:
        cell.start_services()
        assert cell.sluice("admin", "apply", "-f", "examples/demo").code == 0
        yield cell


class Keyed(Client):
    """It needs the package nkeys to set this by itself."""

    @property
    def public_key(self) -> str | None:
        return self._public_nkey

    @public_key.setter
    def public_key(self, key: str) -> None:
        self._public_nkey = key


@asynccontextmanager
async def attacker(cell: SecuredCell, user: str) -> AsyncIterator[Client]:
    """A plain client of NATS: whoever attacks does not use ours."""
    (server,) = addresses(cell.url(user))

    async def nothing(_: Exception) -> None:
        pass

    client = Keyed()

    def proof(nonce: str) -> bytes:
        client.public_key, signed = server.proof(nonce)
        return signed.encode()

    url = f"tls://{server.host}:{server.port}"
    await client.connect(url, signature_cb=proof, tls=server.tls_context(), error_cb=nothing)
    try:
        yield client
    finally:
        await client.close()


async def asked(client: Client, subject: str, body: object = None, timeout_s: float = 1.0) -> dict[str, Any]:
    """Return the answer, {} if there is none."""
    try:
        payload = b"" if body is None else json.dumps(body).encode()
        found: dict[str, Any] = json.loads((await client.request(subject, payload, timeout=timeout_s)).data)
    except NatsError:
        return {}
    return found


@asynccontextmanager
async def unchanged(cell: SecuredCell, *streams: str) -> AsyncIterator[None]:
    """No service's subject gets another message, and the other *streams* end where they ended."""
    async with attacker(cell, "gate") as inside:

        async def ends() -> dict[str, Any]:
            found = {}
            for subject in ("config", "scheduler", "variants", "checks"):
                body = {"last_by_subj": PREFIX + subject}
                answer = await asked(inside, f"$JS.API.STREAM.MSG.GET.{LOG}", body)
                found[subject] = answer.get("message", {}).get("seq", 0)
            for stream in streams:
                found[stream] = (await asked(inside, f"$JS.API.STREAM.INFO.{stream}"))["state"]["last_seq"]
            return found

        before = await ends()
        yield

        async def the_same() -> bool:
            return await ends() == before

        await stays(the_same, 0.3)


def consumer(name: str, **config: Any) -> dict[str, Any]:
    return {
        "stream_name": LOG,
        "config": {"name": name, "deliver_policy": "all", "ack_policy": "none", **config},
    }


TARGETS = (
    f"{PREFIX}api.apply",
    f"{PREFIX}api.delete",
    f"{PREFIX}scheduler",
    "$KV.sluice_main_dispatch.default.x",
    "$KV.sluice_main_leases.scheduler",
    "$JS.API.STREAM.DELETE.KV_sluice_main_dispatch",
    "_INBOX.somebody",
)


@pytest.mark.parametrize("user", OUTSIDERS)
async def test_no_consumer_delivers_anywhere(cell: SecuredCell, user: str) -> None:
    """A push consumer says what its owner may not: with a job's message as the request to apply."""
    async with attacker(cell, user) as client, unchanged(cell, "KV_sluice_main_dispatch"):
        for api in APIS:
            for target in TARGETS:
                name = secrets.token_hex(16)
                body = consumer(name, deliver_subject=target)
                answer = await asked(client, f"{api}CONSUMER.CREATE.{LOG}.{name}", body)
                assert answer.get("error"), (api, target, answer)


@pytest.mark.parametrize("user", OUTSIDERS)
async def test_no_answer_is_sent_elsewhere(cell: SecuredCell, user: str) -> None:
    """Who asks names where the answer goes: nowhere but into the asker's own account."""
    name = secrets.token_hex(16)
    requests = [
        f"{PREFIX}query.list",
        f"{PREFIX}query.status",
        f"{PREFIX}control.scheduler.status",
        "$SRV.PING",
        "$SRV.STATS",
        f"{PREFIX}job.default.x",
        *(f"{api}STREAM.INFO.{LOG}" for api in APIS),
        *(f"{api}STREAM.MSG.GET.{LOG}" for api in APIS),
        *(f"{api}CONSUMER.MSG.NEXT.{LOG}.{name}" for api in APIS),
    ]
    async with attacker(cell, user) as client, unchanged(cell, "KV_sluice_main_dispatch"):
        answer = await asked(client, f"$JS.sluice.API.CONSUMER.CREATE.{LOG}.{name}", consumer(name))
        assert user.startswith("check_") or "error" not in answer, answer
        for subject in requests:
            for target in (f"{PREFIX}config", f"{PREFIX}scheduler", "$KV.sluice_main_dispatch.a.b"):
                await client.publish(subject, b'{"seq": 1}', reply=target)
        await client.flush()


@pytest.mark.parametrize("user", OUTSIDERS)
async def test_nobody_hears_what_others_are_answered(cell: SecuredCell, user: str) -> None:
    """Inboxes are private to an account: a viewer that listens to all of them hears nothing."""
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.subject)

    async with attacker(cell, user) as client:
        for subject in ("_INBOX.>", "_R_.>", ">", f"{PREFIX}>", "$KV.>", "$SRV.>"):
            await client.subscribe(subject, cb=hear)
        await client.flush()
        for other in sorted({"admin", "viewer"} - {user}):
            for words in (["log", "tail", "--no-follow"], ["get", "clusterqueues"]):
                assert (await asyncio.to_thread(cell.sluice, other, *words)).code == 0
        await stays(lambda: not heard, 0.2)


@pytest.mark.parametrize("user", OUTSIDERS)
async def test_nobody_answers_in_a_services_place(cell: SecuredCell, user: str) -> None:
    """Who listens where the api service does answers nobody but its own account."""

    async def lie(message: Any) -> None:
        await message.respond(b'{"seq": 1, "items": [], "kind": "Lie"}')

    async with attacker(cell, user) as client:
        for subject in (f"{PREFIX}query.>", f"{PREFIX}api.>", f"{PREFIX}gate.>", "$SRV.>"):
            await client.subscribe(subject, cb=lie)
        await client.flush()
        other = "admin" if user != "admin" else "viewer"
        for _ in range(5):
            said = await asyncio.to_thread(cell.sluice, other, "get", "clusterqueues")
            assert "vision" in said.out, said.err


@pytest.mark.parametrize("user", OUTSIDERS)
async def test_nobody_ends_a_services_consumer(cell: SecuredCell, user: str) -> None:
    """Names of consumers can neither be listed nor guessed, so nobody ends or reads another's."""
    async with attacker(cell, "scheduler") as inside:
        own = f"reader-{secrets.token_hex(4)}"
        made = await asked(inside, f"$JS.API.CONSUMER.CREATE.{LOG}.{own}", consumer(own))
        assert "error" not in made
        async with attacker(cell, user) as client:
            for api in APIS:
                for verb in ("NAMES", "LIST"):
                    answer = await asked(client, f"{api}CONSUMER.{verb}.{LOG}", timeout_s=0.2)
                    assert not answer or "error" in answer
                for verb in ("DELETE", "INFO"):
                    answer = await asked(client, f"{api}CONSUMER.{verb}.{LOG}.{own}", timeout_s=0.5)
                    assert not answer or "error" in answer
        there = await asked(inside, f"$JS.API.CONSUMER.DELETE.{LOG}.{own}")
        assert there.get("success") is True


@pytest.mark.parametrize("user", [user for user in USERS if user != "keeper"])
async def test_nobody_changes_the_stream(cell: SecuredCell, user: str) -> None:
    """`max_msgs` of 20 would delete the log, and so would a purge: not even services may."""
    async with attacker(cell, user) as client:
        config = {"name": LOG, "subjects": [f"{PREFIX}job.>"], "max_msgs": 20}
        for api in APIS:
            for verb, body in (
                ("UPDATE", config),
                ("CREATE", config),
                ("PURGE", None),
                ("DELETE", None),
                ("MSG.DELETE", {"seq": 1}),
            ):
                answer = await asked(client, f"{api}STREAM.{verb}.{LOG}", body, 0.3)
                assert not answer or "error" in answer, (verb, answer)
    async with attacker(cell, "gate") as inside:
        found = await asked(inside, f"$JS.API.STREAM.INFO.{LOG}")
    assert found["config"]["max_msgs"] == -1
    assert found["state"]["first_seq"] == 1


async def test_an_agent_removes_no_ones_heartbeat_but_agents(cell: SecuredCell) -> None:
    """A purge names the keys; of controllers, or of everything, is no business of agents."""
    bucket = "sluice_main_heartbeats"
    async with attacker(cell, "agent") as client:
        await asked(client, f"$JS.sluice.API.STREAM.CREATE.KV_{bucket}")
        for wanted in (None, {}, {"filter": ">"}, {"filter": f"$KV.{bucket}.controller.x"}, {"filter": 3}):
            answer = await asked(client, f"$JS.sluice.API.STREAM.PURGE.KV_{bucket}", wanted)
            assert "may not remove" in answer["error"]["description"]
        answer = await asked(
            client, f"$JS.sluice.API.STREAM.PURGE.KV_{bucket}", {"filter": f"$KV.{bucket}.agent.me"}
        )
        assert answer.get("success") is True


async def test_a_controller_reads_its_own_requests_only(cell: SecuredCell) -> None:
    """Neither the log, nor what is asked of others, nor who is alive."""
    bucket = "sluice_main_checks"
    async with attacker(cell, "check_hello") as client:
        for filters in ([">"], [f"$KV.{bucket}.>"], [f"$KV.{bucket}.other.>"]):
            name = secrets.token_hex(16)
            body = {"stream_name": f"KV_{bucket}", "config": {"name": name, "filter_subjects": filters}}
            answer = await asked(client, f"$JS.sluice.API.CONSUMER.CREATE.KV_{bucket}.{name}", body)
            assert "may not read" in answer["error"]["description"]
        answer = await asked(client, f"$JS.sluice.API.STREAM.MSG.GET.{LOG}", {"seq": 1})
        assert "may not read" in answer["error"]["description"]


def test_the_api_has_the_right_to_its_snapshots(cell: SecuredCell) -> None:
    """As deployed, it saves what it has folded, and nothing that it asks for is refused."""
    before = len(cell.violations())
    api = cell.service("api", SLUICE_INSTANCE="api-1", API_SNAPSHOT_ENTRIES="2")
    assert cell.sluice("admin", "submit", "-q", "vision", "--name", "saved", "--", "true").code == 0
    wait_until(lambda: "snapshot stored" in (cell.directory / "api.log").read_text())
    api.terminate()
    api.wait()
    assert [line for line in cell.violations()[before:] if line.startswith("api:")] == []


def test_the_keeper_alone_brings_the_stream_up_to_date(cell: SecuredCell) -> None:
    """After an update that adds subjects; the gate of JetStream is open to nobody else."""
    said = cell.sluice("keeper", "log", "prepare")
    assert said.code == 0, said.err
    assert "SLUICE_main is ready" in said.out
