"""JetStream's API: what answers mean, and that one package alone knows it."""

import base64
import re
from pathlib import Path

import pytest

import sluice
from sluice.log.errors import LogUnavailableError, NoStreamError
from sluice.log.nats import jetstream_api as api

LIBS = Path(sluice.__file__).parents[1]
HOME = Path(sluice.__file__).parent / "log" / "nats"
FOREIGN = re.compile(r"\$JS\.|err_code|\b(import|from) nats\b|\b10(03|05|07|16)\d\b")


def error(code, text="no"):
    return {"error": {"code": 404, "err_code": code, "description": text}}


def test_only_one_package_knows_the_api():
    """Subjects of the API and numeric codes stand in `log/nats`, and in the permissions of `rights`."""
    elsewhere = [
        f"{path}: {found.group()}"
        for root in (LIBS, LIBS.parent / "services")
        for path in sorted(root.rglob("*.py"))
        if not path.is_relative_to(HOME) and not path.is_relative_to(LIBS / "sluice" / "rights")
        if (
            found := re.search(
                r"\$JS\.|err_code|\b(import|from) nats\b|\b10(03|05|07|16)\d\b", path.read_text()
            )
        )
    ]
    assert elsewhere == []


def test_a_message_with_and_without_headers():
    answer = {"message": {"subject": "a.b", "seq": 7, "time": "2026-01-01T00:00:01.5Z", "data": "eA=="}}
    found = api.stored(answer, "S")
    assert found == (7, "a.b", 1_767_225_601_500_000, b"x", b"")
    answer["message"]["hdrs"] = base64.b64encode(b"NATS/1.0\r\nA: b\r\n\r\n").decode()
    del answer["message"]["data"]
    found = api.stored(answer, "S")
    assert (found.payload, found.header) == (b"", b"NATS/1.0\r\nA: b\r\n\r\n")


def test_no_message_is_no_error_but_no_stream_is():
    assert api.stored(error(10037), "S") is None
    with pytest.raises(NoStreamError, match="S: no"):
        api.stored(error(10059), "S")
    with pytest.raises(LogUnavailableError, match="not ready"):
        api.checked(error(10008, "not ready"), "S")


async def test_what_is_asked_for_a_message():
    """By sequence, the last of a subject, or the next of a subject from a sequence on."""
    asked = []

    class Server:
        async def ask(self, subject, body=None, timeout_s=5.0):  # noqa: ARG002
            asked.append((subject, body))
            return error(10037)

    for which in ({"seq": 4}, {"last_of": "a"}, {"seq": 4, "next_of": "a"}):
        assert await api.message(Server(), "S", **which) is None
    assert asked == [
        ("$JS.API.STREAM.MSG.GET.S", {"seq": 4}),
        ("$JS.API.STREAM.MSG.GET.S", {"last_by_subj": "a"}),
        ("$JS.API.STREAM.MSG.GET.S", {"seq": 4, "next_by_subj": "a"}),
    ]
