"""Names of subjects, streams and buckets of a cell."""

from collections.abc import Iterable
from urllib.parse import unquote

from sluice.events.base import JobKey

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")

OUTSIDE = ("job.>", "verdict.>", "presence.>", "cell.>")
"""Messages from outside: one CloudEvent each."""

COMMITS = ("config", "slices", "variants", "scheduler", "checks", "dispatch")
"""Commits: one subject per writer."""


def token(name: str) -> str:
    """Return *name* as one token of a subject, percent-encoded: `a.b` -> `a%2Eb`.

    Letters, digits, `-` and `_` stay, every other byte of its UTF-8 is encoded: no name can add a token
    or a wildcard.

    >>> token("train-1"), token("a.b"), token("*")
    ('train-1', 'a%2Eb', '%2A')
    """
    if name.isascii() and name.replace("-", "").replace("_", "").isalnum():
        return name
    if not name:
        raise ValueError("an empty name cannot stand in a subject")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode())


def untoken(encoded: str) -> str:
    """Return the name that `token` encoded."""
    return unquote(encoded) if "%" in encoded else encoded


def job_suffix(namespace: str, name: str) -> str:
    """Return the subject, after the cell, of a job's messages.

    >>> job_suffix("ml", "train.v2")
    'job.ml.train%2Ev2'
    """
    return f"job.{token(namespace)}.{token(name)}"


def job_of(suffix: str) -> JobKey | None:
    """Return the job that a `job_suffix` is about; None of any other subject.

    >>> job_of("job.ml.train%2Ev2"), job_of("presence.agent.a")
    ('ml/train.v2', None)
    """
    parts = names(suffix)
    return JobKey(f"{parts[1]}/{parts[2]}") if len(parts) == 3 and parts[0] == "job" else None


def verdict_suffix(controller: str) -> str:
    """Return the subject, after the cell, of an admission check controller's verdicts."""
    return f"verdict.{token(controller)}"


def cell_suffix(name: str) -> str:
    """Return the subject, after the cell, of what the link to the worker cell *name* says."""
    return f"cell.{token(name)}"


def presence_suffix(kind: str, name: str) -> str:
    """Return the subject, after the cell, where shells record that *name* came or went."""
    return f"presence.{token(kind)}.{token(name)}"


def names(suffix: str) -> tuple[str, ...]:
    """Return the decoded tokens of a subject.

    >>> names("job.a%2Eb.c")
    ('job', 'a.b', 'c')
    """
    parts = suffix.split(".")
    return tuple(map(untoken, parts)) if "%" in suffix else tuple(parts)


GAP = "presence.gap.import"
"""Stands where an imported log had no message."""

BASE = "presence.base.made"
"""Where the log says that a base was made: the states of all services at one sequence, to begin from."""

_READ = ("presence.agent.*", "presence.controller.*")
"""What the services read of what is said about presence."""


def nobody_reads(suffix: str) -> bool:
    """Tell whether no service answers for messages on *suffix*, which the log takes all the same.

    >>> nobody_reads("presence.agent.a"), nobody_reads("presence.a"), nobody_reads("job.x")
    (False, True, False)
    """
    return suffix.startswith("presence.") and suffix not in (GAP, BASE) and not matches_any(_READ, suffix)


class Cell:
    """The names that belong to one cell. A cell's own name is one plain token.

    >>> cell = Cell("main")
    >>> cell.stream, cell.subject("job.ml.train"), cell.bucket("dispatch")
    ('SLUICE_main', 'sluice.main.job.ml.train', 'sluice_main_dispatch')
    """

    __slots__ = ("name", "prefix", "stream")

    def __init__(self, name: str) -> None:
        if not name or token(name) != name:
            raise ValueError(f"cell {name!r}: only letters, digits, '-' and '_' are allowed")
        self.name = name
        self.prefix = f"sluice.{name}."
        self.stream = f"SLUICE_{name}"

    def subject(self, suffix: str) -> str:
        """Return the subject of what is written by, or to, *suffix*: `verdict.check` and such."""
        return self.prefix + suffix

    def suffix(self, subject: str) -> str:
        """Return a subject without what is the same for the whole cell."""
        return subject.removeprefix(self.prefix)

    def bucket(self, what: str) -> str:
        """Return the bucket of a projection (`dispatch`) or of the machinery (`snapshots`, `leases`)."""
        return f"sluice_{self.name}_{what}"

    def control(self, service: str, what: str) -> str:
        """Return the subject where a service answers questions about itself."""
        return f"{self.prefix}control.{token(service)}.{what}"

    def captured(self) -> list[str]:
        """Return the subjects that the stream takes in.

        Named one by one: requests (`query.>`, `control.>`, ...) live beside them and must not be stored,
        or the server's acknowledgement would be taken for the answer.
        """
        return [self.prefix + suffix for suffix in (*OUTSIDE, *COMMITS)]


def matches(pattern: str, suffix: str) -> bool:
    """Tell whether *suffix* falls under *pattern*, which may hold `*` and end in `>`.

    >>> matches("job.>", "job.ml.train"), matches("job.*", "job.ml.train"), matches("job.>", "job")
    (True, False, False)
    """
    wanted, have = pattern.split("."), suffix.split(".")
    for index, part in enumerate(wanted):
        if part == ">":
            return len(have) > index
        if index >= len(have) or part not in ("*", have[index]):
            return False
    return len(wanted) == len(have)


def matches_any(patterns: Iterable[str], suffix: str) -> bool:
    """Whether one of the patterns matches; see `matches`."""
    return any(matches(pattern, suffix) for pattern in patterns)
