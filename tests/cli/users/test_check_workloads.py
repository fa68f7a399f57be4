"""``moorage check`` counts the pods of workloads as their controllers leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.workloads.make import template

from moorage.cli import main

TRACKING = "batch.kubernetes.io/job-tracking"


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "20"}}}


def workload(kind: str, name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    own = {"template": template(name, cpu), "selector": {"matchLabels": {"app": name}}} | spec
    return {"kind": kind, "metadata": {"name": name, "uid": f"u-{name}"}, "spec": own}


def member(kind: str, owner: str, name: str, on: str, cpu: str = "1", **meta: Any) -> dict[str, Any]:
    reference = {"kind": kind, "name": owner, "uid": f"u-{owner}", "controller": True}
    own = {"name": name, "labels": {"app": owner}, "ownerReferences": [reference], "uid": f"u-{name}"} | meta
    spec = template(owner, cpu)["spec"] | {"nodeName": on}
    return {"kind": "Pod", "metadata": own, "spec": spec, "status": {"phase": "Running"}}


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The exit code of the gate, its findings, and what it warns of."""

    def run(files: list[list[dict[str, Any]]], *options: str) -> tuple[int, list[Any], str]:
        arguments = []
        for at, items in enumerate(files):
            path = tmp_path / f"{at}.json"
            path.write_text(json.dumps({"kind": "List", "items": items}))
            arguments += ["-f", str(path)]
        code = main(["check", *arguments, *options, "-o", "json"])
        out, err = capsys.readouterr()
        return code, [(one["status"], one["pods"]) for one in json.loads(out)["findings"]], err

    return run


def test_a_drained_stateful_set_lacks_one_pod_for_each_that_is_gone(check: Any) -> None:
    its = [member("StatefulSet", "db", f"db-{at}", on, "2") for at, on in enumerate(("n1", "n2", "n2"))]
    files = [[node("n1"), node("n2"), workload("StatefulSet", "db", "2", replicas=3), *its]]
    assert check(files, "--drain", "n1")[:2] == (1, [("unschedulable", 1)])


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("change", [["--drain", "n1"], ["--remove-nodes", "n1"]])
def test_a_pod_that_is_made_again_counts_once(
    policy: str, change: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    its = [member("StatefulSet", "db", f"db-{at}", "n1") for at in range(3)]
    db = workload("StatefulSet", "db", replicas=3, podManagementPolicy=policy)
    (tmp_path / "f.json").write_text(
        json.dumps({"kind": "List", "items": [node("n1"), node("n2"), db, *its]})
    )
    main(["simulate", "-f", str(tmp_path / "f.json"), *change, "-o", "json"])
    (one,) = json.loads(capsys.readouterr().out)["workloads"]
    assert (one["alreadyBound"], one["placed"], one["withoutNode"]) == (0, 3, [])
    assert main(["check", "-f", str(tmp_path / "f.json"), *change]) == 0
    assert "PASS: 3 pods" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("room", "tolerates", "found"),
    [("4", False, []), ("1", False, [("kept", 2), ("unschedulable", 1)]), ("4", True, [])],
)
def test_a_drain_goes_on_until_budgets_let_all_go(
    check: Any, room: str, tolerates: bool, found: list[Any]
) -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    web = workload("ReplicaSet", "web", replicas=4)
    if tolerates:  # such pods may return to the node, and are not evicted again
        web["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    pods = [member("ReplicaSet", "web", f"web-{at}", "n1") for at in range(4)]
    code, told, _ = check([[node("n1"), node("n2", room), budget, web, *pods]], "--drain", "n1")
    assert (code, sorted(told)) == (int(bool(found)), found)


def test_a_refused_stateful_set_lacks_each_pod_once(check: Any) -> None:
    lost = workload("StatefulSet", "db", replicas=3)
    lost["spec"]["template"]["spec"]["priorityClassName"] = "none"
    code, found, _ = check([[node("n1"), lost]])
    assert (code, sorted(found)) == (1, [("refused", 1), ("waiting", 2)])
    lost["spec"]["podManagementPolicy"] = "Parallel"
    assert check([[node("n1"), lost]])[1] == [("refused", 3)]


def test_pods_that_a_rollout_takes_back_are_no_failure(check: Any) -> None:
    old = workload("Deployment", "web", replicas=3)
    old["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "x"}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(old)}  # so the selector goes
    old["metadata"]["annotations"] = applied
    here = node("n1")
    here["metadata"]["labels"] = {"pool": "x"}
    assert check([[here, node("n2", "8"), old], [workload("Deployment", "web", replicas=6)]])[:2] == (0, [])


def test_a_refusal_of_load_is_forgotten_once_the_pod_is_made(check: Any) -> None:
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    spec = {"replicas": 2, "strategy": rolling}
    old, new = (workload("Deployment", "web", cpu, **spec) for cpu in ("1", "1500m"))
    template = old["spec"]["template"]
    labels = {"app": "web", "pod-template-hash": "h"}
    its = workload("ReplicaSet", "web-h", replicas=2)
    owner = [{"kind": "Deployment", "name": "web", "uid": "u-web", "controller": True}]
    its["metadata"]["ownerReferences"] = owner
    its["spec"] |= {
        "template": template | {"metadata": {"labels": labels}},
        "selector": {"matchLabels": labels},
    }
    pods = [member("ReplicaSet", "web-h", f"web-h-{at}", "n1", labels=labels) for at in "ab"]
    code, found, warnings = check([[node("n1"), quota, old, its, *pods], [new]])
    assert (code, found) == (0, [])
    assert "refused" not in warnings


@pytest.mark.parametrize("finalizers", [[], [TRACKING]], ids=["without-finalizers", "with-finalizers"])
def test_a_job_that_a_drain_fails_is_told(check: Any, finalizers: list[str]) -> None:
    its = [member("Job", "work", f"work-{at}", "n1", finalizers=finalizers) for at in "ab"]
    job = workload("Job", "work", parallelism=2, backoffLimit=0)
    del job["spec"]["selector"]
    code, found, warnings = check([[node("n1"), node("n2"), job, *its]], "--drain", "n1")
    assert (code, found) == (0, [])
    assert (
        "Job default/work fails: BackoffLimitExceeded, Job has reached the specified backoff limit."
        in warnings
    )


def test_a_template_of_whose_pods_none_is_ready_is_told(check: Any) -> None:
    its = [member("StatefulSet", "db", f"db-{at}", "n1") for at in range(2)]
    for one in its:
        one["metadata"]["labels"]["controller-revision-hash"] = "db-1"
        one["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    files = [[node("n1"), workload("StatefulSet", "db", replicas=2, podManagementPolicy="Parallel"), *its]]
    warnings = check(files)[2]
    assert "default/statefulset/db: all 2 bound pods of this template are not ready" in warnings


def test_pods_that_are_being_deleted_are_not_among_those_with_a_node(
    check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = node("n1")
    lost["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    going: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    its = [member("ReplicaSet", "web", "web-a", "n1", **going)]
    check([[lost, node("n2"), workload("ReplicaSet", "web", replicas=2), *its]])
    main(["simulate", "-f", str(tmp_path / "0.json"), "-o", "json"])
    (one,) = json.loads(capsys.readouterr().out)["workloads"]
    assert (one["alreadyBound"], one["placed"]) == (0, 2)


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"


def lost(name: str) -> dict[str, Any]:
    dead = node(name)
    dead["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return dead


@pytest.mark.parametrize(
    ("kind", "spec", "problems"),
    [
        ("StatefulSet", {"replicas": 2}, [("terminating", 1), ("waiting", 1)]),
        ("StatefulSet", {"replicas": 2, "podManagementPolicy": "Parallel"}, [("terminating", 1)]),
        ("ReplicaSet", {"replicas": 2}, []),
        ("Job", {"parallelism": 2, "podReplacementPolicy": "Failed"}, [("terminating", 1)]),
        ("Job", {"parallelism": 2}, []),
    ],
)
def test_a_pod_that_waits_for_one_on_a_lost_node_fails_the_gate(
    kind: str, spec: dict[str, Any], problems: list[Any], check: Any
) -> None:
    owner = workload(kind, "db", **spec)
    if kind == "Job":
        del owner["spec"]["selector"]
    files = [[lost("n1"), node("n2"), owner, member(kind, "db", "db-0", "n1", **GOING)]]
    assert check(files)[:2] == (bool(problems), problems)
    assert check(files, "--new-only")[0] == 0
    assert check(files, "--taint", "n1", OUT_OF_SERVICE)[:2] == (0, [])  # which the reason tells to do
    before = [[*files[0][:-1], member(kind, "db", "db-0", "n1")]]
    assert check(before, "--drain", "n1")[:2] == (bool(problems), problems[:1])


def test_simulate_and_explain_say_what_check_says_of_a_pod_on_a_lost_node(
    check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    its = member("StatefulSet", "db", "db-0", "n1", **GOING)
    assert check([[lost("n1"), node("n2"), workload("StatefulSet", "db", replicas=1), its]])[0] == 1
    file = str(tmp_path / "0.json")
    main(["simulate", "-f", file, "-o", "json"])
    (simulated,) = json.loads(capsys.readouterr().out)["pods"]
    text = f"statefulset/db: 1 {simulated['status']}: {simulated['reason']}\n"
    assert f"force-delete that pod, or taint the node {OUT_OF_SERVICE}" in text
    for target in ("sts/db", "db", "db-0", "--all-pending"):
        assert main(["explain", target, "-f", file]) == 1
        assert capsys.readouterr().out == text


@pytest.mark.parametrize("paused", [False, True])
def test_a_deployment_that_recreates_waits_for_old_pods_on_a_lost_node(paused: bool, check: Any) -> None:
    web = workload("Deployment", "web", replicas=3, strategy={"type": "Recreate"}, paused=paused)
    old = workload("ReplicaSet", "web-h", "2", replicas=0)
    old["metadata"]["ownerReferences"] = [
        {"kind": "Deployment", "name": "web", "uid": "u-web", "controller": True}
    ]
    going = member("ReplicaSet", "web-h", "web-h-a", "n1", **GOING)
    found = check([[lost("n1"), node("n2"), web, old, going]])[:2]
    assert found == ((0, []) if paused else (1, [("terminating", 3)]))


def test_a_pod_that_its_finalizers_keep_holds_its_ordinal(
    check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {"finalizers": ["example.com/mine"]}
    its = [member("StatefulSet", "db", f"db-{at}", "n1", **kept) for at in range(3)]
    files = [[node("n1"), node("n2"), workload("StatefulSet", "db", replicas=3), *its]]
    code, problems, _ = check(files, "--drain", "n1")
    assert (code, problems) == (1, [("terminating", 3)])
    main(["check", "-f", str(tmp_path / "0.json"), "--drain", "n1"])
    assert "being deleted and stays, as it has finalizers: example.com/mine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mode", "spec", "told"),
    [
        ("WaitForFirstConsumer", {"nodeName": "n1"}, True),
        ("WaitForFirstConsumer", {"nodeSelector": {"on": "n1"}}, False),
        ("Immediate", {"nodeName": "n1"}, False),
    ],
)
@pytest.mark.parametrize("kind", ["Pod", "ReplicaSet"])
def test_a_pod_that_names_its_node_and_has_an_unbound_claim_is_told(
    mode: str, spec: dict[str, Any], told: bool, kind: str, check: Any
) -> None:
    storage = {
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "x",
        "volumeBindingMode": mode,
    }
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}}
    claim |= {"spec": asked | {"storageClassName": "fast"}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "mine"}}
    its = template("w", **spec, volumes=[volume])
    user = workload("ReplicaSet", "w", template=its, replicas=1)
    if kind == "Pod":
        user = {"kind": "Pod", "metadata": {"name": "w"}, "spec": its["spec"]}
    n1 = node("n1")
    n1["metadata"]["labels"] = {"on": "n1"}
    code, found, warnings = check([[n1, storage, claim, user]])
    assert (code, found) == (0, [])
    assert ("1 pod names its node, so nobody binds its claim and it does not start" in warnings) == told
    assert ("on n1 (claim mine)." in warnings) == told
