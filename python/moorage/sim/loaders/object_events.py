"""ObjectEvents: what the loaders of recorded objects do with them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError
from moorage.kube import Object, Pod
from moorage.kube.read.decode import decode_object, is_known
from moorage.kube.read.object_defaults import default_namespace
from moorage.kube.read.python_values import object_to_dict
from moorage.kube.workloads.ownership import FINISHED

from ..timeline.timeline_event import Verb

if TYPE_CHECKING:
    from ..timeline.event_columns import EventColumns


class ObjectEvents:
    """Adds recorded objects to a timeline: equal ones under one template, at the time of their record.

    Parameters
    ----------
    timeline : EventColumns
        An empty one.
    """

    def __init__(self, timeline: EventColumns) -> None:
        self.timeline = timeline
        self._first: float | None = None
        self._live: dict[str, bool] = {}  # by reference, whether the pod has a node
        self._templates: dict[bytes, int] = {}

    def note(self, what: str) -> None:
        """Count something that is left out or repaired."""
        notes = self.timeline.notes
        notes[what] = notes.get(what, 0) + 1

    def seconds(self, time: Any) -> float | None:
        """Return a time as seconds since that of the first record.

        Parameters
        ----------
        time : str, int or float
            A timestamp (RFC 3339), or seconds.

        Returns
        -------
        float or None
            None, and a note, where it is neither.
        """
        now = _number(time)
        if now is None:
            self.note("records left out: the time is missing")
            return None
        if self._first is None:
            self._first = now
        if now < self._first:
            self.note("records before the first one: moved to its time")
        return max(now - self._first, 0.0)

    def seconds_of_age(self, time: Any) -> float:
        """Return when an object came to be, as seconds since the first record; 0 for an older one.

        Parameters
        ----------
        time : object
            A timestamp; 0 without one.
        """
        now = _number(time)
        return 0.0 if now is None or self._first is None else max(now - self._first, 0.0)

    def decode(self, document: Any) -> Object | None:
        """Decode an object.

        Parameters
        ----------
        document : object
            A JSON value.

        Returns
        -------
        Object or None
            None, and a note, for what scheduling does not read.
        """
        if not isinstance(document, dict):
            self.note("records left out: the object is missing")
            return None
        kind, version = str(document.get("kind", "")), str(document.get("apiVersion", ""))
        if not is_known(kind, version):
            self.note(f"records left out: {kind or 'no kind'} is not read")
            return None
        try:
            return decode_object(document)
        except InputError:
            self.note(f"records left out: {kind} cannot be decoded")
            return None

    def put(self, time: float, obj: Object) -> None:
        """Create an object, or change it; note a pod that got a node, and one that has ended.

        Parameters
        ----------
        time : float
            Seconds.
        """
        namespace = default_namespace(obj)
        reference = "/".join(part for part in (obj.kind.lower(), namespace, obj.name) if part)
        if isinstance(obj, Pod):
            self._put_pod(time, obj, reference)
            return
        try:
            number = self._template(_stripped(obj, obj.name))
        except InputError:
            self.note(f"records left out: {obj.kind} is not valid")
            return
        verb = Verb.APPLY if reference in self._live else Verb.CREATE
        self._live[reference] = True
        self.timeline.add(time, verb, self.timeline.subject(reference), number)

    def _put_pod(self, time: float, pod: Pod, reference: str) -> None:
        node, has_ended = pod.spec.node_name, pod.status.phase in FINISHED
        if reference not in self._live and not has_ended:
            stripped = replace(_stripped(pod, ""), spec=replace(pod.spec, node_name=node))
            try:
                number = self._template(stripped)
            except InputError:
                self.note("records left out: Pod is not valid")
                return
            self.timeline.add(time, Verb.CREATE, self.timeline.subject(reference), number)
            self._live[reference] = bool(node)
        elif reference in self._live and has_ended:
            self.delete(time, reference)
        elif reference in self._live and node:
            self.bind(time, reference, node)

    def bind(self, time: float, reference: str, node: str) -> None:
        """Record the binding of a pod, once.

        Parameters
        ----------
        reference : str
            ``pod/namespace/name``.
        """
        if self._live.get(reference) is False:
            self._live[reference] = True
            self.timeline.bind(time, reference, node)

    def delete(self, time: float, reference: str) -> None:
        """Delete an object; one that is unknown is noted."""
        if self._live.pop(reference, None) is None:
            self.note("deletions left out: there is no object of this name")
            return
        if reference.startswith("node/"):
            self.timeline.leave(time, reference.partition("/")[2])
        else:
            self.timeline.add(time, Verb.DELETE, self.timeline.subject(reference))

    def _template(self, obj: Object) -> int:
        """Return the number of an object's template."""
        key = msgspec.json.encode(object_to_dict(obj))
        known = self._templates.get(key)
        if known is None:
            known = self._templates[key] = self.timeline.template(obj)
        return known


def _stripped(obj: Object, name: str) -> Any:
    """Return an object without what a server has added: UID, versions, and for a pod name, status and owner.

    Nobody has recorded the owners of pods, so they would be collected as garbage.
    """
    meta = replace(
        obj.metadata,
        name=name,
        generate_name="",
        uid="",
        resource_version="",
        creation_timestamp=None,
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
        finalizers=(),
    )
    changed: dict[str, Any] = {"metadata": meta}
    if isinstance(obj, Pod):
        changed = {"metadata": replace(meta, owner_references=()), "status": type(obj.status)()}
    return replace(obj, **changed)


def _number(time: Any) -> float | None:
    """Return a timestamp (RFC 3339), or seconds, as seconds; None for anything else."""
    try:
        return float(time) if isinstance(time, int | float) else datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return None
