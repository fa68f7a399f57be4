"""Faults that concern some pods or one kind: meanwhile all other pods are bound, beside kube-scheduler.

Each case runs with both schedulers. What is asserted of moorage is an order: the others are bound while the
fault lasts, and before any request that hangs was given up. How many seconds it took goes to `FIGURES`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.deploy.test_manifests import DEPLOY, find
from tests.live.kit.cluster_workload import (
    HOST,
    create,
    local_volumes,
    node,
    pod,
    priority_classes,
    send,
)
from tests.live.kit.control_plane import LIMIT, ControlPlane, await_all
from tests.live.kit.cutting_proxy import CuttingProxy
from tests.live.kit.fault_proxy import Fault, FaultProxy
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import Process, volume_controller

from moorage.kube import Pod
from moorage.live.client import ApiClient

pytestmark = pytest.mark.live
FIGURES = Path("build/live/faults.jsonl")
OURS, THEIRS = "moorage", "kube-scheduler"
BOTH = (OURS, THEIRS)
NODES, OTHERS = 12, 20
SELECTOR = "nodeSelector"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler"
EXPIRED = b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}'
Turn = Callable[[ControlPlane, ApiClient], AbstractContextManager[None]]


def hang(method: str, pattern: str) -> Fault:
    """Requests that are not answered until the fault is over."""
    return Fault(method, pattern, seconds=5 * LIMIT)


def unread(path: str, *faults: Fault) -> list[Fault]:
    """Watches of a kind expire, and what follows meets the faults."""
    return [Fault("GET", rf"{path}\?.*watch=", status=410, body=EXPIRED, limit=1), *faults]


def refused(path: str, status: int) -> Callable[[], list[Fault]]:
    """Lists and watches of a kind are refused."""
    return lambda: unread(path, Fault("GET", rf"{path}(\?|$)", status=status))


def told(path: str, *events: Any) -> list[Fault]:
    """Watches of a kind that bring one odd event each."""
    bodies = [msgspec.json.encode(event) + b"\n" for event in events]
    return [Fault("GET", rf"{path}\?.*watch=", status=200, body=body, limit=1) for body in bodies]


def bookmark(version: str) -> Any:
    meta = {"kind": "Node", "apiVersion": "v1", "metadata": {"resourceVersion": version}}
    return {"type": "BOOKMARK", "object": meta}


@contextmanager
def without_rights(cluster: ControlPlane, admin: ApiClient) -> Iterator[None]:
    """The scheduler may not read budgets, nodes' CSI drivers and namespaces any more."""
    role = send(admin, "GET", ROLE)
    role["metadata"].pop("resourceVersion")
    taken = {"poddisruptionbudgets", "csinodes", "csidrivers", "namespaces"}
    rules = [
        rule | {"resources": [one for one in rule["resources"] if one not in taken]} for rule in role["rules"]
    ]
    send(admin, "PUT", ROLE, role | {"rules": [rule for rule in rules if rule["resources"]]})
    yield
    send(admin, "PUT", ROLE, role)


@contextmanager
def without_group(cluster: ControlPlane, admin: ApiClient) -> Iterator[None]:
    """The API server comes back without the kinds of devices."""
    cluster.end("kube-apiserver")
    cluster.start_apiserver("--runtime-config=resource.k8s.io/v1=false")
    yield
    cluster.end("kube-apiserver")
    cluster.start_apiserver()


def slow(count: int) -> list[Any]:
    return [pod(f"slow{at:03}") for at in range(count)]


def preemptors() -> list[Any]:
    """Each in place of the pod of one node."""
    return [
        pod(f"high{at}", "3", priorityClassName="high", nodeSelector={HOST: f"n{at:04}"}) for at in range(6)
    ]


def victims() -> list[Any]:
    return [pod(f"low{at}", "3", nodeName=f"n{at:04}", priorityClassName="low") for at in range(6)]


def claimants() -> list[Any]:
    sources = [{"name": "v", "persistentVolumeClaim": {"claimName": f"claim{at}"}} for at in range(8)]
    return [pod(f"vol{at}", volumes=[source]) for at, source in enumerate(sources)]


@dataclass
class Case:
    """What is wrong, and for whom."""

    faults: Callable[[], list[Fault]] = list
    concerned: Callable[[], list[Any]] = list
    """Pods that meet the fault."""
    reached: int = 1
    """Requests that meet the last fault before others come."""
    present: Callable[[], list[Any]] = list
    """What else there is before the fault."""
    during: Turn = field(default=lambda cluster, admin: nullcontext())
    all_bound: bool = True
    """Whether the concerned pods are bound once the fault is over."""
    schedulers: tuple[str, ...] = BOTH
    """Of which it is known that they bind the others."""


CASES = {
    "bindings hang": Case(lambda: [hang("POST", r"/slow\d+/binding$")], lambda: slow(64), 64),
    "bindings are put off": Case(
        lambda: [Fault("POST", r"/slow\d+/binding$", status=429, headers={"Retry-After": "20"})],
        lambda: slow(20),
        20,
    ),
    "bindings fail": Case(lambda: [Fault("POST", r"/slow\d+/binding$", status=503)], lambda: slow(20), 20),
    "bindings are put off with odd times": Case(
        lambda: [
            Fault("POST", r"/slow\d+/binding$", status=429, headers={"Retry-After": time}, limit=1)
            for time in ("\xb2", "-5", "Wed, 21 Oct 2026 07:28:00 GMT", "99999999999")
        ],
        lambda: slow(5),
        all_bound=False,  # one waits as long as it was asked to
    ),
    "deletions of victims hang": Case(lambda: [hang("DELETE", "/pods/low")], preemptors, 6, present=victims),
    "conditions of victims hang": Case(lambda: [hang("PATCH", "/pods/low")], preemptors, 6, present=victims),
    "conditions of pods that fit nowhere hang": Case(
        lambda: [hang("PATCH", r"/nofit\d+/status")],
        lambda: [pod(f"nofit{at}", "99") for at in range(20)],
        all_bound=False,
        schedulers=(OURS,),
    ),
    "events hang": Case(lambda: [hang("POST", "/events$")], lambda: slow(30)),
    "writes to volumes hang": Case(
        lambda: [hang("PUT|PATCH", "/persistentvolume")], claimants, present=lambda: [*local_volumes(8)]
    ),
    "csinodes cannot be decrypted": Case(refused("/csinodes", 500)),
    "budgets are forbidden": Case(refused("/poddisruptionbudgets", 403)),
    "replicasets cannot be decrypted": Case(refused("/replicasets", 500)),
    "namespaces are gone": Case(refused("/namespaces", 404)),
    "rights are taken away": Case(during=without_rights),
    "a group is switched off": Case(during=without_group),
    "the list of csinodes hangs": Case(lambda: unread("/csinodes", hang("GET", r"/csinodes(\?|$)"))),
    "odd events of nodes": Case(
        lambda: told(
            "/nodes",
            {"type": "ADDED", "object": {}},
            {"type": "ADDED", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure"}},
            {"type": "ADDED", "object": pod("intruder")},
            {"type": "HELLO", "object": node("intruder")},
        )
    ),
    "odd events of pods": Case(
        lambda: told("/pods", {"type": "ADDED", "object": {}}, {"type": "DELETED", "object": {}})
    ),
    "a bookmark that is no number": Case(lambda: told("/nodes", bookmark("abc"))),
    "a bookmark of the future": Case(lambda: told("/nodes", bookmark("999999999999"))),
}


def note(case: str, scheduler: str, seconds: float) -> None:
    """Add a line to the figures, and show it with `-s`."""
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"case": case, "scheduler": scheduler, "seconds": round(seconds, 2)})
    with FIGURES.open("a") as file:
        file.write(f"{line}\n")
    print(line)


def on_nodes(followed: FollowedPods) -> set[str]:
    """Names of the pods that are bound."""
    return {one.name for one in followed.pods() if one.spec.node_name}


def conditions(admin: ApiClient, name: str) -> Any:
    return admin.get(Pod, name, "default").status.conditions


@pytest.fixture
def run(
    cluster: ControlPlane, scheduler: Callable[..., Process], proxy: FaultProxy
) -> Iterator[Callable[[str], tuple[CuttingProxy, Callable[[], int]]]]:
    """Starts a scheduler behind proxies that cut and make faults; returns the first, and what ends it."""
    cutter = CuttingProxy(proxy.port)

    def start(name: str) -> tuple[CuttingProxy, Callable[[], int]]:
        if name == OURS:
            process = scheduler(port=cutter.port)
            return cutter, process.end

        def end() -> int:
            cluster.end("kube-scheduler")
            return 0

        cluster.start_scheduler(port=cutter.port)
        return cutter, end

    yield start
    cutter.close()


@pytest.mark.parametrize(
    ("name", "scheduler_name"), [(name, one) for name, case in CASES.items() for one in case.schedulers]
)
def test_other_pods_are_bound_while_a_fault_lasts(
    cluster: ControlPlane,
    run: Callable[[str], tuple[CuttingProxy, Callable[[], int]]],
    proxy: FaultProxy,
    connected: Callable[..., ApiClient],
    name: str,
    scheduler_name: str,
) -> None:
    """The others fit on a node alone that is made during the fault. One more fits nowhere, and says on how
    many nodes."""
    case, admin = CASES[name], connected()
    create(admin, [*priority_classes(), *(node(f"n{at:04}") for at in range(NODES)), pod("first")])
    followed = FollowedPods(admin)
    with volume_controller(connected()):
        cutter, end = run(scheduler_name)
        followed.await_bound(1)
        create(admin, case.present())
        proxy.faults = faults = case.faults()
        with case.during(cluster, admin):
            if all(fault.method == "GET" for fault in faults):
                cutter.cut()  # watches meet the fault when they begin again
            create(admin, case.concerned())
            await_all([lambda: not faults or faults[-1].hits >= case.reached], lambda: time.sleep(0.02))
            began = time.monotonic()
            others = {f"other{at:02}" for at in range(OTHERS)}
            create(admin, [node("new"), *(pod(one, nodeSelector={HOST: "new"}) for one in others)])
            followed.await_that(lambda: others <= on_nodes(followed))
            note(name, scheduler_name, time.monotonic() - began)
            if scheduler_name == OURS:
                assert not any(fault.given_up for fault in faults)
            create(admin, [pod("large", "99")])
            await_all([lambda: bool(conditions(admin, "large"))], lambda: time.sleep(0.1))
            (condition,) = conditions(admin, "large")
            assert condition.message.startswith(f"0/{NODES + 1} nodes are available")
        proxy.end_faults()
        waiting = {one["metadata"]["name"] for one in case.concerned()}
        followed.await_that(lambda: not case.all_bound or waiting <= on_nodes(followed))
        assert end() == 0
    followed.check()
    assert {one.name for one in followed.pods()} >= {"first", *others, *waiting}


@pytest.mark.parametrize("scheduler_name", BOTH)
def test_the_end_does_not_wait_for_requests_that_hang(
    cluster: ControlPlane,
    run: Callable[[str], tuple[CuttingProxy, Callable[[], int]]],
    proxy: FaultProxy,
    admin: ApiClient,
    scheduler_name: str,
) -> None:
    """It comes within the time that the manifests give, and another goes on."""
    create(admin, [*(node(f"n{at:04}") for at in range(NODES)), pod("first")])
    followed = FollowedPods(admin)
    _, end = run(scheduler_name)
    followed.await_bound(1)
    bindings = hang("POST", "/binding$")
    proxy.faults = [bindings, hang("", "/events")]
    create(admin, slow(20))
    await_all([lambda: bindings.hits == 20], lambda: time.sleep(0.02))
    began = time.monotonic()
    code = end()
    seconds = time.monotonic() - began
    note("SIGTERM while bindings hang", scheduler_name, seconds)
    assert code == 0
    if scheduler_name == OURS:
        given = find(DEPLOY / "base/deployment.yaml", "Deployment")["spec"]["template"]["spec"]
        assert seconds < given.get("terminationGracePeriodSeconds", 30)
    proxy.end_faults()
    _, end = run(scheduler_name)
    followed.await_all_bound()
    assert end() == 0
    followed.check()
