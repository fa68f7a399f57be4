"""The host of volume plugins: the controller mounts nothing, so most answers are empty or errors (kubernetes
v1.14, controller/volume/persistentvolume/volume_host.go)."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from typing import Any, NoReturn

from moorage.framework.plugin.handle import EventRecorder
from moorage.objects.model.meta import Object, Resources
from moorage.objects.model.pod import Pod
from moorage.store.protocol import ObjectClient
from moorage.volume.binding.claims import VolumeError

logger = logging.getLogger("moorage.volume")


class OSExecutor:
    """Runs commands of the operating system."""

    def run(self, command: str, *arguments: str) -> bytes:
        """Run a command; returns what it wrote to its output and error output.

        Raises
        ------
        OSError
            There is no such command.
        subprocess.CalledProcessError
            It failed; what it wrote is in ``output``.
        """
        ran = subprocess.run(
            [command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
        )
        return ran.stdout


class VolumeHost:
    """The host of the plugins of a controller.

    Parameters
    ----------
    kube_client : ObjectClient
        Answered by `get_kube_client`.
    event_recorder : EventRecorder
        Answered by `get_event_recorder`.
    """

    def __init__(self, kube_client: ObjectClient, event_recorder: EventRecorder) -> None:
        self._kube_client = kube_client
        self._event_recorder = event_recorder

    def get_plugin_dir(self, plugin_name: str) -> str:
        """Empty: there is no directory."""
        return ""

    def get_volume_device_plugin_dir(self, plugin_name: str) -> str:
        """Empty: there is no directory."""
        return ""

    def get_pods_dir(self) -> str:
        """Empty: there is no directory."""
        return ""

    def get_pod_volume_dir(self, pod_uid: str, plugin_name: str, volume_name: str) -> str:
        """Empty: there is no directory."""
        return ""

    def get_pod_plugin_dir(self, pod_uid: str, plugin_name: str) -> str:
        """Empty: there is no directory."""
        return ""

    def get_pod_volume_device_dir(self, pod_uid: str, plugin_name: str) -> str:
        """Empty: there is no directory."""
        return ""

    def get_host_name(self) -> str:
        """Empty: the controller is on no node."""
        return ""

    def get_node_name(self) -> str:
        """Empty: the controller is on no node."""
        return ""

    def get_kube_client(self) -> ObjectClient:
        """The controller's client."""
        return self._kube_client

    def get_event_recorder(self) -> EventRecorder:
        """The controller's recorder."""
        return self._event_recorder

    def get_mounter(self, plugin_name: str) -> None:
        """None: the controller mounts nothing."""

    def get_subpather(self) -> None:
        """None: the controller mounts nothing."""

    def get_exec(self, plugin_name: str) -> OSExecutor:
        """An executor of commands."""
        return OSExecutor()

    def get_node_allocatable(self) -> Resources:
        """No resources."""
        return {}

    def get_host_ip(self) -> NoReturn:
        """Raises `VolumeError`."""
        raise VolumeError("PersistentVolumeController.GetHostIP() is not implemented")

    def get_node_labels(self) -> NoReturn:
        """Raises `VolumeError`."""
        raise VolumeError("GetNodeLabels() unsupported in PersistentVolumeController")

    def new_wrapper_mounter(self, vol_name: str, spec: Object, pod: Pod, opts: object = None) -> NoReturn:
        """Raises `VolumeError`."""
        raise VolumeError("PersistentVolumeController.NewWrapperMounter is not implemented")

    def new_wrapper_unmounter(self, vol_name: str, spec: Object, pod_uid: str) -> NoReturn:
        """Raises `VolumeError`; upstream's text names the mounter here as well."""
        raise VolumeError("PersistentVolumeController.NewWrapperMounter is not implemented")

    def get_secret_func(self) -> Callable[[str, str], NoReturn]:
        """A function of namespace and name that raises `VolumeError`."""
        return _unsupported("GetSecret")

    def get_config_map_func(self) -> Callable[[str, str], NoReturn]:
        """A function of namespace and name that raises `VolumeError`."""
        return _unsupported("GetConfigMap")

    def get_service_account_token_func(self) -> Callable[[str, str, object], NoReturn]:
        """A function of namespace, name and request that raises `VolumeError`."""
        return _unsupported("GetServiceAccountToken")

    def delete_service_account_token_func(self) -> Callable[[str], None]:
        """A function of a pod's UID that does nothing but log."""
        return lambda pod_uid: logger.error(
            "DeleteServiceAccountToken unsupported in PersistentVolumeController"
        )


def _unsupported(what: str) -> Callable[..., NoReturn]:
    def refuse(*arguments: Any) -> NoReturn:
        raise VolumeError(f"{what} unsupported in PersistentVolumeController")

    return refuse
