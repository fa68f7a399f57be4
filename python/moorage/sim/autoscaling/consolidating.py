"""Consolidation (Karpenter): empty nodes leave; others leave, alone or together, if their pods have a place
elsewhere or on one cheaper node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moorage.autoscaling.cluster_autoscaler.drain_rules import Budgets
from moorage.autoscaling.karpenter.pods.pod_validation import DO_NOT_DISRUPT
from moorage.objects import Pod, PodDisruptionBudget
from moorage.planning.pod_moves import pods_to_move
from moorage.sim.timeline.autoscaler_spec import WHEN_UNDERUTILIZED, Consolidation, NodeGroup

from .forked_dry_run import DryRun

MOST = 100
"""Nodes that are considered together."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class Command(NamedTuple):
    """Nodes that leave, why, and the group of the node that replaces them, or None."""

    nodes: list[str]
    reason: str
    group: NodeGroup | None = None


class Consolidator:
    """Looks for nodes to remove.

    Parameters
    ----------
    dry_run : DryRun
        In which the pending pods have been placed.
    groups : sequence of NodeGroup
        Those that may grow by a node come into question for replacements.
    spare : mapping of str to int
        Number of nodes that each group has above its minimum.
    sizes : mapping of str to int
        Number of nodes of each group.
    """

    def __init__(
        self,
        dry_run: DryRun,
        rules: Consolidation,
        groups: Sequence[NodeGroup],
        spare: Mapping[str, int],
        sizes: Mapping[str, int],
    ) -> None:
        self._dry_run, self._rules, self._spare, self._sizes = dry_run, rules, spare, sizes
        self._groups = {one.name: one for one in groups}
        self._budgets = Budgets(dry_run.scheduler.client.list(PodDisruptionBudget)[0])

    def find(self, nodes: Mapping[str, str]) -> Command | None:
        """Return what to do: the first that applies of emptiness, several nodes, and a single node.

        Parameters
        ----------
        nodes : mapping of str to str
            Nodes to which no pod has come lately and which no pod has left, with their groups.
        """
        pods = {name: pods_to_move(self._dry_run.scheduler, name) for name in nodes}
        candidates = [name for name in nodes if not self._is_kept(name, pods[name])]
        empty = self._within(([name for name in candidates if not pods[name]]), nodes, "Empty")
        if empty:
            return Command(empty, "Empty")
        if self._rules.policy != WHEN_UNDERUTILIZED:
            return None
        candidates = [name for name in candidates if pods[name]]
        candidates.sort(key=lambda name: sum(map(eviction_cost, pods[name])))
        return self._several(self._within(candidates, nodes, "Underutilized")[:MOST], nodes) or self._single(
            candidates, nodes
        )

    def _is_kept(self, name: str, pods: Sequence[Pod]) -> bool:
        scheduler = self._dry_run.scheduler
        row = scheduler.cache.state.find_row(name)
        node = None if row is None else scheduler.table.objects[row]
        annotated = [one for one in (node, *pods) if one is not None]
        return (
            node is None
            or any(one.metadata.annotations.get(DO_NOT_DISRUPT) == "true" for one in annotated)
            or self._are_kept(pods)
        )

    def _are_kept(self, pods: Sequence[Pod]) -> bool:
        """Whether budgets, or several of one pod, keep pods from being evicted together."""
        of_each = map(self._budgets.of, pods)
        return any(len(keys) > 1 for keys in of_each) or self._budgets.are_exceeded(pods)

    def _within(self, names: Sequence[str], group_of: Mapping[str, str], reason: str) -> list[str]:
        """Return the first nodes that budgets and minimum sizes allow."""
        left = {}
        for group, size in self._sizes.items():
            limits = [
                one.allowed(size) for one in self._rules.budgets if not one.reasons or reason in one.reasons
            ]
            left[group] = min([self._spare[group], *limits])
        out = []
        for name in names:
            if left[group_of[name]] > 0:
                left[group_of[name]] -= 1
                out.append(name)
        return out

    def _several(self, names: list[str], group_of: Mapping[str, str]) -> Command | None:
        """Return the greatest number of the first nodes, two at least, that can leave; by bisection."""
        low, high, best = 1, min(len(names) - 1, MOST), None
        while low <= high:
            middle = (low + high) // 2
            found = self._consolidated(names[: middle + 1], group_of)
            if found is None:
                high = middle - 1
            else:
                low, best = middle + 1, found
        return best

    def _single(self, names: list[str], group_of: Mapping[str, str]) -> Command | None:
        for name in names:
            if self._within([name], group_of, "Underutilized"):
                found = self._consolidated([name], group_of)
                if found is not None:
                    return found
        return None

    def _consolidated(self, names: list[str], group_of: Mapping[str, str]) -> Command | None:
        """Return the command for nodes, if their pods have a place elsewhere or on one cheaper node."""
        dry_run = self._dry_run
        pods = [pod for name in names for pod in pods_to_move(dry_run.scheduler, name)]
        if self._are_kept(pods):
            return None
        with dry_run.scheduler.transaction():
            own = [self._groups[group_of[name]] for name in names]
            cheaper = self._cheaper(own)
            left = dry_run.empty(names, cheaper)
            if not left:
                return Command(names, "Underutilized")
            options = [one for one in cheaper if dry_run.fits_on_one_new(one, left)]
        same = [one.price for one in options if one in own]  # one of these nodes had better stay
        if options and not (same and options[0].price == same[0]):
            return Command(names, "Underutilized", options[0])
        return None

    def _cheaper(self, own: Sequence[NodeGroup]) -> list[NodeGroup]:
        """Return the groups that may grow whose nodes are cheaper than some nodes together, the cheapest
        first."""
        prices = [one.price for one in own if one.price is not None]
        if len(prices) < len(own):
            return []
        found = [
            (one.price, at, one)
            for at, one in enumerate(self._groups.values())
            if one.price is not None and one.price < sum(prices) and self._sizes[one.name] < one.max_size
        ]
        return [one for _, _, one in sorted(found, key=lambda each: each[:2])]


def eviction_cost(pod: Pod) -> float:
    """Return the cost of an eviction (Karpenter): 1, more or less by the pod's deletion cost and priority.

    Returns
    -------
    float
        From -10 to 10.
    """
    try:
        deletion = float(int(pod.metadata.annotations.get(DELETION_COST, "0")))
    except ValueError:
        deletion = 0.0
    cost = 1.0 + deletion / 2.0**27 + (pod.spec.priority or 0) / 2.0**25
    return min(max(cost, -10.0), 10.0)
