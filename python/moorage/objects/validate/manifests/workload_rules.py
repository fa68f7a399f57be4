"""Rules of workloads whose pods never end, and of what scales them (kubernetes v1.36, pkg/apis/apps,
pkg/apis/autoscaling)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.go_texts import go_json
from moorage.objects.model.autoscaling import HorizontalPodAutoscaler
from moorage.objects.model.field_rules import percent
from moorage.objects.model.meta import LabelSelector
from moorage.objects.model.workload import Deployment, PodTemplateSpec, StatefulSet

from .rule import Breaches, Rule, when

_DEADLINE = 600
"""Default of the seconds in which a rollout has to progress."""


def _template(obj: Any) -> PodTemplateSpec:
    template: PodTemplateSpec | None = obj.spec.template
    return PodTemplateSpec() if template is None else template


def _ends(obj: Any) -> Breaches:
    policy = _template(obj).spec.restart_policy
    return when(policy not in ("", "Always"), policy)


def _has_deadline(obj: Any) -> Breaches:
    return when(_template(obj).spec.active_deadline_seconds is not None)


def _lacks_selector(obj: Any) -> Breaches:
    return when(obj.spec.selector is None)


def _selects_all(obj: Any) -> Breaches:
    return when(obj.spec.selector == LabelSelector())


def _selects_nothing(obj: Any) -> Breaches:
    """A selector that is missing matches no pod, as the API server finds beside that it is missing."""
    labels = _template(obj).metadata.labels
    return when(obj.spec.selector is None, go_json(dict(sorted(labels.items())) or None))


def _number(value: int | str | None) -> int | None:
    return percent(value) if isinstance(value, str) else value


def _stands_still(obj: Deployment) -> Breaches:
    """A rollout may neither add a pod first nor remove one first."""
    rolling = obj.spec.strategy.rolling_update
    if rolling is None or obj.spec.strategy.type == "Recreate":
        return []
    value = rolling.max_unavailable
    return when(_number(rolling.max_surge) == 0 and _number(value) == 0, go_json(value))


def _recreates_by_steps(obj: Deployment) -> Breaches:
    strategy = obj.spec.strategy
    return when(strategy.type == "Recreate" and strategy.rolling_update is not None)


def _fails_before_ready(obj: Deployment) -> Breaches:
    given = obj.spec.progress_deadline_seconds
    deadline = _DEADLINE if given is None else given
    return when(deadline <= obj.spec.min_ready_seconds, deadline)


def _negative_deadline(obj: Deployment) -> Breaches:
    deadline = obj.spec.progress_deadline_seconds or 0
    return when(deadline < 0, deadline)


def _deletes_by_steps(obj: StatefulSet) -> Breaches:
    strategy = obj.spec.update_strategy
    rolling = strategy.rolling_update
    if rolling is None or strategy.type != "OnDelete":
        return []
    shown = {"Partition": rolling.partition, "MaxUnavailable": None}
    return when(True, go_json(shown))


def _least(obj: HorizontalPodAutoscaler) -> int:
    return 1 if obj.spec.min_replicas is None else obj.spec.min_replicas


def _of_bounds(is_broken: Callable[[int, int], bool]) -> Callable[[HorizontalPodAutoscaler], Breaches]:
    """Return a rule about the least and the greatest number of replicas; a breach shows the latter."""
    return lambda obj: when(is_broken(_least(obj), obj.spec.max_replicas), obj.spec.max_replicas)


_REVISIONED = "Deployment ReplicaSet StatefulSet DaemonSet"
_LASTING = f"{_REVISIONED} ReplicationController"
_POLICY = "spec.template.spec.restartPolicy"
_ACTIVE = "spec.template.spec.activeDeadlineSeconds"

RULES = (
    Rule("Deployment ReplicaSet StatefulSet", "spec.selector", _lacks_selector, "Required value"),
    *(
        Rule(
            kinds,
            "spec.selector",
            _selects_all,
            f"Invalid value: {{{{}}}}: empty selector is invalid for {name}",
        )
        for kinds, name in (
            ("Deployment ReplicaSet", "deployment"),  # a ReplicaSet is called so, too
            ("StatefulSet", "statefulset"),
            ("DaemonSet", "daemonset"),
        )
    ),
    Rule(
        _REVISIONED,
        "spec.template.metadata.labels",
        _selects_nothing,
        "Invalid value: {}: `selector` does not match template `labels`",
    ),
    Rule(
        f"{_LASTING} Job",
        "spec.template.spec.containers",
        lambda obj: when(not _template(obj).spec.containers),
        "Required value",
    ),
    Rule(_LASTING, _POLICY, _ends, 'Unsupported value: "{}": supported values: "Always"'),
    *(
        Rule(kinds, _ACTIVE, _has_deadline, f"Forbidden: activeDeadlineSeconds in {name} is not Supported")
        for kinds, name in (
            ("Deployment ReplicaSet", "ReplicaSet"),
            ("StatefulSet", "StatefulSet"),
            ("DaemonSet", "DaemonSet"),
            ("ReplicationController", "ReplicationController"),
        )
    ),
    Rule(
        "Deployment",
        "spec.strategy.rollingUpdate",
        _recreates_by_steps,
        "Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    Rule(
        "Deployment",
        "spec.strategy.rollingUpdate.maxUnavailable",
        _stands_still,
        "Invalid value: {}: may not be 0 when `maxSurge` is 0",
    ),
    Rule(
        "Deployment",
        "spec.progressDeadlineSeconds",
        _negative_deadline,
        "Invalid value: {}: must be greater than or equal to 0",
    ),
    Rule(
        "Deployment",
        "spec.progressDeadlineSeconds",
        _fails_before_ready,
        "Invalid value: {}: must be greater than minReadySeconds",
    ),
    Rule(
        "StatefulSet",
        "spec.updateStrategy.rollingUpdate",
        _deletes_by_steps,
        "Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'",
    ),
    Rule(
        "HorizontalPodAutoscaler",
        "spec.minReplicas",
        lambda obj: when(_least(obj) < 1, _least(obj)),
        "Invalid value: {}: must be greater than or equal to 1",
    ),
    Rule(
        "HorizontalPodAutoscaler",
        "spec.maxReplicas",
        lambda obj: when(obj.spec.max_replicas < 1),
        "Required value: must be set and greater than 0",
    ),
    Rule(
        "HorizontalPodAutoscaler",
        "spec.maxReplicas",
        _of_bounds(lambda least, greatest: greatest < least),
        "Invalid value: {}: must be greater than or equal to `minReplicas`",
    ),
)
