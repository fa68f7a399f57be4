"""Scheduler: cycles over a cluster, one pod at a time or all pending pods in queue order."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from itertools import groupby

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.cycle import Cycle, TieBreak
from moorage._core.node_table import NodeTable
from moorage._core.pod_class import Shape
from moorage.cache import SchedulerCache
from moorage.framework.interface import PRE_ENQUEUE, QUEUE_SORT
from moorage.framework.profile import Profile
from moorage.objects.cluster import Cluster
from moorage.objects.node import Namespace, Node
from moorage.objects.pod import Pod
from moorage.objects.workload import ReplicaSet, ReplicationController, Service, StatefulSet
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.registry import default_profile
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.store import ApiError, InformerFactory, ObjectClient, ObjectStore

from .diagnosis import Diagnosis, count_verdicts
from .event_handlers import NamespaceHandler, NodeHandler, PodHandler, WorkloadHandler
from .examine import examine
from .explain import explain
from .explanation import Explanation
from .points import PreFilterRun, run_pre_filters, run_pre_scores
from .results import Decision, Examination, Failure, Result
from .unbuilt import UnbuiltUses

TIE_BREAKS = {"first": TieBreak.FIRST, "random": TieBreak.RANDOM, "go-heap": TieBreak.GO_HEAP}
WORKLOADS = (Service, ReplicationController, ReplicaSet, StatefulSet)
NOTHING = Cluster()
NO_ROWS = np.zeros(0, dtype=np.int32)

# A pod's class, the symbol of the node that it names and of the one that it is pinned to.
Target = tuple[int, int, int]


class Scheduler:
    """Decides for the pods of a cluster as kube-scheduler v1.36.2 with one worker does.

    Parameters
    ----------
    cluster : Cluster or ObjectClient, optional
        Objects, which go into a store of the scheduler's own (`client`), or a store that others write too.
        Nodes and bound pods enter the cache through informers; pods without a node are what `run` places and
        binds.
    profile : Profile, optional
        Default: kube-scheduler's own.
    percentage_of_nodes_to_score : int
        0 (adaptive, the default) to 100; a profile's own value goes first.
    tie_break : {"first", "random", "go-heap"}
        Among nodes of equal total: the first found; a seeded random one (as up to v1.34); the one that Go's
        heap puts on top (v1.35 and v1.36, parity).
    seed : int
        For the random tie-break.
    strict : bool
        Raise NotBuiltError for a pod that uses a plugin that is not built yet, instead of leaving that out.
    ttl, clock
        When assumed pods expire, see `SchedulerCache`; never by default.
    """

    def __init__(
        self,
        cluster: Cluster | ObjectClient = NOTHING,
        *,
        profile: Profile | None = None,
        percentage_of_nodes_to_score: int = 0,
        tie_break: str = "first",
        seed: int = 0,
        strict: bool = False,
        ttl: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if tie_break not in TIE_BREAKS:
            raise ValueError(f"tie_break {tie_break!r}: one of {', '.join(TIE_BREAKS)}")
        self.profile = profile or default_profile()
        percentage = self.profile.percentage_of_nodes_to_score
        percentage = percentage_of_nodes_to_score if percentage is None else percentage
        if not 0 <= percentage <= 100:
            raise ValueError(f"percentage_of_nodes_to_score {percentage}: 0 (adaptive) to 100")
        self.cache = SchedulerCache(ttl, clock)
        self.plan = self.profile.compile(self.cache.state)
        self.cycle = Cycle(
            self.cache.state, self.plan, TIE_BREAKS[tie_break], percentage, seed & 0xFFFFFFFFFFFFFFFF
        )
        self.failures: dict[Target, tuple[int, Failure]] = {}  # with the head of the change log at that time
        self.unbuilt = UnbuiltUses(self.profile, strict)
        self.pods = PodHandler(self.cache, self.unbuilt)
        self.client = ObjectStore(_newest(cluster)) if isinstance(cluster, Cluster) else cluster
        self.informers = self._watch()
        self.sync()
        if isinstance(cluster, Cluster) and isinstance(self.client, ObjectStore):
            # Only now, so that the objects arrive in their order and not in that of a list.
            self.client.create_many((*cluster.namespaces, *cluster.nodes, *cluster.others, *cluster.pods))
            self.sync()

    def _watch(self) -> InformerFactory:
        informers = InformerFactory(self.client)
        informers.informer(Namespace).add_event_handler(NamespaceHandler(self.cache))
        informers.informer(Node).add_event_handler(NodeHandler(self.cache))
        for kind in WORKLOADS:
            informers.informer(kind).add_event_handler(WorkloadHandler(self.cache))
        informers.informer(Pod).add_event_handler(self.pods)
        return informers

    def sync(self) -> None:
        """Take over everything that the store has to tell."""
        while self.informers.run_once():
            self.pods.confirm()

    @property
    def table(self) -> NodeTable:
        """The node table: ``table.allocatable["cpu"]``, ``table.requested[...]``, ``table.names`` by row."""
        return self.cache.state.table

    def view_order(self) -> list[str]:
        """Node names in the order in which a cycle that began now would list them."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.node_names()

    def view_rows(self) -> npt.NDArray[np.int32]:
        """Rows of the node table in that order."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.rows()

    def _nodes_in_view(self) -> int:
        self.cache.state.view.refresh()
        return self.cache.state.view.size

    # ---- one pod -------------------------------------------------------------------------------------------

    def examine(self, pod: Pod) -> Examination:
        """Filter every node and score all feasible ones, without sampling and without placing the pod."""
        self.unbuilt.note(pod, self.cache.state.classes.intern(pod))
        with self.cache.lock:
            return examine(self, pod)

    def explain(self, pod: Pod | str) -> Explanation:
        """Explain where a pod would go now, or why it fits nowhere and what would change that.

        Every filter is asked about every node, every feasible node is scored, and for a pod that fits nowhere
        single changes are tried out on the engine itself. Nothing of that stays.

        Parameters
        ----------
        pod : Pod or str
            A pod, or the ``namespace/name`` of one of the cluster. One that is on a node is explained as if
            it were not: without what it uses there.

        Raises
        ------
        ApiError
            There is no pod of this name.
        """
        if isinstance(pod, str):
            namespace, _, name = pod.rpartition("/")
            pod = self.client.get(Pod, name, namespace)
        self.unbuilt.note(pod, self.cache.state.classes.intern(pod))
        return explain(self, pod, self._not_ours(pod))

    def schedule_one(self, pod: Pod) -> Decision:
        """One cycle: search, choose, assume the pod on the chosen node."""
        target = self.classify(pod)
        self.unbuilt.note(pod, target[0])
        with self.cache.lock:
            return self._schedule(pod, target)

    def _schedule(self, pod: Pod, target: Target) -> Decision:
        shape = self.cache.state.classes.shape_of(target[0])
        ran = run_pre_filters(self.profile, pod, shape, self.cycle.terms_of(target[0], target[2]))
        nodes = self._nodes_in_view()
        if ran.rejection is not None or nodes == 0:
            return self._no_search(Diagnosis(nodes, self.profile, shape, pre_filter=ran.rejection))
        row, start, evaluated, positions, totals = self.cycle.decide(*target)
        _, error = run_pre_scores(self.profile, pod, shape, self.cycle.terms_of(target[0], target[2])) if len(positions) > 1 else ((), "")
        node = None if row < 0 or error else self.table.row_name(row)
        diagnosis = self._diagnose(target, shape, ran) if row < 0 else None
        if node is not None:
            self.cache.assume_pod(replace(pod, spec=replace(pod.spec, node_name=node)))
        return Decision(
            node, start, self.cycle.start, evaluated, positions, totals, self.view_order, diagnosis, error
        )

    def classify(self, pod: Pod) -> Target:
        """A pod's class, and the symbols of the node it names and of the one it is pinned to (0: none)."""
        state = self.cache.state
        pod_class = state.classes.intern(pod)
        node_name = state.symbols.intern(pod.spec.node_name) if pod.spec.node_name else 0
        return pod_class, node_name, state.classes.pinned_symbol(pod_class, pod)

    def _no_search(self, diagnosis: Diagnosis) -> Decision:
        start = self.cycle.start
        error = "" if diagnosis.nodes else diagnosis.message()
        return Decision(None, start, start, 0, NO_ROWS, None, self.view_order, diagnosis, error)

    def _diagnose(self, target: Target, shape: Shape, ran: PreFilterRun) -> Diagnosis:
        _, verdicts = self.cycle.verdicts(*target)
        counts = count_verdicts(verdicts)
        return Diagnosis(self._nodes_in_view(), self.profile, shape, verdicts=counts, absent=ran.absent)

    # ---- many pods -----------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Place every pending pod of the cluster, in queue order: higher priority first, then older."""
        self.sync()
        result = Result()
        ours = []
        for pod in self.pods.pending.values():
            why = self._not_ours(pod)
            if why:
                result.skipped[pod.key] = why
            elif not self.cache.state.has_pod(pod):
                ours.append(pod)
        sorter = next(p for p in self.profile.at(QUEUE_SORT) if isinstance(p, PrioritySort))
        classified = [(self.classify(pod), pod) for pod in sorted(ours, key=sorter.key)]
        for target, pod in classified:
            self.unbuilt.note(pod, target[0])
        for target, group in groupby(classified, key=lambda item: item[0]):
            with self.cache.lock:  # not over the whole: informers take it too, after a lock of their own
                self._place_run([pod for _, pod in group], target, result)
        self._bind(result)
        result.warnings.extend(self.unbuilt.warnings())
        return result

    def _bind(self, result: Result) -> None:
        """Bind what was placed, in bulk where the store can. A pod whose binding is refused is taken back."""
        pods = [self.pods.pending[key] for key in result.placements]
        self.pods.binding = {pod.metadata.uid for pod in pods}
        try:
            if isinstance(self.client, ObjectStore):
                self.client.bind_many(pods, result.placements.values())
                pods = []
        except ApiError:
            pass  # nothing is bound: somebody else was faster with one of them
        for pod in pods:
            try:
                self.client.bind(pod, result.placements[pod.key])
            except ApiError as error:
                self.cache.forget_pod(self.cache.get_pod(pod))
                del result.placements[pod.key]
                result.unschedulable[pod.key] = Failure(error=str(error))
        self.sync()
        self.pods.binding = set()

    def _not_ours(self, pod: Pod) -> str:
        if pod.metadata.deletion_timestamp:
            return "terminating"
        if pod.spec.scheduler_name not in ("", self.profile.scheduler_name):
            return "other scheduler"
        gates = [p for p in self.profile.at(PRE_ENQUEUE) if isinstance(p, SchedulingGates)]
        return "gated" if any(plugin.pre_enqueue(pod) for plugin in gates) else ""

    def _place_run(self, pods: list[Pod], target: Target, result: Result) -> None:
        """Place pods that are equal to a decision."""
        began = time.perf_counter()
        shape = self.cache.state.classes.shape_of(target[0])
        _, error = run_pre_scores(self.profile, pods[0], shape, self.cycle.terms_of(target[0], target[2]))
        if error:
            self._place_erring(pods, target, result)
        else:
            rows, failure = self._decide_run(pods, target, shape)
            for pod, row in zip(pods, rows.tolist(), strict=False):
                result.placements[pod.key] = self.table.row_name(row)
            for pod in pods[len(rows) :]:
                result.unschedulable[pod.key] = failure
        result.seconds += time.perf_counter() - began

    def _place_erring(self, pods: list[Pod], target: Target, result: Result) -> None:
        """Pods whose PreScore fails the cycle, which it does only where two nodes are feasible."""
        for pod in pods:
            decision = self._schedule(pod, target)
            if decision.node is not None:
                result.placements[pod.key] = decision.node
            else:
                result.unschedulable[pod.key] = Failure(decision.diagnosis, decision.error)

    def _place(self, pods: list[Pod], target: Target) -> npt.NDArray[np.int32]:
        """Rows of the pods that fit, which are assumed there."""
        rows = self.cycle.place_run(target[0], len(pods), target[1], target[2])
        self.cache.state.assume_rows(target[0], pods, rows)
        return rows

    def _decide_run(
        self, pods: list[Pod], target: Target, shape: Shape
    ) -> tuple[npt.NDArray[np.int32], Failure]:
        """Rows of the pods that fit, and why the next one does not; nothing changes for those after it."""
        state = self.cache.state
        ran = run_pre_filters(self.profile, pods[0], shape, self.cycle.terms_of(target[0], target[2]))
        nodes = self._nodes_in_view()
        head, failure = self.failures.get(target, (-1, Failure()))
        if head == state.log.head:
            return NO_ROWS, failure
        if ran.rejection is not None or nodes == 0:
            return NO_ROWS, Failure(Diagnosis(nodes, self.profile, shape, pre_filter=ran.rejection))
        # Where host ports or an open transaction take memory pod by pod, it can run out half-way.
        recorded = shape.ports or state.journal.depth
        rows = state.safely(self._place, pods, target) if recorded else self._place(pods, target)
        if len(rows) < len(pods):
            failure = Failure(self._diagnose(target, shape, ran))
            if ran.node_names is None:  # a search among named nodes moves the rotation even in vain
                self.failures[target] = (state.log.head, failure)
        return rows, failure


def _newest(cluster: Cluster) -> Callable[[], float]:
    """The clock of a store of these objects stands at the newest creation timestamp, so that an object
    without one is younger than all others."""
    stamps = [o.metadata.creation_timestamp for o in (*cluster.nodes, *cluster.pods, *cluster.others)]
    newest = max((datetime.fromisoformat(stamp).timestamp() for stamp in set(stamps) if stamp), default=0.0)
    return lambda: newest
