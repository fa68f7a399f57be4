"""Operations on storage assets: provisions volumes for claims, deletes and recycles released volumes.

Source: pv_controller.go, provisionClaim and reclaimVolume.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from moorage.engine.framework.handle import EventRecorder
from moorage.engine.volume import VolumeError, get_bind_volume_to_claim
from moorage.engine.volume.claims import (
    BETA_STORAGE_PROVISIONER,
    BOUND_BY_CONTROLLER,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
    CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG,
    MIGRATED_TO,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    YES,
    claim_class,
    prefixing,
    with_annotations,
)
from moorage.kube import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import (
    AlreadyExistsError,
    ApiError,
    Informer,
    Lister,
    NotFoundError,
    ObjectClient,
    find_object,
)

from .controller_metrics import OperationTimes
from .object_writer import ObjectWriter, claim_key
from .operations import Operations, logger
from .volume_plugins import (
    DeletableVolumePlugin,
    ProvisionableVolumePlugin,
    VolumeInUseError,
    VolumeOptions,
    VolumePlugin,
    VolumePlugins,
)

CREATE_ATTEMPTS = 5
CREATE_INTERVAL = 10.0  # seconds
PODS_BY_CLAIM = "pod-pvc-index"
"""The index that a controller adds to its informer of pods."""
IN_TREE = "kubernetes.io/"
"""Prefix of the names of in-tree plugins, which the controller itself runs."""


class ControllerParameters(Struct, frozen=True, kw_only=True):
    """The parameters of a `PersistentVolumeController`.

    Attributes
    ----------
    kube_client : ObjectClient
        Client to which claims and volumes are written.
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


class VolumeOperations:
    """Provisions, deletes and recycles volumes through volume plugins.

    Parameters
    ----------
    parameters : ControllerParameters
        Parameters of the controller.
    writer : ObjectWriter
        Writes claims and volumes.
    plugins : VolumePlugins
        The volume plugins.
    migrated_plugins : mapping of str to str
        By name of an in-tree plugin that a CSI driver replaces, the name of the driver.
    clock : callable
        Returns the time in seconds.

    Attributes
    ----------
    operations : Operations
        The operations in progress and in backoff.
    times : OperationTimes
        Start times of operations, for metrics.
    """

    def __init__(
        self,
        parameters: ControllerParameters,
        writer: ObjectWriter,
        plugins: VolumePlugins,
        migrated_plugins: Mapping[str, str],
        clock: Callable[[], float],
    ) -> None:
        self._parameters = parameters
        self._client = parameters.kube_client
        self._writer = writer
        self._plugins = plugins
        self._migrated_plugins = migrated_plugins
        self.operations = Operations(clock)
        self.times = OperationTimes(clock)

    # ---- provisioning ----

    def provision_claim(self, claim: PersistentVolumeClaim) -> None:
        """Start to provision a volume for a claim, or request it from an external provisioner.

        Nothing happens if provisioning is in progress. Errors are recorded as events, and the next sync tries
        again.

        Parameters
        ----------
        claim : PersistentVolumeClaim
            A claim with a storage class and without a matching volume.
        """
        if not self._parameters.enable_dynamic_provisioning:
            return
        try:
            storage_class = self._parameters.class_informer.lister.get(claim_class(claim))
            plugin = self._provisioning_plugin(storage_class.provisioner)
        except (NotFoundError, VolumeError) as error:
            self._writer.warning(claim, "ProvisioningFailed", str(error))
            return

        def work() -> Iterator[float]:
            provisioner = storage_class.provisioner
            driver = self._migrated_plugins.get(provisioner, provisioner)
            self.times.begin(claim.key, driver, "provision")
            with self.times.counting_failures(claim.key):
                if plugin is None:
                    self._request_volume(claim, provisioner, driver)
                else:
                    yield from self._provision(claim, plugin, storage_class)

        self.operations.run(f"provision-{claim.key}[{claim.metadata.uid}]", work)

    def _provisioning_plugin(self, provisioner: str) -> ProvisionableVolumePlugin | None:
        """The plugin that provisions volumes of a class; None for an external provisioner."""
        if provisioner in self._migrated_plugins:
            return None
        try:
            return self._plugins.provisionable(provisioner)
        except VolumeError:
            if provisioner.startswith(IN_TREE):
                raise
            return None

    def _request_volume(self, claim: PersistentVolumeClaim, provisioner: str, driver: str) -> None:
        """Annotate a claim with its external provisioner."""
        marks = {MIGRATED_TO: driver} if driver != provisioner else {}
        claim = self._with_provisioner(claim, driver, marks)
        message = (
            "waiting for a volume to be created, either by external provisioner "
            f'"{driver}" or manually created by system administrator'
        )
        self._writer.event(claim, "ExternalProvisioning", message)

    def _with_provisioner(
        self, claim: PersistentVolumeClaim, name: str, marks: dict[str, str]
    ) -> PersistentVolumeClaim:
        marks = {BETA_STORAGE_PROVISIONER: name, STORAGE_PROVISIONER: name, **marks}
        return self._writer.update(claim, with_annotations(claim, marks))

    def _provision(
        self, claim: PersistentVolumeClaim, plugin: ProvisionableVolumePlugin, storage_class: StorageClass
    ) -> Iterator[float]:
        """Provision the volume of a claim; the next sync binds it."""
        claim = self._with_provisioner(claim, plugin.name, {})
        name = f"pvc-{claim.metadata.uid}"
        if find_object(self._client, PersistentVolume, name) is not None:
            return  # an earlier operation created the volume
        volume = self._provision_asset(claim, plugin, storage_class, name)
        volume, _ = get_bind_volume_to_claim(volume, claim)
        spec = replace(volume.spec, storage_class_name=claim_class(claim))
        volume = replace(volume, spec=spec, status=replace(volume.status, phase="Bound"))
        volume = with_annotations(volume, {BOUND_BY_CONTROLLER: YES, PROVISIONED_BY: plugin.name})
        error = yield from _attempts(lambda: self._create(volume))
        if error is None:
            message = f"Successfully provisioned volume {volume.name} using {plugin.name}"
            self._writer.event(claim, "ProvisioningSucceeded", message)
            return
        about = f"provisioned PV object for claim {claim.key}: {error}. Deleting the volume."
        self._writer.warning(claim, "ProvisioningFailed", f"Error creating {about}")
        error = yield from _attempts(lambda: self._delete_asset(volume))
        if error is not None:
            about = f"provisioned volume for claim {claim.key}: {error}. Please delete manually."
            self._writer.warning(claim, "ProvisioningCleanupFailed", f"Error cleaning {about}")

    def _provision_asset(
        self,
        claim: PersistentVolumeClaim,
        plugin: ProvisionableVolumePlugin,
        storage_class: StorageClass,
        name: str,
    ) -> PersistentVolume:
        """Provision a volume by a plugin; errors are recorded as events.

        If provisioning itself fails, the claim loses its selected node, so that the scheduler chooses again.
        """
        options = self._options(claim, storage_class, name)
        if options.mount_options and not plugin.supports_mount_option():
            raise self._failure(
                claim,
                f'Mount options are not supported by the provisioner but StorageClass "{storage_class.name}" '
                f"has mount options [{' '.join(options.mount_options)}]",
            )
        try:
            provisioner = plugin.new_provisioner(options)
        except Exception as error:
            raise self._failure(claim, f"Failed to create provisioner: {error}") from error
        node, selected = None, claim.metadata.annotations.get(SELECTED_NODE)
        if selected is not None:
            try:
                node = self._parameters.node_informer.lister.get(selected)
            except NotFoundError as error:
                raise self._failure(claim, f"Failed to get target node: {error}") from error
        try:
            volume = provisioner.provision(node, storage_class.allowed_topologies)
        except Exception as error:
            self._reschedule(claim)
            text = f'Failed to provision volume with StorageClass "{storage_class.name}": {error}'
            raise self._failure(claim, text) from error
        return replace(volume, metadata=replace(volume.metadata, name=volume.metadata.name or name))

    def _options(self, claim: PersistentVolumeClaim, storage_class: StorageClass, name: str) -> VolumeOptions:
        return VolumeOptions(
            pv_name=name,
            pvc=claim,
            persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
            mount_options=storage_class.mount_options,
            parameters=storage_class.parameters,
            cluster_name=self._parameters.cluster_name,
            cloud_tags={
                CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG: claim.namespace,
                CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG: claim.name,
                CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG: name,
            },
        )

    def _failure(self, claim: PersistentVolumeClaim, text: str) -> VolumeError:
        """Record a failure of provisioning; returns the error."""
        self._writer.warning(claim, "ProvisioningFailed", text)
        return VolumeError(text)

    def _reschedule(self, claim: PersistentVolumeClaim) -> None:
        meta = claim.metadata
        annotations = {key: value for key, value in meta.annotations.items() if key != SELECTED_NODE}
        try:
            self._writer.update(claim, replace(claim, metadata=replace(meta, annotations=annotations)))
        except ApiError as error:  # the caller raises the failure of the plugin
            logger.info("Failed to delete annotation %r for claim %s: %s", SELECTED_NODE, claim.key, error)

    def _create(self, volume: PersistentVolume) -> None:
        with suppress(AlreadyExistsError):  # created by an attempt whose response was lost
            self._writer.volumes.add(self._client.create(volume))

    # ---- reclaiming ----

    def reclaim_volume(self, volume: PersistentVolume) -> None:
        """Apply the reclaim policy of a released volume; deleting and recycling run as operations.

        Parameters
        ----------
        volume : PersistentVolume
            The released volume.

        Raises
        ------
        ApiError
            The policy is unknown and this could not be written.
        """
        if MIGRATED_TO in volume.metadata.annotations:
            return  # the CSI driver's provisioner deletes the volume
        policy, name = volume.spec.persistent_volume_reclaim_policy, f"{volume.name}[{volume.metadata.uid}]"
        if policy == "Recycle":
            self.operations.run(f"recycle-{name}", lambda: self._recycle(volume))
        elif policy == "Delete":
            self.times.begin(volume.name, self._deleter_name(volume), "delete")
            self.operations.run(f"delete-{name}", lambda: self._delete(volume))
        elif policy != "Retain":
            message = "Volume has unrecognized PersistentVolumeReclaimPolicy"
            self._writer.fail_volume(volume, "VolumeUnknownReclaimPolicy", message)

    def _delete(self, volume: PersistentVolume) -> Iterator[float]:
        """Delete a volume after its storage asset; a failure is retried by each sync."""
        current = self._released_state(volume)
        if current is None or current.metadata.deletion_timestamp is not None:
            return
        try:
            with self.times.counting_failures(volume.name):
                deleted = self._delete_asset(current)
        except VolumeInUseError as error:
            self._writer.event(current, "VolumeDelete", str(error))
            raise
        except Exception as error:
            self._writer.fail_volume(current, "VolumeFailedDelete", str(error))
            raise
        if deleted:
            try:
                self._client.delete(PersistentVolume, volume.name)
            except ApiError as error:  # the next sync tries again
                logger.info("failed to delete volume %r from database: %s", volume.name, error)
        yield from ()

    def _delete_asset(self, volume: PersistentVolume) -> bool:
        """Delete a storage asset by its plugin; False if an external provisioner is responsible.

        Raises VolumeError without a suitable plugin, and the exceptions of the plugin.

        Raises
        ------
        VolumeError
            There is no such plugin, or it cannot do it; else an exception of the plugin.
        """
        plugin = self._deleting_plugin(volume)
        if plugin is None:
            return False
        with prefixing(f'Failed to create deleter for volume "{volume.name}"', Exception):
            deleter = plugin.new_deleter(volume)
        deleter.delete()
        return True

    def _deleting_plugin(self, volume: PersistentVolume) -> DeletableVolumePlugin | None:
        """The plugin that provisioned a volume, else one that supports it; None for an external one."""
        provisioner = volume.metadata.annotations.get(PROVISIONED_BY)
        if provisioner:
            try:
                return self._plugins.deletable(provisioner)
            except VolumeError:
                if provisioner.startswith(IN_TREE):
                    raise
                return None
        with prefixing(f'Error getting deleter volume plugin for volume "{volume.name}"'):
            return self._plugins.deletable_for(volume)

    def _deleter_name(self, volume: PersistentVolume) -> str:
        """The plugin that deletes a volume, as a label of metrics."""
        try:
            plugin = self._deleting_plugin(volume)
        except VolumeError:
            return ""
        return volume.metadata.annotations.get(PROVISIONED_BY, "") if plugin is None else plugin.name

    def _recycle(self, volume: PersistentVolume) -> Iterator[float]:
        """Scrub a volume and make it available.

        A failure is set on the volume, not on the operation, so that the next sync retries without backoff.
        """
        current = self._released_state(volume)
        if current is None or current.spec.claim_ref is None:
            return
        key = claim_key(current.spec.claim_ref)
        users = [pod.key for pod in pods_that_use(self._parameters.pod_informer.lister, key)]
        # A claim of that name that exists now is a different one and cannot use this volume.
        if users and self._writer.claims.find(key) is None:
            message = f"Volume is used by pods: {','.join(users)}"
            self._writer.event(current, "VolumeFailedRecycle", message)
            return

        def report(type: str, message: str) -> None:
            self._writer.event(current, "RecyclerPod", f"Recycler pod: {message}", type)

        failure = ""
        try:
            plugin = self._plugins.recyclable_for(current)
        except VolumeError:
            failure = "No recycler plugin found for the volume!"
        else:
            try:
                plugin.recycle(current.name, current, report)
            except Exception as error:
                failure = f"Recycle failed: {error}"
        if failure:
            self._writer.fail_volume(current, "VolumeFailedRecycle", failure)
            return
        self._writer.event(current, "VolumeRecycled", "Volume recycled")
        self._writer.unbind(current)
        yield from ()

    def _released_state(self, volume: PersistentVolume) -> PersistentVolume | None:
        """The current state of a volume if it is still released, else None.

        An earlier operation may have changed the volume.
        """
        try:
            current = self._client.get(PersistentVolume, volume.name)
        except NotFoundError:
            return None
        except ApiError as error:
            logger.info("error reading persistent volume %r: %s", volume.name, error)
            return None
        reference = current.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        claim = self._writer.claims.find(claim_key(reference))
        if claim is not None and claim.metadata.uid == reference.uid:
            return current if claim.spec.volume_name not in ("", current.name) else None
        return current


def pods_that_use(lister: Lister[Pod], claim: str) -> list[Pod]:
    """Return the pods that use a claim and have not finished, sorted by name.

    Parameters
    ----------
    lister : Lister of Pod
        Lister of pods with the index `PODS_BY_CLAIM`.
    claim : str
        ``namespace/name``.
    """
    pods = [pod for pod in lister.by_index(PODS_BY_CLAIM, claim) if pod.status.phase not in FINISHED]
    return sorted(pods, key=lambda pod: pod.name)


def _attempts(attempt: Callable[[], object]) -> Generator[float, None, Exception | None]:
    """Repeat an attempt until it succeeds; returns the last error, or None."""
    error: Exception | None = None
    for number in range(CREATE_ATTEMPTS):
        if number:
            yield CREATE_INTERVAL
        try:
            attempt()
        except Exception as failure:
            error = failure
        else:
            return None
    return error
