"""Templates and selectors that ask for what they hardly mean: selectors that match nothing, named nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

from msgspec.structs import replace

from moorage.kube import DaemonSet, Object, Pod, PodDisruptionBudget
from moorage.kube.model.meta import LabelSelector
from moorage.kube.model.workload import Service
from moorage.kube.workloads.daemon_pods import pinned_by, why_on_no_node
from moorage.kube.workloads.disruption import LabelledObjects
from moorage.notes import RoutineNote

from .finding import Ground, LintFinding, identity, of_workload


def _template(obj: Any) -> Any:
    return obj.spec.template


def named_nodes(ground: Ground) -> Iterator[LintFinding]:
    """Yield the workloads whose template names a node."""
    for obj in ground.makers:
        if getattr(obj.spec, "replicas", None) != 0 and (name := pinned_by(obj)):  # type: ignore[attr-defined]
            text = f"spec.template.spec.nodeName is {name}, so the scheduler passes its pods by"
            yield of_workload("node-named", ground.top(obj), text)


def duplicate_ports(ground: Ground) -> Iterator[LintFinding]:
    """Yield the templates with a port twice, about which the API server warns."""
    for obj in ground.makers:
        ports: dict[tuple[object, ...], str] = {}
        if getattr(obj.spec, "replicas", None) == 0 or _template(obj) is None:  # type: ignore[attr-defined]
            continue
        for at, container in enumerate(_template(obj).spec.containers):
            for number, port in enumerate(container.ports):
                field = f"spec.template.spec.containers[{at}].ports[{number}]"
                key = port.container_port, port.protocol or "TCP", port.host_port, port.host_ip
                if ports.setdefault(key, field) != field:
                    text = RoutineNote(f"{field}: duplicate port definition with {ports[key]}")
                    yield of_workload("duplicate-port", ground.top(obj), text)


def selecting_nothing(ground: Ground) -> Iterator[LintFinding]:
    """Yield the objects that select no pod, neither one that is there nor one of a template."""

    @cache
    def labelled() -> LabelledObjects[Object]:
        future = (
            Pod(metadata=replace(_template(obj).metadata, namespace=obj.namespace)) for obj in ground.makers
        )
        return LabelledObjects(chain(ground.labelled, future))

    def matches_none(namespace: str, selector: LabelSelector) -> bool:
        return not labelled().selected(namespace, selector)

    for budget in ground.listed(PodDisruptionBudget):
        if (selector := budget.spec.selector) is not None and matches_none(budget.namespace, selector):
            text = f"its selector ({_rules(selector)}) matches no pod of the input, so it protects none"
            yield of_workload("selects-nothing", identity(budget), text)
    for service in ground.listed(Service):
        selector = LabelSelector(match_labels=service.spec.selector or {})
        if selector.match_labels and matches_none(service.namespace, selector):
            text = f"its selector ({_rules(selector)}) matches no pod of the input"
            yield of_workload("selects-nothing", identity(service), text)
    for obj in ground.makers:
        if obj.metadata.controller() is not None:
            continue
        for at, constraint in enumerate(_template(obj).spec.topology_spread_constraints):
            own = constraint.label_selector
            if own is not None and matches_none(obj.namespace, own):
                field = f"spec.template.spec.topologySpreadConstraints[{at}]"
                text = f"{field}: its labelSelector ({_rules(own)}) matches no pod, not even its own"
                yield of_workload("selects-nothing", identity(obj), text)


def _rules(selector: LabelSelector) -> str:
    rules = [f"{key}={value}" for key, value in selector.match_labels.items()]
    rules += [
        " ".join(filter(None, (rule.key, rule.operator, ", ".join(rule.values))))
        for rule in selector.match_expressions
    ]
    return ", ".join(rules)


_PLATFORMS = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})


def daemons_without_nodes(ground: Ground) -> Iterator[LintFinding]:
    """Yield the DaemonSets for which there is no node, but for those of platforms that the nodes are not."""
    nodes = ground.cluster.nodes
    platforms = set().union(*(node.metadata.labels.items() for node in nodes))
    for obj in ground.listed(DaemonSet) if nodes else ():
        selector = obj.spec.template.spec.node_selector or {}
        is_of_platform = {each for each in selector.items() if each[0] in _PLATFORMS} <= platforms
        if is_of_platform and (why := why_on_no_node(obj, nodes)):
            yield of_workload("daemons-without-node", identity(obj), why)
