"""The effective configuration as one JSON value: what the scheduler runs with."""

from __future__ import annotations

from typing import Any

from .profile_plugins import (
    POINTS,
    ProfilePlugins,
    Registry,
    build_extenders,
    build_profiles,
)
from .reading.go_types import write
from .types import KubeSchedulerConfiguration, Typed


def effective(configuration: KubeSchedulerConfiguration, registry: Registry) -> dict[str, Any]:
    """What a configuration comes to, in the form of the conformance vectors.

    Per profile the plugins of every extension point in running order, the points by name, empty ones left
    out; ``score`` and ``placementScore`` with weights; and the arguments of the plugins that have a struct
    for them.

    Raises
    ------
    ConfigurationError
        As `build_extenders` and `build_profiles`.
    """
    extenders = [write(extender) for extender in build_extenders(configuration)]
    profiles = build_profiles(configuration, registry)
    return {
        "parallelism": configuration.parallelism,
        "percentageOfNodesToScore": configuration.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": configuration.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": configuration.pod_max_backoff_seconds,
        "delayCacheUntilActive": configuration.delay_cache_until_active,
        "leaderElect": configuration.leader_election.leader_elect,
        **({"extenders": extenders} if extenders else {}),
        "profiles": [_profile(profile) for profile in profiles],
    }


def _profile(profile: ProfilePlugins) -> dict[str, Any]:
    percentage = profile.percentage_of_nodes_to_score
    args = {name: write(value) for name, value in profile.args.items() if isinstance(value, Typed)}
    return {
        "schedulerName": profile.scheduler_name,
        **({} if percentage is None else {"percentageOfNodesToScore": percentage}),
        "plugins": {point: _point(profile, point) for point in sorted(POINTS) if profile.plugins[point]},
        **({"args": args} if args else {}),
    }


def _point(profile: ProfilePlugins, point: str) -> list[Any]:
    weights = profile.weights.get(point)
    if weights is None:
        return list(profile.plugins[point])
    return [{"name": name, "weight": weights[name]} for name in profile.plugins[point]]
