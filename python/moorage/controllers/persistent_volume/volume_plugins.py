"""Interfaces of volume plugins, their registry, and their host.

Source: pkg/volume/plugins.go; Kubernetes v1.14, controller/volume/persistentvolume/volume_host.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, runtime_checkable

from moorage.framework.plugin.handle import EventRecorder
from moorage.objects import Node, Object, PersistentVolume, PersistentVolumeClaim, Pod, Resources
from moorage.objects.model.storage import TopologySelectorTerm
from moorage.store import ObjectClient
from moorage.volume.binding.claims import VolumeError

logger = logging.getLogger("moorage.volume")


class VolumeInUseError(VolumeError):
    """A volume cannot be deleted because it is in use; this is not a failure of the volume."""


@dataclass(frozen=True, slots=True)
class VolumeOptions:
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
    parameters: Mapping[str, str] = field(default_factory=dict)
    cluster_name: str = ""
    cloud_tags: Mapping[str, str] = field(default_factory=dict)


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

    def init(self, host: VolumeHost) -> None:
        """Prepare the plugin; called once before it is used.

        Parameters
        ----------
        host : VolumeHost
            The host of the plugin.
        """

    def can_support(self, volume: PersistentVolume) -> bool:
        """Whether a volume is of this kind.

        Parameters
        ----------
        volume : PersistentVolume
            The volume.
        """

    def supports_mount_option(self) -> bool:
        """Whether volumes may be mounted with options."""


@runtime_checkable
class ProvisionableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that provisions volumes."""

    def new_provisioner(self, options: VolumeOptions) -> Provisioner:
        """Return a provisioner of one volume.

        Parameters
        ----------
        options : VolumeOptions
            The volume to provision.
        """


@runtime_checkable
class DeletableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that deletes volumes."""

    def new_deleter(self, volume: PersistentVolume) -> Deleter:
        """Return a deleter of one volume.

        Parameters
        ----------
        volume : PersistentVolume
            The volume.
        """


@runtime_checkable
class RecyclableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that scrubs volumes for reuse."""

    def recycle(self, name: str, volume: PersistentVolume, recorder: RecycleEventRecorder) -> None:
        """Scrub a volume.

        Parameters
        ----------
        name : str
            Name of the volume.
        volume : PersistentVolume
            The volume.
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

    def __init__(self, plugins: Iterable[VolumePlugin], host: VolumeHost) -> None:
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

        Parameters
        ----------
        name : str
            Name of the plugin.

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

        Parameters
        ----------
        name : str
            Name of the plugin.

        Raises
        ------
        VolumeError
            There is no such plugin, or it cannot delete.
        """
        return _deletable(self._named(name))

    def deletable_for(self, volume: PersistentVolume) -> DeletableVolumePlugin:
        """Return the plugin that supports a volume, which must delete volumes.

        Parameters
        ----------
        volume : PersistentVolume
            The volume.

        Raises
        ------
        VolumeError
            There is none or more than one such plugin, or it cannot delete.
        """
        return _deletable(self._of(volume))

    def recyclable_for(self, volume: PersistentVolume) -> RecyclableVolumePlugin:
        """Return the plugin that supports a volume, which must recycle volumes.

        Parameters
        ----------
        volume : PersistentVolume
            The volume.

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


class OSExecutor:
    """Runs commands of the operating system."""

    def run(self, command: str, *arguments: str) -> bytes:
        """Run a command.

        Parameters
        ----------
        command : str
            Name or path of the program.
        *arguments : str
            Its arguments.

        Returns
        -------
        bytes
            Standard output and standard error.

        Raises
        ------
        OSError
            The program does not exist.
        subprocess.CalledProcessError
            The command failed; its output is in ``output``.
        """
        import subprocess  # takes long to import

        return subprocess.check_output([command, *arguments], stderr=subprocess.STDOUT)


class VolumeHost:
    """The host of the plugins of a controller.

    Parameters
    ----------
    kube_client : ObjectClient
        Result of `get_kube_client`.
    event_recorder : EventRecorder
        Result of `get_event_recorder`.
    """

    def __init__(self, kube_client: ObjectClient, event_recorder: EventRecorder) -> None:
        self._kube_client = kube_client
        self._event_recorder = event_recorder

    def get_plugin_dir(self, plugin_name: str) -> str:
        """Return "": the host has no directories.

        Parameters
        ----------
        plugin_name : str
            Name of the plugin.
        """
        return ""

    get_volume_device_plugin_dir = get_plugin_dir

    def get_pods_dir(self) -> str:
        """Return "": the host has no directories."""
        return ""

    def get_pod_volume_dir(self, pod_uid: str, plugin_name: str, volume_name: str) -> str:
        """Return "": the host has no directories.

        Parameters
        ----------
        pod_uid : str
            UID of the pod.
        plugin_name : str
            Name of the plugin.
        volume_name : str
            Name of the volume.
        """
        return ""

    def get_pod_plugin_dir(self, pod_uid: str, plugin_name: str) -> str:
        """Return "": the host has no directories.

        Parameters
        ----------
        pod_uid : str
            UID of the pod.
        plugin_name : str
            Name of the plugin.
        """
        return ""

    get_pod_volume_device_dir = get_pod_plugin_dir

    def get_host_name(self) -> str:
        """Return "": the controller runs on no node."""
        return ""

    get_node_name = get_host_name

    def get_kube_client(self) -> ObjectClient:
        """Return the controller's client."""
        return self._kube_client

    def get_event_recorder(self) -> EventRecorder:
        """Return the controller's event recorder."""
        return self._event_recorder

    def get_mounter(self, plugin_name: str) -> None:
        """Return None: the controller mounts nothing.

        Parameters
        ----------
        plugin_name : str
            Name of the plugin.
        """

    def get_subpather(self) -> None:
        """Return None: the controller mounts nothing."""

    def get_exec(self, plugin_name: str) -> OSExecutor:
        """Return an executor of commands.

        Parameters
        ----------
        plugin_name : str
            Name of the plugin.
        """
        return OSExecutor()

    def get_node_allocatable(self) -> Resources:
        """Return no resources."""
        return {}

    def get_host_ip(self) -> NoReturn:
        """Raise `VolumeError`: the controller runs on no node."""
        raise VolumeError("PersistentVolumeController.GetHostIP() is not implemented")

    def get_node_labels(self) -> NoReturn:
        """Raise `VolumeError`: the controller runs on no node."""
        raise VolumeError("GetNodeLabels() unsupported in PersistentVolumeController")

    def new_wrapper_mounter(self, vol_name: str, spec: Object, pod: Pod, opts: object = None) -> NoReturn:
        """Raise `VolumeError`: the controller mounts nothing.

        Parameters
        ----------
        vol_name : str
            Name of the volume.
        spec : Object
            The volume.
        pod : Pod
            The pod.
        opts : object, optional
            Options of the mounter.

        Raises
        ------
        VolumeError
            Always.
        """
        raise VolumeError("PersistentVolumeController.NewWrapperMounter is not implemented")

    def new_wrapper_unmounter(self, vol_name: str, spec: Object, pod_uid: str) -> NoReturn:
        """Raise `VolumeError`; as upstream, the message names the mounter.

        Parameters
        ----------
        vol_name : str
            Name of the volume.
        spec : Object
            The volume.
        pod_uid : str
            UID of the pod.

        Raises
        ------
        VolumeError
            Always.
        """
        raise VolumeError("PersistentVolumeController.NewWrapperMounter is not implemented")

    def get_secret_func(self) -> Callable[[str, str], NoReturn]:
        """Return a function of namespace and name that raises `VolumeError`."""
        return _unsupported("GetSecret")

    def get_config_map_func(self) -> Callable[[str, str], NoReturn]:
        """Return a function of namespace and name that raises `VolumeError`."""
        return _unsupported("GetConfigMap")

    def get_service_account_token_func(self) -> Callable[[str, str, object], NoReturn]:
        """Return a function of namespace, name and request that raises `VolumeError`."""
        return _unsupported("GetServiceAccountToken")

    def delete_service_account_token_func(self) -> Callable[[str], None]:
        """Return a function of a pod's UID that only logs."""
        return lambda pod_uid: logger.error(
            "DeleteServiceAccountToken unsupported in PersistentVolumeController"
        )


def _unsupported(what: str) -> Callable[..., NoReturn]:
    def refuse(*arguments: Any) -> NoReturn:
        raise VolumeError(f"{what} unsupported in PersistentVolumeController")

    return refuse
