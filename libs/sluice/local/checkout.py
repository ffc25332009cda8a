"""Where the code lies, for what is not installed with the library: services, and the demo's manifests."""

from pathlib import Path

import sluice


def code_root() -> Path:
    """Return the directory that `services` and `examples` are in, in a checkout."""
    return Path(sluice.__file__).resolve().parents[2]


__all__ = ["code_root"]
