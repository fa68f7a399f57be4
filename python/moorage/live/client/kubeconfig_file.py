"""Reads kubeconfigs (client-go v0.36, tools/clientcmd): what one context names, field by field.

A field that is not known, or not supported, is an error that names it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from moorage.errors import InputError

T = TypeVar("T", bound=msgspec.Struct)
DEFAULT_KUBECONFIG = "~/.kube/config"


class Cluster(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, frozen=True):
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
    """What a context names, with absolute paths.

    Attributes
    ----------
    cluster : Cluster
    user : User
    source : str
        The files, for errors.
    """

    cluster: Cluster
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
    paths = [path] if path else [one for one in given.split(os.pathsep) if one]
    files = [Path(path).expanduser() for path in paths]
    source = os.pathsep.join(paths)
    found = [file for file in files if file.is_file()]
    if not found:
        raise InputError(f"Configuration file {source} not found", source=source)
    values = [(file, _read(file)) for file in found]
    name = context or next((str(one) for _, value in values if (one := value.get("current-context"))), "")
    if not name:
        raise InputError("No current context set: name one with --context", source=source)
    chosen, _ = _entry(values, "contexts", name, Context)
    cluster, folder = _entry(values, "clusters", chosen.cluster, Cluster)
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


def _read(file: Path) -> dict[str, Any]:
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
    known = [str(one.get("name")) for _, value in values for one in value.get(field) or ()]
    text = f"{name!r} is not among the {field}: {', '.join(known) or 'there are none'}"
    raise InputError(text, source=os.pathsep.join(str(file) for file, _ in values), path=field)


def _absolute(value: T, folder: Path, fields: Sequence[str]) -> T:
    """Return a struct whose paths are below a folder, where they are relative."""
    paths = {field: str(folder / getattr(value, field)) for field in fields if getattr(value, field)}
    return msgspec.structs.replace(value, **paths)


def _check_cluster(cluster: Cluster, source: str, path: str) -> None:
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
