"""What the controller of volumes does with storage: operations in the background, and their writes."""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, RLock, Thread
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from moorage.engine.framework.handle import EventRecorder
from moorage.engine.volume import VolumeError, get_bind_volume_to_claim
from moorage.engine.volume.assume_cache import AssumeCache
from moorage.engine.volume.claims import (
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
    CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    YES,
    claim_class,
    parse_bytes,
    prefixing,
    storage_capacity,
    with_annotations,
)
from moorage.kube import Node, Object, PersistentVolume, PersistentVolumeClaim, Pod, Resources, StorageClass
from moorage.kube.model.storage import ObjectReference
from moorage.kube.workloads.ownership import FINISHED
from moorage.saved_fields import SavedFields
from moorage.store import (
    AlreadyExistsError,
    ApiError,
    Informer,
    Lister,
    NotFoundError,
    ObjectClient,
    find_object,
)
from moorage.store.indexer import by_namespace

from .volume_plugins import (
    DeletableVolumePlugin,
    ProvisionableVolumePlugin,
    VolumeInUseError,
    VolumeOptions,
    VolumePlugin,
    VolumePlugins,
)

# ---- operations --------------------------------------------------------------------------------------------
#
# Asynchronous operations: one at a time per name, with exponential backoff after failures.
#
# Source: apimachinery, goroutinemap with exponentialbackoff.

INITIAL_PAUSE = 0.5
"""Seconds of backoff after the first failure."""
LONGEST_PAUSE = 122.0

Work: TypeAlias = Callable[[], Iterable[float]]
"""Makes a generator that yields the seconds to wait between its steps; an exception is a failure."""

logger = logging.getLogger("moorage.volume")


class _Pause(Struct, frozen=True):
    """The backoff of a failed operation."""

    since: float
    length: float


class Operations(SavedFields):
    """Asynchronous operations by name.

    Without threads, `run` runs an operation until it waits, and `run_due` continues the operations that are
    due.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds.
    """

    fields = ("_pauses", "_sequence")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: set[str] = set()
        self._pauses: dict[str, _Pause] = {}
        self._waiting: list[tuple[float, int, str, Iterator[float]]] = []
        self._sequence = 0
        self._stop: Event | None = None
        self._lock = RLock()

    def use_threads(self, stop: Event) -> None:
        """Run operations in threads from now on.

        Parameters
        ----------
        stop : threading.Event
            Ends each operation where it would wait.
        """
        self._stop = stop

    def run(self, name: str, work: Work) -> bool:
        """Start an operation.

        Parameters
        ----------
        work : callable
            Makes a generator that yields the seconds to wait between its steps.

        Returns
        -------
        bool
            False if an operation of this name is running, or in backoff after a failure.
        """
        with self._lock:
            pause = self._pauses.get(name)
            if name in self._running or (pause and self._clock() - pause.since <= pause.length):
                return False
            self._running.add(name)
        if self._stop is None:
            self._advance(name, _steps(work))
        else:
            arguments = name, _steps(work), self._stop
            Thread(target=self._run_in_thread, args=arguments, name=name, daemon=True).start()
        return True

    def _run_in_thread(self, name: str, steps: Iterator[float], stop: Event) -> None:
        while (wait := self._advance(name, steps)) is not None and not stop.wait(wait):
            pass

    def is_running(self, name: str) -> bool:
        """Whether an operation is running, or waits between two steps."""
        return name in self._running

    @property
    def are_running(self) -> bool:
        """Whether any operation is running, or waits between two steps."""
        return bool(self._running)

    def next_due(self) -> float | None:
        """Return the time in seconds at which the next waiting operation continues; None if none waits."""
        return self._waiting[0][0] if self._waiting else None

    def run_due(self) -> int:
        """Continue the operations that are due; returns their number."""
        done = 0
        while self._waiting and self._waiting[0][0] <= self._clock():
            _, _, name, steps = heapq.heappop(self._waiting)
            self._advance(name, steps)
            done += 1
        return done

    def save(self) -> object:
        """Return the waiting and failed operations, for `undo`."""
        with self._lock:
            return super().save(), self._waiting.copy()

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`, without threads.

        An operation that has continued since is dropped, because its steps cannot be undone; its caller can
        start it again.
        """
        own, waiting = saved
        with self._lock:
            super().undo(own)
            self._waiting = [operation for operation in waiting if operation in self._waiting]
            heapq.heapify(self._waiting)
            self._running = {name for _, _, name, _ in self._waiting}

    def _advance(self, name: str, steps: Iterator[float]) -> float | None:
        """Run an operation until it waits; returns the seconds to wait, or None at its end."""
        try:
            wait = next(steps, None)
        except Exception as error:  # any exception is a failure of the operation
            logger.info("operation %s failed: %s", name, error)
            self._finish(name, failed=True)
            return None
        except BaseException:
            self._finish(name, failed=True)
            raise
        if wait is None:
            self._finish(name, failed=False)
        elif self._stop is None:
            self._sequence += 1
            heapq.heappush(self._waiting, (self._clock() + wait, self._sequence, name, steps))
        return wait

    def _finish(self, name: str, *, failed: bool) -> None:
        with self._lock:
            self._running.discard(name)
            pause = self._pauses.pop(name, None)
            if failed:
                length = min(2 * pause.length, LONGEST_PAUSE) if pause else INITIAL_PAUSE
                self._pauses[name] = _Pause(self._clock(), length)


def _steps(work: Work) -> Iterator[float]:
    yield from work()


# ---- controller metrics ------------------------------------------------------------------------------------
#
# Metrics of the controller: numbers of claims and volumes, durations of operations.
#
# Source: controller/volume/persistentvolume/metrics.

T = TypeVar("T", bound=Object)

NO_PLUGIN = "N/A"


class OperationTimes(SavedFields):
    """Start times of operations that end asynchronously.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds.
    """

    fields = ("_begun",)  # counters and histograms are not reset

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun: dict[str, tuple[float, tuple[str, str]]] = {}

    def begin(self, key: str, plugin: str, operation: str) -> None:
        """Record the first attempt of an operation for an object; later attempts are ignored.

        Parameters
        ----------
        key : str
            Key of the claim or name of the volume.
        plugin : str
            Name of the plugin or driver; "" if unknown.
        operation : str
            ``provision`` or ``delete``.
        """
        self._begun.setdefault(key, (self._clock(), (plugin or NO_PLUGIN, operation)))

    def end(self, key: str) -> None:
        """Observe the duration of an object's operation.

        Parameters
        ----------
        key : str
            Key of the claim or name of the volume; unknown keys are ignored.
        """
        start = self._begun.pop(key, None)
        if start is not None:
            since, labels = start
            from moorage.engine.volume.metrics import VOLUME_OPERATION_SECONDS

            VOLUME_OPERATION_SECONDS.labels(*labels).observe(self._clock() - since)

    def forget(self, key: str) -> None:
        """Drop the operation of an object.

        Parameters
        ----------
        key : str
            Key of the claim or name of the volume; unknown keys are ignored.
        """
        self._begun.pop(key, None)

    @contextmanager
    def counting_failures(self, key: str) -> Iterator[None]:
        """Count an exception inside the context as a failure of the object's operation, and re-raise it.

        Parameters
        ----------
        key : str
            Key of the claim or name of the volume.
        """
        try:
            yield
        except Exception:
            if key in self._begun:
                from moorage.engine.volume.metrics import VOLUME_OPERATION_ERRORS

                VOLUME_OPERATION_ERRORS.labels(*self._begun[key][1]).inc()
            raise


class VolumeCounts:
    """Numbers of claims by namespace and of volumes by class, bound or not; a prometheus_client collector."""

    def __init__(
        self, volumes: AssumeCache[PersistentVolume], claims: AssumeCache[PersistentVolumeClaim]
    ) -> None:
        self._volumes = volumes
        self._claims = claims

    def counts(self) -> dict[str, Counter[str]]:
        """Return the values of the gauges: by name without subsystem, the count by label value."""
        values: dict[str, Counter[str]] = {name: Counter() for name in _GAUGES}
        for volume in _all(self._volumes):
            state = {"Bound": "bound", "Failed": "failed"}.get(volume.status.phase, "unbound")
            values[f"{state}_pv_count"][volume.spec.storage_class_name] += 1
        for claim in _all(self._claims):
            is_bound = claim.status.phase == "Bound"
            values["bound_pvc_count" if is_bound else "unbound_pvc_count"][claim.namespace] += 1
        return values

    def collect(self) -> Iterator[Any]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        for name, counts in self.counts().items():
            what, label = _GAUGES[name]
            help = f"Gauge measuring number of {what}"
            family = GaugeMetricFamily(f"pv_collector_{name}", help, labels=[label])
            for value, count in sorted(counts.items()):
                family.add_metric([value], count)
            yield family

    def register(self) -> None:
        """Register these counts and the metrics of operations in prometheus_client's default registry.

        The counts of a second controller are not registered.
        """
        from moorage.engine.volume import metrics

        shown = metrics.Shown(metrics.VOLUME_OPERATION_SECONDS, metrics.VOLUME_OPERATION_ERRORS)
        metrics.register("controller", self, shown)


_GAUGES = {
    "bound_pv_count": ("persistent volume currently bound", "storage_class"),
    "unbound_pv_count": ("persistent volume currently unbound", "storage_class"),
    "failed_pv_count": ("persistent volume currently failed", "storage_class"),
    "bound_pvc_count": ("persistent volume claim currently bound", "namespace"),
    "unbound_pvc_count": ("persistent volume claim currently unbound", "namespace"),
}


def _all(cache: AssumeCache[T]) -> Iterator[T]:
    return (obj for value in cache.index_values() for obj in cache.list_value(value))


# ---- object writer -----------------------------------------------------------------------------------------
#
# The controller's writes of claims and volumes, and their latest states.
#
# Source: controller/volume/persistentvolume/pv_controller.go and index.go.


class ObjectWriter:
    """Writes claims and volumes, and caches the latest state of each.

    A write goes to the API server and then into the cache, so that the next sync reads it before the informer
    reports it. A write without changes is skipped. Every method returns the object as written, or raises the
    client's error (`ConflictError` if another writer was faster); earlier writes remain.

    Parameters
    ----------
    client : ObjectClient
        Client of the object store or API server.

    Attributes
    ----------
    claims, volumes : AssumeCache
        Claims by namespace, and volumes by access modes (joined with commas); updated by the informers'
        events and by accepted writes.
    """

    def __init__(self, client: ObjectClient, recorder: EventRecorder) -> None:
        self.claims = AssumeCache[PersistentVolumeClaim](None, "claim", "namespace", by_namespace)
        self.volumes = AssumeCache[PersistentVolume](None, "volume", "accessmodes", _access_modes)
        self._client = client
        self._recorder = recorder

    def event(self, regarding: Object, reason: str, note: str, type: str = "Normal") -> None:
        """Record an event about an object.

        Parameters
        ----------
        reason : str
            Upstream's reason (controller/volume/events).
        type : str
            ``Normal`` or ``Warning``.
        """
        self._recorder.event(regarding, type, reason, "", note)

    def warning(self, regarding: Object, reason: str, note: str) -> None:
        """Record an event of type Warning.

        Parameters
        ----------
        reason : str
            Upstream's reason (controller/volume/events).
        """
        self.event(regarding, reason, note, "Warning")

    def update(self, old: T, new: T) -> T:
        """Write a claim or volume, if it differs from the state that was read."""
        if old == new:
            return old
        written = self._client.update(new)
        cache: AssumeCache[Any] = self.claims if isinstance(old, PersistentVolumeClaim) else self.volumes
        cache.add(written)
        return written

    # ---- the four writes of a binding ----

    def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind a volume to a claim in four writes.

        After a crash between two writes the next sync of either object completes the binding.
        """
        volume = self.update(volume, get_bind_volume_to_claim(volume, claim)[0])
        volume = self.update_volume_phase(volume, "Bound")
        marks, bound = {BIND_COMPLETED: YES}, claim
        if claim.spec.volume_name != volume.name:
            bound = replace(claim, spec=replace(claim.spec, volume_name=volume.name))
            marks[BOUND_BY_CONTROLLER] = YES  # which chose the volume
        marks = {mark: YES for mark in marks if mark not in claim.metadata.annotations}
        claim = self.update(claim, with_annotations(bound, marks) if marks else bound)
        self.update_claim_status(claim, "Bound", volume)

    def unbind(self, volume: PersistentVolume) -> None:
        """Remove the claim from a volume; from a binding made by the user only the claim's UID is removed."""
        reference, meta = volume.spec.claim_ref, volume.metadata
        annotations = dict(meta.annotations)
        if annotations.pop(BOUND_BY_CONTROLLER, None) is not None:
            reference = None
        elif reference is not None:
            reference = replace(reference, uid="")
        spec = replace(volume.spec, claim_ref=reference)
        new = replace(volume, metadata=replace(meta, annotations=annotations), spec=spec)
        self.update_volume_phase(self.update(volume, new), "Available")

    # ---- phases ----

    def update_volume_phase(
        self, volume: PersistentVolume, phase: str, message: str = ""
    ) -> PersistentVolume:
        """Set the phase of a volume; if it has that phase already, its message is unchanged."""
        if volume.status.phase == phase:
            return volume
        new = replace(volume, status=replace(volume.status, phase=phase, message=message))
        return self.update(volume, new)

    def fail_volume(self, volume: PersistentVolume, reason: str, message: str) -> None:
        """Set the phase Failed of a volume and record a warning, unless it has that phase.

        Parameters
        ----------
        message : str
            Message of the event and of the volume's status.
        """
        if volume.status.phase != "Failed":
            self.warning(self.update_volume_phase(volume, "Failed", message), reason, message)

    def update_claim_status(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        """Set the phase of a claim, with the access modes and the capacity of its volume.

        The capacity is set only if the phase changes, since the volume may have been resized. Without a
        volume both are empty.

        Parameters
        ----------
        volume : PersistentVolume, optional
            The volume to which the claim is bound.

        Raises
        ------
        VolumeError
            The volume has no capacity.
        """
        status = claim.status
        new = replace(status, phase=phase, access_modes=(), capacity={})
        if volume is not None:
            capacity = status.capacity if status.phase == phase else _capacity(volume, status.capacity)
            new = replace(new, access_modes=volume.spec.access_modes, capacity=capacity)
        return self.update(claim, replace(claim, status=new))

    def lose_claim(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        """Set the phase Lost of a claim and record a warning, unless it has that phase.

        Parameters
        ----------
        reason, message : str
            Reason and message of the event.
        """
        if claim.status.phase != "Lost":
            self.warning(self.update_claim_status(claim, "Lost"), reason, message)


def claim_key(reference: ObjectReference) -> str:
    """Return ``namespace/name`` of the claim to which a volume refers.

    Parameters
    ----------
    reference : ObjectReference
        The volume's ``claimRef``.
    """
    return f"{reference.namespace}/{reference.name}"


def _access_modes(volume: PersistentVolume) -> tuple[str]:
    return (",".join(sorted(set(volume.spec.access_modes))),)


def _capacity(volume: PersistentVolume, shown: Resources) -> Resources:
    """The capacity in the status of a claim that is bound to a volume; unchanged if the size is equal."""
    if "storage" not in volume.spec.capacity:
        raise VolumeError(f'PersistentVolume "{volume.name}" is without a storage capacity')
    if "storage" in shown and parse_bytes(shown["storage"]) == storage_capacity(volume):
        return shown
    return volume.spec.capacity


# ---- volume operations -------------------------------------------------------------------------------------
#
# Operations on storage assets: provisions volumes for claims, deletes and recycles released volumes.
#
# Source: pv_controller.go, provisionClaim and reclaimVolume.

CREATE_ATTEMPTS = 5
CREATE_INTERVAL = 10.0  # seconds
PODS_BY_CLAIM = "pod-pvc-index"
"""The index that a controller adds to its informer of pods."""
IN_TREE = "kubernetes.io/"
"""Prefix of the names of in-tree plugins, which the controller itself runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ControllerParameters:
    """The parameters of a `PersistentVolumeController` and of a `VolumeHost`, given by name.

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
        clock: Callable[[], float],
    ) -> None:
        self._parameters = parameters
        self._client = parameters.kube_client
        self._writer = writer
        self._plugins = plugins
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
            self.times.begin(claim.key, provisioner, "provision")
            with self.times.counting_failures(claim.key):
                if plugin is None:
                    marked = self._with_provisioner(claim, provisioner)
                    message = (
                        "waiting for a volume to be created, either by external provisioner "
                        f'"{provisioner}" or manually created by system administrator'
                    )
                    self._writer.event(marked, "ExternalProvisioning", message)
                else:
                    yield from self._provision(claim, plugin, storage_class)

        self.operations.run(f"provision-{claim.key}[{claim.metadata.uid}]", work)

    def _provisioning_plugin(self, provisioner: str) -> ProvisionableVolumePlugin | None:
        """The plugin that provisions volumes of a class; None for an external provisioner."""
        try:
            return self._plugins.provisionable(provisioner)
        except VolumeError:
            if provisioner.startswith(IN_TREE):
                raise
            return None

    def _with_provisioner(self, claim: PersistentVolumeClaim, name: str) -> PersistentVolumeClaim:
        marks = {BETA_STORAGE_PROVISIONER: name, STORAGE_PROVISIONER: name}
        return self._writer.update(claim, with_annotations(claim, marks))

    def _provision(
        self, claim: PersistentVolumeClaim, plugin: ProvisionableVolumePlugin, storage_class: StorageClass
    ) -> Iterator[float]:
        """Provision the volume of a claim; the next sync binds it."""
        claim = self._with_provisioner(claim, plugin.name)
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

        Raises
        ------
        ApiError
            The policy is unknown and this could not be written.
        """
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
