"""Who may do what, one by one: each subject, each request to JetStream, of each stream and bucket.

Made of the same roles as the server's configuration. `tests/integration/deploy/test_matrix.py` tries each on
a server; docs/rights.md prints it.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sluice.rights.gate_policy import Refusal, covers, judge
from sluice.rights.names import API, Names, escaped
from sluice.rights.parties import Party, Service, parties, services

CONTROLLER = "example.com/hello"
"""The controller of checks that stands for all of them."""
NAME, PUSHED, UNMADE = "n" * 32, "p" * 32, "u" * 32
"""Of consumers; the last one is never made, so that only who listens in the test answers for it."""


class Probe(NamedTuple):
    """One thing that somebody might do. *about*: a stream, or "" for what is said to whoever listens."""

    about: str
    what: str
    subject: str
    body: bytes = b""


def everybody(cell: str, controllers: Sequence[str] = ()) -> list[Service | Party]:
    """Return all users of a cell."""
    return [*services(cell, controllers), *parties(cell, controllers)]


def probes(cell: str) -> Iterator[Probe]:
    """Yield everything there is to be tried."""
    names = Names(cell)
    prefix = names.prefix
    own, other = escaped(CONTROLLER, "%", "_"), "other"
    for what, suffix in (
        *(
            (f"`{writer}`, commits", writer)
            for writer in ("config", "slices", "variants", "scheduler", "checks")
        ),
        ("`job.<namespace>.<name>`", "job.default.x"),
        (f"`verdict.<controller>` of `{CONTROLLER}`", f"verdict.{own}"),
        ("`verdict.<controller>` of another", f"verdict.{other}"),
        ("`presence.agent.<name>`", "presence.agent.x"),
        ("`presence.controller.<name>`", "presence.controller.x"),
        ("`api.apply`, `api.delete`: change the configuration", "api.apply"),
        ("`query.*`: ask the api service", "query.list"),
        ("`control.<service>.status`: ask a service", "control.scheduler.status"),
        ("`gate.*`: ask the gate as somebody else", "gate.admin.STREAM.INFO.x"),
    ):
        yield Probe("", what, prefix + suffix)
    yield Probe("", "`$SRV.PING`: ask which services there are", "$SRV.PING")
    yield Probe("", "`$SRV.STATS`: ask them how they are", "$SRV.STATS")
    yield Probe("", "`_INBOX.*`: answer what nobody asked", "_INBOX.x.y")
    for what, bucket, key in (
        ("a key of `leases`", "leases", "scheduler"),
        ("a key of `dispatch`", "dispatch", "default.x"),
        ("a key of `checks`", "checks", "a.b.c.d"),
        ("a key of `claims`", "claims", "default.x.u.1"),
        ("`agent.<name>` of `heartbeats`", "heartbeats", "agent.x"),
        (
            f"`controller.<name>` of `heartbeats`: {CONTROLLER}",
            "heartbeats",
            f"controller.{escaped(CONTROLLER, '=')}",
        ),
        ("`controller.<name>` of `heartbeats`: another", "heartbeats", "controller.other"),
    ):
        yield Probe("", f"write {what}", names.key(bucket, key))
    yield Probe("", "write a snapshot", f"$O.{names.bucket_prefix}snapshots.C.x")
    buckets = [names.bucket(what) for what in ("dispatch", "checks", "claims", "heartbeats", "leases")]
    for stream in (names.log, *buckets, names.snapshots):
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
    for what, request, body in (
        ("`STREAM.INFO`", "STREAM.INFO.{}", b""),
        ("`STREAM.MSG.GET` of any message", "STREAM.MSG.GET.{}", b'{"seq": 1}'),
        ("`DIRECT.GET`", "DIRECT.GET.{}", b'{"seq": 1}'),
        ("`CONSUMER.CREATE`, pulled", f"CONSUMER.CREATE.{{}}.{NAME}", made(filter_subject=everything)),
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
        if "heartbeat" not in what or stream.endswith("heartbeats"):
            yield Probe(stream, what, API + request.format(stream), body)


def allowed(one: Service | Party, probe: Probe) -> bool:
    """Tell whether somebody may do that."""
    if isinstance(one, Service):
        return any(covers(pattern, probe.subject) for pattern in one.publish)
    if not probe.subject.startswith(API):
        return any(covers(pattern, probe.subject) for pattern in one.says)
    request = probe.subject.removeprefix(API)
    if request.startswith("CONSUMER.MSG.NEXT."):
        return request.split(".")[3] in one.reads
    # A bucket is made as it must be, so that what is asked does not matter.
    body = b"" if request.startswith("STREAM.CREATE.") else probe.body
    return not isinstance(judge(one, request, body, NAME), Refusal)
