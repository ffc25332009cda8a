"""Names of workloads, no longer than Kubernetes allows, with a hash that every replay makes the same."""

import hashlib
from collections.abc import Iterable

NAME_LENGTH = 253
"""Characters of a Kubernetes name at most."""
HASH_LENGTH = 5


def is_name(text: str) -> bool:
    """Tell whether an executor or a controller can have that name: text that people can read, not too long.

    >>> is_name("rack-7.gpu"), is_name("a\x1b[2J"), is_name(""), is_name("\ufffd")
    (True, False, False, False)
    """
    return (
        0 < len(text) <= NAME_LENGTH
        and len(text.encode(errors="replace")) <= NAME_LENGTH
        and text.isprintable()
        and "\ufffd" not in text
    )


def short_hash(parts: Iterable[str]) -> str:
    """Return `HASH_LENGTH` hexadecimal digits that tell *parts* apart from others."""
    text = "\n".join(parts)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:HASH_LENGTH]
