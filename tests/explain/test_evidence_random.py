"""Every number of an explanation, recomputed from the objects of random clusters."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.conftest import NIGHTLY, SHARE
from tests.doors.answers import RoomEvidence
from tests.doors.engine import UNSCHEDULABLE
from tests.explain.explain_world import World, random_pod, random_world

from moorage.answers.explain import Explanation
from moorage.engine.framework import Fact
from moorage.kube import Node, Pod, PodStatus, Taint, TopologySpreadConstraint

UNITS = {"m": Fraction(1, 1000), "Mi": 2**20, "Gi": 2**30, "": 1}


def amount(resource: str, quantity: object) -> int:
    """A quantity of the worlds in the unit of its resource."""
    text = str(quantity)
    suffix = text.lstrip("0123456789.")
    value = Fraction(text.removesuffix(suffix)) * UNITS[suffix]
    return int(value * 1000) if resource == "cpu" else int(value)


def quantities(resource: str, fact: Fact) -> dict[str, int]:
    """The amounts of a fact in the unit of its resource."""
    named = ("amount", "without", "containers", "overhead")
    return {name: amount(resource, fact.values[name]) for name in named if name in fact.values}


def request_of(pod: Pod, resource: str, inits: bool = True, overhead: bool = True, level: bool = True) -> int:
    """What a pod requests of a resource, by the sums of its containers."""
    if resource == "pods":
        return 1

    def of(container: object) -> int:
        return amount(resource, container.resources.requests.get(resource, 0))  # type: ignore[attr-defined]

    spec = pod.spec
    most = sidecars = 0
    for one in spec.init_containers:
        if one.restart_policy == "Always":
            sidecars += of(one)
            most = max(most, sidecars)
        elif inits:
            most = max(most, sidecars + of(one))
    total = max(sum(map(of, spec.containers)) + sidecars, most)
    if level and spec.resources is not None and resource in spec.resources.requests:
        total = amount(resource, spec.resources.requests[resource])
    return total + (amount(resource, spec.overhead.get(resource, 0)) if overhead else 0)


class Objects:
    """What a group of nodes is, by the objects."""

    def __init__(self, world: World, asked: Pod, waiting: list[Pod], group: Any) -> None:
        self.world, self.asked = world, asked
        self.by_name = {node.name: node for node in world.nodes}
        self.nodes = [self.by_name[name] for name in group.nodes]
        self.nominated = [pod for pod in waiting if (pod.spec.priority or 0) >= (asked.spec.priority or 0)]

    def on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.world.bound if pod.spec.node_name == node.name]

    def nominated_on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.nominated if pod.status.nominated_node_name == node.name]

    def missing(self, node: Node, resource: str) -> int:
        used = sum(request_of(pod, resource) for pod in (*self.on(node), *self.nominated_on(node)))
        free = amount(resource, node.status.allocatable.get(resource, 0)) - used
        return request_of(self.asked, resource) - free

    def tolerated(self, taint: Taint) -> bool:
        return any(
            one.key in (taint.key, None, "")
            and one.effect in (taint.effect, None, "")
            and (one.operator == "Exists" or (one.value or "") == (taint.value or ""))
            for one in self.asked.spec.tolerations
        )

    # ---- spreading

    def counts_node(self, constraint: TopologySpreadConstraint, node: Node, fits_labels: bool) -> bool:
        keys = [
            one.topology_key
            for one in self.asked.spec.topology_spread_constraints
            if one.when_unsatisfiable == "DoNotSchedule"
        ]
        if any(key not in node.metadata.labels for key in keys):
            return False
        if constraint.node_affinity_policy in (None, "Honor") and not fits_labels:
            return False
        taints = [one for one in node.spec.taints if one.effect in ("NoSchedule", "NoExecute")]
        return constraint.node_taints_policy != "Honor" or all(map(self.tolerated, taints))

    def matching(self, constraint: TopologySpreadConstraint, pods: list[Pod]) -> list[Pod]:
        (wanted,) = constraint.label_selector.match_labels.items()  # type: ignore[union-attr]
        return [pod for pod in pods if wanted in pod.metadata.labels.items()]


def check_room(fact: RoomEvidence, objects: Objects) -> None:
    missing = [objects.missing(node, fact.resource) for node in objects.nodes]
    assert fact.requested == request_of(objects.asked, fact.resource)
    assert (fact.least, fact.most, fact.nodes) == (min(missing), max(missing), len(missing))
    assert fact.least > 0


def check_taint(fact: Fact, objects: Objects) -> None:
    texts = Counter(
        taint.text
        for node in objects.nodes
        for taint in (*node.spec.taints, *([UNSCHEDULABLE] if node.spec.unschedulable else []))
        if taint.effect != "PreferNoSchedule" and not objects.tolerated(taint)
    )
    assert texts[fact.name] == fact.nodes


def check_spread(fact: Fact, objects: Objects, feasible_labels: set[str]) -> None:
    told = fact.values
    assert any(
        one.when_unsatisfiable == "DoNotSchedule"
        and (one.topology_key, one.max_skew, one.min_domains or 1)
        == (told["topologyKey"], told["maxSkew"], told["minDomains"])
        and _is_told(one, fact, objects, feasible_labels)
        for one in objects.asked.spec.topology_spread_constraints
    )
    assert told["withPod"] - told["fewest"] > told["maxSkew"]
    here = [node for node in objects.nodes if node.metadata.labels.get(told["topologyKey"]) == told["value"]]
    assert 0 < fact.nodes <= len(here)


def _is_told(constraint: TopologySpreadConstraint, fact: Fact, objects: Objects, fitting: set[str]) -> bool:
    """Whether the numbers are those of a constraint."""
    told = fact.values
    domains: dict[str, int] = {}
    for node in objects.world.nodes:
        if objects.counts_node(constraint, node, node.name in fitting):
            live = [pod for pod in objects.on(node) if pod.metadata.deletion_timestamp is None]
            value = node.metadata.labels[constraint.topology_key]
            domains[value] = domains.get(value, 0) + len(objects.matching(constraint, live))
    own = len(objects.matching(constraint, [objects.asked]))
    fewest = min(domains.values(), default=0) if len(domains) >= told["minDomains"] else 0
    found = (told["withPod"] - told["nominated"], told["fewest"], told["domains"], told["matchesItself"])
    return found == (domains.get(told["value"], 0) + own, fewest, len(domains), bool(own))


def nodes_that_affinity_fits(explanation: Explanation, world: World, asked: Pod) -> set[str]:
    """The nodes that match nodeSelector and node affinity; only looked for where spreading is explained."""
    without = replace(asked.spec, containers=(), init_containers=(), overhead={}, resources=None)
    affinity = (
        None
        if without.affinity is None
        else replace(without.affinity, pod_affinity=None, pod_anti_affinity=None)
    )
    labels_alone = replace(asked, spec=replace(without, affinity=affinity, topology_spread_constraints=()))
    has_spread = any(one.kind == "domain" for group in explanation.groups for one in group.evidence)
    fitting: set[str] = set()
    if has_spread:
        labels = world.scheduler().ask.explain(labels_alone)
        by_labels = {"NodeAffinity", "PreFilter"}  # the latter for nodes that the pod does not name
        for node in world.nodes:
            verdicts = labels.node(node.name).verdicts
            if not any(verdicts.get(plugin) for plugin in by_labels):
                fitting.add(node.name)
    return fitting


def check(explanation: Explanation, world: World, asked: Pod, waiting: list[Pod]) -> Counter[str]:
    """Check all facts of an explanation; return how many of each kind there are."""
    checked = Counter[str]()
    fitting = nodes_that_affinity_fits(explanation, world, asked)
    for group in explanation.groups:
        objects = Objects(world, asked, waiting, group)
        for fact in group.evidence:
            checked[fact.kind] += 1
            assert 0 < fact.nodes <= len(group.nodes)
            match fact:
                case RoomEvidence():
                    check_room(fact, objects)
                case Fact(kind="toleration"):
                    check_taint(fact, objects)
                case Fact(kind="domain") if "maxSkew" in fact.values:
                    check_spread(fact, objects, fitting)
                case Fact(kind="domain"):
                    assert fact.nodes == sum(fact.name not in n.metadata.labels for n in objects.nodes)
                case Fact(kind="request"):
                    resource, told = fact.name, quantities(fact.name, fact)
                    assert told["amount"] == request_of(asked, resource)
                    bare = request_of(asked, resource, inits=False, overhead=False, level=False)
                    assert told["containers"] == bare
                    assert told["overhead"] == amount(resource, asked.spec.overhead.get(resource, 0))
                case Fact() if "amount" in fact.values:
                    (pod,) = [one for one in (*world.bound, *waiting) if one.key == fact.name]
                    resource = str(fact.values["resource"])
                    told = quantities(resource, fact)
                    assert told["amount"] == request_of(pod, resource)
                    if fact.kind == "pod":
                        assert told["without"] == request_of(pod, resource, inits=False)
                case Fact() if "theirs" in fact.values:
                    (pod,) = [one for one in (*world.bound, *waiting) if one.key == fact.name]
                    terms = (pod if fact.values["theirs"] else asked).spec.affinity.pod_anti_affinity.required  # type: ignore[union-attr]
                    labels = (asked if fact.values["theirs"] else pod).metadata.labels
                    assert any(
                        term.topology_key == fact.values["topologyKey"]
                        and term.label_selector.match_labels.items() <= labels.items()  # type: ignore[union-attr]
                        for term in terms
                    )
                case Fact(kind="pod"):
                    (pod,) = [one for one in (*world.bound, *waiting) if one.key == fact.name]
                    assert any(port.host_port == 80 for one in pod.spec.containers for port in one.ports)
                case Fact(kind="missing-pod"):
                    terms = asked.spec.affinity.pod_affinity.required  # type: ignore[union-attr]
                    there = [
                        pod
                        for pod in world.bound
                        if objects.by_name[pod.spec.node_name].metadata.labels.get(fact.values["topologyKey"])
                        == fact.values.get("value")
                    ]
                    wanted = [term.label_selector.match_labels.items() for term in terms]  # type: ignore[union-attr]
                    matching = [pod for pod in there if all(w <= pod.metadata.labels.items() for w in wanted)]
                    assert "value" not in fact.values or matching == []
                case Fact():
                    assert fact.kind in ("label", "host-port", "capacity", "node-name")
    return checked


def richer(random: Random, world: World) -> tuple[World, list[Pod]]:
    """The world with pods that are being deleted, and pods that are nominated to nodes."""
    bound = [
        replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
        if random.random() < 0.2
        else pod
        for pod in world.bound
    ]
    waiting = []
    for at in range(random.choice((0, 0, 1, 2))):
        one = random_pod(random)
        meta = replace(one.metadata, name=f"waiting{at}", uid=f"waiting{at}")
        spec = replace(one.spec, priority=random.choice((0, 5)), node_name="", topology_spread_constraints=())
        status = PodStatus(nominated_node_name=random.choice(world.nodes).name)
        waiting.append(replace(one, metadata=meta, spec=spec, status=status))
    return World(world.nodes, bound), waiting


def checked_case(seed: int) -> Counter[str]:
    random = Random(seed)
    world, waiting = richer(random, random_world(random))
    asked = random_pod(random)
    asked = replace(asked, spec=replace(asked.spec, node_name="", priority=0))
    return check(world.scheduler(*waiting).ask.explain(asked), world, asked, waiting)


@settings(max_examples=2000 if NIGHTLY else 12 * SHARE)
@given(st.integers(0, 2**32))
def test_numbers_are_those_of_the_objects(seed: int) -> None:
    checked_case(seed)


@pytest.mark.nightly  # of the test above
def test_the_cases_have_all_kinds_of_facts() -> None:
    found = sum(map(checked_case, range(150)), Counter[str]())
    for kind in ("resource", "toleration", "domain", "nominated-pod", "terminating-pod", "request"):
        assert found[kind] >= 2, kind
