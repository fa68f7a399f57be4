"""The extension points: a base class for each, with the methods that plugins implement.

kube-scheduler v1.36, framework/interface.go. A plugin takes part at the points whose base classes it extends.
Filter and Score have a vectorised form, which is used where a plugin has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from moorage.objects import Pod, PodGroup

from .nodes_view import InfoNodes, NodesView
from .status import SKIP as SKIP
from .status import Answers as Answers
from .status import Code as Code
from .status import Status as Status
from .status import read_answers

if TYPE_CHECKING:
    from moorage.framework.runtime.steps import StatusSteps

    from .cycle_state import CycleState
    from .events import ClusterEventWithHint
    from .handle import FrameworkHandle
    from .nodes_view import AnyNodeInfo

MAX_NODE_SCORE = 100

BASES: dict[type[Plugin], str] = {}
"""The base class of each extension point, and its name in a configuration."""


class Plugin:
    """A plugin: its name, default weight and arguments.

    A class of plugins is its own factory.

    Parameters
    ----------
    args : mapping of str to object, optional
        Arguments in their JSON form, on top of `default_args`.
    handle : FrameworkHandle, optional

    Attributes
    ----------
    extension_points : tuple of str
        From the base classes; a class may name them itself.
    in_core : bool
        The core does the work of this plugin, for many pods at once.
    feature_gate : str
        The gate that enables the plugin by default; "" where it always is.
    """

    name: ClassVar[str] = ""
    extension_points: ClassVar[tuple[str, ...]] = ()
    default_weight: ClassVar[int] = 0
    feature_gate: ClassVar[str] = ""
    default_args: ClassVar[Mapping[str, Any]] = {}
    in_core: bool = False

    args: Mapping[str, Any] = {}
    handle: FrameworkHandle | None = None

    def __init__(self, args: Mapping[str, Any] | None = None, handle: FrameworkHandle | None = None) -> None:
        self.args = {**self.default_args, **(args or {})}
        self.handle = handle

    def __init_subclass__(cls, point: str = "", **rest: Any) -> None:
        """Set `extension_points`.

        Parameters
        ----------
        point : str, optional
            The extension point, as a configuration names it, whose base class this is.
        """
        super().__init_subclass__(**rest)
        if point:
            BASES[cls] = point
        named = cls.extension_points
        cls.extension_points = (
            *[point for base, point in BASES.items() if issubclass(cls, base) or point in named],
            *[point for point in named if point not in BASES.values()],
        )

    def another(self) -> Self:
        """A plugin of the same class and arguments, without a handle."""
        return type(self)(self.args)

    def required_handle(self) -> FrameworkHandle:
        """The handle of a plugin that works for a scheduler.

        Returns
        -------
        FrameworkHandle

        Raises
        ------
        RuntimeError
            The plugin belongs to no scheduler.
        """
        if self.handle is None:
            raise RuntimeError(f'plugin "{self.name}" is not part of a scheduler')
        return self.handle

    def close(self) -> None:
        """Called when the framework is closed."""


# ---- the queue ---------------------------------------------------------------------------------------------


class QueuedPod(Protocol):
    """A pod in the queue.

    Attributes
    ----------
    timestamp : float
        Seconds; the time of its entry into the queue.
    """

    @property
    def pod(self) -> Pod: ...

    @property
    def timestamp(self) -> float: ...


class EnqueueExtensions(Plugin):
    """A plugin that registers events. One that rejects pods without it is registered for `ANY_EVENT`."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The events that may make a pod schedulable that this plugin has rejected.

        Returns
        -------
        sequence of ClusterEventWithHint
        """
        return ()


class SignPlugin(Plugin):
    """A plugin that signs pods: those with equal signatures get equal answers, so that one search can serve
    several (opportunistic batching, KEP-5598). A pod is signed where every plugin at PreFilter, Filter,
    PreScore and Score signs it.

    Attributes
    ----------
    can_sign : bool
        False where `sign_pod` refuses all pods.
    """

    @property
    def can_sign(self) -> bool:
        return True

    def sign_pod(self, pod: Pod) -> Mapping[str, Any] | Status | None:
        """The parts of a pod that this plugin's answers depend on.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        mapping of str to object, None or Status
            Parts by name, of what JSON can hold; None where there are none. A Status that is no Success
            refuses to sign, for example where answers depend on the places of other pods.
        """
        raise NotImplementedError


class PreEnqueuePlugin(Plugin, point="preEnqueue"):
    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Decide whether a pod enters the active queue.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Status or None
            Anything but Success keeps the pod out.
        """
        raise NotImplementedError


class QueueSortPlugin(Plugin, point="queueSort"):
    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Order two queued pods.

        Parameters
        ----------
        a, b : QueuedPod

        Returns
        -------
        bool
            True where `a` is tried before `b`.
        """
        raise NotImplementedError


# ---- filtering ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The only nodes to search; all nodes where `node_names` is None."""

    node_names: frozenset[str] | None = None

    def all_nodes(self) -> bool:
        """Whether no node is left out."""
        return self.node_names is None

    def merge(self, other: PreFilterResult | None) -> PreFilterResult | None:
        """The nodes in both results.

        Parameters
        ----------
        other : PreFilterResult or None

        Returns
        -------
        PreFilterResult or None
            None for all nodes.
        """
        if other is None or other.node_names is None:
            return None if self.node_names is None else self
        if self.node_names is None:
            return other
        return PreFilterResult(self.node_names & other.node_names)


class PreFilterExtensions(Protocol):
    """Updates what PreFilter has computed when a pod is added to or removed from a node in a dry run."""

    def add_pod(
        self, state: CycleState, pod: Pod, pod_to_add: Pod, node_info: AnyNodeInfo
    ) -> Status | None: ...

    def remove_pod(
        self, state: CycleState, pod: Pod, pod_to_remove: Pod, node_info: AnyNodeInfo
    ) -> Status | None: ...


class PreFilterPlugin(Plugin, point="preFilter"):
    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        """Look at a pod and all nodes once per cycle.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        nodes : NodesView
            All nodes of the snapshot.

        Returns
        -------
        PreFilterResult, Status or None
            The only nodes to search; Skip, to pass Filter over; or a rejection, which holds for all nodes.
        """
        raise NotImplementedError

    def pre_filter_extensions(self) -> PreFilterExtensions | None:
        """The extensions of a plugin whose Filter depends on what PreFilter has seen of other pods.

        Returns
        -------
        PreFilterExtensions or None
        """
        return None


class FilterPlugin(Plugin, point="filter"):
    """Extend `filter`, or `filter_all`.

    Attributes
    ----------
    filter_reason : str
        The reason of nodes that `filter_all` rejects without a status of its own.
    """

    filter_reason: ClassVar[str] = ""

    def filter(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> Status | None:
        """Check a pod against one node.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_info : NodeInfo or NodeInfoClone

        Returns
        -------
        Status or None
            None where the pod fits; a rejection; any other status fails the cycle.
        """
        answer = self.filter_all(state, pod, InfoNodes([node_info]))
        found = read_answers(self.name, answer, 1, self.verdict)
        return found.statuses[int(found.numbers[0])]

    def filter_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> npt.ArrayLike | Answers:
        """Check a pod against several nodes: a block of those of a search.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        nodes : NodesView
            n nodes.

        Returns
        -------
        (n,) array of bool or int, or Answers
            True where the pod fits; or `Code` values, 0 for Success; or places in a list of statuses.
        """
        raise NotImplementedError

    def verdict(self, code: int) -> Status | None:
        """The status of a code from `filter_all`.

        Parameters
        ----------
        code : int

        Returns
        -------
        Status or None
            None for Success.
        """
        reason = self.filter_reason or f"node(s) didn't satisfy plugin {self.name}"
        return None if code == Code.SUCCESS else Status(Code(code), (reason,), self.name)


@dataclass(frozen=True, slots=True)
class NominatingInfo:
    """A change of a pod's nomination, which PostFilter returns with its status.

    Attributes
    ----------
    nominated_node_name : str
        The new node; "" removes the nomination.
    noop : bool
        No change: the node of the pod's own status stays.
    """

    nominated_node_name: str = ""
    noop: bool = False


PostFilterResult = NominatingInfo


class PostFilterPlugin(Plugin, point="postFilter"):
    def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Called where no node fits.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        statuses : mapping of str to Status
            Every node that was looked at, in that order.

        Returns
        -------
        PostFilterResult or None
            What becomes of the pod's nomination.
        Status or None
            Success where the pod may be scheduled later for what was done; Unschedulable where nothing helps.
        """
        raise NotImplementedError


# ---- scoring -----------------------------------------------------------------------------------------------


class PreScorePlugin(Plugin, point="preScore"):
    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        """Look at all feasible nodes once per cycle.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        nodes : NodesView

        Returns
        -------
        Status or None
            Skip passes Score over; anything else but Success is an error.
        """
        raise NotImplementedError


class ScorePlugin(Plugin, point="score"):
    """Extend `score`, or `score_all`."""

    def score(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> int | Status:
        """Score one node.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_info : NodeInfo or NodeInfoClone

        Returns
        -------
        int or Status
            0 to 100, or any integer where `normalize_score` is extended; a Status fails the cycle.
        """
        return int(np.asarray(self.score_all(state, pod, InfoNodes([node_info])))[0])

    def score_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> npt.ArrayLike:
        """Score all feasible nodes at once.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        nodes : NodesView
            n nodes.

        Returns
        -------
        (n,) array of int
        """
        raise NotImplementedError

    def normalize_score(
        self, state: CycleState, pod: Pod, scores: npt.NDArray[np.int64]
    ) -> npt.ArrayLike | Status:
        """Bring the scores of all feasible nodes to 0 to 100.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        scores : (n,) int64 array

        Returns
        -------
        (n,) array of int, or Status
            A Status fails the cycle.
        """
        return scores


# ---- binding -----------------------------------------------------------------------------------------------


class ReservePlugin(Plugin, point="reserve"):
    """A plugin with state of its own about pods on their way to a node.

    Attributes
    ----------
    unreserves_in_order : bool
        `unreserve` is called in the order of `reserve` among plugins that set this, after all others.
    """

    unreserves_in_order: ClassVar[bool] = False

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Called when the pod has been assumed on the node.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_name : str

        Returns
        -------
        Status or None
            Anything but Success ends the cycle.
        """
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Called when the pod will not be bound after all, also where `reserve` failed or was not reached.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_name : str
        """


class PermitPlugin(Plugin, point="permit"):
    def permit(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[Status | None, float] | Status | None:
        """Let the pod be bound, reject it, or let it wait.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_name : str

        Returns
        -------
        Status or None
            Wait lets the pod wait, until `WaitingPod.allow` or `WaitingPod.reject`.
        float
            Seconds to wait at most, 900 by default and at most.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PreBindPreFlightResult:
    """What PreBindPreFlight returns with its status.

    Attributes
    ----------
    allow_parallel : bool
        PreBind may run at the same time as that of its neighbours in the profile.
    """

    allow_parallel: bool = False


class PreBindPlugin(Plugin, point="preBind"):
    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[PreBindPreFlightResult | None, Status | None] | Status | None:
        """Decide whether `pre_bind` is called.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_name : str

        Returns
        -------
        PreBindPreFlightResult or None
        Status or None
            Skip where `pre_bind` has nothing to do for the pod; any code but that and Success is an Error.
        """
        return None

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | StatusSteps | None:
        """Prepare the binding of a pod, for instance by binding its volumes.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_name : str

        Returns
        -------
        Status, None or generator
            A generator yields the seconds until its next step, and returns the status. Meanwhile other pods
            are scheduled, without a thread for each pod that waits. It is closed where it is not needed any
            more.
        """
        raise NotImplementedError


class BindPlugin(Plugin, point="bind"):
    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind a pod.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_name : str

        Returns
        -------
        Status or None
            Skip leaves the pod to the next Bind plugin.
        """
        raise NotImplementedError


class PostBindPlugin(Plugin, point="postBind"):
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Called when a pod is bound.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_name : str
        """
        raise NotImplementedError


# ---- pod groups --------------------------------------------------------------------------------------------


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
    """The nodes that the pods of a group would have in a placement.

    Attributes
    ----------
    pods : sequence of Pod
        The pods to place.
    rows : (pods,) int32 array
        The row of the node of each pod, -1 for none.
    scheduled : int
        The number of pods of the group that have a node already.
    """

    placement: Placement
    pods: Sequence[Pod]
    rows: npt.NDArray[np.int32]
    scheduled: int

    @property
    def placed(self) -> int:
        """How many of the pods have a row."""
        return int(np.count_nonzero(self.rows >= 0))


class PlacementGeneratePlugin(Plugin, point="placementGenerate"):
    def generate_placements(
        self, group: PodGroup, scheduled: Sequence[Pod], parent: Placement
    ) -> Sequence[Placement]:
        """The placements to try for a pod group. An exception fails the group.

        Parameters
        ----------
        group : PodGroup
        scheduled : sequence of Pod
            The pods of the group that have a node.
        parent : Placement
            All nodes.

        Returns
        -------
        sequence of Placement
            Subsets of `parent`.
        """
        raise NotImplementedError


class PlacementScorePlugin(Plugin, point="placementScore"):
    def score_placement(self, group: PodGroup, assignments: Assignments) -> int:
        """Score a placement that the group fits.

        Parameters
        ----------
        group : PodGroup
        assignments : Assignments
            The pods and their nodes, which do not hold them yet.

        Returns
        -------
        int
            0 to 100, or any integer where `normalize_placement_scores` is extended.
        """
        raise NotImplementedError

    def normalize_placement_scores(self, scores: npt.NDArray[np.int64]) -> npt.ArrayLike:
        """Bring the scores of all placements that the group fits to 0 to 100.

        Parameters
        ----------
        scores : (n,) int64 array

        Returns
        -------
        (n,) array of int
        """
        return scores
