"""The controllers of claims in a store of a scheduler's own: of volumes and of devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.engine.volume.claims import NO_PROVISIONER
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.resource_claims import ResourceClaim, ResourceClaimTemplate
from moorage.kube.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.saved_fields import SavedFields
from moorage.store import InformerFactory, ObjectStore

from .persistent_volume import PersistentVolumeController
from .resource_claim_controller import ResourceClaimController
from .volume_operations import ControllerParameters
from .volume_plugins import DriverTopology, InMemoryProvisioner, StorageCapacities


class SimulatedClaims(SavedFields):
    """Binds, provisions and releases what the claims in a store ask for.

    Parameters
    ----------
    sync : callable
        Has the scheduler process the new events of the store, and returns whether there were any.
    now : callable
        Returns seconds, those of the controller of volumes.
    sync_period : float
        Seconds between two resyncs of that controller.
    makes_for_groups : bool
        Whether claims are made for pod groups.
    """

    fields, maps = ("_provisioners", "_controller"), ("_plugins",)

    def __init__(
        self,
        client: ObjectStore,
        informers: InformerFactory,
        sync: Callable[..., bool],
        *,
        now: Callable[[], float],
        sync_period: float,
        makes_for_groups: bool,
    ) -> None:
        self._client, self._informers, self._sync, self._now = client, informers, sync, now
        self._sync_period = sync_period
        self._resource_claims = ResourceClaimController(client, makes_for_groups)
        self._provisioners: tuple[str, ...] = ()
        self._controller: PersistentVolumeController | None = None
        self._plugins: dict[str, InMemoryProvisioner] = {}

    def _made(self, name: str, like: Any) -> SavedFields:
        """Make the controller of a fork, whose plugins have been made, or one of these."""
        is_plugin = name == "_plugins"
        return self._new_plugin(like.name) if is_plugin else self._make_controller(self._provisioners)

    def work(self) -> None:
        """Run the controllers, and process their events."""
        client = self._client
        if client.has((ResourceClaim, ResourceClaimTemplate)) and self._resource_claims.settle():
            self._sync()
        if client.has((PersistentVolumeClaim,)) or any(
            volume.spec.claim_ref for volume in client.list(PersistentVolume)[0]
        ):
            # classes may name other provisioners than before
            classes: list[StorageClass] = self._client.list(StorageClass)[0]
            names = tuple(
                sorted({storage_class.provisioner for storage_class in classes} - {"", NO_PROVISIONER})
            )
            if self._controller is None or names != self._provisioners:
                controller = self._make_controller(names)
            else:
                controller = self._controller
            before = client.changes
            while self._sync(with_controllers=False) + controller.run_once():
                pass
            if client.changes != before:
                self._sync()

    def _new_plugin(self, name: str) -> InMemoryProvisioner:
        published, topology = StorageCapacities(self._client), DriverTopology(self._client, name)
        return InMemoryProvisioner(name, published=published, topology=topology)

    def _make_controller(self, provisioners: tuple[str, ...]) -> PersistentVolumeController:
        """Make the controller for storage classes with these provisioners."""
        informer = self._informers.informer
        if self._controller is not None:
            self._controller.stop()
        for name in provisioners:
            self._plugins.setdefault(name, self._new_plugin(name))
        parameters = ControllerParameters(
            kube_client=self._client,
            volume_informer=informer(PersistentVolume),
            claim_informer=informer(PersistentVolumeClaim),
            class_informer=informer(StorageClass),
            pod_informer=informer(Pod),
            node_informer=informer(Node),
            volume_plugins=[self._plugins[name] for name in provisioners],
            sync_period=self._sync_period,
            enable_dynamic_provisioning=True,
        )
        self._provisioners = provisioners
        self._controller = PersistentVolumeController(parameters, clock=self._now)
        return self._controller
