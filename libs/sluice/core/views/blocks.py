"""Pieces of bytes that resemble each other, compressed some tens at a time."""

import zlib
from collections.abc import Sequence

import msgspec

SIZE = 32
"""Pieces of a block: in blocks of eight each would need a half more, in blocks of 128 a quarter less."""

OPEN = 256
"""So much of what could be packed is left as it is: what happens to it soon after its end finds it so."""

_FEW = SIZE // 8
_OPENED = 8
"""Blocks that stay decompressed: who asks for one piece often asks for its neighbours."""

_LEVEL = 6

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class Kept(msgspec.Struct, array_like=True):
    """Blocks as a snapshot has them."""

    stored: dict[int, bytes]
    left: dict[int, int]
    next: int


class Blocks:
    """Pieces by number, as many to a block as were added at once, `SIZE` at most."""

    __slots__ = ("_next", "_opened", "left", "sparse", "stored")

    def __init__(self, kept: Kept | None = None) -> None:
        self.stored: dict[int, bytes] = {} if kept is None else kept.stored
        """Block -> its pieces, compressed."""
        self.left: dict[int, int] = {} if kept is None else kept.left
        """Block -> how many of its pieces nobody has taken."""
        self.sparse = {block: None for block, left in self.left.items() if left <= _FEW}
        """Blocks of which so little is left that they should be given up."""
        self._next = 0 if kept is None else kept.next
        self._opened: dict[int, list[bytes]] = {}

    def kept(self) -> Kept:
        return Kept(self.stored, self.left, self._next)

    def add(self, pieces: Sequence[bytes]) -> range:
        """Keep *pieces* as one block; returns their numbers."""
        block = self._next
        self._next += 1
        self.stored[block] = zlib.compress(_encode(pieces), _LEVEL)
        self.left[block] = len(pieces)
        return range(block * SIZE, block * SIZE + len(pieces))

    def piece(self, number: int) -> bytes | None:
        """Return a piece; None if its block is not kept."""
        found = self._pieces(number // SIZE)
        return None if found is None else found[number % SIZE]

    def _pieces(self, block: int) -> list[bytes] | None:
        opened = self._opened.pop(block, None)
        if opened is None:
            if block not in self.stored:
                return None
            opened = _decode(zlib.decompress(self.stored[block]))
            if len(self._opened) >= _OPENED:
                del self._opened[next(iter(self._opened))]
        # At the end: the one that was asked for least lately is the first to be closed.
        self._opened[block] = opened
        return opened

    def numbered(self, block: int) -> list[tuple[int, bytes]]:
        """Return all pieces of a block with their numbers, those included that were taken."""
        return list(enumerate(self._pieces(block) or (), block * SIZE))

    def take(self, number: int) -> None:
        """Note that nobody needs the piece any more: its block goes with the last of them."""
        block = number // SIZE
        self.left[block] -= 1
        if not self.left[block]:
            del self.left[block]
            self.sparse.pop(block, None)
            self.stored.pop(block, None)
            self._opened.pop(block, None)
        elif self.left[block] <= _FEW:
            self.sparse[block] = None
