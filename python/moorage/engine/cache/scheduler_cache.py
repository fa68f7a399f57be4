"""The caches of nodes and pods: ClusterCache, the base class, with state, lock, transactions, forks and
expiry; SchedulerCache, updated by events, with assumed pods.
"""

from __future__ import annotations

import builtins
import copy
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self, TypeVar
from weakref import ref

from moorage import forked_owners
from moorage._core.base.bracket import Bracket
from moorage._core.base.resources import PodGates
from moorage._core.base.watch_events import WatchEvent
from moorage._core.decide import bulk_operations as batches
from moorage._core.decide.reported_pods import confirm_pods
from moorage._core.state.cluster_state import ClusterState
from moorage.arguments import typed
from moorage.errors import CacheCorruptedError, MoorageError
from moorage.kube import Node, Pod

from .node_info import CacheDump, NodeInfo, Snapshot, dump

# ---- cluster cache -----------------------------------------------------------------------------------------

logger = logging.getLogger("moorage.cache")

HALF_UNDONE = "an undo has failed, so half of what it should restore is lost: make a new scheduler or cache"


class Undoable(Protocol):
    """State that can be saved, and restored any number of times."""

    def save(self) -> object:
        """Save the state; called when a transaction begins.

        Returns
        -------
        object
            The argument of `undo`.
        """

    def undo(self, saved: Any) -> None:
        """Restore a saved state; called when the transaction has been rolled back, and again if a signal has
        broken it off.
        """


class Enlisted(Undoable, Protocol):
    """State outside the cache that is rolled back with a transaction."""

    def release(self, saved: object) -> None:
        """Discard a saved state; called when the transaction has been committed, perhaps again as `undo`.
        Most states need nothing.
        """
        return


class Participant(Enlisted, Protocol):
    """State that takes part in every transaction and that a fork copies."""

    def clone(self) -> Self:
        """Return an independent copy, for a fork."""


class _StateChanges:
    """The changes of a state in a transaction, which are undone or kept at its end."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._depth: int | None = None  # of the journal before

    def begin(self) -> None:
        """Begin to record changes. Called under the lock of the cache."""
        state = self._cache.state
        # Bound now: there may be no memory later.
        self._commit, self._rollback, self._journal = state.commit, state.rollback, state.journal
        self._mark, self._depth = state.mark(), state.journal.depth
        state.journal.begin()

    def end(self, failed: bool) -> None:
        """Undo the changes, or keep them. That can be repeated."""
        if self._depth is not None and self._journal.depth > self._depth:
            (self._rollback if failed else self._commit)(self._mark)
        self._depth = None


class _Trial(_StateChanges):
    """The changes of a state that are undone in any case."""

    def end(self, failed: bool) -> None:
        """Undo the changes."""
        super().end(True)


class Transaction:
    """An open transaction. Its changes are undone at its end unless `commit` has been called.

    Attributes
    ----------
    committed : bool
        Whether `commit` has been called.
    is_over : bool
        Whether its end has begun, possibly with that of the transaction around it. It stays among those of
        the cache until its end is complete.
    """

    def __init__(self, cache: ClusterCache, others: Sequence[Enlisted]) -> None:
        self.committed = self.is_over = False
        self.bracket: Callable[[], Bracket[Transaction] | None] = lambda: None
        self._cache = cache
        self._others = others
        self._saved: list[tuple[Enlisted, object]] = []
        self._changes = _StateChanges(cache)

    def __repr__(self) -> str:
        state = "committed" if self.committed else "over" if self.is_over else "open"
        return f"<Transaction: {state}>"

    def enlist(self, participant: Enlisted) -> None:
        """Add a participant that has not changed since the transaction began, unless it was added before."""
        for enlisted, _ in self._saved:
            if enlisted is participant:
                return
        self._saved.append((participant, participant.save()))

    def commit(self) -> None:
        """Keep the changes of the transaction at its end.

        Raises
        ------
        MoorageError
            The transaction has ended.
        """
        if self.is_over:
            raise MoorageError("the transaction has ended: commit() belongs into its block")
        self.committed = True

    def begin(self) -> Self:
        """Save the state of the participants; called at the beginning of the block.

        Returns
        -------
        Transaction
            Itself.

        Raises
        ------
        MoorageError
            It has had a block before.
        """
        cache = self._cache
        cache.check_whole()
        if self.is_over:
            raise MoorageError("a transaction has one block: call transaction() again for another")
        self._changes.begin()
        for participant in cache.participants:
            self.enlist(participant)
        cache.transactions.append(self)
        for other in self._others:
            cache.enlist(other)
        return self

    def end(self, failed: bool) -> None:
        """Undo or release the saved states; called at the end of the block, and again until it ends.

        Parameters
        ----------
        failed : bool
            Whether an exception ended the block.
        """
        opened = self._cache.transactions
        if self not in opened:
            self._settle(self.committed and self.is_over)
            return
        while (inner := opened[-1]) is not self:  # one that nobody has ended
            inner._settle(False)
            if (bracket := inner.bracket()) is not None:
                bracket.release()
            opened.pop()
        self._settle(self.committed and not failed)
        opened.pop()

    def _settle(self, keeps: bool) -> None:
        """Keep or undo the changes, and drop the saved states. That can be repeated."""
        self.is_over, self.committed = True, keeps
        self._changes.end(not keeps)
        end_each(self._saved, "release" if keeps else "undo")
        self._saved = []


def end_each(states: Iterable[tuple[object, object]], method: str) -> None:
    """Pass saved states to the participants that saved them: to all, even if some raise.

    Parameters
    ----------
    states : iterable of (Enlisted, object)
        The participants, with what their `save` returned.

    Raises
    ------
    BaseException
        The first exception that a participant raised, after all were called.
    """
    failure: BaseException | None = None
    for participant, saved in states:
        try:
            getattr(participant, method)(saved)
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure


class ClusterCache:
    """The state of a cluster, with its lock and its transactions. Thread-safe.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds, for deadlines.

    Attributes
    ----------
    lock : re-entrant lock
        The lock of the state, which every operation acquires.
    participants : list of Participant
        State that takes part in every transaction.
    """

    def __init__(self, state: ClusterState, clock: Callable[[], float]) -> None:
        self.state = state
        self.clock = clock
        self.lock = state.lock  # every operation takes it
        forked_owners.watch(self, self.lock)
        self.participants: list[Participant] = []
        self.transactions: list[Transaction] = []  # the open ones

    def __repr__(self) -> str:
        nodes = sum(node is not None for node in self.state.table.objects)  # a repr takes no lock
        pods = len(self.state.ledger)
        return f"<{type(self).__name__}: {nodes} nodes, {pods} pods>"

    def clean(self, now: float) -> None:
        """Remove entries whose deadline has passed.

        Parameters
        ----------
        now : float
            Seconds on the cache's clock.
        """
        raise NotImplementedError

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Update a snapshot by copying the rows that have changed since its last update."""
        snapshot.update(self.state)

    def transaction(self, *others: Enlisted) -> Bracket[Transaction]:
        """Return a context manager that undoes the changes of its block unless the block commits.

        An exception undoes the changes in any case. Transactions nest: one that is still open when the one
        around it ends is undone first. The lock is held throughout. A signal breaks off no undo.

        Parameters
        ----------
        *others : Enlisted
            Further state that this transaction undoes, and those around it.

        Returns
        -------
        context manager
            Its value is the Transaction.

        Raises
        ------
        CacheCorruptedError
            An undo has failed before.
        """
        transaction = Transaction(self, others)
        bracket = Bracket(self.lock, transaction)
        transaction.bracket = ref(bracket)
        return bracket

    def trial(self) -> Bracket[None]:
        """Undo what a block changes in `state`: a cheaper `transaction` for one that changes nothing else."""
        return Bracket(self.lock, _Trial(self))

    def check_whole(self) -> None:
        """Refuse to answer about a state of which an undo has failed.

        Raises
        ------
        CacheCorruptedError
            A transaction has not been undone completely.
        """
        if self.transactions and self.transactions[-1].is_over:
            raise CacheCorruptedError(HALF_UNDONE)

    def enlist(self, participant: Enlisted) -> None:
        """Add a participant, which has not changed since they began, to all open transactions."""
        with self.lock:
            self.check_whole()
            for transaction in self.transactions:
                transaction.enlist(participant)

    def fork(self) -> Self:
        """Return an independent copy, with a clone of each participant; it may be used in another thread."""
        out = copy.copy(self)
        with self.lock:
            self.check_whole()
            out.state = self.state.fork()
            out.lock = out.state.lock
            forked_owners.watch(out, out.lock)
            out.participants = [participant.clone() for participant in self.participants]
            out.transactions = []
        return out

    def run(self, period: float, stop: threading.Event) -> threading.Thread:
        """Call `clean` periodically in a daemon thread; exceptions are logged.

        Parameters
        ----------
        period : float
            Seconds between two calls.
        stop : threading.Event
            Ends the thread when it is set.

        Returns
        -------
        threading.Thread
            The started thread.

        Raises
        ------
        TypeError
            `period` is no number, or `stop` no event.
        """
        if not isinstance(period, int | float):
            raise TypeError(f"the period is a number of seconds, not {period!r}")
        if not isinstance(stop, threading.Event):
            raise TypeError(f"what stops the thread is a threading.Event, not {stop!r}")

        def work() -> None:
            while not stop.wait(period):
                try:
                    self.clean(self.clock())
                except Exception:
                    logger.exception("cleaning the cache failed")

        thread = threading.Thread(target=work, name="moorage-cache-cleaner", daemon=True)
        thread.start()
        return thread


# ---- scheduler cache ---------------------------------------------------------------------------------------

H = TypeVar("H", bound=Pod | WatchEvent[Pod])
CLEAN_ASSUMED_PERIOD = 1.0
NEVER = float("inf")
BINDING = "Couldn't expire cache for pod %s/%s. Binding is still in progress."


class Selector(Protocol):
    """A predicate of labels."""

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether the labels of an object satisfy the selector."""


class SchedulerCache(ClusterCache):
    """The cache of a scheduler: nodes and pods, updated by events, and assumed pods. Thread-safe.

    A scheduler assumes a pod on a node before it is bound; the event that reports the bound pod confirms it.
    States of a pod: Initial, Assumed, Added, Expired, Deleted (kube-scheduler, backend/cache/interface.go).
    Pods are identified by UID. Methods and error texts are as in the Cache of v1.13: CacheError where it
    returned an error, CacheCorruptedError where it terminated the process. The state that a scheduling cycle
    reads follows v1.36. An operation that raises has changed nothing.

    Parameters
    ----------
    ttl : float, optional
        Seconds after `finish_binding` at which an assumed pod expires; None for never.
    clock : callable
        Returns the time in seconds, for deadlines.
    gates : PodGates, optional
        Feature gates that affect how pods are read; by default as in v1.36.

    Raises
    ------
    ValueError
        `ttl` is negative or not finite.
    """

    def __init__(
        self,
        ttl: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        gates: PodGates | None = None,
    ) -> None:
        if ttl is not None and not 0 <= ttl < NEVER:
            raise ValueError(
                f"ttl must be at least 0 and finite, not {ttl}; None is for pods that never expire"
            )
        super().__init__(ClusterState(gates=gates or PodGates()), clock)
        self.ttl = ttl

    # ---- pods ----------------------------------------------------------------------------------------------

    def assume_pod(self, pod: Pod) -> None:
        """Add a pod that is not yet bound to its node.

        Parameters
        ----------
        pod : Pod
            With ``spec.node_name``.

        Raises
        ------
        CacheError
            The pod is in the cache, assumed or added.
        """
        with self.lock:
            self.state.assume_pod(pod)

    def assume_pods(self, pods: Sequence[Pod]) -> None:
        """Assume several pods; all or none.

        Parameters
        ----------
        pods : sequence of Pod
            With ``spec.node_name``.

        Raises
        ------
        CacheError
            One of the pods is in the cache, or listed twice.
        """
        with self.lock:
            batches.assume_pods(self.state, pods)

    def finish_binding(self, pod: Pod, now: float | None = None) -> None:
        """Start the time to live of an assumed pod whose binding has finished.

        Parameters
        ----------
        pod : Pod
            Ignored if it is not assumed.
        now : float, optional
            The start in seconds on the cache's clock; by default the current time.
        """
        with self.lock:
            self.state.finish_binding(pod, self._deadline(now))

    def finish_bindings(self, pods: Sequence[Pod], now: float | None = None) -> None:
        """Start the time to live of several assumed pods, see `finish_binding`.

        Parameters
        ----------
        now : float, optional
            Seconds, as for `finish_binding`.
        """
        with self.lock:
            batches.finish_bindings(self.state, pods, self._deadline(now))

    def _deadline(self, now: float | None) -> float:
        """Return when a pod whose binding finished at `now` expires."""
        return NEVER if self.ttl is None else (self.clock() if now is None else now) + self.ttl

    def forget_pod(self, pod: Pod) -> None:
        """Remove an assumed pod.

        Parameters
        ----------
        pod : Pod
            Its ``spec.node_name`` is the node that it was assumed on.

        Raises
        ------
        CacheError
            The pod is not assumed, or on another node.
        """
        with self.lock:
            self.state.forget_pod(pod)

    def forget_pods(self, pods: Sequence[Pod]) -> None:
        """Remove several assumed pods; all or none.

        Raises
        ------
        CacheError
            As `forget_pod`, for the first of them.
        """
        with self.lock:
            batches.forget_pods(self.state, pods)

    # Pods added by `ClusterState.assume_template` have no objects; the following methods identify them by
    # their template and ordinals.

    def finish_template(self, template: Pod, first: int, pods: int, now: float | None = None) -> None:
        """Start the time to live of assumed pods of a template, see `finish_binding`.

        Parameters
        ----------
        template : Pod
            See `ClusterState.assume_template`.
        first : int
            The ordinal of the first pod.
        pods : int
            The number of pods.
        now : float, optional
            Seconds, as for `finish_binding`.
        """
        with self.lock:
            batches.finish_template(self.state, template, first, pods, self._deadline(now))

    def forget_template(self, template: Pod, first: int, pods: int) -> None:
        """Remove assumed pods of a template; all or none.

        Parameters
        ----------
        first, pods : int
            As for `finish_template`.

        Raises
        ------
        CacheError
            One of the pods is not assumed.
        """
        with self.lock:
            batches.forget_template(self.state, template, first, pods)

    def confirm_template(self, template: Pod, first: int, pods: int) -> None:
        """Confirm assumed pods of a template on the nodes where they were assumed; all or none.

        Parameters
        ----------
        first, pods : int
            As for `finish_template`.
        """
        with self.lock:
            batches.confirm_template(self.state, template, first, pods)

    def add_pod(self, pod: Pod) -> None:
        """Add a bound pod that an event reported.

        If the pod is assumed, this confirms it, and moves it if it was assumed on another node.

        Parameters
        ----------
        pod : Pod
            With ``spec.node_name``.

        Raises
        ------
        CacheError
            The pod was added before.
        """
        with self.lock:
            self.state.add_pod(pod)

    def add_pods(self, pods: Sequence[Pod]) -> None:
        """Add several bound pods; all or none.

        Raises
        ------
        CacheError
            As `add_pod`, for the first of them.
        """
        with self.lock:
            batches.add_pods(self.state, pods)

    def add_bound_pods(self, pods: Sequence[Pod], nodes: Sequence[str]) -> None:
        """Add pods that another scheduler has bound; all or none.

        Much faster than `add_pods` if the pods share specs.

        Parameters
        ----------
        pods : sequence of Pod
            The pods before they were bound.
        nodes : sequence of str
            The name of the node of each pod.
        """
        with self.lock:
            batches.add_bound(self.state, pods, nodes)

    def confirm_pods(self, pods: Sequence[Pod | WatchEvent[Pod]]) -> None:
        """Add pods that events report as bound by the scheduler of this cache.

        Like `add_pods`, but the spec of a pod that differs from the assumed one only in its node is not read
        again. A pod that is no longer assumed is added, unless it has been added before.

        Parameters
        ----------
        pods : sequence of (Pod or WatchEvent)
            With ``spec.node_name``. The pod of an event is made when it is read.
        """
        with self.lock:
            confirm_pods(self.state, pods)

    def remove_added(self, pods: Sequence[H]) -> list[H]:
        """Remove those of some pods that have been added.

        Parameters
        ----------
        pods : sequence of (Pod or WatchEvent)
            Each pod, or the event that makes it.

        Returns
        -------
        list of (Pod or WatchEvent)
            The other pods, assumed or not in the cache.
        """
        with self.lock:
            return batches.remove_added(self.state, pods)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Replace an added pod by its new state.

        Parameters
        ----------
        old, new : Pod
            Before and after; on one node.

        Raises
        ------
        CacheError
            `old` was not added.
        CacheCorruptedError
            `new` is on another node.
        """
        with self.lock:
            self.state.update_pod(old, new)

    def remove_pod(self, pod: Pod) -> None:
        """Remove an added pod.

        Parameters
        ----------
        pod : Pod
            With its node.

        Raises
        ------
        CacheError
            The pod was not added.
        CacheCorruptedError
            The pod is on another node.
        """
        with self.lock:
            self.state.remove_pod(pod)

    def discard_pod(self, pod: Pod) -> None:
        """Remove the pod with the UID of a pod, assumed or added, whatever node that one names.

        Raises
        ------
        CacheError
            The pod is not in the cache.
        """
        with self.lock:
            self.state.discard_pod(pod)

    def get_pod(self, pod: Pod) -> Pod:
        """Return the pod in the cache that has the UID of a pod.

        Returns
        -------
        Pod
            With ``spec.node_name``.

        Raises
        ------
        CacheError
            The pod is not in the cache.
        """
        with self.lock:
            return self.state.get_pod(pod)

    def is_assumed_pod(self, pod: Pod) -> bool:
        """Whether a pod is assumed and not confirmed yet."""
        with self.lock:
            return self.state.is_assumed_pod(pod)

    def cleanup_assumed_pods(self, now: float) -> list[Pod]:
        """Remove the assumed pods whose binding has finished and whose deadline is before `now`.

        Parameters
        ----------
        now : float
            Seconds on the cache's clock.

        Returns
        -------
        list of Pod
            The expired pods, earliest deadline first.
        """
        with self.lock:
            if logger.isEnabledFor(logging.DEBUG):
                for pod in self.state.binding_pods():
                    logger.debug(BINDING, pod.namespace, pod.name)
            return self.state.expire(now)

    def clean(self, now: float) -> None:
        """Call `cleanup_assumed_pods`; the background thread of `run` calls this.

        Parameters
        ----------
        now : float
            Seconds on the cache's clock.
        """
        self.cleanup_assumed_pods(now)

    def list(self, selector: Selector) -> list[Pod]:
        """Return the pods that a selector matches, including assumed pods and pods of ghost nodes.

        Returns
        -------
        list of Pod
            Node by node.
        """
        return self.filtered_list(lambda pod: True, selector)

    def filtered_list(self, pod_filter: Callable[[Pod], bool], selector: Selector) -> builtins.list[Pod]:
        """Return the pods that pass a filter and that a selector matches.

        Parameters
        ----------
        pod_filter : callable
            Returns whether a pod passes.

        Returns
        -------
        list of Pod
            Node by node, including assumed pods and pods of ghost nodes.
        """
        with self.lock:
            pods = self.state.pods()
        return [pod for pod in pods if pod_filter(pod) and selector.matches(pod.metadata.labels)]

    # ---- nodes ---------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node; a node that is in the cache already is updated, with a warning.

        Pods that were added before their node are then on this node.

        Raises
        ------
        ValueError
            A quantity cannot be parsed.
        """
        with self.lock:
            if self.state.has_node(node.name):
                logger.warning("node %s already exist in the NodeTree", node.name)
            self.state.set_node(node)

    def add_nodes(self, nodes: Sequence[Node]) -> bool:
        """Add new nodes, all or none.

        Returns
        -------
        bool
            False, and none is added, if one needs `add_node`: it is in the cache already, or is malformed.
        """
        with self.lock:
            try:
                return self.state.add_nodes(nodes)
            except Exception:  # `add_node` raises it again, for the node that it is about
                return False

    def update_node(self, old: Node, new: Node) -> None:
        """Replace a node by its new state; an unknown node is added.

        Parameters
        ----------
        old, new : Node
            The state before, which is ignored, and after.

        Raises
        ------
        ValueError
            A quantity cannot be parsed.
        """
        with self.lock:
            self.state.set_node(new)

    def remove_node(self, node: Node) -> None:
        """Remove a node. Its pods remain in the cache, on a ghost node.

        Raises
        ------
        CacheError
            The node is not in the cache.
        """
        with self.lock:
            self.state.remove_node(node.name)

    def node_info(self, name: str) -> NodeInfo | None:
        """Return a live view of a node.

        Returns
        -------
        NodeInfo or None
            None if there is neither a node nor a ghost with this name.
        """
        return None if self.state.find_row(name) is None else NodeInfo(self.state, name)

    # ---- copies --------------------------------------------------------------------------------------------

    def snapshot(self) -> CacheDump[NodeInfo]:
        """Return a copy of the content of the cache.

        Returns
        -------
        CacheDump
            Assumed pods and all nodes, ghosts included.
        """
        with self.lock:
            self.check_whole()
            return dump(self.state)


@typed
def new_scheduler_cache(
    ttl: float,
    stop: threading.Event | None = None,
    period: float = CLEAN_ASSUMED_PERIOD,
    clock: Callable[[], float] = time.monotonic,
) -> SchedulerCache:
    """Return a cache whose assumed pods expire in a background thread.

    Parameters
    ----------
    ttl : float
        Seconds after `finish_binding` at which an assumed pod expires.
    stop : threading.Event, optional
        Ends the background thread when it is set.
    period : float
        Seconds between two removals of expired pods.
    clock : callable
        Returns the time in seconds, for deadlines.

    Raises
    ------
    TypeError
        An argument is of another type.
    ValueError
        `ttl` or `period` is negative or not finite.
    """
    if period < 0:
        raise ValueError(f"period must be at least 0, not {period}")
    cache = SchedulerCache(ttl, clock)
    cache.run(period, stop or threading.Event())
    return cache
