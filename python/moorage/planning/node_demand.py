"""Nodes needed: the fewest new nodes, by template, on which all pods have a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec.structs import replace

from moorage._core.base.watch_events import keys_of
from moorage.controllers.workloads.store_control import admission_of
from moorage.errors import InputError, number_of
from moorage.objects.admission.admission import RefusedError
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.scheduler.cycle.results import Failure
from moorage.scheduler.placing.schedule_pods import replica
from moorage.tables import Table, Tabular

from .demand_notes import missing_domains, share_of_daemons
from .node_count import NodeBound, bound_of_nodes
from .node_emptying import FOUND, IMPOSSIBLE, NOT_FOUND
from .pending import pending_pods, without_evictions
from .pod_moves import fits_nowhere_else
from .stored_pods import store_with_claims
from .templates import as_template

if TYPE_CHECKING:
    from moorage.scheduler.scheduler import Scheduler

Asked = Sequence[Pod | tuple[Pod, int]] | tuple[Pod, int]
Likes = str | Node | Sequence[str | Node]
NOWHERE = "{} fits on none of the templates: {}"


@dataclass(frozen=True, repr=False)
class NodesNeeded(Tabular):
    """New nodes on which pods have a place.

    Attributes
    ----------
    status : str
        "found"; "impossible", where `proof` says why no number of nodes is enough; or "not found": the search
        is greedy, so there may be one.
    counts : dict of str to int
        Template, by the name of its node, to number of new nodes, in the order given. Unless `status` is
        "found", they are for the pods that are not in `unplaced`.
    lower_bound : int or None
        No fewer nodes are enough; None where no number is.
    bound_by : str
        What the bound follows from: "linear program" (extra ``lp``), or a resource; "" for no new node.
    unplaced : dict of str to str
        ``namespace/name`` of each pod that has no place with these nodes, to the reason.
    proof : str
        One sentence; "" unless `status` is "impossible".
    skipped : dict of str to int
        Number of pending pods that were left out, as the scheduler does not schedule them now, by reason.
    notes : tuple of str
        Sentences: what moorage does not know of the new nodes. Where pods have no place: domains in which
        there is no template, and what DaemonSets take of the new nodes.
    """

    status: str
    counts: dict[str, int]
    lower_bound: int | None
    bound_by: str
    unplaced: dict[str, str]
    proof: str = ""
    skipped: dict[str, int] | None = None
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.status == FOUND

    @property
    def nodes(self) -> int:
        """Number of new nodes."""
        return sum(self.counts.values())

    def headline(self) -> str:
        """Return the status and numbers in one line."""
        text = number_of(self.nodes, "node", "nodes")
        if self.unplaced:
            out = number_of(len(self.unplaced), "pod has", "pods have")
            text = f"with {text} {out} no place"
        needed = f"{self.lower_bound} {'is' if self.lower_bound == 1 else 'are'} needed"
        bound = "" if self.lower_bound is None else f", at least {needed}"
        return f"{self.status}: {text}{bound}{'; ' * bool(self.proof)}{self.proof}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each template.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns template, nodes.
        """
        rows = list(self.counts.items())[:limit]
        counts = np.array([count for _, count in rows], dtype=np.int64)
        return Table({"template": [name for name, _ in rows], "nodes": counts})

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a JSON value, without the notes, which commands show as warnings."""
        bound = {"lowerBound": self.lower_bound, "boundBy": self.bound_by}
        head = {"status": self.status, "nodes": self.nodes, "counts": self.counts} | bound
        rest = {"unplaced": self.unplaced, "skipped": self.skipped or {}}
        return head | rest | ({"proof": self.proof} if self.proof else {})


def nodes_needed(scheduler: Scheduler, workload: Asked | None, like: Likes, most: int) -> NodesNeeded:
    """Return how many new nodes pods need; see `Scheduler.nodes_needed`.

    Parameters
    ----------
    scheduler : Scheduler
    workload : sequence of (Pod or (Pod, int)), (Pod, int), or None
    like : str, Node, or sequence of these
    most : int

    Returns
    -------
    NodesNeeded
    """
    scheduler.sync()
    skipped: dict[str, int] = {}
    if workload is None:
        pods, skipped = pending_pods(scheduler)
    else:
        pods = asked_pods(workload)
    templates = _templates(like)
    if most < 0:
        raise InputError(f"max must be a whole number of at least 0, not {most}")
    pods, refused = admitted_pods(scheduler, pods)
    with scheduler.transaction():
        scheduler.volumes.settle()
        stored = store_with_claims(scheduler, pods)
        search = _Search(scheduler, without_evictions(stored), templates, most)
        found = search.plan()
    found = replace_fields(found, skipped=skipped or None, notes=tuple(search.notes))
    if not refused:
        return found
    count = number_of(len(refused), "pod", "pods")
    proof = f"The API server refuses {count}: {next(iter(refused.values()))}"
    unplaced = refused | found.unplaced
    return replace_fields(
        found, status=IMPOSSIBLE, lower_bound=None, bound_by="", unplaced=unplaced, proof=proof
    )


def asked_pods(workload: Asked) -> list[Pod]:
    """Return the pods that are asked about, none of them admitted.

    Parameters
    ----------
    workload : sequence of (Pod or (Pod, int)), or (Pod, int)
        Pods, or templates with the number of their replicas.

    Returns
    -------
    list of Pod

    Raises
    ------
    InputError
        It is something else.
    """
    if isinstance(workload, tuple) and len(workload) == 2 and isinstance(workload[1], int):
        return _replicas(*workload)
    found = list[Pod]()
    for one in cast(Sequence[Any], workload):
        found += _replicas(*one) if isinstance(one, tuple) and len(one) == 2 else _single(one)
    return found


def _single(pod: object) -> list[Pod]:
    if not isinstance(pod, Pod):
        raise InputError("nodes_needed: give pods, or pairs of a Pod and a count")
    return [pod]


def _replicas(pod: object, count: object) -> list[Pod]:
    """Return replicas of a template."""
    if not isinstance(pod, Pod) or not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise InputError("nodes_needed: give pods, or pairs of a Pod and a count")
    template = as_template(pod)
    name = pod.name or pod.metadata.generate_name
    named = replace(template, metadata=replace(template.metadata, generate_name=f"{name}#"))
    return [replica(named, at) for at in range(count)]


def admitted_pods(scheduler: Scheduler, pods: Sequence[Pod]) -> tuple[list[Pod], dict[str, str]]:
    """Admit the pods that the store does not have, as the API server does.

    Parameters
    ----------
    scheduler : Scheduler
    pods : sequence of Pod

    Returns
    -------
    pods : list of Pod
        As they are stored, without those that are refused.
    refused : dict of str to str
        ``namespace/name`` of each of these to the text of the refusal.
    """
    admission, out, refused = admission_of(scheduler.client), list[Pod](), dict[str, str]()
    stored = scheduler.pods.indexer.get_many(keys_of(pods))
    for pod, known in zip(pods, stored, strict=True):
        try:
            out.append(admission.admit(pod) if known is None else pod)
        except RefusedError as error:
            refused[pod.key] = str(error)
    return out, refused


def _names(templates: Sequence[str | Node]) -> list[str]:
    """Return the names of the templates of new nodes."""
    return [one if isinstance(one, str) else one.name for one in templates]


def _templates(like: Likes) -> list[str | Node]:
    """Return the templates of new nodes."""
    templates = [like] if isinstance(like, str | Node) else list(like)
    if not templates or not all(isinstance(one, str | Node) for one in templates):
        raise InputError("like must be nodes, or names of nodes")
    if len(set(_names(templates))) < len(templates):
        raise InputError("like has several templates of one name: give them different names")
    return templates


class _Search:
    """Tries numbers of new nodes in transactions that are rolled back.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction.
    pods : list of Pod
    templates : list of (str or Node)
    most : int
        Maximum number of new nodes.
    """

    def __init__(self, scheduler: Scheduler, pods: list[Pod], templates: list[str | Node], most: int) -> None:
        self._scheduler, self._pods, self._templates, self._most = scheduler, pods, templates, most
        self._known: dict[tuple[int, ...], dict[int, Failure]] = {}
        self.notes = dict[str, None]()  # in order; what is not known of the new nodes

    def plan(self) -> NodesNeeded:
        """Return the plan."""
        bound, proof = self._bound()
        counts = [0] * len(self._templates)
        least = bound.nodes or 0
        if len(counts) == 1 and not proof:
            counts[0] = min(least, self._most)
        status = self._grow(counts)
        if sum(counts) > least:
            self._shrink(counts)
        unplaced = self._reasons(counts)
        if unplaced:
            self.notes |= dict.fromkeys(self._advice(unplaced))
        if proof in unplaced:
            proof = NOWHERE.format(proof, unplaced[proof])
        of_template = dict(zip(_names(self._templates), counts, strict=True))
        status = IMPOSSIBLE if proof else status
        return NodesNeeded(status, of_template, bound.nodes, bound.source, unplaced, proof)

    def _reasons(self, counts: Sequence[int]) -> dict[str, str]:
        """Return why pods have no place with so many new nodes; where there is none of a template, with one
        more of it."""
        left = self._unplaced(counts)
        shown = self._unplaced([max(1, count) for count in counts])
        if not left.keys() <= shown.keys():  # one more node would help: the limit of new nodes is reached
            shown = left
        return {self._pods[at].key: shown[at].search_message for at in left}

    def _advice(self, unplaced: Mapping[str, str]) -> Iterator[str]:
        """Yield what to know about the new nodes, where pods have no place."""
        scheduler = self._scheduler
        with scheduler.transaction():
            nodes: list[Node] = scheduler.client.list(Node)[0]
            made = {
                name: scheduler.client.get(Node, self._add(1, template)[0])
                for name, template in zip(_names(self._templates), self._templates, strict=True)
            }
            pods = [pod for pod in self._pods if pod.key in unplaced]
            yield from missing_domains(pods, made.values(), nodes)
            yield from share_of_daemons(scheduler, made, unplaced.values())

    def _bound(self) -> tuple[NodeBound, str]:
        """Return a lower bound; and the name of a pod that fits on none of the templates, or else what no
        number of nodes is enough for, or ""."""
        scheduler = self._scheduler
        with scheduler.transaction():
            new = [self._add(1, template)[0] for template in self._templates]
            bound = bound_of_nodes(scheduler, self._pods, new)
            intern, tried = scheduler.cache.state.classes.intern, set[int]()
            for at in self._place(self._pods):
                pod = self._pods[at]
                if intern(pod) not in tried and fits_nowhere_else(scheduler, pod):
                    return bound._replace(nodes=None), pod.key
                tried.add(intern(pod))
        return bound, bound.lacking

    def _add(self, count: int, template: str | Node) -> list[str]:
        """Add nodes, and place the pods that arrive with them; return the names of the nodes."""
        scheduler = self._scheduler
        before = scheduler.pods.pending.keys()
        change = scheduler.add_nodes(count, template)
        self.notes |= dict.fromkeys(change.notes)
        own = {pod.key for pod in self._pods}
        arrived = [pod for key, pod in scheduler.pods.pending.items() if key not in before and key not in own]
        scheduler.schedule_pods([pod for pod in without_evictions(arrived) if not scheduler.not_ours(pod)])
        return [name.removeprefix("Node ") for name in change.created if name.startswith("Node ")]

    def _add_all(self, counts: Sequence[int]) -> None:
        """Add so many nodes of each template."""
        for count, template in zip(counts, self._templates, strict=True):
            if count:
                self._add(count, template)

    def _place(self, pods: list[Pod]) -> dict[int, Failure]:
        """Place pods; return the failures of the others by index."""
        return dict(self._scheduler.schedule_pods(pods).failures)

    def _unplaced(self, counts: Sequence[int]) -> dict[int, Failure]:
        """Return the pods without a place by index, if there were so many new nodes."""
        key = tuple(counts)
        if key not in self._known:
            with self._scheduler.transaction():
                self._add_all(counts)
                self._known[key] = self._place(self._pods)
        return self._known[key]

    def _grow(self, counts: list[int]) -> str:
        """Add nodes until all pods have a place; each time the template that places the most of the rest."""
        while left := self._unplaced(counts):
            if sum(counts) >= self._most:
                return NOT_FOUND
            gains = self._gains(counts, list(left))
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                return NOT_FOUND
            rest = self._most - sum(counts)
            counts[best] += max(1, min(len(left) // gains[best], rest))
        return FOUND

    def _gains(self, counts: Sequence[int], left: list[int]) -> list[int]:
        """Return how many pods that have no place with some new nodes fit on one more of each template."""
        scheduler, gains = self._scheduler, []
        with scheduler.transaction():
            self._add_all(counts)
            self._place(self._pods)
            rest = [self._pods[at] for at in left]
            for template in self._templates:
                with scheduler.transaction():
                    self._add(1, template)
                    gains.append(len(rest) - len(self._place(rest)))
        return gains

    def _shrink(self, counts: list[int]) -> None:
        """Take nodes away from each template, the last first, as long as no more pods lack a place."""
        without = len(self._unplaced(counts))
        for at in reversed(range(len(counts))):
            low = 0
            while low < counts[at]:
                middle = (low + counts[at]) // 2
                if len(self._unplaced([*counts[:at], middle, *counts[at + 1 :]])) > without:
                    low = middle + 1
                else:
                    counts[at] = middle
