"""What differs between the objects of two clusters, what that broke, and what heals it when it is undone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster.helpful_changes import ObjectEdit, write
from moorage.controllers.store_control import workloads_of
from moorage.document import Count, Document
from moorage.errors import InputError, shorten
from moorage.kube import Cluster, Node, Object, object_to_dict
from moorage.kube.model.pod import MIRROR_ANNOTATION
from moorage.kube.workloads.ownership import Workload
from moorage.store import ApiError

from ..scheduler import Scheduler

MOST_UNDONE = 20
"""The most changes that are undone for one answer."""
_MOST_SHOWN = 40
"""The most characters of a value in an answer."""
_LEFT_OUT = ("apiVersion", "kind", "metadata", "status")
Key = tuple[type[Object], str]


class ChangedField(Document, frozen=True):
    """A field that is not the same in two clusters."""

    object: str
    """Such as ``deployment/shop/web`` or ``node/a``."""
    field: str
    """Empty where the whole object was added or removed: then one of the values is "present"."""
    before: str
    """Empty where there was none."""
    after: str


class BrokenWorkload(Document, frozen=True):
    """A workload of which more pods are without a node in the second of two clusters."""

    namespace: str
    workload: str
    before: Count
    """How many of its pods were without a node."""
    after: Count
    healed_by: tuple[str, ...]
    """The objects whose change, undone alone, lets fewer of the pods wait. At most 20 are tried."""


class ObjectChanges(Struct, frozen=True):
    """What differs between two clusters.

    Attributes
    ----------
    untried : int
        How many changed objects were not undone.
    """

    fields: list[ChangedField]
    broken: list[BrokenWorkload]
    untried: int


def object_changes(clusters: tuple[Cluster, Cluster], runs: tuple[Scheduler, Scheduler]) -> ObjectChanges:
    """Return what differs between two clusters, and what that broke.

    Parameters
    ----------
    runs : (Scheduler, Scheduler)
        What runs over the clusters have left. Changes are undone in the second, and made again.
    """
    old, new = map(_configured, clusters)
    fields = list[ChangedField]()
    changed = list[Key]()
    for key in [key for key in {**old, **new} if old.get(key) != new.get(key)]:
        differing = [*_differences(_name(key), old.get(key), new.get(key))]
        fields += differing
        changed += [key] * bool(differing)
    before, after = map(_waiting, runs)
    lacking = [workload for workload, number in after.items() if number > before[workload]]
    spaces = {workload.namespace for workload in lacking}
    changed.sort(key=lambda key: not (key[0] is Node or key[1].partition("/")[0] in spaces))
    tried = changed[:MOST_UNDONE] if lacking else []
    healed: dict[Workload, list[str]] = {workload: [] for workload in lacking}
    for key in tried:
        left = _undone(runs[1], key, old.get(key))
        for workload in lacking:
            if left is not None and left[workload] < after[workload]:
                healed[workload].append(_name(key))
    broken = [
        BrokenWorkload(workload.namespace, workload.text, before[workload], after[workload], tuple(names))
        for workload, names in healed.items()
    ]
    return ObjectChanges(fields, broken, len(changed) - len(tried) if lacking else 0)


def _name(key: Key) -> str:
    return f"{key[0].__name__.lower()}/{key[1]}"


def _configured(cluster: Cluster) -> dict[Key, Object]:
    """Return the objects that people write: those without a controller."""
    pods = [pod for pod in cluster.pods if MIRROR_ANNOTATION not in pod.metadata.annotations]
    objects: Sequence[Object] = [*cluster.nodes, *cluster.others, *pods]
    return {(type(obj), obj.key): obj for obj in objects if obj.metadata.controller() is None}


def _waiting(scheduler: Scheduler) -> Counter[Workload]:
    """Return how many pods of each workload are without a node."""
    workloads = workloads_of(scheduler.client)
    return Counter(workloads.of(pod) for pod in scheduler.pods.pending.values())


def _undone(scheduler: Scheduler, key: Key, old: Object | None) -> Counter[Workload] | None:
    """Return how many pods wait once an object is as it was before; None where that cannot be."""
    with scheduler.transaction(), suppress(InputError, ApiError):
        if old is None:
            scheduler.change.delete(_name(key))
        else:
            write(scheduler.client, [ObjectEdit(*key, partial(_restored, old))])
            scheduler.sync()
        scheduler.run()
        return _waiting(scheduler)
    return None


def _restored(old: Object, new: Object | None) -> Object:
    """Return an object as it was, as a change of the one that is there."""
    if new is None:
        return old
    meta = replace(new.metadata, labels=old.metadata.labels)
    kept: dict[str, Any] = {"metadata": meta}
    if hasattr(new, "status") and not isinstance(new, Node):
        kept["status"] = new.status
    return replace(old, **kept)


# ---- fields ------------------------------------------------------------------------------------------------


def _differences(name: str, old: Object | None, new: Object | None) -> Iterator[ChangedField]:
    if old is None or new is None:
        yield ChangedField(name, "", "" if old is None else "present", "" if new is None else "present")
        return
    for path, before, after in _differing(_value(old), _value(new)):
        yield ChangedField(name, path, *_shown(_text(before), _text(after)))


def _value(obj: Object) -> dict[str, Any]:
    """Return what people write of an object; of a node what it has."""
    whole = object_to_dict(obj)
    value = {field: part for field, part in whole.items() if field not in _LEFT_OUT}
    if isinstance(obj, Node):
        value["metadata"] = {"labels": whole["metadata"].get("labels", {})}
        value["status"] = {"allocatable": whole.get("status", {}).get("allocatable", {})}
    value.get("spec", {}).pop("nodeName", None)
    return value


def _differing(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths at which two JSON values differ, with both values."""
    named = _by_name(before), _by_name(after)
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in {**before, **after}:
            yield from _differing(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif named[0] is not None and named[1] is not None:
        for key in {**named[0], **named[1]}:
            yield from _differing(named[0].get(key), named[1].get(key), f"{path}[{key}]")
    elif _text(before) != _text(after):
        yield path, before, after


def _by_name(value: Any) -> dict[str, Any] | None:
    """Return a list whose items have names as a mapping; None for anything else."""
    if not isinstance(value, tuple | list):
        return None
    named = {item["name"]: item for item in value if isinstance(item, Mapping) and "name" in item}
    return named if len(named) == len(value) else None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _shown(before: str, after: str) -> tuple[str, str]:
    """Return two texts in few characters each: from where they differ, if the others look alike."""
    short = shorten(before, _MOST_SHOWN), shorten(after, _MOST_SHOWN)
    if short[0] != short[1]:
        return short
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    return f"…{shorten(before[alike:], _MOST_SHOWN)}", f"…{shorten(after[alike:], _MOST_SHOWN)}"
