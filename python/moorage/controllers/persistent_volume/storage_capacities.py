"""Storage capacities that CSI drivers publish, as the volumes that are provisioned use them up."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.engine.volume.claims import VolumeError
from moorage.engine.volume.volume_binder import has_access, is_sufficient
from moorage.kube import Node
from moorage.kube.model.storage import CSIStorageCapacity
from moorage.store import NotFoundError, ObjectClient


class StorageCapacities:
    """Changes the CSIStorageCapacity of a class and a topology segment with the volumes in it.

    external-provisioner asks the driver for the capacity again after a volume was made or deleted; here the
    size of the volume is what changes. Other classes, which may share a pool of the driver, keep theirs.
    """

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    def take(self, storage_class: str, node: Node, size: int) -> str:
        """Take the room of a new volume.

        Parameters
        ----------
        node : Node
            From which the volume is accessible.
        size : int
            Bytes.

        Returns
        -------
        str
            The ``namespace/name`` of the capacity; "" if none is published for the class and the node.

        Raises
        ------
        VolumeError
            No capacity suffices.
        """
        listed: list[CSIStorageCapacity] = self._client.list(CSIStorageCapacity)[0]
        near = [one for one in listed if one.storage_class_name == storage_class and has_access(node, one)]
        fitting = [one for one in near if is_sufficient(one, size)]
        if near and not fitting:
            raise VolumeError(f'not enough capacity of class "{storage_class}" for node "{node.name}"')
        for one in fitting[:1]:
            self._change(one, -size)
            return one.key
        return ""

    def give_back(self, key: str, size: int) -> None:
        """Give the room of a volume back that is gone.

        Parameters
        ----------
        key : str
            The result of `take`.
        size : int
            Bytes.
        """
        namespace, _, name = key.partition("/")
        with suppress(NotFoundError):
            self._change(self._client.get(CSIStorageCapacity, name, namespace), size)

    def _change(self, one: CSIStorageCapacity, by: int) -> None:
        """Change what is left; no volume may be larger than that."""
        if one.capacity is None:
            return
        left = Quantity(one.capacity) + Quantity(by)
        left = left if left.sign() > 0 else Quantity("0")
        largest = one.maximum_volume_size
        if largest is not None and Quantity(largest) > left:
            largest = str(left)
        meta = replace(one.metadata, resource_version="")
        self._client.update(replace(one, metadata=meta, capacity=str(left), maximum_volume_size=largest))
