"""What the health checks of a live scheduler look at.

A scheduler that is alive but schedules nothing has to be noticed: kubelet restarts it, and an alert fires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from moorage.store.api import ApiClient, Connection

from .election import Election

WATCH_LIMIT = 300.0
"""Seconds that a watch may be without a word of the server: the longest backoff fits in several times."""
REFUSED_LIMIT = 120.0
"""Seconds for which credentials may be refused, or not be had."""
LEASE_TOLERANCE = 20.0
"""Seconds for which a leader may be late to end after its Lease has run out (component-base v0.36,
cmd/kube-scheduler/app: NewLeaderHealthzAdaptor)."""
Check = Callable[[], bool]


def liveness_checks(
    client: ApiClient, connections: Sequence[Connection], election: Election | None
) -> Mapping[str, Check]:
    """Return the checks of ``/livez`` and ``/healthz``.

    Parameters
    ----------
    client : ApiClient
        Whose watches are looked at.
    connections : sequence of Connection
        Whose credentials are looked at.

    Returns
    -------
    mapping of str to callable
        By name; each returns whether it passes. ``leaderElection`` is kube-scheduler's, ``watches`` fails if
        the thread of a watch is dead or has not heard from the server for `WATCH_LIMIT`, ``credentials`` if
        they have been refused for `REFUSED_LIMIT`.
    """

    def are_accepted() -> bool:
        times = [(one.clock(), one.refused_since) for one in connections]
        return all(since is None or now - since <= REFUSED_LIMIT for now, since in times)

    def are_heard() -> bool:
        now = client.connection.clock()
        return all(now - one.heard <= WATCH_LIMIT for one in client.reflectors)

    checks: dict[str, Check] = {
        "watches": are_heard,
        "credentials": are_accepted,
    }
    if election is not None:
        checks["leaderElection"] = lambda: not election.is_overdue(LEASE_TOLERANCE)
    return checks
