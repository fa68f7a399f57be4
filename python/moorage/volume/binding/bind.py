"""Assuming the volumes of a pod, writing their bindings, and waiting for them (kube-scheduler v1.36,
volumebinding/binder.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moorage.objects.model.meta import Object
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.store import NotFoundError
from moorage.volume.constants import SELECTED_NODE

from .assume_cache import ObjectNotFoundError, parse_int64
from .claims import VolumeError, get_bind_volume_to_claim, is_fully_bound, reaches_node, with_annotations
from .find import BindingInfo, DynamicProvision, PodVolumes, claim_key, claim_of
from .sources import VolumeSources


class ProvisioningFailedError(VolumeError):
    """A claim is no longer provisioned for the selected node."""

    def __init__(self, claim: PersistentVolumeClaim) -> None:
        super().__init__(f'provisioning failed for PVC "{claim.name}"')
        self.claim = claim


class BindTimeoutError(VolumeError):
    """The volumes were not bound in time."""


# ---- assuming ----------------------------------------------------------------------------------------------


def are_bound(sources: VolumeSources, pod: Pod) -> bool:
    """Whether all claims of a pod exist and are fully bound."""
    try:
        claims = [claim_of(sources, pod, volume) for volume in pod.spec.volumes if claim_key(pod, volume)]
    except VolumeError:
        return False
    return all(claim is not None and is_fully_bound(claim) for claim in claims)


def assume_volumes(sources: VolumeSources, node_name: str, volumes: PodVolumes) -> None:
    """Assume bindings and selected nodes. `volumes` then has the assumed objects, with empty lists for None;
    after an error it is unchanged and all assumed states are restored."""
    bindings: list[BindingInfo] = []
    provisions: list[DynamicProvision] = []
    try:
        for volume, claim in volumes.static_bindings or ():
            bound, is_new = get_bind_volume_to_claim(volume, claim)
            if is_new:
                sources.pv_cache.assume(bound)
            bindings.append(BindingInfo(bound, claim))
        for claim, capacity in volumes.dynamic_provisions or ():
            claim = with_annotations(claim, {SELECTED_NODE: node_name})
            sources.pvc_cache.assume(claim)
            provisions.append(DynamicProvision(claim, capacity))
    except VolumeError:
        revert(sources, bindings, provisions)
        raise
    volumes.static_bindings, volumes.dynamic_provisions = bindings, provisions


def revert(
    sources: VolumeSources, bindings: Iterable[BindingInfo], provisions: Iterable[DynamicProvision]
) -> None:
    """End the assumed states of volumes and claims."""
    for binding in bindings:
        sources.pv_cache.restore(binding.pv.key)
    for provision in provisions:
        sources.pvc_cache.restore(provision.pvc.key)


# ---- writing -----------------------------------------------------------------------------------------------


def require_decision(pod: Pod, volumes: PodVolumes) -> tuple[list[BindingInfo], list[DynamicProvision]]:
    """The bindings and provisions of a pod.

    Raises
    ------
    VolumeError
        It was not decided.
    """
    if volumes.static_bindings is None:
        raise VolumeError(f'failed to get cached bindings for pod "{pod.key}"')
    if volumes.dynamic_provisions is None:
        raise VolumeError(f'failed to get cached claims to provision for pod "{pod.key}"')
    return volumes.static_bindings, volumes.dynamic_provisions


def write(sources: VolumeSources, pod: Pod, volumes: PodVolumes) -> None:
    """Write the volumes, then the claims; `volumes` then has the written objects.

    An error of the client comes through. What has been written by then stays written and assumed; the rest is
    restored.
    """
    bindings, provisions = require_decision(pod, volumes)
    bound = provisioned = 0
    try:
        for bound, (volume, claim) in enumerate(bindings):
            bindings[bound] = BindingInfo(sources.client.update(volume), claim)
        bound = len(bindings)
        for provisioned, (claim, capacity) in enumerate(provisions):
            provisions[provisioned] = DynamicProvision(sources.client.update(claim), capacity)
        provisioned = len(provisions)
    finally:
        revert(sources, bindings[bound:], provisions[provisioned:])


# ---- waiting -----------------------------------------------------------------------------------------------


def is_binding_complete(sources: VolumeSources, pod: Pod, node_name: str, volumes: PodVolumes) -> bool:
    """Whether all written objects have been observed and are fully bound; if False, ask again later.

    Raises
    ------
    VolumeError
        It will not be: the pod is to be scheduled again.
    """
    bindings, provisions = require_decision(pod, volumes)
    try:
        node = sources.node_lister.get(node_name)
    except NotFoundError as error:
        raise VolumeError(f'failed to get node "{node_name}": {error}') from error
    sources.require_pod(pod)
    return all(_is_bound(sources, node, one) for one in bindings) and all(
        _is_provisioned(sources, node, one.pvc) for one in provisions
    )


def _is_bound(sources: VolumeSources, node: Node, binding: BindingInfo) -> bool:
    try:
        volume = sources.pv_cache.get_api_pv(binding.pv.key)
        claim = sources.pvc_cache.get_api_pvc(binding.pvc.key)
    except VolumeError as error:
        raise VolumeError(f"failed to check binding: {error}") from error
    if _is_older(volume, binding.pv):
        return False
    _check_affinity(sources, volume, node)
    held = volume.spec.claim_ref
    if held is None or not held.uid:
        raise VolumeError(f'ClaimRef got reset for pv "{volume.name}"')
    return is_fully_bound(claim)


def _is_provisioned(sources: VolumeSources, node: Node, written: PersistentVolumeClaim) -> bool:
    try:
        claim = sources.pvc_cache.get_api_pvc(written.key)
    except VolumeError as error:
        raise VolumeError(f"failed to check provisioning pvc: {error}") from error
    if _is_older(claim, written):
        return False
    if not claim.metadata.annotations:
        raise VolumeError(f'selectedNode annotation reset for PVC "{claim.name}"')
    if claim.metadata.annotations.get(SELECTED_NODE, "") != node.name:
        raise ProvisioningFailedError(claim)
    name = claim.spec.volume_name
    if name:
        try:
            volume = sources.pv_cache.get_api_pv(name)
        except ObjectNotFoundError:
            return False
        except VolumeError as error:
            raise VolumeError(f'failed to get pv "{name}" from cache: {error}') from error
        _check_affinity(sources, volume, node)
    return is_fully_bound(claim)


def _check_affinity(sources: VolumeSources, volume: PersistentVolume, node: Node) -> None:
    if not reaches_node(sources.translate(volume, node.name), node.metadata.labels):
        why = f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"'
        raise VolumeError(f"{why}: no matching NodeSelectorTerms")


def _is_older(obj: Object, written: Object) -> bool:
    return _version(obj) < _version(written)


def _version(obj: Object) -> int:
    try:
        return parse_int64(obj.metadata.resource_version or "0")
    except ValueError as error:
        raise VolumeError(f'error parsing ResourceVersion of "{obj.key}": {error}') from error


class RunningBinding:
    """Bindings of a pod's volumes that have been written.

    Parameters
    ----------
    sources : VolumeSources
    pod : Pod
    node_name : str
        Where the pod is to run.
    volumes : PodVolumes
        What was written.
    clock : callable
        Seconds.
    timeout : float
        How long it may take from now, in seconds on `clock`.
    """

    def __init__(
        self,
        sources: VolumeSources,
        pod: Pod,
        node_name: str,
        volumes: PodVolumes,
        clock: Callable[[], float],
        timeout: float,
    ) -> None:
        self.pod = pod
        self.node_name = node_name
        self.volumes = volumes
        self._sources = sources
        self._clock = clock
        self.deadline = clock() + timeout
        """On the clock."""

    def check(self) -> bool:
        """Whether all volumes are bound; call it each `POLL_INTERVAL`.

        Raises
        ------
        VolumeError
            It will not be, or is not at the deadline: `BindTimeoutError`.
        """
        if is_binding_complete(self._sources, self.pod, self.node_name, self.volumes):
            return True
        if self._clock() >= self.deadline:
            raise BindTimeoutError("timed out waiting for the condition")
        return False


POLL_INTERVAL = 1.0
"""Seconds between two looks at volumes that are being bound."""
DEFAULT_BIND_TIMEOUT = 600.0
"""Seconds that binding a pod's volumes may take."""
