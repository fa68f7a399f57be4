"""The device class of each extended resource (KEP-5004)."""

from __future__ import annotations

from collections.abc import Collection

from moorage.kube.model.resource_claims import OF_DEVICE_CLASS, DeviceClass
from moorage.saved_fields import SavedFields
from moorage.store import DeletedFinalStateUnknown, Informer

from ..framework.handle import FrameworkHandle


class ResourceClasses(SavedFields):
    """The device class of each extended resource, as upstream keeps it while classes come, change and go
    (k8s.io/dynamic-resource-allocation, deviceclass/extendedresourcecache).

    Of several classes for one name the newer answers, then the one with the lower name. The class that loses
    is not entered at all, not even by its implicit name, and a class that leaves takes the shared name along,
    whoever has it. So the answer depends on the order of events.

    Parameters
    ----------
    informer : Informer of DeviceClass
        The order of its events counts, so the classes follow it from the start.
    """

    fields = ("by_resource",)

    def __init__(self, informer: Informer[DeviceClass]) -> None:
        self.by_resource: dict[str, DeviceClass] = {}
        informer.add_event_handler(self)

    @classmethod
    def of(cls, handle: FrameworkHandle) -> ResourceClasses:
        """Return the classes for a handle."""
        return cls(handle.informers.informer(DeviceClass))

    def on_add(self, obj: DeviceClass, is_in_initial_list: bool) -> None:
        self._enter(obj, ())

    def on_update(self, old: DeviceClass, new: DeviceClass) -> None:
        self._enter(new, _resources(old))

    def on_delete(self, obj: DeviceClass | DeletedFinalStateUnknown[DeviceClass]) -> None:
        gone = obj.obj if isinstance(obj, DeletedFinalStateUnknown) else obj
        names = _resources(gone)
        self.by_resource = {name: known for name, known in self.by_resource.items() if name not in names}

    def _enter(self, new: DeviceClass, former: Collection[str]) -> None:
        rival = self.by_resource.get(new.spec.extended_resource_name or "")
        if rival is not None and (
            _created(new) < _created(rival) or (_created(new) == _created(rival) and new.name >= rival.name)
        ):
            return
        kept = {name: known for name, known in self.by_resource.items() if name not in former}
        self.by_resource = kept | dict.fromkeys(_resources(new), new)


def _resources(device_class: DeviceClass) -> list[str]:
    """The extended resources that a class may serve."""
    name = device_class.spec.extended_resource_name
    return [*([name] if name else ()), f"{OF_DEVICE_CLASS}{device_class.name}"]


def _created(device_class: DeviceClass) -> str:
    return device_class.metadata.creation_timestamp or ""
