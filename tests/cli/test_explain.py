"""``moorage explain`` beside other commands, and the names it takes; its text is in
`tests/cases/cli/explain*.md`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from moorage.cli import main
from tests.cli.make import ITEMS, node, pod
from tests.doors.answers import SimulationSetup
from tests.make import manifest, workload

BIG = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "5", "memory": "1Gi"}}}]}


def written(folder: Path, *items: dict[str, Any]) -> str:
    (path := folder / "dump.json").write_text(json.dumps({"kind": "List", "items": items}))
    return str(path)


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "-o", "json"]) < 2
    return json.loads(capsys.readouterr().out)


def test_nodes_limits_the_ranking(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "worker-000000", "--synthetic", "nodes=30,pods=1", "--nodes"]
    shown = [document(capsys, *words, limit)["ranking"] for limit in ("2", "all")]
    assert [len(ranking) for ranking in shown] == [2, 30]


def test_the_situation_is_that_of_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn = pod("torn") | {"spec": BIG | {"nodeSelector": {"disk": "ssd"}}}
    file = written(tmp_path, *ITEMS, pod("p1", "other"), torn)
    outcomes = document(capsys, "simulate", "-f", file)["pods"]
    at = 0
    for outcome in (each for each in outcomes if each["status"] != "gated"):
        name, place = f"{outcome['namespace']}/{outcome['pod']}", outcome["node"]
        explained = document(capsys, "explain", name, "-f", file)
        assert explained["fits"] == bool(place)
        assert outcome["reason"].startswith(explained["message"])
        assert explained["situation"].pop("message").startswith(explained["message"])
        others = {"placed": at, "pending": len(outcomes) - 1 - at}
        assert explained["situation"] == {"kind": "in-turn", "node": place} | others
        at += bool(place)


RAY = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "rc", "namespace": "shop"},
    "spec": {"headGroupSpec": {"template": {"spec": BIG}}},
}
BOAT = {
    "apiVersion": "sea.example/v1",
    "kind": "Boat",
    "metadata": {"name": "b"},
    "spec": {"replicas": 3, "template": {"spec": BIG}},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "night-1",
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night", "uid": "u", "controller": True}
        ],
    },
    "spec": {"template": {"spec": {**BIG, "restartPolicy": "Never"}}},
}


def test_every_subject_that_check_prints_can_be_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = pod("refused", priorityClassName="gone")
    alone = [pod("old", nodeName="a"), pod("big") | {"spec": BIG}, pod("other", schedulerName="theirs")]
    database = manifest(workload("StatefulSet", "db", 2, {"cpu": "5"}))
    file = written(tmp_path, node("a", "z1"), node("b", "z2"), refused, *alone, BOAT, RAY, database)
    dump = ["-f", file, "--drain", "a"]
    findings = document(capsys, "check", *dump)["findings"]
    assert {(finding["workload"], finding["status"]) for finding in findings} == {
        *(("pod/old", "kept"), ("pod/big", "unschedulable"), ("pod/other", "other-scheduler")),
        *(("raycluster.ray.io/rc", "unschedulable"), ("pod/refused", "refused")),
        *(("statefulset/db", "unschedulable"), ("statefulset/db", "waiting")),
        ("boat.sea.example/b", "skipped-kind"),
    }
    for finding in findings:
        for subject in (finding["workload"], *finding["names"]):
            assert main(["explain", subject, *dump, "-n", finding["namespace"]]) in (0, 1), subject
            out = capsys.readouterr().out
            if finding["status"] in ("refused", "skipped-kind"):
                told = f"{finding['workload']}: {finding['pods']} {finding['status']}: {finding['reason']}"
                assert told in out


def test_one_run_serves_the_whole_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, node("a", "z1"), pod("refused", priorityClassName="gone"), BOAT)
    calls = Counter[CodeType]()
    sys.setprofile(lambda frame, event, _: calls.update([frame.f_code] if event == "call" else ()))
    try:
        assert main(["explain", "--all-pending", "-f", file]) == 1
    finally:
        sys.setprofile(None)
    assert "skipped-kind" in capsys.readouterr().out
    assert calls[SimulationSetup.run.__code__] == 1


@pytest.mark.parametrize(
    ("names", "item"),
    [
        (
            "raycluster/rc RayCluster/shop/rc rayclusters/rc raycluster.ray.io/rc rayclusters.ray.io/rc",
            RAY,
        ),
        ("pod/shop/{pod} shop/{pod}", RAY),
        ("job/night-1 night-1 default/night-1", JOB),
        ("deploy/web Deployments.apps/web rs/{set} web default/web", None),
    ],
)
def test_forms_of_names(
    names: str, item: dict[str, Any] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = manifest(workload("Deployment", "web", 4, {"cpu": "3"}))
    file = written(tmp_path, node("a", "z1"), item or deployment)
    assert main(["check", "-f", file, "-o", "name"]) == 1
    name = capsys.readouterr().out.split()[0].removeprefix("pod/")
    explained = set[str]()
    for target in names.format(pod=name, set=name.rpartition("-")[0]).split():
        assert main(["explain", target, "-f", file]) == 1
        explained.add(capsys.readouterr().out)
    assert len(explained) == 1
    assert name.rpartition("-")[0] in explained.pop()
