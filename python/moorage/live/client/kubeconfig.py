"""Connects to the API server of a kubeconfig, or to that of the cluster in which the process runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import httpx2

from moorage._version import __version__
from moorage.errors import InputError

from .api_client import ApiClient
from .connection import Connection
from .credentials import headers_of, run_command, tls_context
from .http_sessions import KEPT, READ_TIMEOUT, HttpSessions, Session
from .kubeconfig_file import Cluster, ServerConfig, User, read_kubeconfig

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
    cluster = Cluster(server=server, certificate_authority=str(folder / "ca.crt"))
    return ServerConfig(cluster, User(token_file=str(folder / "token")), "service account")


def _session(config: ServerConfig, timeout: float) -> Session:
    """Return a session of HTTP/1.1: several threads share it, for which HTTP/2 is not reliable."""
    cluster, user = config.cluster, config.user
    told = run_command(user.exec, cluster) if user.exec is not None else None
    proxy = httpx2.Proxy(cluster.proxy_url) if cluster.proxy_url else None
    options: list[Any] = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    context, name = tls_context(cluster, user, told), cluster.tls_server_name
    limits = httpx2.Limits(keepalive_expiry=KEPT)

    def transport() -> httpx2.BaseTransport:
        made = httpx2.HTTPTransport(
            verify=context, limits=limits, proxy=proxy, trust_env=False, socket_options=options
        )
        return _Named(made, name) if name else made

    expiry = None if told is None else told.expiration_timestamp
    return Session(
        cluster.server,
        transport,
        headers=[("User-Agent", USER_AGENT), *headers_of(user, told)],
        timeout=timeout,
        expires=float("inf") if expiry is None else expiry.timestamp(),
    )


class _Named(httpx2.BaseTransport):
    """Asks for another name than that of the URL: of the server's certificate."""

    def __init__(self, transport: httpx2.HTTPTransport, name: str) -> None:
        self._transport, self._name = transport, name

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.extensions = {**request.extensions, "sni_hostname": self._name}
        return self._transport.handle_request(request)

    def close(self) -> None:
        self._transport.close()
