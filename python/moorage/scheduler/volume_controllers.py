"""Volumes in a store that a scheduler alone writes: nobody else binds claims and makes volumes there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from moorage.controllers.persistent_volume import ControllerParameters, PersistentVolumeController
from moorage.controllers.persistent_volume.in_memory_plugin import InMemoryProvisioner
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.store import InformerFactory, ObjectClient
from moorage.volume.constants import NO_PROVISIONER

SYNC_PERIOD = 15.0  # seconds

Wait = Callable[[float], object]
"""Lets so many seconds pass while the volumes of a pod are being bound."""


class SimulatedController:
    """The persistent volume controller of such a store: at work whenever the scheduler lets it, it binds
    claims, and makes volumes for every class that has a provisioner, as many and as large as are asked for.

    Parameters
    ----------
    client : ObjectClient
        The store.
    sync : callable
        Has the scheduler receive the changes of the store.
    """

    def __init__(self, client: ObjectClient, sync: Callable[[], object]) -> None:
        self._client = client
        self._sync = sync
        self._provisioners: tuple[str, ...] = ()
        self._controller: PersistentVolumeController | None = None
        self._now = 0.0  # seconds
        self._plugins: dict[str, InMemoryProvisioner] = {}

    is_instant, can_wait = True, True

    def save(self) -> object:
        """What has been provisioned, and what the controller knows and has to do, for `undo`."""
        volumes = [(plugin, plugin.volumes.copy()) for plugin in self._plugins.values()]
        controller = self._controller
        return self._now, volumes, self._provisioners, controller, controller and controller.save()

    def undo(self, saved: Any) -> None:
        """Be as at `save`, in a store that is back in its state of then."""
        self._now, volumes, self._provisioners, self._controller, known = saved
        for plugin, assets in volumes:
            plugin.volumes = assets.copy()
        self._plugins = {plugin.name: plugin for plugin, _ in volumes}
        if self._controller is not None:
            self._controller.undo(known)

    def now(self) -> float:
        """Seconds that have passed."""
        return self._now

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass; they take no time."""
        self.reach(self._now + seconds)

    def reach(self, when: float) -> None:
        """It is so late now, at least."""
        self._now = max(self._now, when)
        self._work()

    def settle(self) -> None:
        """Bind what can be bound. Costs nothing where there are no claims.

        Only when it looks at everything again does a controller see that a volume has come for a claim.
        """
        self.wait(SYNC_PERIOD)

    def _work(self) -> None:
        if not self._client.list(PersistentVolumeClaim)[0]:
            return
        self._at_work().settle()
        self._sync()

    def _at_work(self) -> PersistentVolumeController:
        """The controller, a new one where classes have come with other provisioners."""
        classes: list[StorageClass] = self._client.list(StorageClass)[0]
        names = tuple(sorted({one.provisioner for one in classes} - {"", NO_PROVISIONER}))
        if self._controller is None or names != self._provisioners:
            informer = InformerFactory(self._client).informer
            for name in names:
                self._plugins.setdefault(name, InMemoryProvisioner(name))
            parameters = ControllerParameters(
                kube_client=self._client,
                volume_informer=informer(PersistentVolume),
                claim_informer=informer(PersistentVolumeClaim),
                class_informer=informer(StorageClass),
                pod_informer=informer(Pod),
                node_informer=informer(Node),
                volume_plugins=[self._plugins[name] for name in names],
                sync_period=SYNC_PERIOD,
                enable_dynamic_provisioning=True,
            )
            self._provisioners = names
            self._controller = PersistentVolumeController(parameters, clock=lambda: self._now)
        return self._controller


class ExternalController:
    """Volumes that others bind and make, while time passes. Changes are received after each wait.

    Parameters
    ----------
    sync : callable
        Has the scheduler receive the changes of the store.
    wait : callable, optional
        Lets so many seconds pass. Without it, time passes where `clock` is; the scheduler cannot wait.
    clock : callable, optional
        Seconds; without it, only waiting lets time pass.

    Attributes
    ----------
    is_instant : bool
        Whether waiting takes no time, so that there is nothing to do meanwhile.
    can_wait : bool
        Whether the scheduler may let time pass.
    """

    is_instant = False

    def __init__(
        self, sync: Callable[[], object], wait: Wait | None, clock: Callable[[], float] | None = None
    ) -> None:
        self._sync = sync
        self._wait = wait
        self._clock = clock
        self._reached = 0.0 if clock is None else clock()
        self.can_wait = wait is not None

    def save(self) -> float:
        """What time it is, for `undo`."""
        return self._reached

    def undo(self, saved: float) -> None:
        """Be as at `save`."""
        self._reached = saved

    def now(self) -> float:
        """Seconds, no fewer than were waited for."""
        return self._reached if self._clock is None else max(self._reached, self._clock())

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass."""
        when = self.now() + seconds
        if self._wait is not None:
            self._wait(seconds)
        self.reach(when)

    def reach(self, when: float) -> None:
        """It is so late now, at least: receive what has changed."""
        self._reached = max(self._reached, when)
        self._sync()

    def settle(self) -> None:
        """Leave it to them."""


def volume_controller(
    cluster: object,
    client: ObjectClient,
    sync: Callable[[], object],
    wait: Wait | None,
    clock: Callable[[], float] | None = None,
) -> SimulatedController | ExternalController:
    """Who sees to the volumes in the store of a scheduler that was given `cluster`, `wait` and `clock`."""
    if wait is None and isinstance(cluster, Cluster):
        return SimulatedController(client, sync)
    if wait is None and clock is None:
        return ExternalController(sync, time.sleep, time.monotonic)
    return ExternalController(sync, wait, clock)
