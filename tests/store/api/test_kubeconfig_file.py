"""Kubeconfigs: several files, paths, and each field that is not supported is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.live import read_kubeconfig

from moorage.errors import InputError

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}
SERVER = "https://localhost"


def write(path: Path, name: str, user: Any, cluster: Any, current: str = "") -> Path:
    value: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "n"}}],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(value | ({"current-context": current} if current else {})))
    return path


def test_of_several_files_the_first_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path / "one/config", "a", {"token": "first"}, {"server": SERVER})
    command = {"exec": EXEC}
    authority = {"server": f"{SERVER}:2", "certificate-authority": "ca.crt"}
    second = write(tmp_path / "two/config", "b", command, authority, current="b")
    third = write(tmp_path / "three/config", "a", {"token": "third"}, {"server": SERVER}, current="a")
    files = {"client-certificate": "c.crt", "client-key": "keys/c.key", "tokenFile": "/etc/token"}
    fourth = write(tmp_path / "four/config", "d", files, {"server": SERVER})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none::{first}:{second}:{third}:{fourth}")
    config = read_kubeconfig(None, None)
    assert (config.cluster.server, config.cluster.certificate_authority) == (
        f"{SERVER}:2",
        f"{tmp_path}/two/ca.crt",
    )
    assert config.user.exec is not None
    assert config.user.exec.command == f"{tmp_path}/two/plugin"
    user = read_kubeconfig(None, "d").user
    assert (user.client_certificate, user.client_key, user.token_file) == (
        f"{tmp_path}/four/c.crt",
        f"{tmp_path}/four/keys/c.key",
        "/etc/token",
    )
    assert read_kubeconfig(None, "a").user.token == "first"
    assert read_kubeconfig(str(third), None).user.token == "third"


def test_the_entries_of_other_contexts_are_not_judged(tmp_path: Path) -> None:
    path = write(tmp_path / "config", "a", {"token": "t"}, {"server": SERVER}, current="a")
    value = yaml.safe_load(path.read_text())
    value["users"].append({"name": "z", "user": {"auth-provider": {"name": "gcp"}}})
    path.write_text(yaml.safe_dump(value))
    assert read_kubeconfig(str(path), None).user.token == "t"


@pytest.mark.parametrize(
    ("user", "cluster", "error"),
    [
        ({"auth-provider": {"name": "gcp"}}, {}, r"users\[a\]\.user\.auth-provider: not supported"),
        ({"new-field": 1}, {}, r"users\[a\]\.user: not supported: .*`new-field`"),
        ({}, {"new-field": 1}, r"clusters\[a\]\.cluster: not supported: .*`new-field`"),
        ({"exec": EXEC | {"new": 1}}, {}, r"users\[a\]\.user: not supported: .*`new`.*exec"),
        ({}, {"proxy-url": "socks5://localhost"}, r"proxy-url: not supported: 'socks5://localhost'"),
        ({}, {"server": "localhost"}, r"server: not a URL of http or https: 'localhost'"),
        ({}, {"server": "http://a/\r\nX: y"}, r"server: not a URL: 'http://a/\\r\\nX: y': .*non-printable"),
        ({}, {"proxy-url": "http://a:b"}, r"proxy-url: not a URL: 'http://a:b': Invalid port"),
        (
            {},
            {"insecure-skip-tls-verify": True, "certificate-authority": "ca.crt"},
            r"specifying a root certificates file with the insecure flag is not allowed",
        ),
        ({"as-groups": ["g"]}, {}, r"user\.as: uid, groups and extra of another user need the name"),
        ({"token": "t", "exec": EXEC}, {}, r"user\.exec: more than one authentication method found"),
        ({"client-certificate": "a"}, {}, r"give both client-certificate and client-key, or neither"),
        (
            {"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
            {},
            r"exec\.apiVersion: not supported: 'client\.authentication\.k8s\.io/v1alpha1'",
        ),
        (
            {"exec": {**EXEC, "interactiveMode": "Always"}},
            {},
            r"exec\.interactiveMode: not supported: 'Always'",
        ),
        ({"token": 7}, {}, r"users\[a\]\.user: not supported: Expected `str`"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], error: str
) -> None:
    path = write(tmp_path / "config", "a", user, {"server": SERVER} | cluster, current="a")
    with pytest.raises(InputError, match=error) as caught:
        read_kubeconfig(str(path), None)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{}", "No current context set"),
        ("[]", "not a kubeconfig: it must be a mapping"),
        ("spec: {}", "not a kubeconfig: unknown field spec"),
        ("contexts: [a]", "not a kubeconfig: each entry must be a mapping"),
        ("a: {", "while parsing a flow"),
    ],
)
def test_what_is_no_kubeconfig(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match=error):
        read_kubeconfig(str(path), "c" if text.startswith("contexts") else None)
