"""Files in an attempt's directory, beside the pods' logs (`<pod set>-<index>.log`) and pid files."""

import shutil
from pathlib import Path

RESULT = "result.json"
"""The attempt's outcome, from when it is known: a restarted agent reports it instead of starting again."""

OWNER = "uid"
"""Which incarnation of the job the attempt is of."""


def prepare(directory: Path, uid: str) -> None:
    """Make the directory; what another incarnation of the job left in it goes."""
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / OWNER).write_text(uid)
