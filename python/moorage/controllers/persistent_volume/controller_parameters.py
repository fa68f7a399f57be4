"""What a persistent volume controller is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moorage.framework.plugin.handle import EventRecorder
from moorage.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.store import Informer, ObjectClient

from .volume_plugins import VolumePlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParameters:
    """The parameters of a `PersistentVolumeController`.

    Attributes
    ----------
    kube_client : ObjectClient
        The API to which claims and volumes are written.
    sync_period : float
        Seconds between two resyncs of all claims and volumes; 0 disables resyncs.
    volume_plugins : sequence of VolumePlugin
        Plugins that provision, delete and recycle volumes.
    cluster_name : str
        Passed to plugins that provision volumes.
    volume_informer, claim_informer, class_informer, pod_informer, node_informer : Informer
        Informers of the objects that the controller reads; the caller runs them.
    event_recorder : EventRecorder or None
        Receives the controller's events; None creates a recorder.
    enable_dynamic_provisioning : bool
        Whether volumes are provisioned for claims without a matching volume.
    """

    kube_client: ObjectClient
    volume_informer: Informer[PersistentVolume]
    claim_informer: Informer[PersistentVolumeClaim]
    class_informer: Informer[StorageClass]
    pod_informer: Informer[Pod]
    node_informer: Informer[Node]
    sync_period: float = 15.0
    volume_plugins: Sequence[VolumePlugin] = ()
    cluster_name: str = ""
    event_recorder: EventRecorder | None = None
    enable_dynamic_provisioning: bool = False
