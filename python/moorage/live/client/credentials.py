"""What a request needs to be accepted: TLS, headers, and commands that tell credentials.

The protocol of commands is client-go's (v0.36, plugin/pkg/client/auth/exec).
"""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import quote

import msgspec

from .kubeconfig_file import Cluster, ExecConfig, User

EXEC_TIMEOUT = 60.0
"""Seconds that a command has."""
_NO_PASSWORD = ""
"""Of keys: one that has a password is an error, not a question at a terminal."""
_EXEC_CLUSTER = "client.authentication.k8s.io/exec"
"""The extension of a cluster whose value is told to commands."""


class ExecStatus(msgspec.Struct, rename="camel", frozen=True):
    """What a command tells."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    status: ExecStatus | None = None


def run_command(command: ExecConfig, cluster: Cluster) -> ExecStatus:
    """Ask a command for credentials.

    Raises
    ------
    OSError, subprocess.SubprocessError, ValueError
        It cannot be started, does not end, has failed, or does not tell credentials.
    """
    spec: dict[str, Any] = {"interactive": False}
    if command.provide_cluster_info:
        spec["cluster"] = _told(cluster)
    info = {"kind": "ExecCredential", "apiVersion": command.api_version, "spec": spec}
    environment = dict(os.environ) | {one.name: one.value for one in command.env or ()}
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
    try:
        done = subprocess.run(
            [command.command, *(command.args or ())],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=EXEC_TIMEOUT,
            check=False,
        )
    except FileNotFoundError as error:
        raise FileNotFoundError(f"exec: {error}. {command.install_hint}".strip()) from None
    if done.returncode:
        text = done.stderr[-500:].decode(errors="replace").strip()
        raise ValueError(f"exec: {command.command} ended with code {done.returncode}: {text}")
    answer = msgspec.json.decode(done.stdout, type=_ExecCredential)
    if answer.kind != "ExecCredential" or answer.api_version != command.api_version:
        found = f"{answer.api_version} {answer.kind}".strip()
        raise ValueError(f"exec: {command.command} prints {found!r}, not {command.api_version}")
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data):
        raise ValueError(f"exec: {command.command} prints neither a token nor a certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ValueError(
            f"exec: {command.command} prints a certificate without its key, or a key without its certificate"
        )
    return status


def _told(cluster: Cluster) -> dict[str, Any]:
    """Return what a command learns of the cluster."""
    authority = cluster.certificate_authority_data
    if not authority and cluster.certificate_authority:
        authority = base64.b64encode(Path(cluster.certificate_authority).read_bytes()).decode()
    extensions = {extension["name"]: extension.get("extension") for extension in cluster.extensions or ()}
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "config": extensions.get(_EXEC_CLUSTER),
    }
    return {name: value for name, value in told.items() if value or name == "config"}


def tls_context(cluster: Cluster, user: User, told: ExecStatus | None) -> ssl.SSLContext:
    """Return the settings of TLS.

    Parameters
    ----------
    told : ExecStatus or None
        What the user's command has told.

    Raises
    ------
    ValueError
        A certificate or its key cannot be read, or they do not belong together.
        The error names field and file.
    """
    if cluster.certificate_authority_data:
        with _reading("certificate-authority-data"):
            authorities = base64.b64decode(cluster.certificate_authority_data, validate=True).decode()
            context = ssl.create_default_context(cadata=authorities)
    else:
        with _reading("certificate-authority", cluster.certificate_authority):
            authority = cluster.certificate_authority or None
            if authority or cluster.server.lower().startswith("https:"):
                context = ssl.create_default_context(cafile=authority)
            else:  # unused; the authorities of the system take long to read
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # httpcore sets the protocols again for each connection. OpenSSL frees the old ones while another thread
    # begins a connection with them, so that now and then a server would get a broken greeting.
    context.set_alpn_protocols(["http/1.1"])
    context.set_alpn_protocols = lambda alpn_protocols: None  # type: ignore[method-assign]
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if told is not None and told.client_certificate_data:
        _load_text(context, f"{told.client_certificate_data}\n{told.client_key_data}\n".encode())
    elif user.client_certificate_data or user.client_key_data:
        certificate = _read("client-certificate", user.client_certificate_data, user.client_certificate)
        key = _read("client-key", user.client_key_data, user.client_key)
        with _reading("client-certificate, client-key"):
            _load_text(context, certificate + b"\n" + key)
    elif user.client_certificate:
        with _reading("client-certificate, client-key", f"{user.client_certificate}, {user.client_key}"):
            context.load_cert_chain(user.client_certificate, user.client_key, _NO_PASSWORD)
    return context


@contextmanager
def _reading(field: str, file: str = "") -> Iterator[None]:
    """Let an error name the field whose value is read, and the file that the field names."""
    try:
        yield
    except (OSError, ValueError) as error:  # an error of OpenSSL names no file
        reason = getattr(error, "strerror", None) or error
        raise ValueError(": ".join(filter(None, (field, file, str(reason))))) from None


def _read(field: str, data: str, file: str) -> bytes:
    """Return what a field of a kubeconfig has, in the field itself or in a file."""
    if data:
        with _reading(f"{field}-data"):
            return base64.b64decode(data, validate=True)
    with _reading(field, file):
        return Path(file).read_bytes()


def _load_text(context: ssl.SSLContext, text: bytes) -> None:
    """Load a certificate and its key, which OpenSSL reads from a file alone."""
    with NamedTemporaryFile() as file:  # its mode lets nobody else read it
        file.write(text)
        file.flush()
        context.load_cert_chain(file.name, password=_NO_PASSWORD)


def headers_of(user: User, told: ExecStatus | None) -> list[tuple[str, str]]:
    """Return the headers that say who asks, and on whose behalf.

    Parameters
    ----------
    told : ExecStatus or None
        What the user's command has told.

    Raises
    ------
    ValueError
        The file of the token cannot be read, or is empty.
    """
    headers = []
    token = told.token if told is not None else user.token
    if user.token_file:
        with _reading("tokenFile", user.token_file):
            token = Path(user.token_file).read_text().strip()
            if not token:
                raise ValueError("the file is empty")
    if token:
        headers.append(("Authorization", f"Bearer {token}"))
    elif user.username:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        headers.append(("Authorization", f"Basic {pair}"))
    if user.as_:
        headers.append(("Impersonate-User", user.as_))
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    for key, values in (user.as_user_extra or {}).items():
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return headers
