"""Every command comes to an end, whatever workloads, policies and changes a cluster has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.controllers.workloads.make import at_most, template

from moorage.cli import main

ROUNDS = 600
"""Of controllers, for a command on a few nodes; most need some tens."""

Json = dict[str, Any]
STALE = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
FINALIZERS: tuple[list[str], ...] = (
    [],
    ["batch.kubernetes.io/job-tracking"],
    ["example.com/mine"],
    ["foregroundDeletion"],
)
CHANGES = (
    "drain a",
    "remove-nodes b",
    "cordon a; uncordon a",
    "taint a k=v:NoExecute",
    "add-nodes a=1",
    "label a k=v",
)


def made(kind: str, name: str, spec: Json | None = None, **rest: Any) -> Json:
    meta = {"name": name, "uid": f"uid-{kind}-{name}"} | rest.pop("metadata", {})
    return {"kind": kind, "metadata": meta} | ({} if spec is None else {"spec": spec}) | rest


def nodes() -> st.SearchStrategy[list[Json]]:
    def machines(cpus: list[int], heard: list[bool]) -> list[Json]:
        return [
            made(
                "Node",
                name,
                status={
                    "allocatable": {"cpu": str(cpu), "pods": "9"},
                    "conditions": [{"type": "Ready", "status": "True" if is_heard else "Unknown"}],
                },
                metadata={"labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}},
            )
            for name, cpu, is_heard in zip("ab", cpus, heard, strict=True)
        ]

    pair = st.lists(st.integers(1, 6), min_size=2, max_size=2)
    return st.builds(machines, pair, st.lists(st.sampled_from([True, True, False]), min_size=2, max_size=2))


PERCENT = st.sampled_from([0, 1, 2, "50%", "100%"])
ROLLING = st.fixed_dictionaries({}, optional={"maxSurge": PERCENT, "maxUnavailable": PERCENT})
COMMON = {"minReadySeconds": st.sampled_from([5, 60])}


def surging(given: Json) -> Json:
    """Both of maxSurge and maxUnavailable may not be 0, and a DaemonSet may have one of them alone."""
    return given if given.get("maxSurge") or given.get("maxUnavailable") else {}


SPECS: dict[str, st.SearchStrategy[Json]] = {
    "Deployment": st.fixed_dictionaries(
        {"replicas": st.integers(0, 4)},
        optional=COMMON
        | {
            "strategy": st.one_of(
                st.just({"type": "Recreate"}),
                ROLLING.map(lambda one: {"type": "RollingUpdate", "rollingUpdate": surging(one)}),
            ),
            "paused": st.booleans(),
        },
    ),
    "StatefulSet": st.fixed_dictionaries(
        {"replicas": st.integers(0, 4)},
        optional=COMMON
        | {
            "podManagementPolicy": st.sampled_from(["OrderedReady", "Parallel"]),
            "updateStrategy": st.sampled_from([{"type": "OnDelete"}, {"type": "RollingUpdate"}]),
            "volumeClaimTemplates": st.just(
                [
                    {
                        "metadata": {"name": "data"},
                        "spec": {
                            "storageClassName": "fast",
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    }
                ]
            ),
        },
    ),
    "DaemonSet": st.fixed_dictionaries(
        {},
        optional=COMMON
        | {
            "updateStrategy": st.sampled_from(
                [
                    {"type": "OnDelete"},
                    {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                    {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
                ]
            )
        },
    ),
    "ReplicaSet": st.fixed_dictionaries({"replicas": st.integers(0, 4)}),
    "ReplicationController": st.fixed_dictionaries({"replicas": st.integers(0, 3)}),
    "Job": st.fixed_dictionaries(
        {"parallelism": st.integers(0, 4)},
        optional={
            "completions": st.integers(0, 5),
            "backoffLimit": st.integers(0, 3),
            "suspend": st.booleans(),
            "podReplacementPolicy": st.sampled_from(["Failed", "TerminatingOrFailed"]),
        },
    ),
    "indexed Job": st.fixed_dictionaries(
        {
            "parallelism": st.integers(0, 4),
            "completions": st.integers(0, 4),
            "completionMode": st.just("Indexed"),
        },
        optional={
            "backoffLimitPerIndex": st.integers(0, 1),
            "successPolicy": st.just({"rules": [{"succeededCount": 1}]}),
        },
    ),
}
"""By kind, what may stand in the spec of a workload besides its template."""


FIXED = {
    "StatefulSet": ("podManagementPolicy", "volumeClaimTemplates"),
    "Job": ("template", "completions", "completionMode", "backoffLimitPerIndex", "successPolicy"),
}
"""What may not change."""


@st.composite
def workload(draw: st.DrawFn, name: str) -> tuple[list[Json], Json]:
    """A workload with some of its pods, and what it is changed to."""
    which = draw(st.sampled_from(sorted(SPECS)))
    kind = which.removeprefix("indexed ")

    def spec() -> Json:
        inner = draw(
            st.fixed_dictionaries({}, optional={"priorityClassName": st.sampled_from(["high", "none"])})
        )
        own = template(name, draw(st.sampled_from(["500m", "1", "3"])), **inner)
        own["spec"]["tolerations"] = draw(st.sampled_from([[], [{"operator": "Exists"}]]))
        own["spec"]["restartPolicy"] = "Never" if kind == "Job" else "Always"
        selector = {"app": name} if kind == "ReplicationController" else {"matchLabels": {"app": name}}
        return draw(SPECS[which]) | {"template": own} | ({} if kind == "Job" else {"selector": selector})

    first = made(kind, name, spec())
    pods = [
        draw(pod(kind, name, at, first["spec"]["template"]["spec"])) for at in range(draw(st.integers(0, 2)))
    ]
    changed = made(kind, name, spec())
    for key in FIXED.get(kind, ()):
        changed["spec"].pop(key, None)
        changed["spec"] |= {key: first["spec"][key]} if key in first["spec"] else {}
    return [first, *pods], changed


@st.composite
def pod(draw: st.DrawFn, kind: str, owner: str, at: int, spec: Json) -> Json:
    is_going, phase = (
        draw(st.booleans()),
        draw(st.sampled_from(["Running", "Pending", "Failed", "Succeeded"])),
    )
    reference = {"kind": kind, "name": owner, "uid": f"uid-{kind}-{owner}", "controller": True}
    index = {"batch.kubernetes.io/job-completion-index": str(at)} if kind == "Job" else {}
    meta: Json = {"labels": {"app": owner}, "ownerReferences": [reference], "annotations": index}
    meta |= {"finalizers": draw(st.sampled_from(FINALIZERS))} | (STALE if is_going else {})
    placed = {} if phase == "Pending" and draw(st.booleans()) else {"nodeName": draw(st.sampled_from("ab"))}
    known = (
        {key: value for key, value in spec.items() if key != "priorityClassName"} | placed | {"priority": 0}
    )
    conditions = draw(st.sampled_from([[], [{"type": "Ready", "status": "False"}]]))
    status = {"phase": phase, "conditions": conditions}
    return made("Pod", f"{owner}-{at}", known, metadata=meta, status=status)


POLICIES = {
    "quota": made("ResourceQuota", "q", {"hard": {"pods": "3"}}),
    "quota of cpu": made("ResourceQuota", "r", {"hard": {"requests.cpu": "4"}}),
    "quota of claims": made("ResourceQuota", "c", {"hard": {"persistentvolumeclaims": "1"}}),
    "limits": made("LimitRange", "l", {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}),
    "budget": made(
        "PodDisruptionBudget", "b", {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "w0"}}}
    ),
    "class": made("StorageClass", "fast", provisioner="csi", volumeBindingMode="WaitForFirstConsumer"),
    "other class": made("StorageClass", "fast2", provisioner="csi", volumeBindingMode="Immediate"),
}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Json], list[Json], str]:
    """The files before and after, and a change."""
    both = [draw(workload(f"w{at}")) for at in range(draw(st.integers(1, 3)))]
    policies = [POLICIES[name] for name in sorted(draw(st.sets(st.sampled_from(sorted(POLICIES)))))]
    high = made("PriorityClass", "high", value=1000)
    before = [*draw(nodes()), high, *policies, *(one for objects, _ in both for one in objects)]
    return before, [changed for _, changed in both], draw(st.sampled_from(CHANGES))


def ends(*arguments: str) -> None:
    with at_most(ROUNDS):
        assert main(list(arguments)) in (0, 1, 2)


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=45,
)
@given(clusters())
def test_every_command_ends(tmp_path: Path, given: tuple[list[Json], list[Json], str]) -> None:
    before, after, change = given
    dump, new, single, trace = (str(tmp_path / f"{name}.json") for name in ("dump", "new", "pod", "trace"))
    Path(dump).write_text(json.dumps({"kind": "List", "items": before}))
    Path(new).write_text(json.dumps({"kind": "List", "items": after}))
    later = made("Pod", "later", template("later")["spec"] | {"priority": 5000})
    Path(single).write_text(json.dumps(made("Pod", "single", template("single", "2")["spec"])))
    event = {"time": "2026-01-01T00:00:05Z", "event": "Add", "resource": later}
    Path(trace).write_text(json.dumps(event) + "\n")
    options = [part for one in change.split("; ") for part in f"--{one}".split()]
    ends("simulate", "-f", dump)
    ends("check", "-f", dump, "-f", new, *options)
    ends("explain", "--all-pending", "-f", dump, "-f", new)
    ends("compare", "-f", dump, "-f", new, "as-is", change)
    ends("capacity", "-f", dump, "-f", new, "--pod", single, "--after-run")
    ends("replay", trace, "--format", "kube-scheduler-simulator", "-f", dump)


def test_a_limit_of_rounds_is_noticed(tmp_path: Path) -> None:
    """Or else the test above would say nothing."""
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [made("Node", "a")]}))
    with pytest.raises(AssertionError), at_most(0):
        main(["simulate", "-f", str(path)])
