"""What an upgrade touches of the input though no pod moves: objects that the later release takes otherwise,
and autoscalers that are not made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from moorage.document import Document
from moorage.errors import first_of
from moorage.grouped import grouped
from moorage.kube import LabelSelector, LabelSelectorMatcher, Object, PodDisruptionBudget
from moorage.kube.admission.manifest_validation import newly_refused
from moorage.kube.model.cluster import Cluster
from moorage.kube.model.pod import PodSpec
from moorage.kube.model.pod_group import CompositePodGroup
from moorage.kube.model.policy import LimitRange
from moorage.kube.model.workload import PodTemplateSpec, StatefulSet
from moorage.kube.plain import plain
from moorage.kube.releases import RELEASES, FeatureGates, Version, gates_of, parse_version
from moorage.kube.releases.feature_gates import Stage
from moorage.kube.workloads.ownership import Workloads, is_healthy
from moorage.kube.workloads.stateful_pods import rolling_update
from moorage.lazy import NamedTuple

_MOST = 3


class TouchedObjects(Document, frozen=True):
    """Objects of the input that the later release takes otherwise, or that are not made for it."""

    behaviour: str
    """The behaviour of the release that makes the difference; empty where it is none."""
    text: str
    """What is otherwise, in a clause about the release."""
    objects: list[str]

    @property
    def line(self) -> str:
        """For the text of an answer: without the release."""
        by = f" ({self.behaviour})" if self.behaviour else ""
        return f"{self.text}{by}: {first_of(self.objects, _MOST)}"


class _Touch(NamedTuple):
    """What a behaviour, or a feature gate, does to some objects, where a gate is on that it needs."""

    text: str
    of: Callable[[Cluster], Iterable[str]]
    needs: str = ""


def touched_objects(cluster: Cluster, earlier: FeatureGates, later: FeatureGates) -> list[TouchedObjects]:
    """Return what an upgrade touches.

    Parameters
    ----------
    earlier, later : FeatureGates
        Those of the releases.
    """
    touched = [
        TouchedObjects(name, rule.text, objects)
        for name, rule in _RULES.items()
        if _has(earlier, name) is not _has(later, name)
        and (not rule.needs or later[rule.needs])
        and (objects := sorted({*rule.of(cluster)}))
    ]
    versions = earlier.release.version, later.release.version
    touched += _refused(cluster, earlier, later)
    return [*touched, *_groups(cluster, *versions), *_autoscalers(cluster, versions[1])]


def _has(gates: FeatureGates, name: str) -> bool:
    """Whether a release has a behaviour, or a gate is on."""
    value: bool = gates[name] if name in gates else getattr(gates.release, name)
    return value


def _refused(cluster: Cluster, earlier: FeatureGates, later: FeatureGates) -> Iterator[TouchedObjects]:
    """Yield the objects that the later release alone refuses, by what is wrong with them."""
    objects = [*cluster.others, *(pod for pod in cluster.pods if pod.metadata.controller() is None)]
    owned = (obj for obj in objects if obj.metadata.controller() is None)
    faults = (
        (fault, _name(obj))
        for obj in owned
        for fault in newly_refused(plain(obj), obj.kind, obj.api_version, earlier, later)
    )
    for (field, text), names in grouped(faults).items():
        yield TouchedObjects("", f"refuses {field} when these are applied again: {text}", sorted(names))


def _pods_with(cluster: Cluster, concerns: Callable[[PodSpec], bool]) -> Iterator[str]:
    """Yield the workloads of pods, and single pods, whose spec is concerned."""
    workloads = Workloads(cluster.others)
    for pod in cluster.pods:
        if concerns(pod.spec):
            workload = workloads.of(pod)
            yield f"{workload.namespace}/{workload.text}"
    for obj in cluster.others:
        spec: Any = getattr(obj, "spec", None)
        template = getattr(getattr(getattr(spec, "job_template", None), "spec", spec), "template", None)
        if isinstance(template, PodTemplateSpec) and obj.metadata.controller() is None:
            yield from [_name(obj)] * concerns(template.spec)


def _name(obj: Object) -> str:
    return f"{obj.namespace}/{obj.kind.lower()}/{obj.name}"


def _spreads_emptily(spec: PodSpec) -> bool:
    return any(_is_empty(constraint.label_selector) for constraint in spec.topology_spread_constraints)


def _budgets_that_select_more(cluster: Cluster) -> Iterator[str]:
    """Yield the budgets with an empty selector, and those that select pods without labels which are there."""
    unlabelled = {pod.namespace for pod in cluster.pods if not pod.metadata.labels}
    for budget in cluster.others:
        if isinstance(budget, PodDisruptionBudget) and (
            _is_empty(budget.spec.selector)
            or (budget.namespace in unlabelled and LabelSelectorMatcher(budget.spec.selector).matches({}))
        ):
            yield _name(budget)


def _is_empty(selector: LabelSelector | None) -> bool:
    """Whether there is a selector, and it selects everything."""
    return selector is not None and not (selector.match_labels or selector.match_expressions)


def _sets(cluster: Cluster, concerns: Callable[[StatefulSet], object]) -> Iterator[str]:
    """Yield the StatefulSets that are concerned."""
    for obj in cluster.others:
        if isinstance(obj, StatefulSet):
            yield from [_name(obj)] * bool(concerns(obj))


def _stuck_sets(cluster: Cluster) -> Iterator[str]:
    """Yield the StatefulSets that manage their pods in parallel, and have some that are not ready."""
    owners = (pod.metadata.controller() for pod in cluster.pods if not is_healthy(pod))
    uids = {owner.uid for owner in owners if owner is not None}
    return _sets(
        cluster,
        lambda obj: (
            obj.metadata.uid in uids
            and obj.spec.pod_management_policy == "Parallel"
            and obj.spec.update_strategy.type == "RollingUpdate"
        ),
    )


_SEVERAL = "MaxUnavailableStatefulSet"
_RULES: Mapping[str, _Touch] = {
    _SEVERAL: _Touch(
        "replaces as many pods of a StatefulSet at once as maxUnavailable says",
        lambda cluster: _sets(cluster, lambda obj: rolling_update(obj).max_unavailable not in (None, 1)),
    ),
    "StatefulSetRecreateStrategy": _Touch(
        "manages StatefulSets with the strategy Recreate",
        lambda cluster: _sets(cluster, lambda obj: obj.spec.update_strategy.type == "Recreate"),
    ),
    "unavailable_pods_go_first": _Touch(
        "replaces old pods that are not available first, whatever maxUnavailable is",
        _stuck_sets,
        _SEVERAL,
    ),
    "partition_bounds_unavailability": _Touch(
        "counts only pods from the partition on against maxUnavailable",
        lambda cluster: _sets(cluster, lambda obj: rolling_update(obj).partition),
        _SEVERAL,
    ),
    "limits_are_exact": _Touch(
        "compares limits with requests times the ratio of a LimitRange exactly",
        lambda cluster: (
            _name(obj)
            for obj in cluster.others
            if isinstance(obj, LimitRange) and any(each.max_limit_request_ratio for each in obj.spec.limits)
        ),
    ),
    "empty_runtime_classes_are_none": _Touch(
        "takes an empty runtimeClassName as none",
        lambda cluster: _pods_with(cluster, lambda spec: spec.runtime_class_name == ""),
    ),
    "scores_effective_requests": _Touch(
        "scores nodes by the pod's own resources (spec.resources)",
        lambda cluster: _pods_with(cluster, lambda spec: spec.resources is not None),
    ),
    "empty_selectors_spread": _Touch(
        "counts all pods of the namespace for an empty selector of a spread constraint",
        lambda cluster: _pods_with(cluster, _spreads_emptily),
    ),
    "budgets_select_as_written": _Touch(
        "lets budgets protect all that they select from preemption: pods without labels too, and all pods if "
        "the selector is empty",
        _budgets_that_select_more,
    ),
}


def _groups(cluster: Cluster, earlier: str, later: str) -> Iterator[TouchedObjects]:
    """Yield groups of groups, if they are alpha in the earlier release, which cannot read beta ones."""
    gates = [gates_of(RELEASES[version]).get(CompositePodGroup.__name__) for version in (earlier, later)]
    stages = [gate and gate.stage for gate in gates]
    if stages == [Stage.ALPHA, Stage.BETA]:
        names = sorted(_name(obj) for obj in cluster.others if isinstance(obj, CompositePodGroup))
        text = f"stores these groups as scheduling.k8s.io/v1beta1, so that {earlier} cannot be rolled back to"
        yield from [TouchedObjects("", text, names)] * bool(names)


def _autoscalers(cluster: Cluster, later: str) -> Iterator[TouchedObjects]:
    """Yield the autoscalers among the pods that are not known to support a release."""
    for text, most in (
        ("is newer than cluster-autoscaler is made for, which simulates its own release", _of_autoscaler),
        ("is newer than Karpenter is known to support", _of_karpenter),
    ):
        images = {
            image
            for pod in cluster.pods
            for container in pod.spec.containers
            for image in [container.image.partition("@")[0]]
            if Version(0, 0, 0) < most(image) < _of(later)
        }
        yield from [TouchedObjects("", text, sorted(images))] * bool(images)


NEWEST_OF_KARPENTER = {"1.0": 31, "1.2": 32, "1.5": 33, "1.6": 34, "1.9": 35, "1.13": 36, "1.15": 37}
"""The newest minor version of Kubernetes that Karpenter supports, from each of these releases on
(karpenter.sh, table of compatibility of v1.15)."""


def _of_autoscaler(image: str) -> Version:
    """Return the release of Kubernetes that an image of cluster-autoscaler is made for: that of its tag."""
    name, _, tag = image.rpartition(":")
    known = parse_version(tag) if name.rpartition("/")[2].startswith("cluster-autoscaler") else None
    return known or Version(0, 0, 0)


def _of_karpenter(image: str) -> Version:
    """Return the newest release that an image of Karpenter supports."""
    name, _, tag = image.rpartition(":")
    known = parse_version(tag) if name.endswith("karpenter/controller") else None
    if known is None:
        return Version(0, 0, 0)
    minors = [minor for since, minor in NEWEST_OF_KARPENTER.items() if _of(since) <= known]
    return Version(1, max(minors, default=30), 0)


def _of(release: str) -> Version:
    version = parse_version(release)
    assert version is not None
    return version._replace(patch=0)
