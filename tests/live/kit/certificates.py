"""Certificates of a cluster that lives for one test run."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey
DAY = 86400.0
"""Seconds."""


class Authority:
    """A certificate authority that writes what it issues into a folder.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name("moorage-tests")
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        extensions = [(x509.BasicConstraints(True, None), True), (usage, True)]
        self.certificate = self._sign(self.name, self.key, extensions)
        (folder / "ca.crt").write_bytes(_pem(self.certificate))

    def issue(
        self, file: str, name: str, group: str = "", *, serves: bool = False, seconds: float = DAY
    ) -> None:
        """Write FILE.crt and FILE.key for a user or a server on loopback, which run out after some time."""
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if serves else ExtendedKeyUsageOID.CLIENT_AUTH
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.ExtendedKeyUsage([purpose]), False)]
        if serves:
            names: list[x509.GeneralName] = [
                x509.DNSName("localhost"),
                x509.DNSName("kubernetes.default.svc"),
            ]
            names += [x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", "10.0.0.1")]
            extensions.append((x509.SubjectAlternativeName(names), False))
        certificate = self._sign(_name(name, group), key, extensions, seconds)
        (self.folder / f"{file}.crt").write_bytes(_pem(certificate))
        write_key(self.folder / f"{file}.key", key)

    def _sign(
        self,
        subject: x509.Name,
        key: Key,
        extensions: list[tuple[x509.ExtensionType, bool]],
        seconds: float = DAY,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(self.name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
        builder = builder.not_valid_after(now + datetime.timedelta(seconds=seconds))
        owner, own = self.key.public_key(), key.public_key()
        identifiers = (
            x509.SubjectKeyIdentifier.from_public_key(own),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(owner),
        )
        for extension, is_critical in (*extensions, *((one, False) for one in identifiers)):
            builder = builder.add_extension(extension, is_critical)
        return builder.sign(self.key, hashes.SHA256())


def write_key(path: Path, key: Key) -> None:
    """Write a private key as PKCS#8."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))


def write_service_account_keys(folder: Path) -> None:
    """Write sa.key and sa.pub."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(folder / "sa.key", key)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    (folder / "sa.pub").write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, public))


def _name(name: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    return x509.Name(([x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []) + parts)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
