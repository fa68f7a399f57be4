"""Base classes of in-tree plugins: plugins with kernels in the core, and plugins that few pods need. How they
sign pods.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from moorage._core.base.resources import ZERO, is_counted, pod_requests
from moorage._core.decide.plan import REASONS, UNRESOLVABLE
from moorage._core.state.pod_spec import spec_key
from moorage.engine.framework import interface
from moorage.kube import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Volume,
)

from .extension_points import answer_of
from .interface import Plugin, PreFilterResult, SignPlugin
from .status import Answers, Code, Status

if TYPE_CHECKING:
    from moorage._core.state.cluster_state import ClusterState
    from moorage._core.state.pod_class import Shape

    from .kernels import Kernels
    from .nodes_view import NodesView
    from .status import CycleState


# ---- signing -----------------------------------------------------------------------------------------------
# Signatures: pods with equal signatures get equal verdicts and scores.
#
# Source: kube-scheduler v1.36, SignPod in framework/runtime/framework.go and the signers of
# kube-scheduler/framework.

logger = logging.getLogger("moorage.framework")
encode = msgspec.json.Encoder(order="sorted").encode
NO_SOURCE = Volume()
STORAGE = "ephemeral-storage"
LIMIT = 1 << 12  # maximum number of cached signatures
UNSIGNED = Status(Code.UNSCHEDULABLE, ("the pod cannot be signed",))


class Signer:
    """Signs the pods of one profile.

    Parameters
    ----------
    plugins : iterable of Plugin
        The plugins that filter or score, each at least once.

    Attributes
    ----------
    plugins : list of SignPlugin
        The plugins, each once; empty if one of them signs no pod.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        once = dict.fromkeys(plugins)
        signers = [plugin for plugin in once if isinstance(plugin, SignPlugin) and plugin.can_sign]
        self.plugins = signers if len(signers) == len(once) else []
        outside = [plugin for plugin in self.plugins if not plugin.in_core]
        # Cached by spec and labels, since in-tree plugins read nothing else.
        self._signed: dict[Any, bytes | None] | None = None if outside else {}
        # What the last pod was signed by, and its signature: replicas of a template share these objects.
        self._latest: tuple[Any, Any, Any, str, bytes | None] = (None, None, None, "", None)

    @property
    def reads_spec_alone(self) -> bool:
        """Whether signatures follow from namespace, labels, spec and status of a pod."""
        return self._signed is not None

    def sign(self, pod: Pod) -> bytes | None:
        """Return the signature of a pod.

        Returns
        -------
        bytes or None
            None if a plugin refuses, raises, or returns a value that JSON cannot represent.
        """
        if not self.plugins or self._signed is None:
            return self._sign(pod) if self.plugins else None
        spec, labels, status, namespace, signature = self._latest
        is_same = pod.spec is spec and pod.metadata.labels is labels and pod.status is status
        if not is_same or pod.metadata.namespace != namespace:
            signature = self._find(self._signed, pod)
            self._latest = pod.spec, pod.metadata.labels, pod.status, pod.metadata.namespace, signature
        return signature

    def _find(self, signed: dict[Any, bytes | None], pod: Pod) -> bytes | None:
        """Return the signature of a pod by its spec and labels."""
        spec = pod.spec
        key = (
            spec_key(pod),
            pod.metadata.namespace,
            spec.node_name,
            spec.scheduling_group,
            encode(spec.volumes),
            tuple(pod.metadata.labels.items()),
        )
        if key not in signed:
            if len(signed) >= LIMIT:
                signed.clear()
            signed[key] = self._sign(pod)
        return signed[key]

    def _sign(self, pod: Pod) -> bytes | None:
        parts: dict[str, Any] = {"schedulerName": pod.spec.scheduler_name}
        for plugin in self.plugins:
            answer = answer_of(plugin, pod, plugin.sign_pod, pod)
            if isinstance(answer, Mapping):
                parts.update(answer)
            elif answer is not None and not (isinstance(answer, Status) and answer.is_success):
                return None
        try:
            return encode(parts)
        except (TypeError, ValueError, RecursionError) as error:
            logger.error("pod %s: signature: %s", pod.key, error)
            return None


# ---- parts of signatures -----------------------------------------------------------------------------------


def tolerations(pod: Pod) -> dict[str, Any]:
    """Return the tolerations of a pod, sorted by key and value."""
    return {
        "tolerations": sorted(pod.spec.tolerations, key=lambda toleration: (toleration.key, toleration.value))
    }


def requests(plugin: Plugin, pod: Pod) -> dict[str, Any]:
    """Return the requests of a pod, scalar resources of 0 included.

    Parameters
    ----------
    plugin : Plugin
        The plugin; its handle has the gates on which requests depend.
    """
    gates = plugin.required_handle().cache.state.classes.gates
    quantities = pod_requests(pod, gates, resizes=False)  # fit.go, computePodResourceRequest
    plain = [quantities.get(name, ZERO).value() for name in ("memory", STORAGE)]
    scalars = {name: quantities[name].value() for name in quantities if is_counted(name) and name != STORAGE}
    return {"requests": (quantities.get("cpu", ZERO).milli_value(), *plain, scalars)}


def volumes(pod: Pod) -> dict[str, Any]:
    """Return the sources of a pod's volumes, sorted.

    Config maps, secrets and fields that scheduling does not read are omitted.
    """
    sources = (msgspec.structs.replace(volume, name="") for volume in pod.spec.volumes)
    return {"volumes": sorted(_text(source) for source in sources if source != NO_SOURCE)}


def node_affinity(pod: Pod) -> dict[str, Any]:
    """Return nodeSelector and node affinity of a pod, with terms, requirements and values sorted.

    As upstream, required affinity without terms is signed as none.
    """
    parts: dict[str, Any] = {"nodeSelector": pod.spec.node_selector, "nodeAffinity": None}
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is not None:
        terms = affinity.required.node_selector_terms if affinity.required else ()
        weighed = ((term.weight, _term(term.preference)) for term in affinity.preferred or ())
        parts["nodeAffinity"] = [sorted(_text(_term(term)) for term in terms), sorted(map(_text, weighed))]
    return parts


def _term(term: NodeSelectorTerm) -> list[list[str]]:
    return [_requirements(term.match_expressions), _requirements(term.match_fields)]


def _requirements(requirements: Iterable[NodeSelectorRequirement]) -> list[str]:
    return sorted(_text((item.key, item.operator, sorted(item.values))) for item in requirements)


def _text(value: Any) -> str:
    return encode(value).decode()


# ---- in core -----------------------------------------------------------------------------------------------

Asked = TypeVar("Asked", bound=Callable[..., Status | None])


def gates_only_with(*fields: str, held: Sequence[str] = ()) -> Callable[[Asked], Asked]:
    """Return a decorator that says when PreEnqueue of a plugin need not be called.

    A method that overrides a decorated one is not decorated.

    Parameters
    ----------
    *fields : str
        Fields of spec.
    held : sequence of str
        Attributes of the plugin: containers that stay the same objects. A pod passes for certain if all these
        fields and containers are empty.
    """

    def decorate(pre_enqueue: Asked) -> Asked:
        pre_enqueue.gates_only_with = fields, held  # type: ignore[attr-defined]
        return pre_enqueue

    return decorate


def gates_by_group(pre_enqueue: Asked) -> Asked:
    """Mark a PreEnqueue method whose answer is alike for all pods of a group, and None for pods without one.

    A method that overrides a marked one is not marked.
    """
    pre_enqueue.gates_by_group = True  # type: ignore[attr-defined]
    return pre_enqueue


class NativePlugin(Plugin):
    """A plugin whose verdicts and scores are computed by kernels of the compiled core.

    Its PreFilter and PreScore read only `CycleState.shape`, `CycleState.terms` and the nodes that the pod
    names or is pinned to, so that the framework can cache their results with the terms.

    Attributes
    ----------
    reason_texts : tuple of str
        Upstream's messages for the reason bits of a verdict, from the lowest bit.
    may_reject_if : tuple of callable, or None
        Functions of a pod's `Shape`, of which one answers truly where `may_reject` would; None: it is asked.
    missing_state_text : mapping of type to str
        `FilterPlugin` or `ScorePlugin` to the start of upstream's error for a plugin that is not enabled at
        PreFilter or PreScore.
    """

    in_core = True
    reason_texts: ClassVar[tuple[str, ...]] = ()
    may_reject_if: ClassVar[tuple[Callable[[Shape], object], ...] | None] = None
    missing_state_text: ClassVar[Mapping[type[Plugin], str]] = {}

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        """Return keyword arguments of `moorage._core.decide.plan.Plan` for the plugin's arguments.

        Parameters
        ----------
        state : ClusterState
            State of the cluster in the core.
        """
        return {}

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        """Return upstream's messages for the reason bits of a verdict.

        Parameters
        ----------
        bits : int
            Reason bits as set by the kernel.
        shape : Shape
            Requests and constraints of the rejected pod.
        """
        return tuple(text for bit, text in enumerate(self.reason_texts) if bits >> bit & 1)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        """See `PreFilterPlugin`; not called where a plugin leaves it as it is."""
        return None

    def may_reject(self, shape: Shape) -> bool:
        """Whether PreFilter or PreScore may reject a pod.

        They are not asked about pods that no plugin may reject.

        Parameters
        ----------
        shape : Shape
            Requests and constraints of the pod.

        Returns
        -------
        bool
            False where both certainly return Success or Skip.
        """
        return True

    @property
    def has_kernel(self) -> bool:
        """Whether the core filters single nodes for the plugin, also with other pods on them.

        False for a class with a method `filter` of its own.
        """
        return getattr(type(self), "filter", None) is interface.FilterPlugin.filter

    def rejection(self, verdict: int, shape: Shape) -> Status:
        """Return the status that a verdict stands for.

        Parameters
        ----------
        verdict : int
            A verdict of the core's search for this filter, not 0.
        shape : Shape
            Requests and constraints of the rejected pod.
        """
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if verdict & UNRESOLVABLE else Code.UNSCHEDULABLE
        return Status(code, self.reasons(verdict & REASONS, shape), self.name)

    def filter_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> Answers:
        """See `FilterPlugin`: asks the core about each node."""
        kernels = self._kernels()
        own = 1 << kernels.search.plan_of(state.target[0]).filters.index(self.name)
        verdicts = [kernels.verdict(own, state, info) for info in nodes]
        statuses = [self.rejection(verdict, state.shape) if verdict else None for verdict in verdicts]
        return Answers(np.arange(len(statuses)), statuses)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        """See `PreScorePlugin`; not called where a plugin leaves it as it is."""
        return None

    def score_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> npt.NDArray[np.int64]:
        """See `ScorePlugin`: asks the core about each node, as if it were the only feasible one."""
        kernels = self._kernels()
        return np.array([kernels.score(self.name, state, info) for info in nodes], dtype=np.int64)

    def shape_of(self, pod: Pod) -> Shape:
        """Return the shape of a pod, for queueing hints."""
        classes = self.required_handle().cache.state.classes
        return classes.shape_of(classes.intern(pod))

    def normalized_scores(self, state: CycleState, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return the normalized scores of the feasible nodes.

        Parameters
        ----------
        rows : (n,) int32 array
            All feasible rows of the node table.

        Returns
        -------
        (n,) int64 array
            Scores from 0 to 100.
        """
        return self._kernels().search.scores(self.name, rows, *state.target)[1]

    def _framework(self) -> Any:
        """The `Framework` of the handle, whose type is not declared here; see `FrameworkHandle.framework`."""
        framework = self.required_handle().framework
        if framework is None:
            raise RuntimeError(f'plugin "{self.name}" is not part of a scheduler')
        return framework

    def _kernels(self) -> Kernels:
        kernels: Kernels | None = self._framework().kernels
        if kernels is None:
            raise RuntimeError(f'plugin "{self.name}" is not part of a scheduler')
        return kernels


class InTreePlugin(NativePlugin, interface.EnqueueExtensions, interface.SignPlugin):
    """An in-tree plugin with kernels, which registers cluster events and signs pods."""


class CorePostFilter(interface.PostFilterPlugin):
    """A PostFilter plugin that is not called for pods for which it certainly has no effect."""

    in_core = True

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        """Whether `post_filter` may evict pods.

        Parameters
        ----------
        shape : Shape
            Requests and constraints of a pod without nomination.
        potential : int
            Number of nodes that reject the pod with a code other than UnschedulableAndUnresolvable.

        Returns
        -------
        bool
            False where it certainly evicts none.
        """
        raise NotImplementedError

    def may_free_claims(self, state: CycleState) -> bool:
        """Whether `post_filter` may free what claims of the pod have, so that it has to be called."""
        return False

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        """Return the outcome of `post_filter` where `may_preempt` is False.

        Parameters
        ----------
        shape : Shape
            Requests and constraints of the pod's class.
        nodes, potential : int
            Number of all nodes, and of those that reject the pod with a code other than
            UnschedulableAndUnresolvable.

        Returns
        -------
        reason : str
            Reason of the status.
        clears_nomination : bool
            Whether the nomination of the pod is removed.
        """
        raise NotImplementedError

    def failure(self, state: CycleState) -> Status | None:
        """Return the Error that `post_filter` returns for any statuses of the nodes.

        Returns
        -------
        Status or None
            None where it depends on the statuses.
        """
        return None


class UnitPlugin(Plugin):
    """A plugin that applies only to pods of pod groups, at Permit.

    Permit runs where a pod of a group is scheduled alone. All other pods are scheduled in the core.
    """

    in_core = True
