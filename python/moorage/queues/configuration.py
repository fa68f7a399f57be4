"""What Kueue's configuration sets, and what of it is not simulated."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.kube.apiserver.kueue_configuration import ReadConfiguration, read_kueue_configuration
from moorage.kube.model.autoscaling import ConfigMap
from moorage.kube.model.meta import LabelSelector
from moorage.kube.workloads.kind_rules import map_of
from moorage.lazy import NamedTuple

from .settings import GATES, Settings

# Fields: Kueue v0.17.0, apis/config/v1beta1 and v1beta2.
_ALONE = "manageJobsWithoutQueueName", "admissionFairSharing", "multiKueue", "objectRetentionPolicies"
"""Fields that decide about workloads, and are not simulated."""
_RUNTIME = {
    *("kind", "namespace", "health", "metrics", "webhook", "controller", "tls", "leaderElection"),
    *(
        "pprofBindAddress",
        "internalCertManagement",
        "clientConnection",
        "queueVisibility",
        "visibilityServer",
    ),
}
"""Fields about how Kueue runs."""
_PARTS = {
    "fairSharing": {"enable", "preemptionStrategies"},
    "waitForPodsReady": {
        *("enable", "timeout", "blockAdmission", "requeuingStrategy", "recoveryTimeout"),
    },
    "waitForPodsReady.requeuingStrategy": {
        *("timestamp", "backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds"),
    },
    "integrations": {"frameworks", "externalFrameworks", "podOptions", "labelKeysToCopy"},
    "resources": {"excludeResourcePrefixes", "transformations", "deviceClassMappings"},
}
"""Which fields these have."""
_OF_PARTS = "integrations.externalFrameworks", "integrations.podOptions", "resources.deviceClassMappings"
"""Fields of them that decide about workloads, and are not simulated."""
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
    """Read Kueue's configuration; raises InputError as `read_kueue_configuration` does."""
    read = read_kueue_configuration(source)
    fields = read.fields
    is_old = fields.api_version.endswith("v1beta1")
    sharing, waits = fields.fair_sharing, fields.wait_for_pods_ready
    strategies = None if sharing is None or (is_old and not sharing.enable) else sharing.preemption_strategies
    frameworks = fields.integrations.frameworks
    settings = Settings(
        fair_sharing=strategies,
        requeuing_timestamp=(waits and waits.requeuing_strategy.timestamp) or "Eviction",
        gates={name: is_on for name, is_on in fields.feature_gates.items() if name in GATES},
        frameworks=None if frameworks is None else frozenset(frameworks),
        excluded=fields.resources.exclude_resource_prefixes,
        transformations=fields.resources.transformations,
    )
    return Configuration(settings, tuple(_ignored(read, is_old)))


def _ignored(read: ReadConfiguration, is_old: bool) -> Iterator[str]:
    """Yield what decides about workloads, and is not simulated."""
    fields, document = read
    yield from filter(document.get, _ALONE)
    known = _RUNTIME.union(_ALONE, fields.__struct_encode_fields__)
    yield from (f"{name} (no such field)" for name in document if name not in known)
    if not _is_shipped(fields.managed_jobs_namespace_selector or LabelSelector()):
        yield "managedJobsNamespaceSelector"
    waits = fields.wait_for_pods_ready
    if waits is not None and (not is_old or waits.enable):
        yield "waitForPodsReady"
    for path, names in _PARTS.items():
        for name in map_of(document, *path.split(".")):
            if name not in names:
                yield f"{path}.{name} (no such field)"
            elif f"{path}.{name}" in _OF_PARTS:
                yield f"{path}.{name}"
    yield from (f"featureGates.{name}" for name in fields.feature_gates if name not in GATES)


def _is_shipped(selector: LabelSelector) -> bool:
    """Whether a selector excludes no namespaces but those of the system, as Kueue's manifests do."""
    return not selector.match_labels and all(
        rule.key == "kubernetes.io/metadata.name"
        and rule.operator == "NotIn"
        and _SYSTEM.issuperset(rule.values)
        for rule in selector.match_expressions
    )
