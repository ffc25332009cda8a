"""Names of variants: `<parent less its hash>-variant-<flavor or variant>-<5 hex>` (CA5)."""

from sluice.core.naming import HASH_LENGTH, NAME_LENGTH, short_hash

_MARK = "-variant-"


def variant_name(parent: str, parent_uid: str, variant: str, before: int = 0) -> str:
    """Return the name of a parent's variant: the same for the same parent and variant, always.

    *before*: so many variants of this name the parent has had. What others still say of those that were
    deleted must not be taken for what they say of the new one, so that has another name (CA7).
    Long names are cut, the parent's part first, so a name cannot be taken apart again.
    """
    base = parent.rpartition("-")[0] or parent
    room = NAME_LENGTH - HASH_LENGTH - 1 - len(_MARK)
    # The marker stays, whatever has to be cut.
    tail = variant[:room]
    base = base[: room - len(tail)]
    parts = ("", "", parent, parent_uid, variant, *((str(before),) if before else ()))
    return f"{base}{_MARK}{tail}-{short_hash(parts)}"
