"""DefaultPreemption: evicts pods of lower priority for a pod or a pod group that fits nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

from moorage._core.preempt.lower_units import has_pods_below
from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.kube import Pod

from .. import preemption as room
from ..framework.events import POD, of_class, on
from ..framework.in_tree_plugins import CorePostFilter, gates_only_with
from ..framework.status import fit_error
from .running_preemptions import RunningPreemptions

NOT_HELPFUL = "Preemption is not helpful for scheduling"


def random_offset(seed: int, pod: Pod, nodes: int) -> int:
    """Return the index of the potential node at which the dry runs for a pod begin.

    Parameters
    ----------
    pod : Pod
        The index follows from the seed and the pod's UID.

    Returns
    -------
    int
        0 to `nodes` - 1.
    """
    digest = blake2b(f"{seed} {pod.metadata.uid}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % nodes


def no_candidates(nodes: int, reasons: Mapping[str, int], unresolvable: int) -> str:
    """Return why there is no candidate, as upstream's FitError has it.

    Parameters
    ----------
    nodes : int
        The number of nodes in the list.
    reasons : mapping of str to int
        How many of the potential nodes have each reason.
    unresolvable : int
        The number of nodes where preemption could not help.
    """
    counts = Counter(reasons)
    if unresolvable:
        counts[NOT_HELPFUL] += unresolvable
    return fit_error(nodes, counts)


# ---- default preemption ------------------------------------------------------------------------------------

PREFIX, GROUP_PREFIX = "preemption: ", "pod group preemption: "
RUNNING = "waiting for the preemption for this pod to be finished"


class DefaultPreemption(
    fwk.PreEnqueuePlugin, CorePostFilter, fwk.PodGroupPostFilterPlugin, fwk.EnqueueExtensions
):
    """Preemption by priority (kube-scheduler v1.36, defaultpreemption/).

    While no pod could be evicted, the core gives the plugin's result without visiting nodes. The plugin
    registers the deletion of pods with a hint that never queues a pod: the event only makes the queue run
    PreEnqueue again for gated pods.

    Parameters
    ----------
    args : mapping, optional
        ``minCandidateNodesPercentage`` (default 10) and ``minCandidateNodesAbsolute`` (default 100), which
        bound the number of candidates.

    Attributes
    ----------
    preempting : set of str
        UIDs of the pods whose preemption is running.
    """

    name = "DefaultPreemption"
    default_args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}

    @property
    def preempting(self) -> set[str]:
        """UIDs of pods whose preemption is running."""
        return self.required_handle().shared(RunningPreemptions).held

    @gates_only_with(held=["preempting"])
    def pre_enqueue(self, pod: Pod) -> fwk.Status | None:
        """Reject a pod whose preemption is running.

        Returns
        -------
        Status or None
            None (Success) for any other pod.
        """
        if pod.metadata.uid in self.preempting:
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (RUNNING,), self.name)
        return None

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        """Register the deletion of pods."""
        return [on(POD, fwk.ActionType.DELETE, self.after_pod_deleted)]

    @of_class
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Return Skip: the hints of the pod's other rejectors decide.

        Parameters
        ----------
        pod : Pod
            The queued pod.
        old : Pod
            The deleted pod.
        """
        return fwk.QUEUE_SKIP

    def post_filter(
        self, state: fwk.CycleState, pod: Pod, statuses: Mapping[str, fwk.Status]
    ) -> tuple[fwk.PostFilterResult | None, fwk.Status | None]:
        """Preempt pods for a pod that no node accepts.

        Parameters
        ----------
        state : CycleState
            After PreFilter and Filter have run for the pod.
        statuses : mapping of str to Status
            Node name to the status that rejected the node, in list order.

        Returns
        -------
        result : PostFilterResult or None
            The nomination. An empty one clears an earlier nomination, None leaves it.
        status : Status or None
            None (Success) if victims were evicted; otherwise the reason why not.
        """
        result, status = self.evaluator().preempt(state, pod, statuses)
        if status is None or not status.message():
            return result, status
        return result, fwk.Status(status.code, (PREFIX + status.message(),), self.name)

    def pod_group_post_filter(
        self, failed: fwk.FailedGroup
    ) -> tuple[Mapping[int, fwk.NominatingInfo] | None, fwk.Status]:
        """Evict pods for a pod group that fits nowhere; see `preempt_for_group`.

        Returns
        -------
        nominations : mapping of int to NominatingInfo, or None
            Of pods of the group, by index, where pods were evicted.
        """
        nominations, status = room.preempt_for_group.preempt_for_group(
            self.required_handle(), failed, self.name
        )
        text = status.message()
        return nominations, fwk.Status(status.code, (GROUP_PREFIX + text,) if text else (), self.name)

    def evaluator(self) -> room.Evaluator:
        """Return what finds candidates and evicts their victims, with the plugin's arguments."""
        return room.Evaluator(self.required_handle(), self.name, self.limits)

    @property
    def limits(self) -> tuple[int, int]:
        """minCandidateNodesPercentage (of the potential nodes) and minCandidateNodesAbsolute."""
        return self.args["minCandidateNodesPercentage"], self.args["minCandidateNodesAbsolute"]

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        """Whether some pod could be evicted: the cache has a pod of lower priority, or there is a group of
        lower priority that is evicted as a whole.

        Parameters
        ----------
        shape : Shape
            Of the preemptor's class.
        potential : int
            Number of nodes that were rejected with code Unschedulable.
        """
        if not potential or not shape.may_preempt:
            return False
        handle = self.required_handle()
        groups = room.eviction_units.groups_of(handle)
        if groups is not None and groups.lowest_priority < shape.priority:
            return True
        return has_pods_below(handle.cache.state, shape.priority)

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        """Return the message of a preemption that `may_preempt` rules out.

        Parameters
        ----------
        shape : Shape
            Of the preemptor's class.
        nodes : int
            Number of nodes in the list.
        potential : int
            Number of nodes that were rejected with code Unschedulable.

        Returns
        -------
        clears_nomination : bool
            Whether an earlier nomination of the pod ends.
        """
        if not shape.may_preempt:
            return PREFIX + room.eviction_units.NEVER, False
        return PREFIX + _without_victims(nodes, potential), True


class DefaultPreemptionReserve(DefaultPreemption):
    """DefaultPreemption since v1.38, which is at Reserve where there are pod groups: it notes there which
    nodes they take, as the preemption for groups does here."""

    extension_points = ("reserve",)
    reserves_for_groups = True


@lru_cache
def _without_victims(nodes: int, potential: int) -> str:
    """Return why there is no candidate where no potential node has a victim."""
    reasons = dict.fromkeys(room.eviction_units.NO_VICTIMS.reasons, potential) if potential else {}
    return no_candidates(nodes, reasons, nodes - potential)


def preemption_plugins(profile: fwk.Profile) -> list[DefaultPreemption]:
    """Return the PostFilter plugins of a profile that are DefaultPreemption or derived from it."""
    return [plugin for plugin in profile.at(fwk.PostFilterPlugin) if isinstance(plugin, DefaultPreemption)]
