"""Files in an attempt's directory, beside the pods' logs (`<pod set>-<index>.log`) and pid files."""

import os
import shutil
from pathlib import Path

from .isolation import User

RESULT = "result.json"
"""The attempt's outcome, from when it is known: a restarted agent reports it instead of starting again."""

OWNER = "uid"
"""Which incarnation of the job the attempt is of."""


HOME = "home"
"""Where pods begin that run as a user of their own: nothing of the agent's is theirs to change."""


def prepare(directory: Path, uid: str, user: User | None = None) -> Path:
    """Make the directory, without what another incarnation of the job left in it; return where pods begin."""
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / OWNER).write_text(uid)
    if user is None:
        return directory
    home = directory / HOME
    home.mkdir(mode=0o700)
    os.chown(home, user.uid, user.gid)
    return home
