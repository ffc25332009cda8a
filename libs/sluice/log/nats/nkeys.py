"""NKeys: who logs in proves with a secret that never leaves its machine; the server has the public half.

A seed is what NATS' own tools make and read: `SU...`, an Ed25519 key in base 32 with a checksum. The `nkeys`
package is not used: it comes as source only, and brings a second library of cryptography.
"""

import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["new_seed", "public_of"]

_SEED, _USER = 18 << 3, 20 << 3
_RAW = 32


class BadSeedError(ValueError):
    """What should be the seed of a user is none; the message does not quote it."""


def new_seed() -> str:
    """Return the secret of a new user."""
    key = _keys().generate()
    head = bytes((_SEED | _USER >> 5, (_USER & 31) << 3))
    return _encoded(head + key.private_bytes_raw())


def public_of(seed: str) -> str:
    """Return what the server is told of a user, `U...`.

    Raises:
        BadSeedError: it is no seed.
    """
    return _encoded(bytes((_USER,)) + _private(seed).public_key().public_bytes_raw())


def sign(seed: str, nonce: str) -> str:
    """Return the proof for what the server has asked, in base 64; raises as `public_of`."""
    return base64.urlsafe_b64encode(_private(seed).sign(nonce.encode())).decode().rstrip("=")


def read_seed(path: str) -> str:
    """Return the seed in a file, alone or among other lines.

    Raises:
        OSError: there is no such file, or it cannot be read.
        BadSeedError: there is none in it.
    """
    for line in Path(path).read_text().splitlines():
        if line.startswith("SU"):
            return line.strip()
    raise BadSeedError(f"{path}: there is no seed of a user in it")


def _keys() -> "type[Ed25519PrivateKey]":
    # Most connections need none, and the import takes 20 ms.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey


def _private(seed: str) -> "Ed25519PrivateKey":
    try:
        data = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except binascii.Error:
        raise BadSeedError("not a seed: wrong letters") from None
    head = bytes((_SEED | _USER >> 5, (_USER & 31) << 3))
    if len(data) != 2 + _RAW + 2 or data[:2] != head or _checksum(data[:-2]) != data[-2:]:
        raise BadSeedError("not the seed of a user")
    return _keys().from_private_bytes(data[2:-2])


def _encoded(data: bytes) -> str:
    return base64.b32encode(data + _checksum(data)).decode().rstrip("=")


def _checksum(data: bytes) -> bytes:
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")
