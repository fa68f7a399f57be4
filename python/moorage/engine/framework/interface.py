"""Base classes of plugins: one for each extension point (kube-scheduler v1.36, framework/interface.go).

Methods receive `state`, the state of the scheduling cycle; `pod`, the pod that is being scheduled; and
`node_info`, a node with its pods, or `node_name`. A plugin takes part at the extension points whose base
classes it extends. Filter and Score have a vectorised form, which is used if a plugin implements it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from moorage.kube import AnyGroup, Pod

from .nodes_view import NodesView
from .status import SKIP as SKIP
from .status import Answers as Answers
from .status import Code as Code
from .status import Status as Status
from .status import read_answers
from .waiting_pods import NominatingInfo as NominatingInfo

if TYPE_CHECKING:
    from .events import ClusterEventWithHint
    from .evidence import FindEvidence, RejectedPod
    from .handle import FrameworkHandle
    from .nodes_view import NodeInfo as AnyNodeInfo
    from .status import CycleState
    from .waiting_pods import StatusSteps

MAX_NODE_SCORE = 100

BASES: dict[type[Plugin], str] = {}
"""Name in a configuration by base class of an extension point."""


class Plugin:
    """A plugin: its name, default weight and arguments.

    A plugin class is its own factory.

    Parameters
    ----------
    args : mapping of str to object, optional
        Arguments in their JSON form, on top of `default_args`.

    Attributes
    ----------
    extension_points : tuple of str
        Names of the extension points; derived from the base classes, or set by the class.
    in_core : bool
        Whether the core does the work of this plugin, for many pods at once.
    by_class : bool
        Whether it answers about classes of pods (`RowPlugin`).
    feature_gate : str
        The gate that enables the plugin by default; "" if it is always enabled.
    default_args : mapping of str to object
        Arguments in their JSON form, where a configuration says nothing.
    gated_args : mapping of (str, bool) to mapping of str to object
        Those that differ, by a feature gate and its value.
    reserves_for_groups : bool
        Whether it is at Reserve by default only where there are pod groups.
    """

    name: ClassVar[str] = ""
    extension_points: ClassVar[tuple[str, ...]] = ()
    default_weight: ClassVar[int] = 0
    feature_gate: ClassVar[str] = ""
    reserves_for_groups: ClassVar[bool] = False
    default_args: ClassVar[Mapping[str, Any]] = {}
    gated_args: ClassVar[Mapping[tuple[str, bool], Mapping[str, Any]]] = {}
    in_core: bool = False
    by_class: ClassVar[bool] = False

    args: Mapping[str, Any] = {}
    handle: FrameworkHandle | None = None

    def __init__(self, args: Mapping[str, Any] | None = None, handle: FrameworkHandle | None = None) -> None:
        self.args = {**self.default_args, **(args or {})}
        self.handle = handle

    def __init_subclass__(cls, point: str = "", without: str = "", **rest: Any) -> None:
        """Set `extension_points`.

        Parameters
        ----------
        point : str, optional
            Name in a configuration of the extension point whose base class this is.
        without : str, optional
            An extension point of a base class that this plugin does not take part in.
        """
        super().__init_subclass__(**rest)
        if point:
            BASES[cls] = point
        named = cls.extension_points
        cls.extension_points = (
            *[
                point
                for base, point in BASES.items()
                if (issubclass(cls, base) or point in named) and point != without
            ],
            *[point for point in named if point not in BASES.values()],
        )

    def __repr__(self) -> str:
        return f"<plugin {self.name}>"

    def another(self) -> Self:
        """Return a plugin of the same class and arguments, without a handle."""
        return type(self)(self.args)

    def required_handle(self) -> FrameworkHandle:
        """Return the handle.

        Raises
        ------
        RuntimeError
            The plugin belongs to no scheduler.
        """
        if self.handle is None:
            raise RuntimeError(f'plugin "{self.name}" is not part of a scheduler')
        return self.handle

    def close(self) -> None:
        """Release resources when the framework is closed."""


def is_open(method: object) -> bool:
    """Whether a method of a base class only says that subclasses have it."""
    code = getattr(method, "__code__", None)
    return code is not None and "NotImplementedError" in code.co_names


class QueuedPod(Protocol):
    """A pod in the scheduling queue.

    Attributes
    ----------
    pod : Pod
    timestamp : float
        Time in seconds at which the pod entered the queue.
    """

    @property
    def pod(self) -> Pod: ...

    @property
    def timestamp(self) -> float: ...


class EnqueueExtensions(Plugin):
    """A plugin that registers cluster events.

    A plugin that rejects pods and does not extend this class is registered for `ANY_EVENT`.
    """

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that may make a pod schedulable that this plugin has rejected."""
        return ()


class SignPlugin(Plugin):
    """A plugin that signs pods (opportunistic batching, KEP-5598).

    Pods with equal signatures get equal results, so that one search serves several of them. A pod is signed
    if every plugin at PreFilter, Filter, PreScore and Score signs it.

    Attributes
    ----------
    can_sign : bool
        False if `sign_pod` refuses all pods.
    """

    @property
    def can_sign(self) -> bool:
        return True

    def sign_pod(self, pod: Pod) -> Mapping[str, Any] | Status | None:
        """Return the parts of a pod on which this plugin's results depend.

        Returns
        -------
        mapping of str to object, None or Status
            Parts by name, as values that JSON can represent; None if there are none. A Status other than
            Success refuses to sign, for example where results depend on the nodes of other pods.
        """
        raise NotImplementedError


class PreEnqueuePlugin(Plugin, point="preEnqueue"):
    """A plugin that can keep pods out of the active queue."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Decide whether a pod enters the active queue.

        Returns
        -------
        Status or None
            Anything but Success keeps the pod out.
        """
        raise NotImplementedError


class QueueSortPlugin(Plugin, point="queueSort"):
    """The plugin that orders the active queue."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Compare two queued pods.

        Returns
        -------
        bool
            Whether `a` is scheduled before `b`.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The only nodes to search; all nodes where `node_names` is None.

    Raises
    ------
    TypeError
        `node_names` is no set of str.
    """

    node_names: frozenset[str] | None = None

    def __post_init__(self) -> None:
        names = self.node_names
        if names is None:
            return
        if not isinstance(names, (frozenset, set)) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"the node_names of a PreFilterResult are a frozenset of str, not {names!r}")

    def all_nodes(self) -> bool:
        """Whether all nodes are searched."""
        return self.node_names is None

    def merge(self, other: PreFilterResult | None) -> PreFilterResult | None:
        """Return the nodes that are in both results.

        Parameters
        ----------
        other : PreFilterResult or None
            Another result; None stands for all nodes.
        """
        if other is None or other.node_names is None:
            return None if self.node_names is None else self
        if self.node_names is None:
            return other
        return PreFilterResult(self.node_names & other.node_names)


class PreFilterExtensions(Protocol):
    """Updates the state of PreFilter when a dry run adds a pod to a node or removes one."""

    def add_pod(self, state: CycleState, pod: Pod, pod_to_add: Pod, node_info: AnyNodeInfo) -> Status | None:
        """Update the state as if a pod ran on a node.

        Parameters
        ----------
        node_info : NodeInfo
            The node, which already has the added pod.

        Returns
        -------
        Status or None
            None for Success.
        """

    def remove_pod(
        self, state: CycleState, pod: Pod, pod_to_remove: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """Update the state as if a pod did not run on a node.

        Parameters
        ----------
        node_info : NodeInfo
            The node, which no longer has the removed pod.

        Returns
        -------
        Status or None
            None for Success.
        """


class PreFilterPlugin(Plugin, point="preFilter"):
    """A plugin that examines a pod before nodes are filtered."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        """Examine a pod and all nodes, once per cycle.

        Parameters
        ----------
        nodes : NodesView
            All nodes of the snapshot.

        Returns
        -------
        PreFilterResult, Status or None
            The only nodes to search; Skip, which skips Filter; or a rejection on all nodes.
        """
        raise NotImplementedError

    def pre_filter_extensions(self) -> PreFilterExtensions | None:
        """Return the extensions of a plugin whose Filter depends on other pods, else None."""
        return None


NOT_SATISFIED = "node(s) didn't satisfy plugin {}"


class FilterPlugin(Plugin, point="filter"):
    """A plugin that filters nodes; it implements `filter` or `filter_all`.

    Attributes
    ----------
    filter_reason : str
        Reason of nodes that `filter_all` rejects without a status of its own; by default the text names the
        plugin.
    """

    filter_reason: ClassVar[str] = ""

    def filter(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> Status | None:
        """Check a pod against one node.

        Returns
        -------
        Status or None
            None if the pod fits; a rejection; any other status fails the cycle.
        """
        answer = self.filter_all(state, pod, NodesView.of([node_info]))
        answers = read_answers(self.name, answer, 1, self.verdict)
        return answers.statuses[int(answers.numbers[0])]

    def filter_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> npt.ArrayLike | Answers:
        """Check a pod against several nodes of a search.

        Parameters
        ----------
        nodes : NodesView
            A block of n nodes.

        Returns
        -------
        (n,) array of bool or int, or Answers
            True where the pod fits; or `Code` values, 0 for Success; or indices in a list of statuses.
        """
        raise NotImplementedError

    def verdict(self, code: int) -> Status | None:
        """Return the status of a code returned by `filter_all`.

        Returns
        -------
        Status or None
            None for Success.
        """
        reason = self.filter_reason or NOT_SATISFIED.format(self.name)
        return None if code == Code.SUCCESS else Status(Code(code), (reason,), self.name)


PostFilterResult = NominatingInfo


class PostFilterPlugin(Plugin, point="postFilter"):
    """A plugin that is called if no node fits, for example to preempt pods."""

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Try to make a pod schedulable that no node fits.

        Parameters
        ----------
        statuses : mapping of str to Status
            Status by node, of every node that was examined, in that order.

        Returns
        -------
        PostFilterResult or None
            The change of the pod's nomination.
        Status or None
            Success if the pod may become schedulable by what was done; Unschedulable if nothing helps.
        """
        raise NotImplementedError


class PreScorePlugin(Plugin, point="preScore"):
    """A plugin that examines the feasible nodes before they are scored."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        """Examine all feasible nodes, once per cycle.

        Returns
        -------
        Status or None
            Skip skips Score; anything else but Success is an error.
        """
        raise NotImplementedError


class ScorePlugin(Plugin, point="score"):
    """A plugin that scores nodes; it implements `score` or `score_all`."""

    def score(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> int | Status:
        """Score one node.

        Returns
        -------
        int or Status
            0 to 100, or any integer if `normalize_score` is implemented; a Status fails the cycle.
        """
        return int(np.asarray(self.score_all(state, pod, NodesView.of([node_info])))[0])

    def score_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> npt.ArrayLike | Status:
        """Score all feasible nodes at once.

        Parameters
        ----------
        nodes : NodesView
            n nodes.

        Returns
        -------
        (n,) array of int, or Status
            A Status is an Error.
        """
        raise NotImplementedError

    def normalize_score(
        self, state: CycleState, pod: Pod, scores: npt.NDArray[np.int64]
    ) -> npt.ArrayLike | Status:
        """Map the scores of all feasible nodes to 0 to 100.

        Parameters
        ----------
        scores : (n,) int64 array

        Returns
        -------
        (n,) array of int, or Status
            Scores from 0 to 100; a Status fails the cycle.
        """
        return scores


class ReservePlugin(Plugin, point="reserve"):
    """A plugin with state of its own about pods between their decision and their binding.

    Attributes
    ----------
    unreserves_in_order : bool
        Call `unreserve` in the order of `reserve` among plugins that set this, after all others.
    """

    unreserves_in_order: ClassVar[bool] = False

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve resources for a pod that has been assumed on a node.

        Returns
        -------
        Status or None
            Anything but Success ends the cycle.
        """
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Release the resources of a pod that will not be bound, even if `reserve` failed or was not run."""


class NodeRanking(Protocol):
    """Ranks nodes, where pods of a group are placed after evictions.

    Attributes
    ----------
    condemned : frozenset of int
        What the pods that are placed cost already. Who undoes their placing sets it back.
    """

    condemned: frozenset[int]

    def cheapest(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the rows of the lowest rank among some.

        Parameters
        ----------
        rows : (n,) int32 array
            At least one.

        Returns
        -------
        (m,) int32 array
            In the same order.
        """
        ...

    def condemn(self, row: int) -> None:
        """Note that a pod is placed on a row.

        Parameters
        ----------
        row : int
        """
        ...


class FailedGroup(Protocol):
    """A pod group that fits nowhere, for PostFilter.

    Attributes
    ----------
    group : PodGroup or CompositePodGroup
    pods : sequence of Pod
        The pods that the cycle schedules.
    reads_rows_alone : bool
        Whether decisions about them read the usage of rows, and no pods.
    """

    group: AnyGroup
    pods: Sequence[Pod]

    @property
    def reads_rows_alone(self) -> bool: ...

    def states(self) -> Mapping[int, CycleState]:
        """Return the states of pods that had a cycle of their own.

        Returns
        -------
        mapping of int to CycleState
            By index of the pod.
        """
        ...

    def pre_filtered(self, plugin: str) -> list[int]:
        """Return the pods for which PreFilter of a plugin ran.

        Parameters
        ----------
        plugin : str
            Its name.

        Returns
        -------
        list of int
            Their indexes.
        """
        ...

    def place(self, ranking: NodeRanking | None = None) -> Status | None:
        """Place the pods in the cluster as it is now, and undo it.

        Parameters
        ----------
        ranking : NodeRanking, optional
            Of the nodes that a pod fits, those of the lowest rank are scored.

        Returns
        -------
        Status or None
            Why the group fails; None where it fits.
        """
        ...

    def decisive_rows(self) -> Collection[int] | None:
        """Return the rows whose pods alone decide whether the group fits on the nodes that `place` has found.

        Returns
        -------
        collection of int, or None
            None where pods on any row may count.
        """
        ...

    def searches(self) -> list[Any] | None:
        """Return how the core checks each pod on the node that `place` has found for it.

        Returns
        -------
        list of (Search, int, (int, int, int), int) or None
            See `LowerUnits.to_leave`; None where the core alone cannot.
        """
        ...

    def readmit(self, pods: Sequence[Pod]) -> bool:
        """Have pods return to their nodes, in the cache, if each pod of the group then passes the filters on
        the node that `place` has found for it, after those before it are placed.

        Parameters
        ----------
        pods : sequence of Pod
            Each with its node.

        Returns
        -------
        bool
            False if they have not returned.
        """
        ...

    def nominations(self) -> dict[int, NominatingInfo]:
        """Return the nominations of the pods to the nodes that `place` has found.

        Returns
        -------
        mapping of int to NominatingInfo
            By index of the pod.
        """
        ...


class PodGroupPostFilterPlugin(Plugin, point="podGroupPostFilter"):
    """A plugin that tries to make room for a pod group that fits nowhere (v1.37)."""

    def pod_group_post_filter(
        self, failed: FailedGroup
    ) -> tuple[Mapping[int, NominatingInfo] | None, Status]:
        """Try to make room for a group.

        Returns
        -------
        nominations : mapping of int to NominatingInfo, or None
            With Success, the nominations of pods, by index.
        status : Status
            Success, or why this plugin does not help.
        """
        raise NotImplementedError


class PermitPlugin(Plugin, point="permit"):
    """A plugin that can delay or prevent the binding of a pod."""

    def permit(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[Status | None, float] | Status | None:
        """Allow the binding of a pod, reject it, or make it wait.

        Returns
        -------
        Status or None
            Wait makes the pod wait until `WaitingPod.allow` or `WaitingPod.reject`.
        float
            Seconds to wait, 900 by default and at most.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PreBindPreFlightResult:
    """The result of PreBindPreFlight beside its status.

    Attributes
    ----------
    allow_parallel : bool
        Whether PreBind may run at the same time as the PreBind of its neighbours in the profile.
    """

    allow_parallel: bool = False


class PreBindPlugin(Plugin, point="preBind"):
    """A plugin that prepares the binding of a pod."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[PreBindPreFlightResult | None, Status | None] | Status | None:
        """Decide whether `pre_bind` is called.

        Returns
        -------
        Status or None
            Skip if `pre_bind` has nothing to do for the pod; any code but that and Success is an Error.
        """
        return None

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | StatusSteps | None:
        """Prepare the binding of a pod, for example by binding its volumes.

        Returns
        -------
        Status, None or generator
            A generator yields the seconds until its next step, and returns the status. Other pods are
            scheduled between the steps, without a thread for each waiting pod. The generator is closed if it
            is no longer needed.
        """
        raise NotImplementedError


class BindPlugin(Plugin, point="bind"):
    """A plugin that binds pods."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind a pod.

        Returns
        -------
        Status or None
            Skip leaves the pod to the next Bind plugin.
        """
        raise NotImplementedError


class PostBindPlugin(Plugin, point="postBind"):
    """A plugin that is notified of bound pods."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Handle the binding of a pod."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """A set of nodes for all pods of a group.

    Attributes
    ----------
    name : str
    rows : (n,) int32 array
        Rows of the node table, in list order.
    """

    name: str
    rows: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Assignments:
    """The nodes that the pods of a group would get in a placement.

    Attributes
    ----------
    pods : sequence of Pod
        The pods to place.
    rows : (pods,) int32 array
        Row of the node of each pod, -1 for none.
    scheduled : int
        Number of pods of the group that have a node already.
    """

    placement: Placement
    pods: Sequence[Pod]
    rows: npt.NDArray[np.int32]
    scheduled: int

    @property
    def placed(self) -> int:
        """Number of pods with a row."""
        return int(np.count_nonzero(self.rows >= 0))


class PlacementGeneratePlugin(Plugin, point="placementGenerate"):
    """A plugin that proposes placements for a pod group."""

    def generate_placements(
        self, group: AnyGroup, scheduled: Sequence[Pod], parent: Placement
    ) -> Sequence[Placement]:
        """Return the placements to try for a pod group; an exception fails the group.

        Parameters
        ----------
        scheduled : sequence of Pod
            Pods of the group that have a node.
        parent : Placement
            The placement of all nodes.

        Returns
        -------
        sequence of Placement
            Subsets of `parent`.
        """
        raise NotImplementedError


class PlacementScorePlugin(Plugin, point="placementScore"):
    """A plugin that scores the placements that a pod group fits."""

    def score_placement(self, group: AnyGroup, assignments: Assignments) -> int:
        """Score a placement that the group fits.

        Parameters
        ----------
        assignments : Assignments
            The pods and their nodes, to which they have not been added yet.

        Returns
        -------
        int
            0 to 100, or any integer if `normalize_placement_scores` is implemented.
        """
        raise NotImplementedError

    def normalize_placement_scores(self, scores: npt.NDArray[np.int64]) -> npt.ArrayLike:
        """Map the scores of all placements that the group fits to 0 to 100.

        Parameters
        ----------
        scores : (n,) int64 array

        Returns
        -------
        (n,) array of int
            Scores from 0 to 100.
        """
        return scores


class EvidencePlugin(Plugin):
    """A filter that can say by which facts it rejects nodes."""

    def evidence(self, inquiry: RejectedPod) -> FindEvidence:
        """Return the function that finds the evidence of nodes for one pod.

        Returns
        -------
        callable
            Takes rows and the status with which this filter rejects their nodes.
        """
        raise NotImplementedError
