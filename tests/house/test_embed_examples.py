"""The programs of examples/embed do what their page shows."""

from __future__ import annotations

import json
import re
import runpy
from http.client import HTTPConnection
from typing import Any

import pytest

import moorage as mo
from tests.house.source import ROOT

PAGE = (ROOT / "docs/guide/embedded_programs.md").read_text()


def program(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / f"examples/embed/{name}.py"))


@pytest.mark.parametrize("name", ["two_level_queue", "autoscaler"])
def test_a_program_prints_what_the_page_shows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / f"examples/embed/{name}.py"), run_name="__main__")
    shown = re.search(rf"^\$ python examples/embed/{name}\.py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert capsys.readouterr().out == shown[1]


# ---- fits_now ----------------------------------------------------------------------------------------------


def test_a_batch_system_is_told_why_as_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = "examples/demo.yaml examples/embed/train.yaml"
    monkeypatch.chdir(ROOT)
    program("fits_now")["main"](*files.split())
    assert f"$ python examples/embed/fits_now.py {files}\n{capsys.readouterr().out}```" in PAGE


def test_objects_of_a_client_are_asked_about() -> None:
    size = {"cpu": "4", "pods": "10"}
    status = {"capacity": size, "allocatable": size}
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    nodes = [
        {"kind": "Node", "metadata": {"name": name}, "status": status, "spec": {"taints": taints}}
        for name in "ab"
    ]
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    fits = program("fits_now")["Fits"](nodes)
    answer = fits.ask(pod)
    assert answer.nodes == []
    assert answer.rejections == {("TaintToleration", "node(s) had untolerated taint(s)"): 2}
    assert any("tolerat" in change for change in answer.changes)
    tolerant = {**pod["spec"], "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    assert fits.ask({**pod, "spec": tolerant}).nodes == ["a", "b"]
    absent = {
        **tolerant,
        "nodeName": "",
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}],
    }
    missing = ("VolumeRestrictions", 'persistentvolumeclaim "x" not found')  # at PreFilter, so of all nodes
    assert fits.ask({**pod, "spec": absent}).rejections == {missing: 2}


# ---- two_level_queue ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    return program("two_level_queue")


def queue(parts: dict[str, Any], nodes: int, **quotas: int) -> Any:
    size = {"cpu": "64", "pods": "110", "nvidia.com/gpu": "4"}
    status = {"capacity": size, "allocatable": size}
    made = [{"kind": "Node", "metadata": {"name": f"n{at}"}, "status": status} for at in range(nodes)]
    teams = [parts["Team"](name, "one", {"nvidia.com/gpu": 1000 * gpus}) for name, gpus in quotas.items()]
    return parts["TwoLevelQueue"](mo.Scheduler(mo.load(made)), teams)


def test_a_gang_starts_whole_or_not_at_all(parts: dict[str, Any]) -> None:
    two = queue(parts, 1, a=4)
    two.submit("a", parts["gang"]("wide", size=3, gpus=2))
    assert two.admit() == []
    assert two.scheduler.client.list(mo.Pod)[0] == []
    assert two.scheduler.cache.node_info("n0").pods == []


def test_teams_take_turns_by_their_share(parts: dict[str, Any]) -> None:
    two = queue(parts, 2, a=2, b=6)
    for name in ("1", "2"):
        two.submit("a", parts["gang"](f"a{name}", size=1, gpus=1))
        two.submit("b", parts["gang"](f"b{name}", size=1, gpus=1))
    assert two.admit() == ["started a/a1", "started b/b1", "started b/b2", "started a/a2"]


def test_nothing_is_taken_from_a_team_within_its_quota(parts: dict[str, Any]) -> None:
    two = queue(parts, 1, a=4, b=4)
    two.submit("a", parts["gang"]("own", size=1, gpus=4))
    assert two.admit() == ["started a/own"]
    two.submit("b", parts["gang"]("late", size=1, gpus=4))
    assert two.admit() == []


def test_a_borrower_takes_nothing_back(parts: dict[str, Any]) -> None:
    two = queue(parts, 1, a=1, b=1)
    two.submit("a", parts["gang"]("big", size=1, gpus=4))
    assert two.admit() == ["started a/big"]
    two.submit("b", parts["gang"]("too-big", size=1, gpus=2))
    assert two.admit() == []
    two.teams["b"].waiting.clear()
    two.submit("b", parts["gang"]("small", size=1, gpus=1))
    assert two.admit() == ["evicted a/big for b/small", "started b/small"]


# ---- autoscaler --------------------------------------------------------------------------------------------


def test_an_autoscaler_keeps_to_its_bounds() -> None:
    parts = program("autoscaler")
    size = {"cpu": "1", "pods": "9"}
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"pool": "p"}}}
    node["status"] = {"capacity": size, "allocatable": size}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    pods = [
        {"kind": "Pod", "metadata": {"name": f"p{at}"}, "spec": {"containers": containers}} for at in range(5)
    ]
    scheduler = mo.Scheduler(mo.load([node], pods))
    scaler = parts["Autoscaler"](scheduler, [parts["Group"](mo.read_object(node, mo.Node), 1, 3)])
    assert scaler.step() == ["n: 2 more"]
    assert (len(scheduler.pods.pending), scaler.step()) == (2, [])  # at its maximum
    scheduler.change.delete("pod/p0", "pod/p1", "pod/p2", "pod/p3", "pod/p4")
    assert len(scaler.step()) == 2
    assert len(scheduler.client.list(mo.Node)[0]) == 1


# ---- what_if_service ---------------------------------------------------------------------------------------


def test_a_service_tells_what_a_change_does() -> None:
    running = program("what_if_service")["server"](str(ROOT / "examples/demo.yaml"), port=0)
    try:
        client = HTTPConnection("127.0.0.1", running.port, timeout=60)
        answers = []
        for query in ("", "?add-nodes=node-1%3D4", ""):  # a question changes nothing
            client.request("GET", f"/v1/simulate{query}")
            answers.append(json.loads(client.getresponse().read())["summary"])
        client.close()
    finally:
        running.close()
    assert answers[0] == answers[2]
    assert answers[1]["placed"] > answers[0]["placed"]
