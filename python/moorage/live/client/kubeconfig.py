"""Connects to the API server of a kubeconfig, or to that of the cluster in which the process runs."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import msgspec
import yaml

from moorage._version import __version__
from moorage.errors import InputError

from .api_client import ApiClient
from .connection import KEPT, READ_TIMEOUT, Connection, HttpSessions, Session

# ---- kubeconfig file ---------------------------------------------------------------------------------------
#
# Reads kubeconfigs (client-go v0.36, tools/clientcmd): what one context names, field by field.
#
# A field that is not known, or not supported, is an error that names it.

T = TypeVar("T", bound=msgspec.Struct)
DEFAULT_KUBECONFIG = "~/.kube/config"


class ClusterEntry(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, frozen=True):
    """How a server is reached."""

    server: str
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False  # nothing is compressed
    extensions: Any = None


class ExecVariable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A variable of a command's environment."""

    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A command that tells credentials."""

    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class User(
    msgspec.Struct,
    rename=lambda name: {"token_file": "tokenFile"}.get(name, name.strip("_").replace("_", "-")),
    forbid_unknown_fields=True,
    frozen=True,
):
    """Who asks."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = ""
    as_: str = ""
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    username: str = ""
    password: str = ""
    auth_provider: Any = None
    exec: ExecConfig | None = None
    extensions: Any = None


class Context(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A cluster and a user. Objects of all namespaces are read, whatever the namespace is."""

    cluster: str
    user: str = ""
    namespace: str = ""
    extensions: Any = None


class ServerConfig(msgspec.Struct, frozen=True):
    """What a context names, with absolute paths."""

    cluster: ClusterEntry
    user: User
    source: str


def read_kubeconfig(path: str | None, context: str | None) -> ServerConfig:
    """Read what a context names.

    Parameters
    ----------
    path : str or None
        Of a file; None for those of ``$KUBECONFIG``, else ``~/.kube/config``. Of several files the first that
        has a name decides what it means, and those that do not exist are passed over.
    context : str or None
        None for the current one.

    Raises
    ------
    InputError
        A file cannot be read, or does not have what is needed, or has what is not supported.
    """
    given = os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG
    paths = [path] if path else [name for name in given.split(os.pathsep) if name]
    files = [Path(path).expanduser() for path in paths]
    source = os.pathsep.join(paths)
    present = [file for file in files if file.is_file()]
    if not present:
        raise InputError(f"Configuration file {source} not found", source=source)
    values = [(file, _read_document(file)) for file in present]
    currents = (str(value["current-context"]) for _, value in values if value.get("current-context"))
    name = context or next(currents, "")
    if not name:
        raise InputError("No current context set: name one with --context", source=source)
    chosen, _ = _entry(values, "contexts", name, Context)
    cluster, folder = _entry(values, "clusters", chosen.cluster, ClusterEntry)
    cluster = _absolute(cluster, folder, ("certificate_authority",))
    user = User()
    if chosen.user:
        user, folder = _entry(values, "users", chosen.user, User)
        user = _absolute(user, folder, ("client_certificate", "client_key", "token_file"))
        if user.exec is not None and os.sep in user.exec.command:
            user = msgspec.structs.replace(user, exec=_absolute(user.exec, folder, ("command",)))
    _check_cluster(cluster, source, f"clusters[{chosen.cluster}].cluster")
    _check_user(user, source, f"users[{chosen.user}].user")
    return ServerConfig(cluster, user, source)


def _read_document(file: Path) -> dict[str, Any]:
    """Return the contents of a file."""
    try:
        value = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(str(error), source=str(file)) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError("not a kubeconfig: it must be a mapping", source=str(file))
    known = {"apiVersion", "kind", "preferences", "current-context", "extensions"}
    if unknown := value.keys() - known - {"contexts", "clusters", "users"}:
        raise InputError(f"not a kubeconfig: unknown field {min(map(str, unknown))}", source=str(file))
    return value


def _entry(
    values: Sequence[tuple[Path, dict[str, Any]]], field: str, name: str, struct: type[T]
) -> tuple[T, Path]:
    """Return the entry of a name, and the folder of its file."""
    for file, value in values:
        for entry in value.get(field) or ():
            if not isinstance(entry, dict):
                raise InputError(
                    "not a kubeconfig: each entry must be a mapping", source=str(file), path=field
                )
            if entry.get("name") != name:
                continue
            path = f"{field}[{name}].{field[:-1]}"
            try:
                return msgspec.convert(entry.get(field[:-1]) or {}, struct), file.absolute().parent
            except msgspec.ValidationError as error:
                raise InputError(f"not supported: {error}", source=str(file), path=path) from None
    known = [str(entry.get("name")) for _, value in values for entry in value.get(field) or ()]
    text = f"{name!r} is not among the {field}: {', '.join(known) or 'there are none'}"
    raise InputError(text, source=os.pathsep.join(str(file) for file, _ in values), path=field)


def _absolute(value: T, folder: Path, fields: Sequence[str]) -> T:
    """Return a struct whose paths are below a folder, where they are relative."""
    paths = {field: str(folder / getattr(value, field)) for field in fields if getattr(value, field)}
    return msgspec.structs.replace(value, **paths)


def _check_cluster(cluster: ClusterEntry, source: str, path: str) -> None:
    """Refuse what is not supported."""
    if cluster.insecure_skip_tls_verify and (
        cluster.certificate_authority or cluster.certificate_authority_data
    ):
        text = "specifying a root certificates file with the insecure flag is not allowed"
        raise InputError(text, source=source, path=f"{path}.insecure-skip-tls-verify")
    if not cluster.server.startswith(("http://", "https://")):
        text = f"not a URL of http or https: {cluster.server!r}"
        raise InputError(text, source=source, path=f"{path}.server")
    if cluster.proxy_url and not cluster.proxy_url.startswith(("http://", "https://")):
        text = f"not supported: {cluster.proxy_url!r}; a proxy is http or https"
        raise InputError(text, source=source, path=f"{path}.proxy-url")
    for field, url in {"server": cluster.server, "proxy-url": cluster.proxy_url}.items():
        try:
            httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise InputError(f"not a URL: {url!r}: {error}", source=source, path=f"{path}.{field}") from None


def _check_user(user: User, source: str, path: str) -> None:
    """Refuse what is not supported."""

    def refuse(field: str, text: str) -> InputError:
        return InputError(text, source=source, path=f"{path}.{field}")

    if user.auth_provider is not None:
        raise refuse("auth-provider", "not supported: use an exec plugin, as kubectl does since v1.26")
    ways = {"token": user.token or user.token_file, "username": user.username, "exec": user.exec}
    if len(given := [name for name, value in ways.items() if value]) > 1:
        raise refuse(given[1], f"more than one authentication method found: {', '.join(given)}")
    if not user.as_ and (user.as_uid or user.as_groups or user.as_user_extra):
        raise refuse("as", "uid, groups and extra of another user need the name of this user")
    if bool(user.client_certificate or user.client_certificate_data) != bool(
        user.client_key or user.client_key_data
    ):
        raise refuse("client-certificate", "give both client-certificate and client-key, or neither")
    if user.exec is None:
        return
    if user.exec.api_version not in EXEC_VERSIONS:
        raise refuse("exec.apiVersion", f"not supported: {user.exec.api_version!r}")
    if user.exec.interactive_mode not in ("", "Never", "IfAvailable"):
        text = f"not supported: {user.exec.interactive_mode!r}; there is no terminal"
        raise refuse("exec.interactiveMode", text)


EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""Versions of the protocol of exec plugins (client-go v0.36)."""


# ---- credentials -------------------------------------------------------------------------------------------
#
# What a request needs to be accepted: TLS, headers, and commands that tell credentials.
#
# The protocol of commands is client-go's (v0.36, plugin/pkg/client/auth/exec).

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


def run_command(command: ExecConfig, cluster: ClusterEntry) -> ExecStatus:
    """Ask a command for credentials.

    Raises
    ------
    OSError, subprocess.SubprocessError, ValueError
        It cannot be started, does not end, has failed, or does not tell credentials.
    """
    spec: dict[str, Any] = {"interactive": False}
    if command.provide_cluster_info:
        spec["cluster"] = _cluster_info(cluster)
    info = {"kind": "ExecCredential", "apiVersion": command.api_version, "spec": spec}
    environment = dict(os.environ) | {variable.name: variable.value for variable in command.env or ()}
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
        printed = f"{answer.api_version} {answer.kind}".strip()
        raise ValueError(f"exec: {command.command} prints {printed!r}, not {command.api_version}")
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data):
        raise ValueError(f"exec: {command.command} prints neither a token nor a certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ValueError(
            f"exec: {command.command} prints a certificate without its key, or a key without its certificate"
        )
    return status


def _cluster_info(cluster: ClusterEntry) -> dict[str, Any]:
    """Return what a command learns of the cluster."""
    authority = cluster.certificate_authority_data
    if not authority and cluster.certificate_authority:
        authority = base64.b64encode(Path(cluster.certificate_authority).read_bytes()).decode()
    extensions = {extension["name"]: extension.get("extension") for extension in cluster.extensions or ()}
    fields = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "config": extensions.get(_EXEC_CLUSTER),
    }
    return {name: value for name, value in fields.items() if value or name == "config"}


def tls_context(cluster: ClusterEntry, user: User, credentials: ExecStatus | None) -> ssl.SSLContext:
    """Return the settings of TLS.

    Parameters
    ----------
    credentials : ExecStatus or None
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
    if credentials is not None and credentials.client_certificate_data:
        pair = f"{credentials.client_certificate_data}\n{credentials.client_key_data}\n"
        _load_text(context, pair.encode())
    elif user.client_certificate_data or user.client_key_data:
        certificate = _read_text("client-certificate", user.client_certificate_data, user.client_certificate)
        key = _read_text("client-key", user.client_key_data, user.client_key)
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


def _read_text(field: str, data: str, file: str) -> bytes:
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


def headers_of(user: User, credentials: ExecStatus | None) -> list[tuple[str, str]]:
    """Return the headers that say who asks, and on whose behalf.

    Parameters
    ----------
    credentials : ExecStatus or None
        What the user's command has told.

    Raises
    ------
    ValueError
        The file of the token cannot be read, or is empty; a value cannot stand in a header.
    """
    headers = list[tuple[str, str]]()
    token = credentials.token if credentials is not None else user.token
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
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):  # the value itself may be secret
            raise ValueError(f"the header {name} would have characters that are not printable ASCII")
    return headers


# ---- kubeconfig --------------------------------------------------------------------------------------------

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
USER_AGENT = f"moorage/{__version__}"
"""The server derives the field manager of writes from it, up to the slash."""
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
"""A peer that does not answer for about 30 s (in s, and ms) is gone; systems other than Linux lack some."""


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    in_cluster: bool = False,
    timeout: float = READ_TIMEOUT,
) -> ApiClient:
    """Return a client of an API server. Nothing is sent yet.

    Files of certificates and tokens are read again when they change, and a command that tells credentials is
    run again when these expire or are refused.

    Parameters
    ----------
    kubeconfig : str, optional
        Path of a kubeconfig; by default the paths in ``$KUBECONFIG``, else ``~/.kube/config``.
    context : str, optional
        Of the kubeconfig; by default its current one.
    in_cluster : bool, optional
        Whether the service account of the pod is used in which the process runs, instead of a kubeconfig.
    timeout : float, optional
        Seconds without a byte after which a request has failed.

    Raises
    ------
    InputError
        The configuration cannot be read, or something in it is not supported.
    """
    config = _in_cluster() if in_cluster else read_kubeconfig(kubeconfig, context)
    cluster, user = config.cluster, config.user
    files = [cluster.certificate_authority, user.client_certificate, user.client_key, user.token_file]
    sessions = HttpSessions(lambda: _session(config, timeout), files, user.exec is not None)
    if user.exec is None:
        try:
            with sessions.use():
                pass  # files that are missing now are an error of the input
        except (OSError, ValueError) as error:
            raise InputError(str(error), source=config.source) from None
    return ApiClient(Connection(sessions))


def _in_cluster() -> ServerConfig:
    """Return the configuration of the pod's service account."""
    names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    if missing := [name for name in names if not os.environ.get(name)]:
        raise InputError(f"not in a cluster: {missing[0]} is not set", source="service account")
    host, port = (os.environ[name] for name in names)
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    folder = Path(SERVICE_ACCOUNT)
    cluster = ClusterEntry(server=server, certificate_authority=str(folder / "ca.crt"))
    return ServerConfig(cluster, User(token_file=str(folder / "token")), "service account")


def _session(config: ServerConfig, timeout: float) -> Session:
    """Return a session of HTTP/1.1: several threads share it, for which HTTP/2 is not reliable."""
    cluster, user = config.cluster, config.user
    credentials = run_command(user.exec, cluster) if user.exec is not None else None
    proxy = httpx2.Proxy(cluster.proxy_url) if cluster.proxy_url else None
    options: list[Any] = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    context, name = tls_context(cluster, user, credentials), cluster.tls_server_name
    limits = httpx2.Limits(keepalive_expiry=KEPT)

    def transport() -> httpx2.BaseTransport:
        direct = httpx2.HTTPTransport(
            verify=context, limits=limits, proxy=proxy, trust_env=False, socket_options=options
        )
        return _NamedServer(direct, name) if name else direct

    expiry = None if credentials is None else credentials.expiration_timestamp
    return Session(
        cluster.server,
        transport,
        headers=[("User-Agent", USER_AGENT), *headers_of(user, credentials)],
        timeout=timeout,
        expires=float("inf") if expiry is None else expiry.timestamp(),
    )


class _NamedServer(httpx2.BaseTransport):
    """Asks for another name than that of the URL: of the server's certificate."""

    def __init__(self, transport: httpx2.HTTPTransport, name: str) -> None:
        self._transport, self._name = transport, name

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.extensions = {**request.extensions, "sni_hostname": self._name}
        return self._transport.handle_request(request)

    def close(self) -> None:
        self._transport.close()
