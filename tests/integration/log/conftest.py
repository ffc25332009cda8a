"""Logs and processes for the tests of the log."""

import asyncio
import contextlib
import os

import msgspec
import pytest

from sluice.log.nats.connection import Link
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.protocol import Parser
from tests.support.forked import Forked
from tests.support.waiting import eventually


@pytest.fixture
def skip_delivery(monkeypatch):
    """A function that makes readers miss the delivery of one sequence, as if the server had skipped it."""

    def skip(seq):
        left = [seq]
        original = Parser.feed

        def feed(parser, data):
            frames = original(parser, data)
            kept = []
            for frame in frames:
                if (
                    left
                    and frame.reply.startswith(b"$JS.ACK")
                    and frame.reply.split(b".")[5] == b"%d" % left[0]
                ):
                    left.clear()
                else:
                    kept.append(frame)
            return kept

        monkeypatch.setattr(Parser, "feed", feed)

    return skip


@pytest.fixture
async def open_log(nats_server):
    """A function that opens logs on the test's server; they are closed at its end."""
    logs = []

    async def opener(**options):
        logs.append(await JetStreamLog(nats_server.url, **options).open())
        return logs[-1]

    yield opener
    for log in logs:
        await log.close()


class Bank:
    """Replicas of the bank service, as processes."""

    def __init__(self, url, directory):
        self.url, self.directory = url, directory
        self.processes = []
        self._link = Link(url, "control")

    def start(self, name, **env):
        own = {"SLUICE_NATS_URL": self.url, "SLUICE_INSTANCE": name, "SLUICE_LOG_FORMAT": "json"}
        process = Forked(
            ["tests.integration.log.bank_service"],
            {**os.environ, **own, **env},
            self.directory / f"{name}.log",
        )
        self.processes.append(process)
        return process

    async def ask(self, process, what="status"):
        """Return what one replica says, None if it says nothing in time."""
        found = []
        link = Link(self.url, "ask", sink=lambda frames: found.extend(f.payload for f in frames if f.payload))
        try:
            connection = await link.connection(2)
            connection.write(b"SUB _INBOX.ask%d 9\r\n" % id(found))
            connection.publish(f"sluice.main.control.bank.{what}", b"", f"_INBOX.ask{id(found)}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    while True:
                        for answer in map(msgspec.json.decode, found):
                            if answer["pid"] == process.pid:
                                return answer
                        await asyncio.sleep(0.005)
        finally:
            await link.close()
        return None

    async def role(self, process):
        answer = await self.ask(process)
        return answer["role"] if answer else ""

    async def until_role(self, process, role):
        async def has():
            return await self.role(process) == role

        await eventually(has)

    def log(self, name):
        return (self.directory / f"{name}.log").read_text()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def bank(nats_server, tmp_path):
    replicas = Bank(nats_server.url, tmp_path)
    yield replicas
    replicas.close()
