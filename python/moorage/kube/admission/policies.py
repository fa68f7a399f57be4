"""The objects of a cluster by which the API server changes new pods: ranges, classes, and autoscalers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from msgspec.structs import replace

from ..model.admission_policies import LimitRange, RuntimeClass
from ..model.autoscaling import VerticalPodAutoscaler
from ..model.meta import Object
from ..model.pod import Pod, PodSpec
from ..model.workload import CronJob, Job, PriorityClass, ReplicaSet
from ..read.object_defaults import other_preemption_policy, priority_fields
from ..workloads.top_controller import Workload, Workloads
from .distributions import Additions
from .limit_ranges import with_defaults
from .runtime_classes import NotAdmittedError, with_runtime_class
from .vertical_autoscaling import strongest

OWNERS = (ReplicaSet, Job, CronJob)
"""The kinds among which the workload of a pod is looked up."""


class Policies:
    """Changes the specs of new pods as the plugins of the API server do.

    Parameters
    ----------
    objects : iterable of Object
        Of these, limit ranges, runtime and priority classes, VerticalPodAutoscalers, the owners of owners of
        pods, and what `Additions` reads count.

    Attributes
    ----------
    additions : Additions
    limit_ranges : dict of str to list of LimitRange
        By namespace.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        self.limit_ranges: defaultdict[str, list[LimitRange]] = defaultdict(list)
        self.runtime_classes: dict[str, RuntimeClass] = {}
        self.classes: dict[str, PriorityClass] = {}
        self._autoscalers: defaultdict[Workload, list[VerticalPodAutoscaler]] = defaultdict(list)
        self._owners: list[Object] = []
        objects = list(objects)
        self.additions = Additions(objects)
        for obj in objects:
            if isinstance(obj, LimitRange):
                self.limit_ranges[obj.namespace].append(obj)
            elif isinstance(obj, RuntimeClass):
                self.runtime_classes[obj.name] = obj
            elif isinstance(obj, PriorityClass):
                self.classes[obj.name] = obj
            elif isinstance(obj, VerticalPodAutoscaler) and obj.spec.target_ref is not None:
                target = obj.spec.target_ref
                self._autoscalers[Workload(obj.namespace, target.kind, target.name)].append(obj)
            elif isinstance(obj, OWNERS):
                self._owners.append(obj)

    @cached_property
    def workloads(self) -> Workloads:
        """Finds the workloads of pods."""
        return Workloads(self._owners)

    def completed(self, pod: Pod) -> PodSpec:
        """Return the spec of a pod with what LimitRanger, Priority, RuntimeClass and `Additions` set.

        Raises
        ------
        NotAdmittedError
            A class does not exist, or a class or the namespace contradicts the pod.
        """
        spec = with_defaults(pod.spec, self.limit_ranges.get(pod.namespace, ()))
        spec = self.additions.applied(replace(pod, spec=spec))
        return with_runtime_class(self._with_priority(spec), self.runtime_classes)

    def _with_priority(self, spec: PodSpec) -> PodSpec:
        """Return a spec with the priority of its class, if it has none yet: the class is a new one."""
        name = spec.priority_class_name
        if spec.priority is None and name and name not in self.classes:
            raise NotAdmittedError(f"no PriorityClass with name {name} was found")
        spec = replace(spec, **priority_fields(spec, self.classes))
        if (refusal := other_preemption_policy(spec, self.classes)) is not None:
            raise NotAdmittedError(refusal)
        return spec

    def autoscaler_of(self, pod: Pod) -> VerticalPodAutoscaler | None:
        """Return the VerticalPodAutoscaler that sets the requests of a new pod; None for none."""
        if not self._autoscalers:
            return None
        return strongest(self._autoscalers.get(self.workloads.of(pod), ()))
