"""Validation of a whole configuration (kube-scheduler v1.36, ``apis/config/validation``, with its texts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.framework.runtime.duration import format_nanoseconds

from .args import NodeResourcesFitArgs
from .reading.field_errors import (
    aggregate,
    duplicate,
    go_json,
    invalid,
    quote,
    required,
)
from .reading.go_types import go_fields, write
from .selector_syntax import label_name_errors
from .types import (
    API_VERSION,
    ClientConnectionConfiguration,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugins,
    PluginSet,
    Typed,
)
from .validate_args import validate_args

Gates = Mapping[str, bool]

_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_NOT_CHECKED_FOR_REMOVED = ("multi_point", "placement_generate", "placement_score")


def validate(configuration: KubeSchedulerConfiguration, gates: Gates) -> str:
    """What is wrong with a configuration after defaulting, as one text; "" for nothing.

    Where upstream's order of errors is that of a Go map (removed plugins at several extension points), ours
    is that of the fields.
    """
    config = configuration
    errors = _client_connection(config.client_connection)
    errors += _leader_election(config.leader_election)
    if (config.parallelism or 0) <= 0:
        detail = "should be an integer value greater than zero"
        errors.append(invalid("parallelism", config.parallelism, detail))
    errors += _profiles(config.profiles or [], gates)
    errors += _percentage(config.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    errors += _percentage(config.percentage_of_placements_to_score, "percentageOfPlacementsToScore")
    initial, longest = config.pod_initial_backoff_seconds or 0, config.pod_max_backoff_seconds or 0
    if initial <= 0:
        errors.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid("podMaxBackoffSeconds", longest, detail))
    return aggregate(errors + _extenders(config.extenders or []))


def _client_connection(connection: ClientConnectionConfiguration) -> list[str]:
    if connection.burst >= 0:
        return []
    return [invalid("clientConnection.burst", connection.burst, "must be non-negative")]


def _leader_election(election: LeaderElectionConfiguration) -> list[str]:
    if not election.leader_elect:
        return []
    errors = [
        invalid(f"leaderElection.{name}", format_nanoseconds(duration), "must be greater than zero")
        for name, duration in (
            ("leaseDuration", election.lease_duration),
            ("renewDeadline", election.renew_deadline),
            ("retryPeriod", election.retry_period),
        )
        if duration <= 0
    ]
    if election.lease_duration <= election.renew_deadline:
        shown = format_nanoseconds(election.renew_deadline)  # the other one of the two, as upstream does
        errors.append(invalid("leaderElection.leaseDuration", shown, "must be greater than `RenewDeadline`"))
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        errors.append(invalid("leaderElection.resourceLock", election.resource_lock, detail))
    return errors


def _percentage(percentage: int | None, path: str) -> list[str]:
    if percentage is None or 0 <= percentage <= 100:
        return []
    return [invalid(path, percentage, "not in valid range [0-100]")]


def _profiles(profiles: Sequence[KubeSchedulerProfile], gates: Gates) -> list[str]:
    errors = []
    seen = set()
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name or ""
        if not name:
            errors.append(required(f"{path}.schedulerName"))
        errors += _percentage(profile.percentage_of_nodes_to_score, f"{path}.percentageOfNodesToScore")
        errors += _removed_plugins(profile.plugins or Plugins(), f"{path}.plugins")
        errors += _plugin_config(profile, f"{path}.pluginConfig", gates)
        if name in seen:
            # Upstream hands over the path of the first one, which prints as an empty object.
            errors.append(f"{path}.schedulerName: Duplicate value: {{}}")
        seen.add(name)
    return errors + _common_queue_sort(profiles)


def _removed(name: str, path: str) -> list[str]:
    if name not in _REMOVED:
        return []
    version = f"KubeSchedulerConfiguration is version {quote(API_VERSION)}"
    return [invalid(path, name, f'was invalid in version "v1" ({version})')]


def _removed_plugins(plugins: Plugins, path: str) -> list[str]:
    errors = []
    for point in go_fields(Plugins).values():
        if point.attribute in _NOT_CHECKED_FOR_REMOVED:
            continue
        for i, plugin in enumerate(getattr(plugins, point.attribute).enabled or ()):
            errors += _removed(plugin.name, f"{path}.{point.wire}.enabled[{i}]")
    return errors


def _plugin_config(profile: KubeSchedulerProfile, path: str, gates: Gates) -> list[str]:
    errors = []
    seen = set()
    for i, one in enumerate(profile.plugin_config or ()):
        where = f"{path}[{i}]"
        if one.name in seen:
            errors.append(duplicate(where, one.name))
        seen.add(one.name)
        errors += _removed(one.name, where)
        if isinstance(one.args, Typed) and not isinstance(one.args, NodeResourcesFitArgs):
            errors += validate_args(one.args, f"{where}.args", gates)
    return errors


def _queue_sort(profile: KubeSchedulerProfile) -> PluginSet:
    return (profile.plugins or Plugins()).queue_sort


def _go_plugin_set(plugins: PluginSet) -> dict[str, Any]:
    """A plugin set as Go prints its internal type."""
    return {
        name: listed and [{"Name": plugin.name, "Weight": plugin.weight or 0} for plugin in listed]
        for name, listed in (("Enabled", plugins.enabled), ("Disabled", plugins.disabled))
    }


def _common_queue_sort(profiles: Sequence[KubeSchedulerProfile]) -> list[str]:
    """All profiles must name the same queue sort plugin with the same arguments."""
    errors = []
    first = _queue_sort(profiles[0])
    enabled = first.enabled or []
    if len(enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        errors.append(invalid("profiles[0].plugins.queueSort.Enabled", len(enabled), detail))
    name = enabled[0].name if enabled else ""
    args = None
    for one in profiles[0].plugin_config or ():
        if name and one.name == name:
            args = one.args
    for i, profile in enumerate(profiles[1:], 1):
        other = _go_plugin_set(_queue_sort(profile))
        if other != _go_plugin_set(first):
            path = f"profiles[{i}].plugins.queueSort"
            errors.append(invalid(path, other, "must be the same for all profiles"))
        for one in profile.plugin_config or ():
            if one.name == name and one.args != args:
                value = write(one.args) if isinstance(one.args, Typed) else one.args
                text = f"Invalid value: {go_json(value)}: queueSort must be the same for all profiles"
                errors.append(f"profiles[{i}].pluginConfig.args: {text}")
    return errors


def _extenders(extenders: Sequence[Extender]) -> list[str]:
    errors = []
    managed = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            errors.append(invalid(f"{path}.weight", extender.weight, detail))
        for j, resource in enumerate(extender.managed_resources or ()):
            where = f"{path}.managedResources[{j}].name"
            errors += _extended_resource(resource.name, where)
            if resource.name in managed:
                errors.append(invalid(where, resource.name, "duplicate extender managed resource name"))
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        errors.append(invalid("extenders", found, "only one extender can implement bind"))
    return errors


def _extended_resource(name: str, path: str) -> list[str]:
    if errors := label_name_errors(name, path):
        return errors
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith("requests.") or label_name_errors(f"requests.{name}", path):
        return [invalid(path, name, "is an invalid extended resource name")]
    return []
