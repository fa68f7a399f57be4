"""Puts objects over earlier ones of the same kind, namespace and name, as ``kubectl apply`` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from moorage.errors import InputError
from moorage.objects.model.meta import Object, ObjectMeta
from moorage.objects.model.other_workloads import CloneSet
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.objects.model.workload import DaemonSet, Deployment, StatefulSet

from .object_defaults import default_namespace
from .origins import Origin, label

T = TypeVar("T", bound=Object)

_EXAMPLES = 3
_WITH_REVISIONS = Deployment | StatefulSet | DaemonSet | CloneSet


def replace_object(old: Object, new: T) -> T:
    """Return the object that replaces another one, as ``kubectl apply`` writes it.

    The new object counts whole; nothing is merged. What the API server sets stays: the status, the node of a
    bound pod, the volume of a bound claim, and the UID, creation timestamp and resource version where the new
    object has none. A newer reading of the same object (equal UIDs, a higher resource version) counts with
    its status and node.

    Parameters
    ----------
    old : Object
        The object so far.
    new : Object
        An object of the same kind, namespace and name.

    Returns
    -------
    Object
    """
    if is_newer(new, old):
        return new
    meta = new.metadata
    changes: dict[str, Any] = {"metadata": _replace_metadata(old.metadata, meta)}
    if "status" in new.__struct_fields__:
        changes["status"] = old.status  # type: ignore[attr-defined]
    if isinstance(old, Pod) and isinstance(new, Pod) and old.spec.node_name:
        changes["spec"] = replace(new.spec, node_name=old.spec.node_name)
    if isinstance(old, PersistentVolumeClaim) and isinstance(new, PersistentVolumeClaim):
        changes["spec"] = replace(new.spec, volume_name=old.spec.volume_name or new.spec.volume_name)
    return replace(new, **changes)


def _replace_metadata(old: ObjectMeta, new: ObjectMeta) -> ObjectMeta:
    return replace(
        new,
        uid=new.uid or old.uid,
        creation_timestamp=new.creation_timestamp or old.creation_timestamp,
        resource_version=new.resource_version or old.resource_version,
    )


def is_newer(obj: Object, other: Object) -> bool:
    """Whether an object is a newer reading of another one from the same API server.

    Parameters
    ----------
    obj, other : Object
        Objects of the same kind, namespace and name.

    Returns
    -------
    bool
    """
    meta, before = obj.metadata, other.metadata
    return bool(meta.uid) and meta.uid == before.uid and _version(meta) > _version(before) >= 0


def _version(meta: ObjectMeta) -> int:
    """The resource version; -1 without one that can be compared."""
    text = meta.resource_version
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else -1


class Overlay:
    """Objects in reading order, of which a later one replaces an earlier one of the same name.

    An object of a later argument of `load` replaces it by `replace_object`. Objects that are listed twice in
    one argument must be equal, or readings of one API server, of which the newest counts.

    Parameters
    ----------
    objects : list of Object
        All objects in reading order.
    origins : sequence of Origin
        Origin of each object.

    Attributes
    ----------
    before : dict of str to Object
        By ``Kind namespace/name``, the workloads whose template was replaced, as they were first.
    """

    def __init__(self, objects: list[Object], origins: Sequence[Origin]) -> None:
        self._objects = objects
        self._origins = origins
        self._places: dict[tuple[str, str, str], int] = {}
        self._indexed = 0
        self._replaced: dict[int, tuple[Object, int]] = {}  # what counts at an index, and where it is from
        self._dropped: set[int] = set()
        self._ignored: list[str] = []
        self.before: dict[str, Object] = {}

    def put(self, at: int) -> None:
        """Put an object over the earlier one of its name.

        Parameters
        ----------
        at : int
            Index of the object; an earlier one has the same kind, namespace and name.

        Raises
        ------
        InputError
            The object differs from another one in the same argument.
        """
        new = self._objects[at]
        first = self._first(at)
        old, place = self._replaced.get(first, (self._objects[first], first))
        self._dropped.add(at)
        if _is_equal(new, old):
            return
        if self._origins[at].argument == self._origins[place].argument:
            if is_newer(new, old):
                self._replaced[first] = new, at
            elif not is_newer(old, new):
                raise InputError("listed twice, and different" + _where(self._origins[place]))
            return
        replaced = replace_object(old, new)
        self._ignored += _ignored(new, replaced, self._origins[at])
        if replaced is not new and _has_other_template(old, new):
            self.before.setdefault(f"{old.kind} {default_namespace(old)}/{old.name}", old)
        self._replaced[first] = replaced, at

    def _first(self, at: int) -> int:
        """The index of the first object with the name of the one at `at`."""
        for index in range(self._indexed, at):
            obj = self._objects[index]
            self._places.setdefault((obj.full_kind, default_namespace(obj), obj.name), index)
        self._indexed = max(self._indexed, at)
        obj = self._objects[at]
        return self._places[obj.full_kind, default_namespace(obj), obj.name]

    def result(self) -> tuple[list[Object], Sequence[Origin]]:
        """Return the objects that count, at the places of the first ones, and the origins of what counts."""
        if not self._dropped:
            return self._objects, self._origins
        objects, origins = [], []
        for at, obj in enumerate(self._objects):
            if at not in self._dropped:
                obj, place = self._replaced.get(at, (obj, at))
                objects.append(obj)
                origins.append(self._origins[place])
        return objects, origins

    def warnings(self) -> list[str]:
        """Return a warning about fields that later objects have and `replace_object` leaves as they were."""
        if not self._ignored:
            return []
        shown = self._ignored[:_EXAMPLES] + ["…"] * (len(self._ignored) > _EXAMPLES)
        return [f"Status and node of a replaced object stay, so these are not read: {', '.join(shown)}."]


def _has_other_template(old: Object, new: Object) -> bool:
    if not (isinstance(old, _WITH_REVISIONS) and isinstance(new, _WITH_REVISIONS)):
        return False
    return old.spec.template != new.spec.template


def _is_equal(obj: Object, other: Object) -> bool:
    """Whether two objects of one name are equal, also if only one of them names its namespace ``default``."""
    named = replace(obj.metadata, namespace=other.namespace)
    return replace(obj, metadata=named) == other


def _where(origin: Origin) -> str:
    return f" in {origin.source}, {label('', '', '', origin)}" if origin.source else ""


def _ignored(new: Object, replaced: Object, origin: Origin) -> list[str]:
    """The fields of an object that do not count."""
    found = []
    status = getattr(new, "status", None)
    if status is not None and status != type(status)() and status != getattr(replaced, "status", None):
        found.append("status")
    if isinstance(new, Pod) and isinstance(replaced, Pod):
        node = new.spec.node_name
        if node and node != replaced.spec.node_name:
            found.append("spec.nodeName")
    return [f"{path} of {label(new.kind, new.namespace, new.name, origin)}" for path in found]
