"""What a change of a cluster has written, and which objects it is about."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec import structs

from moorage.controllers.api_server import admitted
from moorage.document import Document
from moorage.engine.scheduler import ScheduleResult
from moorage.errors import InputError, either, examples, nearest, nearest_or_known, shorten
from moorage.kube import LabelSelectorMatcher, Namespace, Node, Object, parse_selector
from moorage.kube.admission.request import ADMIN, AdmissionRequest, UserInfo, deletion
from moorage.kube.model.node import REGION, SHORT_LABELS, ZONE
from moorage.kube.model.workload import CronJob, DaemonSet, Deployment, Job, StatefulSet
from moorage.kube.workloads.deployment_rollout import PARENTS
from moorage.kube.workloads.ownership import has_made_up_uid, stable_uid
from moorage.store import (
    NotFoundError,
    ObjectClient,
    find_object,
    kind_named,
    only_namespace,
    parse_reference,
)
from moorage.store.errors import is_namespaced
from moorage.table import Table, Tabular


class Change(Document, Tabular, frozen=True, omit_defaults=True, rename=None):
    """The objects that a change has written, each as ``Kind namespace/name``, in the order of the writes.

    What controllers do afterwards is not listed: `Questions.diff` with a fork from before shows everything.

    """

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    kept: dict[str, str] = {}
    """What a change has left as it is, such as pods on a drained node, each with the reason."""
    preempted: dict[str, str] = {}
    """Those of the deleted pods that were evicted for others, each with ``namespace/name`` of the other."""
    notes: tuple[str, ...] = ()
    """Sentences: what moorage does not know of the objects that it made, and what a server warns of in
    manifests."""

    __repr__ = Tabular.__repr__

    def headline(self) -> str:
        """Return the number of objects by what has become of them, in one line."""
        counts = {field: len(getattr(self, field)) for field in self.__struct_fields__}
        return ", ".join(f"{field}: {n}" for field, n in counts.items() if n) or "no change"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each object.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns field (of this object), name, and reason (of what is kept), or who preempted it.
        """
        rows: list[tuple[str, str, str | None]] = []
        for field in ("created", "changed", "deleted"):
            rows += [(field, name, None) for name in getattr(self, field)[:limit]]
        rows += [("kept", name, why) for name, why in self.kept.items()]
        rows += [("preempted", name, by) for name, by in self.preempted.items()]
        rows += [("notes", note, None) for note in self.notes]
        names = ("field", "name", "reason")
        return Table({name: [row[at] for row in rows[:limit]] for at, name in enumerate(names)})

    def document(self) -> Change:
        """Return the change, which is its document."""
        return self

    @property
    def unfinished(self) -> dict[str, str]:
        """Pods that prevent a drain from being complete: those that stay for another reason than that they
        belong to the node, as pods of DaemonSets and mirror pods do."""
        return {name: why for name, why in self.kept.items() if why not in (DAEMON, MIRROR)}


def preemptions(result: ScheduleResult) -> Change:
    """Return as a change the pods that a run has evicted for others."""
    preempted = {f"Pod {key}": eviction.by for key, eviction in result.evicted.items()}
    return Change(deleted=tuple(preempted), preempted=preempted)


DAEMON, MIRROR = "pod of a DaemonSet", "mirror pod"


def with_own_uids(client: ObjectClient, objects: Sequence[Object]) -> list[Object]:
    """Replace the UIDs of new objects that were made up, and those in references to them and to objects of
    the store: former objects of their names may have had the made-up ones.

    Parameters
    ----------
    objects : sequence of Object
        With defaults; some may exist.

    Returns
    -------
    list of Object
        In the same order.
    """
    version, uids = client.list(Namespace)[1], dict[str, str]()

    def stored(kind: str, namespace: str, name: str) -> str:
        try:
            return client.get(kind_named(kind), name, namespace).metadata.uid
        except (NotFoundError, InputError):  # of a kind that is not followed
            return ""

    for obj in filter(has_made_up_uid, objects):
        name = obj.kind, obj.namespace, obj.name
        uids[obj.metadata.uid] = stored(*name) or stable_uid(*name[:2], f"{obj.name}@{version}")
    out = []
    for obj in objects:
        meta = obj.metadata
        for owner in meta.owner_references:
            if owner.uid not in uids and owner.uid == stable_uid(owner.kind, meta.namespace, owner.name):
                uids[owner.uid] = stored(owner.kind, meta.namespace, owner.name) or owner.uid
        owners = [
            structs.replace(owner, uid=uids.get(owner.uid, owner.uid)) for owner in meta.owner_references
        ]
        meta = structs.replace(meta, uid=uids.get(meta.uid, meta.uid), owner_references=tuple(owners))
        out.append(structs.replace(obj, metadata=meta))
    return out


# ---- selection ---------------------------------------------------------------------------------------------
#
# Selection of nodes by names or labels.

T = TypeVar("T", bound=Object)
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_OPERATOR = re.compile(r"[=!,()\s]")
WORKLOADS = (Deployment, StatefulSet, DaemonSet, Job, CronJob, *PARENTS)
_MOST = 3


def short_label(label: str) -> str:
    """Return a label of the topology as people call it, ``zone`` or ``region``; another one as it is."""
    return {ZONE: "zone", REGION: "region"}.get(label, label)


def select_nodes(
    client: ObjectClient, nodes: str | Iterable[str], among: Container[str] | None = None
) -> list[Node]:
    """Return nodes by their names, or by a label selector.

    Parameters
    ----------
    nodes : str or iterable of str
        A name, names, or a selector such as ``pool=gpu,zone in (a,b)``. A text that can be a name is one.
        ``zone``, ``region``, ``type`` and ``pool`` stand for what `SHORT_LABELS` says on nodes without labels
        of these names.
    among : container of str, optional
        The names of the nodes that a selector may select; by default all.

    Returns
    -------
    list of Node
        In the order of the given names; those of a selector by name.

    Raises
    ------
    InputError
        A node does not exist, or the selector is empty, malformed, or selects none.
    """
    if isinstance(nodes, str) and not nodes.strip():
        raise InputError("the name or selector of nodes is empty")
    if isinstance(nodes, str) and NAME.fullmatch(nodes) is None:
        listed: list[Node] = client.list(Node)[0]
        return _selected([node for node in listed if among is None or node.name in among], nodes)
    return [get(client, Node, name) for name in ([nodes] if isinstance(nodes, str) else dict.fromkeys(nodes))]


def find_reference(client: ObjectClient, reference: str) -> tuple[type[Object], str, str]:
    """Return what a reference names, as `parse_reference` does; without a namespace, see `only_namespace`.

    Raises
    ------
    InputError
        It is malformed, or there are several.
    """
    struct, namespace, name = parse_reference(reference)
    if namespace and reference.count("/") == 1:
        listed: list[Object] = client.list(struct)[0]
        namespace = (
            only_namespace([obj.namespace for obj in listed if obj.name == name], reference) or namespace
        )
    return struct, namespace, name


def get(client: ObjectClient, kind: type[T], name: str, namespace: str = "") -> T:
    """Return an object that a user has named.

    Raises
    ------
    InputError
        It does not exist.
    """
    try:
        return client.get(kind, name, namespace)
    except NotFoundError:
        key = f"{namespace}/{name}" if namespace else name
        near = _hint(client, kind, name, namespace)
        raise InputError(f'there is no {kind.__name__} "{shorten(key, 80)}"{near}') from None


def _hint(client: ObjectClient, kind: type[Object], name: str, namespace: str) -> str:
    """Return what an error adds about an object that does not exist: the same name in another namespace or of
    another kind of workload, or names that are like it."""
    there: list[Object] = client.list(kind)[0]
    alike = [f"{kind.__name__} {obj.key}" for obj in there if obj.name == name]
    for other in WORKLOADS if kind in WORKLOADS else ():
        objects: list[Object] = client.list(other, namespace)[0]
        alike += (
            () if other is kind else [f"{other.__name__} {obj.key}" for obj in objects if obj.name == name]
        )
    if alike:
        return f"; there is {examples(alike, _MOST)}"
    return nearest_or_known(name, [obj.name for obj in there if obj.namespace == namespace])


def workload_named(client: ObjectClient, reference: str, kinds: tuple[type[Object], ...], lacks: str) -> Any:
    """Return the workload that a reference names.

    Parameters
    ----------
    reference : str
        Such as ``deploy/web``.
    kinds : tuple of type
        Those that the question is about.
    lacks : str
        What other kinds lack: ``has no replicas``.

    Raises
    ------
    InputError
        It does not exist, or is of another kind.
    """
    if "/" not in reference:
        named = [f"{kind.__name__.lower()}/{obj.key}" for kind in kinds for obj in client.list(kind)[0]]
        alike = [text for text in named if text.endswith(f"/{reference}")]
        names = [text.rpartition("/")[2] for text in named]
        near = f"; there is {examples(alike, _MOST)}" if alike else nearest(reference, names)
        raise InputError(f'"{shorten(reference, 80)}" is not a reference such as deploy/web{near}')
    head, _, name = reference.partition("/")
    try:
        struct, namespace, name = find_reference(client, reference)
    except InputError as error:
        spaces: list[Namespace] = client.list(Namespace)[0]
        alike = [
            f"{kind.__name__.lower()}/{head}/{name}"
            for kind in kinds
            if find_object(client, kind, name, head)
        ]
        alike += [f"namespace/{head}" for space in spaces if space.name == head]
        raise (
            InputError(f"{error.message}; there is {examples(alike, _MOST)}") if alike else error
        ) from None
    if struct not in kinds:
        taken = either([kind.__name__ for kind in kinds])
        raise InputError(f"a {struct.__name__} {lacks}; name a {taken}", obj=reference)
    return get(client, struct, name, namespace)


def in_namespace(target: str, namespace: str) -> str:
    """Return a target of `workloads_named`, or a reference, with a namespace if it names none."""
    kind, _, name = target.partition("/")
    if target == "*" or _OPERATOR.search(target) is not None:
        within = f"namespace/{namespace}"
        return within if target == "*" else f"{within},{target}"
    with suppress(InputError):
        if "/" not in name and is_namespaced(kind_named(kind)):
            return f"{kind}/{namespace}/{name}"
    return target


def workloads_named(
    client: ObjectClient, target: str, kinds: tuple[type[Object], ...], lacks: str
) -> list[Any]:
    """Return the workloads that a target means, by kind, namespace and name; those that another of them makes
    are none.

    Parameters
    ----------
    target : str
        ``*``, ``namespace/NAME``, a selector such as ``app=web``, both (``namespace/NAME,app=web``), or as
        for `workload_named`.

    Raises
    ------
    InputError
        There is none.
    """
    kind, _, rest = target.partition("/")
    namespace, _, selector = rest.partition(",")
    is_selector = _OPERATOR.search(target) is not None
    if kind not in ("namespace", "namespaces", "ns"):
        if target != "*" and not is_selector:
            return [workload_named(client, target, kinds, lacks)]
        namespace, selector = "", target if is_selector else ""
    every = [obj for each in kinds for obj in select_objects(client, each, namespace, selector)]
    names = {each.__name__ for each in kinds}
    owners = [obj.metadata.controller() for obj in every]
    own = [obj for obj, of in zip(every, owners, strict=True) if of is None or of.kind not in names]
    if not own:
        where = "has these labels" if is_selector else "is there"
        raise InputError(f"no {either(sorted(names))} {where}", obj=shorten(target, 80))
    return sorted(own, key=lambda obj: (obj.kind, obj.key))


def select_objects(client: ObjectClient, kind: type[T], namespace: str, selector: str) -> list[T]:
    """Return the objects of a kind that a label selector matches.

    Parameters
    ----------
    namespace : str
        "" for all namespaces.
    selector : str
        "" for all objects.

    Raises
    ------
    InputError
        The selector is malformed.
    """
    objects: list[T] = client.list(kind, namespace, label_selector=parsed(selector))[0]
    return objects


def parsed(selector: str) -> LabelSelectorMatcher:
    try:
        return parse_selector(selector)
    except ValueError as error:
        raise InputError(f'selector "{shorten(selector, 80)}": {error}') from None


def _selected(nodes: Sequence[Node], text: str) -> list[Node]:
    if text == "*":
        return [*nodes]
    if "*" in text:
        raise InputError(
            f'nodes have names, or labels such as pool=gpu, and no patterns: "{shorten(text, 80)}"'
        )
    matcher, selected = parsed(text), []
    for node in nodes:
        labels = node.metadata.labels
        aliases = {
            name: labels[key]
            for name, keys in SHORT_LABELS.items()
            for key in reversed(keys)
            if key in labels
        }
        if matcher.matches(aliases | labels):
            selected.append(node)
    if not selected:
        is_selector = _OPERATOR.search(text) is not None
        texts = {f"{key}={value}" for node in nodes for key, value in node.metadata.labels.items()}
        near = nearest(text, texts if is_selector else [node.name for node in nodes])
        what = "labels" if is_selector or not near else "label or the name"
        if is_selector and not _OPERATOR.search(text.replace(",", "")):
            near = "; a comma joins labels: name each node by itself, and repeat the option"
        raise InputError(f'no Node has the {what} "{shorten(text, 80)}"{near}')
    return selected


# ---- requests ----------------------------------------------------------------------------------------------


def updated(client: ObjectClient, old: Object, new: Object) -> Object:
    """Replace an object, if the API server admits it; return what is stored.

    Raises
    ------
    ApiError
        It does not.
    """
    return client.update(admitted(client, AdmissionRequest(new, "UPDATE", old)))


def delete_object(
    client: ObjectClient, obj: Object, grace: int | None = None, user: UserInfo = ADMIN
) -> None:
    """Delete an object, likewise."""
    admitted(client, deletion(obj, user))
    client.delete(type(obj), obj.name, obj.namespace, grace_period_seconds=grace)
