"""Survival: which nodes, zones or pools can be lost, with every pod that runs there finding a place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations
from math import comb
from operator import or_
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import UNSET, Meta, UnsetType, structs

from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
from moorage.autoscalers.scaling_rounds import grow
from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.cluster.references import NAME, get, parsed
from moorage.controllers.claims_in_use import COMES_FREE, NOT_STARTED
from moorage.controllers.store_control import workloads_of
from moorage.document import Count, Document, Positive
from moorage.engine.scheduler.cycle.results import GATED, OTHER_SCHEDULER, TERMINATING, WAITING
from moorage.errors import InputError, located, number_of, shorten
from moorage.kube import Namespace, PodDisruptionBudget
from moorage.kube.model.pod import Pod
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.table import Table, Tabular

from .homeless_pods import EVICTED, REFUSED, UNSCHEDULABLE, HomelessPod, HomelessPods, noting_victims
from .nodes.node_room import grouped_rows
from .pod_moves import pods_to_move

if TYPE_CHECKING:
    from moorage.engine.scheduler.cycle.results import ScheduleResult

NODE = "node"
"""Stands for each node by itself."""
PROBLEMS = [UNSCHEDULABLE, WAITING, GATED, OTHER_SCHEDULER, TERMINATING, NOT_STARTED, EVICTED, REFUSED]


class LostPod(Document, frozen=True):
    """A pod that finds no place after a loss."""

    pod: str
    """``namespace/name`` of the pod without a node: the one that its controller has made anew, or the lost
    one that no controller makes again."""
    workload: str
    """Such as ``deployment/web``."""
    reason: str
    problem: Annotated[str, Meta(extra_json_schema={"enum": PROBLEMS})]
    """The reason in a word, as status of a finding: "waiting", "refused", "gated" or "other-scheduler" of a
    pod that is not tried; "not-started" where its volume is attached to another node than its own; "evicted"
    where no controller makes it again."""
    as_before: bool = False
    """Whether no more pods of the workload have no place than after this loss before the change."""


class Loss(Document, frozen=True):
    """What is lost with the nodes of some domains."""

    domains: tuple[str, ...]
    """Nodes, zones, or values of the label, that are lost together."""
    nodes: Count
    pods: Count
    """Pods that have to run elsewhere."""
    lost: tuple[LostPod, ...]
    """Pods without a place: of these, or others that were evicted for them."""

    @property
    def is_worse(self) -> bool:
        """Whether it leaves more pods without a place than before a change."""
        return not all(pod.as_before for pod in self.lost)


class SearchedSets(Document, frozen=True):
    """What was tried besides each domain alone."""

    at_once: Positive
    sets: Count
    """Sets of several domains that were tried."""
    possible: Count
    """All sets of domains that are survived alone."""
    worst: Count
    """All sets among so many of the fullest domains were tried."""


class SurvivalDocument(Document, frozen=True, kw_only=True):
    """Whether a cluster survives losses."""

    failed: Count | UnsetType = UNSET
    """Losses that are a failure; where a gate asks."""
    by: str
    """node, or the key of a label."""
    domains: Count
    """Number of nodes, or of values of the label; each was lost alone."""
    without_label: Count
    """Nodes without the label."""
    only: str
    """The namespace or the labels of the pods that were asked about; empty for all."""
    within_budgets: bool
    """Whether pods may have no place as long as their PodDisruptionBudgets hold."""
    is_compared: bool
    """Whether each loss was compared with the same one before the change."""
    grows: bool
    """Whether NodePools and node groups have nodes come after a loss."""
    detaches: bool
    """Whether volumes have to come free from lost nodes before their pods start elsewhere."""
    survived: bool
    """Whether no loss leaves pods without a place, or more than before the change; --allow has no effect on
    it."""
    losses: tuple[Loss, ...]
    """Losses that leave pods without a place, most pods first."""
    searched: SearchedSets
    """What was tried besides each domain alone."""


@dataclass(frozen=True)
class SurvivalQuestion:
    """What `survive` is asked; see `Questions.survive`."""

    by: str
    at_once: int
    go_on: Callable[[], bool]
    only: str = ""
    within_budgets: bool = False
    before: ChangingScheduler | None = None
    autoscaling: AutoscalerSettings | None = None
    progress: Callable[[int, int], object] = lambda ended, of: None


@dataclass(frozen=True, repr=False)
class Survival(Tabular):
    """Whether a cluster survives the loss of any node, zone, or value of a label.

    Attributes
    ----------
    by : str
        "node", or the key of the label.
    domains : int
        Number of nodes, or of values of the label. Each was tried alone.
    without_label : int
        Number of nodes without the label, of which none was lost.
    losses : tuple of Loss
        Those after which pods have no place, most pods first.
    at_once : int
        How many domains are lost together at most.
    sets, possible : int
        How many sets of several domains were tried, and how many there are. Only domains that are survived
        alone are combined: sets with another one fail anyway.
    worst : int
        All sets among so many of the domains were tried: those with the largest share of a resource.
    only : str
        The namespace, or the labels, of the pods that were asked about; "" for all.
    within_budgets : bool
        Whether pods may have no place as long as their PodDisruptionBudgets hold.
    is_compared : bool
        Whether the losses were compared with those before a change.
    grows : bool
        Whether NodePools and node groups have nodes come after a loss.
    detaches : bool
        Whether volumes have to come free from lost nodes.
    """

    by: str
    domains: int
    without_label: int
    losses: tuple[Loss, ...]
    at_once: int
    sets: int = 0
    possible: int = 0
    worst: int = 0
    only: str = ""
    within_budgets: bool = False
    is_compared: bool = False
    grows: bool = False
    detaches: bool = False

    def __bool__(self) -> bool:
        return not any(loss.is_worse for loss in self.losses)

    @property
    def searched(self) -> str:
        """What was tried, in one sentence."""
        text = f"each of {self.domains} alone"
        if self.at_once > 1:
            sets = f"{self.sets} of {self.possible} sets of 2" + (f" to {self.at_once}" * (self.at_once > 2))
            whole = self.sets == self.possible
            text += f", and {sets}" + ("" if whole else f": all among the {self.worst} fullest")
        text += f"; for pods of {self.only}" if self.only else ""
        text += "; pods may be lost while their PodDisruptionBudgets hold" if self.within_budgets else ""
        text += "; nodes come after a loss" if self.grows else ""
        text += f"; volumes leave a lost node {COMES_FREE}" if self.detaches else ""
        return text + ("; compared with the same losses before the change" if self.is_compared else "")

    def headline(self) -> str:
        """Return the answer and what was tried in one line."""
        worse = sum(loss.is_worse for loss in self.losses)
        if worse:
            what = number_of(worse, "loss leaves pods out", "losses leave pods out")
        elif self.losses:
            what = f"the loss of no {self.by} leaves more pods out than before"
        else:
            what = f"survives the loss of any {self.by}"
        return f"{what}; tried {self.searched}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each loss, most pods first.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns domains, nodes, pods, lost.
        """
        losses = self.losses[:limit]
        return Table(
            {
                "domains": [", ".join(loss.domains) for loss in losses],
                "nodes": np.array([loss.nodes for loss in losses], dtype=np.int64),
                "pods": np.array([loss.pods for loss in losses], dtype=np.int64),
                "lost": np.array([len(loss.lost) for loss in losses], dtype=np.int64),
            }
        )

    def document(self, failed: int | UnsetType = UNSET) -> SurvivalDocument:
        """Return the answer as its document.

        Parameters
        ----------
        failed : int, optional
            The losses that are a failure.
        """
        searched = SearchedSets(self.at_once, self.sets, self.possible, self.worst)
        return SurvivalDocument.from_object(self, failed=failed, survived=bool(self), searched=searched)


def survive(scheduler: ChangingScheduler, question: SurvivalQuestion) -> Survival:
    """Return which domains can be lost; see `Questions.survive`."""
    scheduler.sync()
    by, at_once = question.by, question.at_once
    label, domains = _domains(scheduler, by)
    without = len(scheduler.context.view_order()) - sum(map(len, domains.values()))
    if not 1 <= at_once <= max(len(domains), 1):
        what = "nodes" if by == NODE else f"values of {by}"
        raise InputError(
            f"must be from 1 to {len(domains)}, the number of {what}, not {at_once}", path="at_once"
        )
    with scheduler.transaction():
        trial = _DomainLosses(scheduler, domains, question, label)
        single = list[Loss]()
        for ended, name in enumerate(domains):
            question.progress(ended, len(domains))
            single += filter(None, [trial.lose((name,))])
        failed = {loss.domains[0] for loss in single}
        left = [name for name in trial.fullest_first() if name not in failed]
        possible = sum(comb(len(left), size) for size in range(2, at_once + 1))
        losses, sets, worst = list(single), 0, min(len(left), 1)
        for at, names in _sets(left, at_once):
            worst = at  # all sets of the domains before this one were tried
            if not question.go_on():
                break
            question.progress(sets, possible)
            sets += 1
            if (loss := trial.lose(names)) is not None:
                losses.append(loss)
        else:
            worst = len(left)
    if question.before is not None:
        losses = _compared(losses, trial, question.before)
    losses.sort(key=lambda loss: (not loss.is_worse, -len(loss.lost)))  # stable: equal ones in list order
    numbers = at_once, sets, possible, worst
    options = (
        question.only,
        question.within_budgets,
        question.before is not None,
        question.autoscaling is not None,
    )
    return Survival(label, len(domains), without, tuple(losses), *numbers, *options, trial.detaches)


def _compared(losses: list[Loss], trial: _DomainLosses, scheduler: ChangingScheduler) -> list[Loss]:
    """Return losses with the pods marked whose workloads were not better off before a change.

    A pod that waited before may wait after a loss, too. A domain that there was not is compared with the loss
    before the change that was worst for the workload. The loss of all nodes is never worse.
    """
    scheduler.sync()
    nodes = len(trial.scheduler.context.view_order())
    try:
        domains = _domains(scheduler, trial.question.by)[1]
    except InputError:  # no node had the label
        domains = {}
    with scheduler.transaction():
        before = _DomainLosses(scheduler, domains, replace(trial.question, only=""), trial.label)
        waited = before.waiting - trial.waiting
        losses = [
            _marked(loss, before.number_lost(loss.domains) + waited, Counter(map(_name, loss.lost)))
            for loss in losses
        ]
    return [_marked(loss, Counter(), Counter()) if loss.nodes == nodes else loss for loss in losses]


def _marked(loss: Loss, before: Counter[str], now: Counter[str]) -> Loss:
    lost = [structs.replace(pod, as_before=now[_name(pod)] <= before[_name(pod)]) for pod in loss.lost]
    return structs.replace(loss, lost=tuple(lost))


def _name(pod: LostPod) -> str:
    """Return namespace and name of the workload of a pod."""
    return f"{pod.pod.partition('/')[0]}/{pod.workload}"


def _sets(names: Sequence[str], most: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the sets of 2 to `most` names, first those of the first names, and the place of their last."""
    for at in range(1, len(names)):
        for size in range(1, most):
            for others in combinations(names[:at], size):
                yield at, (*others, names[at])


def _domains(scheduler: PodScheduler, by: str) -> tuple[str, dict[str, list[str]]]:
    """Return what the nodes are lost by, and the nodes of each domain, in list order."""
    if by == NODE:
        return by, {name: [name] for name in scheduler.context.view_order()}
    label, groups = grouped_rows(scheduler, by)
    row_name = scheduler.table.row_name
    return label, {value: [str(row_name(row)) for row in rows] for value, rows in groups.items()}


# ---- one loss ----------------------------------------------------------------------------------------------


class _DomainLosses:
    """Losses of domains, each taken back, beside what is without a node already.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction. Its pending pods are placed first.
    label : str
        What the nodes are lost by.

    Attributes
    ----------
    waiting : Counter of str
        Number of pods without a node before any loss, by workload; only where losses are compared.
    detaches : bool
        Whether volumes had to come free from lost nodes.
    """

    def __init__(
        self,
        scheduler: ChangingScheduler,
        domains: dict[str, list[str]],
        question: SurvivalQuestion,
        label: str,
    ) -> None:
        self.scheduler, self.domains, self.question, self.label = scheduler, domains, question, label
        self.detaches = False
        if scheduler.controllers is not None:
            scheduler.controllers.budgets.look_ahead()
        self._homeless = HomelessPods(scheduler)
        self._workloads = workloads_of(scheduler.client)
        self._is_asked = asked_about(scheduler, question.only)
        without = [each.pod for each in (*self._homeless.unmade, *self._homeless.waiting.values())]
        self.waiting = Counter(_name(self._lost(HomelessPod(pod, "", ""))) for pod in without)

    def fullest_first(self) -> list[str]:
        """Return the domains by the largest share that their pods have of a resource of the cluster."""
        table, find_row = self.scheduler.table, self.scheduler.cache.state.find_row
        rows = {
            domain: [row for name in names if (row := find_row(name)) is not None]
            for domain, names in self.domains.items()
        }
        shares = dict.fromkeys(self.domains, 0.0)
        for resource in table.resources:
            requested, total = (
                table.column("requested", resource),
                table.column("allocatable", resource).sum(),
            )
            for domain, its in rows.items() if total else ():
                shares[domain] = max(shares[domain], int(requested[its].sum()) / int(total))
        return sorted(shares, key=lambda name: -shares[name])

    def lose(self, names: tuple[str, ...]) -> Loss | None:
        """Lose domains, and return what has no place then; None if everything has one."""
        nodes = sorted(node for name in names for node in self.domains[name])  # as a selector has them
        moving = [pod for node in nodes for pod in pods_to_move(self.scheduler, node)]
        if not moving:
            return None
        with self.scheduler.transaction():
            if self.label == NODE:
                self.scheduler.change.remove_nodes(nodes)
            else:
                self.scheduler.change.fail_zone([f"{self.label}={name}" for name in names])
            with noting_victims(self.scheduler) as victims:
                result = self._run()
            homeless = self._homeless.after([*moving, *victims], result)
            budgets = BudgetSelectors(self.scheduler.client.list(PodDisruptionBudget)[0])
            lost = tuple([self._lost(each) for each in homeless if self._matters(each.pod, budgets)])
            controllers = self.scheduler.controllers
            self.detaches |= controllers is not None and bool(controllers.attachments.lost)
        return Loss(names, len(nodes), len(moving), lost) if lost else None

    def number_lost(self, names: tuple[str, ...]) -> Counter[str]:
        """Return how many pods a loss leaves without a place, by workload; the most of any loss, if there is
        none of these domains."""
        if not self.domains.keys() >= {*names}:
            return self._most_lost
        loss = self.lose(names)
        return Counter(map(_name, loss.lost if loss else ()))

    @cached_property
    def _most_lost(self) -> Counter[str]:
        return reduce(or_, [self.number_lost((name,)) for name in self.domains], Counter[str]())

    def _matters(self, pod: Pod, selectors: BudgetSelectors) -> bool:
        """Whether a pod without a place was asked about, and its budgets do not allow it."""
        if not self._is_asked(pod):
            return False
        if not self.question.within_budgets:
            return True
        budgets = selectors.of(pod)
        statuses = [budget.status for budget in budgets]
        hold = (
            status.expected_pods and status.current_healthy >= status.desired_healthy for status in statuses
        )
        return not budgets or not all(hold)

    def _run(self) -> ScheduleResult:
        """Place pods elsewhere, also on nodes that come."""
        results = [self.scheduler.run()]

        def again() -> ScheduleResult:
            results.append(self.scheduler.run())
            return results[-1]

        if self.question.autoscaling is not None:
            grow(self.scheduler, self.question.autoscaling, results[0], again)
        return results[-1]

    def _lost(self, homeless: HomelessPod) -> LostPod:
        pod, why, problem = homeless
        return LostPod(pod.key, self._workloads.of(pod).text, why, problem)


def asked_about(scheduler: PodScheduler, only: str) -> Callable[[Pod], bool]:
    """Return whether a pod is in a namespace, or has labels.

    Parameters
    ----------
    only : str
        A text that can be a name is one; any other is a selector. "" is for all pods.

    Raises
    ------
    InputError
        There is no such namespace, or no such pod.
    """
    if not only:
        return lambda pod: True
    if NAME.fullmatch(only):
        with located(path="only"):
            get(scheduler.client, Namespace, only)
        return lambda pod: pod.namespace == only
    with located(path="only"):
        matcher = parsed(only)
    if not any(matcher.matches(pod.metadata.labels) for pod in scheduler.client.list(Pod)[0]):
        raise InputError(f'no pod has the labels "{shorten(only, 80)}"', path="only")
    return lambda pod: matcher.matches(pod.metadata.labels)
