"""The volume binder: finds, assumes, writes and awaits the bindings of a pod's claims.

Source: kube-scheduler v1.36, volumebinding/binder.go.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, Protocol

from moorage.errors import MoorageError
from moorage.kube import (
    CSINode,
    LabelSelectorMatcher,
    Node,
    NodeSelector,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Quantity,
    StorageClass,
)
from moorage.kube.model.meta import QuantityLike
from moorage.kube.model.storage import CSIDriver, CSIStorageCapacity
from moorage.lazy import NamedTuple
from moorage.short_repr import ShortRepr
from moorage.store import InformerFactory, Lister, NotFoundError, ObjectClient

from ..framework.waiting_pods import Steps, take_all
from .assume_cache import ObjectNotFoundError, PVAssumeCache, PVCAssumeCache, parse_int64
from .claims import (
    NO_PROVISIONER,
    SELECTED_NODE,
    BindingInfo,
    Claims,
    DynamicProvision,
    PodVolumeClaims,
    PodVolumes,
    VolumeError,
    allows_topology,
    check_owner,
    claim_class,
    get_bind_volume_to_claim,
    is_delay_binding_mode,
    is_fully_bound,
    matches_labels,
    parse_bytes,
    prefixing,
    with_annotations,
)
from .volume_topology import migrated_plugins, required_affinity

POLL_INTERVAL = 1.0
"""Seconds between two checks of volumes that are being bound."""
DEFAULT_BIND_TIMEOUT = 600.0
"""Seconds that binding a pod's volumes may take."""

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

RequirePod = Callable[[Pod], None]
"""Raises VolumeError if a pod no longer exists, which ends the binding of its volumes."""

logger = logging.getLogger("moorage.volume")


@contextmanager
def counting_failures(operation: str) -> Iterator[None]:
    """Count an exception inside the context as a failure of a stage, and re-raise it.

    Parameters
    ----------
    operation : str
        ``predicate``, ``assume`` or ``bind``.
    """
    try:
        yield
    except Exception:
        from .metrics import VOLUME_SCHEDULING_STAGE_FAILED

        VOLUME_SCHEDULING_STAGE_FAILED.labels(operation).inc()
        raise


class ProvisioningFailedError(VolumeError):
    """A claim is no longer provisioned for the selected node."""

    def __init__(self, claim: PersistentVolumeClaim) -> None:
        super().__init__(f'provisioning failed for PVC "{claim.name}"')
        self.claim = claim


class BindTimeoutError(VolumeError):
    """The volumes were not bound in time."""


@dataclass(frozen=True, slots=True)
class VolumeSources:
    """Clients, caches and listers of the volume binder; `over` makes them.

    Attributes
    ----------
    client : ObjectClient
        Client to which bindings are written.
    pv_cache, pvc_cache : PVAssumeCache, PVCAssumeCache
        Known and assumed volumes and claims.
    class_lister, node_lister : Lister
        Listers of storage classes and nodes.
    require_pod : callable
        Raises if a pod whose volumes are being bound no longer exists.
    csi_driver_lister, csi_storage_capacity_lister : Lister or None
        Without them, storage capacity is not checked.
    csi_node_lister : Lister or None
        Without it, no in-tree volume is one of a CSI driver.
    """

    client: ObjectClient
    pv_cache: PVAssumeCache
    pvc_cache: PVCAssumeCache
    class_lister: Lister[StorageClass]
    node_lister: Lister[Node]
    require_pod: RequirePod
    csi_driver_lister: Lister[CSIDriver] | None = None
    csi_storage_capacity_lister: Lister[CSIStorageCapacity] | None = None
    csi_node_lister: Lister[CSINode] | None = None

    @classmethod
    def over(cls, client: ObjectClient, informers: InformerFactory) -> VolumeSources:
        """Make sources from the informers of a factory, with new assume caches.

        Parameters
        ----------
        client : ObjectClient
            Client to which bindings are written.
        informers : InformerFactory
            Informers of volumes, claims, classes, nodes and pods; the caller runs them.
        """
        return cls(
            client,
            PVAssumeCache(informers.informer(PersistentVolume)),
            PVCAssumeCache(informers.informer(PersistentVolumeClaim)),
            informers.lister(StorageClass),
            informers.lister(Node),
            listed_pods(informers.lister(Pod)),
            informers.lister(CSIDriver),
            informers.lister(CSIStorageCapacity),
            informers.lister(CSINode),
        )

    def required_on(self, node: Node, volume: PersistentVolume) -> NodeSelector | None:
        """Return the node affinity of a volume as it is compared with a node: translated, where a CSI driver
        has replaced the plugin of the volume there.

        Returns
        -------
        NodeSelector or None
            None if all nodes reach the volume.

        Raises
        ------
        VolumeError
            A CSI driver has replaced the plugin of the volume on the node, and the volume cannot be
            translated.
        """
        csi_node = None
        if self.csi_node_lister is not None:
            with suppress(NotFoundError):
                csi_node = self.csi_node_lister.get(node.name)
        return required_affinity(volume, migrated_plugins(csi_node))

    def reaches(self, node: Node, volume: PersistentVolume) -> bool:
        """Whether a volume is accessible from a node.

        Raises
        ------
        VolumeError
            See `required_on`.
        """
        required = self.required_on(node, volume)
        return required is None or matches_labels(required, node.metadata.labels)


def listed_pods(lister: Lister[Pod]) -> RequirePod:
    """Return a `RequirePod` that looks pods up in a lister.

    Parameters
    ----------
    lister : Lister of Pod
        Lister of pods.
    """

    def require(pod: Pod) -> None:
        try:
            lister.get(pod.key)
        except NotFoundError as error:
            raise VolumeError(f"pod does not exist any more: {error}") from error
        except MoorageError as error:
            logger.error("Failed to get pod %s from the lister: %s", pod.key, error)

    return require


class Unbound(NamedTuple):
    """The result of the search for claims with delayed binding."""

    volumes: PodVolumes
    satisfied: bool = True
    enough_storage: bool = True


@dataclass(frozen=True, slots=True)
class RunningBinding:
    """Written bindings of a pod's volumes that are not confirmed yet.

    Attributes
    ----------
    pod : Pod
        The pod.
    node_name : str
        Name of the node on which the pod will run.
    volumes : PodVolumes
        The written objects.
    deadline : float
        Time in seconds on the binder's clock.
    """

    pod: Pod
    node_name: str
    volumes: PodVolumes
    deadline: float


class PodVolumeBinder(Protocol):
    """What the plugin VolumeBinding asks of a volume binder; `VolumeBinder` says what each method does."""

    sources: VolumeSources

    def get_pod_volume_claims(self, pod: Pod) -> PodVolumeClaims:
        """Return the claims of a pod."""

    def find_pod_volumes(
        self, pod: Pod, claims: PodVolumeClaims, node: Node
    ) -> tuple[PodVolumes, tuple[str, ...]]:
        """Find volumes for the claims of a pod on a node.

        Returns
        -------
        reasons : tuple of str
            Why there are none.
        """

    def assume_pod_volumes(self, pod: Pod, node_name: str, pod_volumes: PodVolumes) -> bool:
        """Assume the volumes that were found.

        Returns
        -------
        bool
            Whether all claims were bound before.
        """

    def revert_assumed_pod_volumes(self, pod_volumes: PodVolumes) -> None:
        """Take assumed volumes back."""

    def binding(self, pod: Pod, pod_volumes: PodVolumes, node_name: str) -> Steps[None]:
        """Bind the assumed volumes step by step.

        Returns
        -------
        Steps
            Each step waits for a volume or a claim.
        """


class VolumeBinder(ShortRepr):
    """Finds volumes for a pod's claims on a node, assumes them, and binds them.

    `get_pod_volume_claims` and `find_pod_volumes` are called from any thread, `assume_pod_volumes` and
    `revert_assumed_pod_volumes` by one thread at a time. Binding is called once for each pod, by any thread.

    Parameters
    ----------
    sources : VolumeSources
        Client, caches and listers.
    bind_timeout : float
        Seconds that binding a pod's volumes may take.
    clock : callable
        Returns the time in seconds.
    sleep : callable
        Waits a number of seconds; only `bind_pod_volumes` calls it.
    exact_capacity : bool
        Whether storage capacities are compared exactly, and not in bytes
        (`Release.storage_capacity_is_exact`).
    """

    shows = "{0.sources.client}"

    def __init__(
        self,
        sources: VolumeSources,
        *,
        bind_timeout: float = DEFAULT_BIND_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        exact_capacity: bool = False,
    ) -> None:
        self.sources, self._exact_capacity = sources, exact_capacity
        self._pvs = sources.pv_cache
        self._pvcs = sources.pvc_cache
        self._bind_timeout = bind_timeout
        self._clock = clock
        self._sleep = sleep

    # ---- a pod's claims ------------------------------------------------------------------------------------

    def get_pod_volume_claims(self, pod: Pod) -> PodVolumeClaims:
        """Classify the claims of a pod, including those of ephemeral volumes.

        The result has the volumes among which `find_pod_volumes` chooses. Once the volumes of another pod
        are assumed, it is out of date.

        Raises
        ------
        VolumeError
            A claim does not exist, belongs to another pod, or has a class without a binding mode.
        """
        bound: Claims = []
        delayed: Claims = []
        immediate: Claims = []
        for claim in self._claims_of(pod):
            if is_fully_bound(claim):
                bound.append(claim)
            elif is_delay_binding_mode(claim, self.sources.class_lister) and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                immediate.append(claim)
        volumes = {name: self._pvs.list_pvs(name) for name in dict.fromkeys(map(claim_class, delayed))}
        return PodVolumeClaims(bound, delayed, immediate, volumes)

    def _claims_of(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        for volume in pod.spec.volumes:
            key = pod.claim_key(volume)
            if key is None:
                continue
            try:
                claim = self._pvcs.get_pvc(key)
            except VolumeError as error:
                raise VolumeError(f'error getting PVC "{key}": {error}') from error
            if volume.persistent_volume_claim is None:
                check_owner(pod, claim)
            yield claim

    # ---- finding, on one node ------------------------------------------------------------------------------

    def find_pod_volumes(
        self, pod: Pod, claims: PodVolumeClaims, node: Node
    ) -> tuple[PodVolumes, tuple[str, ...]]:
        """Find volumes for a pod on a node. A volume can be chosen if its phase is Available.

        Parameters
        ----------
        claims : PodVolumeClaims
            Result of `get_pod_volume_claims` for the pod, since volumes were last assumed.

        Returns
        -------
        volumes : PodVolumes
            Volumes to bind and to provision; None instead of empty lists.
        reasons : tuple of str
            Reasons why the node is not feasible, in upstream's order; empty if it is.

        Raises
        ------
        VolumeError
            A claim has no class and cannot be provisioned, or its selector cannot be read.
        """
        with counting_failures("predicate"):
            bound = self.check_bound_claims(claims.bound, node)
            unbound = self.find_unbound(claims, node)
        reasons = (
            (NODE_CONFLICT, bound is False),
            (BIND_CONFLICT, not unbound.satisfied),
            (NOT_ENOUGH_SPACE, not unbound.enough_storage),
            (VOLUME_MISSING, isinstance(bound, ObjectNotFoundError)),
        )
        return unbound.volumes, tuple(reason for reason, holds in reasons if holds)

    def check_bound_claims(
        self, claims: Sequence[PersistentVolumeClaim], node: Node
    ) -> ObjectNotFoundError | bool:
        """Check whether the volumes of bound claims are accessible from a node.

        Parameters
        ----------
        claims : sequence of PersistentVolumeClaim
            Fully bound claims.

        Returns
        -------
        ObjectNotFoundError or bool
            False, or the error for a volume that does not exist, of the first claim that fails; else True.

        Raises
        ------
        VolumeError
            A volume cannot be translated for the CSI driver of the node.
        """
        for claim in claims:
            try:
                volume = self._pvs.get_pv(claim.spec.volume_name)
            except ObjectNotFoundError as error:
                return error
            if not self.sources.reaches(node, volume):
                return False
        return True

    def find_unbound(self, claims: PodVolumeClaims, node: Node) -> Unbound:
        """Find volumes on a node for claims with delayed binding, or check their provisioning.

        Parameters
        ----------
        claims : PodVolumeClaims
            Claims of the pod by state.

        Raises
        ------
        VolumeError
            A claim has no class and cannot be provisioned.
        """
        if not claims.unbound_delayed:
            return Unbound(PodVolumes())
        if any(claim.metadata.annotations[SELECTED_NODE] != node.name for claim in claims.selected):
            return Unbound(PodVolumes(), satisfied=False)
        bindings: list[BindingInfo] = []
        to_provision, chosen = list(claims.selected), set[str]()
        for matcher in claims.matchers:
            volume = matcher.find(node.metadata.labels, chosen)
            if volume is None:
                to_provision.append(matcher.claim)
            else:
                chosen.add(volume.name)
                bindings.append(BindingInfo(volume, matcher.claim))
        provisions = self._check_volume_provisions(to_provision, node)
        if isinstance(provisions, bool):
            return Unbound(PodVolumes(bindings or None), satisfied=provisions, enough_storage=not provisions)
        return Unbound(PodVolumes(bindings or None, provisions or None))

    def _check_volume_provisions(self, claims: Claims, node: Node) -> list[DynamicProvision] | bool:
        """Check that claims can be provisioned on a node.

        Returns False if a claim cannot be provisioned, and True if only storage capacity is missing.
        """
        provisions = []
        for claim in claims:
            name = claim_class(claim)
            if not name:
                raise VolumeError(f'no class for claim "{claim.key}"')
            try:
                storage_class = self.sources.class_lister.get(name)
            except NotFoundError as error:
                raise VolumeError(f'failed to find storage class "{name}"') from error
            if storage_class.provisioner in ("", NO_PROVISIONER):
                return False
            if not allows_topology(storage_class.allowed_topologies, node.metadata.labels):
                return False
            capacity = self._find_capacity(claim, storage_class, node)
            if capacity is False:
                return True
            provisions.append(DynamicProvision(claim, capacity))
        return provisions

    def _find_capacity(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node
    ) -> CSIStorageCapacity | Literal[False] | None:
        """Find the first accessible storage capacity on a node that suffices for a claim.

        Returns None if the driver does not publish capacities, and False if no capacity suffices.
        """
        drivers, capacities = self.sources.csi_driver_lister, self.sources.csi_storage_capacity_lister
        if drivers is None or capacities is None or "storage" not in claim.spec.resources.requests:
            return None
        try:
            driver = drivers.get(storage_class.provisioner)
        except NotFoundError:
            return None
        if not driver.spec.storage_capacity:
            return None
        size = Quantity(claim.spec.resources.requests["storage"])
        for capacity in capacities.list():
            fits = capacity.storage_class_name == storage_class.name and is_sufficient(
                capacity, size, self._exact_capacity
            )
            if fits and has_access(node, capacity):
                return capacity
        return False

    # ---- assuming ------------------------------------------------------------------------------------------

    def assume_pod_volumes(self, pod: Pod, node_name: str, pod_volumes: PodVolumes) -> bool:
        """Assume the bindings and selected nodes that were found.

        Parameters
        ----------
        pod_volumes : PodVolumes
            Result of `find_pod_volumes`. Afterwards it has the assumed objects, with empty lists for None.

        Returns
        -------
        bool
            True if every claim is fully bound and there is nothing to assume; `pod_volumes` is unchanged
            then.

        Raises
        ------
        VolumeError
            An object has changed in the meantime; nothing is assumed, and `pod_volumes` is unchanged.
        """
        with counting_failures("assume"):
            if self._are_bound(pod):
                return True
            bindings: list[BindingInfo] = []
            provisions: list[DynamicProvision] = []
            try:
                for volume, claim in pod_volumes.static_bindings or ():
                    bound, is_new = get_bind_volume_to_claim(volume, claim)
                    if is_new:
                        self._pvs.assume(bound)
                    bindings.append(BindingInfo(bound, claim))
                for claim, capacity in pod_volumes.dynamic_provisions or ():
                    claim = with_annotations(claim, {SELECTED_NODE: node_name})
                    self._pvcs.assume(claim)
                    provisions.append(DynamicProvision(claim, capacity))
            except VolumeError:
                self._restore(bindings, provisions)
                raise
            pod_volumes.static_bindings, pod_volumes.dynamic_provisions = bindings, provisions
            return False

    def _are_bound(self, pod: Pod) -> bool:
        """Whether all claims of a pod exist and are fully bound."""
        try:
            return all(map(is_fully_bound, self._claims_of(pod)))
        except VolumeError:
            return False

    def revert_assumed_pod_volumes(self, pod_volumes: PodVolumes) -> None:
        """Undo `assume_pod_volumes`; repeated calls have no effect.

        Parameters
        ----------
        pod_volumes : PodVolumes
            The assumed volumes.
        """
        self._restore(pod_volumes.static_bindings or (), pod_volumes.dynamic_provisions or ())

    def _restore(self, bindings: Iterable[BindingInfo], provisions: Iterable[DynamicProvision]) -> None:
        for binding in bindings:
            self._pvs.restore(binding.pv.key)
        for provision in provisions:
            self._pvcs.restore(provision.pvc.key)

    # ---- binding -------------------------------------------------------------------------------------------

    def begin(self, pod: Pod, pod_volumes: PodVolumes, node_name: str | None = None) -> RunningBinding:
        """Write the assumed bindings, the volumes before the claims.

        A claim that two volumes of the pod name is written once. (Upstream writes it twice: the first attempt
        ends in a conflict, and in the next one both writes change nothing.) The caller then calls `check`
        every `POLL_INTERVAL` seconds.

        Parameters
        ----------
        pod_volumes : PodVolumes
            Result of `assume_pod_volumes`. Afterwards it has the written objects.
        node_name : str, optional
            Name of the node on which the pod will run; by default the one in its spec.

        Returns
        -------
        RunningBinding
            The written bindings.

        Raises
        ------
        VolumeError
            Bindings and provisions were not decided.
        ApiError
            The client failed. Earlier writes remain, and their objects assumed; the other objects are
            restored.
        """
        bound = provisioned = 0
        claims: dict[str, PersistentVolumeClaim] = {}
        with counting_failures("bind"):
            bindings, provisions = _decision(pod, pod_volumes)
            try:
                for bound, (volume, claim) in enumerate(bindings):
                    bindings[bound] = BindingInfo(self.sources.client.update(volume), claim)
                bound = len(bindings)
                for provisioned, (claim, capacity) in enumerate(provisions):
                    if claim.key not in claims:
                        claims[claim.key] = self.sources.client.update(claim)
                    provisions[provisioned] = DynamicProvision(claims[claim.key], capacity)
                provisioned = len(provisions)
            finally:
                self._restore(bindings[bound:], provisions[provisioned:])
        node_name = pod.spec.node_name if node_name is None else node_name
        return RunningBinding(pod, node_name, pod_volumes, self._clock() + self._bind_timeout)

    def check(self, running: RunningBinding) -> bool:
        """Check whether all written bindings are complete.

        Parameters
        ----------
        running : RunningBinding
            Result of `begin`.

        Returns
        -------
        bool
            True if they are complete.

        Raises
        ------
        VolumeError
            They cannot be completed; the pod has to be scheduled again.
        BindTimeoutError
            They were not completed in time; it is a VolumeError, too.
        """
        with counting_failures("bind"):
            try:
                return self.is_binding_complete(running)
            except BindTimeoutError as error:
                raise BindTimeoutError("binding volumes: context deadline exceeded") from error
            except VolumeError as error:
                raise VolumeError(f"binding volumes: {error}") from error

    def is_binding_complete(self, running: RunningBinding) -> bool:
        """Check whether all written objects have been observed and are fully bound.

        Unlike `check`, failures are not counted, and messages have no prefix.

        Parameters
        ----------
        running : RunningBinding
            Result of `begin`.

        Returns
        -------
        bool
            True if they are.

        Raises
        ------
        VolumeError
            The binding cannot be completed.
        BindTimeoutError
            It was not completed in time.
        """
        pod = running.pod
        bindings, provisions = _decision(pod, running.volumes)
        with prefixing(f'failed to get node "{running.node_name}"', NotFoundError):
            node = self.sources.node_lister.get(running.node_name)
        self.sources.require_pod(pod)
        are_bound = all(self._is_bound(node, binding) for binding in bindings)
        if are_bound and all(self._is_provisioned(node, provision.pvc) for provision in provisions):
            return True
        if self._clock() >= running.deadline:
            raise BindTimeoutError("timed out waiting for the condition")
        return False

    def binding(self, pod: Pod, pod_volumes: PodVolumes, node_name: str | None = None) -> Steps[None]:
        """Return a generator that runs `begin`, then `check` until all bindings are complete.

        Parameters
        ----------
        pod_volumes : PodVolumes
            Result of `assume_pod_volumes`; see `begin`.
        node_name : str, optional
            Name of the node; by default the one in the pod's spec.

        Returns
        -------
        generator
            Yields `POLL_INTERVAL` seconds between two checks.

        Raises
        ------
        VolumeError, ApiError
            Errors of `begin` and `check`.
        """
        running = self.begin(pod, pod_volumes, node_name)
        done = False
        while not done:
            yield POLL_INTERVAL
            done = self.check(running)

    def bind_pod_volumes(self, pod: Pod, pod_volumes: PodVolumes, node_name: str | None = None) -> None:
        """Bind the volumes of a pod and wait until all bindings are complete.

        Parameters
        ----------
        pod_volumes : PodVolumes
            Result of `assume_pod_volumes`; see `begin`.
        node_name : str, optional
            Name of the node; by default the one in the pod's spec.

        Raises
        ------
        VolumeError, ApiError
            Errors of `begin` and `check`.
        """
        take_all(self.binding(pod, pod_volumes, node_name), self._sleep)

    def _is_bound(self, node: Node, binding: BindingInfo) -> bool:
        with prefixing("failed to check binding"):
            volume = self._pvs.get_api_pv(binding.pv.key)
            claim = self._pvcs.get_api_pvc(binding.pvc.key)
        if _is_older(volume, binding.pv):
            return False
        with prefixing("failed to translate pv to csi"):
            reaches = self.sources.reaches(node, volume)
        _check_affinity(volume, node, reaches)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise VolumeError(f'ClaimRef got reset for pv "{volume.name}"')
        return is_fully_bound(claim)

    def _is_provisioned(self, node: Node, written: PersistentVolumeClaim) -> bool:
        with prefixing("failed to check provisioning pvc"):
            claim = self._pvcs.get_api_pvc(written.key)
        if _is_older(claim, written):
            return False
        if not claim.metadata.annotations:
            raise VolumeError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE, "") != node.name:
            raise ProvisioningFailedError(claim)
        name = claim.spec.volume_name
        if name:
            try:
                volume = self._pvs.get_api_pv(name)
            except ObjectNotFoundError:
                return False
            except VolumeError as error:
                raise VolumeError(f'failed to get pv "{name}" from cache: {error}') from error
            _check_affinity(volume, node, self.sources.reaches(node, volume))
        return is_fully_bound(claim)


def _decision(pod: Pod, volumes: PodVolumes) -> tuple[list[BindingInfo], list[DynamicProvision]]:
    """The bindings and provisions of a pod; an error if they are not decided."""
    if volumes.static_bindings is None:
        raise VolumeError(f'failed to get cached bindings for pod "{pod.key}"')
    if volumes.dynamic_provisions is None:
        raise VolumeError(f'failed to get cached claims to provision for pod "{pod.key}"')
    return volumes.static_bindings, volumes.dynamic_provisions


def _check_affinity(volume: PersistentVolume, node: Node, reaches: bool) -> None:
    if not reaches:
        reason = f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"'
        raise VolumeError(f"{reason}: no matching NodeSelectorTerms")


def has_access(node: Node, capacity: CSIStorageCapacity) -> bool:
    """Whether a node is in the topology of a capacity; False for a malformed selector."""
    if capacity.node_topology is None:
        return False
    try:
        return LabelSelectorMatcher(capacity.node_topology).matches(node.metadata.labels)
    except ValueError:
        return False


def limit_of(capacity: CSIStorageCapacity) -> QuantityLike | None:
    """Return the largest size of a volume that may be made in a capacity."""
    return capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size


def is_sufficient(capacity: CSIStorageCapacity, size: Quantity, exact: bool = False) -> bool:
    """Whether a volume may be made in a capacity.

    Parameters
    ----------
    exact : bool
        Whether sizes are compared exactly; otherwise they are rounded up to bytes.
    """
    limit = limit_of(capacity)
    if limit is None:
        return False
    return Quantity(limit) >= size if exact else parse_bytes(limit) >= size.value()


def _is_older(obj: Object, written: Object) -> bool:
    return _version(obj) < _version(written)


def _version(obj: Object) -> int:
    try:
        return parse_int64(obj.metadata.resource_version or "0")
    except ValueError as error:
        raise VolumeError(f'error parsing ResourceVersion of "{obj.key}": {error}') from error
