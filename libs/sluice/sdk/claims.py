"""Claims: which executor has taken which attempt; how they are made is in `sluice.sdk.execution`."""

from .execution._outcome import Held
from .execution._settling import KEEP_DONE_S

__all__ = ["KEEP_DONE_S", "Held"]
