"""Any bytes as heartbeats or about presence: nobody appears, nobody stops, and what the log has is listed."""

import msgspec
import pytest

from sluice.events.codec import encode_message
from sluice.protocol.dispatch import Heartbeat, key_token
from tests.support.command import Sluice
from tests.support.raw_publisher import publish_bytes
from tests.support.system import System
from tests.support.waiting import wait_until

from .conftest import all_lead

pytestmark = pytest.mark.nats

KEYS = (
    b"x", b"a.b", b"\xff", b"=FF", b"=", b"=1B=5B2J", b"a/b", b"n" * 300, b"=C3=28", b"\x1b[2J", b"\xf0\x9f",
    b"agent", b"=61", b"y",
)  # fmt: skip
"""Of heartbeats; three of them are names."""
VALUES = (
    b"", b"{}", b"null", b"\xff\xfe", b"[" * 100_000, b"x" * 1_000_000, b'{"name":1,"instance":2}',
    b'{"name":"other","instance":"1"}', b'{"name":"\xff","instance":"1"}',
)  # fmt: skip
SUBJECTS = (
    b"\xff", b"agent", b"agent.\xff", b"agent.%FF", b"agent.%1B%5B2J", b"agent.a.b", b"agent.%61",
    b"agent." + b"n" * 300, b"controller", b"controller.\xff", b"controller.a.b", b"controller.%FF",
    b"nobody.knows", b"\xff.\xfe", b"gap.other",
)  # fmt: skip
SEEN = encode_message(
    message_id="seen", source="test", event_type="Seen", subject="x", at=1, data=msgspec.Raw(b"{}")
)


def agents(run: Sluice) -> list[str]:
    return run("get", "agents", "-o", "name").ok().lines


def end(run: Sluice) -> int:
    return int(run("status", "-o", "json").ok().json["end"])


def test_heartbeats(cell: System, run: Sluice) -> None:
    """Of all that anybody may put there only a heartbeat makes an agent, behind any number of others."""
    start = end(run)
    bucket = b"$KV.sluice_main_heartbeats."
    for kind in (b"agent.", b"controller.", b""):
        for number, key in enumerate(KEYS):
            publish_bytes(cell.url, bucket + kind + key, VALUES[number % len(VALUES)])
    for value in VALUES:
        publish_bytes(cell.url, bucket + b"agent.last", value)
    for number in range(50):
        publish_bytes(cell.url, bucket + b"agent.many-%d" % number, b"{}")
    there = []
    for name in ("real.one", "z"):
        # The second has to be looked for anew: what is rubbish has been read by then, and was passed over.
        real = Heartbeat(name=name, instance="1", host="\x1b[2Jhost")
        key = bucket + b"agent." + key_token(name).encode()
        publish_bytes(cell.url, key, msgspec.json.encode(real))
        there.append(f"agent.sluice.dev/{name}")
        wait_until(lambda: len(agents(run)) >= len(there))
        assert agents(run) == there
    assert "\x1b" not in run("get", "agents").ok().out + run("status").ok().out
    # Those that came, and the answers: nothing is said of all the others.
    assert end(run) == start + 4
    assert all_lead(cell)


def test_presence(cell: System, run: Sluice) -> None:
    """On any subject under `presence`: nobody is there for it, each message is counted and listed."""

    def counted() -> int:
        return int(run("status", "-o", "json").ok().json["rejected"])

    before, there, start = counted(), agents(run), end(run)
    for rest in SUBJECTS:
        publish_bytes(cell.url, b"sluice.main.presence." + rest, SEEN)
    for value in VALUES:
        for rest in (b"\xff", b"agent.x", b"controller.x"):
            publish_bytes(cell.url, b"sluice.main.presence." + rest, value)
    sent = len(SUBJECTS) + 3 * len(VALUES)

    def listed() -> list[str]:
        found = [msgspec.json.decode(line) for line in run("log", "rejected", "-o", "json").ok().lines]
        since = [str(each["subject"]) for each in found if each["cause"] > start]
        return since if len(since) >= sent else []

    subjects = wait_until(listed)
    assert len(subjects) == sent
    assert {r"presence.\xff", r"presence.agent.\xff", "presence.nobody.knows"} < set(subjects)
    wait_until(lambda: counted() == before + sent)
    assert agents(run) == there
    assert "\x1b" not in run("log", "rejected").ok().out + run("log", "tail", "--no-follow").ok().out
    assert all_lead(cell)
