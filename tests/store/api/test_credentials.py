"""Credentials as a server sees them: files that change, commands that fail, other users, proxies."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.live import ClusterEntry, User, tls_context
from tests.store.api.tls_server import ConnectProxy, TlsServer

from moorage.errors import InputError
from moorage.live.client import Connection, connect
from moorage.store import UnauthorizedError, UnreachableError

EXEC = "client.authentication.k8s.io/v1"
PLUGIN = """
import json, os, sys
open(sys.argv[1] + ".runs", "a").write(os.environ["KUBERNETES_EXEC_INFO"] + "\\n")
text = open(sys.argv[1]).read()
sys.exit(text) if text.startswith("fail") else print(text)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TlsServer]:
    server = TlsServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def opened(server: TlsServer, tmp_path: Path) -> Iterator[Any]:
    """Connects with the fields of a user and of a cluster."""
    made: list[Connection] = []

    def make(user: dict[str, Any], **cluster: Any) -> Connection:
        there = {"server": server.url, "certificate-authority": "ca.crt"} | cluster
        value = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": there}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(value))
        connection = connect(str(tmp_path / "config")).connection
        connection.sleep = lambda _: None
        made.append(connection)
        return connection

    yield make
    for one in made:
        one.close()


class Plugin:
    """A command that tells what a file says."""

    def __init__(self, folder: Path) -> None:
        (folder / "plugin.py").write_text(PLUGIN)
        self.file = folder / "answer"
        self.user: dict[str, Any] = {
            "exec": {
                "apiVersion": EXEC,
                "command": sys.executable,
                "args": [str(folder / "plugin.py"), str(self.file)],
                "interactiveMode": "Never",
            }
        }

    def tells(self, **status: Any) -> None:
        self.file.write_text(json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": status}))

    def runs(self) -> list[dict[str, Any]]:
        text = Path(f"{self.file}.runs").read_text()
        return [json.loads(line)["spec"] for line in text.splitlines()]


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def get(connection: Connection) -> bytes:
    return connection.request("GET", "/version")


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_a_client_certificate_that_changes_is_used_at_once(
    server: TlsServer, opened: Any, tmp_path: Path
) -> None:
    server.authority.issue("client", "old")
    connection = opened({"client-certificate": "client.crt", "client-key": "client.key"})
    get(connection)
    server.authority.issue("next", "new")
    shutil.move(tmp_path / "next.crt", tmp_path / "client.crt")
    get(connection)  # the key is still the old one: what was read last stays
    shutil.move(tmp_path / "next.key", tmp_path / "client.key")
    get(connection)
    get(connection)
    assert [one.user for one in server.seen] == ["old", "old", "new", "new"]


def test_a_token_in_a_file_is_read_again_and_may_be_away(
    server: TlsServer, opened: Any, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("one\n")
    connection = opened({"tokenFile": "token"})
    get(connection)
    (tmp_path / "token").unlink()
    get(connection)
    (tmp_path / "token").write_text("two\n")
    get(connection)
    assert [one.token for one in server.seen] == ["one", "one", "two"]


def test_a_token_in_a_file_goes_before_one_beside_it(server: TlsServer, opened: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from the file")
    get(opened({"token": "old", "tokenFile": "token"}))
    assert [one.token for one in server.seen] == ["from the file"]


def test_an_authority_that_changes_is_read_again(server: TlsServer, opened: Any, tmp_path: Path) -> None:
    good = (tmp_path / "ca.crt").read_bytes()
    TlsServer(tmp_path).close()  # writes another authority
    connection = opened({})
    with pytest.raises(UnreachableError, match="certificate verify failed"):
        get(connection)
    (tmp_path / "ca.crt").write_bytes(good)
    assert get(connection) == b"{}"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("fail today", "ended with code 1: fail today"),
        ("no JSON", "no credentials: JSON is malformed"),
        ("[]", "no credentials: Expected `object`"),
        ('{"apiVersion": "v1", "kind": "Pod"}', "prints 'v1 Pod'"),
        (
            f'{{"apiVersion": "{EXEC}", "kind": "ExecCredential"}}',
            "prints neither a token nor a certificate",
        ),
        (
            f'{{"apiVersion": "{EXEC}", "kind": "ExecCredential", "status": '
            '{"clientCertificateData": "a"}}',
            "prints a certificate without its key, or a key without its certificate",
        ),
        (
            f'{{"apiVersion": "{EXEC}", "kind": "ExecCredential", "status": '
            '{"clientCertificateData": "a", "clientKeyData": "b"}}',
            "no credentials: ",
        ),
    ],
)
def test_a_command_that_fails_is_run_again_by_the_next_request(
    opened: Any, plugin: Plugin, answer: str, error: str
) -> None:
    plugin.file.write_text(answer)
    connection = opened(plugin.user)
    connection.clock = lambda: 5.0
    for _ in range(2):
        with pytest.raises(UnreachableError, match=error):
            get(connection)
    with (
        pytest.raises(UnreachableError, match=error),
        connection.stream("/api/v1/pods", {"watch": "true"}),
    ):
        pass
    assert connection.refused_since == 5.0
    plugin.tells(token="good")
    assert get(connection) == b"{}"
    assert connection.refused_since is None
    assert len(plugin.runs()) == 4


def test_a_command_that_is_missing_is_a_request_that_failed(opened: Any) -> None:
    command = {"apiVersion": EXEC, "command": "/none/plugin", "installHint": "Install it."}
    with pytest.raises(UnreachableError, match=r"/none/plugin.*Install it\."):
        get(opened({"exec": command}))


def test_a_token_that_is_refused_is_asked_for_again(server: TlsServer, opened: Any, plugin: Plugin) -> None:
    server.answers = lambda seen: 200 if seen.token == "new" else 401
    plugin.tells(token="old")
    connection = opened(plugin.user)
    with pytest.raises(UnauthorizedError):
        get(connection)
    assert connection.refused_since is not None
    plugin.tells(token="new")
    get(connection)
    get(connection)
    assert connection.refused_since is None
    assert [one.token for one in server.seen] == ["old", "old", "new", "new"]


def test_a_token_that_has_expired_is_asked_for_again(server: TlsServer, opened: Any, plugin: Plugin) -> None:
    plugin.tells(token="old", expirationTimestamp="2020-01-01T00:00:00Z")
    connection = opened(plugin.user)
    get(connection)
    plugin.tells(token="new", expirationTimestamp="2999-01-01T00:00:00Z")
    get(connection)
    get(connection)
    assert [one.token for one in server.seen] == ["old", "new", "new"]


def test_a_command_may_tell_a_certificate(
    server: TlsServer, opened: Any, plugin: Plugin, tmp_path: Path
) -> None:
    server.authority.issue("client", "plugged")
    pair = {"clientCertificateData": "client.crt", "clientKeyData": "client.key"}
    plugin.tells(**{name: (tmp_path / file).read_text() for name, file in pair.items()})
    get(opened(plugin.user))
    assert [one.user for one in server.seen] == ["plugged"]


def test_a_command_learns_of_the_cluster_if_it_asks_to(
    server: TlsServer, opened: Any, plugin: Plugin, tmp_path: Path
) -> None:
    plugin.tells(token="t")
    get(opened(plugin.user))
    plugin.user["exec"]["provideClusterInfo"] = True
    config = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    get(opened(plugin.user, extensions=[config]))
    without, with_info = plugin.runs()
    assert without == {"interactive": False}
    assert with_info["cluster"] == {
        "server": server.url,
        "certificate-authority-data": data(tmp_path / "ca.crt"),
        "config": {"audience": "a"},
    }


def test_requests_on_behalf_of_another_user(server: TlsServer, opened: Any) -> None:
    extra = {"example.com/scope": ["a", "b"]}
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["x", "y"], "as-user-extra": extra}
    get(opened(user))
    told = [(name, value) for name, value in server.seen[0].headers if name.startswith("Impersonate")]
    assert told == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "x"),
        ("Impersonate-Group", "y"),
        ("Impersonate-Extra-example.com%2Fscope", "a"),
        ("Impersonate-Extra-example.com%2Fscope", "b"),
    ]


def test_name_and_password(server: TlsServer, opened: Any) -> None:
    get(opened({"username": "jane", "password": "secret"}))
    told = dict(server.seen[0].headers)["Authorization"]
    assert told == f"Basic {base64.b64encode(b'jane:secret').decode()}"


def test_certificates_in_the_kubeconfig_itself(server: TlsServer, opened: Any, tmp_path: Path) -> None:
    server.authority.issue("client", "inline")
    user = {f"client-{name}-data": data(tmp_path / f"client.{end}") for name, end in CLIENT_FILES}
    authority = {"certificate-authority": "", "certificate-authority-data": data(tmp_path / "ca.crt")}
    get(opened(user, **authority))
    assert [one.user for one in server.seen] == ["inline"]


def test_threads_share_protocols_that_nobody_sets_again() -> None:
    """OpenSSL takes no lock to read them, and a context is in use by all connections at once."""
    context = tls_context(ClusterEntry("https://localhost"), User(), None)
    context.set_alpn_protocols(["h2"])  # as an HTTP library does, for each connection
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    assert b"\x00\x0b\x00\x09\x08http/1.1" in sent.read()


CLIENT_FILES = (("certificate", "crt"), ("key", "key"))


@pytest.mark.parametrize("through_proxy", [False, True])
def test_the_name_of_the_server_s_certificate(server: TlsServer, opened: Any, through_proxy: bool) -> None:
    proxy = ConnectProxy()
    more = {"proxy-url": proxy.url} if through_proxy else {}
    get(opened({}, **{"tls-server-name": "kubernetes.default.svc"} | more))
    assert [one.server_name for one in server.seen] == ["kubernetes.default.svc"]
    with pytest.raises(UnreachableError, match="certificate verify failed"):
        get(opened({}, **{"tls-server-name": "other.example.com"} | more))
    assert set(proxy.targets) == ({f"127.0.0.1:{server.port}"} if through_proxy else set())
    proxy.close()


def test_a_proxy_that_is_away_is_not_passed_by(server: TlsServer, opened: Any) -> None:
    with pytest.raises(UnreachableError):
        get(opened({}, **{"proxy-url": "http://127.0.0.1:1"}))
    assert server.seen == []


def test_a_certificate_that_is_not_checked(server: TlsServer, opened: Any) -> None:
    get(opened({}, **{"certificate-authority": "", "insecure-skip-tls-verify": True}))
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("user", "cluster", "named"),
    [
        ({"tokenFile": "none"}, {}, "tokenFile: {}/none: No such file or directory"),
        ({"tokenFile": "empty"}, {}, "tokenFile: {}/empty: the file is empty"),
        (
            {"client-certificate": "none.crt", "client-key": "none.key"},
            {},
            "client-certificate, client-key: {0}/none.crt, {0}/none.key: No such file or directory",
        ),
        (
            {"client-certificate-data": "eA==", "client-key": "none.key"},
            {},
            "client-key: {}/none.key: No such file or directory",
        ),
        ({"client-certificate-data": "!", "client-key-data": "!"}, {}, "client-certificate-data: "),
        (
            {"client-certificate-data": "eA==", "client-key-data": "eA=="},
            {},
            "client-certificate, client-key: ",
        ),
        ({}, {"certificate-authority": "empty"}, "certificate-authority: {}/empty: "),
        ({}, {"certificate-authority": "none"}, "certificate-authority: {}/none: No such file or directory"),
        (
            {},
            {"certificate-authority": "", "certificate-authority-data": "!"},
            "certificate-authority-data: ",
        ),
    ],
)
def test_a_file_that_is_wrong_at_the_start_is_an_error_that_names_field_and_file(
    opened: Any, tmp_path: Path, user: dict[str, str], cluster: dict[str, str], named: str
) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match=f"^{tmp_path}/config: {named.format(tmp_path)}"):
        opened(user, **cluster)


@pytest.mark.parametrize("user", [{"token": "hunter2\r\nX: y"}, {"token": "t", "as": "hunter2\n"}])
def test_a_value_that_no_header_may_have_is_not_told(
    server: TlsServer, opened: Any, user: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="characters that are not printable ASCII") as caught:
        get(opened(user))
    assert "hunter2" not in str(caught.value)
    assert server.seen == []
