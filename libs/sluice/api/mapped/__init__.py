"""Kinds of jobs that are read by a table: where their pod templates are, and how many pods each makes.

`rules` is what can be said of a kind, `table` says it of Kueue's kinds, a `JobKind` of a team's own; `pods`
reads manifests by it, `status` what an object says of itself.
"""

from .groups import with_groups
from .job import MappedJob, OwnJob, as_submitted, own_job
from .kinds import JobKind, JobKindNames, JobKindSpec, OwnKinds, mappings_of
from .pods import Pods, pods_of, read, rules_of
from .rules import Mapping, PodSetRule, StatusRule, StatusRules, find, put, without
from .status import message_of, state_of
from .table import MAPPED, MappedKind

__all__ = [
    "MAPPED",
    "JobKind",
    "JobKindNames",
    "JobKindSpec",
    "MappedJob",
    "MappedKind",
    "Mapping",
    "OwnJob",
    "OwnKinds",
    "PodSetRule",
    "Pods",
    "StatusRule",
    "StatusRules",
    "as_submitted",
    "find",
    "mappings_of",
    "message_of",
    "own_job",
    "pods_of",
    "put",
    "read",
    "rules_of",
    "state_of",
    "with_groups",
    "without",
]
