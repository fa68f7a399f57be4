"""How running pods differ from the templates that they were made of: new pods of a workload do the same.

Webhooks, and plugins that the API server does not run by default, change pods when they are created. What
they do is not known, but the running pods show it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.errors import examples, number_of
from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Affinity, Container, Pod, PodSpec, Volume
from moorage.objects.model.workload import CronJob, Job
from moorage.objects.workloads.daemon_pods import node_of
from moorage.objects.workloads.inferred_templates import by_creation
from moorage.objects.workloads.jobs.cron_runs import RUN
from moorage.objects.workloads.made_of import BY_CONTROLLERS, MadeOf
from moorage.objects.workloads.ownership import HASH_LABEL, is_active
from moorage.objects.workloads.revisions import REVISION_LABEL
from moorage.objects.workloads.top_controller import Workload

from .distributions import MEMORY_PRESSURE
from .limit_ranges import container_defaults
from .policies import Policies
from .runtime_classes import NotAdmittedError
from .spec_difference import Change, changes
from .vertical_autoscaling import controlled

_ALWAYS = "PreemptLowerPriority"
_RESIZES = frozenset({"PodResizePending", "PodResizeInProgress"})
_SHOWN = 3
Revision = tuple[str, str, str]
"""Kind and name of the controller of pods, and the hash of their template."""


class Difference(NamedTuple):
    """How the newest pod of a revision differs from its template after admission.

    Attributes
    ----------
    model : Pod
        The newest pod.
    classes : dict of str to object
        Fields of its spec that name other classes, from which more follows.
    before, after : PodSpec
        What its controller would create, after admission; and the pod, without what is its own.
    labels : dict of str to str
        Labels that all running pods of the revision have, and that the template lacks.
    others : int
        Number of running pods of the revision that differ in another way.
    """

    model: Pod
    classes: Mapping[str, Any]
    before: PodSpec
    after: PodSpec
    labels: Mapping[str, str]
    others: int

    @property
    def is_told(self) -> bool:
        """Whether a sentence tells it: not what a distribution adds to all pods."""
        tolerations = tuple([one for one in self.after.tolerations if one != MEMORY_PRESSURE])
        told = self._replace(after=replace(self.after, tolerations=tolerations))
        return bool(told.others or told.changes())

    def changes(self) -> list[Change]:
        """Return what differs, field by field."""
        empty = PodSpec()
        named = replace(empty, **{name: value for name, value in self.classes.items() if name in _CLASSES})
        labels = [Change(f"metadata.labels.{name}", None, value) for name, value in self.labels.items()]
        found = chain(changes(empty, named, "spec"), changes(self.before, self.after, "spec"))
        return [*found, *labels]


_CLASSES = ("priority_class_name", "runtime_class_name")


class Siblings:
    """Knows the pods of a cluster as it was read, and how they differ from their templates.

    It notes which workloads have got new pods that differ, for the answer.

    Parameters
    ----------
    pods : iterable of Pod
        Those that were there; new ones are not among them.
    objects : sequence of Object
        The controllers of these pods, the revisions of templates, and what admission depends on.
    before : mapping of str to Object
        By ``Kind namespace/name``, objects as they were when the pods were read, where a file changes them.
    """

    def __init__(
        self,
        pods: Iterable[Pod] = (),
        objects: Sequence[Object] = (),
        before: Mapping[str, Object] | None = None,
    ) -> None:
        self._pods, self._objects, self._before = pods, objects, before or {}
        self._found: dict[tuple[Workload, Revision], Difference | None] = {}
        self._made: dict[Workload, tuple[Difference | None, str]] = {}

    def difference_for(self, pod: Pod) -> Difference | None:
        """Return how a new pod of a workload is to differ from its template; None for not at all.

        Parameters
        ----------
        pod : Pod
            As its controller creates it.

        Returns
        -------
        Difference or None
            That of the pods of its revision, or else of the newest pod of its workload.
        """
        if pod.metadata.controller() is None:
            return None
        top = self._policies.workloads.of(pod)
        if top.kind == Job.__name__:  # the next run of a CronJob is like the last
            cron_job = Workload(top.namespace, CronJob.__name__, top.name.removesuffix(RUN))
            top = cron_job if cron_job in self._revisions else top
        revisions = self._revisions.get(top)
        if revisions is None:
            return None
        revision = _revision(pod)
        if revision not in revisions:
            revision = max(revisions, key=lambda each: by_creation(revisions[each][0]))
        key = top, revision
        if key not in self._found:
            self._found[key] = self._difference(revisions[revision])
        return self._found[key]

    def note(self, pod: Pod, difference: Difference | None, autoscaler: str) -> None:
        """Note that a new pod differs from its template.

        Parameters
        ----------
        pod : Pod
        difference : Difference or None
        autoscaler : str
            The VerticalPodAutoscaler that has set its requests; "" for none.
        """
        self._made[self._policies.workloads.of(pod)] = difference, autoscaler

    # ---- what is known -------------------------------------------------------------------------------------

    @cached_property
    def _current(self) -> list[Object]:
        """The objects as they were when the pods were read."""
        return [self._before.get(f"{obj.kind} {obj.key}", obj) for obj in self._objects]

    @cached_property
    def _policies(self) -> Policies:
        return Policies(self._current)

    @cached_property
    def _made_of(self) -> MadeOf:
        return MadeOf(self._current)

    @cached_property
    def _revisions(self) -> dict[Workload, dict[Revision, list[Pod]]]:
        """The pods of each workload by revision, those that have not ended and the newest first."""
        found: defaultdict[Workload, defaultdict[Revision, list[Pod]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for pod in self._pods:
            if pod.metadata.controller() is not None:
                found[self._policies.workloads.of(pod)][_revision(pod)].append(pod)
        for pods in chain.from_iterable(each.values() for each in found.values()):
            pods.sort(key=lambda pod: (is_active(pod), by_creation(pod)), reverse=True)
        return {workload: dict(revisions) for workload, revisions in found.items()}

    def _difference(self, pods: Sequence[Pod]) -> Difference | None:
        """Return how the newest pod of a revision differs, or the newest whose resources are as created."""
        model = next((pod for pod in pods if not _is_resized(pod)), pods[0])
        found = self._of_pod(model, pods)
        if found is None:
            return None
        shown = found.changes()
        own = [pod for pod in pods if is_active(pod)]
        others = sum(
            _bare(pod.spec) != _bare(model.spec)
            and (each := self._of_pod(pod, pods)) is not None
            and each.changes() != shown
            for pod in own
            if not _is_resized(pod)
        )
        return found._replace(others=others) if shown or others else None

    def _of_pod(self, pod: Pod, pods: Sequence[Pod]) -> Difference | None:
        """Return how a pod differs from what its controller would create; None if that is not known."""
        created = self._made_of.pod_like(pod)
        if created is None:
            return None
        classes = _classes(created.spec, pod.spec)
        try:
            before = self._policies.completed(replace(created, spec=replace(created.spec, **classes)))
        except NotAdmittedError:
            return None
        before = replace(before, volumes=_relevant(before.volumes))
        after = self._own(pod, before)
        labels = {
            name: value
            for name, value in pod.metadata.labels.items()
            if name not in BY_CONTROLLERS and created.metadata.labels.get(name) != value
            if all(each.metadata.labels.get(name) == value for each in pods if is_active(each))
        }
        return Difference(pod, classes, before, after, labels, 0)

    def _own(self, pod: Pod, before: PodSpec) -> PodSpec:
        """Return the spec of a pod without what others than its creation have set, and without what objects
        of the input explain: these act on new pods anew."""
        spec = pod.spec
        autoscaler = self._policies.autoscaler_of(pod)
        known = {one.name: one for one in (*before.containers, *before.init_containers)}
        defaults = [container_defaults(one) for one in self._policies.limit_ranges.get(pod.namespace, ())]

        def own(container: Container) -> Container:
            like, resources = known.get(container.name), container.resources
            if like is None:
                for limits, requests in defaults:
                    resources = replace(
                        resources,
                        limits=_without(resources.limits, limits),
                        requests=_without(resources.requests, requests),
                    )
            elif _is_resized(pod):
                resources = like.resources
            elif autoscaler is not None:
                names = controlled(autoscaler, container.name)
                resources = replace(
                    resources,
                    limits=_as_in(resources.limits, like.resources.limits, names),
                    requests=_as_in(resources.requests, like.resources.requests, names),
                )
            return replace(container, resources=resources)

        explained: dict[str, Any] = {}
        if before.priority_class_name or (spec.preemption_policy or _ALWAYS) == (
            before.preemption_policy or _ALWAYS
        ):
            explained["preemption_policy"] = before.preemption_policy
        if before.priority_class_name:
            explained["priority"] = before.priority
        return replace(
            spec,
            node_name=before.node_name,
            scheduling_gates=before.scheduling_gates,
            scheduling_group=before.scheduling_group,
            containers=tuple(map(own, spec.containers)),
            init_containers=tuple(map(own, spec.init_containers)),
            resources=before.resources if _is_resized(pod) else spec.resources,
            affinity=_unpinned(spec.affinity, before),
            volumes=_relevant(spec.volumes),
            **explained,
        )

    # ---- what is told --------------------------------------------------------------------------------------

    def sentences(self) -> list[str]:
        """Return what to know about new pods that differ from their templates; nothing if there are none."""
        made = sorted(self._made.items(), key=lambda item: item[0])
        like = [_text(one, found) for one, (found, _) in made if found is not None and found.is_told]
        by = [
            f"{one.text} in {one.namespace} by {name}"
            for one, (_, name) in sorted(self._made.items())
            if name
        ]
        told = []
        if like:
            head = "New pods differ from their templates as running pods do"
            told.append(f"{head}: {examples(like, _SHOWN)}; --ignore-siblings leaves this out.")
        if by:
            told.append(
                f"New pods get the requests that a VerticalPodAutoscaler recommends: {examples(by, _SHOWN)}."
            )
        return told

    def documents(self) -> list[dict[str, Any]]:
        """Return, as JSON values, the workloads with new pods that differ from their templates."""
        return [
            {"namespace": one.namespace, "workload": one.text}
            | ({"verticalPodAutoscaler": name} if name else {})
            | (
                {}
                if found is None
                else {
                    "like": found.model.name,
                    "others": found.others,
                    "changes": [each._asdict() for each in found.changes()],
                }
            )
            for one, (found, name) in sorted(self._made.items(), key=lambda item: item[0])
        ]


def _text(workload: Workload, found: Difference) -> str:
    """Return the difference of the pods of a workload in one clause."""
    texts = [one.text for one in found.changes()]
    what = examples(texts, _SHOWN) if texts else "as the template"
    like = f", as {found.model.name}, the newest of them"
    rest = f"; {number_of(found.others, 'other differs', 'others differ')} from it" if found.others else ""
    return f"{workload.text} in {workload.namespace}{like if found.others else ''} ({what}{rest})"


def _revision(pod: Pod) -> Revision:
    labels, owner = pod.metadata.labels, pod.metadata.controller()
    mark = labels.get(REVISION_LABEL) or labels.get(HASH_LABEL) or ""
    return (owner.kind, owner.name, mark) if owner is not None else ("", "", "")


def _classes(created: PodSpec, spec: PodSpec) -> dict[str, Any]:
    """Return the classes of a pod that differ from those of its template, and what is to follow from them."""
    found: dict[str, Any] = {
        name: getattr(spec, name) for name in _CLASSES if getattr(spec, name) != getattr(created, name)
    }
    if found.get("priority_class_name"):
        found |= {"priority": None, "preemption_policy": None}
    return found


def _is_resized(pod: Pod) -> bool:
    """Whether the resources of a pod may have changed since it was created: its spec has, or is to."""
    statuses = {one.name: one.allocated_resources for one in pod.status.container_statuses}
    return (
        pod.metadata.generation > 1
        or any(one.type in _RESIZES for one in pod.status.conditions)
        or any(
            name in one.resources.requests and Quantity(amount) != Quantity(one.resources.requests[name])
            for one in pod.spec.containers
            for name, amount in statuses.get(one.name, {}).items()
        )
    )


def _unpinned(affinity: Affinity | None, before: PodSpec) -> Affinity | None:
    """Return an affinity without the node that a DaemonSet requires for its pod."""
    if affinity is None or affinity.node_affinity is None or not node_of(before):
        return affinity
    return replace(affinity, node_affinity=replace(affinity.node_affinity, required=None))


def _bare(spec: PodSpec) -> PodSpec:
    return replace(spec, node_name="", volumes=_relevant(spec.volumes))


def _relevant(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Return the volumes with a source that scheduling reads: not those of tokens of service accounts."""
    return tuple([one for one in volumes if one != Volume(name=one.name)])


def _without(own: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the amounts that are defaults."""
    return {
        name: amount
        for name, amount in own.items()
        if name not in defaults or Quantity(amount) != Quantity(defaults[name])
    }


def _as_in(own: dict[str, Any], other: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return amounts with those of other ones for some resources."""
    left_out = dict.fromkeys(names)
    kept = {name: amount for name, amount in own.items() if name not in left_out}
    return kept | {name: other[name] for name in left_out if name in other}
