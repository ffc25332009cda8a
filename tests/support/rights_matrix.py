"""Who may do what, one by one: each subject, each request to JetStream, of each stream and bucket.

Made of the same roles as the server's configuration. `tests/integration/deploy/test_matrix.py` tries each on
a server; docs/rights.md prints it.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from sluice.events.codec import encode_message
from sluice.protocol.cells import end_of_names, hold_controller
from sluice.rights.gate_policy import Refusal, covers, judge
from sluice.rights.names import API, Names, escaped
from sluice.rights.parties import Party, Service, services
from sluice.rights.roles import Roles, User, parties_of, services_of
from sluice.services.gate.offers import Taken, judge_offer

CONTROLLER, NAMESPACE = "example.com/hello", "red"
"""The controller of checks, and the namespace, that stand for all of them."""
MANAGER = "hub"
"""A cell that places jobs in this one."""
USERS = (
    User(name="admin", role="operator"),
    User(name="viewer", role="viewer"),
    User(name="upstream", role="publisher"),
    User(name="team", role="team", namespaces=[NAMESPACE]),
    User(name="follower", role="team", namespaces=[NAMESPACE], follows=True),
    User(name="agent", role="executor"),
    User(name="pool", role="executor", namespaces=[NAMESPACE]),
    User(name="check_hello", role="controller", controller=CONTROLLER),
    User(name="link", role="manager", manager=MANAGER),
)
"""One of each role."""
NAME, PUSHED, UNMADE = "n" * 32, "p" * 32, "u" * 32
"""Of consumers; the last one is never made, so that only who listens in the test answers for it."""


class Probe(NamedTuple):
    """One thing that somebody might do. *about*: a stream, or "" for what is said to whoever listens."""

    about: str
    what: str
    subject: str
    body: bytes = b""


def everybody(cell: str) -> list[Service | Party]:
    """Return all services of a cell, and one party of each role."""
    own = [User(name=one.user, role="service") for one in services(cell)]
    roles = Roles(cell=cell, users=[*own, *USERS])
    return [*services_of(roles), *parties_of(roles)]


def _said(event_type: str) -> bytes:
    return encode_message(message_id="m", source="test", event_type=event_type, subject="x", at=1, data={})


def probes(cell: str) -> Iterator[Probe]:
    """Yield everything there is to be tried."""
    names = Names(cell)
    prefix = names.prefix
    own, other = escaped(CONTROLLER, "%", "_"), "other"
    managed, hold = f"{NAMESPACE}.x{end_of_names(MANAGER)}", hold_controller(MANAGER)
    for what, job, event in (
        (f"`job.{NAMESPACE}.<name>`: submit it, delete it", f"{NAMESPACE}.x", "JobSubmitted"),
        (f"`job.{NAMESPACE}.<name>`: report that it has ended", f"{NAMESPACE}.x", "JobFinished"),
        ("`job.<another namespace>.<name>`: submit it, delete it", "other.x", "JobSubmitted"),
        ("`job.<another namespace>.<name>`: report that it has ended", "other.x", "JobFinished"),
        (f"`job.<namespace>.<name>` of `{MANAGER}`: submit it, delete it", managed, "JobSubmitted"),
        (f"`job.<namespace>.<name>` of `{MANAGER}`: report that it has ended", managed, "JobFinished"),
        (f"`job.<namespace>.<name>` of `{MANAGER}`: change its size", managed, "JobScaled"),
    ):
        yield Probe("", what, f"{prefix}job.{job}", _said(event))
    for what, suffix in (
        *(
            (f"`{writer}`, commits", writer)
            for writer in ("config", "slices", "variants", "scheduler", "checks")
        ),
        (f"`verdict.<controller>` of `{CONTROLLER}`", f"verdict.{own}"),
        (f"`verdict.<controller>` of `{hold}`", f"verdict.{escaped(hold, '%', '_')}"),
        ("`verdict.<controller>` of another", f"verdict.{other}"),
        ("`presence.agent.<name>`", "presence.agent.x"),
        ("`presence.controller.<name>`", "presence.controller.x"),
        ("`api.apply`, `api.delete`: change the configuration", "api.apply"),
        ("`query.list`, `watch`, `history`, `why`: ask the api service", "query.list"),
        ("`query.status` and others", "query.status"),
        ("`control.<service>.status`: ask a service", "control.scheduler.status"),
        ("`gate.*`: ask the gate as somebody else", "gate.admin.STREAM.INFO.x"),
        ("`party.*`: offer something as somebody else", f"party.team.job.{NAMESPACE}.x"),
    ):
        yield Probe("", what, prefix + suffix)
    yield Probe("", "`$SRV.PING`: ask which services there are", "$SRV.PING")
    yield Probe("", "`$SRV.STATS`: ask them how they are", "$SRV.STATS")
    yield Probe("", "`_INBOX.*`: answer what nobody asked", "_INBOX.x.y")
    for what, bucket, key in (
        ("a key of `leases`", "leases", "scheduler"),
        ("a key of `dispatch`", "dispatch", "default.x"),
        ("a key of `checks`", "checks", "a.b.c.d"),
        (f"a key of `claims`: of a job of {NAMESPACE}", "claims", f"{NAMESPACE}.x.u.1"),
        ("a key of `claims`: of another namespace's", "claims", "other.x.u.1"),
        ("`agent.<name>` of `heartbeats`: an agent of `pool`", "heartbeats", "agent.pool-1"),
        ("`agent.<name>` of `heartbeats`: another agent", "heartbeats", "agent.x"),
        (
            f"`controller.<name>` of `heartbeats`: {CONTROLLER}",
            "heartbeats",
            f"controller.{escaped(CONTROLLER, '=')}",
        ),
        (
            f"`controller.<name>` of `heartbeats`: {hold}",
            "heartbeats",
            f"controller.{escaped(hold, '=')}",
        ),
        ("`controller.<name>` of `heartbeats`: another", "heartbeats", "controller.other"),
    ):
        yield Probe("", f"write {what}", names.key(bucket, key))
    yield Probe("", "write a snapshot", f"$O.{names.bucket_prefix}snapshots.C.x")
    buckets = [names.bucket(what) for what in ("dispatch", "checks", "claims", "heartbeats", "leases")]
    yield Probe("", "write a base", f"$O.{names.bucket_prefix}bases.C.x")
    for stream in (names.log, *buckets, names.snapshots, names.bases):
        yield from _requests(names, stream)
    yield Probe("JetStream", "`INFO`: limits of the account", f"{API}INFO")
    yield Probe("JetStream", "`STREAM.NAMES`, `STREAM.LIST`", f"{API}STREAM.NAMES")
    yield Probe("JetStream", "`ACCOUNT.PURGE` and the like", f"{API}ACCOUNT.PURGE.SLUICE")


def _requests(names: Names, stream: str) -> Iterator[Probe]:
    everything = f"$KV.{stream.removeprefix('KV_')}.>" if stream.startswith("KV_") else ">"

    def made(**config: Any) -> bytes:
        return json.dumps(
            {"stream_name": stream, "config": {"name": NAME, "ack_policy": "none"} | config}
        ).encode()

    key = names.key("heartbeats", "agent.x").encode()
    own = {
        names.log: f"{names.prefix}job.{NAMESPACE}.",
        names.bucket("dispatch"): names.key("dispatch", f"{NAMESPACE}."),
        names.bucket("claims"): names.key("claims", f"{NAMESPACE}."),
    }.get(stream, "")
    for what, request, body in (
        ("`STREAM.INFO`", "STREAM.INFO.{}", b""),
        ("`STREAM.MSG.GET` of any message", "STREAM.MSG.GET.{}", b'{"seq": 1}'),
        (
            f"`STREAM.MSG.GET` of the last one of a job of {NAMESPACE}",
            "STREAM.MSG.GET.{}",
            b'{"last_by_subj": "%sx"}' % own.encode(),
        ),
        ("`DIRECT.GET`", "DIRECT.GET.{}", b'{"seq": 1}'),
        ("`CONSUMER.CREATE`, pulled", f"CONSUMER.CREATE.{{}}.{NAME}", made(filter_subject=everything)),
        (
            f"`CONSUMER.CREATE`, pulled, of jobs of {NAMESPACE}",
            f"CONSUMER.CREATE.{{}}.{NAME}",
            made(filter_subject=f"{own}>"),
        ),
        (
            "`CONSUMER.CREATE`, pushed",
            f"CONSUMER.CREATE.{{}}.{PUSHED}",
            made(name=PUSHED, deliver_subject="sluice.x"),
        ),
        ("`CONSUMER.DURABLE.CREATE`", f"CONSUMER.DURABLE.CREATE.{{}}.{NAME}", made(durable_name=NAME)),
        ("`CONSUMER.MSG.NEXT`", f"CONSUMER.MSG.NEXT.{{}}.{UNMADE}", b""),
        ("`CONSUMER.INFO`", f"CONSUMER.INFO.{{}}.{NAME}", b""),
        ("`CONSUMER.DELETE`, by a name known", f"CONSUMER.DELETE.{{}}.{NAME}", b""),
        ("`CONSUMER.NAMES`, `CONSUMER.LIST`", "CONSUMER.NAMES.{}", b""),
        ("`STREAM.CREATE`", "STREAM.CREATE.{}", b"{"),
        ("`STREAM.UPDATE`", "STREAM.UPDATE.{}", b"{"),
        ("`STREAM.PURGE`", "STREAM.PURGE.{}", b""),
        ("`STREAM.PURGE` of an agent's heartbeat", "STREAM.PURGE.{}", b'{"filter": "%s"}' % key),
        ("`STREAM.DELETE`", "STREAM.DELETE.{}", b""),
        ("`STREAM.MSG.DELETE`", "STREAM.MSG.DELETE.{}", b'{"seq": 1}'),
        ("`STREAM.SNAPSHOT`", "STREAM.SNAPSHOT.{}", b""),
    ):
        if ("heartbeat" not in what or stream.endswith("heartbeats")) and (NAMESPACE not in what or own):
            yield Probe(stream, what, API + request.format(stream), body)


def suffix_of(subject: str) -> str:
    """Return what the gate is told: what follows the cell's name, or all of a key."""
    return subject if subject.startswith("$KV.") else subject.split(".", 2)[2]


def allowed(one: Service | Party, probe: Probe) -> bool:
    """Tell whether somebody may do that."""
    if isinstance(one, Service):
        return any(covers(pattern, probe.subject) for pattern in one.publish)
    if not probe.subject.startswith(API):
        if any(covers(pattern, probe.subject) for pattern in one.offers):
            prefix = probe.subject[: -len(suffix_of(probe.subject))]
            return isinstance(judge_offer(one, prefix, suffix_of(probe.subject), b"", probe.body), Taken)
        return any(covers(pattern, probe.subject) for pattern in (*one.says, *one.asks))
    request = probe.subject.removeprefix(API)
    if request.startswith("CONSUMER.MSG.NEXT."):
        return request.split(".")[3] in one.reads
    # A bucket is made as it must be, so that what is asked does not matter.
    body = b"" if request.startswith("STREAM.CREATE.") else probe.body
    return not isinstance(judge(one, request, body, NAME), Refusal)
