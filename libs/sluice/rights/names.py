"""Streams, buckets and requests of a cell, as permissions name them. Standard library only: see `parties`."""

import string

API = "$JS.API."
"""Where JetStream takes requests."""
GATED = "$JS.sluice.API."
"""Where parties ask instead, in accounts of their own: other clients call this the domain `sluice`."""


class Names:
    """Streams, buckets and subjects of a cell; spelt as `sluice.protocol.subjects` spells them."""

    def __init__(self, cell: str) -> None:
        self.cell = cell
        self.prefix = f"sluice.{cell}."
        self.log = f"SLUICE_{cell}"
        self.bucket_prefix = f"sluice_{cell}_"

    def bucket(self, what: str) -> str:
        """Return the stream behind a bucket."""
        return f"KV_{self.bucket_prefix}{what}"

    def key(self, what: str, keys: str) -> str:
        """Return the subject of a bucket's key, or of many."""
        return f"$KV.{self.bucket_prefix}{what}.{keys}"

    def party(self, user: str) -> str:
        """Return what stands before what a party says or asks when it comes to the gate."""
        return f"{self.prefix}party.{user}."

    @property
    def snapshots(self) -> str:
        return f"OBJ_{self.bucket_prefix}snapshots"

    @property
    def bases(self) -> str:
        """The stream behind the states from which a log that was cut begins."""
        return f"OBJ_{self.bucket_prefix}bases"


def escaped(name: str, sign: str, plain: str = "") -> str:
    """Return *name* as one token: as the log's subjects have it with `%`, as keys of buckets with `=`."""
    kept = frozenset((string.ascii_letters + string.digits + "-" + plain).encode())
    return "".join(chr(byte) if byte in kept else f"{sign}{byte:02X}" for byte in name.encode())
