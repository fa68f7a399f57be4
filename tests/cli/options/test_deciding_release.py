"""The release that decides where no option names one."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.doors.cli import deciding_release

from moorage.cli import main
from moorage.objects import Cluster, load

REGISTRY = "registry.example:5000/kubernetes"
RKE2 = "registry.example/rancher/hardened-kubernetes:v1.35.2-rke2r1-build20260212"


def node(name: str, kubelet: str = "") -> dict[str, Any]:
    status = {"allocatable": {"cpu": "4", "pods": "9"}, "nodeInfo": {"kubeletVersion": kubelet}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, image: str, namespace: str = "kube-system") -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace}
    spec = {"containers": [{"name": "c", "image": image}], "nodeName": "n"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def written(folder: Path, *items: dict[str, Any]) -> str:
    path = folder / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def bundle(folder: Path, name: str, document: object, *items: dict[str, Any]) -> str:
    path = folder / "bundle.tar"
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    with tarfile.open(path, "w") as archive:
        for file, content in ((name, document), ("nodes.json", listed)):
            data = json.dumps(content).encode()
            info = tarfile.TarInfo(file)
            info.size = len(data)
            archive.addfile(info, BytesIO(data))
    return str(path)


@pytest.mark.parametrize(
    ("items", "version", "reason"),
    [
        ([], "1.36", "the input does not say its release"),
        ([node("a", "v1.34.1"), node("b", "v1.35.0+k3s1")], "1.35", "kubelet of node b: v1.35.0+k3s1"),
        ([node("a", "kwok-v0.6.0")], "1.36", "the input does not say its release"),
        (
            [node("n", "v1.34.1"), pod("s", f"{REGISTRY}/kube-scheduler:v1.37.0@sha256:00")],
            "1.37",
            f"image of pod kube-system/s: {REGISTRY}/kube-scheduler:v1.37.0@sha256:00",
        ),
        (
            [
                pod("s", "kube-scheduler:v1.35.0"),
                pod("t", "kube-scheduler:v1.35.4"),
                pod("a", "kube-apiserver:v1.37.0"),
            ],
            "1.35",
            "image of pod kube-system/t: kube-scheduler:v1.35.4",
        ),
        (
            [pod("m", "kube-controller-manager:v1.34.0")],
            "1.34",
            "image of pod kube-system/m: kube-controller-manager:v1.34.0",
        ),
        (
            [
                pod("s", RKE2)
                | {"spec": {"containers": [{"name": "kube-scheduler", "image": RKE2}], "nodeName": "n"}}
            ],
            "1.35",
            f"image of pod kube-system/s: {RKE2}",
        ),
        ([pod("s", RKE2)], "1.36", "the input does not say its release"),
        ([pod("s", "kube-scheduler:v1.34.0", "hub")], "1.36", "the input does not say its release"),
        (
            [pod("s", "kube-scheduler@sha256:00"), pod("p", "proxy:v1.34.0")],
            "1.36",
            "the input does not say its release",
        ),
    ],
)
def test_the_release_is_that_of_the_control_plane_or_of_the_newest_kubelet(
    tmp_path: Path, items: list[dict[str, Any]], version: str, reason: str
) -> None:
    cluster = load(written(tmp_path, *items)) if items else Cluster()
    assert deciding_release(cluster, None) == (version, reason)
    assert not cluster.warnings or "cannot decide" not in cluster.warnings[-1]
    assert deciding_release(cluster, "1.34") == ("1.34", "--kubernetes-version")


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("cluster-info/cluster_version.json", {"info": {"gitVersion": "v1.35.2"}, "string": "v1.35.2"}),
        (
            "version.json",
            {"clientVersion": {"gitVersion": "v1.30.0"}, "serverVersion": {"gitVersion": "v1.35.2"}},
        ),
    ],
)
def test_an_archive_may_tell_the_version_of_the_server(
    tmp_path: Path, name: str, document: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle(tmp_path, name, document, node("n", "v1.34.0"))
    assert main(["simulate", "-f", path, "-o", "json"]) == 0
    shown = capsys.readouterr()
    reason = "version of the API server: v1.35.2"
    assert json.loads(shown.out)["release"] == {"version": "1.35", "reason": reason}
    assert shown.err.splitlines()[0] == f"release: Kubernetes 1.35 decides ({reason})"


@pytest.mark.parametrize(("kubelet", "release"), [("v1.33.9", "1.34"), ("v1.38.0", "1.37")])
def test_a_release_that_is_not_there_is_decided_by_the_nearest_with_a_warning(
    tmp_path: Path, kubelet: str, release: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, node("n", kubelet))
    assert main(["nodes", "-f", path]) == 0
    minor = kubelet[1:5]
    assert capsys.readouterr().err.splitlines() == [
        f"warning: moorage has no release {minor} (kubelet of node n: {kubelet}); "
        f"the nearest, {release}, decides. --kubernetes-version chooses another.",
    ]
    assert main(["nodes", "-f", path, "--kubernetes-version", "1.36"]) == 0
    assert capsys.readouterr().err == ""


COMMANDS = (
    ("simulate", "-o", "json"),
    ("capacity", "--pod", "pod/p", "-o", "json"),
    ("nodes", "-o", "json"),
    ("explain", "default/p", "-o", "json"),
    ("plan", "bound", "-o", "json"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one[0])
def test_commands_take_the_release_of_the_input_and_tell_it(
    tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = pod("p", "x", "default") | {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    path = written(tmp_path, node("n", "v1.37.2"), waiting)
    assert main([*command, "-f", path]) == 0
    shown = capsys.readouterr()
    told = {"version": "1.37", "reason": "kubelet of node n: v1.37.2"}
    assert json.loads(shown.out)["release"] == told
    assert "release: Kubernetes 1.37 decides (kubelet of node n: v1.37.2)\n" in shown.err
    gate = "--feature-gates=SchedulerQueueingHints=true"  # gone in 1.37
    assert main([*command, "-f", path, gate]) == 2
    assert main([*command, "-f", path, gate, "--kubernetes-version", "1.36"]) == 0


def test_each_alternative_is_decided_by_its_own_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    path = written(tmp_path, node("n", "v1.37.2"))
    other = written(tmp_path / "other", node("n", "v1.35.0"))
    assert main(["compare", "as-is", other, "-f", path, "-o", "json"]) == 0
    shown = capsys.readouterr()
    found = [one["release"]["version"] for one in json.loads(shown.out)["alternatives"]]
    assert found == ["1.37", "1.35"]
    assert shown.err.count("release: ") == 2


@pytest.mark.parametrize("text", ["1.37", "v1.37", "1.37.2", "v1.37.2-eks-1"])
def test_options_take_any_version_of_a_release(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, node("n", "v1.35.0"))
    assert main(["check", "-f", path, "--kubernetes-version", text, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["release"]["version"] == "1.37"
    assert main(["check", "-f", path, "--kubernetes-version", "1.37", "--upgrade-from", text]) == 2
    assert "both releases are 1.37" in capsys.readouterr().err
    assert main(["compare", "-f", path, "kubernetes 1.36", f"kubernetes {text}"]) == 0
    assert "MEASURE             kubernetes 1.36  kubernetes 1.37\n" in capsys.readouterr().out


def test_the_gate_of_an_upgrade_tells_that_the_later_release_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, node("n"))
    assert main(["check", "-f", path, "--upgrade-from", "1.35"]) == 0
    why = "the input does not say its release; --kubernetes-version chooses another"
    assert capsys.readouterr().err.splitlines()[0] == f"release: Kubernetes 1.36 decides ({why})"
    assert main(["check", "-f", path, "--upgrade-from", "1.35", "--kubernetes-version", "1.36"]) == 0
    assert main(["check", "-f", path]) == 0
    assert "release:" not in capsys.readouterr().err
