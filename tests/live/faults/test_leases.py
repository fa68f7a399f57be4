"""A Lease whose requests fail, and leaders that come too late: one scheduler writes at a time."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest
from tests.live.kit.cluster_workload import create, node, pod, priority_classes
from tests.live.kit.control_plane import ControlPlane, await_all
from tests.live.kit.fault_proxy import Fault, FaultProxy
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import Process, elected

from moorage.live.client import ApiClient

pytestmark = pytest.mark.live
Scheduler = Callable[..., Process]


@pytest.fixture
def other(cluster: ControlPlane) -> Iterator[FaultProxy]:
    """A proxy for a second scheduler, without faults."""
    proxy = FaultProxy(cluster)
    yield proxy
    proxy.close()


def pods(count: int, prefix: str, priority: str = "middle") -> list[object]:
    return [pod(f"{prefix}{at:03}", "1", priorityClassName=priority) for at in range(count)]


@pytest.fixture
def followed(admin: ApiClient) -> FollowedPods:
    """Twenty nodes, each with room for four of `pods`."""
    create(admin, [*priority_classes(), *(node(f"n{at:02}") for at in range(20))])
    return FollowedPods(admin)


def after(proxy: FaultProxy, moment: float) -> list[float]:
    """When bindings came after a moment, in seconds."""
    return [one.time - moment for one in proxy.bindings() if one.time > moment]


def test_one_request_that_hangs_does_not_end_a_leader(
    scheduler: Scheduler, proxy: FaultProxy, admin: ApiClient, followed: FollowedPods
) -> None:
    process = scheduler("ours", elected(12.0), port=proxy.port)
    create(admin, pods(5, "p"))
    followed.await_bound(5)
    hang = Fault("", "/leases/", seconds=30.0, cuts=True, limit=1)
    proxy.faults = [hang]
    await_all([lambda: bool(hang.hits)], lambda: time.sleep(0.05))
    began = time.monotonic()

    def renewed() -> bool:
        leases = [one for one in list(proxy.requests) if "/leases/" in one.path]
        return any(one.method == "PUT" and one.time > began + 8.0 for one in leases)

    await_all([lambda: renewed() or process.process.poll() is not None], lambda: time.sleep(0.2))
    assert process.process.poll() is None, process.log.read_text()
    create(admin, pods(5, "q"))
    followed.await_bound(10)
    assert process.end() == 0, process.log.read_text()


def test_a_standby_that_read_a_broken_answer_leads_when_it_is_its_turn(
    scheduler: Scheduler, proxy: FaultProxy, admin: ApiClient, followed: FollowedPods
) -> None:
    one = scheduler("one", elected())
    create(admin, pods(5, "p"))
    followed.await_bound(5)
    broken = Fault("GET", "/leases/", status=200, body=b"<html>sign in</html>", skip=2, limit=1)
    proxy.faults = [broken]
    two = scheduler("two", elected(), port=proxy.port)
    await_all([lambda: bool(broken.hits)], lambda: time.sleep(0.1))
    one.end(signal.SIGKILL)
    create(admin, pods(5, "q"))
    followed.await_bound(10)
    assert two.end() == 0, two.log.read_text()


def test_a_leader_that_stood_still_binds_no_more(
    scheduler: Scheduler, proxy: FaultProxy, admin: ApiClient, followed: FollowedPods
) -> None:
    """It has placed pods, whose bindings wait for the limit of requests. Meanwhile another fills the
    cluster."""
    one = scheduler("one", elected(qps=5), port=proxy.port)
    create(admin, pods(60, "x", "low"))
    followed.await_bound(8)
    one.process.send_signal(signal.SIGSTOP)
    create(admin, pods(80 - followed.on_nodes(), "y", "high"))
    two = scheduler("two", elected())
    followed.await_bound(80)
    went_on = time.monotonic()
    one.process.send_signal(signal.SIGCONT)
    assert one.process.wait(60) == 1
    assert "leaderelection lost" in one.log.read_text()
    assert after(proxy, went_on) == []
    assert two.end() == 0, two.log.read_text()
    followed.check()


def test_bindings_that_were_put_off_are_not_sent_after_the_lease(
    scheduler: Scheduler, proxy: FaultProxy, other: FaultProxy, admin: ApiClient, followed: FollowedPods
) -> None:
    put_off = Fault("POST", "/binding$", status=429, headers={"Retry-After": "9"}, limit=16)
    proxy.faults = [put_off]
    one = scheduler("one", elected(), port=proxy.port)
    create(admin, pods(60, "p"))
    await_all([lambda: put_off.hits == 16], lambda: time.sleep(0.05))
    proxy.faults = [Fault("", "/leases", seconds=60.0, cuts=True)]
    two = scheduler("two", elected(), port=other.port)
    assert one.process.wait(60) == 1
    followed.await_bound(60)
    assert after(proxy, other.bindings()[0].time) == []
    assert two.end() == 0, two.log.read_text()
    followed.check()
