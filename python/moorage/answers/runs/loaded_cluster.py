"""What runs of a command begin with: the scheduler of a cluster, and its pods in reading order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster.cluster_setup import write_change
from moorage.cluster.lacking_pods import with_objects
from moorage.controllers import PodTimes, Rollout
from moorage.controllers.availability import AwaitedPod
from moorage.controllers.store_control import workloads_of
from moorage.engine.framework.plugin_registry import Registry
from moorage.engine.plugins.registry import read_configuration
from moorage.errors import InputError
from moorage.kube import Cluster, DaemonSet, Node, Object, Pod
from moorage.kube.model.workload import WORKLOADS, ControllerRevision, Job, ReplicaSet, StatefulSet
from moorage.kube.read.deciding_release import deciding_release
from moorage.kube.read.files import read_file, source_name
from moorage.kube.read.read_objects import Listed
from moorage.kube.releases import FeatureGates, changed_gates, selected_gates
from moorage.kube.workloads.ownership import FINISHED, Workload, Workloads
from moorage.kube.workloads.stateful_pods import ordinals
from moorage.lazy import NamedTuple
from moorage.store import ResourceExpiredError, find_object
from moorage.store.protocol import WatchEvent

from ..findings.finding import Ground, LintFinding
from ..findings.told_findings import told_findings
from ..scheduler import Scheduler

if TYPE_CHECKING:
    from moorage.cluster.verbs import RequestedChange
    from moorage.engine.plugins.registry import ConfigurationSource
    from moorage.queues import Cycle

T = TypeVar("T", bound=Object)


_OTHER_KIND = r'no kind "(.*)" is registered for version "(.*)" in scheme ".*"'
_WITHOUT_KIND = "Object 'Kind' is missing in "


@contextmanager
def naming_other_kinds() -> Iterator[None]:
    """Say of a file that is no KubeSchedulerConfiguration what it is, where kube-scheduler names the place in
    its source that has no such kind.

    Raises
    ------
    InputError
    """
    try:
        yield
    except InputError as error:
        other = re.fullmatch(_OTHER_KIND, error.message)
        if other is None and not error.message.startswith(_WITHOUT_KIND):
            raise
        what = "no kind" if other is None else f"a {other[1]} of {other[2]}"
        expected = "expected a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1"
        raise InputError(f"{what}; {expected}", source=error.source) from None


class SchedulerSettings(Struct, frozen=True):
    """What is asked of a scheduler, whatever release decides.

    Attributes
    ----------
    config : str, path, bytes, mapping or KubeSchedulerConfiguration, optional
        See `read_configuration`.
    config_name : str
        Of the configuration in errors, where it is no file.
    registry : Registry, optional
        The plugins that it may name beside those in the tree; by default those of installed packages.
    gates : str
        Feature gates, as ``A=true,B=false``.
    version : str or None
        The release, of a run whose cluster tells none.
    percentage, tie_break, seed, pod_times
        See `Scheduler`.
    """

    config: ConfigurationSource | None = None
    gates: str = ""
    version: str | None = None
    percentage: int | None = None
    tie_break: str | None = None
    seed: int = 0
    pod_times: PodTimes | None = None
    config_name: str = ""
    registry: Registry | None = None

    def of(self, cluster: Cluster | None = None) -> dict[str, Any]:
        """Return the keyword arguments of a `Scheduler` of the release that decides for a cluster."""
        release = None if cluster is None else cluster.release
        return self.with_gates(
            selected_gates(self.gates, self.version if release is None else release.version)
        )

    def read_once(self) -> SchedulerSettings:
        """Return these settings for several releases: the configuration, which may be standard input, is
        read now."""
        if not isinstance(self.config, str):
            return self
        return replace(self, config=read_file(self.config), config_name=source_name(self.config))

    def with_gates(self, gates: FeatureGates) -> dict[str, Any]:
        """Return the keyword arguments of a `Scheduler` of the release of some gates."""
        config = self.config
        if config is not None:
            with naming_other_kinds():
                config = read_configuration(config, gates, self.config_name)
        return {
            "config": config,
            "registry": self.registry,
            "feature_gates": gates,
            "seed": self.seed,
            "percentage_of_nodes_to_score": self.percentage,
            "tie_break": self.tie_break or gates.release.tie_break,
            **({} if self.pod_times is None else {"pod_times": self.pod_times}),
        }


class ServerChecks:
    """What an API server checks of objects: one of a release, with its feature gates.

    Parameters
    ----------
    version : str or None
        The release; None for the one that decides for a cluster.
    gates : str or None
        Feature gates, as ``A=true,B=false``; None where all of them may be on.
    """

    def __init__(self, version: str | None, gates: str | None) -> None:
        from moorage.engine.devices.device_properties import SelectorValidation
        from moorage.kube.admission.validate_object import GATE, refuse_comparisons

        self._selectors, self._version, self._gates = SelectorValidation(), version, gates or ""
        self._checks: list[Callable[[Object], None]] = [self._selectors.check]
        if not (gates is None or changed_gates(gates).get(GATE, False)):  # off in every release
            self._checks.append(refuse_comparisons)

    def __call__(self, obj: Object) -> None:
        """Raise an InputError about an object that is valid otherwise."""
        for check in self._checks:
            check(obj)

    @property
    def warnings(self) -> list[str]:
        """About the objects so far."""
        return self._selectors.warnings

    def gates(self, cluster: Cluster) -> FeatureGates:
        """Return the feature gates for a cluster, with the release that decides."""
        release = cluster.release or deciding_release(cluster, self._version)
        return selected_gates(self._gates, release.version)


class PreparedInput:
    """Objects that were read elsewhere, in place of a file, with what commands have made of them; None for
    those of the file itself.

    A process that answers many commands prepares it once, and forks for each of them.
    """

    def __init__(self, listed: Listed | None) -> None:
        self.listed = listed
        self._kept: list[tuple[object, Any]] = []
        self._taken: list[Any] = []  # to free it would copy it: a fork ends without that

    def keep(self, key: object, what: object) -> None:
        """Keep what depends on a key alone."""
        self._kept.append((key, what))

    def take(self, key: object) -> Any:
        """Return what was kept for an equal key, once, as a command may change it; None without it."""
        at = next((at for at, (kept, _) in enumerate(self._kept) if kept == key), None)
        if at is None:
            return None
        self._taken.append(self._kept.pop(at)[1])
        return self._taken[-1]


class PodsInOrder(Mapping[str, Pod]):
    """Pods by ``namespace/name``: those that were read, in their order, then new ones.

    Most of them never change, and what is asked about the others does not look at those.
    """

    def __init__(self, pods: dict[str, Pod]) -> None:
        self.read, self._places = pods, {key: at for at, key in enumerate(pods)}
        self._pending = [key for key, pod in pods.items() if not pod.spec.node_name]
        self._take({}, ())

    def changed(self, now: Mapping[str, Pod | None]) -> PodsInOrder:
        """Return them after other changes."""
        return self._with(now, sorted(now))

    def joined(self, now: Mapping[str, Pod | None]) -> PodsInOrder:
        """Return them with others that were read later: new pods in this order."""
        return self._with(now, now)

    def _with(self, now: Mapping[str, Pod | None], order: Iterable[str]) -> PodsInOrder:
        other = type(self).__new__(type(self))
        other.read, other._places, other._pending = self.read, self._places, self._pending
        other._take(now, (*self.new, *order))
        return other

    def _take(self, now: Mapping[str, Pod | None], order: Iterable[str]) -> None:
        self._now = {key: pod for key, pod in now.items() if key in self.read}
        new = ((key, now.get(key)) for key in order if key not in self.read)
        self.new = {key: pod for key, pod in new if pod is not None}
        self._numbers = {key: at for at, key in enumerate(self.new, len(self.read))}
        self._gone = sum(pod is None for pod in self._now.values())

    def __getitem__(self, key: str) -> Pod:
        pod = self._now[key] if key in self._now else self.read.get(key) or self.new[key]
        if pod is None:
            raise KeyError(key)
        return pod

    def __iter__(self) -> Iterator[str]:
        gone = {key for key, pod in self._now.items() if pod is None}
        yield from (key for key in self.read if key not in gone) if gone else self.read
        yield from self.new

    def __len__(self) -> int:
        return len(self.read) - self._gone + len(self.new)

    def in_order(self, keys: Iterable[str]) -> list[str]:
        """Return the keys of pods among some, in the order of the pods."""
        places, numbers = self._places, self._numbers
        placed = [(places.get(key, numbers.get(key, 0)), key) for key in {*keys} if key in self]
        return [key for _, key in sorted(placed)]

    @property
    def pending(self) -> list[str]:
        """The keys of the pods without a node, in their order."""
        changed = (*self._now, *self.new)
        return [key for key in self.in_order((*self._pending, *changed)) if not self[key].spec.node_name]


class ChangedPods(NamedTuple):
    """Pods as they were, which may have gone; and pods that had no node then, as they are now."""

    before: Iterable[Pod]
    new: Collection[Pod]


class LoadedCluster:
    """A cluster with a scheduler that nobody has used.

    Attributes
    ----------
    pods : PodsInOrder
        The pods that have not finished, in reading order, then as workloads made them.
    waiting : set of str
        See `waiting_pods`; and the workloads that wait in queues.
    decided : sequence of Cycle
        What Kueue decided before any change.
    waited : collection of str
        What was waiting then, of what this cluster is compared with.
    """

    def __init__(self, cluster: Cluster, settings: Mapping[str, Any]) -> None:
        self.cluster, self.settings = cluster, settings
        self.scheduler = Scheduler(cluster, **settings)
        self._whole, self._ground = cluster, Ground(cluster)
        self.pods = self._listed = PodsInOrder({pod.key: pod for pod in self.completed.pods})
        self.waiting = waiting_pods(self.completed, self._listed.read)
        self.decided: Sequence[Cycle] = ()
        self.waited: Collection[str] = ()
        if (queues := self.scheduler.ask.queues()) is not None:
            from ..queues.queued_workloads import waiting_workloads  # few clusters have Kueue

            self.waiting |= {each.mark for each in waiting_workloads(queues, ())}
            self.decided = queues.cycles if cluster.change is None else ()
        there = chain(self.completed.pods, self.completed.finished)
        self._namespaces = {pod.metadata.namespace for pod in there}
        self._version = self.version(self.scheduler)
        self._since: tuple[object, dict[str, Mapping[str, Pod | None]]] = None, {}

    def change(self, cluster: Cluster) -> bool:
        """Go on with what has changed the cluster; return whether it is known what this has written."""
        if cluster.change is None or cluster.change.before is not self.cluster:
            return False
        write_change(self.scheduler.context, self.scheduler.sleeping_controllers, cluster)
        events = _events(self.scheduler, Pod, self._version)
        if events is None:
            return False
        keys = dict.fromkeys(event.object.key for event in events)
        self.pods = self._listed.joined({key: _unfinished(self.scheduler, key) for key in keys})
        self._whole = cluster
        self._completed_before = self.__dict__.pop("completed", None)  # to free it would copy it, in a fork
        self._ground = Ground(cluster, self._ground)
        self.__dict__.pop("facts", None)
        return True

    @cached_property
    def completed(self) -> Cluster:
        """The cluster, with what has changed it, and what controllers have made at once."""
        return with_objects(self._whole, self.scheduler.client)

    @cached_property
    def facts(self) -> list[LintFinding]:
        """What the objects of the cluster, and of what has changed it, say of themselves."""
        return told_findings(self._ground)

    @staticmethod
    def version(scheduler: Scheduler) -> str:
        """Return how far the writes to the store of a scheduler have come."""
        return scheduler.client.list(Job)[1]

    def since(self, scheduler: Scheduler, version: str = "") -> Mapping[str, Pod | None]:
        """Return the pods that were written since a version, or since the beginning, as they are now; None
        for those that have finished or are gone."""
        store, version = scheduler.store, version or self._version
        assert store is not None
        state = id(store), store.changes
        if self._since[0] != state:
            self._since = state, {}
        if version not in self._since[1]:
            events = _events(scheduler, Pod, version)
            written = {event.object.key for event in events} if events is not None else {*self._listed}
            if events is None:
                written |= {pod.key for pod in store.list(Pod)[0]}
            self._since[1][version] = {key: _unfinished(scheduler, key) for key in sorted(written)}
        return self._since[1][version]

    def changed_pods(self, scheduler: Scheduler, listed: Sequence[Pod]) -> ChangedPods:
        """Return which pods may have gone or come since a cluster was listed.

        Parameters
        ----------
        listed : sequence of Pod
            Its pods that had not finished: those of this cluster, or of an earlier one.
        """
        if listed is self.cluster.pods:
            written = self.since(scheduler)
            before = [*self._lost, *map(self._listed.__getitem__, self._listed.in_order(written))]
            now = [_unfinished(scheduler, key) for key in self._listed.in_order(self._listed.pending)]
            now += [pod for pod in written.values() if pod is None or self._is_new(pod)]
            return ChangedPods(before, {pod.key: pod for pod in now if pod is not None}.values())
        uids = {pod.metadata.uid for pod in listed if pod.spec.node_name}
        stored: list[Pod] = scheduler.client.list(Pod)[0]
        return ChangedPods(listed, [pod for pod in stored if pod.metadata.uid not in uids])

    def listed(self, key: str) -> Pod | None:
        """Return a pod as it was before any change."""
        return self._listed.get(key)

    def loses_pods(self) -> bool:
        """Whether a later file or a change has taken pods from nodes."""
        return any(
            (old := self.listed(key)) is not None and is_running(old) and (now is None or not is_running(now))
            for key, now in self.since(self.scheduler).items()
        )

    def _is_new(self, pod: Pod) -> bool:
        """Whether a pod had no node at the beginning."""
        old = self._listed.get(pod.key)
        return old is None or old.metadata.uid != pod.metadata.uid or not old.spec.node_name

    @cached_property
    def _lost(self) -> list[Pod]:
        """The listed pods that controllers have deleted at once."""
        uids = {pod.metadata.uid for pod in self._listed.read.values()}
        return [pod for pod in self.cluster.pods if pod.metadata.uid not in uids]

    def look_ahead(self) -> None:
        """Find now what is found when it is needed otherwise."""
        if self.cluster.siblings is not None:
            self.cluster.siblings.look_ahead()
        self.cluster.pods_by_owner.of_template("", "")
        for name in ("running", "_lost", "_rollouts", "_awaited", "facts"):
            getattr(self, name)
        classes = self.scheduler.cache.state.classes
        for pod_class in range(len(classes)):
            classes.labels_of(pod_class)
        owned = (pod for pod in self._listed.values() if pod.metadata.controller() is not None)
        for pod in (Pod(), *islice(owned, 1)):
            if pod.spec.scheduler_name in self.scheduler.engines:
                meta = replace(pod.metadata, name="any", uid="")
                self.scheduler.examine(replace(pod, metadata=meta, spec=replace(pod.spec, node_name="")))

    def rollouts(self, scheduler: Scheduler) -> list[Rollout]:
        """Return `Questions.rollouts` after changes."""
        scheduler.sync()
        if scheduler.controllers is None:
            return []
        written = self._written_workloads(scheduler)
        if written is None:
            return scheduler.controllers.rollouts()
        kept = [rollout for rollout in self._rollouts if tuple(rollout.workload.split(" ")) not in written]
        rollouts = [*kept, *scheduler.controllers.rollouts(written)]
        return sorted(rollouts, key=lambda rollout: _turn(*rollout.workload.split(" ")))

    def awaited_pods(self, scheduler: Scheduler) -> list[Pod]:
        """Return `Questions.awaited_pods` after changes."""
        scheduler.sync()
        if scheduler.controllers is None:
            return []
        written = self._written_workloads(scheduler)
        kept = [] if written is None else [waiting for waiting in self._awaited if waiting[:2] not in written]
        awaited = [*kept, *scheduler.controllers.awaited_pods(written)]
        awaited.sort(key=lambda waiting: _turn(waiting.kind, waiting.workload))
        refused = {pod.pod.key for pod in scheduler.ask.refused_pods()}
        return [waiting.pod for waiting in awaited if waiting.pod.key not in refused]

    def _written_workloads(self, scheduler: Scheduler) -> Collection[tuple[str, str]] | None:
        """Return kind and key of the workloads that were written since the beginning, or that have, or had,
        something that was; of all DaemonSets if nodes were. None stands for all."""
        written = set[tuple[str, str]]()
        kinds: tuple[type[Object], ...] = (Pod, ControllerRevision, *WORKLOADS)
        for kind in kinds:
            events = _events(scheduler, kind, self._version)
            if events is None:
                return None
            for obj in chain.from_iterable((event.object, event.old) for event in events):
                written |= set() if obj is None else {(kind.__name__, obj.key), *_owner_of(obj)}
        sets = [_stored(scheduler, ReplicaSet, key) for kind, key in written if kind == ReplicaSet.__name__]
        written |= {
            owner for replica_set in sets if replica_set is not None for owner in _owner_of(replica_set)
        }
        if _events(scheduler, Node, self._version) != []:
            daemon_sets: list[DaemonSet] = scheduler.client.list(DaemonSet)[0]
            written |= {(daemon_set.kind, daemon_set.key) for daemon_set in daemon_sets}
        return written

    @cached_property
    def _rollouts(self) -> list[Rollout]:
        return self.scheduler.ask.rollouts()

    @cached_property
    def _awaited(self) -> list[AwaitedPod]:
        controllers = self.scheduler.controllers
        return [] if controllers is None else controllers.awaited_pods()

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that have, or had, pods."""
        written = (key.partition("/")[0] for key in self.since(self.scheduler))
        return sorted({*self._namespaces, *written})

    @cached_property
    def workloads(self) -> Workloads:
        """The workloads of the pods."""
        return workloads_of(self.scheduler.client)

    @cached_property
    def running(self) -> Counter[Workload]:
        """Number of pods on nodes by workload, without those that are being deleted."""
        pods = (pod for pod in self._listed.read.values() if is_running(pod))
        return Counter(map(self.workloads.of, pods))


def hold_queues(scheduler: Scheduler, held: bool) -> None:
    """Let Kueue decide nothing until it is held no more, as more is to change at the same moment."""
    if scheduler.sleeping_controllers is not None:
        scheduler.sleeping_controllers.holds_queues = held


def begin(
    cluster: Cluster,
    settings: Mapping[str, Any],
    first: LoadedCluster | None = None,
    changes: Sequence[RequestedChange] = (),
    prepared: Iterable[PreparedInput] = (),
) -> LoadedCluster:
    """Return what runs over a cluster begin with.

    Parameters
    ----------
    first : LoadedCluster, optional
        Of what came before the last files; it goes on with these, if it can.
    changes : sequence of RequestedChange, optional
        What is to change next; Kueue waits for it.
    prepared : iterable of PreparedInput, optional
        What may have it already.
    """
    if (change := cluster.change) is not None:
        if first is None or first.cluster is not change.before:
            first = begin(change.before, settings, prepared=prepared)
        hold_queues(first.scheduler, bool(changes))
        return first if first.change(cluster) else LoadedCluster(cluster, settings)
    key = id(cluster), settings
    kept = (loaded for held in prepared if (loaded := held.take(key)) is not None)
    return next(kept, None) or LoadedCluster(cluster, settings)


def _events(scheduler: Scheduler, kind: type[T], version: str) -> list[WatchEvent[T]] | None:
    """Return what was written of a kind since a version; None if nobody knows any more."""
    assert scheduler.store is not None
    with suppress(ResourceExpiredError), scheduler.store.watch(kind, resource_version=version) as watch:
        return watch.poll()
    return None


def _stored(scheduler: Scheduler, kind: type[T], key: str) -> T | None:
    """Return an object as it is now."""
    namespace, _, name = key.rpartition("/")
    return find_object(scheduler.client, kind, name, namespace)


def _unfinished(scheduler: Scheduler, key: str) -> Pod | None:
    """Return a pod as it is now; None if it has finished or is gone."""
    pod = _stored(scheduler, Pod, key)
    return None if pod is None or pod.status.phase in FINISHED else pod


def _owner_of(obj: Object) -> Iterator[tuple[str, str]]:
    """Yield kind and key of what controls an object."""
    if (owner := obj.metadata.controller()) is not None:
        yield owner.kind, f"{obj.namespace}/{owner.name}"


def _turn(kind: str, key: str) -> tuple[int, str]:
    """Return what workloads are sorted by."""
    return ("Deployment", "StatefulSet", "DaemonSet", "Rollout", "Job").index(kind), key


def waiting_pods(cluster: Cluster, pods: Mapping[str, Pod]) -> set[str]:
    """Return the pods of a cluster that wait for a node, those of StatefulSets that wait for other pods to be
    available, or gone, and the workloads that are not simulated.

    Returns
    -------
    set of str
        Each as `PodOutcome.key`.
    """
    sets = [obj for obj in cluster.others if isinstance(obj, StatefulSet)]
    ordered = {
        f"{stateful_set.namespace}/{stateful_set.name}-{at}"
        for stateful_set in sets
        for at in ordinals(stateful_set)
    }
    waiting = {key for key, pod in pods.items() if not is_running(pod)}
    return waiting | (ordered - pods.keys()) | {obj.mark for obj in cluster.left_out}


def is_running(pod: Pod) -> bool:
    """Whether a pod has a node, and is not being deleted."""
    return bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None
