"""Rules of workloads whose pods last, of what scales and protects them, and of their classes
(kubernetes v1.34 to v1.38, pkg/apis/{apps,autoscaling,policy,scheduling,core}/validation)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from ...field_errors import Fault, Json, forbidden, invalid, part, parts, required, unsupported
from ...model.workload import unselected
from ...read.object_defaults import BUILT_IN_CLASSES
from ..field_checks import NO_SELECTOR, Rules, during, of_new, wrong, wrong_choice
from .scheduling_rules import selector_causes, selects

# ---- workloads ---------------------------------------------------------------------------------------------

_CALLED = {"ReplicaSet": "deployment"}
"""What the API server calls a kind in the text about an empty selector."""
_DEADLINE = 600
"""Default of the seconds in which a rollout has to progress."""


def _lasting_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    """What would end pods that have to last."""
    pod, kind = part(part(spec, "template"), "spec"), root.get("kind")
    restarts = pod.get("restartPolicy") or "Always"
    yield from wrong("in", restarts, f"{path}.template.spec.restartPolicy", "Always")
    if pod.get("activeDeadlineSeconds") is not None:
        shown = "ReplicaSet" if kind == "Deployment" else kind
        why = f"activeDeadlineSeconds in {shown} is not Supported"
        yield Fault(f"{path}.template.spec.activeDeadlineSeconds", forbidden(why))


def _labels(spec: Json) -> Json:
    return part(part(part(spec, "template"), "metadata"), "labels")


def _selector_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    """Selectors that are malformed, empty or missing. One that is missing matches no pod."""
    selector, kind, field = spec.get("selector"), str(root.get("kind")), f"{path}.selector"
    if selector is None:
        if kind != "DaemonSet":
            yield Fault(field, required())
        yield Fault(f"{path}.template.metadata.labels", unselected(_labels(spec)))
    elif not any(part(spec, "selector").values()):
        called = _CALLED.get(kind, kind.lower())
        yield Fault(field, invalid({}, f"empty selector is invalid for {called}"))
    elif kind != "DaemonSet" and selector_causes(selector):
        yield Fault(field, invalid(selector, NO_SELECTOR))


def _match_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Selectors that do not match the pods."""
    given, labels = part(spec, "selector"), _labels(spec)
    if any(given.values()) and not selector_causes(given) and not selects(given, labels):
        yield Fault(f"{path}.template.metadata.labels", unselected(labels))


def _controller_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """The selector and the template of a ReplicationController; the labels are the default selector."""
    labels = _labels(spec)
    selector = part(spec, "selector") or labels
    if not selector:
        yield Fault(f"{path}.selector", required())
    if spec.get("template") is None:
        yield Fault(f"{path}.template", required())
    elif not selector.items() <= labels.items():
        yield Fault(f"{path}.template.metadata.labels", unselected(labels))


_PERCENT = re.compile("[0-9]+%")


def _number(value: Any, absent: int) -> int:
    """Return the number of a value; 1 for a share that is above none, 0 for what is neither."""
    if value is None:
        return absent
    if isinstance(value, str):
        return int(_PERCENT.fullmatch(value) is not None and value.lstrip("0") != "%")
    return int(value)


def _strategy_errors(strategy: Json, field: str, _root: Json) -> Iterator[Fault]:
    """What no rollout gets through: it may neither add a pod first nor remove one first."""
    type_, rolling = strategy.get("type") or "RollingUpdate", strategy.get("rollingUpdate")
    if type_ not in ("Recreate", "RollingUpdate"):
        yield Fault(field, unsupported(type_, ("Recreate", "RollingUpdate")))
    elif isinstance(rolling, dict) and type_ == "RollingUpdate":
        at = f"{field}.rollingUpdate"
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield from wrong("share", unavailable, f"{at}.maxUnavailable", "100")
        yield from wrong("share", surge, f"{at}.maxSurge")
        if not _number(unavailable, 25) and not _number(surge, 25):
            yield Fault(f"{at}.maxUnavailable", invalid(unavailable, "may not be 0 when `maxSurge` is 0"))


def _deployment_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A rollout that has to end before new pods are ready."""
    given = spec.get("progressDeadlineSeconds")
    deadline, at = _DEADLINE if given is None else given, f"{path}.progressDeadlineSeconds"
    yield from wrong("min", deadline, at, "0")
    if deadline <= (spec.get("minReadySeconds") or 0):
        yield Fault(at, invalid(deadline, "must be greater than minReadySeconds"))


def _stateful_set_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Names that no host can have."""
    policy = spec.get("podManagementPolicy") or "OrderedReady"
    if policy not in ("OrderedReady", "Parallel"):
        why = "must be 'OrderedReady' or 'Parallel'"
        yield Fault(f"{path}.podManagementPolicy", invalid(policy, why))


def _update_errors(strategy: Json, field: str, _root: Json, recreates: bool) -> Iterator[Fault]:
    """Ways in which a StatefulSet is updated."""
    type_, rolling = strategy.get("type") or "RollingUpdate", part(strategy, "rollingUpdate")
    if type_ not in ("RollingUpdate", "OnDelete", *["Recreate"] * recreates):
        names = "'RollingUpdate', 'OnDelete', or 'Recreate'" if recreates else "'RollingUpdate' or 'OnDelete'"
        yield Fault(field, invalid(strategy, f"must be {names}"))
    elif type_ != "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        shown = {"Partition": rolling.get("partition"), "MaxUnavailable": None}
        why = "only allowed for updateStrategy 'RollingUpdate'"
        yield Fault(f"{field}.rollingUpdate", invalid(shown, why))
    else:
        yield from wrong("min", rolling.get("partition"), f"{field}.rollingUpdate.partition", "0")


def _unavailable_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """How many pods of a StatefulSet may be away at once."""
    most, field = value.get("maxUnavailable"), f"{path}.maxUnavailable"
    if most is not None:
        yield from wrong("share", most, field, "100")
        if not _number(most, 1):
            yield Fault(field, invalid(most, "cannot be 0"))


def _daemon_set_errors(strategy: Json, field: str, _root: Json) -> Iterator[Fault]:
    """Ways of an update: it adds pods first, or removes them first."""
    type_, rolling = strategy.get("type") or "RollingUpdate", strategy.get("rollingUpdate")
    if type_ not in ("OnDelete", "RollingUpdate"):
        shown = {"Type": type_, "RollingUpdate": rolling}
        yield Fault(field, unsupported(shown, ("RollingUpdate", "OnDelete")))
    if type_ != "RollingUpdate" or not isinstance(rolling, dict):
        return
    at = f"{field}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from wrong("share", unavailable, f"{at}.maxUnavailable", "100")
    yield from wrong("share", surge, f"{at}.maxSurge", "100")
    removes, adds = _number(unavailable, 1), _number(surge, 0)
    if removes and adds:
        why = "may not be set when maxUnavailable is non-zero"
        yield Fault(f"{at}.maxSurge", invalid(surge, why))
    if not removes and not adds:
        yield Fault(f"{at}.maxUnavailable", required("cannot be 0 when maxSurge is 0"))


# ---- scaling and disruption --------------------------------------------------------------------------------


def _scaler_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Bounds of replicas that are not positive, or not in order."""
    greatest, given = spec.get("maxReplicas") or 0, spec.get("minReplicas")
    least = 1 if given is None else given
    types = {metric.get("type") for metric in parts(spec, "metrics")}
    if least == 0 and not types & {"Object", "External"}:
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield Fault(f"{path}.metrics", forbidden(why))
    if greatest < least:
        yield Fault(
            f"{path}.maxReplicas", invalid(greatest, "must be greater than or equal to `minReplicas`")
        )


def _maximum_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    if (spec.get("maxReplicas") or 0) < 1:
        yield Fault(f"{path}.maxReplicas", required("must be set and greater than 0"))


def _budget_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {"MinAvailable": least, "Selector": spec.get("selector"), "MaxUnavailable": most}
        yield Fault(path, invalid(shown, "minAvailable and maxUnavailable cannot be both set"))
    yield from wrong("share", least, f"{path}.minAvailable", "100")
    yield from wrong("share", most, f"{path}.maxUnavailable", "100")


_RESERVED = "priority class names with 'system-' prefix are reserved for system use only. error: "
_HIGHEST = 1000000000


def _class_errors(value: Json, _path: str, _root: Json) -> Iterator[Fault]:
    """Names that begin with ``system-``, as only those of the API server itself do, and values."""
    name, number = str(part(value, "metadata").get("name") or ""), value.get("value") or 0
    if name.startswith("system-"):
        known, why = BUILT_IN_CLASSES.get(name), f"{name} is not a known system priority class"
        if known is not None:
            why = f"value of {name} PriorityClass must be {known.value}"
        if known is None or number != known.value:
            yield Fault("metadata.name", forbidden(_RESERVED + why))
    elif number > _HIGHEST:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        yield Fault("value", forbidden(why))
    if (policy := value.get("preemptionPolicy")) is not None:
        yield from wrong_choice(policy, "preemptionPolicy", "PreemptLowerPriority", "Never")


_LASTING = (of_new(_selector_errors), _match_errors, of_new(_lasting_errors))
RULES: Rules = {
    "apps.v1.DeploymentSpec": (*_LASTING, of_new(_deployment_errors)),
    "apps.v1.DeploymentStrategy": (_strategy_errors,),
    "apps.v1.ReplicaSetSpec": _LASTING,
    "apps.v1.StatefulSetSpec": (*_LASTING, _stateful_set_errors),
    "apps.v1.StatefulSetUpdateStrategy": (
        during("off StatefulSetRecreateStrategy", partial(_update_errors, recreates=False)),
        during("on StatefulSetRecreateStrategy", partial(_update_errors, recreates=True)),
    ),
    "apps.v1.RollingUpdateStatefulSetStrategy": (
        during("on MaxUnavailableStatefulSet", _unavailable_errors),
    ),
    "apps.v1.DaemonSetSpec": _LASTING,
    "apps.v1.DaemonSetUpdateStrategy": (_daemon_set_errors,),
    "core.v1.ReplicationControllerSpec": (_controller_errors, of_new(_lasting_errors)),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": (during("since 1.36", _maximum_errors), _scaler_errors),
    "policy.v1.PodDisruptionBudgetSpec": (_budget_errors,),
    "scheduling.v1.PriorityClass": (_class_errors,),
}
"""By struct, the rules between its fields."""
