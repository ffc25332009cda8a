"""The four deciders, in the order in which a job meets them; nothing in the core imports this."""

from .checks.decider import AdmissionChecks
from .scheduler.decider import Scheduler
from .slices.decider import SliceAggregator
from .variants.decider import VariantController

DECIDERS = (SliceAggregator, VariantController, Scheduler, AdmissionChecks)
"""Whatever looks at all services goes through these: replay, simulations, tests."""
