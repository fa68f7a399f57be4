"""ClusterCache: the base of caches of a cluster: state, lock, transactions, forks, expiry."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from moorage._core.state.cluster_state import ClusterState

from .node_tree import NodeTree
from .snapshot import Snapshot

logger = logging.getLogger("moorage.cache")


class Enlisted(Protocol):
    """State beside the cache that a transaction undoes."""

    def save(self) -> object:
        """Called when a transaction begins.

        Returns
        -------
        object
            Argument of `undo` and `release`.
        """

    def undo(self, saved: object) -> None:
        """Called when the transaction was rolled back: restore the state of `save`.

        Parameters
        ----------
        saved : object
            What `save` returned.
        """

    def release(self, saved: object) -> None:
        """Called when the transaction was committed: `saved` is no longer needed.

        Parameters
        ----------
        saved : object
        """


class Participant(Enlisted, Protocol):
    """State that takes part in every transaction, and that a fork copies."""

    def clone(self) -> Self:
        """An independent copy, for a fork."""


class Transaction:
    """An open transaction: what was done inside is undone at its end unless `commit` is called."""

    def __init__(self) -> None:
        self.committed = False
        self._saved: list[tuple[Enlisted, object]] = []

    def enlist(self, participant: Enlisted) -> None:
        """Add a participant that has not changed since the transaction began; once is enough.

        Parameters
        ----------
        participant : Enlisted
        """
        if all(one is not participant for one, _ in self._saved):
            self._saved.append((participant, participant.save()))

    def end(self) -> None:
        """Undo or release what the participants saved, in the order in which they were enlisted."""
        for participant, saved in self._saved:
            (participant.release if self.committed else participant.undo)(saved)

    def commit(self) -> None:
        """Keep what was done."""
        self.committed = True


class ClusterCache:
    """The state of a cluster, with its lock and its transactions. Thread-safe.

    Parameters
    ----------
    state : ClusterState
    clock : callable
        Seconds, for deadlines.
    """

    def __init__(self, state: ClusterState, clock: Callable[[], float]) -> None:
        self.state = state
        self.clock = clock
        self.lock = state.lock  # every operation takes it
        self.participants: list[Participant] = []
        self.transactions: list[Transaction] = []  # the open ones

    def clean(self, now: float) -> None:
        """Expire what is due.

        Parameters
        ----------
        now : float
            Seconds on the cache's clock.
        """
        raise NotImplementedError

    def node_tree(self) -> NodeTree:
        """The live tree; to be listed and iterated, not changed."""
        return NodeTree.of_cache(self.state.tree, self.state.symbols, self.lock)

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Bring a snapshot up to date by copying what has changed since its last update.

        Parameters
        ----------
        snapshot : Snapshot
        """
        if snapshot.is_behind(self.state):
            with self.lock:
                snapshot.update(self.state)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A block whose changes are undone at its end, unless it commits and does not raise.

        Transactions nest; the lock is held throughout.

        Yields
        ------
        Transaction
        """
        with self.lock:
            transaction, outer = Transaction(), len(self.transactions)
            depth, mark = self.state.journal.depth, self.state.mark()
            try:
                for participant in self.participants:
                    transaction.enlist(participant)
                self.transactions.append(transaction)
                self.state.journal.begin()
                yield transaction
            except BaseException:
                transaction.committed = False
                raise
            finally:
                try:
                    if self.state.journal.depth > depth:  # else it was interrupted before it began
                        (self.state.commit if transaction.committed else self.state.rollback)(mark)
                finally:
                    del self.transactions[outer:]
                    transaction.end()

    def enlist(self, participant: Enlisted) -> None:
        """Add a participant to all open transactions, within which it has not changed so far.

        Parameters
        ----------
        participant : Enlisted
        """
        with self.lock:
            for transaction in self.transactions:
                transaction.enlist(participant)

    def fork(self) -> Self:
        """An independent copy; forks may be used from several threads. Participants are cloned in order."""
        out = copy.copy(self)
        with self.lock:
            out.state = self.state.fork()
            out.lock = out.state.lock
            out.participants = [participant.clone() for participant in self.participants]
            out.transactions = []
        return out

    def run(self, period: float, stop: threading.Event) -> threading.Thread:
        """Clean the cache in a daemon thread. A cleaning that fails is logged, and the next one tries again.

        Parameters
        ----------
        period : float
            Seconds between two cleanings.
        stop : threading.Event
            Ends the thread.

        Returns
        -------
        threading.Thread
            Started.
        """

        def work() -> None:
            while not stop.wait(period):
                try:
                    self.clean(self.clock())
                except Exception:
                    logger.exception("cleaning the cache failed")

        thread = threading.Thread(target=work, name="moorage-cache-cleaner", daemon=True)
        thread.start()
        return thread
