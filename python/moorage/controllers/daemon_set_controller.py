"""Creates, replaces and deletes the pods of DaemonSets (kubernetes v1.36, pkg/controller/daemon)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from math import inf

from moorage.kube.model.meta import share
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import DaemonSet, RollingUpdateDaemonSet
from moorage.kube.workloads.daemon_pods import node_of, should_continue, should_run
from moorage.kube.workloads.missing_pods import create_daemons, create_missing, daemon_spec, written_revision
from moorage.kube.workloads.ownership import FINISHED, is_active, is_healthy
from moorage.kube.workloads.revisions import is_updated, mark_of
from moorage.lazy import NamedTuple
from moorage.store import Indexer

from .availability import Availability, AvailablePods, Rollout, rollout_of
from .store_control import StoreControl

# ---- daemon rollout ----------------------------------------------------------------------------------------
#
# How a DaemonSet replaces its pods after a change of its template (kubernetes v1.36, daemon/update.go).


class DaemonStep(NamedTuple):
    """What a rolling update of a DaemonSet does next.

    Attributes
    ----------
    nodes : list of str
        The nodes that get a new pod besides the old one.
    deleted : list of Pod
        The pods that it deletes.
    is_complete : bool
        Whether nothing is left to do, now or later.
    due : float
        When the next of the pods that it waits for becomes available; infinite where none waits for its time.
    """

    nodes: list[str]
    deleted: list[Pod]
    is_complete: bool
    due: float


class NodeStep(NamedTuple):
    """What a rolling update may do on one node.

    Attributes
    ----------
    deleted : sequence of Pod
        The pods that it deletes.
    creates : bool
        Whether the node gets a pod besides the old one.
    is_candidate : bool
        Whether this waits until the maximum allows it.
    is_counted : bool
        Whether the node counts against the maximum.
    due : float
        When a pod that was asked for becomes available; infinite where none waits for its time.
    """

    deleted: Sequence[Pod] = ()
    creates: bool = False
    is_candidate: bool = False
    is_counted: bool = False
    due: float = inf


NOTHING = NodeStep()


class DaemonRollout:
    """A rolling update of a DaemonSet: what it may do on each node, kept for the nodes that do not change.

    Its strategy is not OnDelete.

    Without `maxSurge` old pods are deleted, those that are not available at once, others as far as no more
    than `maxUnavailable` pods are not available. With `maxSurge` nodes get a new pod besides the old one,
    which is deleted when the new one is available. Percentages are of the nodes that should run a pod,
    rounded up.

    Parameters
    ----------
    obj : DaemonSet
        With defaults.
    mark : str
        The label of pods with its template; see `mark_of`.
    pods : iterable of Pod
        Its pods, in any state.

    Attributes
    ----------
    changed : dict of str to None
        Names of nodes that are to be looked at again; set by the caller, and emptied by `look`.
    """

    def __init__(self, obj: DaemonSet, mark: str, nodes: Sequence[Node], pods: Iterable[Pod]) -> None:
        self.obj, self.mark = obj, mark
        self.changed: dict[str, None] = {}
        self._spec = daemon_spec(obj)
        self._positions = {node.name: at for at, node in enumerate(nodes)}
        self._names = [node.name for node in nodes]
        self._pods: dict[str, list[Pod]] = {}  # that are active, by node
        self._wanted: set[str] = set()  # nodes that should run a pod
        self._old: set[str] = set()  # nodes with a pod of another template
        self._leaving: set[str] = set()  # nodes with pods that are being deleted, and no other
        self._is_surge = False
        self._stale: dict[str, None] = {}  # nodes whose step is not known
        self._steps: dict[str, NodeStep] = {}  # by node, except those with nothing to do
        self._counted = 0  # how many of them count against the maximum
        self._at_once: set[int] = set()  # positions of nodes with a step that waits for nothing
        self._candidates: list[int] = []  # positions of the others, in order
        self._due: list[tuple[float, str]] = []  # a heap of the times of steps, former ones included
        placed: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            placed[node_of(pod.spec)].append(pod)
        for node in nodes:
            self.look(node.name, node, placed.pop(node.name, ()))
        for name, here in placed.items():
            self.look(name, None, here)

    def look(self, name: str, node: Node | None, pods: Iterable[Pod]) -> None:
        """Take the present state of a node.

        Parameters
        ----------
        node : Node or None
            None where it does not exist.
        pods : iterable of Pod
            The pods of the DaemonSet that are on the node or require it, in any state.
        """
        self.changed.pop(name, None)
        unfinished = [pod for pod in pods if pod.status.phase not in FINISHED]
        here = self._pods[name] = list(filter(is_active, unfinished))
        _put(self._leaving, name, bool(unfinished) and not here)
        _put(self._old, name, not all(is_updated(pod, self.mark) for pod in here))
        _put(self._wanted, name, node is not None and should_run(self._spec, node))
        if node is not None:
            self._stale[name] = None

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return those of some nodes that exist, in their order."""
        return sorted(filter(self._positions.__contains__, names), key=self._positions.__getitem__)

    def next_step(self, is_available: AvailablePods) -> DaemonStep:
        """Return what the rolling update does next."""
        if not self._old:
            return DaemonStep([], [], True, inf)
        rolling = self.obj.spec.update_strategy.rolling_update or RollingUpdateDaemonSet()
        maximum = share(rolling.max_surge or 0, len(self._wanted))
        if self._is_surge != (maximum > 0):
            self._is_surge = maximum > 0
            self._stale.update(dict.fromkeys(self._names))
        if not self._is_surge:
            maximum = max(1, share(rolling.max_unavailable or 0, len(self._wanted)))
        due = self._refresh(is_available)
        allowed = max(0, maximum - self._counted)
        names = [self._names[at] for at in (*sorted(self._at_once), *self._candidates[:allowed])]
        deleted = [pod for name in names for pod in self._steps[name].deleted]
        return DaemonStep([name for name in names if self._steps[name].creates], deleted, False, due)

    def _refresh(self, is_available: AvailablePods) -> float:
        """Find the steps of the nodes where they may be others than before; return when that is so again."""
        due = self._due
        while due and due[0][0] <= is_available.now:
            self._stale[heappop(due)[1]] = None
        for name in self._stale:
            is_available.due = inf
            step = (self._surge if self._is_surge else self._replace)(name, is_available)
            self._set(name, step._replace(due=is_available.due))
        self._stale.clear()
        while due and self._steps.get(due[0][1], NOTHING).due != due[0][0]:
            heappop(due)
        return due[0][0] if due else inf

    def _set(self, name: str, step: NodeStep) -> None:
        """Replace the step of a node."""
        at, before = self._positions[name], self._steps.pop(name, NOTHING)
        self._counted += step.is_counted - before.is_counted
        self._at_once.discard(at)
        if before.is_candidate:
            del self._candidates[bisect_left(self._candidates, at)]
        if step != NOTHING:
            self._steps[name] = step
        if step.is_candidate:
            insort(self._candidates, at)
        elif step.creates or step.deleted:
            self._at_once.add(at)
        if step.due < inf:
            heappush(self._due, (step.due, name))

    def _replace(self, name: str, is_available: Callable[[Pod], bool]) -> NodeStep:
        """Return the step of a node without a surge."""
        pods = self._pods[name]
        if len(pods) > 1:  # since there was a surge; the oldest pod on the node stays
            return NodeStep(sorted(pods, key=_by_age)[1:], is_counted=True)
        if not pods:
            return NodeStep(is_counted=name in self._leaving)
        old = pods if name in self._old else ()
        if not is_available(pods[0]):
            return NodeStep(old, is_counted=True)
        return NodeStep(old, is_candidate=bool(old))

    def _surge(self, name: str, is_available: Callable[[Pod], bool]) -> NodeStep:
        """Return the step of a node with a surge."""
        pods = sorted(self._pods[name], key=_by_age)
        old = [pod for pod in pods if not is_updated(pod, self.mark)]
        new = [pod for pod in pods if is_updated(pod, self.mark)]
        if len(old) > 1 or len(new) > 1:  # of a former rollout; the oldest pod of each kind stays
            return NodeStep([*old[1:], *new[1:]], is_counted=True)
        if not old:
            return NOTHING
        if new:
            is_replaced = is_available(new[0]) or not is_healthy(old[0])
            return NodeStep(old) if is_replaced else NodeStep(is_counted=True)
        if not is_available(old[0]):
            return NodeStep(creates=True) if name in self._wanted else NodeStep(old)
        return NodeStep(creates=True, is_candidate=True) if name in self._wanted else NOTHING


def is_rolled_out(obj: DaemonSet, mark: str, pods: Iterable[Pod]) -> bool:
    """Whether a rolling update of a DaemonSet has nothing to do, now or later.

    Parameters
    ----------
    mark : str
        The label of pods with its template; see `mark_of`.
    pods : iterable of Pod
        Its pods, in any state.
    """
    is_on_delete = obj.spec.update_strategy.type == "OnDelete"
    return is_on_delete or not any(is_active(pod) and not is_updated(pod, mark) for pod in pods)


def _put(names: set[str], name: str, is_in: bool) -> None:
    """Add a name to a set, or remove it."""
    if is_in:
        names.add(name)
    else:
        names.discard(name)


def _by_age(pod: Pod) -> tuple[bool, str, str]:
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.name


# ---- daemon set controller ---------------------------------------------------------------------------------


class DaemonSetController:
    """Creates, replaces and deletes the pods of DaemonSets.

    Parameters
    ----------
    nodes : Indexer
        The informer's copy of the nodes.
    """

    def __init__(self, control: StoreControl, nodes: Indexer[Node], availability: Availability) -> None:
        self._control = control
        self._nodes = nodes
        self._availability = availability
        # By key of the DaemonSet, those that wait. They are derived from nodes, pods and `availability`: a
        # fork starts without them, and a rollback forgets them.
        self._rollouts: dict[str, DaemonRollout] = {}

    # ---- what informers report -----------------------------------------------------------------------------

    def note_pod(self, pod: Pod) -> None:
        """Look at the node of a new, changed or deleted pod in the next round of a rollout.

        Parameters
        ----------
        pod : Pod
            Before or after the change.
        """
        for owner in pod.metadata.owner_references if self._rollouts else ():
            rollout = self._rollouts.get(f"{pod.namespace}/{owner.name}")
            if rollout is not None and owner.kind == "DaemonSet":
                rollout.changed[node_of(pod.spec)] = None

    def note_node(self, name: str) -> None:
        """Look at a changed node in the next round of all rollouts."""
        for rollout in self._rollouts.values():
            rollout.changed[name] = None

    def forget_rollouts(self) -> None:
        """Look at all nodes in the next round of all rollouts: after a rollback, or a node came or went."""
        self._rollouts.clear()

    # ---- rounds --------------------------------------------------------------------------------------------

    def reconcile(self, obj: DaemonSet) -> None:
        """Bring the pods to what a DaemonSet asks for on all nodes, and take the next step of a rollout.

        In a rollout, nodes are left out where nothing has changed since the last step.

        Raises
        ------
        RefusedError
            The API server refuses a pod.
        """
        if obj.metadata.deletion_timestamp is not None:
            return
        rollout = self._rollouts.pop(obj.key, None)  # an exception leaves none
        if rollout is not None and rollout.obj is not obj:
            rollout = None
        nodes, before = self._nodes.values(), self._control.client.changes
        if rollout is not None:
            nodes = list(filter(None, map(self._nodes.get, rollout.in_order(rollout.changed))))
        spec = daemon_spec(obj)
        for node in nodes:
            if not should_continue(spec, node):
                self.leave(obj, node.name)
        self._availability.wait(obj, False, self._availability.now())  # pods made here are known next round
        create_missing(self._control, obj, nodes)
        if self._control.client.changes == before:
            rollout = self._roll(obj, rollout)
        if rollout is not None:
            self._rollouts[obj.key] = rollout

    def _roll(self, obj: DaemonSet, rollout: DaemonRollout | None) -> DaemonRollout | None:
        """Take the next step of a rollout, and return the rollout; None if it is complete."""
        latest = written_revision(self._control, obj)
        mark = mark_of(obj, latest)
        self._control.forget_revisions(obj, (latest.name,))
        if rollout is None or rollout.mark != mark:
            pods = self._control.owned(obj)
            if is_rolled_out(obj, mark, pods):
                self._availability.wait(obj, True, inf)
                return None
            rollout = DaemonRollout(obj, mark, self._nodes.values(), pods)
        for name in list(rollout.changed):
            rollout.look(name, self._nodes.get(name), self._control.owned_daemons(obj, name))
        step = rollout.next_step(self._availability.of(obj.spec.min_ready_seconds))
        self._availability.wait(obj, step.is_complete, step.due)
        create_daemons(self._control, obj, step.nodes)
        for pod in step.deleted:
            self._control.delete(pod)
        return None if step.is_complete else rollout

    # ---- single nodes --------------------------------------------------------------------------------------

    def reconcile_node(self, obj: DaemonSet, node: Node) -> None:
        """Bring the pods to what a DaemonSet asks for on a node.

        Raises
        ------
        RefusedError
            The API server refuses a pod.
        """
        if should_continue(daemon_spec(obj), node):
            create_missing(self._control, obj, [node])
        else:
            self.leave(obj, node.name)

    def leave(self, obj: DaemonSet, node: str) -> None:
        """Delete the pods that a DaemonSet has on a node."""
        for pod in self._control.daemons(obj, node):
            self._control.delete(pod)

    def rollout(self, obj: DaemonSet) -> Rollout | None:
        """Return the rollout of a DaemonSet; None if it is complete."""
        pods = list(filter(is_active, self._control.owned(obj)))
        mark, spec = mark_of(obj, written_revision(self._control, obj)), daemon_spec(obj)
        wanted = sum(should_run(spec, node) for node in self._nodes.values())
        available = list(filter(is_healthy, pods))
        updated = [pod for pod in pods if is_updated(pod, mark)]
        is_done = len(updated) == len(pods) or obj.spec.update_strategy.type == "OnDelete"
        return (
            None if is_done and len(available) >= wanted else rollout_of(obj, wanted, updated, len(available))
        )
