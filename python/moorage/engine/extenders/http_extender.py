"""HTTPExtender: an extender called over HTTP (kube-scheduler v1.36, extender.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from moorage.engine.extenders import extender_wire as wire
from moorage.errors import ExtenderError, printable
from moorage.kube import Node, Pod, encode_object

from ..cache import NodeInfo
from ..framework.configuration import Extender as ExtenderConfig
from ..framework.configuration import KubeSchedulerConfiguration, build_extenders
from ..framework.configuration.extender_tls import tls_context
from ..framework.plugin.extender import Victims
from .extender_transport import Transport

# Maximum bytes of a response: a constant, an amount per node sent, and twice the size of the request, since
# an extender may return the nodes. For 130,000 nodes with names of usual length the sum is 140 MB.
MAX_RESPONSE = 1 << 20
"""The constant part of the maximum size of a response, in bytes."""
MAX_RESPONSE_PER_NODE = 1 << 10
NANOSECONDS = 1_000_000_000


class HTTPExtender:
    """An extender of a configuration, with a persistent connection and one request at a time.

    Parameters
    ----------
    config : Extender
        From `build_extenders`.
    node_info : callable
        Returns the node of a name with its pods, or None. Victims are found there by UID.

    Raises
    ------
    ExtenderError
        A certificate cannot be read.
    """

    def __init__(self, config: ExtenderConfig, node_info: Callable[[str], NodeInfo | None]) -> None:
        self.config = config
        self.node_info = node_info
        self.name = config.url_prefix
        self.weight = config.weight
        self.is_ignorable = config.ignorable
        self.is_filter = bool(config.filter_verb)
        self.returns_bare_nodes = self.is_filter and not config.node_cache_capable
        self.is_prioritizer = bool(config.prioritize_verb)
        self.is_binder = bool(config.bind_verb)
        self.supports_preemption = bool(config.preempt_verb)
        self.managed = {resource.name for resource in config.managed_resources or ()}
        server_name = config.tls_config.server_name if config.tls_config else ""
        timeout = config.http_timeout / NANOSECONDS
        self.transport = Transport(config.url_prefix, tls_context(config), server_name, timeout)
        self._encoded: dict[str, tuple[Node, Raw]] = {}

    def is_interested(self, pod: Pod) -> bool:
        """Whether a container requests or limits a resource that the extender manages; always true if it
        manages none.
        """
        each = [container.resources for container in (*pod.spec.containers, *pod.spec.init_containers)]
        names = {name for resources in each for name in (*resources.requests, *resources.limits)}
        return not self.managed or not self.managed.isdisjoint(names)

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Filter nodes; see `Extender.filter`.

        A name that is not among `nodes` is an error. Upstream accepts unknown nodes that the extender returns
        as objects.

        Returns
        -------
        names : list of str
            The accepted nodes.
        failed : dict of str to str
            Rejected node to the reason.
        unresolvable : dict of str to str
            Node where eviction cannot help, to the reason.

        Raises
        ------
        ExtenderError
            The request failed, or the response is invalid.
        """
        names = [node.name for node in nodes]
        if not self.is_filter:
            return names, {}, {}
        result: wire.ExtenderFilterResult = self._ask(
            self.config.filter_verb, self._args(pod, nodes), wire.FILTER_RESULT, len(nodes)
        )
        if result.error:
            raise ExtenderError(result.error)
        passed: list[str] = []
        if self.config.node_cache_capable and result.node_names is not None:
            passed = result.node_names
        elif result.nodes is not None:
            passed = [node.metadata.name for node in result.nodes.items or ()]
        known = set(names)
        for name in passed:
            if name not in known:
                claim = f'claims a filtered node "{name}" which is not found in the input node list'
                raise ExtenderError(f'extender "{self.name}" {claim}')
        return passed, _reasons(result.failed_nodes), _reasons(result.failed_and_unresolvable_nodes)

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Score nodes; see `Extender.prioritize`. Scores of repeated nodes are added.

        Returns
        -------
        dict of str to int
            Node to score.

        Raises
        ------
        ExtenderError
            The request failed, or the response is invalid.
        """
        if not self.is_prioritizer:
            return dict.fromkeys((node.name for node in nodes), 0)
        priorities: list[wire.HostPriority] | None = self._ask(
            self.config.prioritize_verb, self._args(pod, nodes), wire.HOST_PRIORITIES, len(nodes)
        )
        scores: dict[str, int] = {}
        for priority in priorities or ():
            scores[priority.host] = scores.get(priority.host, 0) + priority.score
        return scores

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod to a node; see `Extender.bind`.

        Raises
        ------
        ExtenderError
            The request failed, or the extender has no bind verb.
        """
        if not self.is_binder:
            raise ExtenderError("unexpected empty bindVerb in extender")
        meta = pod.metadata
        args = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}
        result: wire.ExtenderBindingResult = self._ask(self.config.bind_verb, args, wire.BINDING_RESULT)
        if result.error:
            raise ExtenderError(result.error)

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Let the extender remove candidate nodes and change victims; see `Extender.process_preemption`.

        Parameters
        ----------
        pod : Pod
            The preemptor.
        victims : mapping of str to Victims
            Node to its victims.

        Returns
        -------
        dict of str to Victims
            The remaining candidates.

        Raises
        ------
        ExtenderError
            The request failed, or the response names an unknown node or pod.
        """
        if not self.supports_preemption:
            raise ExtenderError(
                f"preempt verb is not defined for extender {self.name} but run into ProcessPreemption"
            )
        by_uid = self.config.node_cache_capable
        offered = {
            node: {
                "Pods": [{"UID": one.metadata.uid} if by_uid else _raw(one) for one in victims[node].pods],
                "NumPDBViolations": victims[node].num_pdb_violations,
            }
            for node in sorted(victims)
        }
        args = {
            "Pod": _raw(pod),
            "NodeNameToVictims": None if by_uid else offered,
            "NodeNameToMetaVictims": offered if by_uid else None,
        }
        result: wire.ExtenderPreemptionResult = self._ask(
            self.config.preempt_verb, args, wire.PREEMPTION_RESULT
        )
        left = result.node_name_to_meta_victims or {}
        return {
            node: self._victims(node, left[node], victims.get(node, Victims(()))) for node in sorted(left)
        }

    def _victims(self, node: str, meta: wire.MetaVictims, offered: Victims) -> Victims:
        """Return the victims on a node from a response that has their UIDs."""
        info = self.node_info(node)
        if info is None or info.node is None:
            raise ExtenderError(f'nodeinfo not found for node name "{node}"')
        # The victims of a group that is evicted as a whole include pods on other nodes.
        pods = {pod.metadata.uid: pod for pod in (*info.pods, *offered.pods)} if meta.pods else {}
        for meta_pod in meta.pods or ():
            if meta_pod.uid not in pods:
                claim = f"claims to preempt pod (UID: &{{{meta_pod.uid}}}) on node: {node}"
                raise ExtenderError(f"extender: {self.name} {claim}, but the pod is not found on that node")
        return Victims(tuple(pods[meta_pod.uid] for meta_pod in meta.pods or ()), meta.num_pdb_violations)

    def _args(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, Any]:
        """Return the message ExtenderArgs: the pod, and its candidate nodes as names or objects."""
        if self.config.node_cache_capable:
            return {"Pod": _raw(pod), "Nodes": None, "NodeNames": [node.name for node in nodes]}
        items = [self._encode(node) for node in nodes]
        return {"Pod": _raw(pod), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}

    def _encode(self, node: Node) -> Raw:
        """Return the JSON text of a node, cached while the node is unchanged."""
        known, text = self._encoded.get(node.name, (None, None))
        if text is None or known is not node:
            text = _raw(node)
            self._encoded[node.name] = node, text
        return text

    def _ask(self, verb: str, args: dict[str, Any], answer: wire.Answer, nodes: int = 0) -> Any:
        """Post a message about a number of nodes; return the decoded response."""
        message = msgspec.json.encode(args)
        limit = MAX_RESPONSE + nodes * MAX_RESPONSE_PER_NODE + 2 * len(message)
        return wire.decode(self.transport.post(verb, message, limit), answer)


def _reasons(by_node: dict[str, str] | None) -> dict[str, str]:
    """Return reasons with control characters escaped."""
    return {node: printable(reason) for node, reason in (by_node or {}).items()}


def _raw(obj: Node | Pod) -> Raw:
    """Return the JSON text of an object."""
    return Raw(encode_object(obj))


def make_extenders(
    configuration: KubeSchedulerConfiguration | None, node_info: Callable[[str], NodeInfo | None]
) -> list[HTTPExtender]:
    """Make the extenders of a configuration, ignorable ones last (kube-scheduler v1.36, scheduler.go
    buildExtenders).

    Parameters
    ----------
    node_info : callable
        As in `HTTPExtender`.

    Raises
    ------
    ConfigurationError
        Of stage new: a certificate cannot be read.
    """
    configs = [] if configuration is None else build_extenders(configuration)
    return [HTTPExtender(config, node_info) for config in sorted(configs, key=attrgetter("ignorable"))]
