"""Every right that there is, tried on a server: each user, each subject, each request, each header."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest

from sluice.log.errors import AppendRefusedError, EventLogError, LogUnavailableError
from sluice.log.nats.connection import Connection
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.log.nats.protocol import addresses
from sluice.rights.names import API, GATED
from sluice.rights.parties import BUDGET_USER, Party, Service
from sluice.rights.roles import User
from tests.support.rights_matrix import USERS, Probe, allowed, everybody, probes
from tests.support.waiting import wait_until

from .secured import SecuredCell

pytestmark = pytest.mark.nats

ADDED = (
    User(name=BUDGET_USER, role="service"),
    *(one for one in USERS if one.name not in ("admin", "agent")),
)
EVERYBODY = {one.user: one for one in everybody("main")}
HEARD = "job.> verdict.> presence.> config slices variants scheduler checks api.> query.> control.>"


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    directory = tmp_path_factory.mktemp("matrix")
    with SecuredCell(directory, users=ADDED, spied=True) as cell:
        cell.service("gate")
        wait_until(lambda: cell.probe("gate", "--ready").returncode == 0)
        yield cell


@pytest.fixture(scope="module")
def cell_with_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    """A server on which streams and buckets are; on that of `cell` there are none."""
    with SecuredCell(tmp_path_factory.mktemp("headers"), users=ADDED) as cell:
        cell.service("gate")
        wait_until(lambda: cell.probe("gate", "--ready").returncode == 0)
        yield cell


@asynccontextmanager
async def spying(cell: SecuredCell) -> AsyncIterator[None]:
    """What comes into the services' account is answered, so that it shows."""
    (server,) = addresses(cell.url("spy"))
    client = await nats.connect(cell.url("spy").partition("?")[0], tls=server.tls_context())

    async def answer(message: Any) -> None:
        await message.respond(b'{"heard": true}')

    heard = [f"sluice.main.{suffix}" for suffix in HEARD.split()]
    heard += ["$KV.>", "$O.>", "$SRV.PING", "$SRV.STATS", "$JS.API.CONSUMER.MSG.NEXT.>", "_INBOX.x.y"]
    for subject in heard:
        await client.subscribe(subject, cb=answer)
    await client.flush()
    try:
        yield
    finally:
        await client.close()


@asynccontextmanager
async def opened(cell: SecuredCell, user: str) -> AsyncIterator[JetStreamLog]:
    log = JetStreamLog(cell.url(user))
    try:
        yield log
    finally:
        await log.close()


async def tried(connection: Connection, one: Service | Party, probe: Probe) -> bool:
    """Tell whether the server, or the gate, let it pass."""
    asks = probe.subject.startswith(API)
    subject, body = probe.subject, probe.body
    if asks and isinstance(one, Party):
        subject = GATED + subject.removeprefix(API)
        # A bucket is really made.
        body = b"" if ".STREAM.CREATE." in subject else body
    try:
        payload = (await connection.request(subject, body, timeout_s=10)).payload
        answer = json.loads(payload or b"{}")
    except (AppendRefusedError, LogUnavailableError):
        return False
    except TimeoutError:
        raise AssertionError(f"no answer to {subject}") from None
    error = answer.get("error") or {}
    return error.get("code") != 403


@pytest.mark.parametrize("user", EVERYBODY)
async def test_each_right_is_what_it_is_said_to_be(cell: SecuredCell, user: str) -> None:
    """What a user may do by the roles, the server lets pass; and nothing else."""
    one = EVERYBODY[user]
    wrong = []
    async with spying(cell), opened(cell, user) as asking:
        connection = await asking.connection()
        for probe in probes("main"):
            may = await tried(connection, one, probe)
            if may != allowed(one, probe):
                wrong.append(f"{'may' if may else 'may not'}: {probe.about} {probe.what} ({probe.subject})")
    assert wrong == []


HEADERS: tuple[dict[str, str], ...] = (
    {"Nats-Rollup": "all"},
    {"Nats-Rollup": "sub"},
    {"Nats-TTL": "1s"},
    {"Nats-TTL": "never"},
    {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "sluice.main.config"},
    {"Nats-Incr": "+1"},
    {"KV-Operation": "PURGE"},
    {"Nats-Expected-Stream": "SLUICE_main"},
    {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
)


@pytest.mark.parametrize("user", ["agent", "upstream", "check_hello", "team", "pool"])
async def test_no_header_changes_what_others_have_said(cell_with_log: SecuredCell, user: str) -> None:
    """Who may write one subject can neither remove nor write anything on another, by any header."""
    async with opened(cell_with_log, "keeper") as keeper:
        await keeper.open()
    victim, key = ("agent", "agent.victim")
    if user == "agent":
        victim, key = "check_budget", "controller.sluice=2Edev=2Fbudget"
    async with (
        opened(cell_with_log, victim) as log,
        opened(cell_with_log, "agent") as reader,
        opened(cell_with_log, user) as asking,
    ):
        await Bucket(log, "heartbeats", memory=True).put(key, b"{}")
        connection = await asking.connection()
        one = EVERYBODY[user]
        assert isinstance(one, Party)
        for subject in (said.replace("*", "x").replace(">", "a.b") for said in (*one.says, *one.offers)):
            if subject.startswith(("$KV", "sluice.main.job", "sluice.main.verdict")):
                for headers in HEADERS:
                    with contextlib.suppress(EventLogError, TimeoutError):
                        await connection.request(subject, b"{}", headers, 0.3)
        held = await Bucket(reader, "heartbeats").get(key)
        assert held is not None
        assert held.value == b"{}"
        assert await reader.last("config") is None
