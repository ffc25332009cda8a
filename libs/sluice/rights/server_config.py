"""The part of the server's configuration that says who may do what."""

from collections.abc import Iterable, Mapping, Sequence

from .names import API, GATED, Names
from .parties import Party, Service, account_of

HEAD = """\
# Users of the cell {cell!r}. Written by `sluice auth`; change it there.
#
# The cell's own programs are in the account SLUICE, which has the log. Everybody else is in an account of
# its own: what leads out of it is imported, and what comes back cannot be sent anywhere else.
"""

MOST_OFFERED = 2 * 1024 * 1024
"""Most bytes of a message of a party that is looked at; of larger ones than 1 MiB no cell makes anything."""

ANSWERED_ONCE = ("STREAM.INFO.*", "STREAM.MSG.GET.*", "STREAM.CREATE.*", "STREAM.PURGE.*")
GATE_REQUESTS = (*ANSWERED_ONCE, "CONSUMER.CREATE.>", "CONSUMER.INFO.*.*", "CONSUMER.DELETE.*.*")
"""What of JetStream's API goes to the gate."""


def render(
    cell: str,
    services: Iterable[Service],
    parties: Iterable[Party],
    keys: Mapping[str, Sequence[str]],
) -> str:
    """Return the file for *cell*. *keys*: public NKeys of each user, several while they are being changed."""
    names, others = Names(cell), list(parties)
    lines = [HEAD.format(cell=cell), "accounts {", "  SLUICE {", "    jetstream: enabled", "    users: ["]
    for service in services:
        lines += [
            f"      # {service.what}.",
            *_user(keys.get(service.user, ()), service.publish, service.subscribe, answers=True),
        ]
    lines += ["    ]", "    exports: ["]
    lines += [
        f"      {line}" for line in dict.fromkeys(line for one in others for line in _exports(names, one))
    ]
    lines += ["    ]", "  }"]
    for party in others:
        # JetStream is off in this account: it says so, and clients ask the gate instead.
        publish = (*party.says, *party.offers, *party.asks, f"{API}>", f"{GATED}>")
        lines += [f"  # {party.what}.", f"  {account_of(party.user)} {{", "    users: ["]
        lines += [*_user(keys.get(party.user, ()), publish, ("_INBOX.>", "$SRV.>"), answers=False), "    ]"]
        if party.offers:
            # The gate says what is wrong with more than the party may; this bounds what it has to look at.
            lines.append(f"    limits: {{max_payload: {MOST_OFFERED}}}")
        lines += ["    imports: [", *(f"      {line}" for line in _imports(names, party)), "    ]", "  }"]
    return "\n".join([*lines, "}"]) + "\n"


def _user(
    keys: Iterable[str], publish: Sequence[str], subscribe: Sequence[str], *, answers: bool
) -> list[str]:
    rights = [
        "        permissions: {",
        *_subjects("publish", publish),
        *_subjects("subscribe", subscribe),
        *(['          allow_responses: {max: 1, expires: "1m"}'] if answers else []),
        "        }",
    ]
    return [line for key in keys for line in ("      {", f"        nkey: {key}", *rights, "      }")]


def _subjects(verb: str, subjects: Sequence[str]) -> list[str]:
    return [f"          {verb}: [", *(f'            "{subject}"' for subject in subjects), "          ]"]


def _many(subject: str) -> bool:
    """Tell whether a request has many answers."""
    return subject.startswith("$SRV.") or ".control." in subject


def _exports(names: Names, party: Party) -> list[str]:
    # A wider import of one party does not widen another's: each account has its own imports.
    lines = [
        f'{{service: "{subject}"{", response_type: stream" if _many(subject) else ""}}}'
        for subject in party.says
    ]
    lines += [
        f'{{service: "{API}CONSUMER.MSG.NEXT.{stream}.*", response_type: stream, response_threshold: "5m"}}'
        for stream in party.reads
    ]
    own = f"accounts: [{account_of(party.user)}]"
    if party.reads or party.makes:
        lines.append(f'{{service: "{names.prefix}gate.{party.user}.>", {own}}}')
    if party.offers or party.asks:
        lines.append(f'{{service: "{names.party(party.user)}>", {own}}}')
    return lines


def _imports(names: Names, party: Party) -> list[str]:
    def imported(subject: str, local: str = "") -> str:
        to = f', to: "{local}"' if local else ""
        return f'{{service: {{account: SLUICE, subject: "{subject}"}}{to}}}'

    lines = [imported(subject) for subject in party.says]
    lines += [
        imported(names.party(party.user) + subject.removeprefix(names.prefix), subject)
        for subject in (*party.offers, *party.asks)
    ]
    if party.reads or party.makes:
        gate = f"{names.prefix}gate.{party.user}."
        lines += [imported(gate + request, GATED + request) for request in GATE_REQUESTS]
    # Deliveries, many to a request, go past the gate.
    for stream in party.reads:
        pull = f"CONSUMER.MSG.NEXT.{stream}.*"
        lines.append(imported(API + pull, GATED + pull))
    return lines
