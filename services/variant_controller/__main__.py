"""`python -m sluice.services.variant_controller`: variants and their parents."""

from sluice.core.variants.decider import VariantController
from sluice.services.common.decider import run_decider

if __name__ == "__main__":
    run_decider("variant_controller", VariantController())
