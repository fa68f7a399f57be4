"""Questions about a scheduler's cluster; each calls a module of this room or of `autoscalers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec, TypeVar

from moorage.arguments import typed
from moorage.cluster import ChangingScheduler, PodScheduler, lacking_pods
from moorage.cluster.given_objects import Counted, nodes_like, pods_of
from moorage.cluster.references import node_name
from moorage.errors import InputError, no_attribute
from moorage.kube.model.node import ZONE
from moorage.kube.read.python_values import Source

if TYPE_CHECKING:
    from moorage.autoscalers.consolidation_rounds import Consolidation
    from moorage.autoscalers.group_settings import GroupSettings
    from moorage.autoscalers.karpenter.karpenter_options import KarpenterOptions
    from moorage.autoscalers.karpenter.new_nodes_result import Provisioning
    from moorage.autoscalers.node_removal import RemovalVerdict
    from moorage.autoscalers.providers.pool_types import Types
    from moorage.autoscalers.scale_up_answer import ScaleUp
    from moorage.controllers import Rollout
    from moorage.controllers.queues.queue_controller import QueueController
    from moorage.kube.model.cluster import RefusedPod, Suspended
    from moorage.kube.model.pod import Pod

    from .bounds.placement_bound import Bound
    from .difference import Difference
    from .explain.explain_document import Explanation
    from .new_nodes import NodesNeeded
    from .node_emptying import EmptyingPlan
    from .nodes.device_use import DeviceUse
    from .nodes.node_room import Room
    from .nodes.pod_use import NamespaceUse, WorkloadUse
    from .queues.quota_plan import QuotaPlan
    from .survival import Survival
    from .template_capacity import Capacity

P = ParamSpec("P")
R = TypeVar("R")


def question(method: Callable[Concatenate[Questions, P], R]) -> Callable[Concatenate[Questions, P], R]:
    """Check arguments as `typed` does, and have other threads wait: an answer is about one moment."""
    ask = typed(method)

    @wraps(method)
    def call(questions: Questions, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with questions.scheduler.cache.lock:
            return ask(questions, *args, **kwargs)

    return call


class Questions:
    """What can be asked of a scheduler: its attribute `ask`. Each answer is about one moment, and leaves the
    scheduler as it was."""

    def __init__(self, scheduler: ChangingScheduler) -> None:
        self.scheduler = scheduler

    def __repr__(self) -> str:
        return f"<questions of {self.scheduler!r}>"

    def __getattr__(self, name: str) -> NoReturn:
        raise no_attribute(self, name)

    @question
    def explain(self, pod: Source) -> Explanation:
        """Explain where a pod would be placed now, or why nowhere and which changes would help.

        A pod on a node is explained as if it had none. Other pending pods are ignored, but not by changes,
        whose room they may take; `explain_in_turn` first places those that precede the pod in a run. As in a
        run, volumes in a store of the scheduler's own are bound first where possible. Extenders are not
        called. Trials are undone.

        Parameters
        ----------
        pod : Pod or str, or a dict or object of a client that `load` reads as one
            A pod, or its ``namespace/name``; or a workload or group, such as ``deploy/web``,
            ``sts/NAMESPACE/db``, ``podgroup/train`` or ``web``: its first pod without a node, or if all have
            one its first pod.

        Raises
        ------
        InputError
            `load` would refuse the pod, or several have this name.
        MoorageError
            The name is that of a composite group: explain the groups in it.
        NotFoundError
            Nothing has this name, or no pod.
        """
        from .explain.situations import explain_now

        return explain_now(self.scheduler, pod)

    @question
    def provision(
        self,
        pods: Sequence[Source] | None = None,
        types: Types | None = None,
        options: KarpenterOptions | None = None,
        seed: int = 0,
    ) -> Provisioning:
        """Decide which nodes Karpenter would make for pods that wait; nothing is changed.

        Pods that fit nodes that are there go to these. Run the scheduler first: Karpenter only takes up pods
        that kube-scheduler has tried.

        Parameters
        ----------
        pods : sequence of Pod or str, or of what `load` reads as one, optional
            By default all pods without a node and without scheduling gates.
        types : sequence of InstanceType, or mapping of str to such, or str, optional
            For all pools, or by pool, in the order of the provider; see `read_instance_types`. Or a provider:
            ``aws``, ``aws:us-east-1``. By default those of AWS for pools with an EC2NodeClass, and those that
            the nodes of each pool show for others, without prices.
        options : KarpenterOptions, optional
            Flags of Karpenter.
        seed : int
            Karpenter draws among domains that nothing else orders; 0 takes them by name.

        Returns
        -------
        Provisioning
            Claims with their pods, requirements, instance types and prices; pods for nodes that are there;
            and why the others get none, in Karpenter's words.
        """
        from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
        from moorage.autoscalers.pool_scaler import PoolScaler

        return PoolScaler(self.scheduler, AutoscalerSettings(types, options, seed)).question(pods).answer()

    @question
    def scale_up(
        self,
        types: Types | None = None,
        options: KarpenterOptions | None = None,
        seed: int = 0,
        keep: bool = False,
        groups: GroupSettings | None = None,
    ) -> ScaleUp:
        """Run, let Karpenter make nodes for pods that fit nowhere, each as its cheapest offering, and
        cluster-autoscaler, if node groups are given; go on in rounds until nothing changes, at most ten.

        Parameters
        ----------
        types, options, seed
            See `provision`.
        keep : bool
            Whether the nodes and placements stay. By default the scheduler is as it was.
        groups : GroupSettings, optional
            Node groups of cluster-autoscaler. Karpenter decides then only if there are NodePools.

        Raises
        ------
        InputError
            A node group or a flag is wrong.

        Returns
        -------
        ScaleUp
            The nodes with their prices, and the pods that wait nevertheless, each with who refuses it.
        """
        from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
        from moorage.autoscalers.scaling_rounds import scale_up

        return scale_up(self.scheduler, AutoscalerSettings(types, options, seed, groups=groups), keep)

    @question
    def consolidate(
        self,
        types: Types | None = None,
        options: KarpenterOptions | None = None,
        seed: int = 0,
        *,
        once: bool = False,
        at: str | None = None,
    ) -> Consolidation:
        """Let Karpenter remove and replace nodes, command by command, until nothing more happens, and place
        the pods after each; the scheduler is as it was afterwards.

        Between commands so much time passes that consolidateAfter is over and the nodes that come are ready.

        Parameters
        ----------
        types, options, seed
            See `provision`. Without prices only nodes that are not needed go.
        once : bool
            Whether to end after the first command.
        at : str, optional
            When it begins (RFC 3339), which decides about budgets with schedules; by default when the newest
            object was created.

        Returns
        -------
        Consolidation
            Commands with savings, pods moved and pods that wait; prices before and after, the least that any
            packing could cost, and why the other nodes stay.

        Raises
        ------
        InputError
            There is no NodePool, or `at` is no time with its zone.
        """
        from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
        from moorage.autoscalers.consolidation_rounds import consolidate

        return consolidate(self.scheduler, AutoscalerSettings(types, options, seed), once, at)

    @question
    def diff(self, other: PodScheduler) -> Difference:
        """Return what differs in another scheduler, for example in a fork that has changed.

        New events of both stores are processed first.

        Returns
        -------
        Difference
            From this scheduler to the other.
        """
        from .difference import difference

        return difference(self.scheduler, other)

    # ---- questions that leave the scheduler as it was ------------------------------------------------------

    @question
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
            Kubernetes client, or the path of a manifest, as for `load`; or the reference of a pod, a workload
            or a pod group, such as ``deploy/web``. Or several, each with its number of replicas in a round (1
            by default). Rounds are placed until one is not complete.
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
        from .runs.pod_templates import asked_templates
        from .template_capacity import capacity

        return capacity(
            self.scheduler, asked_templates(self.scheduler.client, template, "template"), max, by, gang
        )

    @question
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
        from .bounds.placement_bound import bound

        return bound(self.scheduler, None if pods is None else pods_of(self.scheduler.client, pods), weights)

    @question
    def quota_plan(self) -> QuotaPlan:
        """Return the least quotas of Kueue's queues that would admit all workloads that wait in them, and how
        many of their pods find nodes then.

        Raises
        ------
        InputError
            There is no LocalQueue.
        """
        from .queues.quota_plan import quota_plan

        return quota_plan(self.scheduler, self.needed_queues())

    @question
    def drain_plan(
        self,
        nodes: str | int | Sequence[str] | None = None,
        force: bool = False,
        progress: Callable[[int, int], object] = lambda ended, of: None,
    ) -> EmptyingPlan:
        """Return an order in which nodes can be emptied with every pod finding a place, and the moves; or the
        pods that prevent it, and what lets them go.

        The nodes are cordoned, and then drained one after the other, as by `drain`, `run` and `evict`:
        controllers make pods again, and a run places them, with the pending ones, and with evictions. A node
        counts as emptied where no pod stays, but those of DaemonSets and static ones, and every pod has a
        place that had one: also those that were evicted for others, and that waited and had found a place.
        A pod that nobody makes again, as its Job fails, keeps its node, and so does one without a controller,
        unless `force`.

        Parameters
        ----------
        nodes : str, int or sequence of str, optional
            A label selector of the nodes, their names, or how many: then the nodes with the fewest pods are
            tried first. By default each node is drained alone, as when an upgrade goes from node to node.
        force : bool, optional
            Whether pods without a controller are moved, too.
        progress : callable, optional
            Called before each node, with how many nodes are done, of how many.

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
        TypeError
            progress cannot be called.
        """
        from .node_emptying import drain_plan

        if not callable(progress):
            raise TypeError(f"progress: must be callable, not {progress!r}")
        return drain_plan(self.scheduler, nodes, force, progress)

    @question
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

        Pods are evicted one by one, and what counts is as in `drain_plan`. Where a pod finds no place,
        smaller pods leave another node first, which is cordoned meanwhile.

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
        from .node_emptying import defragment

        return defragment(self.scheduler, nodes, gpus, resource, max_moves, force)

    @question
    def nodes_needed(
        self,
        workload: Counted | Sequence[Counted] | None = None,
        *,
        like: Source | Sequence[Source],
        max: int = 10_000,
        prices: Mapping[str, float] | None = None,
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
            client, the path of a manifest, as for `load`, or the reference of a pod or workload.
        like : str, Node, dict, text, or sequence of these
            Templates of new nodes: nodes of the cluster by their names, or others, as `load` reads them. See
            `add_nodes` for what new nodes take over, and how to give them a zone and labels.
        max : int, optional
            Maximum number of new nodes.
        prices : mapping of str to float, optional
            Price of a node per hour, by the name of its template. Then `NodesNeeded.cheapest` is the cheapest
            way that was found.

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
        from .new_nodes import nodes_needed
        from .runs.pod_templates import asked_templates

        client = self.scheduler.client
        counted = None if workload is None else asked_templates(client, workload, "workload")
        by_name = {node_name(name): price for name, price in (prices or {}).items()}
        return nodes_needed(self.scheduler, counted, nodes_like(like), max, by_name)

    @question
    def survive(
        self,
        by: str = "node",
        at_once: int = 1,
        go_on: Callable[[], bool] = lambda: True,
        *,
        only: str = "",
        within_budgets: bool = False,
        before: ChangingScheduler | None = None,
    ) -> Survival:
        """Return which nodes, zones or pools can be lost with every pod that runs there finding a place.

        Pending pods are placed first. Then each domain is lost as by `fail_zone`, or a node by
        `remove_nodes`: its pods are made again by their controllers, simulated or not, and a run places
        them, with evictions. A pod without a controller is lost with its node. Pods of DaemonSets and static
        pods go with their nodes. Pods that have no place before any loss do not count.

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
        only : str, optional
            A namespace, or a selector such as ``app=web``: only its pods are asked about. The others move as
            well.
        within_budgets : bool
            Whether pods may have no place as long as their PodDisruptionBudgets hold.
        before : Scheduler, optional
            A scheduler of the cluster before a change: each loss is compared with the same loss there, and
            one that leaves no more pods of any workload without a place is survived.

        Returns
        -------
        Survival
            True if every pod has found a place in all that was tried.

        Raises
        ------
        InputError
            No node has the label, or there are not so many domains, or `only` selects nothing.
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        """
        from .survival import SurvivalQuestion, survive

        return survive(self.scheduler, SurvivalQuestion(by, at_once, go_on, only, within_budgets, before))

    @question
    def node_room(
        self, nodes: Sequence[str] | None = None, by: str = "", types: Types | None = None
    ) -> list[Room]:
        """Return what is allocatable, requested and free on nodes, the largest pod that still fits, the
        workloads that hold most, and what the nodes cost.

        Parameters
        ----------
        nodes : sequence of str, optional
            Names, with all of their workloads; by default all nodes, with the three that hold most.
        by : str, optional
            "zone", "region", "pool", "type", or the key of a label: one result for each value, sorted, and at
            last one, "(none)", for the nodes without the label. By default one for each node, in list order.
        types : optional
            Instance types with prices; see `Questions.provision`. By default those of the NodePools, and the
            list prices of AWS for its nodes.

        Raises
        ------
        InputError
            No node has the label.
        """
        from .nodes.node_room import node_room
        from .nodes.paid_room import node_prices

        nodes = None if nodes is None else [*map(node_name, nodes)]
        return node_room(self.scheduler, nodes, by, node_prices(self.scheduler.client, types)[0])

    @question
    def workload_use(
        self, nodes: Sequence[str] | None = None, types: Types | None = None
    ) -> list[WorkloadUse]:
        """Return what each workload requests, uses and costs on nodes, those with the largest share of their
        room first.

        Parameters
        ----------
        nodes : sequence of str, optional
            Names; by default all nodes.
        types : optional
            See `node_room`.
        """
        from .nodes.paid_room import node_prices
        from .nodes.pod_use import workload_use

        nodes = None if nodes is None else [*map(node_name, nodes)]
        return workload_use(self.scheduler, nodes, node_prices(self.scheduler.client, types)[0])

    @question
    def device_use(self) -> list[DeviceUse]:
        """Return who holds the devices of each node: GPUs and other extended resources, and devices of
        drivers that claims have."""
        from .nodes.device_use import device_use

        return device_use(self.scheduler)

    @question
    def namespace_use(self, only: str = "", types: Types | None = None) -> list[NamespaceUse]:
        """Return what the pods with a node request, use and cost in each namespace that has some, or a quota,
        by name.

        Parameters
        ----------
        only : str, optional
            The one namespace that is asked about.
        types : optional
            See `node_room`.
        """
        from .nodes.paid_room import node_prices
        from .nodes.pod_use import namespace_use

        return namespace_use(self.scheduler, only, node_prices(self.scheduler.client, types)[0])

    @question
    def explain_node(
        self,
        name: str,
        types: Types | None = None,
        options: KarpenterOptions | None = None,
        groups: GroupSettings | None = None,
        at: str | None = None,
    ) -> RemovalVerdict:
        """Say whether its autoscaler would remove a node if it looked at it alone, why not, and which changes
        would free it, each tried.

        Parameters
        ----------
        types, options
            See `provision`.
        groups : GroupSettings, optional
            Node groups of cluster-autoscaler.
        at : str, optional
            See `consolidate`.

        Raises
        ------
        InputError
            There is no such node, or no autoscaler has it.
        """
        from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
        from moorage.autoscalers.group_settings import GroupSettings
        from moorage.autoscalers.karpenter.provisioning import check_type
        from moorage.autoscalers.node_removal import explain_node

        check_type("groups", groups, GroupSettings)
        name = node_name(name)
        verdict = explain_node(self.scheduler, AutoscalerSettings(types, options, groups=groups), name, at)
        if verdict is None:
            raise InputError(f"no NodePool and no node group has node {name}, so no autoscaler removes it")
        return verdict

    # ---- what workloads lack -------------------------------------------------------------------------------

    @question
    def rollouts(self) -> list[Rollout]:
        """Return the rollouts that are not complete, with their pods that have no node.

        Returns
        -------
        list of Rollout
            Those of Deployments, StatefulSets and DaemonSets; empty where the controllers are not simulated.
        """
        return lacking_pods.rollouts(self.scheduler)

    @question
    def awaited_pods(self) -> list[Pod]:
        """Return the pods that workloads lack until others are available or gone.

        Returns
        -------
        list of Pod
            Pods that StatefulSets will create when those before them are available, as far as their names
            tell; and pods that are being deleted and stay, where a StatefulSet or a Job waits for their end.
        """
        return lacking_pods.awaited_pods(self.scheduler)

    @question
    def refused_pods(self) -> list[RefusedPod]:
        """Return the pods that workloads lack now because the API server would refuse to create them, and
        those of files for which quotas had no room.

        Returns
        -------
        list of RefusedPod
            Each with the text of the API server. Empty where the controllers are not simulated.
        """
        return lacking_pods.refused_pods(self.scheduler)

    @question
    def refusals(self) -> dict[str, str]:
        """Return the workloads that lack pods because the API server would refuse to create them: limit
        ranges, quotas, or priority and runtime classes that do not exist.

        Returns
        -------
        dict of str to str
            ``Kind namespace/name`` of the workload to the text of the API server; empty where the controllers
            are not simulated.
        """
        return lacking_pods.refusals(self.scheduler)

    @question
    def queues(self) -> QueueController | None:
        """Return what decides which jobs run; None for a cluster without queues of Kueue."""
        controllers = self.scheduler.controllers
        queues = None if controllers is None else controllers.find_queues()
        self.scheduler.sync()
        return queues

    def needed_queues(self) -> QueueController:
        """Return what decides which jobs run.

        Raises
        ------
        InputError
            There is no LocalQueue.
        """
        if (queues := self.queues()) is None:
            names = "clusterqueues,localqueues,resourceflavors,cohorts,workloads"
            raise InputError(f"the input has no LocalQueue; kubectl get -A -o yaml {names} lists them")
        return queues

    def suspended(self) -> list[Suspended]:
        """Return the workloads of other projects that the cluster has and that are suspended still."""
        return lacking_pods.suspended(self.scheduler)
