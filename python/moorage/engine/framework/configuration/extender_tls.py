"""TLS settings of extenders, with Go's errors for malformed certificates and keys.

client-go v0.36, transport.TLSConfigFor; Go's crypto/tls, X509KeyPair.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
import tempfile

from moorage.errors import ExtenderError

from .types import Extender, ExtenderTLSConfig

CERTIFICATE, PRIVATE_KEY = "CERTIFICATE", "PRIVATE KEY"
_BLOCK = re.compile(rb"^-----BEGIN ([^\n-]*)-----[ \t\r]*\n(.*?)^-----END \1-----", re.MULTILINE | re.DOTALL)


def tls_context(extender: Extender) -> ssl.SSLContext:
    """Return the TLS context of connections to an extender.

    Parameters
    ----------
    extender : Extender
        Configuration of the extender. With `enable_https` and no certificate authority the certificate is not
        verified, as upstream.

    Raises
    ------
    ExtenderError
        A file cannot be read, or contains no certificate or key.
    """
    config = extender.tls_config or ExtenderTLSConfig()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    has_authority = bool(config.ca_data or config.ca_file)
    if config.insecure and has_authority:
        raise ExtenderError("specifying a root certificates file with the insecure flag is not allowed")
    authority = config.ca_data or _read(config.ca_file)
    certificate, key = config.cert_data or _read(config.cert_file), config.key_data or _read(config.key_file)
    if authority:
        _trust(context, authority)
    elif not has_authority and (config.insecure or extender.enable_https):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif extender.url_prefix.lower().startswith("https:"):  # they take long to read
        context.load_default_certs()
    if (config.cert_data or config.cert_file) and (config.key_data or config.key_file):
        _show(context, certificate, key)
    return context


def _read(path: str) -> bytes:
    if not path:
        return b""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        raise ExtenderError(f"open {path}: {os.strerror(number).lower() if number else error}") from error


def _blocks(data: bytes) -> list[str]:
    """The types of the PEM blocks in data, such as ``CERTIFICATE``; other text is ignored."""
    kinds = []
    for kind, body in _BLOCK.findall(data):
        try:
            base64.b64decode(re.sub(rb"(?s)\A.*?\n\s*\n|\s", b"", body), validate=True)
        except binascii.Error:
            continue
        kinds.append(kind.decode(errors="replace"))
    return kinds


def _trust(context: ssl.SSLContext, authority: bytes) -> None:
    kinds = _blocks(authority)
    if not kinds:
        raise ExtenderError("unable to load root certificates: unable to parse bytes as PEM block")
    if CERTIFICATE not in kinds:
        raise ExtenderError("unable to load root certificates: no valid certificate authority data seen")
    try:
        context.load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        text = f"unable to load root certificates: failed to parse certificate: {error}"
        raise ExtenderError(text) from error


def _show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    kinds = _blocks(certificate)
    if CERTIFICATE not in kinds:
        raise ExtenderError(_no_certificate(kinds))
    kinds = _blocks(key)
    if not any(kind.endswith(PRIVATE_KEY) for kind in kinds):
        raise ExtenderError(_no_key(kinds))
    with tempfile.NamedTemporaryFile() as file:  # readable only by its owner
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except (ssl.SSLError, ValueError) as error:
            mismatch = getattr(error, "reason", "") == "KEY_VALUES_MISMATCH"
            why = "private key does not match public key" if mismatch else f"failed to parse: {error}"
            raise ExtenderError(f"tls: {why}") from error


def _no_certificate(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in certificate input"
    if len(kinds) == 1 and kinds[0].endswith(PRIVATE_KEY):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the '
        f"following types: [{' '.join(kinds)}]"
    )


def _no_key(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in key input"
    if kinds == [CERTIFICATE]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM '
        f"blocks of the following types: [{' '.join(kinds)}]"
    )
