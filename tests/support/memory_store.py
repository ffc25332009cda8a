"""Snapshots in memory."""


class MemoryStore:
    """A `Store` (`sluice.log.runtime.snapshot`) without a server."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[bytes, bytes]] = {}

    async def put(self, name: str, data: bytes, description: bytes) -> None:
        self.blobs[name] = (data, description)

    async def get(self, name: str) -> bytes:
        return self.blobs[name][0]

    async def listing(self) -> dict[str, bytes]:
        return {name: description for name, (_, description) in self.blobs.items()}

    async def delete(self, name: str) -> None:
        self.blobs.pop(name, None)

    async def stamp(self, seq: int) -> int:  # noqa: ARG002
        return 0
