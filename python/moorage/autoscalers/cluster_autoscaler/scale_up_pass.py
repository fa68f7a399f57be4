"""Which groups grow for the pods that have no place, and why others do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import msgspec
from msgspec import Struct

from moorage.engine.framework.status import Status
from moorage.kube import Pod

from .estimator import Estimate, RemainingQuotas
from .expanders import GroupSize, Option, are_similar, narrow, spread
from .flags import ScaledGroup, ScaleUpRequest
from .group_states import ClusterStates, NodeTemplate
from .node_snapshot import NodeSnapshot
from .pods_to_help import PodClass, pod_classes

NOT_READY = "not ready for scale-up"
BACKED_OFF = "in backoff after failed scale-up"
FULL = "max node group size reached"
TOO_MANY = "atomic scale-up exceeds cluster node count limit"
FAILED = "scale-up could not be executed"


Draw = Callable[[int], int]


def first(options: int) -> int:
    """The index of the first of some options."""
    return 0


class Remaining(Struct):
    """Pods that no group could take: why groups rejected their first one, and why others were skipped."""

    pods: list[Pod]
    rejected: dict[str, list[str]] = msgspec.field(default_factory=dict)
    skipped: dict[str, str] = msgspec.field(default_factory=dict)


class ScaleUpResult(Struct):
    """What a loop does for pods without a place.

    Attributes
    ----------
    result : str
        Successful, NoOptionsAvailable, NotNeeded, LimitedByMaxNodesTotal, InCooldown, NotTried or Error.
    to_help : list of Pod
        Those for which nodes are looked for.
    estimates : dict of str to int
        New nodes of each group that was looked at, by itself.
    helped : dict of str to list of Pod
        The pods on these nodes.
    left : list of list of str
        Groups before and after each expander; several at the end: one is drawn.
    growths : list of GroupSize
        The groups that grow.
    triggered, awaiting : list of Pod
        Those that have a place on the new nodes; those that another group could take.
    """

    result: str = "NotTried"
    error: str = ""
    to_help: list[Pod] = msgspec.field(default_factory=list)
    templates: dict[str, NodeTemplate] = msgspec.field(default_factory=dict)
    upcoming: list[str] = msgspec.field(default_factory=list)
    classes: list[PodClass] = msgspec.field(default_factory=list)
    estimates: dict[str, int] = msgspec.field(default_factory=dict)
    helped: dict[str, list[Pod]] = msgspec.field(default_factory=dict)
    similar: dict[str, list[str]] = msgspec.field(default_factory=dict)
    left: list[list[str]] = msgspec.field(default_factory=list)
    growths: list[GroupSize] = msgspec.field(default_factory=list)
    triggered: list[Pod] = msgspec.field(default_factory=list)
    awaiting: list[Pod] = msgspec.field(default_factory=list)
    remaining: list[Remaining] = msgspec.field(default_factory=list)


@dataclass
class ScaleUpPass:
    """One search for nodes.

    Parameters
    ----------
    draw : callable
        Draws the index of one of several equally good options.
    """

    states: ClusterStates
    snapshot: NodeSnapshot
    templates: dict[str, NodeTemplate]
    result: ScaleUpResult
    draw: Draw = first

    def run(self, pods: Sequence[Pod]) -> None:
        """Find the groups that grow, and note the request of their nodes."""
        states, result = self.states, self.result
        self._quotas = RemainingQuotas.greatest(states.flags, self.snapshot.nodes.values(), states.group_of)
        skipped = {name: why for name, group in states.groups.items() if (why := self._why_skipped(group))}
        valid = [group for name, group in states.groups.items() if name not in skipped]
        result.classes = pod_classes(self.snapshot, pods)
        self._takers = {group.name: self._fitting(result.classes, group) for group in valid}
        options = [each for group in valid if (each := self._option(group))]
        if options:
            left = narrow(states.flags, options, len(states.nodes))
            result.left = [[each.group.name for each in step] for step in left]
            self._execute(left[-1][self.draw(len(left[-1]))])
        else:
            result.result = "NoOptionsAvailable"
        result.remaining = self._remaining(skipped)

    # ---- groups --------------------------------------------------------------------------------------------

    def _why_skipped(self, group: ScaledGroup) -> str:
        """Why a group may not grow; "" where it may."""
        name, nodes, limit = group.name, 1, self.states.flags.max_nodes_total
        size = self.states.target(name)
        if not self.states.is_healthy(name):
            return NOT_READY
        if self.states.is_backed_off(name):
            return BACKED_OFF
        if size >= group.max_size:
            return FULL
        if group.zero_or_max:
            nodes = group.max_size - size
            if limit and len(self.snapshot.nodes) + nodes > limit:
                return TOO_MANY
        if name not in self.templates:
            return NOT_READY
        exceeded = self._quotas.exceeded(self.templates[name].node, name, nodes)
        return f'exceeded quota: "cluster-wide", resources: {", ".join(exceeded)}' if exceeded else ""

    def _fitting(self, classes: Sequence[PodClass], group: ScaledGroup) -> list[PodClass]:
        """The classes whose first pod fits on one new node of a group."""
        template, out = self.templates[group.name], list[PodClass]()
        known: dict[object, Status | None] = {}
        with self.snapshot.trial():
            self.snapshot.add(template)
            for each in classes:
                pod = each.pods[0]
                kind = self.snapshot.plain(pod) or id(pod)
                if kind not in known:
                    known[kind] = self.snapshot.why_not(pod, template.node.name)
                status = known[kind]
                if status is None:
                    each.takers.append(group.name)
                    out.append(each)
                else:
                    each.rejected[group.name] = [status.plugin, *status.reasons]
        return out

    def _similar(self, group: ScaledGroup) -> list[str]:
        """The groups like one that can take the same pods and may grow."""
        states, needed = self.states, {id(taker) for taker in self._takers[group.name]}
        if not states.flags.balance_similar_node_groups or group.zero_or_max or not needed:
            return []
        return [
            name
            for name in states.groups
            if name != group.name
            and name in self.templates
            and are_similar(self.templates[group.name], self.templates[name], states.flags)
            and states.is_healthy(name)
            and not states.is_backed_off(name)
            and needed <= {id(taker) for taker in self._takers.get(name, ())}
        ]

    def _option(self, group: ScaledGroup) -> Option | None:
        name, result, classes = group.name, self.result, self._takers[group.name]
        if not classes:
            return None
        result.similar[name] = similar = self._similar(group)
        estimate = Estimate(self.snapshot, self.templates[name], self._limit(group, similar))
        estimate.pack(classes, self.states.flags.fastpath_binpacking)
        nodes = group.max_size if group.zero_or_max and estimate.nodes else estimate.nodes
        result.estimates[name] = estimate.nodes
        result.helped[name] = list(chain.from_iterable(estimate.helped))
        if not (estimate.helped and nodes):
            return None
        return Option(group, self.templates[name], nodes, estimate.helped, tuple(similar))

    def _limit(self, group: ScaledGroup, similar: Sequence[str]) -> int:
        """The greatest number of new nodes of an estimate."""
        groups = [group, *(self.states.groups[name] for name in similar)]
        room = sum(max(0, group.max_size - self.states.target(group.name)) for group in groups)
        limits, total = [room], self.states.flags.max_nodes_total
        if self.states.flags.max_nodes_per_scale_up:
            limits.append(self.states.flags.max_nodes_per_scale_up)
        if total:
            limits.append(total - len(self.snapshot.nodes))
        return max(0, min(limits))

    # ---- growth --------------------------------------------------------------------------------------------

    def _execute(self, best: Option) -> None:
        states, result, name = self.states, self.result, best.group.name
        total, nodes = states.flags.max_nodes_total, best.nodes
        result.triggered = result.helped[name]
        if total and nodes + len(self.snapshot.nodes) > total:
            nodes = total - len(self.snapshot.nodes)
            if nodes < 1:
                self._fail("max node total count already reached")
                return
        growths = self._growths(best, self._quotas.allowed(best.template.node, name, nodes))
        for at, growth in enumerate(growths):
            if states.groups[growth.group].fails:
                states.back_off(growth.group)
                self._fail(f"failed to increase node group size: {growth.group}", growths[at:])
                return
            self._request(growth)
            result.growths.append(growth)
        result.result, states.memory.added = "Successful", states.now
        waiting = [each.pods for each in result.classes if each.takers and name in each.rejected]
        result.awaiting = list(chain.from_iterable(waiting))

    def _growths(self, best: Option, nodes: int) -> list[GroupSize]:
        """New sizes of the group that was chosen and of those like it."""
        quotas, templates = self._quotas, self.templates
        open_ones = [name for name in best.similar if not quotas.exceeded(templates[name].node, name)]
        groups = [best.group, *(self.states.groups[name] for name in open_ones)]
        out = []
        for growth in spread(
            [(group.name, self.states.target(group.name), group.max_size) for group in groups], nodes
        ):
            node = templates[growth.group].node
            allowed = quotas.allowed(node, growth.group, growth.new_size - growth.size)
            quotas.take(node, growth.group, allowed)
            if allowed:
                out.append(replace(growth, new_size=growth.size + allowed))
        return out

    def _request(self, growth: GroupSize) -> None:
        memory, count = self.states.memory, growth.new_size - growth.size
        memory.targets[growth.group] = growth.new_size
        request = memory.requests.setdefault(growth.group, ScaleUpRequest(0, self.states.now))
        request.nodes, request.time = request.nodes + count, self.states.now

    def _fail(self, error: str, failed: Sequence[GroupSize] = ()) -> None:
        """End with an error: classes that only failed groups could take remain."""
        self.result.result, self.result.error = "Error", error
        names = {growth.group for growth in failed}
        for each in self.result.classes:
            lost = [name for name in each.takers if name in names or not failed]
            each.rejected |= {name: [FAILED] for name in lost}
            if lost == each.takers:
                each.takers = []

    def _remaining(self, skipped: dict[str, str]) -> list[Remaining]:
        left, out = [each for each in self.result.classes if not each.takers], list[Remaining]()
        if self.states.flags.scale_up_simulation_for_skipped_node_groups:
            for name in [name for name in skipped if name in self.templates]:
                self._fitting(left, self.states.groups[name])
        for each in left:
            reasons = {name: why for name, why in skipped.items() if name not in each.rejected}
            out.append(Remaining(each.pods, each.rejected, reasons))
        return out
