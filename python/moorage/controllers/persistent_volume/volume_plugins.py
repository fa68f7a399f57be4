"""Interfaces of volume plugins, and their registry (pkg/volume/plugins.go)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from moorage.engine.framework.handle import EventRecorder
from moorage.engine.volume.claims import VolumeError
from moorage.kube import Node, PersistentVolume, PersistentVolumeClaim
from moorage.kube.model.storage import TopologySelectorTerm
from moorage.store import ObjectClient

logger = logging.getLogger("moorage.volume")


class VolumeInUseError(VolumeError):
    """A volume cannot be deleted because it is in use; this is not a failure of the volume."""


class VolumeOptions(Struct, frozen=True):
    """The volume to be provisioned.

    Attributes
    ----------
    pv_name : str
        Name of the PersistentVolume.
    pvc : PersistentVolumeClaim
        The claim for which the volume is provisioned.
    parameters : mapping of str to str
        Parameters of the storage class.
    cloud_tags : mapping of str to str
        Tags of the storage asset.
    """

    pv_name: str
    pvc: PersistentVolumeClaim
    persistent_volume_reclaim_policy: str
    mount_options: tuple[str, ...] = ()
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    cluster_name: str = ""
    cloud_tags: Mapping[str, str] = msgspec.field(default_factory=dict)


class PluginHost(Protocol):
    """The host of volume plugins: the controller."""

    def get_kube_client(self) -> ObjectClient:
        """Return the controller's client."""
        ...

    def get_event_recorder(self) -> EventRecorder:
        """Return the controller's event recorder."""
        ...


class Provisioner(Protocol):
    """Provisions one volume."""

    def provision(
        self, selected_node: Node | None, allowed_topologies: Sequence[TopologySelectorTerm]
    ) -> PersistentVolume:
        """Provision the volume.

        Parameters
        ----------
        selected_node : Node or None
            Node from which the volume must be accessible, if there is one.
        allowed_topologies : sequence of TopologySelectorTerm
            ``allowedTopologies`` of the class; empty allows every node.

        Returns
        -------
        PersistentVolume
            The volume; without a name it gets the one of `VolumeOptions`.
        """


class Deleter(Protocol):
    """Deletes one volume."""

    def delete(self) -> None:
        """Delete the storage asset; an asset that does not exist is not an error.

        Raises
        ------
        VolumeInUseError
            The volume is in use; the controller tries again.
        """


class RecycleEventRecorder(Protocol):
    """Receives the progress of a recycler."""

    def __call__(self, type: str, message: str) -> None: ...


@runtime_checkable
class VolumePlugin(Protocol):
    """A kind of storage.

    Its capabilities are the protocols that it implements: `ProvisionableVolumePlugin`,
    `DeletableVolumePlugin`, `RecyclableVolumePlugin`. The controller reports exceptions and tries again.
    """

    @property
    def name(self) -> str:
        """The provisioner's name in storage classes."""

    def init(self, host: PluginHost) -> None:
        """Prepare the plugin; called once before it is used.

        Parameters
        ----------
        host : PluginHost
            The host of the plugin.
        """

    def can_support(self, volume: PersistentVolume) -> bool:
        """Whether a volume is of this kind."""

    def supports_mount_option(self) -> bool:
        """Whether volumes may be mounted with options."""


@runtime_checkable
class ProvisionableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that provisions volumes."""

    def new_provisioner(self, options: VolumeOptions) -> Provisioner:
        """Return a provisioner of one volume."""


@runtime_checkable
class DeletableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that deletes volumes."""

    def new_deleter(self, volume: PersistentVolume) -> Deleter:
        """Return a deleter of one volume."""


@runtime_checkable
class RecyclableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that scrubs volumes for reuse."""

    def recycle(self, name: str, volume: PersistentVolume, recorder: RecycleEventRecorder) -> None:
        """Scrub a volume.

        Parameters
        ----------
        recorder : callable
            Receives type and message of events.
        """


class VolumePlugins:
    """The plugins of a controller, by name.

    Raises
    ------
    VolumeError
        Two plugins have one name, or one cannot be used; names every such failure.
    """

    def __init__(self, plugins: Iterable[VolumePlugin], host: PluginHost) -> None:
        self._plugins: dict[str, VolumePlugin] = {}
        errors = []
        for plugin in plugins:
            if plugin.name in self._plugins:
                errors.append(f'volume plugin "{plugin.name}" was registered more than once')
                continue
            try:
                plugin.init(host)
            except Exception as error:
                errors.append(str(error))
            else:
                self._plugins[plugin.name] = plugin
        if errors:
            raise VolumeError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    def provisionable(self, name: str) -> ProvisionableVolumePlugin:
        """Return the plugin of a name, which must provision volumes.

        Raises
        ------
        VolumeError
            There is no such plugin, or it cannot provision.
        """
        plugin = self._named(name)
        if isinstance(plugin, ProvisionableVolumePlugin):
            return plugin
        raise VolumeError("no provisionable volume plugin matched")

    def deletable(self, name: str) -> DeletableVolumePlugin:
        """Return the plugin of a name, which must delete volumes.

        Raises
        ------
        VolumeError
            There is no such plugin, or it cannot delete.
        """
        return _deletable(self._named(name))

    def deletable_for(self, volume: PersistentVolume) -> DeletableVolumePlugin:
        """Return the plugin that supports a volume, which must delete volumes.

        Raises
        ------
        VolumeError
            There is none or more than one such plugin, or it cannot delete.
        """
        return _deletable(self._of(volume))

    def recyclable_for(self, volume: PersistentVolume) -> RecyclableVolumePlugin:
        """Return the plugin that supports a volume, which must recycle volumes.

        Raises
        ------
        VolumeError
            There is none or more than one such plugin, or it cannot recycle.
        """
        plugin = self._of(volume)
        if isinstance(plugin, RecyclableVolumePlugin):
            return plugin
        raise VolumeError("no recyclable volume plugin matched")

    def _named(self, name: str) -> VolumePlugin:
        if name not in self._plugins:
            raise VolumeError(f"no volume plugin matched name: {name}")
        return self._plugins[name]

    def _of(self, volume: PersistentVolume) -> VolumePlugin:
        able = [plugin for plugin in self._plugins.values() if plugin.can_support(volume)]
        if not able:
            raise VolumeError("no volume plugin matched")
        if len(able) > 1:
            raise VolumeError(f"multiple volume plugins matched: {','.join(one.name for one in able)}")
        return able[0]


def _deletable(plugin: VolumePlugin) -> DeletableVolumePlugin:
    if isinstance(plugin, DeletableVolumePlugin):
        return plugin
    raise VolumeError("no deletable volume plugin matched")
