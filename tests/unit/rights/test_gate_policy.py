"""The gate's rules, request by request."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.rights.gate_policy import Forward, Judgement, Make, Refusal, covers, judge
from sluice.rights.names import Names
from sluice.rights.parties import Party, controllers_of_checks, executors, pools, viewers
from sluice.rights.server_config import GATE_REQUESTS

NAMES = Names("main")
VIEWER = viewers(NAMES, "viewer", "")
AGENT = executors(NAMES, "agent", "")
TEAM = pools(NAMES, "blue", "", ["blue"])
CHECK = controllers_of_checks(NAMES, "check_a_b", "a/b")
LOG, NAME = NAMES.log, "n" * 20


def create(party: Party, stream: str = LOG, name: str = NAME, **config: Any) -> Judgement:
    body = {"stream_name": stream, "config": {"name": name, **config}}
    return judge(party, f"CONSUMER.CREATE.{stream}.{name}", json.dumps(body).encode())


def test_a_reader_is_made_as_it_must_be() -> None:
    """Pulled, without acknowledgements, in memory, and gone when nobody pulls; whatever was asked for."""
    made = create(VIEWER, mem_storage=False, inactive_threshold=10**18, max_deliver=5, metadata={"a": "b"})
    assert isinstance(made, Forward)
    assert made.subject == f"$JS.API.CONSUMER.CREATE.{LOG}.{NAME}"
    assert json.loads(made.body) == {
        "stream_name": LOG,
        "action": "create",
        "config": {
            "name": NAME,
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": -1,
            "num_replicas": 1,
            "mem_storage": True,
            "inactive_threshold": 300 * 10**9,
        },
    }


@pytest.mark.parametrize(
    "config",
    [
        {"deliver_subject": "sluice.main.api.apply"},
        {"durable_name": "mine"},
        {"deliver_group": "g"},
        {"ack_policy": "explicit"},
        {"replay_policy": "original"},
        {"num_replicas": 3},
        {"inactive_threshold": -1},
        {"inactive_threshold": "1"},
        {"filter_subjects": "sluice.main.>"},
        {"filter_subjects": [1]},
        {"name": "another"},
    ],
)
def test_other_consumers_are_refused(config: dict[str, Any]) -> None:
    assert isinstance(create(VIEWER, **{"name": NAME, **config}), Refusal)


def test_names_are_too_long_to_be_guessed() -> None:
    """Whoever knows a consumer's name reads what it delivers; a client without a wish gets a good one."""
    assert isinstance(create(VIEWER, name="n" * 19), Refusal)
    body = json.dumps({"stream_name": LOG, "config": {}}).encode()
    fresh = judge(VIEWER, f"CONSUMER.CREATE.{LOG}", body, "f" * 32)
    assert isinstance(fresh, Forward)
    assert fresh.subject.endswith("f" * 32)
    for verb in ("INFO", "DELETE"):
        assert isinstance(judge(VIEWER, f"CONSUMER.{verb}.{LOG}.short", b""), Refusal)


def test_a_controller_reads_what_is_its_own() -> None:
    """Its requests, its verdicts, its heartbeat."""
    checks = NAMES.bucket("checks")
    own = "$KV.sluice_main_checks.a=2Fb.>"
    assert isinstance(create(CHECK, checks, filter_subjects=[own]), Forward)
    assert isinstance(create(CHECK, checks, filter_subject="$KV.sluice_main_checks.>"), Refusal)
    assert isinstance(create(CHECK, checks), Refusal)
    get = f"STREAM.MSG.GET.{LOG}"
    assert isinstance(judge(CHECK, get, b'{"last_by_subj": "sluice.main.verdict.a%2Fb"}'), Forward)
    assert isinstance(judge(CHECK, get, b'{"last_by_subj": "sluice.main.verdict.x"}'), Refusal)
    assert isinstance(judge(CHECK, get, b'{"seq": 1}'), Refusal)
    info = f"STREAM.INFO.{checks}"
    assert isinstance(judge(CHECK, info, b'{"subjects_filter": ">"}'), Refusal)


def test_executors_of_a_namespace_take_others_nothing() -> None:
    """Dispatch and claims of their own namespaces; what else is said goes by the accounts' imports."""
    assert isinstance(create(TEAM, NAMES.bucket("dispatch")), Refusal)
    mine = "$KV.sluice_main_dispatch.blue.>"
    assert isinstance(create(TEAM, NAMES.bucket("dispatch"), filter_subject=mine), Forward)
    assert "sluice.main.job.blue.>" in TEAM.offers
    assert not [subject for subject in (*TEAM.says, *TEAM.offers) if subject.endswith("job.>")]


def test_buckets_and_heartbeats_of_agents() -> None:
    """Lost ones are made as they must be; keys are removed one kind at a time, and from nowhere else."""
    assert judge(AGENT, f"STREAM.CREATE.{NAMES.bucket('claims')}", b'{"max_msgs": 1}') == Make("claims")
    assert isinstance(judge(AGENT, f"STREAM.CREATE.{LOG}", b"{}"), Refusal)
    assert isinstance(judge(AGENT, f"STREAM.UPDATE.{NAMES.bucket('claims')}", b"{}"), Refusal)
    heartbeats = NAMES.bucket("heartbeats")
    body = {"filter": "$KV.sluice_main_heartbeats.agent.x"}
    assert isinstance(judge(AGENT, f"STREAM.PURGE.{heartbeats}", json.dumps(body).encode()), Forward)
    for stream, more in ((LOG, {}), (heartbeats, {"keep": 0}), (heartbeats, {"filter": "$KV.>"})):
        asked = json.dumps(body | more).encode()
        assert isinstance(judge(AGENT, f"STREAM.PURGE.{stream}", asked), Refusal)


words = st.lists(st.sampled_from(["a", "b", "*", ">", "c"]), min_size=1, max_size=4)


@given(words, words, st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_what_is_covered_is_matched(wide: list[str], narrow: list[str], subject: list[str]) -> None:
    """No subject that the narrow pattern matches escapes the wide one."""

    def matches(pattern: list[str]) -> bool:
        for index, part in enumerate(pattern):
            if part == ">":
                return len(subject) > index
            if index >= len(subject) or part not in ("*", subject[index]):
                return False
        return len(pattern) == len(subject)

    if covers(".".join(wide), ".".join(narrow)) and matches(narrow):
        assert matches(wide)


@given(
    st.sampled_from([*GATE_REQUESTS, "CONSUMER.CREATE", "", "STREAM", "CONSUMER.CREATE.SLUICE_main"]),
    st.text("abcS._*>$", max_size=30),
    st.binary(max_size=60) | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.dictionaries(st.sampled_from(["config", "name", "filter", "seq"]), inner)
        | st.lists(inner, max_size=3),
        max_leaves=6,
    ).map(lambda value: json.dumps(value).encode()),
)  # fmt: skip
def test_any_request_gets_a_judgement(form: str, name: str, body: bytes) -> None:
    """No bytes end the gate; and nothing is forwarded but to what the party may read or remove."""
    for party in (VIEWER, AGENT, CHECK, TEAM):
        found = judge(party, form.replace("*", name).replace(">", name), body, NAME)
        if isinstance(found, Forward):
            streams = (*party.reads, *(NAMES.bucket(what) for what in party.makes))
            assert any(f".{stream}" in found.subject for stream in streams)
