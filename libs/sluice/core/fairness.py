"""Fair sharing: how much more than its own each node of the cohort tree uses, by its weight (SC6)."""

from collections.abc import Mapping
from typing import NamedTuple

from sluice.api import kueue

from .quota import FlavorResource, Node, Tree


class Share(NamedTuple):
    """A dominant resource share. Ordered: a node with less is served first, one with more gives first."""


def weight(spec: kueue.FairSharing | None) -> int:
    """Return the fair-sharing weight of a queue or cohort in billionths, as the quota tree takes it."""
    raise NotImplementedError


def dominant_resource_share(
    tree: Tree, node: Node, with_usage: Mapping[FlavorResource, int] | None = None
) -> Share:
    """Return the share of *node*, as if it used *with_usage* more."""
    raise NotImplementedError
