"""Connects to the API server of a kubeconfig, or to that of the cluster in which the process runs.

lightkube reads the configuration and authenticates: certificates, tokens and their files, commands of cloud
providers.
"""

from __future__ import annotations

import os
from typing import Any

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig, SingleConfig
from lightkube.config.models import NameValue, User, UserExec
from lightkube.core.exceptions import ConfigError

from moorage import __version__
from moorage.errors import InputError

from .api_client import ApiClient
from .connection import READ_TIMEOUT, Connection

CONNECTIONS = 64
"""Open connections at most: one for each watch, the rest for requests of threads."""
_EXEC = "client.authentication.k8s.io/"
USER_AGENT = f"moorage/{__version__}"
"""The server derives the field manager of writes from it, up to the slash."""


def connect(
    kubeconfig: str | None = None, context: str | None = None, *, in_cluster: bool = False
) -> ApiClient:
    """Return a client of an API server. Nothing is sent yet.

    Parameters
    ----------
    kubeconfig : str, optional
        Path of a kubeconfig; by default ``$KUBECONFIG``, else ``~/.kube/config``.
    context : str, optional
        Of the kubeconfig; by default its current one.
    in_cluster : bool, optional
        Whether the service account of the pod is used in which the process runs, instead of a kubeconfig.

    Returns
    -------
    ApiClient

    Raises
    ------
    InputError
        The configuration cannot be read, or something in it is not supported.
    """
    source = (
        "service account" if in_cluster else kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG
    )
    try:
        config = _in_cluster() if in_cluster else KubeConfig.from_file(source).get(context)
        if config is None:  # impossible without a default
            raise ConfigError("no context")
        return ApiClient(Connection(_http(config)))
    except (ConfigError, OSError, msgspec.ValidationError, yaml.YAMLError) as error:
        raise InputError(str(error), source=source) from None
    except (
        KeyError,
        TypeError,
        AttributeError,
    ) as error:  # of a file that is no kubeconfig, or names what it does not have
        raise InputError(f"no kubeconfig, or {error} is missing in it", source=source) from None


def _in_cluster() -> SingleConfig | None:
    """Return the configuration of the pod's service account."""
    missing = [
        name for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT") if name not in os.environ
    ]
    if missing:
        raise ConfigError(f"not in a cluster: {missing[0]} is not set")
    return KubeConfig.from_service_account().get()


def _http(config: SingleConfig) -> httpx2.Client:
    """Return a client of HTTP/1.1: several threads share it, for which HTTP/2 is not reliable."""
    user = config.user or User()
    if user.exec is not None:
        user = msgspec.structs.replace(user, exec=_exec(config, user.exec))
    parameters = ConnectionParams(timeout=httpx2.Timeout(READ_TIMEOUT), trust_env=False, http2=False)
    options: dict[str, Any] = parameters.httpx_params(config._replace(user=user))
    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
    return httpx2.Client(**options, limits=limits, headers=headers)


def _exec(config: SingleConfig, command: UserExec) -> UserExec:
    """Return a command that lightkube runs: it knows the versions before v1, whose answer is the same, and
    does not tell the command of the cluster, without which some refuse to work."""
    version = f"{_EXEC}v1beta1" if command.apiVersion == f"{_EXEC}v1" else command.apiVersion
    info = {
        "kind": "ExecCredential",
        "apiVersion": command.apiVersion,
        "spec": {"cluster": {"server": config.cluster.server}, "interactive": False},
    }
    told = NameValue("KUBERNETES_EXEC_INFO", msgspec.json.encode(info).decode())
    return msgspec.structs.replace(command, apiVersion=version, env=[*(command.env or ()), told])
