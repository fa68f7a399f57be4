"""Rules of workloads whose pods never end, and of what scales them (kubernetes v1.36, pkg/apis/apps,
pkg/apis/autoscaling)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.kube.go_texts import go_json
from moorage.kube.model.autoscaling import HorizontalPodAutoscaler
from moorage.kube.model.field_rules import is_dns_label, percent
from moorage.kube.model.meta import LabelSelector
from moorage.kube.model.workload import (
    DaemonSet,
    Deployment,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    unselected,
)

_DEADLINE = 600
"""Default of the seconds in which a rollout has to progress."""


def _template(obj: Any) -> PodTemplateSpec:
    template: PodTemplateSpec | None = obj.spec.template
    return PodTemplateSpec() if template is None else template


def _number(value: int | str | None) -> int | None:
    return percent(value) if isinstance(value, str) else value


def selector_errors(obj: Deployment | ReplicaSet | StatefulSet | DaemonSet) -> Iterator[tuple[str, str]]:
    """Yield that a selector is empty or missing. One that is missing matches no pod, as the API server finds,
    too."""
    if obj.spec.selector is None:
        if not isinstance(obj, DaemonSet):
            yield "spec.selector", "Required value"
        yield "spec.template.metadata.labels", unselected(_template(obj).metadata.labels)
    elif obj.spec.selector == LabelSelector():
        kind = type(obj).__name__.lower()
        kind = "deployment" if kind == "replicaset" else kind  # as the API server calls it
        yield "spec.selector", f"Invalid value: {{}}: empty selector is invalid for {kind}"


def replication_controller_errors(obj: ReplicationController) -> Iterator[tuple[str, str]]:
    """Yield that a selector has labels that the template does not have."""
    labels, selector = _template(obj).metadata.labels, obj.spec.selector
    if not (selector or labels):
        yield "spec.selector", "Required value"
    elif selector and not selector.items() <= labels.items():
        yield "spec.template.metadata.labels", unselected(labels)


def container_errors(obj: Any) -> Iterator[tuple[str, str]]:
    """Yield that a template has no container."""
    if not _template(obj).spec.containers:
        yield "spec.template.spec.containers", "Required value"


def lasting_pod_errors(obj: Any) -> Iterator[tuple[str, str]]:
    """Yield what would end pods that have to last."""
    spec = _template(obj).spec
    if spec.restart_policy not in ("", "Always"):
        text = f'Unsupported value: "{spec.restart_policy}": supported values: "Always"'
        yield "spec.template.spec.restartPolicy", text
    if spec.active_deadline_seconds is not None:
        kind = "ReplicaSet" if isinstance(obj, Deployment) else type(obj).__name__
        text = f"Forbidden: activeDeadlineSeconds in {kind} is not Supported"
        yield "spec.template.spec.activeDeadlineSeconds", text


def deployment_errors(obj: Deployment) -> Iterator[tuple[str, str]]:
    """Yield what no rollout gets through: it may neither add a pod first nor remove one first, or has to end
    before new pods are ready."""
    rolling, field = obj.spec.strategy.rolling_update, "spec.strategy.rollingUpdate"
    if rolling is not None and obj.spec.strategy.type == "Recreate":
        yield field, "Forbidden: may not be specified when strategy `type` is 'Recreate'"
    elif rolling is not None and _number(rolling.max_surge) == 0 and _number(rolling.max_unavailable) == 0:
        shown = go_json(rolling.max_unavailable)
        yield f"{field}.maxUnavailable", f"Invalid value: {shown}: may not be 0 when `maxSurge` is 0"
    given = obj.spec.progress_deadline_seconds
    deadline, field = _DEADLINE if given is None else given, "spec.progressDeadlineSeconds"
    if deadline < 0:
        yield field, f"Invalid value: {deadline}: must be greater than or equal to 0"
    if deadline <= obj.spec.min_ready_seconds:
        yield field, f"Invalid value: {deadline}: must be greater than minReadySeconds"


def stateful_set_errors(obj: StatefulSet) -> Iterator[tuple[str, str]]:
    """Yield names that no host can have, and steps of an update that replaces no pods."""
    for field, name in (("metadata.name", obj.name), ("spec.serviceName", obj.spec.service_name)):
        if not name or is_dns_label(name):
            continue
        from moorage.kube.cel.library.named_formats import format_errors  # few names are wrong

        for text in format_errors("dns1123Label", name):
            yield field, f"Invalid value: {go_json(name)}: {text}"
    rolling = obj.spec.update_strategy.rolling_update
    if rolling is not None and obj.spec.update_strategy.type == "OnDelete":
        shown = go_json({"Partition": rolling.partition, "MaxUnavailable": None})
        text = f"Invalid value: {shown}: only allowed for updateStrategy 'RollingUpdate'"
        yield "spec.updateStrategy.rollingUpdate", text


def autoscaler_errors(obj: HorizontalPodAutoscaler) -> Iterator[tuple[str, str]]:
    """Yield bounds of replicas that are not positive, or not in order."""
    greatest = obj.spec.max_replicas
    least = 1 if obj.spec.min_replicas is None else obj.spec.min_replicas
    if least < 1:
        yield "spec.minReplicas", f"Invalid value: {least}: must be greater than or equal to 1"
    if greatest < 1:
        yield "spec.maxReplicas", "Required value: must be set and greater than 0"
    if greatest < least:
        text = f"Invalid value: {greatest}: must be greater than or equal to `minReplicas`"
        yield "spec.maxReplicas", text


def priority_class_errors(obj: PriorityClass) -> Iterator[tuple[str, str]]:
    """Yield that a name begins with ``system-``, as only those of the API server itself do."""
    if obj.name.startswith("system-") and obj.name not in ("system-node-critical", "system-cluster-critical"):
        text = "priority class names with 'system-' prefix are reserved for system use only"
        known = f"{obj.name} is not a known system priority class"
        yield "metadata.name", f"Forbidden: {text}. error: {known}"
