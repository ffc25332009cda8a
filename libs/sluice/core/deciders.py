"""The deciders, in the order in which a job meets them; nothing in the core imports this."""

from .checks.decider import AdmissionChecks
from .dispatch.decider import Dispatcher
from .scheduler.decider import Scheduler
from .slices.decider import SliceAggregator
from .variants.decider import VariantController

DECIDERS = (SliceAggregator, VariantController, Scheduler, AdmissionChecks)
"""The four of every cell: replay, simulations and tests, which look at all services, go through these."""

OF_MANAGERS = (Dispatcher,)
"""Those that a cell has besides if it places jobs in other cells; elsewhere they never say anything."""
