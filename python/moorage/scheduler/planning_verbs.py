"""PlanningVerbs: the questions of planning as methods of `Scheduler`.

The answers are made by the room `planning`, which is above this one and is imported by the first call. This
module is the one place that names a room above its own (ARCHITECTURE.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from moorage.arguments import typed
from moorage.objects.read.python_values import Source

from .check_arguments import Counted, counted_pods, nodes_like, pods_of

if TYPE_CHECKING:
    from moorage.planning.bounds.placement_bound import Bound
    from moorage.planning.new_nodes.node_demand import NodesNeeded
    from moorage.planning.node_emptying import EmptyingPlan
    from moorage.planning.node_room import Room
    from moorage.planning.survival import Survival
    from moorage.planning.template_capacity import Capacity

ZONE = "topology.kubernetes.io/zone"


class PlanningVerbs:
    """Questions that leave the scheduler as it was."""

    __slots__ = ()

    def _scheduler(self) -> Any:
        """Return this scheduler, a `Scheduler`: only that class is derived from this one, so this module does
        not import it."""
        return self

    @typed
    def capacity(
        self,
        template: Counted | Sequence[Counted],
        max: int | None = None,
        by: str = ZONE,
        gang: int | None = None,
    ) -> Capacity:
        """Return how many replicas of a template fit besides the pods that are in the cluster, where, and
        what stops the next one.

        Replicas are placed one after the other as `schedule_by_template` does, until one fits nowhere; then
        they are taken back. They are admitted as new pods are; a refusal ends the count, as where a quota is
        used up. No pod is evicted for them. Pending pods of the cluster are ignored: call `run` first, for
        what is left after them.

        Parameters
        ----------
        template : pod, (pod, int), or sequence of these
            A pod, of which name, node and status do not matter: a Pod, a dict, a text, an object of a
            Kubernetes client, or the path of a manifest, as for `load`. Or several, each with its number of
            replicas in a round (1 by default). Rounds are placed until one is not complete.
        max : int, optional
            Maximum number of rounds.
        by : str, optional
            Key of a label; the reasons against the next replica are counted by its values.
        gang : int, optional
            Number of pods that count only together: whole gangs of them are placed, which have several
            templates in proportion to their shares. If the group of the templates is bound to a topology and
            the gates are on, its cycle places gang after gang.

        Returns
        -------
        Capacity
            A template that is gated or for another scheduler is counted as if it were not, and `skipped` says
            so.

        Raises
        ------
        InputError
            `load` would refuse a template, there is none, a share is no positive number, `max` is negative,
            `gang` is no multiple of the shares together, or the templates of a gang are in several groups.
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        TypeError
            A template is no pod.
        """
        from moorage.planning.template_capacity import capacity

        scheduler = self._scheduler()
        return capacity(scheduler, counted_pods(scheduler.client, template, "template"), max, by, gang)

    @typed
    def bound(self, pods: Sequence[Source] | None = None, weights: Sequence[float] | None = None) -> Bound:
        """Return an upper bound of how many pods, or how much weight, can be placed without evictions, beside
        what the scheduler places, and the resources that bind.

        The bound is the optimum of a linear program over kinds of pods and pools of nodes, whose constraints
        are resources and the filters that last (`Bound.relaxed` names what is left out). It needs the extra
        ``lp``.

        Parameters
        ----------
        pods : sequence of Pod, dict, text, or anything else that `load` reads, optional
            Not on nodes; by default the pending pods that the scheduler schedules now.
        weights : sequence of float, optional
            Of each pod, from 0 on; 1 by default.

        Raises
        ------
        InputError
            The weights are not one for each pod, or `load` would refuse a pod.
        MoorageError
            HiGHS is not installed, the client is no ObjectStore, or pods are being bound.
        TypeError
            Something is no pod.
        """
        from moorage.planning.bounds.placement_bound import bound

        scheduler = self._scheduler()
        return bound(scheduler, None if pods is None else pods_of(scheduler.client, pods), weights)

    @typed
    def drain_plan(self, nodes: str | int | Sequence[str], force: bool = False) -> EmptyingPlan:
        """Return an order in which nodes can be emptied with every pod finding a place, and the moves; or the
        pods that prevent it.

        Each pod is evicted, made again as it was, and scheduled, one after the other, while all nodes of the
        plan are cordoned. Pods of DaemonSets and static pods stay. A pod without a controller is not moved
        unless `force`, nor one whose PodDisruptionBudget allows no disruption now. No pod is evicted for
        another one. Pending pods are ignored.

        Parameters
        ----------
        nodes : str, int or sequence of str
            A label selector of the nodes, their names, or how many: then the nodes with the fewest pods are
            tried first.
        force : bool, optional
            Whether pods without a controller are moved, too.

        Returns
        -------
        EmptyingPlan
            "found", "impossible" with a proof, or "not found".

        Raises
        ------
        InputError
            There is no such node, or not so many schedulable ones.
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        """
        from moorage.planning.node_emptying import drain_plan

        return drain_plan(self._scheduler(), nodes, force)

    @typed
    def defragment(
        self,
        nodes: int | None = None,
        gpus: int | None = None,
        *,
        resource: str = "nvidia.com/gpu",
        max_moves: int | None = None,
        force: bool = False,
    ) -> EmptyingPlan:
        """Return moves that free whole nodes, or a number of devices on one node.

        The rules for moves are as in `drain_plan`. Where a pod finds no place, smaller pods leave another
        node first, which is cordoned meanwhile.

        Parameters
        ----------
        nodes : int, optional
            How many nodes are to be empty, those that are empty already included.
        gpus : int, optional
            How many devices are to be free on one node.
        resource : str, optional
            Name of the devices.
        max_moves : int, optional
            Maximum number of moves.
        force : bool, optional
            Whether pods without a controller are moved, too.

        Raises
        ------
        InputError
            Neither or both of `nodes` and `gpus` are given, or a number is out of range.
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        """
        from moorage.planning.node_emptying import Aim, defragment

        return defragment(self._scheduler(), Aim(nodes, gpus, resource, max_moves, force))

    @typed
    def nodes_needed(
        self,
        workload: Counted | Sequence[Counted] | None = None,
        *,
        like: Source | Sequence[Source],
        max: int = 10_000,
    ) -> NodesNeeded:
        """Return how many new nodes are needed for all pods to have a place, beside the nodes there are.

        First the pods are packed, first fit. Then numbers of nodes are tried by the engine itself: pending
        pods, and those of DaemonSets for the new nodes, are placed by a run; given pods in their order, after
        those of DaemonSets. A plan has no evictions. Of several templates, the one that places the most pods
        is added until none is left; then as many are taken away as possible. Pods that the cluster does not
        have are admitted as new pods are, which sets the defaults of LimitRanges; where one is refused, for
        example by a ResourceQuota, no number of nodes is enough.

        Parameters
        ----------
        workload : pod, (pod, int), or sequence of these, optional
            Pods that are on no node, or pods with the numbers of their replicas; by default the pending pods
            that the scheduler schedules now. A pod is a Pod, a dict, a text, an object of a Kubernetes
            client, or the path of a manifest, as for `load`.
        like : str, Node, dict, text, or sequence of these
            Templates of new nodes: nodes of the cluster by their names, or others, as `load` reads them. See
            `add_nodes` for what new nodes take over, and how to give them a zone and labels.
        max : int, optional
            Maximum number of new nodes.

        Returns
        -------
        NodesNeeded
            "found", "impossible" with a proof, or "not found"; with a lower bound, by linear programming if
            the extra ``lp`` is installed, otherwise from each resource.

        Raises
        ------
        InputError
            There is no such node, or `load` would refuse something.
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        TypeError
            Something is no pod or no node.
        """
        from moorage.planning.new_nodes.node_demand import nodes_needed

        scheduler = self._scheduler()
        asked = None if workload is None else counted_pods(scheduler.client, workload, "workload")
        return nodes_needed(scheduler, asked, nodes_like(like), max)

    @typed
    def survive(
        self, by: str = "node", at_once: int = 1, go_on: Callable[[], bool] = lambda: True
    ) -> Survival:
        """Return which nodes, zones or pools can be lost with every pod that runs there finding a place.

        Pending pods are placed first. Then each domain is lost as by `remove_nodes`: its pods are made again
        by their controllers, simulated or not, and a run places them, with evictions. A pod without a
        controller is lost with its node. Pods of DaemonSets and static pods go with their nodes. Pods that
        have no place before any loss do not count.

        Parameters
        ----------
        by : str, optional
            "node" (the default), "zone", "region", "pool", or the key of a label: all nodes of one value are
            lost together.
        at_once : int, optional
            How many of them are lost together at most. Sets of several are tried with the fullest domains
            first.
        go_on : callable, optional
            Is asked before each set of several domains; False ends the search, and the answer says how far it
            came. By default all sets are tried.

        Returns
        -------
        Survival
            True if every pod has found a place in all that was tried.

        Raises
        ------
        InputError
            No node has the label, or there are not so many domains.
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        """
        from moorage.planning.survival import survive

        return survive(self._scheduler(), by, at_once, go_on)

    @typed
    def node_room(self, nodes: Sequence[str] | None = None, by: str = "") -> list[Room]:
        """Return what is allocatable, requested and free on nodes, the largest pod that still fits, and the
        workloads that hold most.

        Parameters
        ----------
        nodes : sequence of str, optional
            Names; by default all nodes.
        by : str, optional
            "zone", "region", "pool", or the key of a label: one result for each value, sorted. Nodes without
            the label are left out. By default one result for each node, in list order.

        Raises
        ------
        InputError
            No node has the label.
        """
        from moorage.planning.node_room import node_room

        return node_room(self._scheduler(), nodes, by)
