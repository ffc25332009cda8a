"""A webhook may answer, hang, lie or talk too much: what it means is said, and nothing gets stuck."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from sluice.api.check_parameters import WebhookCheckConfigSpec
from sluice.sdk.checks import Pending, Ready, Rejected, Request, Retry, pod_set_update
from sluice.sdk.checks.testing import make_request
from sluice.services.check_webhook.app import Caller
from sluice.services.check_webhook.exchange import IDEMPOTENCY_KEY, SIGNATURE, FailureError, verify
from sluice.services.common.http import Http

from .conftest import Serve


class Hook:
    """A webhook; `answers` by path. Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answer: Any = lambda _: web.json_response({"state": "Ready"})

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append((request.method, request.path_qs, dict(request.headers), body))
        found = self.answer(request)
        return await found if asyncio.iscoroutine(found) else found


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    async with Http() as made:
        yield made


@pytest.fixture
async def hook(serve: Serve) -> Hook:
    made = Hook()
    made.url = await serve(made.app())  # type: ignore[attr-defined]
    return made


def ask_about(hook: Hook, **spec: Any) -> Request[WebhookCheckConfigSpec]:
    whole = {"url": hook.url + "/ask?token=secret", "timeoutSeconds": 1, **spec}  # type: ignore[attr-defined]
    raw = make_request(name="train", namespace="ml", check="approve", uid="u1", parameters=whole)
    return Request(raw, msgspec.convert(whole, WebhookCheckConfigSpec))


async def test_the_request_is_sent_as_json(http: Http, hook: Hook) -> None:
    request = ask_about(hook, headers={"X-Team": "ml"})
    assert await Caller(http, "").check(request) == Ready()

    ((method, path, headers, body),) = hook.asked
    assert (method, path) == ("POST", "/ask?token=secret")
    assert headers["X-Team"] == "ml"
    assert headers[IDEMPOTENCY_KEY] == "u1/approve/1/check"
    assert SIGNATURE not in headers
    sent = json.loads(body)
    assert {key: sent[key] for key in ("apiVersion", "kind", "action", "idempotencyKey")} == {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "CheckReview",
        "action": "Check",
        "idempotencyKey": "u1/approve/1/check",
    }
    assert sent["request"]["workload"]["name"] == "train"
    assert sent["request"]["assignment"][0]["flavors"] == {"cpu": "default"}


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"state": "Ready", "message": "fine"}, Ready(message="fine")),
        ({"state": "Pending", "message": "asking Ann", "unknown": 1}, Pending("asking Ann", 10)),
        ({"state": "Pending", "requeueAfterSeconds": 3}, Pending("", 3)),
        ({"state": "Retry", "requeueAfterSeconds": 60}, Retry(60, "")),
        ({"state": "Rejected", "message": "never"}, Rejected("never")),
        (
            {"state": "Ready", "podSetUpdates": [{"name": "main", "nodeSelector": {"zone": "a"}}]},
            Ready((pod_set_update("main", node_selector={"zone": "a"}),)),
        ),
    ],
)
async def test_answers_become_verdicts(http: Http, hook: Hook, answer: Any, verdict: Any) -> None:
    hook.answer = lambda _: web.json_response(answer)

    assert await Caller(http, "").check(ask_about(hook)) == verdict


async def _hang(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


async def _drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(600):
        await response.write(b" ")
        await asyncio.sleep(0.1)
    return response


async def _flood(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(10_000):
        await response.write(b"x" * 65536)
    return response


async def _break_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"state"')
    assert request.transport is not None
    request.transport.close()
    return response


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (_hang, "no answer within 1 s"),
        (_drip, "no answer within 1 s"),
        (_flood, "the answer has more than 65536 bytes"),
        (_break_off, "the answer broke off"),
        (
            lambda _: web.Response(text="<html>\n oops"),
            "the answer cannot be read: JSON is malformed: invalid",
        ),
        (lambda _: web.Response(body=b"\xff\xfe"), "the answer cannot be read"),
        (lambda _: web.json_response({}), "the answer cannot be read: state: Required value"),
        (
            lambda _: web.json_response({"state": "Maybe"}),
            "the answer cannot be read: state: Unsupported value",
        ),
        (
            lambda _: web.json_response({"state": "Retry", "requeueAfterSeconds": -1}),
            "the answer cannot be read: requeueAfterSeconds is negative",
        ),
        (lambda _: web.Response(status=500, text="database\n  down"), "status 500: database down"),
        (lambda _: web.Response(status=404), "status 404"),
        (lambda _: web.Response(status=204), "status 204"),
        (
            lambda _: web.Response(status=302, headers={"Location": "http://elsewhere/"}),
            "status 302: redirects are not followed",
        ),
        (
            lambda _: web.Response(status=202, headers={"Location": "http://elsewhere/poll"}),
            "status 202: the Location is elsewhere",
        ),
    ],
)
async def test_failures_are_visible_and_tried_again(http: Http, hook: Hook, answer: Any, text: str) -> None:
    """The message says what is wrong, without what the URL's query may hold in secret."""
    hook.answer = answer
    found = await Caller(http, "").check(ask_about(hook))

    assert isinstance(found, Pending)
    assert found.message.startswith(f"Webhook {hook.url}/ask: {text}")  # type: ignore[attr-defined]
    assert found.message.endswith("; trying again")
    assert found.recheck_after == 1


async def test_nobody_there(http: Http, hook: Hook) -> None:
    request = ask_about(hook, url="http://127.0.0.1:1/")
    found = await Caller(http, "").check(request)

    assert isinstance(found, Pending)
    assert "cannot connect to 127.0.0.1:1" in found.message


@pytest.mark.parametrize(
    ("policy", "last", "words"),
    [
        ("Hold", Pending, "held by failurePolicy Hold"),
        ("Reject", Rejected, "rejected by failurePolicy Reject"),
        ("Allow", Ready, "let in by failurePolicy Allow"),
    ],
)
async def test_backoff_then_the_failure_policy(
    http: Http, hook: Hook, policy: str, last: type[Any], words: str
) -> None:
    hook.answer = lambda _: web.Response(status=500)
    strategy = {"backoffLimitCount": 4, "backoffBaseSeconds": 2, "backoffMaxSeconds": 10}
    request = ask_about(hook, failurePolicy=policy, retryStrategy=strategy)
    caller = Caller(http, "")

    found = [await caller.check(request) for _ in range(5)]
    assert [getattr(one, "recheck_after", None) for one in found[:4]] == [2, 4, 8, 10]
    assert type(found[4]) is last
    assert found[4].message.endswith(words)


async def test_failures_in_a_row_count_from_the_last_answer(http: Http, hook: Hook) -> None:
    answers = iter([500, 500, 200, 500])

    def answer(_: web.Request) -> web.Response:
        status = next(answers)
        return web.json_response({"state": "Pending"}, status=status)

    hook.answer = answer
    request, caller = ask_about(hook), Caller(http, "")
    found = [await caller.check(request) for _ in range(4)]

    assert [getattr(one, "recheck_after", None) for one in found] == [1, 2, 10, 1]


async def test_retry_after_is_respected(http: Http, hook: Hook) -> None:
    hook.answer = lambda _: web.Response(status=503, headers={"Retry-After": "120"})
    found = await Caller(http, "").check(ask_about(hook))

    assert isinstance(found, Pending)
    assert found.recheck_after == 120


async def test_an_answer_that_comes_later_is_polled(http: Http, hook: Hook) -> None:
    """202 with a Location of the same server: the answer is fetched there, until there is one."""

    def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            headers = {"Location": "/answers/7", "Retry-After": "4"}
            return web.json_response({"message": "Ann was asked"}, status=202, headers=headers)
        if len(hook.asked) == 2:
            return web.Response(status=202, headers={"Location": "/answers/7"})
        return web.json_response({"state": "Ready"})

    hook.answer = answer
    request, caller = ask_about(hook), Caller(http, "")
    found = [await caller.check(request) for _ in range(3)]

    assert found[0] == Pending("Ann was asked", 4)
    assert found[1:] == [Pending(f"Webhook {hook.url}/ask answers later", 10), Ready()]  # type: ignore[attr-defined]
    assert [one[:2] for one in hook.asked] == [
        ("POST", "/ask?token=secret"),
        ("GET", "/answers/7"),
        ("GET", "/answers/7"),
    ]
    assert len({one[2][IDEMPOTENCY_KEY] for one in hook.asked}) == 1


async def test_a_lost_answer_is_asked_for_anew(http: Http, hook: Hook) -> None:
    """A webhook that has forgotten where the answer is gets the question again."""

    def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.Response(status=404)
        return web.Response(status=202, headers={"Location": "/answers/7"})

    hook.answer = answer
    request, caller = ask_about(hook), Caller(http, "")
    for _ in range(3):
        await caller.check(request)

    assert [one[0] for one in hook.asked] == ["POST", "GET", "POST"]


async def test_signatures(http: Http, hook: Hook, tmp_path: Path) -> None:
    """Who has the secret can tell that the request is ours, unchanged and new; the secret may change."""
    (tmp_path / "approvals").write_text("first\n")
    request, caller = ask_about(hook, signingSecret="approvals"), Caller(http, str(tmp_path))
    await caller.check(request)
    (tmp_path / "approvals").write_text("second\n")
    await caller.check(request)

    one, two = ((headers[SIGNATURE], body) for _, _, headers, body in hook.asked)
    now_s = int(one[0].partition(",")[0].removeprefix("t="))
    assert verify(b"first", *one, now_s)
    assert verify(b"second", *two, now_s)
    assert not verify(b"second", *one, now_s)
    assert not verify(b"first", one[0], one[1] + b" ", now_s)
    assert not verify(b"first", *one, now_s + 301)
    assert not verify(b"first", "rubbish", one[1], now_s)


async def test_without_its_secret_nothing_is_sent(http: Http, hook: Hook, tmp_path: Path) -> None:
    """It is the administrator's to put right, so failurePolicy does not apply."""
    for directory in ("", str(tmp_path)):
        request = ask_about(hook, signingSecret="gone", failurePolicy="Allow")
        found = await Caller(http, directory).check(request)
        assert isinstance(found, Pending)
        assert found.message.startswith("Signing secret 'gone'")
    assert hook.asked == []


async def test_an_approval_is_taken_back_when_the_webhook_says_so(http: Http, hook: Hook) -> None:
    """Asked again every recheckSeconds; failures and Pending leave the approval as it is."""
    answers = iter([500, {"state": "Pending"}, {"state": "Ready"}, {"state": "Retry", "message": "no more"}])

    def answer(_: web.Request) -> web.Response:
        found = next(answers)
        return web.Response(status=500) if found == 500 else web.json_response(found)

    hook.answer = answer
    request = ask_about(hook, recheckSeconds=1)
    request.raw = msgspec.structs.replace(
        request.raw, parameters_spec={**(request.raw.parameters_spec or {}), "recheckSeconds": 0}
    )

    assert await Caller(http, "").watch(request) == Retry(None, "no more")
    assert [json.loads(one[3])["action"] for one in hook.asked] == ["Recheck"] * 4
    assert {one[2][IDEMPOTENCY_KEY] for one in hook.asked} == {"u1/approve/1/recheck"}


async def test_the_end_is_told_to_who_wants_to_know(http: Http, hook: Hook) -> None:
    caller = Caller(http, "")
    await caller.cancel(ask_about(hook))
    assert hook.asked == []

    request = ask_about(hook, cancelUrl=hook.url + "/gone")  # type: ignore[attr-defined]
    await caller.cancel(request)
    ((_, path, _, body),) = hook.asked
    assert path == "/gone"
    assert json.loads(body)["action"] == "Cancel"

    hook.answer = lambda _: web.Response(status=500)
    with pytest.raises(FailureError):
        await caller.cancel(request)
