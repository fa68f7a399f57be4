"""The classes of pods with volumes that the core places without the plugins about volumes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from moorage._core.decide.pod_batch import END
from moorage._core.services.claims_of_pods import claim_keys
from moorage.framework.plugin.nodes_view import NodesView
from moorage.framework.profiles.in_core import NO_RESOURCES, FixedNeeds, VolumesOfBatch
from moorage.framework.profiles.profile import Profile
from moorage.objects import Object, PersistentVolume, PersistentVolumeClaim
from moorage.objects.model.pod import Pod, PodSpec
from moorage.objects.model.pod_group import group_of
from moorage.plugins.volume_restrictions import IN_USE
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Decision
from moorage.volume.binding.claims import VolumeError
from moorage.volume.usage.in_use import VolumesInUse

CLAIMS_AND_VOLUMES: tuple[type[Object], ...] = (PersistentVolumeClaim, PersistentVolume)
Answer = tuple[int, list[tuple[int, int, int]], int]
"""See `VolumeClasses.__call__`."""
MOST_PODS = 1 << 16
"""The number of pods whose needs are kept."""


class VolumeClasses:
    """Finds the classes of the pods of one batch whose volumes are bound.

    For these pods a `VolumeDemand` of the class takes the place of the filters about volumes. What is known
    holds until events about claims and volumes are processed.

    Parameters
    ----------
    engine_of : callable
        Returns the engine of a pod's profile.
    """

    def __init__(self, engine_of: Callable[[Pod], Engine]) -> None:
        self._engine_of = engine_of
        self._batch = VolumesOfBatch()
        self._ready: dict[Engine, tuple[Profile, NodesView] | None] = {}
        self._versions: dict[Engine, tuple[int, ...]] = {}  # of the demands of each engine
        # What is known of pods, with the versions of what that depends on: by UID, those that no plugin about
        # volumes restricts, and what needs of all others do not depend on other pods.
        self._known: dict[Engine, tuple[tuple[int, ...], dict[str, PodSpec], dict[str, FixedNeeds]]] = {}
        self._asked: Hashable = None  # engine, class, needs and provided resources of the latest pod
        self._found = -1  # its class with volumes
        self._alike: tuple[int, Answer] = -1, (-1, [], 0)  # what the pods of `VolumesOfBatch.alike` get
        self._in_use: VolumesInUse | None = None
        self._released = 0  # `VolumesInUse.released` when the first pod of the batch got a demand

    def begin(self) -> VolumeClasses:
        """Begin a batch.

        Returns
        -------
        VolumeClasses
            The object itself.
        """
        if self._ready:
            self._batch, self._ready, self._in_use, self._asked = VolumesOfBatch(), {}, None, None
        return self

    def __call__(self, pod: Pod, pod_class: int, at: int) -> Answer:
        """Return the class of the next pod with volumes.

        Parameters
        ----------
        pod : Pod
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
        """
        engine, batch = self._engine_of(pod), self._batch
        if engine not in self._ready:
            self._ready[engine] = self._prepare(engine)
        known = self._ready[engine]
        if batch.alike is not None and pod_class == self._alike[0] and batch.alike.note(pod, at):
            return self._alike[1]
        batch.alike = None
        uid, unrestricted = pod.metadata.uid, self._known[engine][1]
        if unrestricted.get(uid) is pod.spec and not batch.exclusive:
            return pod_class, [], 0
        batch.at, batch.shared, batch.follows, batch.provided = at, [], False, NO_RESOURCES
        needs = None if known is None else self._needs(engine, pod, *known)
        if batch.ends:
            return END, [], 0
        if needs is None or known is None:
            self._leave_to_plugins(engine, pod)
            return -1, [], 0
        if not any(needs):
            if not (batch.exclusive or batch.users):
                unrestricted[uid] = pod.spec
            return pod_class, [], 0
        if self._in_use is None and pod.spec.volumes:
            self._in_use = engine.handle.derived(VolumesInUse.of)
            self._in_use.refresh()
            self._released = self._in_use.released
        demands = engine.search.states.volume_demands
        asked = engine, pod_class, needs, batch.provided
        if asked == self._asked:  # as by the pod before
            found = self._found
        else:
            found = engine.cache.state.classes.with_volumes(pod_class, needs, batch.provided)
            if found not in demands:
                demands[found] = known[0].volume_demand(needs)
            self._asked, self._found = asked, found
        # A claim in use rejects every node before the limits are asked, wherever the volumes are.
        takes_devices = 0 if demands[found].devices is None else 1 + batch.follows
        answer = found, [] if IN_USE in needs else batch.shared, takes_devices
        if pod.spec.volumes or engine.handle.extenders or engine.profile.has_units:
            batch.alike = None  # other things than claims tell such pods apart
        else:
            self._alike = pod_class, answer
        return answer

    @property
    def claiming(self) -> dict[int, Any]:
        """The pods of the batch with resource claims that the core places; see `VolumesOfBatch`."""
        return self._batch.claiming

    def fails_alike(self, decision: Decision) -> bool:
        """Whether the pods of a class that share no volumes with others all fail as one of them did, while
        the cluster stays as it is.

        Parameters
        ----------
        decision : Decision
            Of the plugins, for a pod of the batch.

        Returns
        -------
        bool
            False if pods might be evicted for the pod, or a claim has become free since the batch began.
        """
        if self._in_use is None or decision.diagnosis is None or not decision.diagnosis.futile_plugins:
            return False
        self._in_use.refresh()
        return self._in_use.released == self._released

    def follow(self) -> None:
        """Count the volumes of pods that plugins have placed since the batch began, before pods with a demand
        are placed."""
        if self._in_use is not None:
            self._in_use.refresh()

    def _prepare(self, engine: Engine) -> tuple[Profile, NodesView] | None:
        """Drop demands that are out of date; return the profile whose volume plugins decide, and the nodes;
        None where plugins schedule all pods with volumes."""
        deciding = engine.deciding(True)
        self._known.setdefault(engine, ((), {}, {}))
        if deciding is engine or not deciding.may_leave_out_volumes:
            return None
        with engine.cache.lock:
            profile = deciding.profile
            engine.cache.state.view.refresh()
            versions = [plugin.demand_version for plugin in profile.volume_plugins]
            version = engine.cache.state.view.static_version, *versions
            engine.delegate(profile.delegated_resources())
            if version != self._versions.get(engine):
                self._versions[engine], engine.search.states.volume_demands = version, {}
                engine.search.states.open_scope()  # failures of classes with other demands hold no longer
            changes = [engine.handle.informers.lister(kind).changes for kind in CLAIMS_AND_VOLUMES]
            needs_version = *version, *changes, *[one.needs_version for one in profile.volume_plugins]
            known, unrestricted, fixed = self._known[engine]
            if needs_version != known or max(len(unrestricted), len(fixed)) >= MOST_PODS:
                self._known[engine] = needs_version, {}, {}
            return profile, engine.framework.all_nodes()

    def _needs(
        self, engine: Engine, pod: Pod, profile: Profile, nodes: NodesView
    ) -> tuple[Hashable, ...] | None:
        exclusive = self._batch.exclusive
        if engine.handle.extenders and not engine.decides_alone(pod):
            return None
        if engine.profile.has_units and group_of(pod) is not None:
            return None
        if exclusive and not exclusive.isdisjoint(map(pod.claim_key, pod.spec.volumes)):
            return None
        return profile.volume_needs(pod, nodes, self._batch, self._known[engine][2])

    def _leave_to_plugins(self, engine: Engine, pod: Pod) -> None:
        """Note what a pod uses that plugins will schedule."""
        exclusive = self._batch.exclusive
        self._batch.claiming.pop(self._batch.at, None)
        self._batch.allocated.update(dict.fromkeys(claim_keys(pod), -1))
        exclusive.update(filter(None, map(pod.claim_key, pod.spec.volumes)))
        with suppress(VolumeError):  # no node suits such a pod
            exclusive.update(engine.handle.derived(VolumesInUse.of).attached.volumes_of_new_pod(pod))
