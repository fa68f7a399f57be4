"""The parts of a scheduler, and how the events of its store reach them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from moorage._core.base.watch_events import Notice
from moorage._core.state.node_table import NodeTable
from moorage.kube import group_of
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.store import InformerFactory, ObjectClient, ObjectStore

from ..cache import SchedulerCache
from ..framework.plugin.events import ASSIGNED_POD_DELETE
from ..framework.plugin.group_index import PodGroups
from ..framework.plugin.handle import FrameworkHandle
from ..plugins.gang_scheduling import GangScheduling
from ..plugins.scheduling_gates import SchedulingGates
from ..queue import SchedulingQueue
from .check_arguments import check_readable
from .controllers import ClaimControllers, WorkloadControllers
from .cycle.binding_cycle import BindingCycles
from .cycle.engine import Engine
from .event_handlers import PodHandler
from .options import Options
from .scheduling_context import SchedulingContext

if TYPE_CHECKING:
    from .scheduler_metrics import SchedulerMetrics

TERMINATING = "terminating"
WAITING, GATED, OTHER_SCHEDULER = "waiting", "gated", "other-scheduler"
SKIPPED = {"gated": GATED, "other scheduler": OTHER_SCHEDULER, TERMINATING: TERMINATING}
"""The problem of a pod that a run has not tried, by the scheduler's word for it. A plugin gates the others;
those that GangScheduling gates wait for their group."""
GATED_WITH_GROUP = "another pod of its group is gated"


def problem_of(skipped: str) -> str:
    """Return the problem of a pod that a run has not tried, by what `SchedulerParts.not_ours` says."""
    return WAITING if skipped.startswith(f"{GangScheduling.name}: ") else SKIPPED.get(skipped, GATED)


class SchedulerParts:
    """The parts of a scheduler. `PodScheduler` makes them; runs and changes of the cluster work on them.

    Attributes
    ----------
    client : ObjectClient
    store : ObjectStore or None
        The client, if it is a store of this process: what is written there can be undone, and takes no time.
    informers : InformerFactory
    cache : SchedulerCache
    queue : SchedulingQueue
    pods : PodHandler
        Enters the events of pods into cache and queue.
    handle : FrameworkHandle
        The handle of the plugins.
    engines : dict of str to Engine
        Scheduler name to the engine of its profile.
    bindings : BindingCycles
        The pods that wait on Permit or are being bound.
    context : SchedulingContext
        The state that scheduling cycles share.
    volumes : ClaimControllers
        Binds claims, and lets time pass.
    controllers : WorkloadControllers or None
        The simulated controllers of workloads, if there are any.
    metrics : SchedulerMetrics or None
        None unless runs are measured.
    options : Options
        As it was made with them.
    """

    client: ObjectClient
    store: ObjectStore | None
    informers: InformerFactory
    cache: SchedulerCache
    queue: SchedulingQueue
    pods: PodHandler
    handle: FrameworkHandle
    engines: dict[str, Engine]
    bindings: BindingCycles
    context: SchedulingContext
    volumes: ClaimControllers
    controllers: WorkloadControllers | None
    metrics: SchedulerMetrics | None
    options: Options

    def is_waiting(self, pod: Pod) -> bool:
        """Whether a pod exists without a node, according to the informers."""
        return self.pods.unbound(pod) is not None

    def not_ours(self, pod: Pod) -> str:
        """Return why this scheduler does not schedule a pod now.

        Returns
        -------
        str
            "" where it does.
        """
        if pod.metadata.deletion_timestamp:
            return TERMINATING
        if pod.spec.scheduler_name and pod.spec.scheduler_name not in self.engines:
            return "other scheduler"
        return self._why_gated(pod)

    def not_ours_with_group(self, pod: Pod) -> str:
        """Return why this scheduler does not schedule a pod without a node now: while a pod of its group is
        gated, all are.

        Returns
        -------
        str
            "" where it does.
        """
        if (why := self.not_ours(pod)) or not self.queue.groups_pods:
            return why
        unit, groups = group_of(pod), self.context.groups
        root = None if unit is None or pod.spec.node_name else groups.root(unit)
        is_gated = root is not None and any(map(self._why_gated, groups.pending(root)))
        return GATED_WITH_GROUP if is_gated else ""

    def _why_gated(self, pod: Pod) -> str:
        """Return what PreEnqueue says against a pod; "" for nothing."""
        status = self.context.engine_of(pod).framework.run_pre_enqueue_plugins(pod)
        if status is None:
            return ""
        return "gated" if status.plugin == SchedulingGates.name else f"{status.plugin}: {status.message()}"

    def sync(self, *, with_controllers: bool = True) -> bool:
        """Process all new events of the store.

        Parameters
        ----------
        with_controllers : bool, optional
            Whether the simulated controllers do what follows from them. By default they do.

        Returns
        -------
        bool
            Whether there were any. Inside a transaction that cannot undo writes, events are left for later.

        Raises
        ------
        InputError
            A node, or a pod on a node, has something else where a quantity belongs.
        """
        has_events = False
        if self.cache.transactions:
            if self.store is None:
                return False  # events are received after the transaction
            self.context.enlist()
        try:
            if self.bindings.freed:
                self.announce_freed()
            controllers = self.controllers if with_controllers else None
            while self.informers.run_once() or (controllers is not None and controllers.work()):
                has_events = True
        except BaseException as error:
            self.repair_queue()
            if isinstance(error, ValueError):  # perhaps by a quantity that nobody has checked
                for kind in (Node, Pod):
                    check_readable(self.informers.informer(kind).indexer.values())
            raise
        return has_events

    def repair_queue(self) -> None:
        """Put every waiting pod that is missing back into the queue, after an exception interrupted an
        operation."""
        self.pods.repair()

    def announce_freed(self) -> None:
        """Move pods in the queue that profit from the end of a failed binding cycle, as after the deletion of
        its pod (kube-scheduler v1.36, schedule_one.go handleBindingCycleError)."""
        freed = self.bindings.freed
        while freed:
            self.queue.move_all(ASSIGNED_POD_DELETE, [Notice(freed.pop(0), None)])

    def let_controllers_proceed(self) -> bool:
        """Have claims bound and released; or let time pass until a pod of a rollout becomes available, the
        back-off of a Job or the grace period of a pod ends, as far as the scheduler can let time pass. At
        last, workloads try again that were refused before the present change.

        Returns
        -------
        bool
            False if nothing is to be done for claims or workloads, and nothing waits for a time.
        """
        options, controllers = self.options, self.controllers
        self.context.enlist()
        if self.volumes.settle():
            return True
        if controllers is None:
            return False
        can_wait = options.clock is None or options.wait is not None
        if can_wait and (when := controllers.next_time()) < math.inf:
            self._reach(when)
            return True
        if controllers.end_back_off():
            self.sync()
            return True
        return False

    def let_pods_stop(self) -> None:
        """Let time pass until the pods are gone that controllers have deleted, as far as the scheduler can.

        One change follows another some time later.

        Nothing is scheduled, so the pods on nodes become fewer, and this ends.
        """
        controllers = self.controllers
        if controllers is not None and self.options.clock is None:
            self.context.enlist()
            while (when := controllers.next_stop()) < math.inf:
                self._reach(when)

    def _reach(self, when: float) -> None:
        """Let time pass until a moment, in seconds: pods whose back-off has ended return to the queue."""
        self.volumes.wait(max(0.0, when - self.volumes.now()))
        if self.options.clock is None:
            self.queue.run_periodic(self.queue.now())

    @property
    def plugin_errors(self) -> Mapping[tuple[str, str], int]:
        """Number of exceptions by (plugin name, exception type name)."""
        return dict(self.handle.plugin_errors.counts)

    @property
    def table(self) -> NodeTable:
        """The node table: ``table.allocatable["cpu"]``, ``table.requested[...]``, ``table.names`` by row."""
        with self.cache.lock:
            self.cache.check_whole()
            return self.cache.state.table

    @property
    def groups(self) -> PodGroups:
        """The index of pod groups and their members."""
        with self.cache.lock:
            self.cache.check_whole()
            return self.handle.shared(PodGroups)
