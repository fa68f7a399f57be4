"""Results of the scheduler: a decision about one pod, an examination of one pod, the result of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.watch_events import keys_of
from moorage._core.decide.batch_rows import Placements
from moorage._core.preempt.bound_pods import held_of, nodes_of
from moorage._core.queue.in_flight import keys_of as keys_of_entries
from moorage.engine.framework.interface import NominatingInfo
from moorage.engine.plugins.queue_and_groups import GangScheduling
from moorage.engine.queue import QueuedPodInfo
from moorage.kube import AnyGroup, Pod
from moorage.table import Table, Tabular

from .. import cycle as room

if TYPE_CHECKING:
    from .diagnosis import Diagnosis, Rejectors


NO_ROWS: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
TERMINATING = "terminating"
WAITING, GATED, OTHER_SCHEDULER = "waiting", "gated", "other-scheduler"
SKIPPED = {"gated": GATED, "other scheduler": OTHER_SCHEDULER, TERMINATING: TERMINATING}
"""The problem of a pod that a run has not tried, by the scheduler's word for it. A plugin gates the others;
those that GangScheduling gates wait for their group."""
GATED_WITH_GROUP = "another pod of its group is gated"


def problem_of(skipped: str) -> str:
    """Return the problem of a pod that a run has not tried, by what `SchedulerState.not_ours` says."""
    return WAITING if skipped.startswith(f"{GangScheduling.name}: ") else SKIPPED.get(skipped, GATED)


class Decision(Struct, frozen=True, dict=True):
    """The outcome of one scheduling cycle.

    Attributes
    ----------
    node : str or None
        The node that the pod was put on.
    start, next : int
        Positions in the node list at which this search and the next one begin.
    evaluated : int
        Number of feasible and of rejected nodes. A node that an extender leaves out without a reason is
        neither. 0 where extenders were called and the search failed with an error.
    feasible : (n,) int32 array
        Positions of the feasible nodes in the order found.
    totals : (n,) int64 array or None
        Weighted totals of the feasible nodes; None for fewer than two nodes, which are not scored.
    symbols : (n,) int32 array
        Indexes in `names` of the names of the feasible nodes, which `feasible_nodes` has.
    names : sequence of str
        The names of the cluster; it only grows.
    diagnosis : Diagnosis or None
        Why no node was feasible.
    error : str
        The error with which the cycle failed; "" for none.
    nominating : NominatingInfo or None
        Change of the pod's nomination by PostFilter.
    waiting, binding : bool
        Whether the pod, assumed on `node`, waits on Permit or is being bound.
    hinted : bool
        Whether `node` comes from the scored list of an earlier equal pod (`Batching`).
    """

    node: str | None
    start: int
    next: int
    evaluated: int
    feasible: npt.NDArray[np.int32]
    totals: npt.NDArray[np.int64] | None
    diagnosis: Diagnosis | None = None
    error: str = ""
    symbols: npt.NDArray[np.int32] = NO_ROWS
    names: Sequence[str | None] = ()
    nominating: NominatingInfo | None = None
    waiting: bool = False
    binding: bool = False
    hinted: bool = False

    def __repr__(self) -> str:
        outcome = f"on {self.node}" if self.node is not None else self.failure.message
        return f"<Decision: {outcome}; {len(self.feasible)} of {self.evaluated} nodes feasible>"

    @cached_property
    def failure(self) -> Failure:
        """Why the pod was not placed; its texts are made once for all who report it."""
        return Failure(self.diagnosis, self.error, self.nominating)

    @cached_property
    def feasible_nodes(self) -> list[str | None]:
        """The names of the feasible nodes in the order found."""
        return [self.names[symbol] for symbol in self.symbols.tolist()]

    @property
    def evicts(self) -> bool:
        """Whether PostFilter nominated the pod to a node, from which other pods are evicted."""
        return self.nominating is not None and bool(self.nominating.nominated_node_name)

    @property
    def fit_error(self) -> str:
        """FitError text; "" where the pod was placed or the cycle failed with an error."""
        return self.diagnosis.message() if self.diagnosis is not None and not self.error else ""


def after_binding(
    decision: Decision, failure: Failure | None, waiting: bool = False, binding: bool = False
) -> Decision:
    """Return a decision with the progress of the pod after the scheduling cycle.

    Parameters
    ----------
    failure : Failure or None
        Why Reserve, Permit or the binding cycle failed; None where it did not.
    waiting, binding : bool, optional
        Whether the pod waits on Permit or is being bound.
    """
    if failure is not None:
        return replace(decision, node=None, diagnosis=failure.diagnosis, error=failure.error, binding=False)
    if waiting == decision.waiting and binding == decision.binding:
        return decision
    return replace(decision, waiting=waiting, binding=binding)


class Failure(Struct, frozen=True, dict=True):
    """Why one pod was not placed. Pods of one class that fail alike share one object.

    Attributes
    ----------
    diagnosis : Diagnosis or None
        Why no node was feasible.
    error : str
        The error with which the cycle failed; "" for none.
    nominating : NominatingInfo or None
        Change of the pod's nomination by the attempt.
    group_failure : str
        Why the pod's group failed, whether or not the pod itself fitted.
    """

    diagnosis: Diagnosis | None = None
    error: str = ""
    nominating: NominatingInfo | None = None
    group_failure: str = ""

    def __repr__(self) -> str:
        return f"Failure({self.search_message!r})"

    @property
    def is_error(self) -> bool:
        """Whether the cycle failed with an error. That there is no node is none, although it has a text."""
        return bool(self.error) and (self.diagnosis is None or self.diagnosis.nodes > 0)

    @property
    def nominated_node(self) -> str:
        """Name of the node on which pods were evicted for the pod; "" for none."""
        return self.nominating.nominated_node_name if self.nominating else ""

    @cached_property
    def message(self) -> str:
        """The error of the cycle, or the FitError text, or why the group failed."""
        return self.error or (self.diagnosis.message() if self.diagnosis else self.group_failure)

    @property
    def search_message(self) -> str:
        """`message` without the part of PostFilter."""
        return self.error or (self.diagnosis.search_message() if self.diagnosis else self.group_failure)

    @cached_property
    def reasons(self) -> dict[str, int]:
        """Reason to number of nodes that gave it; empty where the cycle failed with an error."""
        return self.diagnosis.reasons() if self.diagnosis and not self.error else {}

    @cached_property
    def rejectors(self) -> Rejectors:
        """The plugins that rejected the pod; none where the cycle failed with an error."""
        rejectors = room.diagnosis.Rejectors()
        if self.diagnosis and not self.error:
            rejectors = self.diagnosis.rejectors()
        if self.group_failure:
            return rejectors._replace(unschedulable=rejectors.unschedulable | {GangScheduling.name})
        return rejectors


class Eviction(Struct, frozen=True):
    """The eviction of one pod.

    Attributes
    ----------
    node : str
        The node that the pod was on.
    by : str
        ``namespace/name`` of the pod or group that the eviction makes room for.
    budgets : tuple of str
        The PodDisruptionBudgets that the eviction violates, as ``namespace/name``; of preemptors that are
        pods, in an `ObjectStore`.
    """

    node: str
    by: str
    budgets: tuple[str, ...] = ()


def evictions_of(
    victims: Sequence[Pod], node: str, preemptor: Pod | AnyGroup, budgets: Mapping[str, tuple[str, ...]] = {}
) -> dict[str, Eviction]:
    """Return the evictions of pods by ``namespace/name``.

    Parameters
    ----------
    node : str
        The node of those that do not name theirs.
    budgets : mapping of str to tuple of str, optional
        By ``namespace/name`` of a victim, the budgets that its eviction violates.
    """
    names = [name or node for name in nodes_of(victims)]
    evictions = {name: Eviction(name, preemptor.key) for name in dict.fromkeys(names)}
    evicted = dict(zip(keys_of(held_of(victims)), map(evictions.__getitem__, names), strict=True))
    return evicted | {key: replace(evicted[key], budgets=some) for key, some in budgets.items()}


class ScheduleResult(Placements, Tabular):
    """The pods of one call or run, with their nodes and failures. The key of a pod is its ``namespace/name``.

    For a call with pods, they stand in the order given. For a run, the placed pods come first in the order of
    the decisions, then those that fit nowhere.

    Attributes
    ----------
    rows : (n,) int32 array
        Row in the node table of each pod's node; -1 where it fits nowhere, waits on Permit or is being bound.
    nodes : list of str or None
        Name of each pod's node, None where `rows` has -1; made at the first use.
    failures : dict of int to Failure
        Index of each unplaced pod to the reason.
    seconds : float
        Seconds that a run spent on decisions; otherwise 0.
    """

    seconds = 0.0
    _has_ended = False  # whether `end_run` has been called

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ScheduleResult cannot be pickled, as it refers to its scheduler: send to_arrow()")

    @property
    def failure(self) -> Failure | None:
        """The failure of the first unplaced pod; None where all were placed."""
        return self.failures[min(self.failures)] if self.failures else None

    @cached_property
    def keys(self) -> list[str]:
        """The key of each pod."""
        if self._has_ended:
            return [*self.placements, *self.unschedulable]
        return [self._key(at) for at in range(len(self))]

    def _key(self, at: int) -> str:
        """Return the key of the pod at an index of the result."""
        # The failed pod of a template is behind the end.
        if self._has_ended or (at < len(self) and "keys" in self.__dict__):
            return self.keys[at]
        assert self.batch is not None
        return self.batch.pod(at).key

    @cached_property
    def placements(self) -> dict[str, str]:
        """Key of each placed pod to its node."""
        if self._noted:
            nodes_by_key: dict[str, str] = {}
            for infos, nodes in self._noted:
                nodes_by_key.update(zip(keys_of_entries(infos), nodes, strict=True))
            self._noted = []
            return nodes_by_key
        return {key: node for key, node in zip(self.keys, self.nodes, strict=True) if node is not None}

    @cached_property
    def _noted(self) -> list[tuple[list[QueuedPodInfo], list[str]]]:
        """Pods that a run has placed, with their nodes, while nobody has read `placements`."""
        return []

    def note_placed(self, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Record pods that a run has placed, for `placements`.

        Parameters
        ----------
        nodes : list of str
            The name of the node of each. Neither list changes any more.
        """
        if "placements" in self.__dict__:
            self.placements.update(zip(keys_of_entries(infos), nodes, strict=True))
        elif infos:
            self._noted.append((infos, nodes))

    @property
    def has_placed(self) -> bool:
        """Whether `placements` of a run has pods."""
        return bool(self._noted or self.__dict__.get("placements"))

    def clear_run(self) -> None:
        """Drop what a run has recorded of pods, besides those that wait on Permit or are being bound."""
        self._noted = []
        self.__dict__.pop("placements", None)
        for pods in (self.unschedulable, self.evicted, self.skipped):
            pods.clear()

    @cached_property
    def unschedulable(self) -> dict[str, Failure]:
        """Key of each unplaced pod to the reason."""
        return {self._key(at): failure for at, failure in self.failures.items()}

    def headline(self) -> str:
        """Return the number of placed pods, and the reason of the first other one, in one line."""
        placed = int((self.rows >= 0).sum())
        counts = [f"{placed} of {len(self)} pods placed"]
        counts += [f"{len(pods)} {name}" for name, pods in self._others().items() if pods]
        failure = self.failure
        return ", ".join(counts) + (f"; first failure: {failure.search_message}" if failure else "")

    def remarks(self) -> list[str]:
        """Return a line for each of the `warnings`."""
        return [f"warning: {text}" for text in self.warnings]

    def _others(self) -> dict[str, Any]:
        """Return pods that are neither placed nor unschedulable, by what became of them."""
        names = ("waiting", "binding", "evicted", "skipped")
        return {name: getattr(self, name) for name in names}

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each pod.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns pod, node (missing where it fits nowhere), message (missing where it was placed).
        """
        n = len(self) if limit is None else min(limit, len(self))
        keys = self.keys if n == len(self) else [self._key(at) for at in range(n)]
        messages = [
            None if (failure := self.failures.get(at)) is None else failure.message for at in range(n)
        ]
        return Table({"pod": keys, "node": self.nodes[:n], "message": messages})

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON value."""
        others: dict[str, Any] = {name: dict(pods) for name, pods in self._others().items() if pods}
        if self.evicted:
            others["evicted"] = {
                key: {"node": eviction.node, "by": eviction.by}
                | ({"violatedBudgets": list(eviction.budgets)} if eviction.budgets else {})
                for key, eviction in self.evicted.items()
            }
        if self.warnings:
            others["warnings"] = self.warnings
        messages = {key: failure.message for key, failure in self.unschedulable.items()}
        return {"placements": dict(self.placements), "unschedulable": messages} | others

    @cached_property
    def waiting(self) -> dict[str, str]:
        """Key of each pod that waits on Permit, to the node on which it is assumed.
        `Scheduler.advance` goes on with these pods."""
        return {}

    @cached_property
    def binding(self) -> dict[str, str]:
        """Key of each pod that is being bound, to its node. Empty where the scheduler itself lets
        time pass and finishes the binding."""
        return {}

    @cached_property
    def evicted(self) -> dict[str, Eviction]:
        """Key of each pod that a run evicted, to its eviction, in the order of the evictions. No controller
        of the run replaces these pods."""
        return {}

    @cached_property
    def skipped(self) -> dict[str, str]:
        """Key of each pod of a run that this scheduler does not schedule, to the reason."""
        return {}

    @cached_property
    def warnings(self) -> list[str]:
        """What the decisions did not consider, such as pod groups whose gate is off; one sentence each."""
        return []

    def end_at_failure(self) -> None:
        """Cut the result after the first unplaced pod, and record the node names of the pods before it."""
        failure = self.failure
        if failure is not None:
            placed = min(self.failures)
            self.truncate(placed)
            self.failures.clear()
            self.failures[placed] = failure
        self.note_names()

    def end_run(self, may_repeat: bool = True) -> Self:
        """Fill rows and failures from `placements` and `unschedulable` at the end of a run.

        Parameters
        ----------
        may_repeat : bool, optional
            Whether two of the pods that were placed may have had one key, the first one having been deleted.

        Returns
        -------
        ScheduleResult
            This result.
        """
        if may_repeat or not self._noted:
            nodes = list(self.placements.values())
        else:
            parts = [names for _, names in self._noted]  # mostly one
            nodes = parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))
        self._has_ended = True
        self.__dict__.pop("keys", None)
        self.resize(len(nodes) + len(self.unschedulable))
        self.place_on(nodes)
        self.failures.clear()
        self.failures.update(enumerate(self.unschedulable.values(), len(nodes)))
        self.note_names()
        return self
