"""Objects of a change that were exported from a server: they have its UID and resource version."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.errors import examples

from ..apiserver.overlay import is_newer
from ..apiserver.refusals import Origin, label
from ..model.meta import Object
from ..model.node import Node
from ..model.pod import Pod
from ..model.resource_slices import ResourceSlice
from ..model.storage import CSINode, CSIStorageCapacity
from ..model.workload import CustomObject
from .object_defaults import default_namespace

_EXAMPLES = 3
_OF_NODES = Node, CSINode, CSIStorageCapacity, ResourceSlice
_OF_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""Metadata that a server writes anew when an object is created."""


def joined_dump(objects: Sequence[Object], origins: Sequence[Origin], namespace: str) -> int:
    """Return the number of the last argument of the cluster, of which the first may be a part alone: dumps
    are split by kinds or namespaces, and the order of such files means nothing. All objects up to there were
    exported, each of them once, and the last argument has what nodes and controllers write."""
    last, names, number = origins[0].argument if objects else 0, set[object](), 0
    start = bisect_right(range(len(objects)), last, key=lambda at: origins[at].argument)
    if not any(map(_is_of_dump, objects[start:])):
        return last
    for argument, own in groupby(range(len(objects)), lambda at: origins[at].argument):
        part = [objects[at] for at in own]
        names.update(_key(obj, namespace) for obj in part)
        number += len(part)
        if len(names) < number or not all(map(_is_exported, part)):
            break
        if any(map(_is_of_dump, part)):
            last = argument
    return last


def judge_exports(
    objects: list[Object], origins: Sequence[Origin], texts: dict[int, bytes], namespace: str
) -> Iterator[str]:
    """Make new objects of those that were exported and are not in the cluster, as ``kubectl apply`` does: it
    sends no resource version, and a server writes UID and status anew.

    An argument with what nodes and controllers write, such as bound pods, is a part of the dump, and so is an
    object of a kind that the arguments before have not in its namespace.

    Parameters
    ----------
    objects, origins, texts
        See `ReadObjects`; objects and texts are changed.
    namespace : str
        Of objects that name none.

    Yields
    ------
    str
        A warning about objects that count as parts of the dump.
    """
    first = origins[0].argument if objects else 0
    start = bisect_right(range(len(objects)), first, key=lambda at: origins[at].argument)
    later = range(start, len(objects))
    names = {objects[at].name for at in later if _is_exported(objects[at])}
    if not names:
        return
    unjudged, known, listed = list[str](), dict[tuple[str, ...], Object](), set[tuple[str, str]]()
    for _, group in groupby(range(len(objects)), lambda at: 0 if at < start else origins[at].argument):
        own = [*group]
        exported = [at for at in own if _is_exported(objects[at])]
        is_dump = any(_is_of_dump(objects[at]) for at in exported)
        for at in exported if own[0] >= start else ():
            obj, key = objects[at], _key(objects[at], namespace)
            if (earlier := known.get(key)) is not None:
                if is_dump and is_newer(obj, earlier):
                    texts.pop(at, None)
            elif not is_dump and key[:2] in listed and at in texts:
                objects[at], texts[at] = _as_created(obj, texts[at])
            elif not (is_dump or isinstance(obj, CustomObject)):
                unjudged.append(label(obj.kind, obj.namespace, obj.name, origins[at]))
        known.update((_key(objects[at], namespace), objects[at]) for at in own if objects[at].name in names)
        listed.update(_key(objects[at], namespace)[:2] for at in exported)
    if unjudged:
        yield (
            f"Objects with a UID or a resource version count as read from the cluster, so admission does not "
            f"judge them ({len(unjudged)}): {examples(unjudged, _EXAMPLES)}."
        )


def _key(obj: Object, namespace: str) -> tuple[str, str, str]:
    space = default_namespace(obj)
    return obj.full_kind, obj.namespace or (space and namespace), obj.name


def _is_of_dump(obj: Object) -> bool:
    """Whether nodes and controllers write an object, not people."""
    is_bound = isinstance(obj, Pod) and bool(obj.spec.node_name)
    return is_bound or isinstance(obj, _OF_NODES) or obj.metadata.controller() is not None


def _is_exported(obj: Object) -> bool:
    return bool(obj.metadata.uid or obj.metadata.resource_version)


def _as_created(obj: Object, text: bytes) -> tuple[Object, bytes]:
    """Return an object, and its text, without what a server has written."""
    value: dict[str, Any] = msgspec.json.decode(text)
    value.pop("status", None)
    value["metadata"] = {name: item for name, item in value["metadata"].items() if name not in _OF_SERVER}
    meta = replace(obj.metadata, uid="", resource_version="", creation_timestamp=None, generation=0)
    changes: dict[str, Any] = {"metadata": replace(meta, managed_fields="")}
    if "status" in obj.__struct_fields__:
        changes["status"] = type(obj)().status  # type: ignore[attr-defined]
    return replace(obj, **changes), msgspec.json.encode(value)
