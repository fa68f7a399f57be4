"""How running pods differ from the templates that they were made of: new pods of a workload do the same.

Webhooks, and plugins that the API server does not run by default, change pods when they are created. What
they do is not known, but the running pods show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from operator import itemgetter
from typing import Any

from msgspec import UNSET, structs
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.errors import examples, number_of
from moorage.grouped import grouped
from moorage.lazy import NamedTuple

from ..model.meta import Object, Struct
from ..model.new_pods import FieldChange, NewPodsDocument
from ..model.pod import PREEMPTS, Container, Pod, PodSpec, ResourceRequirements, Volume
from ..model.workload import CronJob, Job
from ..plain import plain
from ..workloads.daemon_pods import node_of
from ..workloads.job_state import RUN
from ..workloads.missing_pods import BY_CONTROLLERS, MadeOf
from ..workloads.ownership import Workload, controller_of, is_active
from ..workloads.revisions import Mark, by_creation, template_mark
from .pod_requests import Defaulted, controlled, defaulted_by_limit_range
from .policies import MEMORY_PRESSURE, Policies
from .request import NotAdmittedError

# ---- spec difference ---------------------------------------------------------------------------------------
#
# What one pod spec has that another lacks or has otherwise, and the same difference in a third one.

_AMOUNTS = frozenset({"requests", "limits", "overhead"})
"""Fields with quantities by resource, of which several texts are equal."""
_WHOLE = frozenset({"node_selector_terms"})
"""Lists that are replaced as a whole: one more of these terms would let a pod go to more nodes."""


def changes(before: Any, after: Any, path: str, parent: str = "") -> Iterator[FieldChange]:
    """Yield what differs between two structs, items of lists by their names.

    Parameters
    ----------
    before, after : Struct
        Or the field of a path in them.
    parent : str
        The name of the field that has this one.
    """
    if _lacks(before, after, parent):
        return
    old, new = _parts(before), _parts(after)
    if old is not None and new is not None:
        field = path.rpartition(".")[2]
        for step in new:
            yield from changes(old.get(step), new[step], path + step, field)
    else:
        yield FieldChange(path, plain(before), plain(after))


def _lacks(before: Any, after: Any, parent: str) -> bool:
    """Whether a field has nothing that the one before lacks."""
    if before == after or after in (None, "", (), False):
        return True
    if isinstance(after, tuple) and isinstance(before, tuple) and _named(after) is None:
        return all(item in before for item in after)
    return parent in _AMOUNTS and before is not None and bool(Quantity(before) == Quantity(after))


def _parts(value: Any) -> dict[str, Any] | None:
    """Return the parts of a value by the step that leads to them; None for a value without parts."""
    if isinstance(value, Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {f".{step}": getattr(value, name) for name, step in names}
    if isinstance(value, dict):
        return {f".{name}": item for name, item in value.items()}
    named = _named(value) if isinstance(value, tuple) else None
    return None if named is None else {f"[{name}]": item for name, item in named.items()}


def _named(items: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return items by their names; None if one has none."""
    named = {getattr(item, "name", ""): item for item in items}
    return None if "" in named else named


def with_difference(before: Any, after: Any, value: Any, field: str = "", parent: str = "") -> Any:
    """Return a value with what `after` has and `before` lacks, or has otherwise. Nothing is removed.

    Doing it twice is doing it once. Where the value has changed too, `after` counts; but a container keeps
    its image, and an item that is not in `before` stays as it is.

    Parameters
    ----------
    before, after, value : object
        Structs of one type, or fields of one name.
    field, parent : str
        This name, and that of the field that has it.
    """
    if _lacks(before, after, parent) or (field == "image" and value != before):
        return value
    if isinstance(after, Struct):
        before, value = (type(after)() if part is None else part for part in (before, value))
        parts = {
            name: with_difference(getattr(before, name), item, getattr(value, name), name, field)
            for name, item in structs.asdict(after).items()
        }
        return structs.replace(value, **parts)
    if isinstance(after, dict):
        old, own = before or {}, value or {}
        return own | {
            name: with_difference(old.get(name), item, own.get(name), name, field)
            for name, item in after.items()
            if not _lacks(old.get(name), item, field)
        }
    if isinstance(after, tuple) and field not in _WHOLE:
        return _with_items(before or (), after, value or ())
    return after


def _with_items(before: tuple[Any, ...], after: tuple[Any, ...], value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a list with the items that were added; those that precede all others come first."""
    old, new, own = _named(before), _named(after), _named(value)
    if old is None or new is None or own is None:
        return (*value, *(item for item in after if item not in before and item not in value))
    kept = [
        with_difference(old[name], new[name], item) if name in old and name in new else item
        for name, item in own.items()
    ]
    names = list(new)
    common = next((at for at, name in enumerate(names) if name in old), 0)
    first, last = (
        [new[name] for name in part if name not in old and name not in own]
        for part in (names[:common], names[common:])
    )
    return (*first, *kept, *last)


# ---- siblings ----------------------------------------------------------------------------------------------

_RESIZES = frozenset({"PodResizePending", "PodResizeInProgress"})
_CLASSES = ("priority_class_name", "runtime_class_name")
_NOT_DEFAULTED = Defaulted()
_SHOWN = 3
Revision = Mark | Workload
"""The template of pods; their controller where no label tells the template."""


class TemplateDifference(NamedTuple):
    """How the newest pod of a revision differs from its template after admission.

    Attributes
    ----------
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

    def seen_in(self, pod: Pod, before: PodSpec, after: PodSpec) -> TemplateDifference | None:
        """Return what of it a new pod has got; None if that is nothing, as where its template has it already.

        Parameters
        ----------
        pod : Pod
            As its controller creates it.
        before, after : PodSpec
            Its spec after admission, without and with the difference.
        """
        own = pod.metadata.labels
        labels = {name: value for name, value in self.labels.items() if own.get(name) != value}
        classes = {name: value for name, value in self.classes.items() if getattr(pod.spec, name) != value}
        seen = self._replace(before=before, after=after, labels=labels, classes=classes)
        return seen if seen.others or seen.changes() else None

    @property
    def is_shown(self) -> bool:
        """Whether a sentence tells it: not what a distribution adds to all pods."""
        tolerations = tuple([each for each in self.after.tolerations if each != MEMORY_PRESSURE])
        shown = self._replace(after=replace(self.after, tolerations=tolerations))
        return bool(shown.others or shown.changes())

    def changes(self) -> list[FieldChange]:
        """Return what differs, field by field."""
        classes = PodSpec(**{name: value for name, value in self.classes.items() if name in _CLASSES})
        return [
            *changes(PodSpec(), classes, "spec"),
            *changes(self.before, self.after, "spec"),
            *(FieldChange(f"metadata.labels.{name}", None, value) for name, value in self.labels.items()),
        ]


def _made_by_none(objects: Sequence[Object], pod: Pod) -> tuple[Pod, ...]:
    return ()


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

    Attributes
    ----------
    as_each_makes_it : callable
        Returns a new pod as each MutatingAdmissionPolicy among objects makes it.
    """

    def __init__(
        self,
        pods: Iterable[Pod] = (),
        objects: Sequence[Object] = (),
        before: Mapping[str, Object] | None = None,
    ) -> None:
        self.as_each_makes_it: Callable[[Sequence[Object], Pod], Iterable[Pod]] = _made_by_none
        self._pods, self._objects, self._before = pods, objects, before or {}
        self._by_workload: dict[str, dict[Workload, list[Pod]]] = {}  # by namespace, as it was asked for
        self._by_revision: dict[Workload, dict[Revision, list[Pod]]] = {}
        self._differences: dict[tuple[Workload, Revision], TemplateDifference | None] = {}
        self._noted: dict[
            tuple[Workload, str], tuple[TemplateDifference | None, str]
        ] = {}  # and by the model's name

    def copy(self) -> Siblings:
        """Return a copy that notes new pods by itself."""
        other = copy(self)
        other._differences, other._noted = self._differences.copy(), self._noted.copy()
        return other

    def look_ahead(self) -> None:
        """Find now what is found with the first new pod otherwise."""
        for name in ("_made_of", "_in_namespace"):
            getattr(self, name)
        for namespace in self._in_namespace:
            self._pods_of(Workload(namespace, "", ""))

    def difference_for(self, pod: Pod) -> TemplateDifference | None:
        """Return how a new pod, as its controller creates it, is to differ from its template.

        Returns
        -------
        TemplateDifference or None
            That of the pods of its revision, or else of the newest pod of its workload; None without any.
        """
        revision = _revision(pod)
        if revision is None:
            return None
        top = self._policies.workloads.of(pod)
        if top.kind == Job.__name__:  # the next run of a CronJob is like the last
            cron_job = Workload(top.namespace, CronJob.__name__, top.name.removesuffix(RUN))
            top = cron_job if self._pods_of(cron_job) else top
        if not self._pods_of(top):
            return None
        revisions = self._revisions(top)
        if revision not in revisions:
            revision = max(revisions, key=lambda each: by_creation(revisions[each][0]))
        key = top, revision
        if key not in self._differences:
            self._differences[key] = self._difference(revisions[revision])
        return self._differences[key]

    def note(self, pod: Pod, difference: TemplateDifference | None, autoscaler: str) -> None:
        """Note that a new pod differs from its template, for the answer.

        Parameters
        ----------
        difference : TemplateDifference or None
            Between its template and itself.
        autoscaler : str
            The VerticalPodAutoscaler that has set its requests; "" for none.
        """
        model = "" if difference is None else difference.model.name
        self._noted[self._policies.workloads.of(pod), model] = difference, autoscaler

    # ---- what is known -------------------------------------------------------------------------------------

    @cached_property
    def _current(self) -> list[Object]:
        """The objects as they were when the pods were read."""
        return [self._before.get(obj.full_name, obj) for obj in self._objects]

    @cached_property
    def _policies(self) -> Policies:
        return Policies(self._current)

    @cached_property
    def _made_of(self) -> MadeOf:
        return MadeOf(self._current)

    @cached_property
    def _in_namespace(self) -> dict[str, list[Pod]]:
        """The pods with owners in each namespace."""
        owned = (pod for pod in self._pods if pod.metadata.owner_references)
        return grouped((pod.metadata.namespace, pod) for pod in owned)

    def _pods_of(self, workload: Workload) -> list[Pod]:
        """Return the pods of a workload; a question about one looks at its namespace alone."""
        if (namespace := workload.namespace) not in self._by_workload:
            pods = self._in_namespace.get(namespace, ())
            controlled = (pod for pod in pods if pod.metadata.controller() is not None)
            self._by_workload[namespace] = grouped(
                (self._policies.workloads.of(pod), pod) for pod in controlled
            )
        return self._by_workload[namespace].get(workload, [])

    def _revisions(self, workload: Workload) -> dict[Revision, list[Pod]]:
        """Return the pods of a workload by revision, those that have not ended and the newest first."""
        if workload not in self._by_revision:
            revisions = self._by_revision[workload] = {}
            pods = self._pods_of(workload)
            for pod in sorted(pods, key=lambda pod: (is_active(pod), by_creation(pod)), reverse=True):
                if (revision := _revision(pod)) is not None:
                    revisions.setdefault(revision, []).append(pod)
        return self._by_revision[workload]

    def _difference(self, pods: Sequence[Pod]) -> TemplateDifference | None:
        """Return how the newest pod of a revision differs, or the newest whose resources are as created."""
        model = next((pod for pod in pods if not _is_resized(pod)), pods[0])
        active = list(filter(is_active, pods))
        labels = {
            name: value
            for name, value in model.metadata.labels.items()
            if name not in BY_CONTROLLERS and all(pod.metadata.labels.get(name) == value for pod in active)
        }
        difference = self._of_pod(model, labels)
        if difference is None:
            return None
        shown, bare = difference.changes(), _bare(model.spec)
        others = sum(
            _bare(pod.spec) != bare
            and (other := self._of_pod(pod, labels)) is not None
            and other.changes() != shown
            for pod in active
            if not _is_resized(pod)
        )
        return difference._replace(others=others) if shown or others else None

    def _of_pod(self, pod: Pod, labels: Mapping[str, str]) -> TemplateDifference | None:
        """Return how a pod differs from what its controller would create, with the labels that all pods of
        its revision have; None if that is not known."""
        created = self._made_of.pod_like(pod)
        if created is None:
            return None
        classes = _classes(created.spec, pod.spec)
        try:
            before = self._policies.completed(replace(created, spec=replace(created.spec, **classes)))
        except NotAdmittedError:
            return None
        before = replace(before, volumes=_relevant(before.volumes))
        after = self._own(pod, before, created)
        for given in self._by_policies(created, before):
            after = with_difference(given, after, before)  # what is left beside what the policy gives
        own = created.metadata.labels
        added = {name: value for name, value in labels.items() if own.get(name) != value}
        return TemplateDifference(pod, classes, before, after, added, 0)

    def _by_policies(self, created: Pod, before: PodSpec) -> Iterator[PodSpec]:
        """Yield the spec of a new pod as each MutatingAdmissionPolicy of the input makes it, also one that is
        not bound any more."""
        for pod in self.as_each_makes_it(self._current, replace(created, spec=before)):
            yield self._policies.completed(pod)

    def _own(self, pod: Pod, before: PodSpec, created: Pod) -> PodSpec:
        """Return the spec of a pod without what others than its creation have set, and without what objects
        of the input explain: these act on new pods anew."""
        spec = pod.spec
        autoscaler = self._policies.autoscaler_of(pod)
        of_template = {each.name: each.resources for each in (*before.containers, *before.init_containers)}
        defaulted = defaulted_by_limit_range(pod, created, self._policies.limit_ranger.ranges[pod.namespace])

        def own(container: Container) -> Container:
            resources, wanted = container.resources, of_template.get(container.name)
            ranged = defaulted.get(container.name, _NOT_DEFAULTED)
            present = ResourceRequirements() if wanted is None else wanted
            limits = _as_in(resources.limits, present.limits, ranged.limits)
            requests = _as_in(resources.requests, present.requests, ranged.requests)
            if wanted is None:
                return replace(container, resources=replace(resources, limits=limits, requests=requests))
            if _is_resized(pod):
                return replace(container, resources=wanted)
            if autoscaler is not None:
                names = controlled(autoscaler, container.name)
                limits = _as_in(limits, wanted.limits, names)
                requests = _as_in(requests, wanted.requests, names)
            return replace(container, resources=replace(resources, limits=limits, requests=requests))

        explained: dict[str, Any] = {}
        if before.priority_class_name or (spec.preemption_policy or PREEMPTS) == (
            before.preemption_policy or PREEMPTS
        ):
            explained["preemption_policy"] = before.preemption_policy
        if before.priority_class_name:
            explained["priority"] = before.priority
        affinity = spec.affinity
        if affinity is not None and affinity.node_affinity is not None and node_of(before):
            # A DaemonSet requires the node of its pod.
            affinity = replace(affinity, node_affinity=replace(affinity.node_affinity, required=None))
        return replace(
            spec,
            node_name=before.node_name,
            scheduling_gates=before.scheduling_gates,
            scheduling_group=before.scheduling_group,
            containers=tuple(map(own, spec.containers)),
            init_containers=tuple(map(own, spec.init_containers)),
            resources=before.resources if _is_resized(pod) else spec.resources,
            affinity=affinity,
            volumes=_relevant(spec.volumes),
            **explained,
        )

    # ---- what is told --------------------------------------------------------------------------------------

    def sentences(self) -> list[str]:
        """Return what to know about new pods that differ from their templates; nothing if there are none."""
        like, sized = list[str](), dict[str, None]()
        models = Counter(workload for workload, model in self._noted if model)
        for (workload, _), (difference, autoscaler) in sorted(self._noted.items(), key=itemgetter(0)):
            if difference is not None and difference.is_shown:
                like.append(_text(workload, difference, is_only=models[workload] == 1))
            if autoscaler:
                sized[f"{workload.text} in {workload.namespace} by {autoscaler}"] = None
        sentences = []
        if like:
            head = "New pods differ from their templates as running pods do"
            sentences.append(f"{head}: {examples(like, _SHOWN)}; --ignore-siblings leaves this out.")
        if sized:
            head = "New pods get the requests that a VerticalPodAutoscaler recommends"
            sentences.append(f"{head}: {examples(list(sized), _SHOWN)}.")
        return sentences

    def documents(self) -> list[NewPodsDocument]:
        """Return the workloads with new pods that differ from their templates."""
        documents = []
        for (workload, _), (difference, autoscaler) in sorted(self._noted.items(), key=itemgetter(0)):
            head = workload.namespace, workload.text, autoscaler or UNSET
            if difference is None:
                documents.append(NewPodsDocument(*head))
            else:
                like, others = difference.model.name, difference.others
                documents.append(NewPodsDocument(*head, like, others, [*difference.changes()]))
        return documents


def _text(workload: Workload, difference: TemplateDifference, is_only: bool) -> str:
    """Return the difference of the pods of a workload in one clause."""
    texts, others = [change.text for change in difference.changes()], difference.others
    what = examples(texts, _SHOWN) if texts else "as the template"
    like = "" if is_only and not others else f", as {difference.model.name}"
    like += ", the newest of them" if others else ""
    rest = f"; {number_of(others, 'other differs', 'others differ')} from it" if others else ""
    return f"{workload.text} in {workload.namespace}{like} ({what}{rest})"


def _revision(pod: Pod) -> Revision | None:
    return template_mark(pod) or controller_of(pod)


def _classes(created: PodSpec, spec: PodSpec) -> dict[str, Any]:
    """Return the classes of a pod that differ from those of its template, and what is to follow from them."""
    own = {name: getattr(spec, name) for name in _CLASSES if getattr(spec, name) != getattr(created, name)}
    return own | ({"priority": None, "preemption_policy": None} if own.get("priority_class_name") else {})


def _is_resized(pod: Pod) -> bool:
    """Whether the resources of a pod may have changed since it was created: its spec has, or is to."""
    allocated = {status.name: status.allocated_resources for status in pod.status.container_statuses}
    return (
        pod.metadata.generation > 1
        or any(condition.type in _RESIZES for condition in pod.status.conditions)
        or any(
            name in requests and Quantity(amount) != Quantity(requests[name])
            for container in pod.spec.containers
            for requests in [container.resources.requests]
            for name, amount in allocated.get(container.name, {}).items()
        )
    )


def _bare(spec: PodSpec) -> PodSpec:
    return replace(spec, node_name="", volumes=_relevant(spec.volumes))


def _relevant(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Return the volumes with a source that scheduling reads: not those of tokens of service accounts."""
    return tuple(
        [
            volume
            for volume in volumes
            if replace(volume, host_path=None, projected=None) != Volume(volume.name)
        ]
    )


def _as_in(own: dict[str, Any], other: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return amounts with those of other ones for some resources."""
    kept = {name: amount for name, amount in own.items() if name not in names}
    return kept | {name: other[name] for name in names if name in other}
