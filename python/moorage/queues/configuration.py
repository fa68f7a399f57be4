"""The configuration of Kueue, as its ConfigMap has it (v0.17, apis/config: v1beta1 and v1beta2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from moorage.errors import InputError, located
from moorage.kube.model.autoscaling import KUEUE_KEY, ConfigMap
from moorage.kube.read.documents import read_first
from moorage.kube.workloads.kind_rules import map_of

from .settings import GATES, Settings

_ALONE = (
    *("manageJobsWithoutQueueName", "admissionFairSharing", "multiKueue", "objectRetentionPolicies"),
    *("managedJobsNamespaceSelector", "quotaCheckStrategy"),
)
"""Fields that decide about workloads, and are not simulated; others are about how Kueue runs."""
_SYSTEM = {"kube-system", "kueue-system"}


class Configuration(NamedTuple):
    """What a ConfigMap says.

    Attributes
    ----------
    ignored : tuple of str
        The fields that decide about workloads and are not simulated.
    """

    settings: Settings = Settings()
    ignored: tuple[str, ...] = ()


def read_configuration(source: ConfigMap) -> Configuration:
    """Read Kueue's configuration.

    Raises
    ------
    InputError
        It is no YAML, or a field has a wrong value.
    """
    with located(source=f"configmap {source.key}", path=f"data[{KUEUE_KEY}]"):
        value = read_first(source.data[KUEUE_KEY], "")[0]
        if not isinstance(value, dict):
            raise InputError("no configuration of Kueue: give an object with apiVersion and kind")
        gates = {name: is_on for name, is_on in map_of(value, "featureGates").items() if name in GATES}
        sharing, is_old = value.get("fairSharing"), str(value.get("apiVersion")).endswith("v1beta1")
        is_shared = isinstance(sharing, dict) and (not is_old or sharing.get("enable") is True)
        strategies = map_of(value, "fairSharing").get("preemptionStrategies") or ()
        strategy = map_of(value, "waitForPodsReady", "requeuingStrategy")
        frameworks = map_of(value, "integrations").get("frameworks")
        settings = Settings(
            fair_sharing=tuple(map(str, strategies)) if is_shared else None,
            requeuing_timestamp=str(strategy.get("timestamp") or "Eviction"),
            gates=gates,
            frameworks=None if frameworks is None else frozenset(map(str, frameworks)),
            excluded=tuple(map(str, map_of(value, "resources").get("excludeResourcePrefixes") or ())),
        )
        return Configuration(settings, tuple(_ignored(value, is_old)))


def _ignored(value: Mapping[str, Any], is_old: bool) -> Iterator[str]:
    """Yield what decides about workloads, and is not simulated."""
    for name in _ALONE:
        if value.get(name) and not (name == "managedJobsNamespaceSelector" and _is_shipped(value[name])):
            yield name
    waits = value.get("waitForPodsReady")
    if isinstance(waits, dict) and (not is_old or waits.get("enable") is True):
        yield "waitForPodsReady"
    yield from (
        f"resources.{name}" for name in map_of(value, "resources") if name != "excludeResourcePrefixes"
    )
    yield from (f"featureGates.{name}" for name in map_of(value, "featureGates") if name not in GATES)


def _is_shipped(selector: Any) -> bool:
    """Whether a selector excludes the namespaces of the system alone, as Kueue's manifests do."""
    rules = selector.get("matchExpressions") if isinstance(selector, dict) else None
    return isinstance(rules, list) and len(rules) == 1 and {*rules[0].get("values", ())} <= _SYSTEM
