"""Parties of a cell, and what each may do.

Services are the cell's own code: they share the account that has the log, each with its own subjects.
Everybody else is a *party* with an account of its own, from which only what is imported leads out: answers
come back into the party's own account, wherever a request wants them sent, and nobody sees another's inbox.
Who the parties of a cell are says its file of roles.

What a party says that carries its own right on its subject goes straight to the log; what has limits, as a
team's jobs, is offered to the gate. What a party asks of JetStream goes through the gate, too: a consumer
with a subject to deliver to could write what the party may not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.protocol.cells import CONTROLLERS, FOLLOWED, end_of_names, hold_controller

from .names import API, Names, escaped

__all__ = ["BUDGET", "BUDGET_USER", "Bounds", "Party", "Service", "account_of", "services"]

BUDGET = "sluice.dev/budget"
"""A controller that is a service: it answers how budgets stand, and saves what it has computed."""

BUDGET_USER = "check_budget"


REPORTS = ("JobPodsReady", "JobPodsReclaimable", "JobStopped", "JobFinished")
"""What executors say of jobs."""

WRITERS = ("config", "slices", "variants", "scheduler", "checks", "dispatch")
"""Who writes commits, each on the subject of its name."""

NARROWED = ("list", "watch", "history", "why")
"""Questions that can be answered of some namespaces only: they have a field `within`."""


@dataclass(frozen=True)
class Service:
    """One of the cell's own programs, by the subjects that it may use; what is not named is refused."""

    user: str
    what: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


@dataclass(frozen=True)
class Bounds:
    """What the gate holds the messages of a party to, before they are in the log."""

    kinds: tuple[str, ...] = ()
    """Events that it may say of its jobs; all if there are none."""
    queues: tuple[str, ...] = ()
    """Local queues that its jobs may name: `name`, or `namespace/name`; all if there are none."""
    ends: str = ""
    """What the names of its jobs end with."""
    per_s: float = 0
    """Messages a second, in the long run; 0: as many as come."""
    burst: int = 0
    """Messages at once; 0: those of a second."""
    max_bytes: int = 0
    """Most bytes of a message; 0: as the cell takes them."""


@dataclass(frozen=True)
class Party:
    """One that is not the cell's own, in an account of its own."""

    user: str
    what: str
    says: tuple[str, ...] = ()
    """Subjects that lead out of its account by themselves."""
    offers: tuple[str, ...] = ()
    """Subjects of which the gate looks at each message, and puts it in the log under an id of the party's."""
    bounds: Bounds = Bounds()
    """Of what it offers."""
    asks: tuple[str, ...] = ()
    """Questions to the api service that the gate narrows to its namespaces."""
    namespaces: tuple[str, ...] = ()
    """Those that it sees by these questions."""
    agents: str = ""
    """What the names of its agents begin with, as keys of buckets have it; "" where any name will do."""
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Streams that it may read, and which subjects of them; `>` is all."""
    makes: tuple[str, ...] = ()
    """Buckets that the gate makes for it, if they are lost: `claims`."""
    removes: tuple[str, ...] = ()
    """Keys of buckets that it may take back without a trace: `heartbeats` subjects."""


def account_of(user: str) -> str:
    """Return the name of a party's account."""
    return user.upper()


def reading(stream: str) -> list[str]:
    """Return the requests with which a service reads a stream."""
    return [
        f"{API}STREAM.INFO.{stream}",
        f"{API}STREAM.MSG.GET.{stream}",
        f"{API}CONSUMER.CREATE.{stream}.>",
        f"{API}CONSUMER.MSG.NEXT.{stream}.>",
        f"{API}CONSUMER.DELETE.{stream}.>",
    ]


def making(*streams: str) -> list[str]:
    """Return the requests with which streams are looked up, and made if they are not there.

    To make one that is there with other settings is refused, so this right changes nothing.
    """
    return [f"{API}STREAM.{verb}.{stream}" for stream in streams for verb in ("INFO", "CREATE")]


def saving(names: Names) -> list[str]:
    """Return what keeping snapshots needs."""
    snapshots = names.snapshots
    return [
        f"$O.{names.bucket_prefix}snapshots.>",
        *making(snapshots),
        *reading(snapshots),
        f"{API}STREAM.PURGE.{snapshots}",
    ]


def _archiving(names: Names) -> list[str]:
    """Return what making bases, saying so in the log, and cutting the log needs."""
    return [
        f"{names.prefix}presence.base.made",
        f"$O.{names.bucket_prefix}bases.>",
        *making(names.bases),
        *reading(names.bases),
        f"{API}STREAM.PURGE.{names.bases}",
        f"{API}STREAM.PURGE.{names.log}",
        *reading(names.snapshots),
    ]


def _service(user: str, what: str, publish: Iterable[str], *hears: str) -> Service:
    everything = [*publish, "$SRV.STATS"]
    return Service(user, what, tuple(dict.fromkeys(everything)), ("_INBOX.>", "$SRV.>", *hears))


def _decider(names: Names, user: str, writer: str, what: str, *more: str) -> Service:
    """Return the service around a decider: its own commits, its lease, snapshots."""
    leases = names.bucket("leases")
    publish = [
        f"{names.prefix}{writer}",
        *reading(names.log),
        *making(names.log),
        names.key("leases", user),
        *making(leases),
        f"{API}STREAM.MSG.GET.{leases}",
        *saving(names),
        *reading(names.bases),
        *more,
    ]
    return _service(user, what, publish, f"{names.prefix}control.{user}.*")


def _projecting(names: Names, bucket: str, kind: str) -> list[str]:
    stream, heartbeats = names.bucket(bucket), names.bucket("heartbeats")
    return [
        f"{names.prefix}presence.{kind}.*",
        names.key(bucket, ">"),
        *making(stream),
        *reading(stream),
        *making(heartbeats),
        f"{API}STREAM.MSG.GET.{heartbeats}",
    ]


def services(cell: str) -> Iterator[Service]:
    """Yield the cell's own programs; not every cell has the last one, a controller of admission checks."""
    names = Names(cell)
    yield _decider(names, "scheduler", "scheduler", "The scheduler: quota, and nothing else")
    yield _decider(names, "variant_controller", "variants", "The variant-controller: variants and parents")
    yield _decider(
        names,
        "slice_aggregator",
        "slices",
        "The slice-aggregator: jobs, workloads, dispatch",
        *_projecting(names, "dispatch", "agent"),
        # Makes the bucket of claims, and takes those away that are none.
        *making(names.bucket("claims")),
        *reading(names.bucket("claims")),
        f"{API}STREAM.PURGE.{names.bucket('claims')}",
    )
    yield _decider(
        names,
        "admission_check",
        "checks",
        "The admission-check service: states of checks",
        *_projecting(names, "checks", "controller"),
    )
    yield _dispatcher(names)
    log = [*reading(names.log), *making(names.log)]
    yield _service(
        "api",
        "The api service: configuration, and answers to queries",
        [f"{names.prefix}config", *log, *saving(names), *reading(names.bases)],
        f"{names.prefix}api.>",
        f"{names.prefix}query.>",
    )
    yield _gate(names)
    yield _service(
        "archivist",
        "Archives the log, and cuts it behind verified bases: the only service that may",
        [*log, *_archiving(names)],
    )
    yield Service(
        "keeper",
        "For `sluice log prepare` and `restore`: the only one that may change the settings of the log",
        (
            *log,
            f"{API}STREAM.UPDATE.{names.log}",
            # What an archive has, with its sequences; and what was cut off it.
            *(f"{names.prefix}{said}" for said in ("job.>", "verdict.>", "presence.>", "cell.>", *WRITERS)),
            *_archiving(names),
        ),
        ("_INBOX.>",),
    )
    yield _budget(names)


def _dispatcher(names: Names) -> Service:
    """Return the decider that is also a controller of checks, and the executor of what it has placed."""
    heartbeats = names.bucket("heartbeats")
    more = [
        f"{names.prefix}cell.*",
        f"{names.prefix}job.>",
        *(said for controller in CONTROLLERS for said in _controller_says(names, controller)),
        *making(heartbeats),
        *reading(heartbeats),
        f"{API}STREAM.PURGE.{heartbeats}",
    ]
    what = "The dispatcher: where jobs run that go to other cells, and what becomes of them there"
    return _decider(names, "dispatcher", "dispatch", what, *more)


def _budget(names: Names) -> Service:
    heartbeats, requests = names.bucket("heartbeats"), names.bucket("checks")
    publish = [
        *_controller_says(names, BUDGET),
        *making(heartbeats),
        *reading(heartbeats),
        f"{API}STREAM.PURGE.{heartbeats}",
        *reading(requests),
        *reading(names.log),
        *saving(names),
    ]
    what = f"The controller {BUDGET}: budgets, computed from the log"
    return _service(BUDGET_USER, what, publish, f"{names.prefix}query.budgets")


def _gate(names: Names) -> Service:
    readable = [
        names.log,
        names.bases,
        *(names.bucket(what) for what in ("dispatch", "checks", "claims", "heartbeats")),
    ]
    asked = ("STREAM.INFO.{}", "STREAM.MSG.GET.{}", "CONSUMER.CREATE.{}.>", "CONSUMER.INFO.{}.*")
    return _service(
        "gate",
        "The gate: looks at what parties ask and offer, and asks and says it for them",
        [
            *(API + form.format(stream) for stream in readable for form in (*asked, "CONSUMER.DELETE.{}.*")),
            *making(names.bucket("claims"), names.bucket("heartbeats")),
            f"{API}STREAM.PURGE.{names.bucket('heartbeats')}",
            f"{names.prefix}job.>",
            names.key("heartbeats", "agent.*"),
            *(f"{names.prefix}query.{question}" for question in NARROWED),
        ],
        f"{names.prefix}gate.>",
        f"{names.prefix}party.>",
        f"{names.prefix}control.gate.*",
    )


def _controller_says(names: Names, controller: str) -> list[str]:
    return [
        f"{names.prefix}verdict.{escaped(controller, '%', '_')}",
        names.key("heartbeats", f"controller.{escaped(controller, '=')}"),
        f"{names.prefix}query.>",
    ]


def _asking(names: Names) -> list[str]:
    return [
        f"{names.prefix}query.>",
        "$SRV.PING",
        "$SRV.STATS",
        *(f"{names.prefix}control.*.{what}" for what in ("health", "status", "digest")),
    ]


def executors(names: Names, user: str, what: str) -> Party:
    """Return executors that run everybody's jobs, and trust each other."""
    heartbeats = names.bucket("heartbeats")
    return Party(
        user,
        what,
        says=(f"{names.prefix}job.>", names.key("claims", ">"), names.key("heartbeats", "agent.*")),
        reads={
            names.log: (">",),
            names.bucket("dispatch"): (names.key("dispatch", ">"),),
            names.bucket("claims"): (names.key("claims", ">"),),
            heartbeats: (">",),
        },
        makes=("claims", "heartbeats"),
        # Takes its own heartbeat back when it stops.
        removes=(names.key("heartbeats", "agent.*"),),
    )


def pools(names: Names, user: str, what: str, namespaces: Sequence[str]) -> Party:
    """Return executors of some *namespaces*: they see, claim and report on jobs of these, and of no others.

    Their names begin with the user's, so that one pool neither keeps another's agents alive nor removes them.
    """
    within = [f"{escaped(name, '=')}.>" for name in namespaces]
    claimed = tuple(names.key("claims", keys) for keys in within)
    beats = names.key("heartbeats", "agent.*")
    return Party(
        user,
        what,
        says=claimed,
        offers=(*_jobs(names, namespaces), beats),
        bounds=Bounds(kinds=REPORTS),
        agents=f"{escaped(user, '=')}-",
        reads={
            names.log: tuple(_jobs(names, namespaces)),
            names.bucket("dispatch"): (
                *(names.key("dispatch", keys) for keys in within),
                names.key("dispatch", "=whole"),
            ),
            names.bucket("claims"): claimed,
            names.bucket("heartbeats"): (names.key("heartbeats", "agent.>"),),
        },
        makes=("claims", "heartbeats"),
        removes=(beats,),
    )


def managers(names: Names, user: str, what: str, manager: str, namespaces: Sequence[str]) -> Party:
    """Return the link of another cell, *manager*, which places jobs here: decision 0044.

    It submits and deletes jobs under names that end as its own do, answers the check that holds them, and
    reads what becomes of jobs: neither their manifests, nor who runs them.
    """
    hold = hold_controller(manager)
    return Party(
        user,
        what,
        says=(
            f"{names.prefix}verdict.{escaped(hold, '%', '_')}",
            names.key("heartbeats", f"controller.{escaped(hold, '=')}"),
        ),
        offers=tuple(_jobs(names, namespaces)),
        bounds=Bounds(kinds=("JobSubmitted", "JobDeleted"), ends=end_of_names(manager)),
        reads={names.log: tuple(f"{names.prefix}{writer}" for writer in FOLLOWED)},
        makes=("heartbeats",),
    )


def _jobs(names: Names, namespaces: Sequence[str]) -> list[str]:
    if not namespaces:
        return [f"{names.prefix}job.>"]
    return [f"{names.prefix}job.{escaped(name, '%', '_')}.>" for name in namespaces]


def publishers(names: Names, user: str, what: str) -> Party:
    """Return a system that submits jobs of everybody, and follows them."""
    reads = {names.log: (">",), names.bucket("dispatch"): (">",)}
    return Party(user, what, says=tuple(_jobs(names, ())), reads=reads)


def teams(
    names: Names, user: str, what: str, namespaces: Sequence[str], bounds: Bounds, *, follows: bool = False
) -> Party:
    """Return a team, which submits jobs of its *namespaces*; *follows*: it reads the log, of everybody."""
    reads = {names.log: (">",), names.bucket("dispatch"): (">",)} if follows else {}
    return Party(
        user,
        what,
        offers=tuple(_jobs(names, namespaces)),
        bounds=bounds,
        asks=tuple(f"{names.prefix}query.{question}" for question in NARROWED),
        namespaces=tuple(namespaces),
        reads=reads,
    )


def operators(names: Names, user: str, what: str) -> Party:
    """Return people who run the cell."""
    read = (
        names.log,
        names.bases,
        *(names.bucket(bucket) for bucket in ("dispatch", "checks", "heartbeats")),
    )
    return Party(
        user,
        what,
        says=(
            f"{names.prefix}api.>",
            f"{names.prefix}job.>",
            # `sluice check approve`: people answer for the controller.
            f"{names.prefix}verdict.*",
            *_asking(names),
        ),
        reads=dict.fromkeys(read, (">",)),
    )


def viewers(names: Names, user: str, what: str) -> Party:
    """Return people who look."""
    read = (names.log, names.bases, names.bucket("checks"), names.bucket("heartbeats"))
    return Party(user, what, says=tuple(_asking(names)), reads=dict.fromkeys(read, (">",)))


def controllers_of_checks(names: Names, user: str, controller: str) -> Party:
    """Return a controller of admission checks: it answers as itself, and as nobody else."""
    key = escaped(controller, "=")
    own = names.key("heartbeats", f"controller.{key}")
    return Party(
        user,
        f"The controller {controller} of admission checks: its own verdicts and heartbeat",
        says=tuple(_controller_says(names, controller)),
        reads={
            names.log: (f"{names.prefix}verdict.{escaped(controller, '%', '_')}",),
            names.bucket("checks"): (names.key("checks", f"{key}.>"), names.key("checks", "=whole")),
            names.bucket("heartbeats"): (own,),
        },
        makes=("heartbeats",),
        removes=(own,),
    )
