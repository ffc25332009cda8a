"""An authority of a cell's own, and certificates of its servers: TLS where there is no other authority."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .private_files import write_private

__all__ = ["hosts_of", "new_authority", "new_server"]

AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
BEFORE = datetime.timedelta(hours=1)
"""Clocks differ."""


def new_authority(certificate: Path, key: Path, name: str) -> None:
    """Write the certificate that clients trust, and its key, which no server needs."""
    private = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    made = (
        _begun(subject, subject, private.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    write_private(key, _pem(private))


def new_server(
    certificate: Path, key: Path, authority: Path, authority_key: Path, hosts: Sequence[str]
) -> None:
    """Write a server's certificate for *hosts*, names or addresses, and its key."""
    issuer = x509.load_pem_x509_certificate(authority.read_bytes())
    signing = serialization.load_pem_private_key(authority_key.read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    private = ec.generate_private_key(ec.SECP256R1())
    made = (
        _begun(_name(hosts[0]), issuer.subject, private.public_key(), SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
        )
        .sign(signing, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    write_private(key, _pem(private))


def hosts_of(certificate: Path) -> list[str]:
    """Return the names and addresses that a server's certificate is for."""
    made = x509.load_pem_x509_certificate(certificate.read_bytes())
    named = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(one.value) for one in named]


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
