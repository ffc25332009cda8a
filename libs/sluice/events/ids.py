"""Ids that are data: made from the log, never from randomness (law 2)."""


def uid(seq: int, index: int = 0) -> str:
    """Return the uid of the *index*-th object that the message at *seq* brought about.

    UUID-shaped for people's tools; as text it orders by (seq, index), so ties break in log order (G4).

    >>> uid(42), seq_of(uid(42))
    ('00000000-0000-002a-8000-000000000000', 42)
    """
    digits = f"{seq:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:]}-8000-{index:012x}"


def seq_of(uid: str) -> int:
    """Return the log sequence in an id that `uid` made."""
    high, middle, low = uid.split("-", 3)[:3]
    return int(high + middle + low, 16)
