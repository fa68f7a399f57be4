"""Options that change the cluster before the run: order, what they come to, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_simulate import node, pod
from tests.house.source import ROOT

from moorage.cli import main

WEB = {"app": "web"}


def dump(tmp_path: Path, *items: dict[str, Any]) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Two nodes for two pods each, a Deployment with a pod on each, and a pod of its own on a."""
    template = {"metadata": {"labels": WEB}, "spec": pod("x")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": WEB}, "template": template}
    web = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    owner = {"kind": "Deployment", "name": "web", "controller": True}
    meta = {"name": "web-1", "namespace": "default", "labels": WEB, "ownerReferences": [owner]}
    replica_set = {"kind": "ReplicaSet", "metadata": meta, "spec": spec}
    pods = [pod(f"web-1-{name}", nodeName=name) for name in "ab"]
    for one in pods:
        reference = {"kind": "ReplicaSet", "name": "web-1", "controller": True}
        one["metadata"] |= {"labels": WEB, "ownerReferences": [reference]}
    return dump(tmp_path, node("a", "z1"), node("b", "z2"), web, replica_set, *pods)


def simulated(capsys: pytest.CaptureFixture[str], file: str, *changes: str) -> Any:
    capsys.readouterr()
    assert main(["simulate", "-f", file, "-o", "json", *changes]) == 0
    return json.loads(capsys.readouterr().out)


def nodes_of(document: Any) -> list[str]:
    return sorted(one["node"] or one["status"] for one in document["pods"])


@pytest.mark.parametrize(
    ("changes", "nodes"),
    [
        ("--drain a", ["b", "replaced"]),
        ("--remove-nodes a", ["b", "replaced"]),
        ("--fail-zone z1", ["b", "replaced"]),
        ("--remove-nodes zone=z1", ["b", "replaced"]),
        ("--scale deploy/web=4", ["a", "b"]),
        ("--restart-all --scale deploy/web=4", ["a", "a", "b", "b"]),
        ("--unsuspend --scale deploy/web=4 --unsuspend", ["a", "b"]),
        ("--scale deploy/web=4 --cordon a", ["b", "unschedulable"]),
        ("--scale deploy/web=4 --cordon a --uncordon a", ["a", "b"]),
        ("--scale deploy/web=4 --taint b spot=yes:NoSchedule", ["a", "unschedulable"]),
        ("--scale deploy/web=4 --taint b spot=yes:NoSchedule --taint b spot-", ["a", "b"]),
        ("--upgrade-nodes zone=z1 1", ["a-1", "replaced"]),
        ("--add-nodes a=1 --drain zone=z1", ["a-1", "replaced"]),
        ("--add-nodes a=1 --drain a-1 --drain zone=z1", ["b", "replaced"]),
        (
            "--drain a --scale deploy/web=5 --add-nodes b=1,zone=z3",
            ["b", "b-1", "b-1", "replaced", "unschedulable"],
        ),
    ],
)
def test_options_change_the_cluster_before_pods_are_placed(
    changes: str, nodes: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = simulated(capsys, file, *changes.split())
    names = [name.replace("b-2", "b-1").replace("b-0", "b-1") for name in nodes_of(found)]
    assert names == nodes


@pytest.mark.parametrize(
    ("command", "changes", "is_told"),
    [
        (["simulate"], [], True),
        (["simulate"], ["--unsuspend"], False),
        (["check"], ["--unsuspend"], False),
        (["explain", "--all-pending"], ["--unsuspend"], False),
        (["capacity", "--pod", "tests/data/web_pod.yaml"], [], True),
        (["capacity", "--pod", "tests/data/web_pod.yaml"], ["--unsuspend"], False),
        (["plan", "nodes", "--like", "a"], [], True),
        (["plan", "nodes", "--like", "a"], ["--unsuspend"], False),
    ],
)
def test_suspended_jobs_are_told_unless_they_run(
    command: list[str],
    changes: list[str],
    is_told: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    spec = {"suspend": True, "template": {"spec": pod("x")["spec"] | {"restartPolicy": "Never"}}}
    meta = {"name": "batch", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    suspended = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
    file = dump(tmp_path, node("a", "z1"), suspended)
    assert main([*command, "-f", file, *changes]) < 2
    told = (
        "warning: Not counted, because they are suspended (spec.suspend: false counts them) (1): Job default/"
    )
    assert (told in capsys.readouterr().err) is is_told


def autoscaled(tmp_path: Path) -> str:
    """A node for two pods; a Deployment of one pod and its autoscaler, one of nothing, and a CronJob."""
    template = {"metadata": {"labels": WEB}, "spec": pod("x")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": WEB}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    head = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    autoscalers = [
        head
        | {"metadata": {"name": name}}
        | {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": name}, "maxReplicas": 2}}
        for name in ("web", "gone")
    ]
    job = {"template": {"spec": pod("x")["spec"] | {"restartPolicy": "Never"}}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "night"}}
    cron["spec"] = {"schedule": "@daily", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}
    return dump(tmp_path, node("a", "z1"), web, *autoscalers, cron)


@pytest.mark.parametrize(
    ("changes", "passes", "told"),
    [
        ([], True, ["CronJob default/night"]),
        (["--hpa", "max"], True, ["CronJob default/night", "--hpa max has no effect on"]),
        (["--cronjobs"], True, []),
        (["--cronjobs", "--hpa", "max"], False, ["--hpa max has no effect on"]),
        (["--cronjobs", "--hpa", "min"], True, ["--hpa min has no effect on"]),
    ],
)
def test_autoscalers_and_cron_jobs(
    changes: list[str], passes: bool, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-f", autoscaled(tmp_path), *changes]) == (0 if passes else 1)
    err = capsys.readouterr().err.splitlines()
    assert [text for text, line in zip(told, err, strict=True) if text not in line] == []
    if "no effect" in " ".join(told):
        assert err[-1].endswith("HorizontalPodAutoscaler default/gone: there is no Deployment default/gone.")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("--restart-all", "the input has no Deployment, StatefulSet or DaemonSet"),
        ("--hpa max", "the input has no HorizontalPodAutoscaler or ScaledObject"),
        ("--cronjobs", "the input has no CronJob"),
        ("--unsuspend", "nothing is suspended"),
    ],
)
@pytest.mark.parametrize("command", [["check"], ["capacity", "--pod", "pod/p"], ["compare", "as-is"]])
def test_a_change_without_effect_is_told(
    command: list[str], change: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = dump(tmp_path, node("a", "z1"), node("b", "z2"), pod("p", nodeName="a"))
    words = [change.removeprefix("--")] if command[0] == "compare" else change.split()
    assert main([*command, *words, "-f", file]) == 0
    assert f"warning: {change} has no effect: {why}.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["--cordon", "a", "--cordon", "a"], "--cordon a has no effect: it has this already"),
        (["--scale", "deploy/web=1"], "--scale deploy/web=1 has no effect: it has this already"),
        (
            ["--hpa", "max", "--hpa", "max"],
            "--hpa max has no effect on HorizontalPodAutoscaler default/gone: ",
        ),
        (
            ["--cronjobs", "--cronjobs"],
            "--cronjobs has no effect on CronJob default/night: Job night-next has not finished, and its",
        ),
        (["--cronjobs", "--unsuspend"], "--unsuspend has no effect: nothing is suspended"),
    ],
)
def test_a_change_that_is_made_already_is_told(
    changes: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "-f", autoscaled(tmp_path), *changes]) == 0
    assert f"warning: {told}" in capsys.readouterr().err


def test_capacity_tells_what_has_no_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["capacity", "-f", autoscaled(tmp_path), "--pod", "deploy/web", "--hpa", "max"]
    assert main(command) == 0
    assert "warning: --hpa max has no effect on HorizontalPodAutoscaler" in capsys.readouterr().err


def test_changes_are_made_in_the_order_given(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["--cordon", "a", "--add-nodes", "a=1"]
    apart = ["--label", "a", "disk=ssd", "--cordon", "disk=ssd"]
    assert simulated(capsys, file, *both)["summary"]["nodes"] == 3
    simulated(capsys, file, *apart)
    assert main(["simulate", "-f", file, *apart[3:], *apart[:3]]) == 2
    assert capsys.readouterr().err.startswith("error: --cordon: ")


def test_a_new_zone_is_in_the_summary(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    zones = simulated(capsys, file, "--add-nodes", "a=2,zone=z9")["summary"]["zones"]
    assert [(zone["name"], zone["nodes"]) for zone in zones] == [("z1", 1), ("z2", 1), ("z9", 2)]


def test_the_gate_counts_what_a_change_evicts(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-f", file, "--drain", "a"]) == 0
    assert main(["check", "-f", file, "--drain", "a", "--drain", "b", "--new-only"]) == 1
    out = capsys.readouterr().out
    assert "FAIL: 2 pods have no node" in out
    assert "deployment/web  0/2        2     unschedulable  yes " in out


def test_a_pod_without_a_controller_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = dump(tmp_path, node("a", "z1"), node("b", "z1"), pod("alone", nodeName="a"))
    assert main(["check", "-f", file, "--remove-nodes", "a"]) == 1
    out = capsys.readouterr().out
    assert "pod/alone  0/1        1     evicted  yes     --remove-nodes a took it from node a" in out
    assert main(["check", "-f", file, "--remove-nodes", "a", "--allow", "evicted"]) == 0


def test_a_drain_that_leaves_a_pod_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = dump(tmp_path, node("a", "z1"), node("b", "z1"), pod("alone", nodeName="a"))
    assert main(["check", "-f", file, "--drain", "a"]) == 1
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "FAIL: 1 pod stays on a drained node"
    (row,) = [line for line in lines if "alone" in line]
    assert row.split()[2:5] == ["1", "kept", "yes"]
    assert "--drain a: " in row


def test_a_drain_that_moves_no_pod_of_a_cordoned_node_has_not_been_made_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cordoned = node("a", "z1")
    cordoned["spec"] = {"unschedulable": True}
    assert main(["check", "-f", dump(tmp_path, cordoned, pod("alone", nodeName="a")), "--drain", "a"]) == 1
    out, err = capsys.readouterr()
    assert (out.splitlines()[0], err) == ("FAIL: 1 pod stays on a drained node", "")


def test_explain_sees_the_changes(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--scale", "deploy/web=4", "--taint", "a", "spot=yes:NoSchedule", "--cordon", "b"]
    assert main(["explain", "deploy/web", "-f", file, *changes]) == 1
    out = capsys.readouterr().out
    assert out.startswith("deployment/web in namespace default: 2 pods without a node; one of them is\n")
    assert "untolerated taint spot=yes:NoSchedule" in out
    assert "cordoned (node.kubernetes.io/unschedulable:NoSchedule)" in out


def test_capacity_sees_the_changes(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = tmp_path / "pod.json"
    one.write_text(json.dumps(pod("p")))
    found = []
    for changes in ([], ["--add-nodes", "a=2"]):
        assert main(["capacity", "-f", file, "--pod", str(one), "-o", "json", *changes]) == 0
        found.append(json.loads(capsys.readouterr().out)["count"])
    assert found == [2, 6]


@pytest.mark.parametrize("command", [["simulate"], ["check"], ["explain", "--all-pending"]])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--drain", "c"], "--drain: "),
        (["--add-nodes", "a"], "--add-nodes: a: must be NODE=N[,zone=ZONE]"),
        (["--add-nodes", "a=many"], "--add-nodes: a=many: must be NODE=N[,zone=ZONE]"),
        (["--scale", "deploy/web"], "--scale: deploy/web: must be KIND/NAME=N"),
        (["--scale", "deploy/none=3"], "--scale: "),
        (["--scale", "widget/web=3"], "--scale: "),
        (["--taint", "a", "spot"], "--taint: "),
        (["--fail-zone", "z7"], "--fail-zone: "),
        (["--restart", "deploy/none"], "--restart: "),
        (
            ["--restart", "node/a"],
            "--restart: node/a: a Node cannot be restarted; name a DaemonSet, Deployment or",
        ),
        (
            ["--restart", "web"],
            '--restart: "web" is not a reference such as deploy/web; there is deployment/default/web',
        ),
        (["--restart", "weeb"], '--restart: "weeb" is not a reference such as deploy/web; nearest: web'),
        (
            ["--restart", "sts/web"],
            '--restart: there is no StatefulSet "default/web"; there is Deployment default/web',
        ),
        (["--restart", "depoly/web"], '--restart: there is no kind "depoly"; nearest: deploy'),
        (
            ["--scale", "hpa/web=3"],
            "--scale: hpa/web: a HorizontalPodAutoscaler has no replicas to set; name a",
        ),
        (["--scale", "deploy/weeb=3"], '--scale: there is no Deployment "default/weeb"; nearest: web'),
        (
            ["--scale", "deploy/shop/web=3"],
            '--scale: there is no Deployment "shop/web"; there is Deployment default/web',
        ),
        (
            ["--scale", "deploy/web=-1"],
            "--scale: deploy/web=-1: must be KIND/NAME=N with a whole number N",
        ),
        (
            ["--drain", "topology.kubernetes.io/zoen=z1"],
            '--drain: no Node has the labels "topology.kubernetes.io/zoen=z1"; nearest: topology',
        ),
        (["--drain", " "], "--drain: an argument is empty; give it a value, or leave it out"),
        (["--label", "a", "no value"], "--label: "),
        (["--set-requests", "/nowhere"], "/nowhere: no such file"),
        (["--hpa", "most"], "--hpa: must be min or max, not 'most'"),
        (["--remove-nodes", ""], "--remove-nodes: an argument is empty; give it a value, or leave it out"),
        (["--taint", "a"], "Option '--taint' requires 2 arguments."),
    ],
)
def test_bad_changes_are_one_line(
    command: list[str], changes: list[str], message: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "-f", file, *changes]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
