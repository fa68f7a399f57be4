"""The configuration of Kueue in a ConfigMap (v0.17, apis/config: v1beta1 and v1beta2)."""

from __future__ import annotations

from typing import Any

from moorage.errors import InputError, located
from moorage.lazy import NamedTuple

from ..field_errors import unsupported
from ..model.autoscaling import KUEUE_KEY, ConfigMap
from ..model.meta import LabelSelector, Resources, Struct
from ..read.documents import read_first
from .decode import decode

_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


class KueueFairSharing(Struct, frozen=True):
    """How queues share by weight."""

    enable: bool = False
    preemption_strategies: tuple[str, ...] = ()


class RequeuingStrategy(Struct, frozen=True):
    """Where workloads stand whose pods were not ready in time."""

    timestamp: str = ""


class WaitForPodsReady(Struct, frozen=True):
    """What follows when pods are not ready in time."""

    enable: bool = False
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()


class Integrations(Struct, frozen=True):
    """Which kinds become workloads; None for all that are known."""

    frameworks: tuple[str, ...] | None = None


class ResourceTransformation(Struct, frozen=True):
    """What a resource counts as, for each unit of it."""

    input: str = ""
    strategy: str = "Retain"
    multiply_by: str = ""
    outputs: Resources = {}


class ResourceRules(Struct, frozen=True):
    """Which resources count, and as what."""

    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()


class KueueConfiguration(Struct, frozen=True):
    """The fields of a configuration that are read."""

    api_version: str = ""
    managed_jobs_namespace_selector: LabelSelector | None = None
    feature_gates: dict[str, bool] = {}
    fair_sharing: KueueFairSharing | None = None
    wait_for_pods_ready: WaitForPodsReady | None = None
    integrations: Integrations = Integrations()
    resources: ResourceRules = ResourceRules()


class ReadConfiguration(NamedTuple):
    """A configuration, and the document with all of its fields."""

    fields: KueueConfiguration
    document: dict[str, Any]


def read_kueue_configuration(source: ConfigMap) -> ReadConfiguration:
    """Read Kueue's configuration.

    Raises
    ------
    InputError
        It is no YAML, or a field has a wrong value.
    """
    with located(obj=f"configmap {source.key}", path=f"data[{KUEUE_KEY}]"):
        value = read_first(source.data[KUEUE_KEY], "")[0]
        if not isinstance(value, dict):
            raise InputError("no configuration of Kueue: give an object with apiVersion and kind")
        fields = decode(value, KueueConfiguration)
        if fields.fair_sharing is not None:
            for at, strategy in enumerate(fields.fair_sharing.preemption_strategies):
                _refuse_other(strategy, f"fairSharing.preemptionStrategies[{at}]", _STRATEGIES)
        if fields.wait_for_pods_ready is not None:
            given, path = fields.wait_for_pods_ready.requeuing_strategy.timestamp, "waitForPodsReady"
            _refuse_other(given, f"{path}.requeuingStrategy.timestamp", ("Eviction", "Creation", ""))
        for at, each in enumerate(fields.resources.transformations):
            path = f"resources.transformations[{at}].strategy"
            _refuse_other(each.strategy, path, ("Retain", "Replace"))
        return ReadConfiguration(fields, value)


def _refuse_other(value: str, path: str, values: tuple[str, ...]) -> None:
    if value not in values:
        raise InputError(unsupported(value, filter(None, values)), path=path)
