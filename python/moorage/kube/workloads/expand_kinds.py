"""Makes the pods that operators of other projects would make of their objects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError, examples, located, number_of, shorten
from moorage.lazy import NamedTuple
from moorage.notes import RoutineNote

from ..admission.validate_object import validate
from ..apiserver.decode import Head, decode, decode_kind, is_known
from ..apiserver.unknown_fields import check_kind
from ..model.cluster import UNKNOWN, LeftOut, Suspended
from ..model.meta import Object
from ..model.node import Node
from ..model.pod import Pod
from ..model.workload import (
    DEFAULT_QUEUE,
    MAX_PODS,
    QUEUE,
    CustomObject,
    Job,
    is_of_kueue,
)
from .custom_objects import (
    counted,
    digest_of,
    first,
    groups_of,
    is_over,
    makes_pods,
    read_custom,
    ready_replicas,
    select,
)
from .kind_rules import NOT_SIMULATED, Group, KindRule, Values, map_of
from .kind_table import PAST_QUEUES, QUEUED, rule_of
from .ownership import Owners, controller_reference, is_active, stable_uid

_EXAMPLES = 5
_LEFT_OUT = "Not simulated, so their pods are left out"
NOT_KNOWN = "as moorage does not know whether these kinds make pods"
SUSPENDED = "because they are suspended (spec.suspend: false counts them)"
_PAST_QUEUES = "Not held by their queues of Kueue, and without quota"
_NO_PODS = "because they ask for no pods here"
_READY = "because their status says that their replicas are ready"


class Expanded(NamedTuple):
    """Objects with what operators make of them.

    Attributes
    ----------
    objects : list of Object
        Those that scheduling reads, and the new ones.
    sources : list of int
        For each, the index of the object that it is, or that it was made for.
    notes : list of str
        Warnings about workloads that make no pods now.
    warned : Counter of str
        Number of objects of unknown kinds, by kind, that these warnings are about.
    """

    objects: list[Object]
    sources: list[int]
    left_out: list[LeftOut]
    notes: list[str]
    warned: Counter[str]
    suspended: list[Suspended]

    @classmethod
    def empty(cls) -> Expanded:
        """Return one without any object."""
        return cls([], [], [], [], Counter(), [])


def expand_kinds(
    objects: Sequence[Object],
    namespace_of: Callable[[Object], str],
    source_of: Callable[[int], str],
    is_changed: Callable[[Object], bool] = lambda _: False,
    queues: Iterable[Object] = (),
) -> Expanded:
    """Replace objects of kinds that scheduling does not know by the pods and Jobs that their operators make.

    Listed pods count for each object that owns them, directly or through others.

    Parameters
    ----------
    objects : sequence of Object
        Without defaults; of two with one name the later has replaced the earlier.
    namespace_of : callable
        Returns the namespace of an object, which may name none.
    source_of : callable
        Returns the file of an object by its index, for errors.
    is_changed : callable, optional
        Whether an object was changed after its status was written.
    queues : iterable of Object
        Queues of Kueue that are there already.

    Raises
    ------
    InputError
        A template is invalid, or there would be too many pods.
    """
    objects = [_named(obj, at) if isinstance(obj, CustomObject) else obj for at, obj in enumerate(objects)]
    nodes = [obj for obj in objects if isinstance(obj, Node)]
    expansion = _Expansion(Owners(objects, namespace_of), namespace_of, nodes, is_changed)
    expansion.read([*queues, *objects])
    for at, obj in enumerate(objects):
        if isinstance(obj, CustomObject):
            with located(source=source_of(at), obj=obj.full_name):
                expansion.expand(obj, at)
        else:
            expansion.keep(obj, at)
    return expansion.result()


def _named(obj: CustomObject, at: int) -> CustomObject:
    """Return an object with a name: ``generateName`` is completed with its index."""
    if obj.name:
        return obj
    return replace(obj, metadata=replace(obj.metadata, name=f"{obj.metadata.generate_name}{at}"))


def not_counted(why: str, names: Sequence[str]) -> str:
    """Return the warning about workloads that make no pods now.

    Parameters
    ----------
    why : str
        ``as …``.
    names : sequence of str
        At least one.
    """
    shown = examples(list(map(shorten, names)), _EXAMPLES)
    return RoutineNote(f"Not counted, {why} ({len(names)}): {shown}.")


def suspended_names(jobs: Iterable[Object], others: Iterable[Suspended], has_queues: bool) -> list[str]:
    """Return the kinds and names of suspended workloads, with the queues of Kueue that they name.

    Parameters
    ----------
    has_queues : bool
        Whether Kueue decides about those that name a queue, so that they are left out.
    """
    waiting = [job for job in jobs if isinstance(job, Job) and job.spec.suspend]
    queues = [
        (f"Job {job.key}", job.metadata.labels.get(QUEUE, ""))
        for job in waiting
        if job.status.completion_time is None
    ]
    queues += [(workload.text, workload.queue) for workload in others]
    names = [(name, queue) for name, queue in queues if not (queue and has_queues)]
    return [f"{name} (queue {queue})" if queue else name for name, queue in names]


def has_queues(objects: Iterable[Object]) -> bool:
    """Whether there is a queue of Kueue that jobs can name."""
    return any(map(_is_queue, objects))


def _is_queue(obj: Object) -> bool:
    return obj.kind == "LocalQueue" and is_of_kueue(obj)


class _Expansion:
    """Collects what follows from objects of other projects."""

    def __init__(
        self,
        owners: Owners,
        namespace_of: Callable[[Object], str],
        nodes: Sequence[Node],
        is_changed: Callable[[Object], bool],
    ) -> None:
        self._namespace_of = namespace_of
        self._nodes, self._is_changed = nodes, is_changed
        self._owners = owners
        self._expanded = Expanded.empty()
        self._read: dict[tuple[str, str, str], bytes] = {}
        self._notes: defaultdict[str, list[str]] = defaultdict(list)
        self._has_queues = False
        self._defaults: set[str] = set()
        """Namespaces with a queue for jobs that name none."""
        self._past_queues: list[str] = []

    def read(self, objects: Iterable[Object]) -> None:
        """Remember the queues, and the objects that others refer to; one without a namespace is found by its
        name alone."""
        for obj in objects:
            if _is_queue(obj):
                self._has_queues = True
                self._defaults |= {self._namespace_of(obj)} if obj.name == DEFAULT_QUEUE else set()
            if not isinstance(obj, CustomObject) or not obj.document:
                continue
            rule = rule_of(obj.full_kind)
            if rule is not None and rule.why_none == "":  # it makes no pods
                for namespace in {self._namespace_of(obj), ""}:
                    self._read[obj.full_kind, namespace, obj.name] = obj.document

    def keep(self, obj: Object, at: int) -> None:
        """Take an object, which is or was made for the one at an index."""
        self._expanded.objects.append(obj)
        self._expanded.sources.append(at)

    def result(self) -> Expanded:
        """Return what was collected."""
        self._expanded.notes.extend(not_counted(why, names) for why, names in self._notes.items())
        for head, makes_some in ((_LEFT_OUT, True), (f"Left out, {NOT_KNOWN}", False)):
            names = [_left_out_text(kind) for kind in self._expanded.left_out if kind.is_known == makes_some]
            if names:
                self._expanded.notes.append(f"{head}: {examples(list(map(shorten, names)), _EXAMPLES)}.")
        if self._past_queues:
            past = examples(list(map(shorten, self._past_queues)), _EXAMPLES)
            self._expanded.notes.append(f"{_PAST_QUEUES}: {past}.")
        return self._expanded

    def _note(self, why: str, obj: Object, more: str = "") -> None:
        """Note that an object makes no pods."""
        namespace = self._namespace_of(obj)
        name = f"{namespace}/{obj.name}" if namespace else obj.name
        self._notes[why].append(f"{obj.full_kind} {name}{more}")

    def expand(self, obj: CustomObject, at: int) -> None:
        """Make the pods of an object, or say why they are not made."""
        rule = rule_of(obj.full_kind)
        if obj.metadata.deletion_timestamp is not None:
            return
        if rule is None:
            self._leave_out(obj, why=UNKNOWN.format(obj.full_kind))
        elif rule.renders and (obj.metadata.uid or obj.metadata.resource_version):
            self._note(f"because {rule.renders} renders what they deliver", obj)
        elif rule.why_none:
            self._note(rule.why_none, obj)
        elif rule.why_none is None:
            value = msgspec.json.decode(obj.document)
            value["metadata"]["name"] = obj.name
            self._known(obj, value, rule, at)

    def _find(self, kind: str, namespace: str, name: str) -> Values | None:
        """Return a listed object of a kind that the table of kinds reads."""
        document = self._read.get((kind, namespace, name))
        return None if document is None else msgspec.json.decode(document)

    def _leave_out(self, obj: CustomObject, running: int = 0, why: str = NOT_SIMULATED) -> None:
        """Note the pods that an object asks for and that are not listed."""
        name = self._owners.identity(obj)
        if not obj.is_exact and any(map(_runs_pods, self._owners.nearest(name))):
            return  # its controller knows how many there are to be
        present = max(running, self._owners.replicas(name))
        if present >= obj.wanted:
            return
        if not obj.document:
            self._expanded.warned[obj.full_kind] += 1
        if obj.ready >= obj.wanted:
            self._note(_READY, obj, f" ({obj.wanted})")
            return
        group, replicas = obj.api_version.rpartition("/")[0], obj.wanted - int(present)
        key = group, obj.kind, self._namespace_of(obj), obj.name
        self._expanded.left_out.append(LeftOut(*key, replicas, why, obj.digest))

    def _queue_of_new(self, obj: CustomObject) -> str:
        """Return the queue in which Kueue's webhook lets a new object wait; note one that passes it here."""
        meta, namespace = obj.metadata, self._namespace_of(obj)
        default = DEFAULT_QUEUE if namespace in self._defaults else ""
        queue = meta.labels.get(QUEUE, "") or default
        is_new = not (meta.uid or meta.resource_version or meta.controller())
        if not (queue and is_new and self._has_queues) or self._owners.nearest(self._owners.identity(obj)):
            return ""
        if obj.full_kind in PAST_QUEUES:
            self._past_queues.append(f"{obj.kind} {namespace}/{obj.name}")
        return queue if obj.full_kind in QUEUED else ""

    def _known(self, obj: CustomObject, value: Values, rule: KindRule, at: int) -> None:
        if rule.is_batch and is_over(value):
            return
        queue = self._queue_of_new(obj)
        if rule.suspend and first(value, rule.suspend) is True:
            try:
                inner, why = self._apart(obj, value, rule, at), ""
            except InputError as error:  # an operator may refuse what it has when it runs
                inner, why = Expanded.empty(), str(error)
            self._suspend(obj, inner, why)
        elif queue and not (inner := self._apart(obj, value, rule, at)).left_out:
            self._suspend(obj, inner, queue=queue)
        else:
            self._run(obj, value, rule, at)

    def _apart(self, obj: CustomObject, value: Values, rule: KindRule, at: int) -> Expanded:
        """Return what an object makes when it runs."""
        outer, self._expanded = self._expanded, Expanded.empty()
        try:
            self._run(obj, value, rule, at)
            return self._expanded
        finally:
            self._expanded = outer

    def _suspend(self, obj: CustomObject, inner: Expanded, why: str = "", queue: str = "") -> None:
        """Note what a suspended object makes when it runs, or one that a queue holds."""
        for kind in inner.left_out:
            is_known = kind.why == NOT_SIMULATED
            why = f"{kind.full_kind} is a kind {kind.why}" if is_known else f"a kind {kind.why}"
        objects = [*inner.objects]
        for each in inner.suspended:
            objects += each.objects
        name = self._namespace_of(obj), obj.name
        uid = obj.metadata.uid or stable_uid(obj.kind, *name)
        source = replace(obj, metadata=replace(obj.metadata, namespace=name[0], uid=uid))
        self._expanded.suspended.append(
            Suspended(
                obj.full_kind,
                *name,
                queue or obj.metadata.labels.get(QUEUE, ""),
                () if why else tuple(objects),
                why,
                source,
                is_held=bool(queue),
            )
        )

    def _run(self, obj: CustomObject, value: Values, rule: KindRule, at: int) -> None:
        """Make the pods of an object that is not suspended."""
        name = self._owners.identity(obj)
        if any(map(_makes_pods, self._owners.nearest(name))):
            return  # what a child makes is left to the child
        if rule.objects:
            self._inner_objects(obj, value, rule.objects, at)
            return
        pods = [pod for pod in self._owners.pods(name) if rule.is_batch or is_active(pod)]
        value["metadata"]["namespace"] = self._namespace_of(obj)
        groups = groups_of(value, rule, self._find)
        if isinstance(groups, str):
            ready = ready_replicas(value)
            if ready == MAX_PODS and self._is_changed(obj):
                ready = 0  # it was ready as a whole, with other fields
            numbers = {"wanted": counted(rule, value, self._nodes), "ready": ready}
            if not numbers["wanted"]:
                self._note(_NO_PODS, obj)
            self._leave_out(replace(obj, **numbers, digest=digest_of(value)), len(pods), groups)
            return
        owner = replace(obj, metadata=replace(obj.metadata, namespace=self._namespace_of(obj)))
        for group, names in zip(groups, _missing(groups, pods), strict=True):
            with located(path=group.path):
                for part in _jobs(owner, group) if group.is_job else _pods(owner, group, names):
                    self._take(part, at)

    def _inner_objects(self, obj: CustomObject, value: Values, path: str, at: int) -> None:
        """Take the objects in an object that are not listed."""
        for where, _, item in select(value, path):
            head = decode(item, Head[Any])
            with located(path=where):
                check_kind(head.kind, head.api_version)
                known = is_known(head.kind, head.api_version)
                inner = (
                    decode_kind(item, head.kind) if known else read_custom(item, head.kind, head.api_version)
                )
            if inner is not None:
                namespace = inner.namespace or self._namespace_of(obj)
                self._take(replace(inner, metadata=replace(inner.metadata, namespace=namespace)), at)

    def _take(self, obj: Object, at: int) -> None:
        """Take a new object, unless there is one of its name."""
        if obj.name and self._owners.is_listed(self._owners.identity(obj)):
            return
        if isinstance(obj, CustomObject):
            self.expand(obj, at)
        else:
            try:
                validate(obj)
            except InputError as error:  # the user knows the object that it is made for
                raise InputError(error.message, path=error.path) from None
            self.keep(obj, at)


def _left_out_text(left_out: LeftOut) -> str:
    replicas = number_of(left_out.replicas, "replica", "replicas")
    why = f", {left_out.why}" if left_out.is_known and left_out.why != NOT_SIMULATED else ""
    return f"{left_out.full_kind} {left_out.key} ({replicas}{why})"


def _runs_pods(obj: Object) -> bool:
    """Whether an object is a pod, or one that makes pods."""
    return _makes_pods(obj) if isinstance(obj, CustomObject) else makes_pods(obj)


def _makes_pods(obj: Object) -> bool:
    """Whether an object is of a known kind that makes pods."""
    rule = rule_of(obj.full_kind) if isinstance(obj, CustomObject) else None
    return rule is not None and rule.why_none is None


def _missing(groups: Sequence[Group], pods: Iterable[Pod]) -> list[list[str]]:
    """Return the names of the pods that each group lacks.

    A listed pod counts for the group with the longest beginning of its name; one that fits none counts for
    the first group that lacks a pod, so that no running pod is made again.
    """
    others = 0
    beginnings = [group.name.partition("{index}")[0] for group in groups]
    present, taken = [0] * len(groups), set[str]()
    for pod in pods:
        taken.add(pod.name)
        fits = [(len(start), at) for at, start in enumerate(beginnings) if pod.name.startswith(start)]
        if fits:
            present[max(fits)[1]] += 1
        else:
            others += 1
    others += sum(max(number - group.number, 0) for group, number in zip(groups, present, strict=True))
    missing = []
    for group, number in zip(groups, present, strict=True):
        lacking = max(group.number - number, 0)
        spared = min(lacking, others)
        others -= spared
        missing.append(list(_names(group, lacking - spared, taken)))
    return missing


def _names(group: Group, number: int, taken: set[str]) -> Iterator[str]:
    index = group.first
    while number > 0:
        name = group.name.replace("{index}", str(index))
        index += 1
        if name.endswith("-") or name not in taken:
            number -= 1
            yield name
        elif name == group.name:  # the only one
            return


def _pods(owner: Object, group: Group, names: Sequence[str]) -> Iterator[Pod]:
    if not names:
        return
    pod = _decoded("Pod", owner, group.template)
    assert isinstance(pod, Pod)
    for name in names:
        named = {"generate_name": name, "name": ""} if name.endswith("-") else {"name": name}
        yield replace(pod, metadata=replace(pod.metadata, **named))


def _jobs(owner: Object, group: Group) -> Iterator[Object]:
    spec = dict(map_of(group.template, "spec"))
    pod = map_of(spec, "template", "spec")
    if pod and "restartPolicy" not in pod:  # as the webhook of JobSet defaults it
        spec["template"] = map_of(spec, "template") | {"spec": pod | {"restartPolicy": "OnFailure"}}
    job = _decoded("Job", owner, group.template | {"spec": spec})
    for index in range(group.number):
        name = group.name.replace("{index}", str(index))
        yield replace(job, metadata=replace(job.metadata, name=name))


def _decoded(kind: str, owner: Object, template: Values) -> Object:
    """Return an object of a template, which an owner controls."""
    metadata = template.get("metadata")
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata} if metadata else {}
    obj = decode_kind({"kind": kind, "metadata": kept, "spec": template.get("spec") or {}}, kind)
    meta = replace(obj.metadata, namespace=owner.namespace, owner_references=controller_reference(owner))
    return replace(obj, metadata=meta)
