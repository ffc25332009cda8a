"""Exported logs: one file, compressed, checksummed, written and read as a stream.

    SLUICE-LOG 1\n
    blocks: kind, sizes, CRC-32 of the compressed bytes, first and last sequence and time; then the bytes
        H   what the log is (`Header`, JSON); the first block
        E   entries
        Z   how many there were, and the SHA-256 over all heads (`Trailer`, JSON); the last block

A reader skips blocks that it does not need without decompressing them. Without its Z a file is truncated.

Files come from strangers. Before anything is decompressed, the heads say how large it will be, which is
refused if it is out of proportion to the file; then no more than the head said is taken out of a block.
"""

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.base import Micros
from sluice.log.contract import Entry
from sluice.log.inflating import MAX_RATIO, disproportionate, inflated

MAGIC = b"SLUICE-LOG "
VERSION = 1
BLOCK_BYTES = 1 << 20
MAX_BLOCK_BYTES = 64 << 20
"""A larger block is damage: one message is 8 MiB at most."""
MAX_WORDS_BYTES = 64 << 10
"""Of a header or a trailer."""
MAX_SEQ = 2**63 - 1

_BLOCK = struct.Struct(">cIIIQQqq")
_ENTRY = struct.Struct(">QqHI")


class LogFileError(ValueError):
    """The file is no log that this code can read; says what is wrong and where."""


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What an exported log is."""

    cell: str = "main"
    source: str = ""
    note: str = ""
    """How it differs from the cell's log: `extract of workload default/train`."""
    redacted: bool = False
    complete: bool = True
    """Every message of the cell from the first to the last; else only a part, with gaps."""


class Trailer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    entries: int
    first: int
    last: int
    sha256: str


class Block(msgspec.Struct, frozen=True):
    """A block's head."""

    kind: bytes
    size: int
    raw_size: int
    crc: int
    first: int
    last: int
    first_at: Micros
    last_at: Micros


def write(file: BinaryIO, header: Header, batches: Iterable[Iterable[Entry]]) -> Trailer:
    """Write a whole log; *batches* come in order of sequence."""
    writer = Writer(file, header)
    for batch in batches:
        writer.add(batch)
    return writer.finish()


class Writer:
    """Writes a log piece by piece; ends with `finish`, without which the file counts as truncated."""

    def __init__(self, file: BinaryIO, header: Header, level: int = 3) -> None:
        self._file, self._level = file, level
        self._parts: list[bytes] = []
        self._size = 0
        self._first: Entry | None = None
        self._last: Entry | None = None
        self._digest = hashlib.sha256()
        self.entries = self.start = self.end = 0
        file.write(MAGIC + b"%d\n" % VERSION)
        self._block(b"H", msgspec.json.encode(header), 0, 0, 0, 0)

    def add(self, entries: Iterable[Entry]) -> None:
        parts, pack = self._parts, _ENTRY.pack
        for entry in entries:
            seq, suffix, at, payload, _ = entry
            if seq <= self.end:
                raise LogFileError(f"sequence {seq} after {self.end}")
            self.end = seq
            name = suffix.encode()
            parts.append(pack(seq, at, len(name), len(payload)))
            parts.append(name)
            parts.append(payload)
            self._size += _ENTRY.size + len(name) + len(payload)
            self.entries += 1
            if self._first is None:
                self._first = entry
            self._last = entry
            if self._size >= BLOCK_BYTES:
                self._flush()

    def finish(self) -> Trailer:
        """Write what is left, and the trailer."""
        self._flush()
        trailer = Trailer(
            entries=self.entries, first=self.start, last=self.end, sha256=self._digest.hexdigest()
        )
        self._block(b"Z", msgspec.json.encode(trailer), 0, 0, 0, 0)
        self._file.flush()
        return trailer

    def _flush(self) -> None:
        first, last = self._first, self._last
        if first is None or last is None:
            return
        self.start = self.start or first.seq
        self._block(b"E", b"".join(self._parts), first.seq, last.seq, first.at, last.at)
        self._parts.clear()
        self._size, self._first = 0, None

    def _block(self, kind: bytes, raw: bytes, first: int, last: int, begin: Micros, end: Micros) -> None:
        data = zlib.compress(raw, self._level)
        if len(raw) > MAX_RATIO * len(data):
            # Else a file of many such blocks could not be told from one that is made to fill the memory.
            data = zlib.compress(raw, 0)
        crc = zlib.crc32(data)
        head = _BLOCK.pack(kind, len(data), len(raw), crc, first, last, begin, end)
        if kind != b"Z":
            self._digest.update(head)
        self._file.write(head)
        self._file.write(data)


def read_header(file: BinaryIO) -> tuple[Header, Block]:
    """Return what the log is, and the head of the header's block.

    Raises:
        LogFileError: no log, or one of a later format.
    """
    line = file.readline(64)
    if not line.startswith(MAGIC):
        raise LogFileError("not an exported Sluice log")
    version = line[len(MAGIC) :].strip()
    if not version.isdigit():
        raise LogFileError(f"unreadable format version {version!r}")
    if int(version) > VERSION:
        raise LogFileError(
            f"format version {int(version)}, this code reads up to {VERSION}: upgrade to read it"
        )
    block = _head(file)
    if block is None or block.kind != b"H":
        raise LogFileError("truncated: it has no header")
    try:
        return msgspec.json.decode(body(file, block), type=Header), block
    except UNREADABLE as error:
        raise LogFileError(f"damaged header: {error}") from error


def blocks(file: BinaryIO, wanted: Callable[[Block], bool], header: Block) -> Iterator[tuple[Block, bytes]]:
    """Yield the wanted blocks of entries, decompressed; the others are skipped.

    The digest over all heads is checked at the end, so it holds whichever blocks were wanted.

    Raises:
        LogFileError: truncated or damaged; the message says after which sequence.
    """
    digest = hashlib.sha256(_packed(header))
    last = size = raw_size = 0
    while True:
        try:
            block = _head(file)
            if block is None:
                raise LogFileError("truncated")
            if block.kind == b"Z":
                trailer = msgspec.json.decode(body(file, block), type=Trailer)
                if trailer.sha256 != digest.hexdigest() or (trailer.entries and trailer.last != last):
                    raise LogFileError("checksum of the whole differs: blocks are missing or exchanged")
                return
            if block.kind != b"E":
                raise LogFileError("damaged: a second header")
            if not last < block.first <= block.last <= MAX_SEQ:
                raise LogFileError(f"damaged: sequences {block.first} to {block.last}")
            size, raw_size = size + block.size, raw_size + block.raw_size
            if disproportionate(size, raw_size):
                raise LogFileError(f"refused: {size} compressed bytes stand for {raw_size} and more")
            digest.update(_packed(block))
            if wanted(block):
                yield block, body(file, block)
            else:
                _skip(file, block.size)
            last = block.last
        except (LogFileError, *UNREADABLE) as error:
            raise LogFileError(f"{error}, after sequence {last}") from error


def entries_of(raw: bytes, block: Block, matches: Callable[[str], bool] | None = None) -> Iterator[Entry]:
    """Yield the entries in a decompressed block; of those that *matches* refuses, nothing is copied.

    Raises:
        LogFileError: they are not those that the block's head names, in order.
    """
    position, end, new = 0, len(raw), tuple.__new__
    unpack, size = _ENTRY.unpack_from, _ENTRY.size
    names: dict[bytes, str] = {}
    last = block.first - 1
    while position < end:
        if position + size > end:
            raise LogFileError(f"damaged: half a message, after sequence {last}")
        seq, at, name_size, payload_size = unpack(raw, position)
        position += size
        middle = position + name_size
        name = raw[position:middle]
        suffix = names.get(name)
        if suffix is None:
            suffix = _subject(name)
            if matches is not None and not matches(suffix):
                suffix = ""
            names[name] = suffix
        position = middle + payload_size
        if position > end or seq <= last:
            raise LogFileError(f"damaged: message {seq}, after sequence {last}")
        last = seq
        if suffix or matches is None:
            yield new(Entry, (seq, suffix, at, raw[middle:position], b""))
    if last != block.last:
        raise LogFileError(f"damaged: it ends after sequence {last}")


def _subject(name: bytes) -> str:
    try:
        found = name.decode()
    except UnicodeDecodeError as error:
        raise LogFileError(f"damaged: subject {name[:100]!r}") from error
    if not found:
        raise LogFileError("damaged: a message without a subject")
    return found


def _packed(block: Block) -> bytes:
    return _BLOCK.pack(*(getattr(block, name) for name in block.__struct_fields__))


def _head(file: BinaryIO) -> Block | None:
    data = file.read(_BLOCK.size)
    if not data:
        return None
    if len(data) < _BLOCK.size:
        raise LogFileError("truncated")
    block = Block(*_BLOCK.unpack(data))
    most = MAX_BLOCK_BYTES if block.kind == b"E" else MAX_WORDS_BYTES
    if block.kind not in (b"H", b"E", b"Z") or max(block.size, block.raw_size) > most:
        raise LogFileError("damaged: a block's head makes no sense")
    return block


def body(file: BinaryIO, block: Block) -> bytes:
    """Return a block's bytes, checked and decompressed; the file stands behind its head.

    No more is decompressed than the head says, which is bounded.
    """
    data = file.read(block.size)
    if len(data) < block.size:
        raise LogFileError("truncated")
    if zlib.crc32(data) != block.crc:
        raise LogFileError("damaged: checksum differs")
    try:
        return inflated(data, block.raw_size)
    except ValueError as error:
        raise LogFileError(f"damaged: {error}") from error


def _skip(file: BinaryIO, size: int) -> None:
    if file.seekable() and size > 1:
        # Seeking behind the end is no error, so the last byte is really read.
        file.seek(size - 1, 1)
        size = 1
    if len(file.read(size)) < size:
        raise LogFileError("truncated")


__all__ = ["Header", "Writer"]
