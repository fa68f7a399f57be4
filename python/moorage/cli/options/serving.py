"""A live scheduler as options and configuration say."""

from __future__ import annotations

import socket
import time
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moorage.serve import LiveScheduler
    from moorage.store.api import ApiClient

SECOND = 1e9
"""Nanoseconds."""


def live_scheduler(
    client: ApiClient, events: ApiClient, settings: dict[str, Any], leader_elect: bool | None
) -> LiveScheduler:
    """Return a scheduler with the leader election and the limits of requests of a configuration.

    Parameters
    ----------
    client, events : ApiClient
        For events one of its own.
    settings : dict of str to object
        See `scheduler_settings`.
    leader_elect : bool or None
        In place of what the configuration says.

    Returns
    -------
    LiveScheduler
    """
    from moorage.plugins.registry import read_configuration
    from moorage.serve import LeaderLease, LiveScheduler
    from moorage.serve.live_scheduler import Election
    from moorage.store.api.rate_limit import RateLimit

    config = settings["config"]
    if config is None:
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        config = read_configuration(head, settings["feature_gates"])
    limits = config.client_connection
    for one in (client, events):
        one.connection.limit = RateLimit(limits.qps, limits.burst, one.connection.clock)
    leader = config.leader_election
    election = None
    if leader.leader_elect if leader_elect is None else leader_elect:
        lease = LeaderLease(
            events.connection,
            f"{socket.gethostname()}_{uuid.uuid4()}",
            namespace=leader.resource_namespace,
            name=leader.resource_name,
            duration=leader.lease_duration / SECOND,
            clock=time.monotonic,
            now=client.now,
        )
        periods = leader.renew_deadline / SECOND, leader.retry_period / SECOND
        election = Election(lease, *periods, time.monotonic)
    return LiveScheduler(client, events.connection, election=election, **{**settings, "config": config})
