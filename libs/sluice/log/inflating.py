"""Decompressing what strangers may have compressed: never more than was said, nor out of proportion."""

import zlib

__all__ = ["MAX_RATIO", "disproportionate", "inflated"]

MAX_RATIO = 100
"""Logs and states come to a tenth or twentieth, bombs to a thousandth."""

UNSUSPICIOUS_BYTES = 256 << 20
"""What so little comes to, at whatever ratio, does no harm."""


def disproportionate(size: int, raw_size: int) -> bool:
    """Tell whether *size* compressed bytes that stand for *raw_size* can only be meant to fill the memory.

    >>> disproportionate(2_500_000, 2_500_000_000), disproportionate(2_500_000, 25_000_000)
    (True, False)
    """
    return raw_size > UNSUSPICIOUS_BYTES + MAX_RATIO * size


def inflated(data: bytes, raw_size: int) -> bytes:
    """Return what *data* stands for, which is *raw_size* bytes long.

    >>> inflated(zlib.compress(b"log"), 3)
    b'log'

    Raises:
        ValueError: it is not of that size, or damaged; no more than that was decompressed to find out.
    """
    if disproportionate(len(data), raw_size):
        raise ValueError(f"{len(data)} compressed bytes are said to stand for {raw_size}")
    inflating = zlib.decompressobj()
    try:
        # One more than there should be; 0 would mean all there is.
        raw = inflating.decompress(data, raw_size + 1)
    except (zlib.error, OverflowError) as error:
        raise ValueError(str(error)) from error
    if len(raw) != raw_size or not inflating.eof or inflating.unused_data:
        raise ValueError(f"it is not of the {raw_size} bytes that it is said to stand for")
    return raw
