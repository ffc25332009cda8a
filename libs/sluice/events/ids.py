"""Ids that are data: made from the log, never from randomness (law 2)."""


def uid(seq: int, index: int = 0) -> str:
    """Return the uid of the *index*-th object that the message at *seq* brought about.

    UUID-shaped for people's tools; as text it orders by (seq, index), so ties break in log order (G4).
    """
    return f"{seq >> 32:08x}-{seq >> 16 & 0xFFFF:04x}-{seq & 0xFFFF:04x}-8000-{index:012x}"


def seq_of(uid: str) -> int:
    """Return the log sequence in an id that `uid` made."""
    high, middle, low = uid.split("-", 3)[:3]
    return int(high + middle + low, 16)
