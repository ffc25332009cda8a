"""Everything that reads what others have written, as functions of bytes; and bytes that are hard to read.

A reader returns, or raises what its callers expect (`EXPECTED`), for any bytes; and its time grows with their
number. `tests/fuzz` tries the first, `tests/bench/parsers.py` shows the second.
"""

import io
from collections.abc import Callable
from functools import partial
from typing import Any

from sluice.api.decode import decode_json
from sluice.api.errors import InvalidError
from sluice.api.quantity import QuantityError, parse
from sluice.api.yaml import YamlTextError, decode_yaml, plain_documents
from sluice.cli.commands.log import log as log_commands
from sluice.cli.kit.table import one_line
from sluice.cli.kit.terminal import plain, printable
from sluice.core.checks.intake import presence as read_controller
from sluice.core.checks.intake import verdict
from sluice.core.deciders import DECIDERS
from sluice.core.slices.intake import inbound
from sluice.core.slices.intake import presence as read_agent
from sluice.core.slices.submission import Submission
from sluice.core.slices.submission import read as read_submission
from sluice.events.codec import CommitDecodeError, decode_commit, decode_message
from sluice.events.envelope import Message
from sluice.log.cell import CellFold
from sluice.log.contract import Entry
from sluice.log.errors import EventLogError
from sluice.log.inflating import inflated
from sluice.log.nats.jetstream import read_ack
from sluice.log.nats.protocol import Parser, description_of, headers_of, status_of
from sluice.log.runtime import lease, snapshot
from sluice.log.runtime.presence import names_of
from sluice.protocol.heartbeats import heartbeat_of
from sluice.protocol.subjects import job_of, nobody_reads
from sluice.readmodel import selector
from sluice.readmodel.world import World
from sluice.replay.source import json_lines, log_file, partial_decode
from sluice.sdk import _questions
from sluice.sdk.checks import _lease, _verdict_messages

from .whole_services import heard

Reader = Callable[[bytes], object]

EXPECTED: tuple[type[Exception], ...] = (
    CommitDecodeError,
    EventLogError,
    InvalidError,
    QuantityError,
    YamlTextError,
    json_lines.LineError,
    log_file.LogFileError,
    selector.SelectorError,
)


REPORTS = ("JobScaled", "JobPodsReady", "JobPodsReclaimable", "JobStopped", "JobFinished", "JobDeleted")


def _job(data: bytes) -> object:
    found = inbound(Message(subject="job.default.a", payload=data), 1, 1)[1]
    return found.event_type, found.message_id, found.data, found.errors, found.plain


def _submission(data: bytes) -> object:
    found = inbound(Message(subject="job.default.a", payload=_about("JobSubmitted", data)), 1, 1)[1].data
    return read_submission(found, {}) if isinstance(found, Submission) else None


def _report(kind: str, data: bytes) -> object:
    return _job(_about(kind, data))


def _about(kind: str, data: bytes) -> bytes:
    return b'{"specversion":"1.0","id":"1","source":"s","type":"%s","data":%s}' % (kind.encode(), data)


def _subject(data: bytes) -> object:
    suffix = data.decode(errors="backslashreplace")
    message = Message(subject=suffix, payload=_about("Seen", b"{}"))
    job_of(suffix), nobody_reads(suffix)
    return (
        inbound(message, 1, 1)[1].data,
        read_agent(message, 1),
        read_controller(message, 1),
        verdict(message, 1),
    )


def _world(suffix: str, data: bytes) -> object:
    world = World()
    world.fold([Entry(1, suffix or data.decode(errors="backslashreplace"), 1, data)])
    return world.jobs.rejected


def _frames(data: bytes) -> object:
    # What the server says is trusted for its form; what is in the frames is not.
    block = b"NATS/1.0\r\n" + data
    return Parser().feed(b"HMSG a 1 %d %d\r\n%s\r\n" % (len(block), len(block), block)), headers_of(data)


def _state(decider: Any, data: bytes) -> object:
    try:
        return decider.load(data)
    except (EventLogError, OSError, ValueError, *snapshot.MISSHAPEN):
        return None  # as `Snapshots.newest_as` does


def _snapshot(data: bytes) -> object:
    try:
        return inflated(data, 1_000)
    except ValueError:
        return None


def _log_file(data: bytes) -> object:
    file = io.BytesIO(data)
    _, head = log_file.read_header(file)
    return [
        list(log_file.entries_of(raw, block)) for block, raw in log_file.blocks(file, lambda _: True, head)
    ]


def _terminal(data: bytes) -> object:
    text = data.decode(errors="replace")
    return printable(text), plain(text), one_line(text, 100)


def _shown(suffix: str, data: bytes) -> object:
    entry = Entry(1, suffix, 1, data)
    shown = log_commands._Shown("text", "")
    return list(shown._lines(entry)), log_commands._whole(entry)


READERS: dict[str, Reader] = {
    "envelope": decode_message,
    "subject": _subject,
    "job": _job,
    "submission": _submission,
    **{kind: partial(_report, kind) for kind in REPORTS},
    "verdict": lambda data: verdict(Message(subject="verdict.c", payload=data), 1),
    "verdict data": lambda data: verdict(
        Message(subject="verdict.c", payload=_about("CheckVerdict", data)), 1
    ),
    "verdict, read back": _verdict_messages.decode,
    "agent": lambda data: read_agent(Message(subject="presence.agent.a", payload=data), 1),
    "controller": lambda data: read_controller(Message(subject="presence.controller.a", payload=data), 1),
    "commit": lambda data: decode_commit(data, "scheduler", 2),
    "commit, its steps": lambda data: partial_decode.read_told_steps(data, 2),
    "commit, its times": lambda data: partial_decode.read_times(data, "scheduler", 2),
    "manifest, JSON": decode_json,
    "manifest, YAML": decode_yaml,
    "plain YAML": lambda data: list(plain_documents(data)),
    "quantity": lambda data: parse(data.decode(errors="replace")),
    "selector of labels": lambda data: selector.Selector(data.decode(errors="replace"), ""),
    "selector of fields": lambda data: selector.Selector("", data.decode(errors="replace")),
    "frame": _frames,
    "status": lambda data: (status_of(b"NATS/1.0 " + data), description_of(b"NATS/1.0 " + data + b"\r\n")),
    "acknowledgement": lambda data: read_ack("job.a", 1, data),
    "heartbeat": lambda data: (heartbeat_of("a", data), _lease._holder("a", data)),
    "heartbeat's key": lambda data: names_of({data.decode(errors="replace"): 1}, "agent."),
    "claim": _questions._claim,
    "dispatch entry": lambda data: _questions._entry("a.b", data),
    "lease": lease._leader,
    "report, read back": lambda data: _questions._told(1, data),
    "snapshot": _snapshot,
    **{f"state of {decider.__name__}": partial(_state, decider()) for decider in (*DECIDERS, CellFold)},
    "log file": _log_file,
    "log file, behind its beginning": lambda data: _log_file(b"SLUICE-LOG 1\n" + data),
    "lines": lambda data: list(json_lines.read(data.splitlines(keepends=True))),
    "world: job": partial(_world, "job.default.a"),
    "world: presence": partial(_world, "presence.agent.a"),
    "world: commit": partial(_world, "slices"),
    "world: subject": partial(_world, ""),
    "services: job": partial(heard, "job.default.a"),
    "services: submission": lambda data: heard("job.default.x", _about("JobSubmitted", data)),
    **{
        f"services: {kind}": partial(lambda kind, data: heard("job.default.a", _about(kind, data)), kind)
        for kind in REPORTS
    },
    "services: verdict": lambda data: heard("verdict.ctl-c", _about("CheckVerdict", data)),
    "services: presence": partial(heard, "presence.agent.one"),
    "services: presence of a controller": partial(heard, "presence.controller.ctl-c"),
    "services: commit": partial(heard, "config"),
    "services: subject": lambda data: heard(
        data.decode(errors="backslashreplace") or "job.default.a", _about("Seen", b"{}")
    ),
    "terminal": _terminal,
    "log tail: job": partial(_shown, "job.default.a"),
    "log tail: commit": partial(_shown, "scheduler"),
}


def _envelope(more: bytes) -> bytes:
    return b'{"specversion":"1.0","id":"1","source":"s","type":"JobSubmitted",%s}' % more


def _job_manifest(
    labels: bytes = b"", cpu: bytes = b"1", containers: bytes = b"", spec: bytes = b""
) -> bytes:
    queue = b'"kueue.x-k8s.io/queue-name":"q"'
    return (
        b'{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a","namespace":"default",'
        b'"labels":{%s}},"spec":{%s"template":{"spec":{"containers":['
        b'{"name":"c","image":"i","resources":{"requests":{"cpu":"%s"}}}%s]}}}}'
        % (b",".join(filter(None, (queue, labels))), spec, cpu, containers)
    )


def _many(item: bytes, n: int) -> bytes:
    """Return numbered items of about so many bytes."""
    return b",".join(item.replace(b"#", b"%d" % i) for i in range(n // (len(item) + 5)))


SHAPES: dict[str, Callable[[int], bytes]] = {
    "zeros": bytes,
    "letters": lambda n: b"a" * n,
    "digits": lambda n: b"1" * n + b"x",
    "blanks": lambda n: b"a" + b" " * n + b"b",
    "quotes": lambda n: b'"' * n,
    "backslashes": lambda n: b'"' + b"\\" * n,
    "brackets": lambda n: b"[" * n,
    "pairs": lambda n: b"[]," * (n // 3),
    "braces": lambda n: b'{"a":' * (n // 5),
    "commas": lambda n: b"," * n,
    "commas and letters": lambda n: b"a," * (n // 2),
    "parentheses": lambda n: b"a in (" + b"a," * (n // 2),
    "dots": lambda n: b"job." + b"." * n,
    "percents": lambda n: b"job.default.%" + b"F" * n,
    "escapes": lambda n: b"\x1b[" * (n // 2),
    "steering": lambda n: b"\x1b]" + b";" * n,
    "lines": lambda n: b"a: b\r\n" * (n // 6),
    "colons": lambda n: b"a:" * (n // 2),
    "anchors": lambda n: b"a: &a [*a]\n" * (n // 11),
    "not UTF-8": lambda n: b"\xff" * n,
    "keys": lambda n: b"{%s}" % b",".join(b'"k%d":1' % i for i in range(n // 10)),
    "unknown field": lambda n: _envelope(b'"x":"%s"' % (b"a" * n)),
    "field named as an error": lambda n: b'{"podSets":{"%s":"x"}}' % (b" - at `$" * (n // 8)),
    "value named as an error": lambda n: b'{"specversion":"%s"}' % (b" - at `$" * (n // 8)),
    "missing fields": lambda n: b"[%s]" % b",".join([b"{}"] * (n // 3)),
    "text in data": lambda n: _envelope(b'"data":"%s"' % (b"a" * n)),
    "escaped text in data": lambda n: _envelope(b'"data":"%s"' % (b'\\"[' * (n // 3))),
    "manifest": lambda n: _job_manifest(b'"%s":"x"' % (b"a" * n)),
    "manifest of many labels": lambda n: _job_manifest(b",".join(b'"k%d":"x"' % i for i in range(n // 10))),
    "unknown fields": lambda n: _job_manifest(spec=_many(b'"x#":1', n) + b","),
    "fields misspelt": lambda n: _job_manifest(spec=_many(b'"paralelism#":1', n) + b","),
    "containers": lambda n: _job_manifest(containers=b"," + _many(b'{"name":"c#"}', n)),
    "containers of one name": lambda n: _job_manifest(containers=b"," + _many(b'{"name":"c"}', n)),
    "containers that are none": lambda n: _job_manifest(containers=b"," + _many(b"#", n)),
    "containers with unknown fields": lambda n: _job_manifest(containers=b"," + _many(b'{"nmae":#}', n)),
    "huge integers": lambda n: _job_manifest(containers=b"," + _many(b"#99999999999999999999", n)),
    "one huge integer": lambda n: b'{"apiVersion":"batch/v1","kind":"Job","spec":%s}' % (b"9" * n),
    "pod sets": lambda n: b'{"podSets":{%s}}' % _many(b'"#":"x"', n),
    "pod sets of numbers": lambda n: (
        b'{"podSets":{%s},"message":"%s"}' % (_many(b'"#":-1', n // 2), b"m" * (n // 2))
    ),
    "updates": lambda n: (
        b'{"workload":"a/b","check":"c","attempt":1,"state":"Ready","podSetUpdates":[%s]}'
        % _many(b'{"name":"#","labels":{"a":1}}', n)
    ),
    "nodes": lambda n: b'{"workload":"a/b","x":[%s]}' % _many(b"[#]", n),
    "under a long key": lambda n: b"? %s\n: {%s}" % (b"a" * (n // 2), _many(b'"k#":{}', n // 2)),
    "twice under a long key": lambda n: b"? %s\n: {%s}" % (b"a" * (n // 2), _many(b'"k":1', n // 2)),
    "quantities": lambda n: _job_manifest(b'"a":"b"', b"1" * n + b"x"),
}
"""By name, bytes of about a size: those on which one way or another of reading takes long."""


def read(reader: Reader, data: bytes) -> object:
    """Return what the reader makes of it, None if it refuses it as it may."""
    try:
        return reader(data)
    except EXPECTED:
        return None
