"""ClusterCache: the base class of caches, with state, lock, transactions, forks and expiry."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self
from weakref import ref

from moorage import forked_owners
from moorage._core.base.bracket import Bracket
from moorage._core.state.cluster_state import ClusterState
from moorage.errors import CacheCorruptedError

from .node_info import NodeTree, Snapshot

logger = logging.getLogger("moorage.cache")

HALF_UNDONE = "an undo has failed, so half of what it should restore is lost: make a new scheduler or cache"


class Enlisted(Protocol):
    """State outside the cache that is rolled back with a transaction."""

    def save(self) -> object:
        """Save the state; called when a transaction begins.

        Returns
        -------
        object
            The argument of `undo` or `release`.
        """

    def undo(self, saved: object) -> None:
        """Restore a saved state; called when the transaction has been rolled back, and again if a signal has
        broken it off.
        """

    def release(self, saved: object) -> None:
        """Discard a saved state; called when the transaction has been committed, perhaps again as `undo`."""


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

    def enlist(self, participant: Enlisted) -> None:
        """Add a participant that has not changed since the transaction began, unless it was added before."""
        for enlisted, _ in self._saved:
            if enlisted is participant:
                return
        self._saved.append((participant, participant.save()))

    def commit(self) -> None:
        """Keep the changes of the transaction at its end."""
        self.committed = True

    def begin(self) -> Self:
        """Save the state of the participants; called at the beginning of the block.

        Returns
        -------
        Transaction
            Itself.
        """
        cache = self._cache
        cache.check_whole()
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
    method : {'undo', 'release'}

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

    def clean(self, now: float) -> None:
        """Remove entries whose deadline has passed.

        Parameters
        ----------
        now : float
            Seconds on the cache's clock.
        """
        raise NotImplementedError

    def node_tree(self) -> NodeTree:
        """Return a view of the live node tree, which can be listed and iterated, but not changed."""
        return NodeTree.of_cache(self.state.tree, self.state.symbols, self.lock)

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
