"""The HTTP API over the example log: what each question answers, and what is refused."""

import asyncio
import json
from typing import Any

import pytest

from sluice.console.access import Access, AccessError
from sluice.console.openapi import document
from sluice.console.routes import ROUTES
from sluice.replay.explain.why import explain
from sluice.replay.source.source import FileSource
from sluice.replay.source.time_travel import scheduler_at
from sluice.replay.views.overview import look
from tests.unit.console.conftest import Ask, Serve
from tests.unit.replay.incident import EXAMPLE

TOKEN = "a-token-of-some-length"


async def test_every_answer_says_of_which_sequence_it_is(serve: Serve) -> None:
    client = await serve()
    values = {"namespace": "default", "name": "train-3", "seq": "26", "kind": "ClusterQueue"}
    special = {
        "/queues/{name}": "research",
        "/cohorts/{name}": "company",
        "/queues/{name}/series": "research",
        "/cohorts/{name}/series": "company",
        "/objects/{kind}/{name}": "serving",
    }
    for route in ROUTES:
        if route.method != "GET" or route.path == "/whoami":
            continue
        path = route.path.format(**(values | {"name": special.get(route.path, "train-3")}))
        query = {"from": "20", "to": "30"} if path == "/diff" else {"at": "30"}
        async with client.get(f"/api/v1{path}", params=query) as response:
            found = await response.json()
            assert response.status == 200, (path, found)
            assert found["upto"] == 30, path
            assert found["time"]
            assert found["live"] is False
            etag = response.headers["ETag"]
        if path != "/system":
            async with client.get(f"/api/v1{path}", params=query, headers={"If-None-Match": etag}) as again:
                assert again.status == 304, path


async def test_moments_are_sequences_and_times(ask: Ask) -> None:
    assert (await ask("queues", at="2026-01-01T00:01:01Z"))["upto"] == 24
    assert (await ask("queues", at="19m"))["upto"] == (await ask("queues", at="2026-01-01T00:01:03Z"))["upto"]
    assert (await ask("queues", at="58"))["error"]["code"] == "BadRequest"
    assert "want a sequence" in (await ask("queues", at="tomorrow"))["error"]["message"]


async def test_the_incident_in_numbers(ask: Ask) -> None:
    """Before the roll-out research borrows all that serving has."""
    quota = {node["name"]: node["quota"][0] for node in (await ask("quota", at=26))["nodes"]}
    assert quota["research"]["borrowed"]["text"] == "16" == quota["serving"]["lent"]["text"]
    assert (await ask("cohorts/company", at=26))["lending"] == [
        {"from": "serving", "to": "research", "flavor": "on-demand", "resource": "cpu"}
        | {"amount": {"text": "16", "value": 16000}}
    ]
    assert [row["key"] for row in (await ask("pending", at=26))["items"]] == ["default/api-rollout"]
    found = await ask("preemptions")
    assert {(row["preemptor"], row["victim"]) for row in found["items"]} == {
        ("default/api-rollout", "default/train-3"),
        ("default/api-rollout", "default/train-4"),
    }


async def test_a_series_is_the_quota_at_each_of_its_points(ask: Ask) -> None:
    """Of a cohort and each of its members, and how many waited; before it was there it has nothing."""
    found = await ask("cohorts/company/series", **{"from": 1, "to": 57, "step": 5})
    assert found["seqs"] == [1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56, 57]
    lines = {line["name"]: line for line in found["lines"]}
    assert list(lines) == ["company", "research", "serving"]
    for place, seq in enumerate(found["seqs"]):
        nodes = {node["name"]: node for node in (await ask("quota", at=seq))["nodes"]}
        assert found["pending"][place] == nodes.get("company", {"pending": 0})["pending"]
        for name, line in lines.items():
            for quota in nodes.get(name, {"quota": []})["quota"]:
                said = {measure: line[measure][place] for measure in ("nominal", "used", "borrowed", "lent")}
                assert said == {measure: quota[measure] for measure in said}, (name, seq)
    assert lines["serving"]["lent"][5]["text"] == "16"
    assert (await ask("queues/nobody/series"))["error"]["code"] == "NotFound"
    assert "behind" in (await ask("queues/research/series", to=3, **{"from": 9}))["error"]["message"]


async def test_heavy_answers_are_the_commands_own(ask: Ask) -> None:
    log = FileSource(EXAMPLE)
    fold = scheduler_at(log, 27)
    report = explain(fold.state, "default/api-rollout", 27, fold.at).plain()
    told = await ask("jobs/default/api-rollout/why", at=27)
    assert told["report"]["message"] == json.loads(json.dumps(report, default=str))["message"]
    assert (await ask("state", at=30))["state"] == json.loads(json.dumps(look(log, 30), default=str))


async def test_jobs_are_filtered_sorted_and_paged(ask: Ask) -> None:
    everything = (await ask("jobs", sort="-priority"))["items"]
    assert everything[0]["name"] == "api-rollout"
    assert len(everything) == 7
    seen: list[str] = []
    page: dict[str, Any] = {"continue": ""}
    while True:
        page = await ask("jobs", limit=2, **({"continue": page["continue"]} if page["continue"] else {}))
        seen += [row["name"] for row in page["items"]]
        if not page["continue"]:
            break
    assert seen == sorted(row["name"] for row in everything)
    assert [r["name"] for r in (await ask("jobs", search="sweep"))["items"]] == ["sweep-1", "sweep-2"]
    waiting = await ask("jobs", at=26, phase="Queued")
    assert [row["name"] for row in waiting["items"]] == ["api-rollout"]
    groups = (await ask("jobs", group="queue"))["groups"]
    assert [(g["value"], g["count"]) for g in groups] == [("research", 6), ("serving", 1)]


async def test_the_log_goes_both_ways(ask: Ask) -> None:
    """All pages together are the whole log, in either order, and causes lead from one to another."""
    forward, backward = [], []
    for found, order in ((forward, "asc"), (backward, "desc")):
        query: dict[str, Any] = {}
        while True:
            page = await ask("log", order=order, limit=7, **query)
            found += [(event["seq"], event["index"]) for event in page["items"]]
            if not page["next"]:
                break
            query = {"from": page["next"]} if order == "asc" else {"to": page["next"]}
    assert forward == sorted(forward) == sorted(backward)
    assert {seq for seq, _ in forward} == set(range(1, 58))
    commit = await ask("log/27")
    assert 26 in [event["seq"] for event in commit["causes"]]
    assert {one["event"]["seq"] for one in commit["consequences"]} >= {28}


async def test_buckets_cover_the_log(ask: Ask) -> None:
    found = await ask("density", buckets=10)
    assert sum(bucket["counts"]["messages"] for bucket in found["buckets"]) == 57
    assert sum(bucket["counts"].get("preempted", 0) for bucket in found["buckets"]) == 2
    assert found["buckets"][0]["from"] == 1
    assert found["buckets"][-1]["to"] == 57


async def test_a_life_as_lanes(ask: Ask) -> None:
    """Stretches of a lane follow each other; the preemption is a mark that names who did it."""
    found = await ask("jobs/default/train-3/timeline")
    (lane,) = found["lanes"]
    for one, other in zip(lane["spans"], lane["spans"][1:], strict=False):
        assert one["to"] == other["from"]
    assert "Stopping" in [span["state"] for span in lane["spans"]]
    assert any("api-rollout" in mark["other"] for mark in found["marks"])


async def test_what_would_become_of_a_job(serve: Serve) -> None:
    client = await serve()
    manifest = (await (await client.get("/api/v1/jobs/default/train-1/spec")).json())["manifest"]
    manifest["metadata"]["name"] = "another"
    body = {"manifest": manifest, "at": "57"}
    async with client.post("/api/v1/simulate", json=body) as response:
        found = await response.json()
        assert "would be admitted in research" in found["text"][0]
    changes = {"set": ["ClusterQueue/research.spec.cohortName=other"]}
    async with client.post("/api/v1/what-if", json=changes) as response:
        report = (await response.json())["report"]
        runs = {run["name"] for run in report["runs"]}
        assert len(runs) == 3
        assert len(report["jobs"]) == report["jobsFound"] == 7
        assert all(set(job["runs"]) == runs for job in report["jobs"])
    async with client.post("/api/v1/what-if", json={"set": ["nonsense"]}) as response:
        assert response.status == 400


async def test_what_is_not_there_is_said(ask: Ask) -> None:
    found = await ask("jobs/default/trian-3")
    assert found["error"]["code"] == "NotFound"
    assert "train-3" in found["error"]["hint"]
    for path in ("queues/none", "cohorts/none", "objects/Nothing", "nothing", "jobs/default/none/why"):
        assert (await ask(path))["error"]["code"] == "NotFound", path
    assert (await ask("jobs", limit="x"))["error"]["code"] == "BadRequest"


# Who may ask


async def test_another_sites_name_is_refused(serve: Serve) -> None:
    """Whoever had a name of theirs resolve to this address reads nothing, no page either (DNS rebinding)."""
    client = await serve()
    for path in ("/", "/api/v1/jobs", "/static/app.js"):
        async with client.get(path, headers={"Host": "evil.example:8400"}) as response:
            assert response.status == 421, path
    async with client.get("/api/v1/jobs", headers={"Host": "localhost:1"}) as response:
        assert response.status == 200


async def test_what_is_sent_must_come_from_our_pages(serve: Serve) -> None:
    client = await serve()
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example"},
        {"Content-Type": "text/plain"},
    ):
        async with client.post("/api/v1/simulate", data=b"{}", headers=headers) as response:
            assert response.status == 403, headers


async def test_a_token_is_exchanged_for_a_cookie(serve: Serve) -> None:
    client = await serve(access=Access(auth="token", token=TOKEN, host="0.0.0.0"))
    assert (await client.get("/api/v1/jobs")).status == 401
    assert (await client.get("/")).status == 200
    assert (await client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {TOKEN}"})).status == 200
    assert (await client.post("/api/v1/login", json={"token": "another"})).status == 401
    response = await client.post("/api/v1/login", json={"token": TOKEN})
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    session = cookie.partition(";")[0]
    assert (await client.get("/api/v1/jobs", headers={"Cookie": session})).status == 200
    await client.post("/api/v1/logout", json={}, headers={"Cookie": session})
    assert (await client.get("/api/v1/jobs", headers={"Cookie": session})).status == 401


async def test_a_proxy_is_believed_from_its_address_only(serve: Serve) -> None:
    headers = {"X-Forwarded-User": "eve", "X-Forwarded-Groups": "staff, sluice-admins"}
    admins = frozenset({"sluice-admins"})
    for proxies, status in ((("127.0.0.0/8",), 200), (("192.0.2.1",), 401)):
        access = Access(auth="proxy", proxies=proxies, admins=admins)
        client = await serve(access=access)
        async with client.get("/api/v1/whoami", headers=headers) as response:
            assert response.status == status
            if status == 200:
                found = await response.json()
                assert (found["user"], found["role"]) == ("eve", "admin")
        assert (await client.get("/api/v1/whoami")).status == 401


@pytest.mark.parametrize(
    "wrong",
    [
        Access(host="0.0.0.0"),
        Access(auth="token", token="short"),
        Access(auth="proxy"),
        Access(auth="nothing"),
    ],
)
def test_settings_that_let_everybody_in_are_refused(wrong: Access) -> None:
    with pytest.raises(AccessError):
        wrong.check_settings()


async def test_nothing_foreign_runs(serve: Serve) -> None:
    """All answers, failures too, carry the policy that lets own files only run."""
    client = await serve()
    for path in ("/", "/jobs/default/x", "/api/v1/jobs", "/api/v1/nothing", "/static/none.js"):
        async with client.get(path) as response:
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"
    async with client.get("/static/../__init__.py") as response:
        assert b'"""' not in await response.read()


def test_the_document_knows_every_question() -> None:
    found = document()
    for route in ROUTES:
        assert route.method.lower() in found["paths"][f"/api/v1{route.path}"]


async def test_a_file_streams_one_hello(serve: Serve) -> None:
    client = await serve()
    async with client.get("/api/v1/stream") as response:
        assert response.content_type == "text/event-stream"
        said = await asyncio.wait_for(response.content.readuntil(b"\n\n"), 5)
        said += await asyncio.wait_for(response.content.readuntil(b"\n\n"), 5)
        assert b"id: 57\nevent: hello\n" in said
