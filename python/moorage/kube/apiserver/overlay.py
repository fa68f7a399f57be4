"""Puts objects over earlier ones, and refuses changes that the API server does not let be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError, examples

from .. import apiserver as server
from ..admission.validate_object import validate
from ..model.meta import LAST_APPLIED, Object, ObjectMeta, whole_number
from ..model.node import Node
from ..model.pod import Pod
from ..model.storage import PersistentVolumeClaim
from ..read.object_defaults import default_namespace
from ..releases import FeatureGates
from .refusals import Origin, label

T = TypeVar("T", bound=Object)

HIDDEN_UNCHANGED = "Texts that the dump hides count as unchanged, whatever a new manifest has"
_EXAMPLES = 3


def replace_object(old: Object, new: T) -> T:
    """Return the object that replaces another one.

    The new object counts whole; nothing is merged (see `apply_manifest`). What the API server sets stays: the
    status, the node of a bound pod, the volume of a bound claim, and the UID, creation timestamp and resource
    version where the new object has none. A newer reading of the same object (equal UIDs, a higher resource
    version) counts with its status and node.

    Parameters
    ----------
    new : Object
        An object of the same kind, namespace and name.
    """
    if is_newer(new, old):
        return new
    meta, known = new.metadata, old.metadata
    meta = replace(
        meta,
        uid=meta.uid or known.uid,
        creation_timestamp=meta.creation_timestamp or known.creation_timestamp,
        resource_version=meta.resource_version or known.resource_version,
    )
    changes: dict[str, Any] = {"metadata": meta}
    if "status" in new.__struct_fields__:
        changes["status"] = old.status  # type: ignore[attr-defined]
    if isinstance(old, Pod) and isinstance(new, Pod) and old.spec.node_name:
        changes["spec"] = replace(new.spec, node_name=old.spec.node_name)
    if isinstance(old, PersistentVolumeClaim) and isinstance(new, PersistentVolumeClaim):
        changes["spec"] = replace(new.spec, volume_name=old.spec.volume_name or new.spec.volume_name)
    return replace(new, **changes)


def is_newer(obj: Object, other: Object) -> bool:
    """Whether an object is a newer reading of another one from the same API server.

    Parameters
    ----------
    obj, other : Object
        Objects of the same kind, namespace and name.
    """
    meta, before = obj.metadata, other.metadata
    return bool(meta.uid) and meta.uid == before.uid and _version(meta) > _version(before) >= 0


def _version(meta: ObjectMeta) -> int:
    """The resource version; -1 without one that can be compared."""
    version = whole_number(meta.resource_version, 64)
    return -1 if version is None else version


def _refuse_conflict(old: Object, new: Object) -> None:
    """Raise an InputError about an object that was read before the stored one was changed, or is another one.

    One with another UID and an own version is a later object of the name.
    """
    meta, stored = new.metadata, old.metadata
    if meta.uid and stored.uid and meta.uid != stored.uid:
        if _version(meta) == _version(stored):
            raise InputError(server.conflicts.other_uid_text(new, stored.uid))
    elif 0 <= _version(meta) < _version(stored):
        raise InputError(server.conflicts.stale_text(new))


class ListedTwiceError(InputError):
    """An argument has two objects of one name that differ, so nobody knows which one counts."""


class Overlay:
    """Objects in reading order, of which a later one changes an earlier one of the same name.

    A manifest of a later argument of `load` is applied to it by `apply_manifest`; an object without a text
    replaces it by `replace_object`. Objects that are listed twice in one argument must be equal, or readings
    of one API server, of which the newest counts.

    Parameters
    ----------
    objects : list of Object
        All objects in reading order.
    texts : mapping of int to bytes
        By index, the manifests as JSON texts.
    with_class : callable
        Returns an object whose template has the fields of its priority class.
    gates : callable
        Returns the feature gates of the API server, with its release.

    Attributes
    ----------
    before : dict of str to Object
        By `key_of`, the objects that were changed, as they were first.
    applied : set of str
        Those that were changed by a manifest; see `check_update`.
    """

    def __init__(
        self,
        objects: list[Object],
        origins: Sequence[Origin],
        texts: Mapping[int, bytes],
        with_class: Callable[[Object], Object],
        gates: Callable[[], FeatureGates],
    ) -> None:
        self._objects, self._with_class, self._find_gates = objects, with_class, gates
        self._origins = origins
        self._texts = texts
        self._places: dict[tuple[str, str, str], int] = {}
        self._indexed = 0
        self._replaced: dict[int, tuple[Object, int]] = {}  # what counts at an index, and where it is from
        self._dropped: set[int] = set()
        self._values: dict[int, dict[str, Any]] = {}  # by first index, all fields after the last change
        self._ignored: list[str] = []
        self._merged: list[str] = []  # objects of which nothing was removed, as nobody knows what was applied
        self._requeued: list[str] = []  # of other pods than Kueue has admitted
        self._hidden: list[str] = []  # of what texts count as unchanged, as nobody knows the earlier ones
        self.before: dict[str, Object] = {}
        self.applied: set[str] = set()

    def put(self, at: int) -> None:
        """Put an object over the earlier one of its name.

        Parameters
        ----------
        at : int
            Index of the object; an earlier one has the same kind, namespace and name.

        Raises
        ------
        ListedTwiceError
            The object differs from another one in the same argument.
        InputError
            The object, or what becomes of the earlier one, is invalid.
        """
        new = self._objects[at]
        first = self._first(at)
        old, place = self._replaced.get(first, (self._objects[first], first))
        self._dropped.add(at)
        is_again = self._origins[at].argument == self._origins[place].argument
        if _is_equal(new, old) or (is_again and _is_equal(new, self._objects[place])):
            return
        if is_again:
            validate(new)
            if is_newer(new, old):
                self._replaced[first] = new, at
            elif not is_newer(old, new):
                origin = self._origins[place]
                where = f" in {origin.source}, {label('', '', '', origin)}" if origin.source else ""
                raise ListedTwiceError(f"listed twice, and different{where}")
            return
        changed = self._changed(old, first, at)
        self._ignored += _ignored(new, changed, self._origins[at])
        if changed is not new or key_of(old) in self.applied:
            self.before.setdefault(key_of(old), old)
        self._replaced[first] = changed, at

    def _changed(self, old: Object, first: int, at: int) -> Object:
        """Return an object after the one at an index was applied.

        A newer reading counts as it is; it may have been changed after it was read, so it is judged.
        """
        new, text = self._objects[at], self._texts.get(at)
        _refuse_conflict(old, new)
        new, number = server.hidden_texts.keep_hidden(old, new)
        if number:
            self._hidden.append(f"{number} of {label(new.kind, new.namespace, new.name, self._origins[at])}")
        is_reading = is_newer(new, old)
        if text is None or (is_reading and isinstance(new, Pod)):  # a node and a kubelet change these
            validate(new)
            return replace_object(old, new)
        self.applied.add(key_of(old))
        if is_reading:
            changed = new
        else:
            if not server.apply_manifest.has_last_applied(old):
                self._merged.append(label(new.kind, new.namespace, new.name, self._origins[at]))
            changed = server.apply_manifest.apply_manifest(old, text)
        stored = self._values.get(first)
        if stored is None and (own := self._texts.get(first)) is not None:
            stored = msgspec.json.decode(own)
        if stored is not None and stored.get("apiVersion") != old.api_version:
            stored = None
        from ..admission.manifest_validation import check_applied  # only changes are judged
        from ..admission.rules.update_rules import is_admitted_anew

        sent = msgspec.json.decode(text)
        after = (
            sent if is_reading or stored is None else server.apply_manifest.applied_value(old, stored, text)
        )
        check_applied(self._with_class(old), self._with_class(changed), stored, after, self.gates)
        if stored is not None and is_admitted_anew(stored, after):
            self._requeued.append(label(new.kind, new.namespace, new.name, self._origins[at]))
        if stored is not None:
            self._values[first] = after
        validate(changed, old)  # what a server judges is told: this is about other kinds, and absent fields
        return changed

    @cached_property
    def gates(self) -> FeatureGates:
        """The feature gates of the API server, with its release."""
        return self._find_gates()

    def _first(self, at: int) -> int:
        """The index of the first object with the name of the one at `at`."""
        for index in range(self._indexed, at):
            obj = self._objects[index]
            self._places.setdefault((obj.full_kind, default_namespace(obj), obj.name), index)
        self._indexed = max(self._indexed, at)
        obj = self._objects[at]
        return self._places[obj.full_kind, default_namespace(obj), obj.name]

    def result(self) -> tuple[list[Object], Sequence[Origin]]:
        """Return the objects that count, and their origins.

        Nodes and pods are at the places of the first ones, as a change does not make them younger. Others are
        where they were changed last: controllers follow the changes in that order.
        """
        if not self._dropped:
            return self._objects, self._origins
        listed: list[tuple[int, int, Object]] = []
        for at, obj in enumerate(self._objects):
            if at not in self._dropped:
                obj, place = self._replaced.get(at, (obj, at))
                listed.append((at if isinstance(obj, Node | Pod) else place, place, obj))
        listed.sort(key=itemgetter(0))
        return [obj for _, _, obj in listed], [self._origins[place] for _, place, _ in listed]

    def warnings(self) -> list[str]:
        """Return warnings about what later objects have, or lack, and earlier ones keep."""
        warnings = []
        if self._ignored:
            text = "Status and node of an object that is applied again stay, so these are not read"
            warnings.append(f"{text}: {examples(self._ignored, _EXAMPLES)}.")
        if self._hidden:
            warnings.append(f"{HIDDEN_UNCHANGED}: {examples(self._hidden, _EXAMPLES)}.")
        if self._merged:
            text = f"Without the annotation {LAST_APPLIED}, nothing is removed that a new manifest lacks"
            warnings.append(f"{text}: {examples(self._merged, _EXAMPLES)}.")
        if self._requeued:
            text = "Kueue stops jobs whose pods change, and queues them again, which is not simulated"
            warnings.append(f"{text}: {examples(self._requeued, _EXAMPLES)}.")
        return warnings


def key_of(obj: Object) -> str:
    """Return kind, namespace and name of an object, also of one without defaults.

    Returns
    -------
    str
        ``Kind namespace/name``.
    """
    return f"{obj.kind} {default_namespace(obj)}/{obj.name}"


def _is_equal(obj: Object, other: Object) -> bool:
    """Whether two objects of one name are equal, also if only one of them names its namespace ``default``."""
    named = replace(obj.metadata, namespace=other.namespace)
    return replace(obj, metadata=named) == other


def _ignored(new: Object, replaced: Object, origin: Origin) -> list[str]:
    """The fields of an object that do not count."""
    fields = []
    status = getattr(new, "status", None)
    if status is not None and status != type(status)() and status != getattr(replaced, "status", None):
        fields.append("status")
    if isinstance(new, Pod) and isinstance(replaced, Pod):
        node = new.spec.node_name
        if node and node != replaced.spec.node_name:
            fields.append("spec.nodeName")
    return [f"{path} of {label(new.kind, new.namespace, new.name, origin)}" for path in fields]
