"""Size limits of a ClusterQueue's resource groups."""

from .webhooks_testvalidatetotalcoveredresources import run

SUITE = "webhooks.TestValidateTotalFlavors"

__all__ = ["SUITE", "run"]
