"""A live scheduler as options and configuration say."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.cli.options.inputs import scheduler_settings
from moorage.errors import InputError

if TYPE_CHECKING:
    from moorage.framework.configuration.types import ClientConnectionConfiguration
    from moorage.serve import LiveScheduler
    from moorage.store.api import ApiClient

SECOND = 1e9
"""Nanoseconds."""
JSON = "application/json"
UPSTREAMS_DEFAULT = "application/vnd.kubernetes.protobuf"


def live_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a `Scheduler` of a real cluster; a configuration is always among them.

    Parameters
    ----------
    options : mapping of str to object
        See `scheduler_settings`.

    Returns
    -------
    dict of str to object
    """
    from moorage.plugins.registry import read_configuration

    settings = scheduler_settings({**options, "percentage": None})
    if settings["config"] is None:
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        settings["config"] = read_configuration(head, settings["feature_gates"])
    return settings


def with_connection(
    options: Mapping[str, Any], connection: ClientConnectionConfiguration
) -> Mapping[str, Any]:
    """Return the options of `connected` with the kubeconfig of a configuration.

    Parameters
    ----------
    options : mapping of str to object
        The values of `connection_options`.
    connection : ClientConnectionConfiguration

    Returns
    -------
    mapping of str to object

    Raises
    ------
    InputError
        Options name another API server than the configuration, or it asks for another type than JSON.
    """

    def refuse(field: str, text: str) -> InputError:
        return InputError(text, source=options["config"] or "", path=f"clientConnection.{field}")

    if connection.content_type not in (JSON, UPSTREAMS_DEFAULT):
        raise refuse("contentType", f"not supported: {connection.content_type!r}; requests are {JSON}")
    accepted = [one.split(";")[0].strip() for one in connection.accept_content_types.split(",")]
    if connection.accept_content_types and not {JSON, "application/*", "*/*"} & set(accepted):
        text = f"not supported: {connection.accept_content_types!r}; answers are {JSON}"
        raise refuse("acceptContentTypes", text)
    kubeconfig = connection.kubeconfig
    if not kubeconfig or options["kubeconfig"] == kubeconfig:
        return options
    if options["in_cluster"] or options["kubeconfig"]:
        other = "--in-cluster" if options["in_cluster"] else f"--kubeconfig {options['kubeconfig']}"
        raise refuse("kubeconfig", f"{kubeconfig!r} is not what {other} names")
    return {**options, "kubeconfig": kubeconfig}


def live_scheduler(
    client: ApiClient, events: ApiClient, settings: dict[str, Any], leader_elect: bool | None
) -> LiveScheduler:
    """Return a scheduler with the leader election and the limits of requests of a configuration.

    Parameters
    ----------
    client, events : ApiClient
        For events one of its own.
    settings : dict of str to object
        See `live_settings`.
    leader_elect : bool or None
        In place of what the configuration says.

    Returns
    -------
    LiveScheduler
    """
    from moorage.serve import LeaderLease, LiveScheduler
    from moorage.serve.live_scheduler import Election
    from moorage.store.api.rate_limit import RateLimit

    config = settings["config"]
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
    return LiveScheduler(client, events.connection, election=election, **settings)
