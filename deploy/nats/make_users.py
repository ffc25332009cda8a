"""Writes `users.conf`: who may say what on the server of a cell. One writer per subject (law 3).

    python deploy/nats/make_users.py --cell main > deploy/nats/users.conf

Run it again for a cell with another name, or after a change here; a test keeps the file in step. Each
`--controller NAME` adds the user `check_<NAME>` for a controller of admission checks.
"""

import argparse
import string
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

HEAD = """\
# Users of the cell {cell!r}. Written by make_users.py; change it there.
#
# Passwords come from the server's environment, SLUICE_<USER>_PASSWORD. They begin with a letter (else the
# server reads a number) and hold nothing that a URL would have to escape.
"""


BUDGET = "sluice.dev/budget"
"""Answers how budgets stand."""
SAVING = (BUDGET,)
"""Controllers that save what they have computed from the log, so that a start is short."""


@dataclass
class Role:
    """One user. `publish` and `subscribe` are subjects; what is not named is refused."""

    user: str
    what: str
    publish: list[str] = field(default_factory=list)
    subscribe: list[str] = field(default_factory=lambda: ["_INBOX.>"])
    answers: bool = False
    """Answers requests, so it may publish once to whoever asks."""


class Names:
    """Streams, buckets and subjects of a cell; spelt as `sluice.protocol.subjects` spells them."""

    def __init__(self, cell: str) -> None:
        self.prefix = f"sluice.{cell}."
        self.log = f"SLUICE_{cell}"
        self.bucket_prefix = f"sluice_{cell}_"

    def bucket(self, what: str) -> str:
        return f"KV_{self.bucket_prefix}{what}"

    def key(self, what: str, keys: str) -> str:
        return f"$KV.{self.bucket_prefix}{what}.{keys}"

    @property
    def snapshots(self) -> str:
        return f"OBJ_{self.bucket_prefix}snapshots"


def reading(stream: str) -> list[str]:
    """Return the requests with which a stream is read."""
    api = "$JS.API"
    return [
        f"{api}.STREAM.INFO.{stream}",
        f"{api}.STREAM.MSG.GET.{stream}",
        f"{api}.CONSUMER.CREATE.{stream}.>",
        f"{api}.CONSUMER.MSG.NEXT.{stream}.>",
        f"{api}.CONSUMER.DELETE.{stream}.>",
    ]


def making(*streams: str) -> list[str]:
    """Return the requests with which streams are looked up, and made if they are not there."""
    return [f"$JS.API.STREAM.{verb}.{stream}" for stream in streams for verb in ("INFO", "CREATE")]


def opening(names: Names) -> list[str]:
    """Return what a service asks that opens the log: the first makes it, or adds subjects of newer code."""
    return [*reading(names.log), f"$JS.API.STREAM.CREATE.{names.log}", f"$JS.API.STREAM.UPDATE.{names.log}"]


def decider(names: Names, service: str, writer: str, what: str) -> Role:
    """Return the role of a service around a decider: its own commits, its lease, snapshots."""
    snapshots, leases = names.snapshots, names.bucket("leases")
    return Role(
        service,
        what,
        publish=[
            f"{names.prefix}{writer}",
            *opening(names),
            names.key("leases", service),
            *making(leases),
            f"$JS.API.STREAM.MSG.GET.{leases}",
            f"$O.{names.bucket_prefix}snapshots.>",
            *making(snapshots)[1:],
            *reading(snapshots),
            f"$JS.API.CONSUMER.CREATE.{snapshots}",
            f"$JS.API.STREAM.PURGE.{snapshots}",
            "$JS.API.STREAM.NAMES",
            "$JS.FC.>",
            "$SRV.STATS",
        ],
        subscribe=["_INBOX.>", "$SRV.>", f"{names.prefix}control.{service}.*"],
        answers=True,
    )


def roles(cell: str) -> Iterator[Role]:
    """Yield every user of a cell."""
    names = Names(cell)
    prefix = names.prefix

    yield decider(names, "scheduler", "scheduler", "The scheduler: quota, and nothing else")

    yield decider(names, "variant_controller", "variants", "The variant-controller: variants and parents")

    slices = decider(names, "slice_aggregator", "slices", "The slice-aggregator: jobs, workloads, dispatch")
    dispatch, heartbeats = names.bucket("dispatch"), names.bucket("heartbeats")
    slices.publish += [
        f"{prefix}presence.agent.*",
        names.key("dispatch", ">"),
        *making(dispatch)[1:],
        *reading(dispatch),
        *making(heartbeats),
        f"$JS.API.STREAM.MSG.GET.{heartbeats}",
    ]
    yield slices

    checks = decider(names, "admission_check", "checks", "The admission-check service: states of checks")
    requests = names.bucket("checks")
    checks.publish += [
        f"{prefix}presence.controller.*",
        names.key("checks", ">"),
        *making(requests)[1:],
        *reading(requests),
        *making(heartbeats),
        f"$JS.API.STREAM.MSG.GET.{heartbeats}",
    ]
    yield checks

    yield Role(
        "api",
        "The api service: configuration, and answers to queries",
        publish=[f"{prefix}config", *opening(names), "$SRV.STATS"],
        subscribe=["_INBOX.>", "$SRV.>", f"{prefix}api.>", f"{prefix}query.>"],
        answers=True,
    )

    claims = names.bucket("claims")
    yield Role(
        "agent",
        "Agents and other executors: run what dispatch says, and report it",
        publish=[
            f"{prefix}job.>",
            *reading(names.log),
            *reading(dispatch),
            names.key("claims", ">"),
            *making(claims)[1:],
            *reading(claims),
            names.key("heartbeats", "agent.*"),
            *making(heartbeats)[1:],
            *reading(heartbeats),
            # Takes its own heartbeat back when it stops.
            f"$JS.API.STREAM.PURGE.{heartbeats}",
            "$SRV.STATS",
        ],
        subscribe=["_INBOX.>", "$SRV.>"],
        answers=True,
    )

    yield Role(
        "upstream",
        "Upstream systems: publish job events, and may follow what becomes of them",
        publish=[f"{prefix}job.>", *reading(names.log), *reading(dispatch)],
    )

    asking = [f"{prefix}query.>", "$SRV.PING", "$SRV.STATS", f"{prefix}control.*.*"]
    yield Role(
        "admin",
        "People who run the cell: the whole `sluice` command",
        publish=[
            f"{prefix}api.>",
            f"{prefix}job.>",
            # `sluice check approve`: people answer for the controller.
            f"{prefix}verdict.*",
            *asking,
            *reading(names.log),
            *reading(dispatch),
            *reading(requests),
            *reading(heartbeats),
        ],
    )
    yield Role(
        "viewer",
        "People who look: `sluice get`, `describe`, `log`, `status`",
        publish=[*asking, *reading(names.log), *reading(requests), *reading(heartbeats)],
    )


def plug_in(cell: str, controller: str) -> Role:
    """Return the user of a controller of admission checks: it answers as itself, and as nobody else."""
    names = Names(cell)
    heartbeats, requests = names.bucket("heartbeats"), names.bucket("checks")
    snapshots = names.snapshots
    saving = [
        f"$O.{names.bucket_prefix}snapshots.>",
        *making(snapshots)[1:],
        *reading(snapshots),
        f"$JS.API.STREAM.PURGE.{snapshots}",
    ]
    return Role(
        "check_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in controller),
        f"The controller {controller} of admission checks: its own verdicts and heartbeat",
        publish=[
            f"{names.prefix}verdict.{escaped(controller, '%', '_')}",
            names.key("heartbeats", f"controller.{escaped(controller, '=')}"),
            *making(heartbeats)[1:],
            *reading(heartbeats),
            # Takes its own heartbeat back when it stops.
            f"$JS.API.STREAM.PURGE.{heartbeats}",
            *reading(requests),
            # Some compute what they say from the log, or from configuration.
            *reading(names.log),
            f"{names.prefix}query.>",
            # What other clients' key-value watches ask and answer.
            "$JS.API.INFO",
            "$JS.FC.>",
            "$SRV.STATS",
            *(saving if controller in SAVING else ()),
        ],
        subscribe=["_INBOX.>", "$SRV.>", *([f"{names.prefix}query.budgets"] if controller == BUDGET else ())],
        answers=True,
    )


def escaped(name: str, sign: str, plain: str = "") -> str:
    """Return *name* as one token: as the log's subjects have it with `%`, as keys of buckets with `=`."""
    kept = frozenset((string.ascii_letters + string.digits + "-" + plain).encode())
    return "".join(chr(byte) if byte in kept else f"{sign}{byte:02X}" for byte in name.encode())


def render(cell: str, controllers: Iterable[str] = ()) -> str:
    """Return the file for *cell*, with a user for each of the *controllers* of admission checks."""
    lines = [HEAD.format(cell=cell), "accounts {", "  SLUICE {", "    jetstream: enabled", "    users: ["]
    for role in (*roles(cell), *(plug_in(cell, name) for name in controllers)):
        lines += [
            f"      # {role.what}.",
            "      {",
            f"        user: {role.user}",
            f"        password: $SLUICE_{role.user.upper()}_PASSWORD",
            "        permissions: {",
            *_subjects("publish", role.publish),
            *_subjects("subscribe", role.subscribe),
        ]
        if role.answers:
            lines.append('          allow_responses: {max: 1, expires: "1m"}')
        lines += ["        }", "      }"]
    lines += ["    ]", "  }", "}"]
    return "\n".join(lines) + "\n"


def _subjects(verb: str, subjects: list[str]) -> list[str]:
    return [
        f"          {verb}: [",
        *(f'            "{subject}"' for subject in dict.fromkeys(subjects)),
        "          ]",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the users of a cell's NATS server.")
    parser.add_argument("--cell", default="main", help="name of the cell (default: main)")
    parser.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="NAME",
        help="add a user for a controller of admission checks, as AdmissionChecks name it; may be repeated",
    )
    given = parser.parse_args()
    sys.stdout.write(render(given.cell, given.controller))


if __name__ == "__main__":
    main()
