"""The classes of pods with volumes or resource claims that the core places without the plugins about them:
for speed alone (`tests/house/special_paths.toml`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress

from msgspec import Struct

from moorage._core.decide.pod_batch import END, RepeatedNeeds
from moorage._core.devices.claims_of_pods import claim_keys
from moorage._core.volumes.bound_claims import BoundClaims
from moorage.kube import PersistentVolume, PersistentVolumeClaim
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import group_of

from .. import volume as storage
from ..framework.claim_plugins import ClaimPlugins, ClaimsOfBatch, Needs
from ..framework.nodes_view import NodesView
from ..plugins.node_volume_limits import LimitsOfBatch, NodeVolumeLimits
from ..plugins.volume_binding import VolumeBinding
from ..plugins.volume_restrictions_and_zone import READ_WRITE_ONCE_POD, TOPOLOGY_LABELS
from .cycle.engine import Engine

Answer = tuple[int, list[tuple[int, int, int]], int, RepeatedNeeds | None]
"""See `VolumeClasses.find`."""
MOST = 1 << 16
"""The number of descriptions whose needs are kept."""


class _Memory(Struct):
    """What is known of the pods of one engine.

    Attributes
    ----------
    version : tuple
        Of the demands and needs: they hold until classes, limits, drivers, device classes or nodes change.
    needs : dict
        By class and description of a pod, what the plugins about volumes need for it.
    plugins : ClaimPlugins
        They decide.
    limited : LimitsOfBatch or None
        What NodeVolumeLimits knows of the batch; None without that plugin.
    bound : BoundClaims or None
        Describes the claims of the pods of the batch, if their needs follow from a description.
    is_described : bool
        Whether `bound` was made, for the first pod with volumes.
    """

    version: tuple[Hashable, ...]
    needs: dict[Hashable, Needs]
    plugins: ClaimPlugins
    nodes: NodesView
    limited: LimitsOfBatch | None
    bound: BoundClaims | None = None
    is_described: bool = False


class VolumeClasses:
    """Finds the classes of the pods of one batch whose volumes are bound, or whose devices the core counts.

    For these pods a `VolumeDemand` of the class takes the place of the filters about volumes and claims. What
    is known holds until events about claims and volumes are processed.

    Parameters
    ----------
    engine_of : callable
        Returns the engine of a pod's profile.
    """

    def __init__(self, engine_of: Callable[[Pod], Engine]) -> None:
        self._engine_of = engine_of
        self._memories: dict[Engine, _Memory] = {}

    def find(self, batch: ClaimsOfBatch, pod: Pod, pod_class: int, at: int) -> Answer:
        """Return the class of the next pod with volumes.

        Parameters
        ----------
        batch : ClaimsOfBatch
            Receives what the pod uses.
        pod_class : int
            Its class without volumes.
        at : int
            The index of the pod in the batch.

        Returns
        -------
        pod_class : int
            The same where no volume restricts the nodes, else the class with the demand; -1 where plugins
            have to schedule the pod; END where an earlier pod of the batch allocates a claim of this one.
        shared : list of (int, int, int)
            See `PodBatch`.
        takes_devices : int
            1 if claims of the pod take devices of its node, 2 if it shares those of an earlier pod of the
            batch, else 0.
        alike : RepeatedNeeds or None
            Notes the pods of the class after this one that get the same answer.
        """
        engine = self._engine_of(pod)
        if engine not in batch.known:
            batch.known[engine] = self._prepare(engine, batch)
        ready: _Memory | None = batch.known[engine]
        batch.go_on(at)
        needs = None if ready is None else _needs(engine, pod, pod_class, ready, batch)
        if batch.ends_before:
            return END, [], 0, None
        if needs is None or ready is None:
            _leave_to_plugins(engine, pod, batch)
            return -1, [], 0, None
        if not needs:
            return pod_class, [], 0, None
        if batch.in_use is None and pod.spec.volumes:
            batch.begin_counting(engine.handle.derived(storage.volumes_in_use.VolumesInUse.of))
        demands = engine.search.states.volume_demands
        class_with_volumes = engine.cache.state.classes.with_volumes(
            pod_class, needs, batch.provided_resources
        )
        if class_with_volumes not in demands:
            demands[class_with_volumes] = ready.plugins.demand_of(needs)
        # A claim in use rejects every node before the limits are asked, wherever the volumes are.
        takes_devices = 0 if demands[class_with_volumes].devices is None else 1 + batch.shares_claim
        alike = batch.repeated_needs
        if pod.spec.volumes or engine.handle.extenders or engine.profile.has_units:
            alike = None  # other things than claims tell such pods apart
        return class_with_volumes, [] if batch.is_in_use else batch.shared_volumes, takes_devices, alike

    def _prepare(self, engine: Engine, batch: ClaimsOfBatch) -> _Memory | None:
        """Return what is known of pods, without what is out of date; None where plugins schedule all pods
        with volumes."""
        if not engine.may_leave_out_volumes:
            return None
        with engine.cache.lock:
            plugins, state = engine.profile.claim_plugins.awake(), engine.cache.state
            nodes, of_devices = engine.framework.all_nodes(), plugins.of_devices
            state.view.refresh()
            delegated = engine.profile.delegated_resources()
            engine.delegate(engine.plan, delegated)
            limits = next((plugin for plugin in plugins.plugins if type(plugin) is NodeVolumeLimits), None)
            limited = None if limits is None else limits.known_of(batch, nodes)
            version = (
                *(state.classes.generation, state.view.static_version),
                *(of_devices and of_devices.demand_version, delegated),
                limited and (limited.version, limited.installed),
            )
            memory = self._memories.get(engine)
            if memory is None or memory.version != version or len(memory.needs) >= MOST:
                memory = self._memories[engine] = _Memory(version, {}, plugins, nodes, limited)
                engine.search.states.volume_demands = {}
                engine.search.states.open_scope()  # failures of classes with other demands hold no longer
            memory.nodes, memory.limited, memory.bound, memory.is_described = nodes, limited, None, False
            return memory


def _bound_claims(engine: Engine, ready: _Memory, batch: ClaimsOfBatch) -> BoundClaims | None:
    limited = ready.limited
    if limited is None or limited.is_unsure:
        return None
    binding = next((plugin for plugin in ready.plugins.plugins if type(plugin) is VolumeBinding), None)
    sources = None if binding is None else binding.sources
    if sources is None:
        return None
    informers, in_use = (
        engine.handle.informers,
        engine.handle.derived(storage.volumes_in_use.VolumesInUse.of),
    )
    readers = (
        informers.informer(PersistentVolumeClaim).indexer.reader(),
        informers.informer(PersistentVolume).indexer.reader(),
        sources.pvc_cache.reader(),
        sources.pv_cache.reader(),
    )
    names = storage.claims.BIND_COMPLETED, READ_WRITE_ONCE_POD, TOPOLOGY_LABELS
    return BoundClaims(readers, names, in_use, batch, limited.attached is not None)


def _needs(engine: Engine, pod: Pod, pod_class: int, ready: _Memory, batch: ClaimsOfBatch) -> Needs | None:
    """Return the needs of a pod, which are those of an earlier pod with its class and description; None
    where they are not known."""
    if engine.handle.extenders and not engine.decides_alone(pod):
        return None
    if engine.profile.has_units and group_of(pod) is not None:
        return None
    if pod.spec.volumes and not ready.is_described:
        ready.bound, ready.is_described = _bound_claims(engine, ready, batch), True
    bound = ready.bound if pod.spec.volumes else None
    described = None if bound is None else bound.describe(pod)
    key = pod_class, described
    if bound is not None and described and key in ready.needs:
        shared = bound.take(batch.next_pod)
        if shared is not None:
            batch.shared_volumes = shared
            return ready.needs[key]
    if batch.exclusive and not batch.exclusive.isdisjoint(map(pod.claim_key, pod.spec.volumes)):
        return None
    needs = ready.plugins.needs_of(pod, ready.nodes, batch)
    if described and needs is not None and not (batch.is_in_use or batch.provided_resources):
        ready.needs[key] = needs
    return needs


def _leave_to_plugins(engine: Engine, pod: Pod, batch: ClaimsOfBatch) -> None:
    """Note what a pod uses that plugins will schedule."""
    exclusive = batch.exclusive
    batch.claims_to_write.pop(batch.next_pod, None)
    batch.allocated_for.update(dict.fromkeys(claim_keys(pod), -1))
    exclusive.update(filter(None, map(pod.claim_key, pod.spec.volumes)))
    with suppress(storage.claims.VolumeError):  # no node suits such a pod
        exclusive.update(
            engine.handle.derived(storage.volumes_in_use.VolumesInUse.of).attached.volumes_of_new_pod(pod)
        )
