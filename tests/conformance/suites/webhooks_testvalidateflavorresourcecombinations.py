"""Size limits of a ClusterQueue's resource groups."""

from .webhooks_testvalidatetotalcoveredresources import run

SUITE = "webhooks.TestValidateFlavorResourceCombinations"

__all__ = ["SUITE", "run"]
