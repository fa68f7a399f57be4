"""What the scheduler answers: a decision about one pod, an examination of one pod, the result of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.decide.pod_batch import Placements
from moorage.framework.plugin.interface import Code, NominatingInfo, Status
from moorage.plugins.gang_scheduling import GangScheduling

from .diagnosis import Diagnosis, Rejectors


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """What PreFilter did to the search: a rejection, or (code Success) the nodes it narrowed the search to.

    Attributes
    ----------
    node_names : list of str or None
        Sorted; may name nodes that do not exist.
    plugins : list of str
        Who narrowed the search.
    """

    plugin: str = ""
    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    node_names: list[str] | None = None
    plugins: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Examination:
    """All nodes filtered and all feasible ones scored, whatever their number; nothing is placed.

    Attributes
    ----------
    order : list of str
        Node names in list order.
    pre_filter : PreFilterOutcome or None
        None where PreFilter neither rejected nor narrowed.
    skipped_filter, skipped_score : list of str
        Plugins that answered Skip, sorted.
    rejected : dict of str to Status
        Node to the status of the first filter that rejected it, in list order.
    feasible : list of str
        Nodes that pass, in list order; `raw`, `normalized` and `total` are aligned with it.
    best : list of str
        Feasible nodes with the highest total.
    fit_error : str
        FitError text where nothing is feasible.
    error : str
        Set where the cycle fails with an error instead of a decision. Over a score that is not 0 to 100, what
        the filters said is there all the same.
    """

    order: list[str]
    pre_filter: PreFilterOutcome | None = None
    skipped_filter: list[str] = field(default_factory=list)
    skipped_score: list[str] = field(default_factory=list)
    rejected: dict[str, Status] = field(default_factory=dict)
    feasible: list[str] = field(default_factory=list)
    raw: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    normalized: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    total: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    best: list[str] = field(default_factory=list)
    fit_error: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Whether a pod fits.

    Attributes
    ----------
    nodes : tuple of str
        The nodes that it fits on, in list order.
    message : str
        FitError text, or the error of the cycle, where it fits nowhere.
    """

    nodes: tuple[str, ...]
    message: str = ""

    def __bool__(self) -> bool:
        return bool(self.nodes) and not self.message


class Decision(Struct, frozen=True):
    """The outcome of one cycle.

    Attributes
    ----------
    node : str or None
        Where the pod was put.
    start, next : int
        Positions at which this search and the next one begin.
    evaluated : int
        Nodes looked at that count: feasible and rejected. A node that an extender leaves out without a reason
        is neither. 0 where extenders were asked and the search failed with an error.
    feasible : (n,) int32 array
        Positions of the feasible nodes in the order found.
    totals : (n,) int64 array or None
        Their weighted totals; None where fewer than two are feasible, which are not scored.
    order : callable
        The node list of this cycle; valid until the next one.
    diagnosis : Diagnosis or None
        Why nothing was feasible.
    error : str
        Set where the cycle failed with an error.
    nominating : NominatingInfo or None
        What PostFilter does to the pod's nomination.
    waiting, binding : bool
        The pod is assumed on `node` and waits on Permit, or is being bound to it.
    hinted : bool
        `node` is what the list of an earlier, equal pod proposed (`Batching`).
    """

    node: str | None
    start: int
    next: int
    evaluated: int
    feasible: npt.NDArray[np.int32]
    totals: npt.NDArray[np.int64] | None
    order: Callable[[], list[str]]
    diagnosis: Diagnosis | None = None
    error: str = ""
    nominating: NominatingInfo | None = None
    waiting: bool = False
    binding: bool = False
    hinted: bool = False

    @property
    def evicts(self) -> bool:
        """Whether others have to leave a node for the pod."""
        return self.nominating is not None and bool(self.nominating.nominated_node_name)

    @property
    def fit_error(self) -> str:
        """FitError text, or "" where the pod was placed."""
        return self.diagnosis.message() if self.diagnosis is not None and not self.error else ""


def after_binding(
    decision: Decision, failure: Failure | None, waiting: bool = False, binding: bool = False
) -> Decision:
    """A decision with what became of the pod since: whether it failed, waits on Permit or is being bound.

    Parameters
    ----------
    decision : Decision
    failure : Failure or None
    waiting, binding : bool

    Returns
    -------
    Decision
    """
    if failure is not None:
        return replace(decision, node=None, diagnosis=failure.diagnosis, error=failure.error, binding=False)
    if waiting == decision.waiting and binding == decision.binding:
        return decision
    return replace(decision, waiting=waiting, binding=binding)


class Failure(Struct, frozen=True, dict=True):
    """Why one pod of a run was not placed; pods of one class that failed alike share one.

    Attributes
    ----------
    nominating : NominatingInfo or None
        What the attempt made of the pod's nomination.
    group_failure : str
        Why its group failed, whether the pod itself fitted or not.
    """

    diagnosis: Diagnosis | None = None
    error: str = ""
    nominating: NominatingInfo | None = None
    group_failure: str = ""

    @classmethod
    def of(cls, decision: Decision) -> Failure:
        """Why a single pod was not placed."""
        return cls(decision.diagnosis, decision.error, decision.nominating)

    @property
    def nominated_node(self) -> str:
        """The node on which others were evicted for the pod."""
        return self.nominating.nominated_node_name if self.nominating else ""

    @cached_property
    def message(self) -> str:
        """FitError text; or the error of the cycle, or why its group failed."""
        return self.error or (self.diagnosis.message() if self.diagnosis else self.group_failure)

    @property
    def search_message(self) -> str:
        """The same without what PostFilter says."""
        return self.error or (self.diagnosis.search_message() if self.diagnosis else self.group_failure)

    @cached_property
    def reasons(self) -> dict[str, int]:
        """Reason to number of nodes; empty where the cycle failed with an error."""
        return self.diagnosis.reasons() if self.diagnosis and not self.error else {}

    @cached_property
    def rejectors(self) -> Rejectors:
        """Who rejected the pod; nobody where the cycle failed with an error."""
        found = self.diagnosis.rejectors() if self.diagnosis and not self.error else Rejectors()
        if self.group_failure:
            return found._replace(unschedulable=found.unschedulable | {GangScheduling.name})
        return found


class Eviction(Struct, frozen=True):
    """A pod that had to leave its node for another one, or for a group: both are ``namespace/name``."""

    node: str
    by: str


class ScheduleResult(Placements):
    """What became of pods: of those given to a verb, in their order; or of those of a run, first the placed
    ones in the order of the decisions, then those that fit nowhere. A pod's key is its ``namespace/name``.

    Attributes
    ----------
    rows : (n,) int32 array
        Row of the node table that each pod was put on, -1 where it fits nowhere.
    nodes : list of str or None
        Name of the node of each pod, None where it fits nowhere; made when somebody asks.
    failures : dict of int to Failure
        Place of each other pod to the reason.
    seconds : float
        Time that a run spent deciding; otherwise 0.
    """

    seconds = 0.0

    @property
    def failure(self) -> Failure | None:
        """Why the first pod that fits nowhere does not; None where all were placed."""
        return self.failures[min(self.failures)] if self.failures else None

    def nodes_of(self, placed: Sequence[int]) -> list[str]:
        """Return the names of the nodes of some pods.

        Parameters
        ----------
        placed : sequence of int
            Indexes of pods that have a node.

        Returns
        -------
        list of str
        """
        names = self.state.symbols.names
        symbols = self.state.table.name_symbols(self.rows[np.asarray(placed)])
        return [names[symbol] for symbol in symbols.tolist()]

    @cached_property
    def keys(self) -> list[str]:
        """The key of each pod."""
        return [self._key(at) for at in range(len(self))]

    def _key(self, at: int) -> str:
        assert self.batch is not None
        return self.batch.pod(at).key

    @cached_property
    def placements(self) -> dict[str, str]:
        """Key of each placed pod to its node."""
        return {key: node for key, node in zip(self.keys, self.nodes, strict=True) if node is not None}

    @cached_property
    def unschedulable(self) -> dict[str, Failure]:
        """Key of each other pod to the reason."""
        return {self._key(at): failure for at, failure in self.failures.items()}

    @cached_property
    def waiting(self) -> dict[str, str]:
        """Pods of a run that wait on Permit, and the node that each is assumed on; `Scheduler.advance` goes
        on with them."""
        return {}

    @cached_property
    def binding(self) -> dict[str, str]:
        """Pods of a run that are being bound, and their nodes, where it is not for the scheduler to let time
        pass."""
        return {}

    @cached_property
    def evicted(self) -> dict[str, Eviction]:
        """Pods that a run preempted, in the order in which they went; nobody makes them anew."""
        return {}

    @cached_property
    def skipped(self) -> dict[str, str]:
        """Pods of a run that were not this scheduler's to place, and why."""
        return {}

    @cached_property
    def warnings(self) -> list[str]:
        """What the decisions left out, one sentence each."""
        return []

    def end_at_failure(self) -> None:
        """Tell of the pods before the first that fits nowhere, and of its failure; note the nodes' names."""
        failure = self.failure
        if failure is not None:
            placed = min(self.failures)
            self.truncate(placed)
            self.failures.clear()
            self.failures[placed] = failure
        self.note_names()

    def end_run(self) -> Self:
        """Have rows and failures of the `placements` and the `unschedulable` pods of a run that is over."""
        placed, find = len(self.placements), self.state.table.find_row
        self.keys = [*self.placements, *self.unschedulable]
        self.resize(len(self.keys))
        rows = [find(node) for node in self.placements.values()]
        self.rows[:placed] = [-1 if row is None else row for row in rows]
        self.failures.clear()
        self.failures.update(enumerate(self.unschedulable.values(), placed))
        self.note_names()
        return self
