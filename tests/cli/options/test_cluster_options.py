"""--kubeconfig, --context and --in-cluster instead of files, and ``moorage dump``."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from tests.cli.make import ITEMS, pod
from tests.cli.served import served
from tests.doors.kube import resource
from tests.doors.live import kinds_of_clusters, kubeconfig
from tests.house.source import ROOT
from tests.live.kit.certificates import Authority
from tests.store.api.test_api_client import answers
from tests.store.api.wire_server import Handler, WireServer

from moorage.cli import main
from moorage.kube import Deployment, Node, Pod, decode_object, load
from moorage.store import ObjectStore

KUBECONFIG = """apiVersion: v1
kind: Config
current-context: one
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: secret-token}}}}]
contexts:
- {{name: one, context: {{cluster: c, user: u}}}}
- {{name: two, context: {{cluster: none, user: u}}}}
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    store = ObjectStore(lambda: 1000.0)
    store.create(decode_object({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}))
    for item in ITEMS:
        store.create(decode_object(item))
    server = WireServer(store)
    (tmp_path / "config").write_text(KUBECONFIG.format(url=server.url))
    yield server
    server.close()


@pytest.fixture
def is_default(server: WireServer, tmp_path: Path) -> None:
    """The kubeconfig of the server is the user's."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").symlink_to(tmp_path / "config")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(one) for one in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_commands_read_the_cluster_as_its_dump(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ("--kubeconfig", tmp_path / "config")
    file = tmp_path / "dump.json.gz"
    assert run(capsys, "dump", *there, "-o", file)[0] == 0
    for command in (["simulate"], ["check"], ["explain", "pod/p4"], ["compare", "as-is", "cordon a"]):
        live, dumped = run(capsys, *command, *there), run(capsys, *command, "-f", file)
        (code, shown, _), (code_of_dump, shown_of_dump, _) = live, dumped
        named = shown.replace(f" --kubeconfig {there[1]}", f" -f {file}")  # the command that says why
        assert (code, named) == (code_of_dump, shown_of_dump)
        assert shown
    template = tmp_path / "template.json"
    template.write_text(json.dumps(pod("t")))
    live = run(capsys, "capacity", "--pod", template, *there)
    assert live[:2] == run(capsys, "capacity", "--pod", template, "-f", file)[:2]
    assert live[1]


@pytest.mark.parametrize("operation", ["Apply", "Update"])
def test_a_dump_says_who_has_applied_what(
    operation: str, server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    template: dict[str, Any] = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": containers}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    meta = {"name": "w", "namespace": "default"}
    new = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    fields = {"f:spec": {"f:template": {"f:spec": {"f:nodeSelector": {}}}}}
    manager = {"manager": "flux", "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields}
    pinned = template | {"spec": template["spec"] | {"nodeSelector": {"pool": "x"}}}
    old = new | {
        "metadata": meta | {"uid": "u", "managedFields": [manager]},
        "spec": spec | {"template": pinned},
    }
    server.store.create(decode_object(old))
    there, file, change = ("--kubeconfig", tmp_path / "config"), tmp_path / "d.json", tmp_path / "c.json"
    change.write_text(json.dumps(new))
    assert run(capsys, "dump", *there, "-o", file)[0] == 0
    live = run(capsys, "simulate", *there, "-f", change)
    assert run(capsys, "simulate", "-f", file, "-f", change)[:2] == live[:2]
    (found,) = [one for one in load(str(file), str(change)).others if isinstance(one, Deployment)]
    assert found.spec.template.spec.node_selector == (None if operation == "Apply" else {"pool": "x"})


def test_nodes_show_what_a_metrics_server_knows(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, file = ("--kubeconfig", tmp_path / "config"), tmp_path / "dump.json"
    group = "/apis/metrics.k8s.io/v1beta1"
    assert "USE" not in run(capsys, "nodes", *there)[1]
    for answers_it in (True, False):
        usage = {"cpu": "250m", "memory": "1Gi"}
        pods = {
            "items": [{"metadata": {"name": "p1", "namespace": "default"}, "containers": [{"usage": usage}]}]
        }
        nodes = {"items": [{"metadata": {"name": "a"}, "usage": usage}]}
        for path, answer in ((f"{group}/pods", pods), (f"{group}/nodes", nodes)):
            code = 200 if answers_it else 503
            server.faults.append(partial(answered, path=path, code=code, answer=answer))
        assert run(capsys, "dump", *there, "-o", file)[0] == 0
        assert (" 250m " in run(capsys, "nodes", "-f", file)[1]) is answers_it
    assert run(capsys, "check", *there)
    assert [path for _, path, _ in server.requests].count(f"{group}/pods") == 3


def answered(handler: Handler, path: str, code: int, answer: object) -> bool:
    """Answer the request of a path."""
    if handler.path.partition("?")[0] != path:
        return False
    handler.send(code, answer)
    return True


def test_files_change_the_cluster_that_was_read(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = tmp_path / "change.json"
    change.write_text(json.dumps(pod("new")))
    there = ("--kubeconfig", tmp_path / "config", "-f", change)
    assert "pod/new" in run(capsys, "simulate", *there)[1]
    code, out, _ = run(capsys, "check", *there, "-o", "json")
    assert code == 1
    assert "pod/new" in out
    assert server.store.list(Pod, field_selector="metadata.name=new")[0] == []  # nothing is written
    assert {method for method, _, _ in server.requests} == {"GET"}


@pytest.mark.usefixtures("is_default")
def test_a_plugin_of_kubectl_reads_the_current_context(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = tmp_path / "change.json"
    change.write_text(json.dumps(pod("new")))
    arguments = ["check", "-f", str(change), "-o", "json"]
    assert main(arguments, as_plugin=True) == 1
    as_plugin = capsys.readouterr()
    assert run(capsys, *arguments, "--context", "one")[1] == as_plugin.out
    assert main([*arguments, "--context", "none"], as_plugin=True) == 2
    assert main(["check", "--help"], as_plugin=True) == 0
    assert "Usage: kubectl moorage check" in capsys.readouterr().out


def test_a_dump_has_no_secrets(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = [{"name": "PASSWORD", "value": "hunter2"}]
    server.extra["default/p1"] = {"spec": {"containers": [{"name": "c", "env": env, "command": ["hunter2"]}]}}
    code, out, _ = run(capsys, "dump", "--kubeconfig", tmp_path / "config")
    assert code == 0
    assert "hunter2" not in out
    assert "p1" in out
    kinds = {path.rpartition("/")[2] for _, path, _ in server.requests}
    assert {"pods", "nodes", "persistentvolumes"} <= kinds
    assert not kinds & {"secrets", "configmaps"}
    assert json.loads(out)["items"][0]["kind"] == "Namespace"


def test_a_dump_repeats_no_manifests(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "a": "b"}
    server.extra["default/p1"] = {"metadata": {"annotations": mark}}
    env = {"name": "c", "image": "i", "env": [{"name": "A", "value": "hunter2"}]}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    template = {"metadata": {}, "spec": {"containers": [env]}}
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "d-1", "namespace": "default", "ownerReferences": [owner]},
        "data": {"spec": {"template": template}},
    }
    server.store.create(decode_object(revision))
    code, out, _ = run(capsys, "dump", "--kubeconfig", tmp_path / "config")
    assert code == 0
    assert "hunter2" not in out
    (found,) = [one for one in json.loads(out)["items"] if one["kind"] == "ControllerRevision"]
    assert found["data"]["spec"]["template"]["spec"]["containers"] == [
        {"name": "c", "image": "i", "env": [{"name": "A", "value": "hidden-text-1"}]}
    ]


def test_manifests_are_applied_to_a_dump_as_to_its_cluster(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dump has what kubectl apply compares: replicas of an autoscaler stay, and no pod is replaced."""
    env = {"name": "c", "image": "i", "env": [{"name": "A", "value": "hunter2"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [env]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    names = {"name": "web", "namespace": "default"}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": names, "spec": spec}
    mark = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest)}
    meta = names | {"annotations": mark}
    live = manifest | {"metadata": meta, "spec": spec | {"replicas": 2}}
    server.store.create(decode_object(live))
    (tmp_path / "web.json").write_text(json.dumps(manifest))
    there = ("--kubeconfig", tmp_path / "config")
    assert run(capsys, "dump", *there, "-o", tmp_path / "dump.json")[0] == 0
    assert "hunter2" not in (tmp_path / "dump.json").read_text()
    before = load(tmp_path / "dump.json")
    after = load(tmp_path / "dump.json", tmp_path / "web.json")
    ((old,), (new,)) = (
        [one for one in read.others if isinstance(one, Deployment)] for read in (before, after)
    )
    assert new.spec == old.spec
    unknown = "Texts that the dump hides count as unchanged, whatever a new manifest has: 1 of Deployment"
    assert (new.spec.replicas, before.warnings) == (2, [])
    assert after.warnings == [f"{unknown} default/web."]


def test_an_anonymous_dump(server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = ("--kubeconfig", tmp_path / "config")
    assert run(capsys, "dump", *there, "-o", tmp_path / "open.json")[0] == 0
    assert run(capsys, "dump", "--anonymize", *there, "-o", tmp_path / "other.json")[0] == 0
    before, after = (run(capsys, "simulate", "-f", tmp_path / f"{name}.json") for name in ("open", "other"))
    table = before[1].replace("[wait]", "[m]")  # the name of a gate
    assert [line.split()[2:] for line in table.splitlines()] == [
        line.split()[2:] for line in after[1].splitlines()
    ]
    assert "pod/gated" not in after[1]


@pytest.mark.parametrize("name", ["must-gather.tar.gz", "support-bundle.tar.xz"])
def test_a_dump_of_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also under other names it decides alike: ReplicaSets whose templates differ where nothing is read are
    not taken for one another."""
    archive = ROOT / "tests/data/archives" / name
    dumped, other = tmp_path / "dump.json", tmp_path / "anonymous.json.gz"
    assert run(capsys, "dump", "-f", archive, "-o", dumped)[0] == 0
    assert run(capsys, "dump", "-f", archive, "--anonymize", "-o", other)[0] == 0
    rows = ("simulate", "-q", "--bound", "-o", "csv", "-f")
    whole, same, renamed = (run(capsys, *rows, file)[1] for file in (archive, dumped, other))
    assert whole == same
    assert len(whole.splitlines()) == len(renamed.splitlines()) > 5
    assert {line.split(",")[3] for line in renamed.splitlines()} == {"status", "bound"}
    assert "openshift" not in renamed
    assert run(capsys, "dump", "-f", archive)[1] == dumped.read_text()


def test_the_user_s_rights(server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def forbidden(name: str) -> Any:
        refusal = answers(403, "Forbidden", f"{name} is forbidden")
        return lambda handler: handler.parts[-1] == name and refusal(handler)

    there = ("--kubeconfig", tmp_path / "config", "-o", tmp_path / "out.yaml")
    server.faults += [forbidden("services")] * 2  # as a stream, and by pages
    code, _, err = run(capsys, "dump", *there)
    assert (code, err) == (0, "warning: Left out, because the user may not list them: services.\n")
    assert "kind: Node" in (tmp_path / "out.yaml").read_text()
    server.faults += [forbidden("nodes")] * 2
    text = f"error: --kubeconfig {there[1]}: nodes is forbidden\n"
    assert run(capsys, "dump", *there)[::2] == (2, text)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--kubeconfig", "{}/none"], "{}/none: Configuration file {}/none not found"),
        (
            ["--kubeconfig", "{}/config", "--context", "x"],
            "{}/config: contexts: 'x' is not among the contexts",
        ),
        (["--kubeconfig", "{}/config", "--context", "two"], "clusters: 'none' is not among the clusters: c"),
        (["--kubeconfig", "{}/list"], "{}/list: not a kubeconfig"),
        (["--context", "one"], "~/.kube/config: Configuration file ~/.kube/config not found"),
        (["--in-cluster"], "service account: not in a cluster: KUBERNETES_SERVICE_HOST is not set"),
        (["--in-cluster", "--context", "one"], "give either --in-cluster, or --kubeconfig"),
        (
            ["--kubeconfig", "{}/config", "--synthetic", "nodes=1,pods=1"],
            "--synthetic cannot be combined with",
        ),
    ],
)
def test_bad_input_is_one_line_on_stderr(
    server: WireServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    error: str,
) -> None:
    (tmp_path / "list").write_text("[]")
    code, out, err = run(capsys, "simulate", *(one.replace("{}", str(tmp_path)) for one in arguments))
    assert (code, out) == (2, "")
    assert error.replace("{}", str(tmp_path)) in err
    assert len(err.splitlines()) == 1


CONFIGURATION = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{{}}}
"""


@pytest.mark.usefixtures("is_default")
@pytest.mark.parametrize(
    ("connection", "arguments"),
    [
        ("kubeconfig: {}/config", []),
        ("kubeconfig: {}/config", ["--kubeconfig", "{}/config"]),
        ("kubeconfig: {}/config", ["--context", "one"]),
        ("contentType: application/json", ["--kubeconfig", "{}/config"]),
        (
            "acceptContentTypes: 'application/vnd.kubernetes.protobuf, application/json;q=0.5'",
            ["--context", "one"],
        ),
        ("", ["--context", "one"]),
    ],
)
def test_a_scheduler_connects_as_its_configuration_says(
    server: WireServer, tmp_path: Path, connection: str, arguments: list[str]
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIGURATION.format(connection.replace("{}", str(tmp_path))))
    there = [one.replace("{}", str(tmp_path)) for one in arguments]
    assert served(["scheduler", "--config", config, *there], " INFO cluster listed", str)[0] == 0
    assert "/api/v1/nodes" in {path for _, path, _ in server.requests}


@pytest.mark.parametrize(
    ("connection", "arguments", "error"),
    [
        (
            "kubeconfig: a",
            ["--kubeconfig", "b"],
            "kubeconfig: 'a' and --kubeconfig b differ: leave one of them out",
        ),
        ("kubeconfig: a", ["--in-cluster"], "kubeconfig: 'a' and --in-cluster differ: leave one of them out"),
        ("contentType: application/cbor", [], "contentType: not supported: 'application/cbor'"),
        (
            "acceptContentTypes: application/vnd.kubernetes.protobuf",
            [],
            "acceptContentTypes: not supported: 'application/vnd.kubernetes.protobuf'; use",
        ),
    ],
)
def test_a_connection_that_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], connection: str, arguments: list[str], error: str
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIGURATION.format(connection))
    code, _, err = run(capsys, "scheduler", "--config", config, *arguments)
    assert (code, err.startswith(f"error: {config}: clientConnection.{error}")) == (2, True), err


def test_a_server_that_is_away(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.close()
    code, _, err = run(capsys, "simulate", "--kubeconfig", tmp_path / "config")
    assert code == 2
    assert re.match(rf"error: --kubeconfig {tmp_path}/config: GET https?://\S+/api/v1/namespaces: ", err)


def test_the_service_account_of_a_pod(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Authority(tmp_path)
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    session = kubeconfig._session

    def from_account(config: Any, timeout: float) -> Any:
        assert config.cluster.server == "https://[::1]:443"
        there = replace(config.cluster, server=server.url)
        return session(replace(config, cluster=there), timeout)

    monkeypatch.setattr(kubeconfig, "_session", from_account)
    assert run(capsys, "dump", "--in-cluster", "-o", tmp_path / "a.json.gz")[0] == 0
    assert b'"kind":"Node"' in gzip.decompress((tmp_path / "a.json.gz").read_bytes())
    assert len(server.store.list(Node)[0]) == 2


def test_the_role_of_a_reader_lists_every_kind_and_no_more() -> None:
    documents = yaml.safe_load_all((ROOT / "examples/live/rbac.yaml").read_text())
    role = next(one for one in documents if one["kind"] == "ClusterRole")
    allowed = {
        f"{name}.{group}".rstrip(".")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }
    needed = {resource(kind) for kind in kinds_of_clusters()} | {
        f"{name}.metrics.k8s.io" for name in ("pods", "nodes")
    }
    groups = {name.partition(".")[2] for name in needed}
    assert needed <= allowed
    assert {name for name in allowed - needed if name.partition(".")[2] not in groups - {""}} == set()
    assert not allowed & {"secrets", "configmaps"}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


EVERYWHERE = {
    "",
    "apps",
    "autoscaling",
    "batch",
    "node.k8s.io",
    "policy",
    "scheduling.k8s.io",
    "storage.k8s.io",
}
NOT_SERVED = {"podgroups.scheduling.k8s.io", "compositepodgroups.scheduling.k8s.io"}


def test_the_recommended_kubectl_get_has_what_every_server_has() -> None:
    text = (ROOT / "docs/guide/ten_minutes.md").read_text()
    names = text.partition("kubectl get --all-namespaces -o json ")[2].partition(">")[0].replace("\\\n", "")
    served = {resource(kind) for kind in kinds_of_clusters()} - NOT_SERVED
    known = {name.partition(".")[0] for name in served if name.partition(".")[2] in EVERYWHERE}
    assert set(names.strip().split(",")) == known


@pytest.mark.parametrize("version", ["v1.37.1", ""])
def test_the_release_is_that_of_the_api_server(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    server.version = version
    code, out, _ = run(capsys, "simulate", "--kubeconfig", tmp_path / "config", "-o", "json")
    assert code == 0
    told = f"version of the API server: {version}" if version else "the input does not say its release"
    assert json.loads(out)["release"] == {"version": "1.37" if version else "1.36", "reason": told}
