"""The objects of a cluster by which the API server changes new pods: ranges, classes, and autoscalers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from msgspec.structs import replace

from moorage.errors import InputError, examples, shorten
from moorage.lazy import NamedTuple

from ..apiserver.decode import decode
from ..field_errors import aggregate
from ..model.autoscaling import VerticalPodAutoscaler
from ..model.meta import Object
from ..model.node import Namespace, Node
from ..model.pod import Pod, PodSpec, Toleration
from ..model.policy import LimitRange, RuntimeClass, Scheduler
from ..model.resource_claims import is_extended
from ..model.workload import CronJob, Job, PriorityClass, ReplicaSet
from ..read.object_defaults import other_preemption_policy, priority_fields
from ..releases import DEFAULT_GATES, EXTENDED_RESOURCE_TOLERATION, FeatureGates
from ..workloads.ownership import Workload, Workloads
from .built_in_plugins import switched_plugins
from .pod_requests import (
    includes,
    is_best_effort,
    merge_tolerations,
    strongest,
    violations,
    with_defaults,
    with_runtime_class,
)
from .request import AdmissionPlugin, AdmissionRequest, NewPodPlugin, NotAdmittedError, mutated
from .resource_quotas import violations_of_object

# ---- distributions -----------------------------------------------------------------------------------------
#
# Admission that some clusters and distributions add: node selectors and tolerations of namespaces, and
# tolerations for extended resources.

_PROJECT = "openshift.io/node-selector"
_ALPHA = "scheduler.alpha.kubernetes.io/"
_SELECTOR = f"{_ALPHA}node-selector"
_DEFAULT, _WHITELIST = f"{_ALPHA}defaultTolerations", f"{_ALPHA}tolerationsWhitelist"
_ANNOTATIONS = (_PROJECT, _SELECTOR, _DEFAULT, _WHITELIST)
MEMORY_PRESSURE = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule")
"""What PodTolerationRestriction, which is on in OpenShift, adds to all pods with requests."""
_EXAMPLES = 3
_MANAGED = {"cloud.google.com/gke-nodepool": "GKE", "kubernetes.azure.com/cluster": "AKS"}


class Additions(NewPodPlugin):
    """What admission adds to new pods besides what kube-apiserver does by default.

    The annotations of a namespace are read by PodNodeSelector and PodTolerationRestriction, which are off by
    default (kubernetes v1.36), and by OpenShift's OriginPodNodeEnvironment: a cluster that has them runs the
    plugin. OpenShift's controller makes no pods of a DaemonSet for nodes that the project's selector leaves
    out, so that selector is not added to them.

    Parameters
    ----------
    policies : iterable of Object
        Namespaces, OpenShift's Schedulers, and AdmissionPlugins; other kinds are ignored.
    """

    def __init__(self, policies: Sequence[Object]) -> None:
        self._default = ""
        self._plugins = switched_plugins(policies).enabled
        self._annotations: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for obj in policies:
            if isinstance(obj, Namespace):
                annotations = obj.metadata.annotations
                if not annotations.keys().isdisjoint(_ANNOTATIONS):
                    self._annotations[obj.name] = {
                        key: annotations[key] for key in _ANNOTATIONS if key in annotations
                    }
            elif isinstance(obj, Scheduler):
                self._default = obj.spec.default_node_selector
        self._restricts = "PodTolerationRestriction" in self._plugins or any(
            {_DEFAULT, _WHITELIST} & annotations_of.keys() for annotations_of in self._annotations.values()
        )

    def admit(self, pod: Pod) -> Pod:
        """Return a new pod with what is added; the pod must not contradict its namespace."""
        spec = self._applied(pod)
        return pod if spec is pod.spec else replace(pod, spec=spec)

    def _applied(self, pod: Pod) -> PodSpec:
        of_namespace, spec = self._annotations.get(pod.namespace, {}), pod.spec
        spec = self._with_selectors(spec, of_namespace, pod)
        if self._restricts:
            added = _tolerations(of_namespace, _DEFAULT)
            if not is_best_effort(pod):
                added = (*added, MEMORY_PRESSURE)
            spec = replace(spec, tolerations=merge_tolerations((*spec.tolerations, *added)))
            allowed = _tolerations(of_namespace, _WHITELIST)
            if allowed and not all(
                any(includes(toleration, own) for toleration in allowed) for own in spec.tolerations
            ):
                raise NotAdmittedError(
                    "pod tolerations (possibly merged with namespace default tolerations) conflict with its "
                    "namespace whitelist"
                )
        return with_resource_tolerations(spec) if EXTENDED_RESOURCE_TOLERATION in self._plugins else spec

    def _with_selectors(self, spec: PodSpec, of_namespace: Mapping[str, str], pod: Pod) -> PodSpec:
        owner = pod.metadata.controller()
        rules = [(_SELECTOR, "namespace", of_namespace.get(_SELECTOR, ""))]
        if _SELECTOR not in of_namespace and (owner is None or owner.kind != "DaemonSet"):
            rules.append((_PROJECT, "project", of_namespace.get(_PROJECT, self._default)))
        own = dict(spec.node_selector or {})
        for annotation, whose, text in rules:
            for key, value in _selector(annotation, text):
                if own.setdefault(key, value) != value:
                    raise NotAdmittedError(
                        f"pod node label selector conflicts with its {whose} node label selector"
                    )
        return replace(spec, node_selector=own) if own else spec

    def warnings(
        self, namespaces: Collection[str], pods: Iterable[Pod], nodes: Callable[[], Iterable[Node]]
    ) -> Iterator[str]:
        """Yield sentences about what is added, and what the input's distribution would add.

        Parameters
        ----------
        pods : iterable of Pod
            Those without a node.
        """
        texts = [
            f"{name} ({', '.join(given)})"
            for name in namespaces
            if (given := [key for key, value in self._annotations.get(name, {}).items() if value])
        ]
        if self._default and any(
            self._annotations.get(name, {}).keys().isdisjoint((_PROJECT, _SELECTOR)) for name in namespaces
        ):
            texts.append(f"others (defaultNodeSelector {shorten(self._default)} of OpenShift's Scheduler)")
        if texts:
            shown = examples(texts, _EXAMPLES)
            yield f"New pods get the node selectors and tolerations that their namespaces have: {shown}."
        if EXTENDED_RESOURCE_TOLERATION not in self._plugins and (lacking := _untolerated(pods, nodes)):
            name, resource = lacking
            option = f"--enable-admission-plugins {EXTENDED_RESOURCE_TOLERATION}"
            yield (
                f"{name} lets pods that ask for {resource} tolerate the taint of this key "
                f"({EXTENDED_RESOURCE_TOLERATION}): {option} does so, too."
            )


def with_resource_tolerations(spec: PodSpec) -> PodSpec:
    """Return a spec that tolerates taints with the names of the extended resources that it requests
    (kubernetes v1.36, ExtendedResourceToleration).
    """
    containers = (*spec.containers, *spec.init_containers)
    names = sorted({name for item in containers for name in item.resources.requests if is_extended(name)})
    added = [Toleration(key=name, operator="Exists", effect="NoSchedule") for name in names]
    new = tuple(item for item in added if item not in spec.tolerations)
    return replace(spec, tolerations=(*spec.tolerations, *new)) if new else spec


def _selector(annotation: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the labels of a selector such as ``a=b,c=d``."""
    for part in filter(None, text.split(",")):
        key, equals, value = (side.strip() for side in part.partition("="))
        if not (key and equals):
            raise NotAdmittedError(f"invalid selector in {annotation}: [{text}]")
        yield key, value


def _tolerations(of_namespace: Mapping[str, str], annotation: str) -> tuple[Toleration, ...]:
    text = of_namespace.get(annotation, "")
    if not text:
        return ()
    try:
        return decode(f'{{"tolerations": {text}}}'.encode(), PodSpec).tolerations
    except (InputError, ValueError) as error:
        raise NotAdmittedError(f"invalid tolerations in {annotation}: {error}") from None


class _Lacking(NamedTuple):
    distribution: str
    resource: str


def _untolerated(pods: Iterable[Pod], nodes: Callable[[], Iterable[Node]]) -> _Lacking | None:
    """Return a distribution that adds tolerations for extended resources, and a resource of a waiting pod
    that would get one."""
    wanted = [
        (toleration, pod)
        for pod in pods
        for toleration in with_resource_tolerations(pod.spec).tolerations[len(pod.spec.tolerations) :]
    ]
    taints = {
        taint.key: name
        for node in (nodes() if wanted else ())
        for name in [_distribution(node)]
        for taint in node.spec.taints
        if name and is_extended(taint.key)
    }
    for toleration, pod in wanted:
        if toleration.key in taints and not any(map(partial(_covers, toleration.key), pod.spec.tolerations)):
            return _Lacking(taints[toleration.key], toleration.key)
    return None


def _covers(key: str, toleration: Toleration) -> bool:
    """Whether a toleration is for a key, or for all."""
    return toleration.key in ("", key) and toleration.effect in ("", "NoSchedule")


def _distribution(node: Node) -> str:
    """Return the distribution that a node is of, if its API server tolerates extended resources."""
    if "-gke." in node.status.node_info.kubelet_version:
        return "GKE"
    return next((name for label, name in _MANAGED.items() if label in node.metadata.labels), "")


# ---- policies ----------------------------------------------------------------------------------------------

OWNERS = (ReplicaSet, Job, CronJob)
"""The kinds among which the workload of a pod is looked up."""


class LimitRangerPlugin(NewPodPlugin):
    """Containers get default requests and limits; minimum, maximum and ratio are checked."""

    name = "LimitRanger"

    def __init__(self, objects: Iterable[Object], gates: Callable[[], FeatureGates]) -> None:
        self._gates = gates
        self.ranges: defaultdict[str, list[LimitRange]] = defaultdict(list)
        for obj in objects:
            if isinstance(obj, LimitRange):
                self.ranges[obj.namespace].append(obj)

    def admit(self, pod: Pod) -> Pod:
        """Return a new pod whose containers have the defaults."""
        ranges = self.ranges.get(pod.namespace)
        return with_defaults(pod, ranges) if ranges else pod

    def validate(self, request: AdmissionRequest) -> Sequence[str]:
        """Refuse a new pod, or a claim, that is beyond the bounds of a range."""
        obj = request.obj
        for limit_range in self.ranges.get(request.namespace, ()):
            release = self._gates().release
            if not isinstance(obj, Pod):
                texts = [*violations_of_object(obj, request.old, limit_range, release)]
            elif request.operation == "CREATE":
                texts = [*violations(obj, limit_range, release.limits_are_exact)]
            else:
                texts = []
            if texts:
                raise NotAdmittedError(aggregate(texts))
        return ()


class PriorityPlugin(NewPodPlugin):
    """The class of a pod must exist. Value and preemption policy are set with the other defaults, but for a
    class that is new.
    """

    name = "Priority"

    def __init__(self, objects: Iterable[Object]) -> None:
        self._classes = {obj.name: obj for obj in objects if isinstance(obj, PriorityClass)}

    def admit(self, pod: Pod) -> Pod:
        """Return a new pod with the priority of its class, if it has none yet."""
        spec, name = pod.spec, pod.spec.priority_class_name
        if spec.priority is None and name and name not in self._classes:
            raise NotAdmittedError(f"no PriorityClass with name {name} was found")
        if spec.priority == 0 and not name:  # as templates that were read when no class was the default
            spec = replace(spec, priority=None)
        spec = replace(spec, **priority_fields(spec, self._classes))
        if (refusal := other_preemption_policy(spec, self._classes)) is not None:
            raise NotAdmittedError(refusal)
        return replace(pod, spec=spec)


class RuntimeClassPlugin(NewPodPlugin):
    """Pods get overhead, node selector and tolerations of their runtime class."""

    name = "RuntimeClass"

    def __init__(self, objects: Iterable[Object], gates: Callable[[], FeatureGates]) -> None:
        self._classes = {obj.name: obj for obj in objects if isinstance(obj, RuntimeClass)}
        self._gates = gates

    def admit(self, pod: Pod) -> Pod:
        """Return a new pod with what its class adds."""
        is_empty = pod.spec.runtime_class_name == ""
        is_none = is_empty and self._gates().release.empty_runtime_classes_are_none
        return replace(pod, spec=with_runtime_class(pod.spec, self._classes, is_none))


class Policies:
    """Changes the specs of new pods as the plugins of the API server do.

    Parameters
    ----------
    objects : iterable of Object
        Of these, limit ranges, runtime and priority classes, VerticalPodAutoscalers, the owners of owners of
        pods, and what `Additions` reads count.
    gates : callable, optional
        Returns the feature gates of the API server, with its release.

    Attributes
    ----------
    plugins : tuple of AdmissionPlugin
        Those that change pods, in their order.
    """

    def __init__(
        self, objects: Iterable[Object], gates: Callable[[], FeatureGates] = lambda: DEFAULT_GATES
    ) -> None:
        self._autoscalers: defaultdict[Workload, list[VerticalPodAutoscaler]] = defaultdict(list)
        self._owners: list[Object] = []
        objects = list(objects)
        for obj in objects:
            if isinstance(obj, VerticalPodAutoscaler) and obj.spec.target_ref is not None:
                target = obj.spec.target_ref
                self._autoscalers[Workload(obj.namespace, target.kind, target.name)].append(obj)
            elif isinstance(obj, OWNERS):
                self._owners.append(obj)
        self.limit_ranger, self.additions = LimitRangerPlugin(objects, gates), Additions(objects)
        self.plugins: tuple[AdmissionPlugin, ...] = (
            self.limit_ranger,
            self.additions,
            PriorityPlugin(objects),
            RuntimeClassPlugin(objects, gates),
        )

    @cached_property
    def workloads(self) -> Workloads:
        """Finds the workloads of pods."""
        return Workloads(self._owners)

    def completed(self, pod: Pod) -> PodSpec:
        """Return the spec of a new pod with what the plugins set.

        Raises
        ------
        NotAdmittedError
            A class does not exist, or a class or the namespace contradicts the pod.
        """
        spec: PodSpec = mutated(AdmissionRequest(pod), self.plugins).obj.spec  # type: ignore[attr-defined]
        return spec

    def autoscaler_of(self, pod: Pod) -> VerticalPodAutoscaler | None:
        """Return the VerticalPodAutoscaler that sets the requests of a new pod; None for none."""
        if not self._autoscalers:
            return None
        return strongest(self._autoscalers.get(self.workloads.of(pod), ()))
