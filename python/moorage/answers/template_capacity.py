"""Capacity: how many replicas of a template fit, where, and what stops the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from moorage._core.decide.copies import account_copies, filters_rows_alone
from moorage._core.decide.pod_batch import PodBatch
from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.controllers.api_server import admission_of
from moorage.document import Count, Document, Positive
from moorage.engine.plugins.node_resources import resource_of
from moorage.engine.scheduler.cycle.results import Failure
from moorage.engine.scheduler.options import check_readable
from moorage.engine.scheduler.schedule_pods import MOST, replica, schedule_workload
from moorage.errors import InputError
from moorage.grouped import by_count
from moorage.kube import group_of
from moorage.kube.admission.chain import Admission
from moorage.kube.admission.request import RefusedError
from moorage.kube.model.pod import Pod, PodStatus
from moorage.kube.model.pod_group import GangSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy
from moorage.table import Table, Tabular

from .asked_pods import (
    as_template,
    checked_needs,
    free_amounts,
    has_ephemeral,
    is_queued,
    node_verdicts,
    number_that_fits,
    reason_not_scheduled,
    store_with_claims,
)
from .explain.explain_group import GroupTrial
from .explain.pod_claims import PodClaims
from .explain.rules.devices import lacking_requests
from .homeless_pods import Withheld

FIRST_TRY = 256
"""Replicas that are tried in the first call; twice as many in each that follows."""
FIRST_TRY_WITH_CLAIMS = 16
"""Replicas with claims are stored before they are tried."""
MOST_QUEUED = 4096
"""Replicas about which Kueue is asked at most."""
Stop = Failure | Withheld
"""Why the next replica is not placed: it fits nowhere, or what admission says against it."""
Shares = Pod | Sequence[Pod | tuple[Pod, int]]
"""A template, or several: each alone (share 1) or with its number of replicas in a round."""


class TemplateCapacity(Document, frozen=True, omit_defaults=True):
    """The capacity for one template."""

    name: str
    """``namespace/name`` of the template."""
    share: Positive
    """Replicas in a round."""
    count: Count
    """Replicas that fit."""
    nodes: dict[str, Count]
    """Node to its number of replicas, in list order; nodes without any are left out."""
    skipped: str = ""
    """Why the scheduler does not schedule pods of the template now ("gated", "other scheduler"). The count is
    what fits once it does, by the first profile if none has their scheduler name."""


class Binding(Document, frozen=True, omit_defaults=True):
    """What stops the next replica on the nodes with one value of a label."""

    value: str
    """Value of the label; empty for nodes without it."""
    nodes: Count
    resource: str
    """The resource that most of the nodes lack; empty for none."""
    reasons: dict[str, Count]
    """Reason to number of nodes that give it, the most frequent first."""
    devices: dict[str, Positive] = {}
    """Request for devices with the rule that leaves too few, to number of nodes."""


class GangCapacity(Document, frozen=True, omit_defaults=True):
    """Whole gangs of pods, which count only together."""

    size: Positive
    """Pods of a gang."""
    count: Count
    """Whole gangs that fit."""
    rest: Count
    """Pods of the next gang that fit; they do not count. Of a group that is bound to a topology, the most
    that fit in one domain."""
    domains: dict[str, Positive] = {}
    """Of a group that is bound to a topology: gangs in each domain that has some, by LABEL=VALUE."""


class NextReplica(Document, frozen=True):
    """The replica that fits nowhere or is refused."""

    template: str
    message: str
    """FitError text, or that of admission."""
    reasons: dict[str, Count]
    """Reason to number of nodes."""


class CapacityDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage capacity``."""

    api_version: Literal["capacity.moorage.dev/v1"] = "capacity.moorage.dev/v1"
    kind: Literal["Capacity"] = "Capacity"
    count: Count
    """Replicas that fit, of all templates together."""
    rounds: Count
    """Complete rounds, in each of which every template has its share."""
    templates: tuple[TemplateCapacity, ...]
    gang: GangCapacity | UnsetType = UNSET
    """With --gang: whole gangs of pods that count only together."""
    next: NextReplica | UnsetType = UNSET
    """The replica that fits nowhere or is refused; absent where the limit ended the count."""
    label: str
    """Label key of binding."""
    binding: tuple[Binding, ...]


@dataclass(frozen=True, repr=False)
class Capacity(Tabular):
    """How many replicas of templates fit besides the pods that are in the cluster.

    Attributes
    ----------
    templates : tuple of TemplateCapacity
        In the order given.
    rounds : int
        Complete rounds, in each of which every template has its share. For one template of share 1: the
        count.
    failed : str
        ``namespace/name`` of the template of which the next replica fits nowhere, or is refused; "" where
        `max` ended the count.
    failure : Failure or None
        Why it fits nowhere. `nominated_node` is set where pods would be evicted for it.
    refusal : str
        Why the API server would refuse it, in its words: for a quota that is used up, say; or why Kueue would
        let it wait. "" where it would come in.
    waits : bool
        Whether it would wait for Kueue.
    gang : int
        Pods of a gang, where whole gangs were counted: `rounds` is their number. 0 where pods were.
    rest : int
        Pods of the gang after the last whole one that fit; they do not count. Of a group that is bound to a
        topology, the most that fit in one domain.
    domains : dict of str to int
        Of a group that is bound to a topology: the gangs in each domain that has some, by ``LABEL=VALUE``.
    label : str
        Label key of `binding`.
    binding : tuple of Binding
        By value of the label, sorted; empty where `failure` is None.
    """

    templates: tuple[TemplateCapacity, ...]
    rounds: int
    failed: str
    failure: Failure | None
    label: str
    binding: tuple[Binding, ...]
    refusal: str = ""
    waits: bool = False
    gang: int = 0
    rest: int = 0
    domains: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of replicas that fit, of all templates together."""
        return sum(template.count for template in self.templates)

    @property
    def message(self) -> str:
        """FitError text of the next replica, or `refusal`; "" where `max` ended the count."""
        return self.failure.message if self.failure else self.refusal

    @property
    def reasons(self) -> dict[str, int]:
        """Reason against the next replica to number of nodes that give it."""
        return self.failure.reasons if self.failure else {}

    def headline(self) -> str:
        """Return counts and the reason in one line."""
        counts, end = ", ".join(f"{each.name}: {each.count}" for each in self.templates), "limit reached"
        if self.gang:
            counts += f" in {self.rounds} gang{'' if self.rounds == 1 else 's'} of {self.gang}"
        if self.failure:
            end = f"{self.failed} fits nowhere: {self.failure.search_message}"
        elif self.refusal:
            end = f"{self.failed}{'' if self.waits else ' is refused'}: {self.refusal}"
        return f"{counts}; {end}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each template and node with replicas.

        Parameters
        ----------
        limit : int, optional
            Number of rows; by default all.

        Returns
        -------
        Table
            Columns template, node, replicas.
        """
        rows = [
            (template.name, node, n) for template in self.templates for node, n in template.nodes.items()
        ][:limit]
        counts = np.array([n for *_, n in rows], dtype=np.int64)
        return Table({"template": [r[0] for r in rows], "node": [r[1] for r in rows], "replicas": counts})

    def document(self) -> CapacityDocument:
        """Return the answer of ``moorage capacity``."""
        gang, stop = self.gang, NextReplica(self.failed, self.message, self.reasons)
        gangs = GangCapacity(gang, self.rounds, self.rest, self.domains) if gang else UNSET
        return CapacityDocument.from_object(self, gang=gangs, next=stop if self.failed else UNSET)


class _Replicas(Struct):
    """The replicas of one template that have been admitted and placed so far."""

    name: str
    template: Pod
    share: int
    admission: Admission
    admitted: int = 0
    refusal: Withheld | None = None
    placed: int = 0
    rows: list[npt.NDArray[np.int32]] = msgspec.field(default_factory=list)
    copies: list[npt.NDArray[np.int32]] = msgspec.field(default_factory=list)

    def admit(self, n: int) -> int:
        """Admit replicas up to `n` in all, and return how many of these are; the template is as admitted."""
        while self.admitted < n and not self.refusal:
            try:
                self.template, more = self.admission.admit_many(self.template, n - self.admitted)
                self.admitted += more
            except RefusedError as error:
                self.refusal = Withheld(str(error), waits=False)
        return min(n, self.admitted)

    def add(self, rows: npt.NDArray[np.int32], copies: npt.NDArray[np.int32]) -> None:
        """Add replicas: how many on each row."""
        self.rows.append(rows)
        self.copies.append(copies)
        self.placed += int(copies.sum())

    def by_node(self, names: Sequence[str | None]) -> dict[str, int]:
        """Return the number of replicas of each node with some, in the order of rows."""
        if not self.rows:
            return {}
        counts = np.bincount(np.concatenate(self.rows), np.concatenate(self.copies)).astype(np.int64)
        rows = np.flatnonzero(counts)
        return dict(zip([str(names[row]) for row in rows.tolist()], counts[rows].tolist(), strict=True))


def capacity(
    scheduler: ChangingScheduler, template: Shares, most: int | None, label: str, gang: int | None = None
) -> Capacity:
    """Return how many replicas of templates fit; see `Questions.capacity`.

    Parameters
    ----------
    gang : int, optional
        Pods of a gang, in which the templates have their shares; by default each replica counts.

    Raises
    ------
    InputError
        There is no template, a share is no positive number, `most` is negative, or a template has something
        else where a quantity belongs; or `gang` is no multiple of the shares together, or the templates of a
        gang are in several pod groups.
    MoorageError
        The client is no ObjectStore, or pods are being bound.
    """
    given = _with_shares(template) if gang is None else _with_gang(_with_shares(template), gang)
    if most is not None and not 0 <= most <= MOST:
        raise InputError(f"max must be a whole number from 0 to {MOST}, not {most}")
    check_readable(pod for pod, _ in given)
    scheduler.sync()
    skipped = [_reason_not_scheduled(scheduler, pod, gang) for pod, _ in given]
    with scheduler.transaction():
        admission = admission_of(scheduler.client)
        every = [
            _Replicas(pod.key, _unused_names(pod, at), share, admission)
            for at, (pod, share) in enumerate(given)
        ]
        scheduler.volumes.settle()
        group = None if gang is None else _bound_group(scheduler, every)
        if group is not None or len(every) > 1:
            failed, rounds, stop = _place_rounds(scheduler, every, most, group)
        elif gang is None and is_queued(scheduler.client, every[0].template):
            failed, rounds, stop = _place_let_go(scheduler, every[0], most)
        else:
            if gang is None:
                _fill(scheduler, every[0], _limit(every[0], most))
            failed, rounds, stop = _place_one_kind(scheduler, every[0], most)
        failure, withheld = (None, stop) if isinstance(stop, Withheld) else (stop, Withheld("", waits=False))
        is_of_group = failure is not None and failure.group_failure
        binding = (
            () if failure is None or is_of_group else _binding(scheduler, _next(scheduler, failed), label)
        )
        rest = 0
        if stop is not None and (gang is not None or len(every) > 1):
            rest = _take_back_rest(scheduler, every, rounds, group)
        names = scheduler.table.names
        domains = {} if gang is None or group is None else _gangs_by_domain(scheduler, every, gang, group)
    counted = tuple(
        [
            TemplateCapacity(each.name, each.share, each.placed, each.by_node(names), why)
            for each, why in zip(every, skipped, strict=True)
        ]
    )
    name = "" if stop is None else failed.name
    size = (0, 0) if gang is None else (gang, rest)
    return Capacity(counted, rounds, name, failure, label, binding, *withheld, *size, domains)


def _with_shares(template: Shares) -> list[tuple[Pod, int]]:
    """Return each template with its share."""
    listed = [template] if isinstance(template, Pod) else list(template)
    shares = [(each, 1) if isinstance(each, Pod) else each for each in listed]
    if not shares:
        raise InputError("capacity: give at least one template")
    for pair in shares:
        if isinstance(pair[1], bool) or not isinstance(pair[1], int) or pair[1] < 1:
            raise InputError(f"share must be a positive whole number, not {pair[1]!r}", obj=pair[0].key)
    return shares


def _with_gang(given: list[tuple[Pod, int]], gang: int) -> list[tuple[Pod, int]]:
    """Return the templates, each with its number of pods in a gang."""
    if isinstance(gang, bool) or not isinstance(gang, int) or not 1 <= gang <= MOST:
        raise InputError(f"must be a whole number from 1 to {MOST}, not {gang!r}", path="gang")
    total = sum(share for _, share in given)
    if gang % total:
        parts = ", ".join(f"{share} {pod.key}" for pod, share in given)
        raise InputError(f"must be a multiple of {total} ({parts}), not {gang}", path="gang")
    groups = {"/".join(unit) if (unit := group_of(pod)) else "no group" for pod, _ in given}
    if len(groups) > 1:
        names = ", ".join(sorted(groups))
        raise InputError(f"the pods of a gang must be in one pod group, not in {names}", path="gang")
    return [(pod, share * (gang // total)) for pod, share in given]


def _reason_not_scheduled(scheduler: PodScheduler, template: Pod, gang: int | None) -> str:
    """Return why the scheduler does not schedule pods of a template now; "" where it does.

    A whole gang is all that its group waits for.
    """
    group = _group_of(scheduler, template)
    if gang is not None and group is not None and gang >= group.min_count:
        template = replace(template, spec=replace(template.spec, scheduling_group=None))
    return reason_not_scheduled(scheduler, replace(template, status=PodStatus()))


def _unused_names(pod: Pod, number: int) -> Pod:
    """Return a pod as a template with a base of names that no pod of a cluster, and no other template, can
    have."""
    template = as_template(pod)
    return replace(template, metadata=replace(template.metadata, generate_name=f"{pod.name}#{number}-"))


# ---- one template ------------------------------------------------------------------------------------------


def _place_one_kind(
    scheduler: PodScheduler, replicas: _Replicas, most: int | None
) -> tuple[_Replicas, int, Stop | None]:
    """Place replicas of one template, up to the first that is not placed."""
    limit = _limit(replicas, most)
    stop, n = None, 1 if replicas.placed else FIRST_TRY
    if _makes_claims(replicas.template):
        n = FIRST_TRY_WITH_CLAIMS
    while stop is None and replicas.placed < limit:
        stop = _place(scheduler, replicas, min(n, limit - replicas.placed))
        n *= 2
    return replicas, replicas.placed // replicas.share, stop


def _place_let_go(
    scheduler: ChangingScheduler, replicas: _Replicas, most: int | None
) -> tuple[_Replicas, int, Stop | None]:
    """Place the replicas that Kueue lets go, each with what its flavor adds."""
    from .queues.asked_of_queues import let_go  # few clusters have Kueue

    limit = replicas.admit(min(_limit(replicas, most), MOST_QUEUED))
    pods, template, tried = list[Pod](), replicas.template, 0
    withheld: Withheld | None = None
    while tried < limit and withheld is None:
        tried = min(max(FIRST_TRY_WITH_CLAIMS, 2 * tried), limit)
        copies = [replica(template, at) for at in range(tried)]
        pods, whys = let_go(scheduler, copies, preempting=False)
        first = next((at for at, pod in enumerate(copies) if pod.key in whys), tried)
        pods, withheld = pods[:first], None if first == tried else whys[copies[first].key]
    added = groupby(pods, lambda pod: (pod.spec.node_selector, pod.spec.tolerations))
    for (selector, tolerations), alike in added:
        spec = replace(template.spec, node_selector=selector, tolerations=tolerations)
        replicas.template, end = replace(template, spec=spec), replicas.placed + len([*alike])
        while replicas.placed < end:
            if (stop := _place(scheduler, replicas, end - replicas.placed)) is not None:
                return replicas, replicas.placed // replicas.share, stop
    return replicas, replicas.placed // replicas.share, withheld or replicas.refusal


def _limit(replicas: _Replicas, most: int | None) -> int:
    """Return how many replicas there may be in a number of rounds."""
    return MOST if most is None else min(most * replicas.share, MOST)


def _fill(scheduler: PodScheduler, replicas: _Replicas, limit: int) -> None:
    """Count all replicas that fit at once, where what fits on a node does not depend on other nodes, so that
    the order of placements does not matter.

    Nothing is done where more fit than `limit`, or than are admitted. The engine places what this leaves out.
    """
    context, state = scheduler.context, scheduler.cache.state
    if not replicas.admit(1):
        return
    with scheduler.cache.lock:
        engine = context.engine_for(replicas.template)
        batch = PodBatch.of_template(state, replicas.template, 1, 0, context.routes)
        if not filters_rows_alone(engine.search, batch) or context.nominator:
            return
        state.view.refresh()
        target = batch.target(0)
        rows, verdicts = engine.search.verdicts(*target)
        rows = rows[verdicts == 0]
        needs = checked_needs(scheduler, replicas.template)
        free = {name: free_amounts(scheduler, name)[rows] for name in needs}
        copies = number_that_fits(free, needs, np.full(len(rows), MOST, dtype=np.int64)).astype(np.int32)
        total = int(copies.sum(dtype=np.int64))
        if 0 < total <= limit and replicas.admit(total) == total:
            account_copies(state, batch, rows, copies)
            replicas.add(rows, copies)


def _place(scheduler: PodScheduler, replicas: _Replicas, n: int) -> Stop | None:
    """Place up to `n` replicas by the engine; return why the next one is not placed, if one is not."""
    admitted = replicas.admit(replicas.placed + n) - replicas.placed
    if admitted:
        if _makes_claims(replicas.template):
            store_with_claims(scheduler, _replicas(replicas, admitted))
        result = scheduler.schedule_by_template(replicas.template, admitted, replicas.placed)
        rows = result.rows[result.rows >= 0]
        replicas.add(rows, np.ones(len(rows), dtype=np.int32))
        if result.failure is not None:
            return result.failure
    return replicas.refusal if admitted < n else None


def _makes_claims(template: Pod) -> bool:
    """Whether each replica has claims of its own."""
    return has_ephemeral(template) or bool(template.spec.resource_claims)


def _replicas(replicas: _Replicas, n: int) -> list[Pod]:
    """Return the next replicas."""
    return [replica(replicas.template, at) for at in range(replicas.placed, replicas.placed + n)]


def _with_claims(scheduler: PodScheduler, replicas: _Replicas, n: int) -> list[Pod]:
    """Return the next replicas, with their claims."""
    pods = _replicas(replicas, n)
    return store_with_claims(scheduler, pods) if _makes_claims(replicas.template) else pods


# ---- gangs -------------------------------------------------------------------------------------------------


def _take_back_rest(
    scheduler: PodScheduler, every: list[_Replicas], rounds: int, group: PodGroup | None
) -> int:
    """Return how many pods of the round fit that is not placed whole, and keep none of them."""
    if group is None:
        rest = sum(replicas.placed - rounds * replicas.share for replicas in every)
        for replicas in every:
            _take_back(replicas, rounds * replicas.share)
        return rest
    pods = [
        pod
        for replicas in every
        for pod in _with_claims(scheduler, replicas, replicas.admitted - replicas.placed)
    ]
    most = GroupTrial(scheduler.context, group, pods, ()).most() if pods else None
    return 0 if most is None else int((most.rows >= 0).sum())


def _gangs_by_domain(
    scheduler: PodScheduler, every: list[_Replicas], gang: int, group: PodGroup
) -> dict[str, int]:
    """Return how many gangs of a group that is bound to a topology are in each domain: each is in one."""
    pods = Counter[str]()
    for key in group.topology_keys:
        for replicas in every:
            rows = [row for some in replicas.rows for row in some.tolist()]
            pods.update(f"{key}={scheduler.table.objects[row].metadata.labels[key]}" for row in rows)
    return {domain: count // gang for domain, count in sorted(pods.items())}


def _group_of(scheduler: PodScheduler, template: Pod) -> PodGroup | None:
    """Return the group of a template, if it has one that exists and groups count."""
    unit = group_of(template)
    group = scheduler.context.groups.known(unit) if unit and scheduler.handle.groups_pods else None
    return group if isinstance(group, PodGroup) else None


def _bound_group(scheduler: PodScheduler, every: list[_Replicas]) -> PodGroup | None:
    """Return the group of a gang with the minimum of a whole one, if it is bound to a topology."""
    group = _group_of(scheduler, every[0].template)
    if group is None or not (group.topology_keys and scheduler.handle.places_groups):
        return None
    policy = PodGroupSchedulingPolicy(
        gang=GangSchedulingPolicy(min_count=sum(replicas.share for replicas in every))
    )
    return replace(group, spec=replace(group.spec, scheduling_policy=policy))


def _place_gang(
    scheduler: PodScheduler, every: list[_Replicas], group: PodGroup
) -> tuple[_Replicas, Stop | None]:
    """Place one gang by the cycle of its group, as if no other pod of the group were there."""
    for replicas in every:
        if replicas.admit(replicas.placed + replicas.share) < replicas.placed + replicas.share:
            return replicas, replicas.refusal
    pods = [pod for replicas in every for pod in _with_claims(scheduler, replicas, replicas.share)]
    result = schedule_workload(scheduler.context, group, pods, ())
    if not result.succeeded:
        return every[0], Failure(group_failure=result.message)
    at = 0
    for replicas in every:
        rows = result.rows[at : at + replicas.share]
        replicas.add(rows[rows >= 0], np.ones(int((rows >= 0).sum()), dtype=np.int32))
        at += replicas.share
    return every[0], result.failure


# ---- several templates -------------------------------------------------------------------------------------


def _place_rounds(
    scheduler: PodScheduler, every: list[_Replicas], most: int | None, group: PodGroup | None
) -> tuple[_Replicas, int, Stop | None]:
    """Place rounds of all templates, up to the first that is not complete: its pods in order, as in the cycle
    of a group; the group is asked for where its topology matters."""
    rounds = 0
    while most is None or rounds < most:
        failed, stop = (
            _place_round(scheduler, every) if group is None else _place_gang(scheduler, every, group)
        )
        if stop is not None:
            return failed, rounds, stop
        rounds += 1
    return every[0], rounds, None


def _place_round(scheduler: PodScheduler, every: list[_Replicas]) -> tuple[_Replicas, Stop | None]:
    """Place one round of all templates."""
    for replicas in every:
        if (stop := _place(scheduler, replicas, replicas.share)) is not None:
            return replicas, stop
    return every[0], None


def _take_back(replicas: _Replicas, placed: int) -> None:
    """Keep the first replicas only."""
    rows = np.concatenate(replicas.rows)[:placed] if replicas.rows else np.zeros(0, dtype=np.int32)
    replicas.placed, replicas.rows, replicas.copies = 0, [], []
    replicas.add(rows, np.ones(len(rows), dtype=np.int32))


# ---- what stops the next one -------------------------------------------------------------------------------


def _next(scheduler: PodScheduler, replicas: _Replicas) -> Pod:
    """Return the next replica, with its claims."""
    return _with_claims(scheduler, replicas, 1)[0] if _makes_claims(replicas.template) else replicas.template


def _binding(scheduler: PodScheduler, pod: Pod, label: str) -> tuple[Binding, ...]:
    """Return what stops the next replica, by value of a label."""
    with scheduler.cache.lock:
        verdicts = node_verdicts(scheduler, pod)
        devices = _missing_devices(scheduler, pod)
        values = scheduler.table.label_column(label)[verdicts.rows]
        names = scheduler.cache.state.symbols.names
    out = []
    for value in np.unique(values).tolist():
        counts: Counter[str] = Counter()
        kinds, nodes = np.unique(verdicts.kinds[values == value], return_counts=True)
        for kind, n in zip(kinds.tolist(), nodes.tolist(), strict=True):
            counts.update(dict.fromkeys(verdicts.statuses[kind].reasons, n))
        rows = verdicts.rows[values == value].tolist()
        missing = Counter(text for row in rows for text in devices.get(row, ()))
        reasons = by_count(counts)
        lacking = next(filter(None, map(resource_of, reasons)), "")
        out.append(Binding(names[value] or "", len(rows), lacking, reasons, by_count(missing)))
    return tuple(sorted(out, key=lambda each: each.value))


def _missing_devices(scheduler: PodScheduler, pod: Pod) -> dict[int, list[str]]:
    """Return, by row, the devices that a node has too few of for a pod."""
    claims = PodClaims.of(scheduler.context.engine_of(pod), pod)
    if claims is None:
        return {}
    objects = scheduler.table.objects
    nodes = {
        row: node for row in scheduler.context.view_rows().tolist() if (node := objects[row]) is not None
    }
    explained = claims.explanations(list(nodes.values()))
    return {
        row: [
            f"{name}: {rule}" for request in explained for name, rule in lacking_requests(request, node.name)
        ]
        for row, node in nodes.items()
    }
