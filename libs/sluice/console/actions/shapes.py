"""Actions as structs: what is asked for, what it would do, what came of it."""

from typing import Literal

import msgspec

from sluice.console.shapes import Envelope, Struct

Name = Literal["stop", "resume", "quota", "priority", "deactivate", "activate", "delete"]
NAMES: tuple[Name, ...] = ("stop", "resume", "quota", "priority", "deactivate", "activate", "delete")
TOKEN_HEADER = "X-Sluice-Token"
"""Holds the token that `/whoami` gives: only the console's own pages can have read it."""


class ActionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be done: to a queue (stop, resume, quota) or to a job (the others)."""

    action: Name
    name: str
    namespace: str = "default"
    """Of a job, or of a LocalQueue."""
    kind: Literal["ClusterQueue", "LocalQueue"] = "ClusterQueue"
    """Of the queue that is stopped or resumed."""
    value: str = ""
    """stop: Hold, or HoldAndDrain, which evicts; quota: the nominal quota; priority: the priority class."""
    flavor: str = ""
    resource: str = ""
    message: str = ""
    """Why, for people; in the log with deactivate and activate."""
    version: str = ""
    """What the preview has shown; when another change came since, nothing is done."""


class Effect(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Something that would follow."""

    what: Literal["admit", "evict", "no longer admit", "no longer evict"]
    """Without the action it would not be so; *no longer*: without it, it would."""
    workload: str
    job: str
    queue: str
    why: str
    """Of an eviction: its reason, and the preemptor."""


class ActionPreview(Envelope, frozen=True, kw_only=True):
    """What an action would do, decided on a copy of the state. Nothing has been done."""

    command: str
    """What does the same on a terminal."""
    summary: str
    version: str
    warnings: list[str]
    """Of the api service, which has checked a change of configuration."""
    effects: list[Effect] = msgspec.field(default_factory=list)


class ActionDone(Envelope, frozen=True, kw_only=True):
    """What was said, and where in the log; consequences follow there."""

    seq: int
    """Sequence of the message; 0 if nothing had to be changed."""
    outcome: str
    """configured, unchanged or published."""
    warnings: list[str]
