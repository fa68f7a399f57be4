"""Nodes needed: the fewest new nodes, by template, on which all pods have a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from math import inf
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from moorage._core.base.watch_events import keys_of
from moorage._core.state.pod_spec import pinned_node
from moorage.autoscalers.hourly_cost import rounded, sum_text
from moorage.cluster import ChangingScheduler
from moorage.cluster.lacking_pods import awaited_pods, rollouts
from moorage.controllers.api_server import admission_of
from moorage.controllers.availability import Rollout, why_awaited
from moorage.document import Amount, Count, Document
from moorage.engine.scheduler.schedule_pods import replica
from moorage.errors import InputError, located, nearest, number_of
from moorage.kube.admission.request import RefusedError
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.table import Table, Tabular

from .asked_pods import as_template, is_queued, pending_pods, store_with_claims, without_evictions
from .bounds.placement_bound import ASSUMPTIONS, Relaxation, relax
from .homeless_pods import Withheld, refused_by_name
from .node_count import NodeBound, Packing, bound_of_nodes, missing_domains, pack, share_of_daemons
from .node_emptying import FOUND, IMPOSSIBLE, NOT_FOUND, PlanStatus
from .pod_moves import fits_nowhere_else

Asked = Sequence[Pod | tuple[Pod, int]]
"""Pods, and templates with the number of their replicas."""
NOWHERE = "{} fits on none of the templates: {}"
TOO_SMALL = "The template {} is left out: it has no room for the pod of {}: {}"
MOST = 10_000
"""How many new nodes there are at most."""
AWAITS = "waits for other pods of its group"
EVICTS = "has a place only if other pods are evicted"


class NodesNeededDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage plan nodes``, without the notes, which commands show as warnings."""

    api_version: Literal["plan.moorage.dev/v1"] = "plan.moorage.dev/v1"
    kind: Literal["NodesNeeded"] = "NodesNeeded"
    status: PlanStatus
    nodes: Count
    counts: dict[str, Count]
    """New nodes by template."""
    packed: dict[str, Count] | None
    """Fewest new nodes by template on which a way to put the pods was found; null for none."""
    prices: dict[str, Amount]
    """Price per hour of a node by template, where it is known."""
    price_per_hour: float | None
    """Of counts; null if a price is not known."""
    cheapest: dict[str, Count] | None
    """New nodes by template of the cheapest way that was found; null without prices."""
    cheapest_per_hour: float | None
    lower_bound: int | None
    bound_by: str
    """linear program, or a resource."""
    unplaced: dict[str, str]
    """Reason by pod."""
    skipped: dict[str, Count]
    """Pending pods that were left out, by reason."""
    makers: tuple[str, ...]
    """The autoscalers that make these nodes, and with what; none for templates that are given."""
    proof: str | UnsetType = UNSET
    """Why no answer exists; only with impossible."""


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
        No fewer nodes are enough; None where no number is. 0 if rollouts remove pods, whose room comes free.
    bound_by : str
        What the bound follows from: "linear program" (extra ``lp``), or a resource; "" for no new node.
    unplaced : dict of str to str
        ``namespace/name`` of each pod that has no place with these nodes, to the reason.
    proof : str
        One sentence; "" unless `status` is "impossible".
    skipped : dict of str to int
        Number of pending pods that were left out, as the scheduler does not schedule them now, by reason.
    packed : dict of str to int or None
        Template to number of new nodes on which the pods fit if each is put on the right one: the fewest for
        which a way was found. kube-scheduler may need more, as it spreads pods. None if no way was found.
    prices : dict of str to float
        Price per hour of a node of each template whose price is given.
    cheapest : dict of str to int or None
        Template to number of new nodes: the cheapest way that was found with templates of known prices,
        confirmed by the engine. None without prices.
    notes : tuple of str
        Sentences: what moorage does not know of the new nodes. Where pods have no place: domains in which
        there is no template, and what DaemonSets take of the new nodes.
    makers : tuple of str
        The autoscalers that make these nodes, and with what; none for templates that are given. The nodes
        are those that come for the pods, so that there is no bound, and `not found` leaves pods waiting.
    in_words : str
        These nodes and their price in words.
    facts : tuple of str
        What decided about them.
    """

    status: str
    counts: dict[str, int]
    lower_bound: int | None
    bound_by: str
    unplaced: dict[str, str]
    proof: str = ""
    skipped: dict[str, int] | None = None
    packed: dict[str, int] | None = None
    prices: dict[str, float] = field(default_factory=dict)
    cheapest: dict[str, int] | None = None
    notes: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    in_words: str = ""
    facts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.status == FOUND

    def without(self, withheld: Mapping[str, Withheld]) -> NodesNeeded:
        """Return the plan beside pods that do not come in, by ``namespace/name``."""
        if not withheld:
            return self
        count, (text, waits) = number_of(len(withheld), "pod", "pods"), next(iter(withheld.values()))
        proof = f"{f'Kueue lets {count} wait' if waits else f'The API server refuses {count}'}: {text}"
        unplaced = {key: each.text for key, each in withheld.items()} | self.unplaced
        bound: dict[str, Any] = {"lower_bound": None, "bound_by": ""}
        return replace_fields(self, status=IMPOSSIBLE, unplaced=unplaced, proof=proof, **bound)

    @property
    def nodes(self) -> int:
        """Number of new nodes."""
        return sum(self.counts.values())

    def headline(self) -> str:
        """Return the status and numbers in one line."""
        text = self.in_words or number_of(self.nodes, "node", "nodes")
        if self.unplaced:
            out = f"{number_of(len(self.unplaced), 'pod has', 'pods have')} no place"
            text = f"{text}; {out}" if self.in_words else f"with {text} {out}"
            if self.status == NOT_FOUND and not (self.lower_bound or self.in_words):
                text = f"{text}, and all others have one"
        needed = f"{self.lower_bound} {'is' if self.lower_bound == 1 else 'are'} needed"
        bound = f", at least {needed}" if self.lower_bound else ""
        packed = None if self.packed is None else sum(self.packed.values())
        if packed not in (None, self.nodes):
            bound = f", {packed} if the pods are packed{bound}"
        return f"{self.status}: {text}{bound}{self._price_text()}{'; ' * bool(self.proof)}{self.proof}"

    def price(self, counts: Mapping[str, int]) -> float | None:
        """Return the price per hour of numbers of new nodes by template; None if one is not known."""
        used = {name: count for name, count in counts.items() if count}
        if not used.keys() <= self.prices.keys():
            return None
        return rounded(sum(count * self.prices[name] for name, count in used.items()))

    def _price_text(self) -> str:
        if self.cheapest is None:
            return ""
        price, least = self.price(self.counts), self.price(self.cheapest)
        here = "" if price is None or self.unplaced or self.in_words else f", {sum_text(price)} $/h"
        nodes = number_of(sum(self.cheapest.values()), "node", "nodes")
        if self.cheapest == self.counts:
            return f"{here}, and no cheaper way was found"
        assert least is not None  # it is of templates with prices
        return f"{here}; cheapest found: {nodes}, {sum_text(least)} $/h"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each template.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns template, nodes, and packed, cheapest and price if there are such numbers.
        """
        names = list(self.counts)[:limit]
        numbers = {"nodes": self.counts, "packed": self.packed, "cheapest": self.cheapest}
        columns = {
            key: np.array([of[name] for name in names], dtype=np.int64)
            for key, of in numbers.items()
            if of is not None
        }
        prices = {"price": np.array([self.prices.get(name, np.nan) for name in names])} if self.prices else {}
        return Table({"template": names, **columns, **prices})

    def document(self) -> NodesNeededDocument:
        """Return the answer of ``moorage plan nodes``."""
        return NodesNeededDocument.from_object(
            self,
            price_per_hour=self.price(self.counts),
            cheapest_per_hour=None if self.cheapest is None else self.price(self.cheapest),
            skipped=self.skipped or {},
        )


def nodes_needed(
    scheduler: ChangingScheduler,
    workload: Asked | None,
    like: Sequence[str | Node],
    most: int,
    prices: Mapping[str, float] = MappingProxyType({}),
) -> NodesNeeded:
    """Return how many new nodes pods need; see `Questions.nodes_needed`."""
    scheduler.sync()
    pods, skipped = pending_pods(scheduler) if workload is None else (asked_pods(workload), {})
    templates = _templates(like)
    with located(source="prices"):
        for name, price in prices.items():
            if name not in templates:
                raise InputError(f'there is no template "{name}"{nearest(name, templates)}')
            if not 0 <= price < inf:
                raise InputError(f"the price of {name} must be a number of at least 0, not {price}")
    if most < 0:
        raise InputError(f"max must be a whole number of at least 0, not {most}")
    pods, withheld = admitted_pods(scheduler, pods)
    with scheduler.transaction():
        scheduler.volumes.settle()
        stored = store_with_claims(scheduler, pods)
        search = _NodeCountSearch(scheduler, stored, workload is None, templates, most)
        plan = search.plan()
        if prices and plan.status == FOUND:
            cheapest = search.cheapest(prices, plan.counts)
            plan = replace_fields(plan, prices=dict(prices), cheapest=cheapest)
    plan = replace_fields(plan, skipped=skipped or None, notes=tuple(search.notes))
    return plan.without(withheld | search.refused(plan.counts))


def shown_price(price: float) -> float:
    """Return a price per hour in the digits that plans show; of two that are equal so, none is cheaper."""
    return float(sum_text(price))


def cheapest_way(
    scheduler: ChangingScheduler, pods: list[Pod], templates: Mapping[str, Node], prices: Mapping[str, float]
) -> dict[str, int] | None:
    """Return the cheapest of several ways to place pods that wait, all of them by a run; None if none does.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction.
    """
    return _NodeCountSearch(scheduler, pods, True, templates, MOST).cheapest(prices)


def asked_pods(workload: Asked) -> list[Pod]:
    """Return the pods that are asked about, none of them admitted: pods, and replicas of templates.

    Raises
    ------
    InputError
        A number of replicas is none.
    """
    pods = list[Pod]()
    for pod in workload:
        pods += [pod] if isinstance(pod, Pod) else _replicas(*pod)
    return pods


def _replicas(pod: Pod, count: int) -> list[Pod]:
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise InputError("nodes_needed: give pods, or pairs of a Pod and a count")
    template = as_template(pod)
    name = pod.name or pod.metadata.generate_name
    named = replace(template, metadata=replace(template.metadata, generate_name=f"{name}#"))
    return [replica(named, at) for at in range(count)]


def admitted_pods(scheduler: ChangingScheduler, pods: Sequence[Pod]) -> tuple[list[Pod], dict[str, Withheld]]:
    """Admit the pods that the store does not have, as the API server does, and Kueue those that name a queue.

    Returns
    -------
    pods : list of Pod
        As they are stored, without those that are refused or wait.
    withheld : dict of str to Withheld
        By ``namespace/name``, why these do not come in.
    """
    admission, out, withheld = admission_of(scheduler.client), list[Pod](), dict[str, Withheld]()
    new, stored = list[Pod](), scheduler.pods.indexer.get_many(keys_of(pods))
    for pod, current in zip(pods, stored, strict=True):
        try:
            if current is None:
                pod = admission.admit(pod)
                new.append(pod)
            out.append(pod)
        except RefusedError as error:
            withheld[pod.key] = Withheld(str(error), waits=False)
    if not any(is_queued(scheduler.client, pod) for pod in new):
        return out, withheld
    from .queues.asked_of_queues import let_go  # few clusters have Kueue

    let, held = let_go(scheduler, new)
    by_key = {pod.key: pod for pod in let}
    return [by_key.get(pod.key, pod) for pod in out if pod.key not in held], withheld | held


def _templates(like: Sequence[str | Node]) -> dict[str, str | Node]:
    """Return the templates of new nodes by their names."""
    if not like:
        raise InputError("like must be nodes, or names of nodes")
    templates = {template if isinstance(template, str) else template.name: template for template in like}
    if len(templates) < len(like):
        raise InputError("like has several templates of one name: give them different names")
    return templates


def _replaces(rollout: Rollout) -> bool:
    """Whether a rollout has pods to remove, so that a run frees room, and makes more pods than there are."""
    placed = rollout.updated - len(rollout.without_node)
    return rollout.updated < rollout.replicas or rollout.available > placed


class _NodeCountSearch:
    """Tries numbers of new nodes in transactions that are rolled back.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction.
    are_queued : bool
        Whether a run places them, with the pods of DaemonSets for new nodes, in the order of the queue: they
        are all pending pods of the cluster. Otherwise they are placed in their order, after those of
        DaemonSets.
    most : int
        Maximum number of new nodes.
    """

    def __init__(
        self,
        scheduler: ChangingScheduler,
        pods: list[Pod],
        are_queued: bool,
        templates: Mapping[str, str | Node],
        most: int,
    ) -> None:
        self._scheduler, self._pods, self._are_queued = scheduler, pods, are_queued
        self._names, self._most = list(templates), most
        self.notes = dict[str, None]()  # in order; what is not known of the new nodes, or to know about them
        self._templates = dict(filter(self._takes_daemons, templates.items()))
        self._trials: dict[tuple[int, ...], dict[str, str]] = {}  # by numbers of new nodes
        self._refused: dict[tuple[int, ...], dict[str, Withheld]] = {}

    def plan(self) -> NodesNeeded:
        """Return the plan."""
        bound, proof, packing = self._bound()
        counts, packed = [0] * len(self._templates), None if packing is None else packing.counts
        least = bound.nodes or 0
        if packed is not None:
            counts = packed.copy()
        elif len(counts) == 1 and not proof:
            counts[0] = min(least, self._most)
        status = self._grow(counts)
        if sum(counts) > least:
            self._shrink(counts, least)
        if status == FOUND and (packed is None or sum(packed) > sum(counts)):
            packed = counts
        unplaced = self._reasons(counts)
        if unplaced:
            self.notes |= dict.fromkeys(self._advice(unplaced))
        if proof in unplaced:
            proof = NOWHERE.format(proof, unplaced[proof])
        status = IMPOSSIBLE if proof else status
        return NodesNeeded(
            status,
            self._by_template(counts),
            bound.nodes,
            bound.source,
            unplaced,
            proof,
            packed=None if packed is None else self._by_template(packed),
        )

    def cheapest(
        self, prices: Mapping[str, float], known: Mapping[str, int] | None = None
    ) -> dict[str, int] | None:
        """Return the cheapest of several ways to place all pods: one that is known, the templates with the
        most pods for their price, and each template alone."""
        each = [prices.get(name, inf) for name in self._templates]
        ways = [] if known is None else [[known[name] for name in self._templates]]
        for allowed in (range(len(each)), *([at] for at in range(len(each)))):
            way = [0] * len(each)
            costs = [price if at in allowed else inf for at, price in enumerate(each)]
            if self._grow(way, costs) == FOUND:
                self._shrink(way, 0, costs)
                ways.append(way)
        costs_of = [sum(count * cost for count, cost in zip(way, each, strict=True) if count) for way in ways]
        least, first = min(((shown_price(cost), at) for at, cost in enumerate(costs_of)), default=(inf, 0))
        return self._by_template(ways[first]) if least < inf else None

    def refused(self, counts: Mapping[str, int]) -> dict[str, Withheld]:
        """Return the pods that the API server refuses once others are on so many new nodes."""
        key = tuple([counts[name] for name in self._templates])
        self._unplaced(key)
        return self._refused[key]

    def _by_template(self, counts: Sequence[int]) -> dict[str, int]:
        """Return numbers of new nodes by the name of their template; 0 for those that are left out."""
        return dict.fromkeys(self._names, 0) | dict(zip(self._templates, counts, strict=True))

    def _takes_daemons(self, named: tuple[str, str | Node]) -> bool:
        """Whether the pods of DaemonSets have a place on a new node; note the first that has none, whose
        template is left out, as cluster-autoscaler v1.36 does."""
        name, template = named
        with self._scheduler.transaction():
            _, arrived = self._add(1, template)
            failures = self._place_in_order(arrived)
        for pod in arrived:
            if pod.key in failures:
                owner = pod.metadata.controller()
                daemon = f"{owner.kind} {pod.namespace}/{owner.name}" if owner else pod.key
                self.notes[TOO_SMALL.format(name, daemon, failures[pod.key])] = None
                return False
        return True

    def _reasons(self, counts: Sequence[int]) -> dict[str, str]:
        """Return why pods have no place with so many new nodes; where there is none of a template, with one
        more of it."""
        left = self._unplaced(counts)
        shown = self._unplaced([max(1, count) for count in counts])
        if not left.keys() <= shown.keys():  # one more node would help: the limit of new nodes is reached
            shown = left
        return {key: shown[key] for key in left}

    def _advice(self, unplaced: Mapping[str, str]) -> Iterator[str]:
        """Yield what to know about the new nodes, where pods have no place."""
        scheduler = self._scheduler
        with scheduler.transaction():
            nodes: list[Node] = scheduler.client.list(Node)[0]
            new, arrived = self._add_all([1] * len(self._templates))
            self._place_in_order(arrived)
            new_nodes = {
                name: scheduler.client.get(Node, node)
                for name, (node,) in zip(self._templates, new, strict=True)
            }
            pods = [pod for pod in self._pods if pod.key in unplaced]
            yield from missing_domains(pods, new_nodes.values(), nodes)
            yield from share_of_daemons(scheduler, new_nodes, unplaced.values())

    # ---- bound and packing ---------------------------------------------------------------------------------

    def _bound(self) -> tuple[NodeBound, str, Packing | None]:
        """Return a lower bound; the name of a pod that fits on none of the templates, or else what no number
        of nodes is enough for, or ""; and a packing of at most so many nodes as are allowed."""
        scheduler = self._scheduler
        with scheduler.transaction():
            added, arrived = self._add_all([1] * len(self._templates))
            self._place_in_order(arrived)
            relaxation = relax(scheduler, self._pods, [1.0] * len(self._pods))
            rows = [scheduler.cache.state.find_row(name) for (name,) in added]
            new = [int(np.flatnonzero(relaxation.rows == row)[0]) for row in rows]
            replaces = self._are_queued and any(map(_replaces, rollouts(scheduler)))
            bound = NodeBound(0, "") if replaces else bound_of_nodes(scheduler, relaxation, new)
            packing = None if replaces or bound.lacking else pack(relaxation, new, bound.nodes or 0)
            hopeless = "" if packing else self._hopeless(relaxation)
        if hopeless or bound.lacking:
            return bound._replace(nodes=None), hopeless or bound.lacking, None
        if packing and (sum(packing.counts) > self._most or not self._holds(relaxation, packing)):
            packing = None
        return bound, "", packing

    def _hopeless(self, relaxation: Relaxation) -> str:
        """Return the name of a pod that fits on none of the nodes there are; "" for none."""
        scheduler = self._scheduler
        left = self._place_in_order(self._pods)
        for kind in relaxation.kinds:
            lacking = {pinned_node(pod.spec): pod for pod in reversed(kind.pods) if pod.key in left}
            for pod in reversed(lacking.values()):
                if fits_nowhere_else(scheduler, pod):
                    return pod.key
        return ""

    def _holds(self, relaxation: Relaxation, packing: Packing) -> bool:
        """Whether the filters let the pods be where a packing has them. They do where the relaxation leaves
        no filter out, and no two kinds of pods can have the same port."""
        scheduler = self._scheduler
        shapes, row_name = scheduler.cache.state.classes, scheduler.table.row_name
        has_ports = any(shapes.shape_of(shapes.intern(kind.pods[0])).ports for kind in relaxation.kinds)
        if relaxation.relaxed == ASSUMPTIONS and not has_ports:
            return True
        with scheduler.transaction():
            added, arrived = self._add_all(packing.counts)
            self._place_in_order(arrived)
            new = {place: iter(names) for place, names in zip(packing.new, added, strict=True)}
            nodes = [
                next(new[place]) if place in new else str(row_name(int(relaxation.rows[place])))
                for place in packing.origin.tolist()
            ]
            left = [
                pod if pinned_node(pod.spec) else replace(pod, spec=replace(pod.spec, node_name=nodes[at]))
                for kind, load in packing.loads
                for pod, at in zip(kind.pods, np.repeat(np.arange(len(load)), load).tolist(), strict=True)
            ]
            while left:
                failed = self._place_in_order(left)
                if len(failed) == len(left):
                    return False
                left = [pod for pod in left if pod.key in failed]
        return True

    # ---- trials --------------------------------------------------------------------------------------------

    def _add(self, count: int, template: str | Node) -> tuple[list[str], list[Pod]]:
        """Add nodes; return their names, and the pods of DaemonSets that arrive with them."""
        scheduler = self._scheduler
        before = scheduler.pods.pending.keys()
        change = scheduler.change.add_nodes(count, template)
        self.notes |= dict.fromkeys(change.notes)
        own = {pod.key for pod in self._pods}
        arrived = [pod for key, pod in scheduler.pods.pending.items() if key not in before and key not in own]
        names = [name.removeprefix("Node ") for name in change.created if name.startswith("Node ")]
        return names, [pod for pod in arrived if not scheduler.context.not_ours(pod)]

    def _add_all(self, counts: Sequence[int]) -> tuple[list[list[str]], list[Pod]]:
        """Add so many nodes of each template; return their names by template, and the pods that arrive."""
        parts = zip(counts, self._templates.values(), strict=True)
        added = [self._add(count, template) for count, template in parts]
        return [names for names, _ in added], [pod for _, arrived in added for pod in arrived]

    def _place_in_order(self, pods: list[Pod]) -> dict[str, str]:
        """Place pods without evictions, in their order; return why others have no place, by key."""
        failures = self._scheduler.schedule_pods(without_evictions(pods)).failures
        return {pods[at].key: failure.search_message for at, failure in failures.items()}

    def _place(self, arrived: list[Pod], pods: list[Pod]) -> dict[str, str]:
        """Place the pods of DaemonSets for new nodes, and others, as the scheduler does: return why some have
        no place, by key."""
        if not self._are_queued:
            return self._place_in_order(arrived) | self._place_in_order(pods)
        result = self._scheduler.run()
        stored = self._scheduler.pods.indexer.get_many(keys_of(pods))  # None: a rollout has removed it
        there = [pod for pod, now in zip(pods, stored, strict=True) if now is not None]
        left = {pod.key: AWAITS for pod in there if pod.key not in result.placements}
        left |= {key: failure.search_message for key, failure in result.unschedulable.items()}
        left |= {pod.key: why_awaited(pod) for pod in awaited_pods(self._scheduler)}  # they come after others
        return left | {eviction.by: EVICTS for eviction in result.evicted.values()}

    def _unplaced(self, counts: Sequence[int]) -> dict[str, str]:
        """Return why pods have no place, by key, if there were so many new nodes."""
        key = tuple(counts)
        if key not in self._trials:
            with self._scheduler.transaction():
                _, arrived = self._add_all(counts)
                self._trials[key] = self._place(arrived, self._pods)
                self._refused[key] = refused_by_name(self._scheduler) if self._are_queued else {}
        return self._trials[key]

    def _grow(self, counts: list[int], costs: Sequence[float] = ()) -> str:
        """Add nodes until all pods have a place; each time the template that places the most of the rest, for
        its cost."""
        while left := self._unplaced(counts):
            if sum(counts) >= self._most:
                return NOT_FOUND
            gains = self._gains(counts, [cost < inf for cost in costs] or [True] * len(counts))
            worth = np.array(gains) / (np.array(costs) + 1e-9) if costs else np.array(gains)
            best = int(np.argmax(worth)) if gains else 0
            if not gains or gains[best] <= 0:
                return NOT_FOUND
            rest = self._most - sum(counts)
            counts[best] += max(1, min(len(left) // gains[best], rest))
        return FOUND

    def _gains(self, counts: Sequence[int], allowed: Sequence[bool]) -> list[int]:
        """Return how many pods that have no place with some new nodes fit on one more of each template that
        is allowed."""
        scheduler, gains = self._scheduler, list[int]()
        with scheduler.transaction():
            _, arrived = self._add_all(counts)
            left = self._place(arrived, self._pods)
            rest = [pod for pod in self._pods if pod.key in left]
            for template, is_allowed in zip(self._templates.values(), allowed, strict=True):
                if not is_allowed:
                    gains.append(0)
                    continue
                with scheduler.transaction():
                    _, arrived = self._add(1, template)
                    gains.append(len(left.keys() - self._place(arrived, rest).keys()))
        return gains

    def _shrink(self, counts: list[int], least: int, costs: Sequence[float] = ()) -> None:
        """Take nodes away from each template, the dearest or else the last first, as long as no more pods
        lack a place and at least `least` nodes are left."""
        without = len(self._unplaced(counts))
        order = sorted(range(len(counts)), key=lambda at: (costs[at] if costs else 0, at), reverse=True)
        for at in order:
            low = max(0, least - sum(counts) + counts[at])
            while low < counts[at]:
                middle = (low + counts[at]) // 2
                if len(self._unplaced([*counts[:at], middle, *counts[at + 1 :]])) > without:
                    low = middle + 1
                else:
                    counts[at] = middle
