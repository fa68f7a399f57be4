"""Processes that are killed, answers that are lost, networks that are silent: no pod is lost or bound twice,
and no node has more than it holds."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.live.kit.cluster_workload import AT_ONCE, PATHS, create, node, pod, send
from tests.live.kit.control_plane import ControlPlane, answers, await_all
from tests.live.kit.cutting_proxy import CuttingProxy
from tests.live.kit.fault_proxy import Fault, FaultProxy
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import CONFIGURATION, Process

from moorage.live.client import ApiClient
from moorage.store import ApiError

pytestmark = pytest.mark.live
Scheduler = Callable[..., Process]
NODES = 50
AT_100 = CONFIGURATION.replace("qps: 5000, burst: 5000", "qps: 100, burst: 100")
"""So slow that bindings are in flight when something is killed."""
RECOVERED = 60.0
"""Seconds after which the next pod is bound although the network has lost all connections, at most: 45 on a
machine that does nothing else."""


def pods(count: int, prefix: str = "p") -> list[Any]:
    return [pod(f"{prefix}{at:04}", "1") for at in range(count)]


@pytest.fixture
def followed(admin: ApiClient) -> FollowedPods:
    """Nodes for 200 of `pods`."""
    create(admin, [node(f"n{at:02}") for at in range(NODES)])
    return FollowedPods(admin)


def test_a_scheduler_that_is_killed_again_and_again(
    scheduler: Scheduler, admin: ApiClient, followed: FollowedPods
) -> None:
    """The pods fill the cluster exactly."""
    create(admin, pods(200))
    for at in range(6):
        process = scheduler("ours", AT_100)
        followed.await_bound(20 + 25 * at)
        process.end(signal.SIGKILL)
    process = scheduler("ours", AT_100)
    followed.await_bound(200)
    assert process.end() == 0, process.log.read_text()
    followed.check()


def test_an_api_server_that_goes_and_comes(
    cluster: ControlPlane, scheduler: Scheduler, admin: ApiClient, followed: FollowedPods
) -> None:
    process = scheduler("ours", AT_100)
    create(admin, pods(200))
    for at, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)):
        followed.await_bound(30 + 40 * at)
        cluster.end("kube-apiserver", how)
        cluster.start_apiserver()
    followed.await_bound(200)
    assert process.end() == 0, process.log.read_text()
    followed.check()


def test_an_etcd_that_is_killed_and_one_that_stands_still(
    cluster: ControlPlane, scheduler: Scheduler, admin: ApiClient, followed: FollowedPods
) -> None:
    process = scheduler("ours", AT_100)
    create(admin, pods(200))
    followed.await_bound(30)
    cluster.end("etcd", signal.SIGKILL)
    cluster.start_etcd()
    followed.await_bound(100)
    cluster.processes["etcd"].send_signal(signal.SIGSTOP)
    await_all([lambda: not answers(f"{cluster.url}/readyz", "admin-token")], lambda: time.sleep(1.0))
    cluster.processes["etcd"].send_signal(signal.SIGCONT)
    followed.await_bound(200)
    assert process.end() == 0, process.log.read_text()
    followed.check()


def test_connections_that_have_become_silent(
    scheduler: Scheduler, cutter: CuttingProxy, admin: ApiClient, followed: FollowedPods
) -> None:
    """As after the failure of a router: nobody says that they are dead."""
    process = scheduler(port=cutter.port)
    create(admin, pods(5))
    followed.await_bound(5)
    cutter.silence()
    create(admin, pods(5, "q"))
    followed.await_bound(10, RECOVERED)
    assert process.end() == 0, process.log.read_text()


def faults() -> list[Fault]:
    """Bindings that are refused, put off or cut off, before and after they have taken effect; watches that
    expire or break off; conditions and events that are refused."""
    binding, watch = "/binding$", "watch=true"
    expired = msgspec.json.encode(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
    )
    return [
        Fault("POST", binding, status=500, every=10),
        Fault("POST", binding, status=500, is_late=True, every=11),
        Fault("POST", binding, status=429, headers={"Retry-After": "1"}, every=9),
        Fault("POST", binding, cuts=True, every=12),
        Fault("POST", binding, cuts=True, is_late=True, every=12),
        Fault("POST", binding, status=503, every=15),
        Fault("POST", binding, status=504, is_late=True, every=15),
        Fault("GET", watch, status=410, body=expired, every=5),
        Fault("GET", watch, cuts=True, every=7),
        Fault("PATCH", "/status", status=500, every=5),
        Fault("POST", "/events$", status=500, every=5),
    ]


def test_requests_that_fail_or_lose_their_answer(
    scheduler: Scheduler, proxy: FaultProxy, admin: ApiClient, followed: FollowedPods
) -> None:
    """Some in each kind, while watches are cut."""
    through = CuttingProxy(proxy.port)
    process = scheduler(
        "ours", CONFIGURATION.replace("qps: 5000, burst: 5000", "qps: 200, burst: 200"), port=through.port
    )
    create(admin, pods(4, "a"))
    followed.await_bound(4)
    proxy.faults = faults()
    create(admin, pods(196))
    for at in range(5):
        followed.await_bound(30 * (at + 1))
        through.cut()
    followed.await_bound(200)
    assert process.end() == 0, process.log.read_text()
    assert all(fault.hits for fault in proxy.faults if fault.pattern != "/status")
    through.close()
    followed.check()


def test_nodes_and_pods_that_are_made_again_under_their_names(
    scheduler: Scheduler, admin: ApiClient, followed: FollowedPods
) -> None:
    """While pods are bound; a node takes its pods with it, and their owner makes others."""
    chance, made = random.Random(1), 0
    process = scheduler("ours", CONFIGURATION.replace("qps: 5000, burst: 5000", "qps: 60, burst: 60"))
    create(admin, pods(160))
    for _ in range(40):
        name = f"n{chance.randrange(NODES):02}"
        send(admin, "DELETE", f"{PATHS['Node']}/{name}")
        for one in [one for one in followed.pods() if one.spec.node_name == name]:
            with suppress(ApiError):
                send(admin, "DELETE", f"{PATHS['Pod']}/{one.name}", AT_ONCE)
                create(admin, [pod(f"again{made:04}", "1")])
                made += 1
        create(admin, [node(name)])
        one = chance.choice(followed.pods())
        with suppress(ApiError):
            send(admin, "DELETE", f"{PATHS['Pod']}/{one.name}", AT_ONCE)
            create(admin, [pod(one.name, "1")])
    followed.await_bound(160)
    followed.await_all_bound()
    assert len(followed.pods()) == 160
    assert process.end() == 0, process.log.read_text()
    followed.check()
