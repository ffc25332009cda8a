"""Names of workloads, no longer than Kubernetes allows, with a hash that every replay makes the same."""

import hashlib
from collections.abc import Iterable

__all__ = ["HASH_LENGTH", "NAME_LENGTH", "short_hash"]

NAME_LENGTH = 253
"""Characters of a Kubernetes name at most."""
HASH_LENGTH = 5


def short_hash(parts: Iterable[str]) -> str:
    """Return `HASH_LENGTH` hexadecimal digits that tell *parts* apart from others."""
    text = "\n".join(parts)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:HASH_LENGTH]
