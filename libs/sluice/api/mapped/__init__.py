"""Kinds of jobs that are read by a table: where their pod templates are, and how many pods each makes.

`rules` is what can be said of a kind, `table` says it of Kueue's kinds, `pods` reads manifests by it.
"""

from .groups import with_groups
from .job import MappedJob
from .pods import Pods, pods_of, read, rules_of
from .rules import Mapping, PodSetRule, find, without
from .table import MAPPED, MappedKind

__all__ = [
    "MAPPED",
    "MappedJob",
    "MappedKind",
    "Mapping",
    "PodSetRule",
    "Pods",
    "find",
    "pods_of",
    "read",
    "rules_of",
    "with_groups",
    "without",
]
