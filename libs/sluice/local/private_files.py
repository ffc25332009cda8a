"""Files that nobody but their owner can read."""

import os
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Write a file that nobody but its owner can read, from its first byte on.

    Whoever reads an earlier one of that name meanwhile gets the one or the other, whole.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    partial.replace(path)
