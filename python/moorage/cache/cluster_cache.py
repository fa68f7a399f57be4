"""ClusterCache: the base class of caches, with state, lock, transactions, forks and expiry."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from moorage._core.state.cluster_state import ClusterState

from .node_tree import NodeTree
from .snapshot import Snapshot

logger = logging.getLogger("moorage.cache")


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
        """Restore a saved state; called when the transaction has been rolled back.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """

    def release(self, saved: object) -> None:
        """Discard a saved state; called when the transaction has been committed.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """


class Participant(Enlisted, Protocol):
    """State that takes part in every transaction and that a fork copies."""

    def clone(self) -> Self:
        """Return an independent copy, for a fork."""


class Transaction:
    """An open transaction. Its changes are undone at its end unless `commit` has been called.

    Attributes
    ----------
    committed : bool
        Whether `commit` has been called.
    is_over : bool
        Whether it has ended, possibly with the transaction around it.
    """

    def __init__(self, mark: tuple[int, int, int]) -> None:
        self.mark = mark  # of the state
        self.committed = self.is_over = False
        self._saved: list[tuple[Enlisted, object]] = []

    def enlist(self, participant: Enlisted) -> None:
        """Add a participant that has not changed since the transaction began, if it has not been added yet.

        Parameters
        ----------
        participant : Enlisted
        """
        for enlisted, _ in self._saved:
            if enlisted is participant:
                return
        self._saved.append((participant, participant.save()))

    def end(self) -> None:
        """Undo or release the saved states of the participants, in the order of their enlistment, and drop
        them."""
        self.is_over = True
        states, self._saved = self._saved, []
        end_each(states, "release" if self.committed else "undo")

    def commit(self) -> None:
        """Keep the changes of the transaction at its end."""
        self.committed = True


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
    state : ClusterState
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
        """Update a snapshot by copying the rows that have changed since its last update.

        Parameters
        ----------
        snapshot : Snapshot
        """
        snapshot.update(self.state)

    @contextmanager
    def transaction(self, *others: Enlisted) -> Iterator[Transaction]:
        """Return a context manager that undoes the changes of its block unless the block commits.

        An exception undoes the changes in any case. Transactions nest: one that is still open when the one
        around it ends is undone first. The lock is held throughout.

        Parameters
        ----------
        *others : Enlisted
            Further state that the transaction undoes.

        Yields
        ------
        Transaction
        """
        with self.lock:
            outer, depth, mark = len(self.transactions), self.state.journal.depth, self.state.mark()
            transaction = Transaction(mark)
            # Bound now: there may be no memory later.
            commit, rollback = self.state.commit, self.state.rollback
            try:
                for participant in (*self.participants, *others):
                    transaction.enlist(participant)
                self.transactions.append(transaction)
                self.state.journal.begin()
                yield transaction
            except BaseException:
                transaction.committed = False
                raise
            finally:
                if not transaction.is_over:
                    try:
                        if len(self.transactions) > outer + 1:
                            self._undo_from(outer + 1)
                    finally:
                        try:
                            if self.state.journal.depth > depth:  # else an exception occurred before it began
                                (commit if transaction.committed else rollback)(mark)
                        finally:
                            del self.transactions[outer:]
                            transaction.end()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo what a block changes in `state`: a cheaper `transaction` for one that changes nothing else."""
        with self.lock:
            state = self.state
            depth, mark = state.journal.depth, state.mark()
            try:
                state.journal.begin()
                yield
            finally:
                if state.journal.depth > depth:  # else an exception occurred before it began
                    state.rollback(mark)

    def _undo_from(self, first: int) -> None:
        """Undo the open transactions from an index on, the innermost first."""
        while len(self.transactions) > first:
            inner = self.transactions.pop()
            inner.committed = False
            try:
                self.state.rollback(inner.mark)
            finally:
                inner.end()

    def enlist(self, participant: Enlisted) -> None:
        """Add a participant, which has not changed since they began, to all open transactions.

        Parameters
        ----------
        participant : Enlisted
        """
        with self.lock:
            for transaction in self.transactions:
                transaction.enlist(participant)

    def fork(self) -> Self:
        """Return an independent copy, with a clone of each participant; it may be used in another thread."""
        out = copy.copy(self)
        with self.lock:
            out.state = self.state.fork()
            out.lock = out.state.lock
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
