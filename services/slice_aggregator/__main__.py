"""`python -m sluice.services.slice_aggregator`: jobs in, workloads out, job state back."""

from sluice.core.slices.decider import SliceAggregator
from sluice.services.common.decider import run_decider

from .claims import SpoiledClaims
from .dispatch import Dispatch
from .presence import AGENT, Agents

if __name__ == "__main__":
    run_decider("slice_aggregator", SliceAggregator(), [Dispatch()], (AGENT, Agents()), [SpoiledClaims()])
