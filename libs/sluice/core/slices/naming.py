"""Names of workloads: `job-<name>-<5 hex>`, made from what the log says, so that a replay makes the same."""

from sluice.core.naming import HASH_LENGTH, NAME_LENGTH, short_hash


def workload_name(kind: str, group: str, name: str, uid: str, revision: int = 1, taken: str = "") -> str:
    """Return the name of the *revision*-th workload of a job (counted from 1), which is not *taken*.

    Long names are cut, so a name cannot be taken apart again.
    """
    # A workload that replaces another one gets a new name: what is still said of the old one on
    # other subjects must not be taken for it.
    prefix = f"{kind.lower()}-{name}"[: NAME_LENGTH - HASH_LENGTH - 1]
    parts = [kind, group, name, uid] + ([str(revision)] if revision > 1 else [])
    while True:
        if (found := f"{prefix}-{short_hash(parts)}") != taken:
            return found
        parts.append("again")
