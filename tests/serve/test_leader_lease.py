"""Leader election: at most one of several candidates leads."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.live import Election, EventBroadcaster, LeaderLease, LostLeaseError, RateLimit, writer
from tests.serve.test_live_scheduler import Clock, events
from tests.serve.test_writer import ended
from tests.store.api.test_api_client import answers, cuts
from tests.store.api.test_api_client import pod as make_pod
from tests.store.api.wire_server import WireServer

from moorage.live.client import ApiClient

PATH = "apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


def candidate(client: ApiClient, name: str, clock: Clock) -> LeaderLease:
    return LeaderLease(client.connection, name, clock=clock, now=lambda: 1.5e9 + clock.now)


def test_the_first_holds_until_it_stops_to_renew(client: ApiClient, server: WireServer) -> None:
    clock = Clock()
    one, two = candidate(client, "one", clock), candidate(client, "two", clock)
    assert (one.try_to_hold(), two.try_to_hold(), two.holder) == (True, False, "one")
    clock.now += 14.0
    assert one.try_to_hold()
    clock.now += 14.0
    assert not two.try_to_hold()  # it has seen a new record
    clock.now += 14.0
    assert not two.try_to_hold()
    clock.now += 1.0
    assert two.try_to_hold()
    assert not one.try_to_hold()
    spec = server.raw[PATH]["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("two", 1, 15)
    assert spec["renewTime"] == spec["acquireTime"]
    assert {method for method, path, _ in server.requests if "leases" in path} == {"GET", "POST", "PUT"}


def test_a_released_lease_is_free_at_once(client: ApiClient, server: WireServer) -> None:
    clock = Clock()
    one, two = candidate(client, "one", clock), candidate(client, "two", clock)
    assert one.try_to_hold()
    two.release()  # not its own
    assert not two.try_to_hold()
    one.release()
    assert server.raw[PATH]["spec"]["holderIdentity"] == ""
    assert two.try_to_hold()


def test_of_two_at_the_same_time_one_is_refused(client: ApiClient, server: WireServer) -> None:
    clock = Clock()
    one, two = candidate(client, "one", clock), candidate(client, "two", clock)
    assert one.try_to_hold()
    one.release()

    def first_the_other(handler: object) -> bool:
        server.faults.clear()
        assert one.try_to_hold()
        return False

    server.faults.append(lambda handler: handler.command == "PUT" and first_the_other(handler))
    assert not two.try_to_hold()
    assert server.raw[PATH]["spec"]["holderIdentity"] == "one"


def test_an_election_is_lost_at_the_deadline(client: ApiClient, server: WireServer) -> None:
    clock = Clock()
    election = Election(candidate(client, "one", clock), 10.0, 2.0, clock)
    election.step()
    assert election.is_leader
    server.faults += [answers(500, "InternalError", "down")] * 100
    for _ in range(4):
        clock.now += 2.0
        election.step()
    assert election.is_leader
    clock.now += 2.0
    with pytest.raises(LostLeaseError, match="leaderelection lost"):
        election.step()
    assert not election.holds()


def test_an_election_is_lost_to_another_holder(client: ApiClient, server: WireServer) -> None:
    clock = Clock()
    election = Election(candidate(client, "one", clock), 10.0, 2.0, clock)
    election.step()
    server.raw[PATH]["spec"]["holderIdentity"] = "two"
    clock.now += 2.0
    with pytest.raises(LostLeaseError):
        election.step()


@pytest.mark.parametrize(
    "body",
    [
        b"<html>busy</html>",
        b"[]",
        b'{"kind": "Status"}',
        b'{"kind": "Lease", "metadata": {}, "spec": {"leaseTransitions": "many"}}',
    ],
)
def test_an_answer_that_is_no_lease_is_an_attempt_that_failed(
    client: ApiClient, server: WireServer, body: bytes
) -> None:
    clock = Clock()
    election = Election(candidate(client, "one", clock), 10.0, 2.0, clock)

    def odd(handler: Any) -> bool:
        handler.send(200, body)
        return True

    server.faults.append(odd)
    election.step()
    assert not election.is_leader
    clock.now += 2.0
    election.step()
    assert election.is_leader


def test_one_request_that_hangs_is_tried_again_in_time(client: ApiClient, server: WireServer) -> None:
    """A connection of the Lease's own repeats nothing: its second attempt comes before the deadline."""
    clock = Clock()
    election = Election(candidate(client, "one", clock), 10.0, 2.0, clock)
    election.step()
    client.connection.repeats = False

    def times_out(handler: Any) -> bool:
        clock.now += 5.0  # half the deadline, the timeout of the connection
        handler.cut()
        return True

    clock.now += 2.0
    server.faults += [times_out, answers(429, "TooManyRequests", "later", {"Retry-After": "60"})]
    asked = len(server.requests)
    election.step()
    election.step()  # put off, and not repeated
    assert len(server.requests) - asked == 2
    assert election.holds()
    clock.now += 2.0
    election.step()
    clock.now += 9.0
    assert election.holds()


def test_a_series_whose_event_is_gone_begins_anew(client: ApiClient, server: WireServer) -> None:
    clock = Clock()
    recorder = EventBroadcaster(client.connection, "s", clock)
    for at in range(4):
        if at == 2:
            server.raw.clear()
        recorder.event(make_pod("a", uid="u"), "Warning", "FailedScheduling", "Scheduling", "no")
        recorder.writer.flush()
        clock.now += 1.0
    recorder.close()
    (written,) = events(server)
    assert written["series"]["count"] == 2
    assert ended(recorder.writer) == (4, 0)


def test_equal_events_become_a_series(
    client: ApiClient, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.0)
    clock = Clock()
    recorder = EventBroadcaster(client.connection, "s", clock)
    for _ in range(3):
        recorder.event(make_pod("a", uid="u"), "Warning", "FailedScheduling", "Scheduling", "no")
        recorder.writer.flush()
    recorder.event(make_pod("a", uid="u"), "Warning", "FailedScheduling", "Scheduling", "x" * 2000)
    recorder.writer.flush()
    server.faults.append(cuts)
    recorder.event(make_pod("b", uid="v"), "Normal", "Scheduled", "Binding", "tried again")
    recorder.writer.flush()
    recorder.close()
    written, retried = events(server)
    assert written["series"]["count"] == 4
    assert retried["note"] == "tried again"
    assert ended(recorder.writer) == (5, 0)


def test_a_limit_of_requests() -> None:
    clock = Clock()
    limit = RateLimit(2.0, 3, clock)
    assert [limit.delay() for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    clock.now += 100.0
    assert [limit.delay() for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert [RateLimit(-1.0, 1, clock).delay() for _ in range(9)] == [0.0] * 9
