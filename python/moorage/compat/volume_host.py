"""VolumeHost: what volume plugins of Kubernetes v1.14 ask their host, the controller.

Source: Kubernetes v1.14, controller/volume/persistentvolume/volume_host.go.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from typing import Any, NoReturn

from moorage.controllers.persistent_volume import PersistentVolumeController
from moorage.engine.volume import VolumeError
from moorage.kube import Object, Pod, Resources

logger = logging.getLogger("moorage.volume")


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
        return subprocess.check_output([command, *arguments], stderr=subprocess.STDOUT)


class VolumeHost(PersistentVolumeController):
    """A controller that answers its plugins whatever the VolumeHost of v1.14 does."""

    def get_plugin_dir(self, plugin_name: str) -> str:
        """Return "": the host has no directories."""
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
        """
        return ""

    def get_pod_plugin_dir(self, pod_uid: str, plugin_name: str) -> str:
        """Return "": the host has no directories.

        Parameters
        ----------
        pod_uid : str
            UID of the pod.
        """
        return ""

    get_pod_volume_device_dir = get_pod_plugin_dir

    def get_host_name(self) -> str:
        """Return "": the controller runs on no node."""
        return ""

    get_node_name = get_host_name

    def get_mounter(self, plugin_name: str) -> None:
        """Return None: the controller mounts nothing."""

    def get_subpather(self) -> None:
        """Return None: the controller mounts nothing."""

    def get_exec(self, plugin_name: str) -> OSExecutor:
        """Return an executor of commands."""
        return OSExecutor()

    def get_node_allocatable(self) -> Resources:
        """Return no resources."""
        return {}

    def get_host_ip(self) -> NoReturn:
        """Fail: the controller runs on no node.

        Raises
        ------
        VolumeError
            Always.
        """
        raise VolumeError("PersistentVolumeController.GetHostIP() is not implemented")

    def get_node_labels(self) -> NoReturn:
        """Fail: the controller runs on no node.

        Raises
        ------
        VolumeError
            Always.
        """
        raise VolumeError("GetNodeLabels() unsupported in PersistentVolumeController")

    def new_wrapper_mounter(self, vol_name: str, spec: Object, pod: Pod, opts: object = None) -> NoReturn:
        """Raise `VolumeError`: the controller mounts nothing.

        Parameters
        ----------
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
