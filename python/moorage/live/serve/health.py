"""What the health checks of a live scheduler look at.

A scheduler that is alive but schedules nothing has to be noticed. Where a restart may help, ``/livez`` fails.
It would not where a kind cannot be read: a new process has no copy of it, and waits. ``/readyz`` fails then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from ..client import ApiClient, Connection
from .election import Election
from .live_metrics import LiveMetrics
from .web_server import Check
from .writer import NOTHING, Writer

WATCH_LIMIT = 300.0
"""Seconds that a kind may be without a word of the server: the longest backoff fits in several times."""
REFUSED_LIMIT = 120.0
"""Seconds for which credentials may be refused, or not be had."""
STEP_LIMIT = 300.0
"""Seconds in which a step has to end well."""
UNREADABLE_LIMIT = 60.0
"""Seconds for which a kind may be unreadable: an API server that restarts is away for less."""
WRITE_LIMIT = 60.0
"""Seconds for which a write may wait, and for its answer: two that are lost are given up in that time."""
LEASE_TOLERANCE = 20.0
"""Seconds for which a leader may be late to end after its Lease has run out (component-base v0.36,
cmd/kube-scheduler/app: NewLeaderHealthzAdaptor)."""
_age = attrgetter("age")


def liveness_checks(
    client: ApiClient, connections: Sequence[Connection], election: Election | None
) -> Mapping[str, Check]:
    """Return the checks of ``/livez`` and ``/healthz``.

    Parameters
    ----------
    client : ApiClient
        Whose reflectors are looked at.
    connections : sequence of Connection
        Whose credentials are looked at.

    Returns
    -------
    mapping of str to callable
        By name; each returns whether it passes. ``leaderElection`` is kube-scheduler's, ``watches`` fails if
        nothing was heard from the server about a kind for `WATCH_LIMIT`, ``credentials`` if they have been
        refused for `REFUSED_LIMIT`.
    """

    def are_accepted() -> bool:
        times = [(connection.clock(), connection.refused_since) for connection in connections]
        return all(since is None or now - since <= REFUSED_LIMIT for now, since in times)

    def are_heard() -> bool:
        now = client.connection.clock()
        return all(now - reflector.heard <= WATCH_LIMIT for reflector in client.reflectors)

    checks: dict[str, Check] = {"watches": are_heard, "credentials": are_accepted}
    if election is not None:
        checks["leaderElection"] = lambda: not election.is_overdue(LEASE_TOLERANCE)
    return checks


def follower_checks(client: ApiClient, metrics: LiveMetrics) -> Mapping[str, Check]:
    """Return `liveness_checks` of what only follows a cluster; ``steps`` fails if none has ended well for
    `STEP_LIMIT`."""
    steps = {"steps": lambda: metrics.since_step() <= STEP_LIMIT}
    return {**liveness_checks(client, [client.connection], None), **steps}


def readiness_checks(metrics: LiveMetrics, writer: Writer | None = None) -> Mapping[str, Check]:
    """Return the checks of ``/readyz`` that those of liveness do not have.

    Returns
    -------
    mapping of str to callable
        ``kinds`` fails if a kind could not be read for `UNREADABLE_LIMIT`, ``writes`` if a binding, a status,
        a claim or an eviction has waited for `WRITE_LIMIT`.
    """
    checks: dict[str, Check] = {
        "kinds": lambda: max(metrics.unreadable().values(), default=0.0) <= UNREADABLE_LIMIT,
    }
    if writer is not None:
        checks["writes"] = lambda: (
            max(writer.pending().values(), default=NOTHING, key=_age).age <= WRITE_LIMIT
        )
    return checks
