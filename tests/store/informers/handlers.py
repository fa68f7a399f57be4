"""Handlers for tests."""

from __future__ import annotations

from typing import Any

from moorage.kube import Object
from moorage.store import DeletedFinalStateUnknown


class Recorder:
    """Writes down what it is told, in short."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        self.calls.append(("add", obj.name, is_in_initial_list))

    def on_update(self, old: Object, new: Object) -> None:
        self.calls.append(("update", old.metadata.resource_version, new.metadata.resource_version))

    def on_delete(self, obj: Object | DeletedFinalStateUnknown[Any]) -> None:
        if isinstance(obj, DeletedFinalStateUnknown):
            self.calls.append(("gone", obj.key, obj.obj.metadata.resource_version))
        else:
            self.calls.append(("delete", obj.name, obj.metadata.resource_version))

    def take(self) -> list[Any]:
        calls, self.calls = self.calls, []
        return calls


class Replica:
    """Keeps its own copy, and insists that what it is told fits what it has."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        assert obj.key not in self.objects
        self.objects[obj.key] = obj

    def on_update(self, old: Object, new: Object) -> None:
        assert self.objects[old.key] == old
        self.objects[new.key] = new

    def on_delete(self, obj: Object | DeletedFinalStateUnknown[Any]) -> None:
        if isinstance(obj, DeletedFinalStateUnknown):
            assert self.objects.pop(obj.key) == obj.obj
        else:
            del self.objects[obj.key]
