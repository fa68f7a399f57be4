"""Events that say why pods could not be created, as conditions of their workloads.

Of the workloads that Kubernetes has, ReplicaSets and ReplicationControllers alone have such a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError
from moorage.kube.model.meta import Condition, Object, with_condition
from moorage.kube.read.decode import decode
from moorage.kube.read.object_defaults import default_namespace

from ..made_of import MAKERS
from .seen_failures import FAILED_CREATE, REPLICA_FAILURE, failed_create

KINDS = frozenset({"Event", "Event.events.k8s.io"})


class _Regarding(msgspec.Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    involved_object: _Regarding = _Regarding()
    regarding: _Regarding = _Regarding()
    reason: str = ""
    message: str = ""
    note: str = ""
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None


class FailedCreates:
    """Collects these events."""

    def __init__(self) -> None:
        self._conditions: dict[_Regarding, tuple[str, Condition]] = {}

    def take(self, document: Any) -> None:
        """Take an event, if it says why a pod was not created; of several about one workload the last counts.

        Parameters
        ----------
        document : dict or bytes
            The event as a JSON value, or its JSON text.
        """
        try:
            event = decode(document, _Event)
        except InputError:  # of another shape; nothing else reads it
            return
        if event.reason != FAILED_CREATE:
            return
        about = event.involved_object if event.involved_object.name else event.regarding
        first = event.first_timestamp or event.event_time or event.last_timestamp
        last, message = event.last_timestamp or first or "", event.message or event.note
        message = message.removeprefix("Error creating: ")
        condition = Condition(
            type=REPLICA_FAILURE,
            status="True",
            reason=FAILED_CREATE,
            message=message,
            last_transition_time=first,
        )
        earlier = self._conditions.get(about, ("", condition))
        self._conditions[about] = max(earlier, (last, condition), key=itemgetter(0))

    def put(self, objects: Sequence[Object]) -> Iterable[tuple[int, Object]]:
        """Yield the workloads that get a condition, with their indexes: those that have none."""
        for at, obj in enumerate(objects if self._conditions else ()):
            if isinstance(obj, MAKERS) and failed_create(obj) is None:
                found = self._conditions.get(_Regarding(obj.kind, default_namespace(obj), obj.name))
                if found is not None:
                    status: Any = obj.status  # type: ignore[attr-defined]
                    status = replace(status, conditions=with_condition(status.conditions, found[1]))
                    yield at, replace(obj, status=status)
