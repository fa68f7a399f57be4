"""``moorage check`` counts the pods of workloads as their controllers leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import make
from tests.make import Json, manifest, node, owned

from moorage.cli import main

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
LOST = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
N1, N2, GONE = node("n1"), node("n2"), node("n1", status=LOST)


def workload(kind: str, name: str, count: int | None, cpu: object = 1, **spec: Any) -> Any:
    return make.workload(kind, name, count, {"cpu": cpu}, **{"metadata": {"uid": name}} | spec)


def members(owner: Any, *nodes: str, cpu: object = 1, status: Json | None = None, **meta: Any) -> list[Any]:
    """Running pods of a workload, one on each of the nodes."""
    name = owner.metadata.name
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": name, "uid": name}
    return [
        make.pod(
            f"{name}-{at}",
            on,
            {"cpu": cpu},
            labels={"app": name},
            metadata={"ownerReferences": [reference | {"controller": True}]} | meta,
            status={"phase": "Running"} | (status or {}),
        )
        for at, on in enumerate(nodes)
    ]


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Writes objects to a file and gives its name."""

    def write(*objects: Any, name: str = "dump") -> str:
        (path := tmp_path / f"{name}.json").write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [manifest(each) for each in objects]})
        )
        return str(path)

    return write


@pytest.fixture
def check(file: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """The exit code of the gate, its findings, and what it warns of."""

    def run(objects: list[Any], options: str = "") -> tuple[int, list[Any], str]:
        code = main(["check", "-f", file(*objects), *options.split(), "-o", "json"])
        out, err = capsys.readouterr()
        findings = json.loads(out)["findings"]
        return code, sorted((finding["status"], finding["pods"]) for finding in findings), err

    return run


DB = workload("StatefulSet", "db", 3)
WEB = workload("ReplicaSet", "web", 4)
BUDGET = make.make(
    "PodDisruptionBudget", "b", {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
)
TOLERANT = workload(
    "ReplicaSet", "web", 4, template=make.template("web", tolerations=[{"operator": "Exists"}])
)
BAD = make.template("db", priorityClassName="none")
FINDINGS: dict[str, tuple[list[Any], str, list[tuple[str, int]]]] = {
    "a drained StatefulSet lacks one pod for each that is gone": (
        [N1, N2, large := workload("StatefulSet", "db", 3, 2), *members(large, "n1", "n2", "n2", cpu=2)],
        "--drain n1",
        [("unschedulable", 1)],
    ),
    "a drain goes on until budgets let all go": (
        [N1, N2, BUDGET, WEB, *members(WEB, *["n1"] * 4)],
        "--drain n1",
        [],
    ),
    "and stops where there is no room": (
        [N1, node("n2", cpu=1), BUDGET, WEB, *members(WEB, *["n1"] * 4)],
        "--drain n1",
        [("kept", 2), ("unschedulable", 1)],
    ),
    "pods that may return to the node are not evicted again": (
        [N1, N2, BUDGET, TOLERANT, *members(TOLERANT, *["n1"] * 4)],
        "--drain n1",
        [],
    ),
    "a refused StatefulSet lacks each pod once": (
        [N1, workload("StatefulSet", "db", 3, template=BAD)],
        "",
        [("refused", 1), ("waiting", 2)],
    ),
    "all at once if they are parallel": (
        [N1, workload("StatefulSet", "db", 3, template=BAD, podManagementPolicy="Parallel")],
        "",
        [("refused", 3)],
    ),
    "a pod that its finalizers keep holds its ordinal": (
        [N1, N2, DB, *members(DB, *["n1"] * 3, finalizers=["example.com/mine"])],
        "--drain n1",
        [("terminating", 3)],
    ),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_findings(case: str, check: Any) -> None:
    objects, options, findings = FINDINGS[case]
    assert check(objects, options)[:2] == (bool(findings), findings)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("change", ["--drain", "--remove-nodes"])
def test_a_pod_that_is_made_again_counts_once(
    policy: str, change: str, file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    db = workload("StatefulSet", "db", 3, podManagementPolicy=policy)
    words = ["-f", file(N1, N2, db, *members(db, *["n1"] * 3)), change, "n1"]
    main(["simulate", *words, "-o", "json"])
    (row,) = json.loads(capsys.readouterr().out)["workloads"]
    assert (row["alreadyBound"], row["placed"], row["withoutNode"]) == (0, 3, [])
    assert main(["check", *words]) == 0
    assert "PASS: 3 pods" in capsys.readouterr().out


def test_pods_that_a_rollout_takes_back_are_no_failure(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    old = workload(
        "Deployment", "web", 3, template=make.template("web", {"cpu": 1}, nodeSelector={"pool": "x"})
    )
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest(old))}
    old.metadata.annotations.update(applied)  # so the selector goes
    nodes = node("n1", labels={"pool": "x"}), node("n2", cpu=8)
    change = file(workload("Deployment", "web", 6, metadata={}), name="change")
    assert main(["check", "-f", file(*nodes, old), "-f", change, "-o", "name"]) == 0
    assert capsys.readouterr().out == ""


def test_a_refusal_of_load_is_forgotten_once_the_pod_is_made(
    file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = make.make("ResourceQuota", "default/q", {"hard": {"pods": "2"}})
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    old = workload("Deployment", "web", 2, strategy=rolling)
    labels = {"app": "web", "pod-template-hash": "h"}
    template = make.template("web", {"cpu": 1}) | {"metadata": {"labels": labels}}
    meta = {"uid": "web-h"} | owned("Deployment", "web")
    its = workload("ReplicaSet", "web-h", 2, template=template, metadata=meta)
    dump = file(N1, quota, old, its, *members(its, "n1", "n1", labels=labels))
    new = workload("Deployment", "web", 2, "1500m", strategy=rolling, metadata={})
    assert main(["check", "-f", dump, "-f", file(new, name="change"), "-o", "name"]) == 0
    out, err = capsys.readouterr()
    assert (out, "refused" in err) == ("", False)


@pytest.mark.parametrize("finalizers", [[], ["batch.kubernetes.io/job-tracking"]])
def test_a_job_that_a_drain_fails_is_told(check: Any, finalizers: list[str]) -> None:
    job = workload("Job", "work", 2, backoffLimit=0)
    objects = [N1, N2, job, *members(job, "n1", "n1", finalizers=finalizers)]
    code, findings, warnings = check(objects, "--drain n1")
    assert (code, findings) == (1, [("evicted", 2)])  # nobody makes them again
    why = "BackoffLimitExceeded, Job has reached the specified backoff limit."
    assert f"Job default/work fails: {why}" in warnings
    assert check(objects, "--drain n1 --allow evicted")[0] == 0


def test_a_template_of_whose_pods_none_is_ready_is_told(check: Any) -> None:
    db = workload("StatefulSet", "db", 2, podManagementPolicy="Parallel")
    labels = {"app": "db", "controller-revision-hash": "db-1"}
    waiting = {"conditions": [{"type": "Ready", "status": "False"}]}
    warnings = check([N1, db, *members(db, "n1", "n1", status=waiting, labels=labels)])[2]
    assert "default/statefulset/db: all 2 bound pods of this template are not ready" in warnings


# ---- pods on a lost node -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "problems"),
    [
        (workload("StatefulSet", "db", 2), [("terminating", 1), ("waiting", 1)]),
        (workload("StatefulSet", "db", 2, podManagementPolicy="Parallel"), [("terminating", 1)]),
        (workload("ReplicaSet", "db", 2), []),
        (workload("Job", "db", 2, podReplacementPolicy="Failed"), [("terminating", 1)]),
        (workload("Job", "db", 2), []),
    ],
)
def test_a_pod_that_waits_for_one_on_a_lost_node_fails_the_gate(
    owner: Any, problems: list[Any], check: Any
) -> None:
    objects = [GONE, N2, owner, *members(owner, "n1", **GOING)]
    assert check(objects)[:2] == (bool(problems), problems)
    assert check(objects, "--label node/n2 a=b --new-only")[0] == 0
    assert check(objects, f"--taint n1 {OUT_OF_SERVICE}")[:2] == (0, [])  # which the reason tells to do
    before = [GONE, N2, owner, *members(owner, "n1")]
    assert check(before, "--drain n1")[:2] == (bool(problems), problems[:1])


def test_simulate_and_explain_say_what_check_says_of_a_pod_on_a_lost_node(
    file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    web, db = workload("ReplicaSet", "web", 2), workload("StatefulSet", "db", 1)
    dump = file(GONE, N2, db, *members(db, "n1", **GOING), web, *members(web, "n1", **GOING))
    main(["simulate", "-f", dump, "-o", "json"])
    simulated = json.loads(capsys.readouterr().out)
    rows = {row["workload"]: (row["alreadyBound"], row["placed"]) for row in simulated["workloads"]}
    assert rows["replicaset/web"] == (0, 2)
    (pod,) = (pod for pod in simulated["pods"] if pod["workload"] == "statefulset/db")
    text = f"statefulset/db: 1 {pod['status']}: {pod['reason']}\n"
    assert f"force-delete that pod, or taint the node {OUT_OF_SERVICE}" in text
    for target in ("sts/db", "db", "db-0", "--all-pending"):
        assert main(["explain", target, "-f", dump]) == 1
        assert capsys.readouterr().out.startswith(text)


@pytest.mark.parametrize(("paused", "findings"), [(False, [("terminating", 3)]), (True, [])])
def test_a_deployment_that_recreates_waits_for_old_pods_on_a_lost_node(
    paused: bool, findings: list[Any], check: Any
) -> None:
    web = workload("Deployment", "web", 3, strategy={"type": "Recreate"}, paused=paused)
    old = workload("ReplicaSet", "web-h", 0, 2, metadata={"uid": "web-h"} | owned("Deployment", "web"))
    objects = [GONE, N2, web, old, *members(old, "n1", **GOING)]
    assert check(objects)[:2] == (bool(findings), findings)


@pytest.mark.parametrize(
    ("waits", "spec", "is_told"),
    [
        (True, {"nodeName": "n1"}, True),
        (True, {"nodeSelector": {"on": "n1"}}, False),
        (False, {"nodeName": "n1"}, False),
    ],
)
@pytest.mark.parametrize("kind", ["Pod", "ReplicaSet"])
def test_a_pod_that_names_its_node_and_has_an_unbound_claim_is_told(
    waits: bool, spec: Json, is_told: bool, kind: str, check: Any
) -> None:
    its = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "mine"}}]} | spec
    user = (
        make.pod("w", **its)
        if kind == "Pod"
        else workload("ReplicaSet", "w", 1, template=make.template("w", **its))
    )
    storage = make.storage_class("fast", "x", waits)
    code, findings, warnings = check(
        [node("n1", labels={"on": "n1"}), storage, make.claim("mine", "fast"), user]
    )
    assert (code, findings) == (0, [])
    text = "1 pod names its node, so nobody binds its claim and it does not start"
    assert (text in warnings, "on n1 (claim mine)." in warnings) == (is_told, is_told)
