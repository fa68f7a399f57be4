"""A scheduler that is alive but schedules nothing fails its health checks."""

from __future__ import annotations

import pytest
from tests.doors.live import Election, LeaderLease, Reflector, Session, liveness_checks
from tests.serve.test_live_scheduler import Clock
from tests.store.api.test_api_client import answers, pod
from tests.store.api.test_reflector import take, watching
from tests.store.api.wire_server import LIMIT, WireServer

from moorage.kube import Pod
from moorage.live.client import ApiClient, Connection
from moorage.store import ObjectStore, UnauthorizedError

WATCH_LIMIT, REFUSED_LIMIT, LEASE_TOLERANCE = 300.0, 120.0, 20.0


@pytest.fixture
def clock(client: ApiClient) -> Clock:
    clock = Clock()
    client.connection.clock = clock
    return clock


def passing(client: ApiClient, election: Election | None = None) -> set[str]:
    checks = liveness_checks(client, [client.connection], election)
    return {name for name, passes in checks.items() if passes()}


def test_a_kind_of_which_nothing_is_heard(client: ApiClient, store: ObjectStore, clock: Clock) -> None:
    reflector = watching(client, store)
    clock.now += WATCH_LIMIT
    assert passing(client) == {"watches", "credentials"}
    clock.now += 1.0
    assert passing(client) == {"credentials"}
    store.create(pod("b"))
    take(reflector, 1)
    assert passing(client) == {"watches", "credentials"}
    clock.now += 2 * WATCH_LIMIT
    reflector.close()
    assert passing(client) == {"watches", "credentials"}


def test_a_reflector_whose_thread_has_ended(
    client: ApiClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reflector, "_work", lambda reflector: None)
    assert client.follow(Pod).join(LIMIT)
    clock.now += WATCH_LIMIT + 1.0
    assert passing(client) == {"credentials"}


def test_credentials_that_are_refused(client: ApiClient, server: WireServer, clock: Clock) -> None:
    server.faults.append(answers(401, "Unauthorized", "who are you?"))
    with pytest.raises(UnauthorizedError):
        client.get(Pod, "a", "default")
    clock.now += REFUSED_LIMIT
    assert passing(client) == {"watches", "credentials"}
    clock.now += 1.0
    assert passing(client) == {"watches"}
    client.list(Pod)
    assert passing(client) == {"watches", "credentials"}


def test_a_leader_that_does_not_end(client: ApiClient, server: WireServer, clock: Clock) -> None:
    http = Session(server.url)
    lease = LeaderLease(Connection(http), "one", clock=clock, now=clock)
    election = Election(lease, 10.0, 2.0, clock)
    clock.now += 1000.0
    assert "leaderElection" in passing(client, election)  # another leads
    election.step()
    clock.now += lease.duration + LEASE_TOLERANCE
    assert "leaderElection" in passing(client, election)
    clock.now += 1.0
    assert "leaderElection" not in passing(client, election)
    lease.connection.close()
