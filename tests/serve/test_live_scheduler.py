"""A live scheduler over the wire: bindings, conditions, events, faults, and its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace
from tests.devices.make import claim as device_claim
from tests.devices.make import device, device_class, request, resource_slice
from tests.doors.engine import NODE_ADD, RETRY, Notice, RunningPreemptions
from tests.doors.live import Election, LeaderLease, LiveScheduler, LostLeaseError, RateLimit, Session, writer
from tests.make import claim, make, node, pod, storage_class, volume
from tests.scheduler.groups.gang_kit import GATES
from tests.store.api.test_api_client import answers, cuts
from tests.store.api.test_engine_over_wire import nodes_of
from tests.store.api.wire_server import LIMIT, WireServer

from moorage.kube import Object, Pod, PodGroup
from moorage.live.client import ApiClient, Connection
from moorage.store import ObjectStore

THREADS = 16  # that bind pods, as in kube-scheduler

ATTEMPTS = "scheduler_schedule_attempts_total"


def machine(name: str, cpu: str = "4") -> Object:
    return node(name, labels={"kubernetes.io/hostname": name}, cpu=cpu)


def asking(name: str, cpu: str = "1", on: str = "", **spec: Any) -> Pod:
    return pod(name, on, {"cpu": cpu}, **spec)


AVAILABLE = {"phase": "Available"}
VOLUME = (storage_class("s"), volume("pv", "s", hostPath={"path": "/x"}, status=AVAILABLE), claim("c", "s"))
"""A claim that is bound with its first pod, and its volume."""
DEVICE = (device_class(), resource_slice("n0", [device("g0")]), device_claim("c", [request()]))
"""A claim of a device, and the device."""


def first_pod(write: str) -> Pod:
    """A pod for which something is written before it is bound."""
    if write == "volume":
        return asking("first", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    if write == "claim":
        return asking("first", resourceClaims=[{"name": "g", "resourceClaimName": "c"}])
    return asking("first", "99")


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _events_are_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def live(client: ApiClient, store: ObjectStore, clock: Clock) -> Iterator[LiveScheduler]:
    store.create_many([machine("n0"), machine("n1")])
    live = LiveScheduler(client, client.connection, clock=clock)
    yield live
    live.run.finish(LIMIT)
    live.recorder.close()


def until(live: LiveScheduler, condition: Callable[[], bool]) -> None:
    """Take steps until a condition holds; wait for events where there is nothing to do."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        seen = live.client.arrivals.count
        if not live.run.step() and not condition():
            live.client.arrivals.wait(seen, 0.05)  # the ends of some writes, and of the server's, are no news


def add_node(live: LiveScheduler, store: ObjectStore, name: str) -> None:
    """Create a node, and wait until the scheduler has it: pods that are created next may come before it."""
    store.create(machine(name))
    until(live, lambda: live.scheduler.cache.state.table.find_row(name) is not None)


def events(server: WireServer) -> list[dict[str, Any]]:
    return [value for path, value in list(server.raw.items()) if "/events/" in path]


def test_pods_are_bound_as_they_come(live: LiveScheduler, store: ObjectStore, server: WireServer) -> None:
    store.create_many([asking("a"), asking("b")])
    until(live, lambda: all(nodes_of(store).values()))
    store.create_many([asking("c")])
    until(live, lambda: all(nodes_of(store).values()) and live.run.bound == 3)
    assert (
        live.run.metrics.registry.get_sample_value(
            ATTEMPTS, {"result": "scheduled", "profile": "default-scheduler"}
        )
        == 3
    )
    live.recorder.writer.flush()
    written = {one["regarding"]["name"]: one for one in events(server)}
    assert written.keys() == {"a", "b", "c"}
    one = written["c"]
    assert (one["type"], one["reason"], one["action"]) == ("Normal", "Scheduled", "Binding")
    assert one["note"] == f"Successfully assigned default/c to {nodes_of(store)['c']}"
    assert one["reportingController"] == "default-scheduler"
    assert one["reportingInstance"].startswith("default-scheduler-")
    assert one["regarding"]["uid"] == store.get(Pod, "c", "default").metadata.uid
    writes = [(method, path) for method, path, _ in server.requests if method != "GET"]
    assert len(writes) == 6  # a binding and an event for each pod, as kube-scheduler


def test_a_pod_that_does_not_fit_waits_for_a_node(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    store.create_many([asking("big", "5")])
    until(live, lambda: bool(store.get(Pod, "big", "default").status.conditions))
    text = live.run.metrics.text().decode()
    counted = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1.0'
    assert counted in text
    assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in text
    assert 'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1.0' in text
    (condition,) = store.get(Pod, "big", "default").status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert condition.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert condition.last_transition_time
    store.create(machine("large", "8"))
    clock.now += 60.0  # over the backoff
    until(live, lambda: nodes_of(store)["big"] == "large")
    until(live, lambda: live.run.bound == 1)
    live.recorder.writer.flush()
    assert [one["reason"] for one in events(server)] == ["FailedScheduling", "Scheduled"]


def test_gauges_of_the_cache_and_of_events(live: LiveScheduler, store: ObjectStore) -> None:
    store.create_many(
        [asking("there", on="n0"), asking("a"), asking("gated", schedulingGates=[{"name": "g"}])]
    )
    scheduler = live.scheduler

    def known() -> tuple[int, int, int]:
        scheduler.sync()
        pending = scheduler.queue.pending_pods()
        return len(scheduler.cache.state.pods()), len(pending.active), len(pending.gated)

    seen = live.client.arrivals.count
    while known() != (1, 1, 1):
        seen = live.client.arrivals.wait(seen, LIMIT)
    (info,) = scheduler.queue.pop()
    assert info is not None
    assumed = replace(info.pod, spec=replace(info.pod.spec, node_name="n1"))
    scheduler.cache.assume_pod(assumed)
    scheduler.queue.move_all(NODE_ADD, [Notice(None, None)])
    lines = live.run.metrics.text().decode().splitlines()
    assert 'scheduler_cache_size{type="nodes"} 2.0' in lines
    assert 'scheduler_cache_size{type="pods"} 2.0' in lines
    assert 'scheduler_cache_size{type="assumed_pods"} 1.0' in lines
    assert 'scheduler_inflight_events{event="NodeAdd"} 1.0' in lines
    assert 'scheduler_unschedulable_pods{plugin="SchedulingGates",profile="default-scheduler"} 1.0' in lines


def test_backoff_is_waited_for(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    server.faults.append(
        lambda handler: handler.path.endswith("/binding") and answers(500, "x", "no")(handler)
    )
    store.create_many([asking("a")])
    until(live, lambda: live.run.failed == 1)
    assert (
        live.run.metrics.registry.get_sample_value(
            ATTEMPTS, {"result": "error", "profile": "default-scheduler"}
        )
        == 1
    )
    when = live.run.next_time()
    assert when is not None
    assert when > clock.now
    live.run.step()
    assert not nodes_of(store)["a"]
    clock.now = when
    until(live, lambda: bool(nodes_of(store)["a"]))
    conditions = store.get(Pod, "a", "default").status.conditions
    assert [(one.type, one.status) for one in conditions] == [("PodScheduled", "True")]


def test_faults_bind_no_pod_twice_and_lose_none(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    def bound_but_unanswered(handler: Any) -> bool:
        store.bind(store.get(Pod, handler.parts[5], "default"), handler.body["target"]["name"])
        handler.cut()
        return True

    def on_bindings(fault: Any) -> Any:
        return lambda handler: handler.path.endswith("/binding") and fault(handler)

    later = {"Retry-After": "1"}
    server.faults += [
        on_bindings(cuts),
        on_bindings(answers(429, "TooManyRequests", "later", later)),
        on_bindings(answers(409, "Conflict", "modified")),
        on_bindings(bound_but_unanswered),
    ]
    store.create_many([asking(f"p{at}", "500m") for at in range(12)])

    def everything() -> bool:
        clock.now += 1.0
        if live.run.failed > 1:
            server.cut()
        known = live.scheduler.informers.informer(Pod).indexer.values()
        bound = [one for one in known if one.spec.node_name]
        return len(bound) == 12 and not live.run.writer

    until(live, everything)
    live.run.writer.collect()
    assert all(nodes_of(store).values())
    assert not any(map(live.scheduler.cache.is_assumed_pod, store.list(Pod)[0]))
    assert not live.scheduler.queue.in_flight()


class Hang:
    """Writes whose method and path have a part hang until `gate` is set; `begun` tells of the first."""

    def __init__(self, server: WireServer, client: ApiClient, part: str) -> None:
        self.gate, self.begun, self.was_awaited = Event(), Event(), False
        self.client, self.part = client, part
        server.faults.append(self.hold)

    def hold(self, handler: Any) -> bool:
        if handler.command != "GET" and self.part in f"{handler.command} {handler.path}":
            self.begun.set()
            self.client.arrivals.wake()
            self.was_awaited |= not self.gate.wait(LIMIT)
        return False


def test_bindings_that_hang_hold_up_no_others(
    live: LiveScheduler, store: ObjectStore, server: WireServer
) -> None:
    hang = Hang(server, live.client, "/slow")
    store.create_many([asking(f"slow{at}", "10m") for at in range(THREADS + 1)])
    until(live, lambda: len(live.run.writer) == THREADS + 1)
    store.create_many([asking("other")])
    until(live, lambda: live.run.bound == 1)
    assert {name for name, where in nodes_of(store).items() if where} == {"other"}
    assert not hang.was_awaited
    hang.gate.set()
    until(live, lambda: live.run.bound == THREADS + 2)


@pytest.mark.parametrize("write", ["status", "event", "volume", "claim"])
def test_no_other_write_that_hangs_holds_up_a_pod(
    client: ApiClient, store: ObjectStore, server: WireServer, clock: Clock, write: str
) -> None:
    paths = {"status": "/first/status", "event": "/events", "volume": "/pv", "claim": "/resourceclaims/c"}
    hang = Hang(server, client, paths[write])
    store.create_many([machine("n0"), *VOLUME, *DEVICE, first_pod(write)])
    live = LiveScheduler(client, client.connection, clock=clock)
    try:
        until(live, hang.begun.is_set)
        store.create_many([asking("other")])
        until(live, lambda: live.run.bound == 1)
        assert nodes_of(store) == {"first": "", "other": "n0"}
        assert not hang.was_awaited
    finally:
        hang.gate.set()
        live.run.finish(LIMIT)
        live.recorder.close()


def test_a_refused_binding_is_told_as_kube_scheduler_tells_it(
    live: LiveScheduler, store: ObjectStore, server: WireServer
) -> None:
    """A policy refuses it, for example."""
    refuse = answers(403, "Forbidden", "not this one")
    server.faults.append(lambda handler: handler.path.endswith("/binding") and refuse(handler))
    store.create_many([asking("a")])
    until(live, lambda: bool(store.get(Pod, "a", "default").status.conditions))
    (condition,) = store.get(Pod, "a", "default").status.conditions
    text = 'running Bind plugin "DefaultBinder": not this one'
    assert (condition.status, condition.reason, condition.message) == ("False", "SchedulerError", text)
    live.recorder.writer.flush()
    assert [(one["reason"], one["note"]) for one in events(server)] == [("FailedScheduling", text)]


def test_preemption_deletes_and_nominates(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    store.create_many(
        [asking("low0", "4", on="n0"), asking("low1", "4", on="n1"), asking("high", "4", priority=10)],
    )
    until(live, lambda: len(nodes_of(store)) == 2)
    clock.now += 60.0
    until(live, lambda: bool(nodes_of(store).get("high")))
    until(live, lambda: live.run.bound == 1)
    live.recorder.writer.flush()
    assert {one["reason"] for one in events(server)} == {"FailedScheduling", "Preempted", "Scheduled"}
    lines = live.run.metrics.text().decode().splitlines()
    assert "scheduler_preemption_victims_count 1.0" in lines
    assert 'scheduler_pod_scheduling_attempts_bucket{le="1.0"} 0.0' in lines
    assert 'scheduler_pod_scheduling_attempts_bucket{le="2.0"} 1.0' in lines
    assert 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="2"} 1.0' in lines
    about_pods = [(method, path) for method, path, _ in server.requests if path.count("/pods/")]
    methods = [method for method, _ in about_pods]  # nothing is read
    assert sorted(methods[:3]) + methods[3:] == ["DELETE", "PATCH", "PATCH", "POST"]
    victim = next(one for one in events(server) if one["reason"] == "Preempted")
    assert victim["note"].startswith(
        f"Preempted by pod {store.get(Pod, 'high', 'default').metadata.uid} on node n"
    )


def full_nodes(store: ObjectStore) -> None:
    """Pods of low priority fill both nodes, and one of high priority comes."""
    lows = [asking(f"low{at}", "4", on=f"n{at}") for at in range(2)]
    store.create_many([*lows, asking("high", "4", priority=10)])


def evictions(server: WireServer) -> list[str]:
    return [path.rpartition("/")[2] for method, path, _ in server.requests if method == "DELETE"]


def gated(live: LiveScheduler) -> list[str]:
    return [info.pod.name for info in live.scheduler.queue.pending_pods().gated]


def test_victims_whose_deletion_hangs_hold_up_their_preemptor_alone(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    hang = Hang(server, live.client, "DELETE ")
    full_nodes(store)
    until(live, hang.begun.is_set)
    add_node(live, store, "n2")
    store.create(asking("other"))
    until(live, lambda: live.run.bound == 1)
    assert nodes_of(store) == {"low0": "n0", "low1": "n1", "high": "", "other": "n2"}
    assert gated(live) == ["high"]  # although it would fit on another node by evictions
    clock.now += 60.0
    live.run.step()
    assert not hang.was_awaited
    assert len(evictions(server)) == 1
    hang.gate.set()
    until(live, lambda: live.run.bound == 2)
    (victim,) = evictions(server)
    assert nodes_of(store)["high"] == f"n{victim[-1]}"


def test_a_preemptor_waits_for_the_news_that_its_victims_leave(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    """The deletion is answered, and the watch of pods is late."""
    answered = Event()

    def answer(handler: Any) -> bool:
        if handler.command != "DELETE":
            return False
        handler.send(200, server.value(store.get(Pod, handler.parts[-1], "default")))
        answered.set()
        return True

    server.faults.append(answer)
    full_nodes(store)
    until(live, lambda: answered.is_set() and not live.run.writer)
    clock.now += 30.0
    add_node(live, store, "n2")
    store.create(asking("other", "4"))
    until(live, lambda: live.run.bound == 1)
    (victim,) = evictions(server)
    assert gated(live) == ["high"]
    store.delete(Pod, victim, "default")
    until(live, lambda: live.run.bound == 2)
    assert evictions(server) == [victim]
    assert nodes_of(store)["high"] == f"n{victim[-1]}"


def test_a_preemptor_whose_nomination_is_not_written_waits_for_its_victims(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    """Its victims terminate on its node, and its own status does not tell which node that is."""
    hang = Hang(server, live.client, "PATCH /api/v1/namespaces/default/pods/high")
    slow = {"finalizers": ["example.com/slow"]}
    lows = [asking(f"low{at}", "4", on=f"n{at}", metadata=slow) for at in range(2)]
    store.create_many([*lows, asking("high", "4", priority=10)])
    held = live.scheduler.handle.shared(RunningPreemptions).held
    until(live, lambda: len(evictions(server)) == 1 and hang.begun.is_set() and not held)
    store.create(asking("lower", "4", on="n2", priority=-10))  # a better victim
    until(live, lambda: live.scheduler.pods.indexer.get("default/lower") is not None)
    add_node(live, store, "n2")
    live.scheduler.queue.activate([store.get(Pod, "high", "default")])
    live.run.step()
    live.run.step()
    assert len(evictions(server)) == 1
    assert not held
    assert not hang.was_awaited
    hang.gate.set()


def test_a_victim_that_cannot_be_deleted_has_its_preemptor_tried_again(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    refuse = answers(403, "Forbidden", "not this one")
    server.faults.append(lambda handler: handler.command == "DELETE" and refuse(handler))
    full_nodes(store)
    until(live, lambda: not live.run.writer and len(evictions(server)) == 1)
    live.run.step()
    assert gated(live) or live.scheduler.queue.pending_pods().unschedulable
    assert len(evictions(server)) == 1
    clock.now += RETRY
    until(live, lambda: live.run.bound == 1)
    assert len(evictions(server)) == 2


def test_the_end_waits_for_bindings_and_events(
    client: ApiClient, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    store.create_many([machine("n0"), asking("a")])
    live, stop = LiveScheduler(client, client.connection, clock=clock), Event()
    gate = Event()

    def slow(handler: Any) -> bool:
        if handler.path.endswith("/binding"):
            stop.set()
            client.arrivals.wake()
            gate.wait(LIMIT)
        return False

    server.faults.append(slow)
    original, events_finish = live.run.finish, live.recorder.writer.finish

    def finish(timeout: float) -> bool:
        gate.set()
        return original(LIMIT)

    live.run.finish = finish  # type: ignore[method-assign]
    live.recorder.writer.finish = lambda _: events_finish(LIMIT)  # type: ignore[method-assign]
    live.work(stop)
    assert nodes_of(store) == {"a": "n0"}
    assert [one["reason"] for one in events(server)] == ["Scheduled"]


def test_pods_of_others_are_left_alone(live: LiveScheduler, store: ObjectStore, server: WireServer) -> None:
    store.create_many(
        [asking("other", schedulerName="x"), asking("gated", schedulingGates=[{"name": "g"}]), asking("a")]
    )
    until(live, lambda: live.run.bound == 1)
    assert {name for name, where in nodes_of(store).items() if where} == {"a"}
    writes = [path for method, path, _ in server.requests if method != "GET" and "/pods/" in path]
    assert writes == ["/api/v1/namespaces/default/pods/a/binding"]


def test_a_condition_tells_the_generation_of_the_pod(
    live: LiveScheduler, store: ObjectStore, server: WireServer
) -> None:
    server.extra["default/big"] = {"metadata": {"generation": 3}}
    bodies = list[dict[str, Any]]()

    def note(handler: Any) -> bool:
        if handler.path.endswith("/pods/big/status"):
            bodies.append(handler.body)
        return False

    server.faults.append(note)
    store.create_many([asking("big", "5")])
    until(live, lambda: bool(store.get(Pod, "big", "default").status.conditions))
    (condition,) = bodies[0]["status"]["conditions"]
    assert condition["observedGeneration"] == 3
    assert condition["lastTransitionTime"]


def test_pods_of_a_failed_group_get_conditions(
    client: ApiClient, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    store.create_many([machine("n0")])
    store.create(make("PodGroup", "default/g", {"schedulingPolicy": {"gang": {"minCount": 2}}}))
    member: Any = {"schedulingGroup": {"podGroupName": "g"}}
    store.create_many([asking("a", "3", **member), asking("b", "3", **member)])
    live = LiveScheduler(client, client.connection, clock=clock, feature_gates=GATES)
    try:
        until(live, lambda: all(one.status.conditions for one in store.list(Pod)[0]))
        until(live, lambda: bool(store.get(PodGroup, "g", "default").status.conditions))
        live.recorder.writer.flush()
        conditions = {one.name: one.status.conditions[0] for one in store.list(Pod)[0]}
        assert {one.reason for one in conditions.values()} == {"Unschedulable"}
        assert conditions["a"].message.startswith("pod group is unschedulable")
        assert conditions["b"].message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
        (scheduled,) = store.get(PodGroup, "g", "default").status.conditions
        assert (scheduled.type, scheduled.status) == ("PodGroupInitiallyScheduled", "False")
        assert scheduled.last_transition_time
        notes = {one["regarding"]["name"]: one["note"] for one in events(server)}
        assert notes == {name: one.message for name, one in conditions.items()}
    finally:
        live.run.finish(LIMIT)
        live.recorder.close()


@contextmanager
def electing(
    client: ApiClient, server: WireServer, clock: Callable[[], float], every: float = 0.0
) -> Iterator[tuple[LeaderLease, Election, LiveScheduler]]:
    """A live scheduler with a Lease, which has a connection of its own."""
    connection = Connection(Session(server.url), sleep=lambda _: None)
    lease = LeaderLease(connection, "one", clock=clock, now=clock)
    election = Election(lease, 10.0, every, clock)
    live = LiveScheduler(client, client.connection, election=election, clock=clock)
    try:
        yield lease, election, live
    finally:
        live.run.finish(LIMIT)
        live.recorder.close()
        connection.close()


def test_nothing_is_written_without_the_lease(
    client: ApiClient, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    """The Lease runs out while the pods are tried: bindings that were not yet sent are not, nor reports."""
    store.create_many([machine("n0"), asking("a")])
    with electing(client, server, clock, 2.0) as (_, election, live):
        election.step()
        clock.now += 10.0
        until(live, lambda: live.run.failed == 1)
        live.recorder.writer.flush()
        assert nodes_of(store) == {"a": ""}
        writes = [path for method, path, _ in server.requests if method != "GET"]
        assert [path.rpartition("/")[2] for path in writes] == ["leases"]
        with pytest.raises(LostLeaseError):
            live.step(Event())


@pytest.mark.parametrize("wait", ["rate limit", "Retry-After"])
def test_the_lease_is_asked_for_after_each_wait(
    client: ApiClient, store: ObjectStore, server: WireServer, clock: Clock, wait: str
) -> None:
    """A binding that has to wait is not sent once the Lease has run out meanwhile."""
    store.create_many([machine("n0"), asking("a")])

    def pass_by(seconds: float) -> None:
        clock.now += seconds

    with electing(client, server, clock, 2.0) as (_, election, live):
        client.connection.sleep = pass_by
        election.step()
        if wait == "rate limit":
            client.connection.limit = RateLimit(0.01, 1, clock)
            client.connection.limit.delay()
        else:
            later = answers(429, "TooManyRequests", "later", {"Retry-After": "12"})
            server.faults.append(lambda handler: handler.path.endswith("/binding") and later(handler))
        until(live, lambda: live.run.failed == 1)
        sent = [path for _, path, _ in server.requests if path.endswith("/binding")]
        assert len(sent) == (1 if wait == "Retry-After" else 0)
        assert nodes_of(store) == {"a": ""}


def test_the_end_without_the_lease_waits_for_nothing(
    client: ApiClient, server: WireServer, clock: Clock
) -> None:
    """The thread that renews tells at once, while the loop waits for something."""
    with electing(client, server, clock) as (lease, election, live):
        lost, finished = Event(), list[bool]()
        live.on_lost = lost.set
        live._finish = lambda: finished.append(True)  # type: ignore[method-assign,assignment]

        def hang(_: Event) -> None:
            clock.now += 10.0
            assert lost.wait(LIMIT)
            election.check()

        live.step = hang  # type: ignore[method-assign,assignment]
        election.step()
        lease.try_to_hold = lambda: False  # type: ignore[method-assign]
        with pytest.raises(LostLeaseError):
            live.work(Event())
        assert not finished


def test_the_end_does_not_wait_for_a_release_that_hangs(
    client: ApiClient, server: WireServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.live.live_scheduler.RELEASE", 0.0)
    began, answer, stop, released = Event(), Event(), Event(), list[bool]()

    def release() -> None:
        began.set()
        released.append(answer.wait(LIMIT))

    with electing(client, server, clock) as (lease, election, live):
        lease.release = release  # type: ignore[method-assign]
        live.step = lambda _: stop.set()  # type: ignore[method-assign,assignment]
        election.step()
        live.work(stop)
        assert began.wait(LIMIT)
        assert not released
        answer.set()


def test_a_lease_whose_thread_fails_is_lost(client: ApiClient, server: WireServer, clock: Clock) -> None:
    def fail() -> bool:
        raise TypeError("a defect")

    with electing(client, server, clock) as (lease, election, live):
        lease.try_to_hold = fail  # type: ignore[method-assign]
        assert live.health["leaderElection"]()
        with pytest.raises(LostLeaseError):
            live.work(Event())
        assert not live.health["leaderElection"]()
        assert not election.holds()


def test_an_attempt_that_took_long_is_repeated_at_once(
    client: ApiClient, server: WireServer, clock: Clock
) -> None:
    """Attempts begin 2 s apart, so that one that hangs for 5 s leaves time for more before the deadline."""
    began, lasts = list[float](), [0.0, 5.0, 0.5, 0.0]
    ended = Event()

    def attempt() -> bool:
        began.append(clock.now)
        clock.now += lasts.pop(0)
        if not lasts:
            ended.set()
        return len(lasts) != 2  # the one that hangs fails

    def wait(seconds: float) -> bool:
        clock.now += seconds
        return ended.is_set()

    with electing(client, server, clock, 2.0) as (lease, _, live):
        lease.try_to_hold = attempt  # type: ignore[method-assign]
        live._ended.wait, live._ended.is_set = wait, ended.is_set  # type: ignore[assignment,method-assign]
        first = clock.now
        live._renew()
        assert [moment - first for moment in began] == [0.0, 2.0, 7.0, 9.0]


def test_the_lease_is_renewed_while_a_step_takes_long(
    client: ApiClient, server: WireServer, clock: Clock
) -> None:
    stop, renewed, begin = Event(), Event(), clock.now

    def note(handler: Any) -> bool:
        if handler.command == "PUT" and handler.path.endswith("/kube-scheduler") and clock.now > begin:
            renewed.set()
        return False

    def long(_: Event) -> None:
        clock.now += 5.0
        assert renewed.wait(LIMIT)
        stop.set()

    server.faults.append(note)
    with electing(client, server, clock) as (_, _, live):
        live.step = long  # type: ignore[method-assign,assignment]
        live.work(stop)
        (lease,) = (value for path, value in server.raw.items() if path.endswith("/kube-scheduler"))
        assert lease["spec"]["holderIdentity"] == ""
