"""Which objects a user means: references, and selections of nodes and workloads, for all verbs, questions and
commands."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Any, TypeVar

from moorage.errors import (
    InputError,
    either,
    examples,
    nearest,
    nearest_or_known,
    same_or_nearest,
    shorten,
)
from moorage.kube import LabelSelectorMatcher, Node, Object, Pod, PodGroup, parse_selector
from moorage.kube.model.node import REGION, SHORT_LABELS, ZONE
from moorage.kube.model.workload import PARENTS, CronJob, DaemonSet, Deployment, Job, StatefulSet
from moorage.kube.workloads.ownership import Workload
from moorage.store import NotFoundError, ObjectClient, find_object, kind_named, only_namespace
from moorage.store.errors import is_namespaced

T = TypeVar("T", bound=Object)
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
WORKLOADS = (Deployment, StatefulSet, DaemonSet, Job, CronJob, *PARENTS)
NAMED = (Node, *WORKLOADS, PodGroup, Pod)
"""Kinds whose objects a name alone may mean."""
_OPERATOR = re.compile(r"[=!,()\s]")
_MOST = 3


class NoSuchObjectError(InputError):
    """Raised where the input has no object that a user has named."""


# ---- references --------------------------------------------------------------------------------------------


def object_named(
    client: ObjectClient,
    text: str,
    kinds: Sequence[type[Object]] = (),
    lacks: str = "",
    namespace: str = "",
    also: Sequence[Workload] = (),
) -> Any:
    """Return the object that a reference means.

    Parameters
    ----------
    text : str
        ``KIND/NAME``, ``KIND/NAMESPACE/NAME``, ``NAMESPACE/NAME``, or ``NAME``: without a kind it is the only
        one of this name among `kinds`. Those that others of them make come last.
    kinds : sequence of type, optional
        Those that the question is about. By default all, and `NAMED` without a kind.
    lacks : str
        What other kinds lack: ``has no replicas``.
    namespace : str
        Of an object of which the text says none. Without it the one in ``default`` is meant, as by kubectl,
        or else the only one.
    also : sequence of Workload
        Those of which there may be only pods, which an error names too.

    Raises
    ------
    NoSuchObjectError
        Nothing has the name.
    InputError
        It is malformed, or names another kind, or there are several.
    """
    parts = text.split("/")
    if not all(parts) or len(parts) > 3:
        raise InputError(f'"{shorten(text, 80)}" is not a reference such as deploy/web or pod/NAMESPACE/NAME')
    kind, place, name = _kind_of(parts), namespace, parts[-1]
    if isinstance(kind, InputError):
        among, place = tuple(kinds or NAMED), parts[0] if len(parts) == 2 else namespace
        objects = [obj for each in among for obj in _with_name(client, each, name, place)]
        if not objects:
            raise _absent(client, text, among, kind if len(parts) == 2 else None, also)
    else:
        if len(parts) == 3:
            place = parts[1]
            if not is_namespaced(kind):
                raise InputError(f'"{shorten(text, 80)}": a {kind.__name__} has no namespace')
        if kinds and kind not in kinds:
            raise InputError(f"a {kind.__name__} {lacks}; name a {_text_of(kinds)}", obj=text)
        objects = _with_name(client, kind, name, place)
        if not objects:
            return get(client, kind, name, (place or "default") if is_namespaced(kind) else "", also)
    return _only(objects, text)


def _kind_of(parts: Sequence[str]) -> type[Object] | InputError:
    """Return the kind that a reference begins with, or the error that it begins with none."""
    if len(parts) == 1:
        return InputError("")
    try:
        return kind_named(parts[0])
    except InputError as error:
        if len(parts) == 3:
            raise
        return error


def _with_name(client: ObjectClient, kind: type[Object], name: str, namespace: str) -> list[Object]:
    if namespace or not is_namespaced(kind):
        obj = find_object(client, kind, name, namespace if is_namespaced(kind) else "")
        return [] if obj is None else [obj]
    listed: list[Object] = client.list(kind)[0]
    return [obj for obj in listed if obj.name == name]


def _only(objects: Sequence[Object], text: str) -> Object:
    """Return the one of several objects of a name that is meant."""
    kinds = {type(obj).__name__ for obj in objects}
    own = [obj for obj in objects if (of := obj.metadata.controller()) is None or of.kind not in kinds]
    if len({type(obj) for obj in own or objects}) == 1:
        place = only_namespace([obj.namespace for obj in own or objects], text)
        own = [obj for obj in own or objects if obj.namespace == place]
    elif near := [obj for obj in own if obj.namespace in ("", "default")]:
        own = near
    if len(own) > 1:
        raise several(own, text)
    return own[0]


def several(objects: Iterable[Object | Workload], text: str) -> InputError:
    """Return the error that a text may mean any of several objects."""
    there = " or ".join(map(reference_to, objects))
    return InputError(f"there are several: give {there}", obj=shorten(text, 80))


def _absent(
    client: ObjectClient,
    text: str,
    kinds: Sequence[type[Object]],
    no_kind: InputError | None,
    also: Sequence[Workload],
) -> NoSuchObjectError:
    """Return the error that nothing has a name, with what is like it."""
    there: list[Any] = [obj for kind in kinds for obj in client.list(kind)[0]]
    there += also
    place, _, name = text.rpartition("/")
    names = {obj.name for obj in there if place in ("", obj.namespace)}
    near = same_or_nearest(name, dict.fromkeys(map(reference_to, there)), names)
    if no_kind is not None and all(obj.namespace != place for obj in there):
        return NoSuchObjectError(f"{no_kind.message}{near}")
    return NoSuchObjectError(f'no {_text_of(kinds)} is named "{shorten(text, 80)}"{near}')


def _text_of(kinds: Sequence[type[Object]]) -> str:
    if not {*WORKLOADS} <= {*kinds}:
        return either([kind.__name__ for kind in kinds])
    return "node, workload or pod" if Node in kinds else "workload or pod"


def reference_to(obj: Any) -> str:
    """Return how options name an object, or a `Workload`: ``deployment/NAMESPACE/NAME``."""
    return "/".join(filter(None, (obj.kind.lower(), obj.namespace, obj.name)))


def get(
    client: ObjectClient, kind: type[T], name: str, namespace: str = "", also: Sequence[Workload] = ()
) -> T:
    """Return an object that a user has named. For `also` see `object_named`.

    Raises
    ------
    NoSuchObjectError
        It does not exist.
    """
    try:
        return client.get(kind, name, namespace)
    except NotFoundError:
        key = f"{namespace}/{name}" if namespace else name
        near = _hint(client, kind, name, namespace, also)
        raise NoSuchObjectError(f'there is no {kind.__name__} "{shorten(key, 80)}"{near}') from None


def _hint(
    client: ObjectClient, kind: type[Object], name: str, namespace: str, also: Sequence[Workload]
) -> str:
    """Return what an error adds about an object that does not exist: the same name in another namespace, of
    another kind of workload, or in labels of nodes; or names that are like it."""
    there: list[Any] = [*client.list(kind)[0], *(each for each in also if each.kind == kind.__name__)]
    kinds = [other for other in WORKLOADS if other is not kind and kind in WORKLOADS]
    others: list[Any] = [obj for other in kinds for obj in client.list(other, namespace)[0]]
    alike = [reference_to(obj) for obj in (*there, *others) if obj.name == name]
    if kind is Node:
        alike += sorted(
            {f"{key}={name}" for obj in there for key, value in obj.metadata.labels.items() if value == name}
        )
    if alike:
        return f"; there is {examples([*dict.fromkeys(alike)], _MOST)}"
    near = nearest_or_known(name, {obj.name for obj in there if obj.namespace == namespace})
    return near or same_or_nearest(name, dict.fromkeys(map(reference_to, there)), {obj.name for obj in there})


# ---- nodes -------------------------------------------------------------------------------------------------


def short_label(label: str) -> str:
    """Return a label of the topology as people call it, ``zone`` or ``region``; another one as it is."""
    return {ZONE: "zone", REGION: "region"}.get(label, label)


def node_name(text: str) -> str:
    """Return the name of a node that may be given as ``node/NAME``."""
    kind, _, name = text.partition("/")
    return name if kind.lower() in ("node", "nodes", "no") and NAME.fullmatch(name) is not None else text


def select_nodes(
    client: ObjectClient, nodes: str | Iterable[str], among: Container[str] | None = None
) -> list[Node]:
    """Return nodes by their names, or by a label selector.

    Parameters
    ----------
    nodes : str or iterable of str
        A name or a selector such as ``pool=gpu,zone in (a,b)``, or several. A text that can be a name is
        one, and ``node/NAME`` is, too. ``zone``, ``region``, ``type`` and ``pool`` stand for what
        `SHORT_LABELS` says on nodes without labels of these names.
    among : container of str, optional
        The names of the nodes that a selector may select; by default all.

    Returns
    -------
    list of Node
        In the order of the given texts; those of a selector by name.

    Raises
    ------
    InputError
        A node does not exist, or the selector is empty, malformed, or selects none.
    """
    chosen: dict[str, Node] = {}
    for text in dict.fromkeys(map(node_name, [nodes] if isinstance(nodes, str) else nodes)):
        if not text.strip():
            raise InputError("the name or selector of nodes is empty")
        if NAME.fullmatch(text) is not None:
            chosen.setdefault(text, get(client, Node, text))
            continue
        listed: list[Node] = client.list(Node)[0]
        among_these = [node for node in listed if among is None or node.name in among]
        chosen |= {node.name: node for node in _selected(among_these, text)}
    return [*chosen.values()]


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


# ---- workloads ---------------------------------------------------------------------------------------------


def workloads_named(
    client: ObjectClient, target: str, kinds: tuple[type[Object], ...], lacks: str, namespace: str = ""
) -> list[Any]:
    """Return the workloads that a target means, by kind, namespace and name; those that another of them makes
    are none.

    Parameters
    ----------
    target : str
        ``*``, ``namespace/NAME``, a selector such as ``app=web``, both (``namespace/NAME,app=web``), or as
        for `object_named`.
    namespace : str
        Of a target that names none; "" for all.

    Raises
    ------
    InputError
        There is none.
    """
    kind, _, rest = target.partition("/")
    is_selector, selector = _OPERATOR.search(target) is not None, ""
    if kind in ("namespace", "namespaces", "ns"):
        namespace, _, selector = rest.partition(",")
    elif target == "*" or is_selector:
        selector = "" if target == "*" else target
    elif "*" in target:
        place = kind if isinstance(_kind_of([kind, rest]), InputError) else "NAME"
        means = f"namespace/{place} means all workloads in a namespace, and * all there are"
        raise InputError(f'workloads have names and no patterns: "{shorten(target, 80)}"; {means}')
    else:
        return [object_named(client, target, kinds, lacks, namespace)]
    every = [obj for each in kinds for obj in select_objects(client, each, namespace, selector)]
    names = {each.__name__ for each in kinds}
    own = [obj for obj in every if (of := obj.metadata.controller()) is None or of.kind not in names]
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
