"""Scheduler, what users hold: it places pods; its questions are in `ask`, and its changes in `change`.

No room below imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from moorage.cluster import ChangingScheduler

if TYPE_CHECKING:
    from .scheduler_questions import Questions


class Scheduler(ChangingScheduler):
    """Schedules the pods of a cluster as kube-scheduler with one worker (parallelism 1) does.

    Parameters
    ----------
    cluster : Cluster or ObjectClient, optional
        A Cluster, whose objects are written to a store of the scheduler's own (`client`), or a client of a
        store that others write to as well. Nodes and bound pods enter the cache through informers. Pods
        without a node are in ``pods.pending``, and are scheduled by `run`.
    profile : Profile, optional
        The only profile; by default kube-scheduler's.
    profiles : sequence of Profile, optional
        Several profiles, each for the pods with its scheduler name. All have the same queue order.
    config : path, bytes, mapping or KubeSchedulerConfiguration, optional
        A ``kubescheduler.config.k8s.io/v1`` configuration instead of profiles; see `load_configuration`.
    feature_gates : mapping of str to bool, optional
        Changes of the default gates of the release. Profiles that are passed here determine their plugins
        themselves, so only these gates have an effect on them: those for reading pods (PodLevelResources,
        InPlacePodLevelResourcesVerticalScaling, TaintTolerationComparisonOperators), OpportunisticBatching,
        GenericWorkload (the pods of a `PodGroup` are scheduled together), and WorkloadAwarePreemption (pods
        are evicted for a group that fits nowhere).
    registry : Registry, optional
        Plugins that the configuration may name besides the in-tree ones; by default those that installed
        packages offer (`installed_plugins`).
    percentage_of_nodes_to_score : int, optional
        0 (adaptive, the default) to 100, in place of the configuration's. The value of a profile takes
        precedence.
    tie_break : {"go-heap", "first", "random"}
        The choice among nodes of equal total. "go-heap": the node on top of Go's container/heap, as in
        kube-scheduler v1.35 and v1.36. "first": the first node found. "random": a random node, as up to
        v1.34.
    kubernetes_version : {"1.34", "1.35", "1.36", "1.37", "1.38"}
        The release of kube-scheduler that decides, the newest one a beta; `feature_gates` that were made
        for a release (`moorage.kube.releases.feature_gates`) have precedence. `tie_break` does not follow
        the release.
    seed : int
        Seed of the random tie-break.
    ttl : float, optional
        Seconds after which assumed pods expire, see `SchedulerCache`; by default they never do.
    clock : callable, optional
        Returns seconds: for `ttl`, for the timeouts of Permit, for the age of an opportunistic batch (0.5 s),
        and for the queue. By default, real time passes for the first two, batches do not age, and pods enter
        the queue at their creation timestamps (`CreationClock`). A clock that raises, or returns no finite
        number, raises ClockError; the pods that a run has popped by then return to the queue.
    wait : callable, optional
        Takes seconds, and lets them pass while pods are being bound and no other pod can be scheduled. By
        default real time passes. With a clock and without `wait` the scheduler does not wait: such pods are
        in `ScheduleResult.binding`, and `advance` continues with them. In a store of the scheduler's own,
        waiting takes no real time, and claims are bound and volumes provisioned at once
        (`SimulatedController`).
    threads : int, optional
        Number of threads that search very many nodes, 1 or more; at most one for each core of the process is
        used. By default the parallelism of the configuration, 16 without one. No result depends on it;
        docs/guide/performance.md says which searches they take part in.
    binding_threads : int, optional
        Number of threads that run PreBind and Bind beside the scheduling of other pods, for plugins and API
        servers that take real time; not with a Cluster, a clock or `wait`. By default 0 with an
        `ObjectStore`, otherwise 8. A plugin that only waits needs no thread (`PreBindPlugin`).
    controllers : bool
        Whether the controllers of workloads are simulated in a store of the scheduler's own, as with a
        Cluster: a pod of a ReplicaSet, StatefulSet, DaemonSet or Job that is evicted or deleted comes back, a
        changed Deployment is rolled out, and disruption budgets keep their status (`ClusterControllers`).
        With a client it has no effect, as others run them there.
    pod_times : PodTimes or callable
        How long a pod takes to start, to become ready and to stop, for the controllers; a function returns it
        for each pod.
    fail_fast : bool
        Whether an exception in a plugin, or an answer that is refused, ends the run and is raised, for
        debugging. By default it fails the pod in question, is logged once per plugin and type, and is counted
        (`plugin_errors`).
    measured : bool
        Whether `measure` begins before the first pod enters the queue.
    synced : bool
        Whether it is made once a client has listed all kinds; else the first `sync` waits for them. A Cluster
        is always read at once.

    Attributes
    ----------
    ask : Questions
        Questions: ``ask.explain``, ``ask.capacity``, ``ask.survive``, …
    change : ClusterChanges
        Changes of the cluster: ``change.apply``, ``change.drain``, ``change.scale``, …
    context : SchedulerState
        All that the scheduler consists of, which runs and cycles work on.
    client : ObjectClient
        The store.
    cache : SchedulerCache
    queue : SchedulingQueue
    handle : FrameworkHandle
        The handle of the plugins.
    engines : dict of str to Engine
        Scheduler name to the engine of its profile.
    metrics : SchedulerMetrics or None
        The result of `measure`; None before.
    """

    @property
    def ask(self) -> Questions:
        from .scheduler_questions import Questions

        return Questions(self)

    def __getattr__(self, name: str) -> NoReturn:
        """Say where a question or a change stands, or which name is the nearest."""
        hint = "" if name.startswith("_") else _place_of(name)  # tools ask for such names
        raise AttributeError(f"a Scheduler has no attribute {name!r}{hint}", name=name, obj=self)


def _place_of(name: str) -> str:
    from moorage.cluster import ClusterChanges
    from moorage.errors import nearest

    from .scheduler_questions import Questions

    for way, kind in (("ask", Questions), ("change", ClusterChanges)):
        if hasattr(kind, name):
            return f": it is {way}.{name}"
    return nearest(name, dir(Scheduler))
