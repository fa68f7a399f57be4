"""What explanations say of volumes, other pods and features, recomputed from the objects of random clusters;
each change that is offered is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace as replaced
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.conftest import NIGHTLY, SHARE
from tests.core.make import declaring
from tests.explain.explain_world import World
from tests.make import container, make, node, pod

from moorage.answers.explain import Explanation
from moorage.engine.framework import Fact
from moorage.kube import (
    Affinity,
    ContainerRestartRule,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    Object,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    build_cluster,
)

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
GI = 2**30
Check = Callable[[Any, Any, Pod], None]


def nodes_of(random: Random) -> list[Node]:
    return [
        node(f"n{at}", zone=random.choice(("z1", "z1", "z2", "")), labels={HOST: f"n{at}"})
        for at in range(random.randint(1, 5))
    ]


def checked(explanation: Explanation, world: World, asked: Pod, checks: Mapping[str, Check]) -> Counter[str]:
    """Check all facts of some kinds, and make all changes; return how many of each there are."""
    found = Counter[str]()
    for group in explanation.groups:
        for fact in group.evidence:
            check = checks.get(fact.kind)
            if check is not None:
                found[fact.kind] += 1
                check(fact, group, asked)
    for change in explanation.changes:
        found[change.kind] += 1
        assert len(world.after(change)) == change.feasible_nodes > 0, change
    return found


# ---- volumes -----------------------------------------------------------------------------------------------


class Storage:
    """Nodes with limits and capacities, pods with bound claims, and a pod with claims of all kinds."""

    def __init__(self, random: Random) -> None:
        self.nodes = nodes_of(random)
        self.limits = {
            one.name: {driver: random.randint(1, 3) for driver in ("d0", "d1") if random.random() < 0.7}
            for one in self.nodes
        }
        self.capacities = [self.capacity(at, random) for at in range(random.randint(0, 4))]
        self.bound = {f"b{at}": random.choice(("d0", "d1")) for at in range(random.randint(0, 5))}
        self.zones = {name: random.choice(("", "", "z1", "z2")) for name in self.bound}
        self.unbound = {
            f"u{at}": (random.choice(("c0", "c1")), random.randint(1, 9))
            for at in range(random.randint(0, 2))
        }
        self.users = [
            self.using(f"p{at}", random.sample(sorted(self.bound), min(len(self.bound), 2)), one.name)
            for at, one in enumerate(random.choices(self.nodes, k=random.randint(0, 4)))
        ]
        claims = [
            *random.sample(sorted(self.bound), min(len(self.bound), random.randint(0, 2))),
            *self.unbound,
        ]
        self.asked = self.using("new", claims)
        self.world = World(self.nodes, self.users, list(self.objects()))
        # The filter compares each claim alone with a capacity that several may not have together.
        self.is_alone = [of for of, _ in self.unbound.values()].count("c0") < 2
        self.world.runs = self.is_alone

    def capacity(self, at: int, random: Random) -> dict[str, Any]:
        labels = {ZONE: random.choice(("z1", "z2"))} if random.random() < 0.5 else {HOST: f"n{at}"}
        found = {"nodeTopology": {"matchLabels": labels}, "capacity": f"{random.randint(1, 9)}Gi"}
        if random.random() < 0.3:
            found["maximumVolumeSize"] = f"{random.randint(1, int(str(found['capacity'])[0]))}Gi"
        return found

    def using(self, name: str, claims: list[str], on: str = "") -> Pod:
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        spec = {"containers": [{"name": "c"}], "volumes": volumes} | ({"nodeName": on} if on else {})
        made = make("Pod", name, spec, metadata={"namespace": "default", "uid": name})
        assert isinstance(made, Pod)
        return made

    def objects(self) -> Iterator[Object]:
        yield make("CSIDriver", "d0", {"storageCapacity": True})
        for at in "01":
            yield make(
                "StorageClass", f"c{at}", provisioner=f"d{at}", volumeBindingMode="WaitForFirstConsumer"
            )
        for name, limits in self.limits.items():
            listed = [{"name": one, "nodeID": name, "allocatable": {"count": n}} for one, n in limits.items()]
            yield make("CSINode", name, {"drivers": listed})
        for at, capacity in enumerate(self.capacities):
            meta = {"namespace": "kube-system"}
            yield make("CSIStorageCapacity", f"cap{at}", metadata=meta, storageClassName="c0", **capacity)
        for name, driver in self.bound.items():
            yield self.volume(name, driver)
            yield self.claim(name, f"c{driver[1]}", 1, volumeName=f"v-{name}")
        for name, (of, size) in self.unbound.items():
            yield self.claim(name, of, size)

    def volume(self, name: str, driver: str) -> Object:
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [self.zones[name]]}]}]
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "csi": {"driver": driver, "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": name, "uid": name},
        }
        if self.zones[name]:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        return make("PersistentVolume", f"v-{name}", spec, status={"phase": "Bound"})

    def claim(self, name: str, of: str, size: int, **more: Any) -> Object:
        meta = {"namespace": "default", "uid": name}
        if more:
            meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        spec = {"storageClassName": of, "resources": {"requests": {"storage": f"{size}Gi"}}}
        spec |= {"accessModes": ["ReadWriteMany"]} | more
        status = {"phase": "Bound" if more else "Pending"}
        return make("PersistentVolumeClaim", name, spec, metadata=meta, status=status)

    def claims_of(self, one: Pod) -> list[str]:
        return [volume.name for volume in one.spec.volumes]

    # ---- checks

    def check_limit(self, fact: Fact, group: Any, asked: Pod) -> None:
        told = fact.values
        used = {
            claim: [user.key for user in self.users if claim in self.claims_of(user)]
            for user in self.users
            if user.spec.node_name == told["node"]
            for claim in self.claims_of(user)
            if self.bound[claim] == fact.name
        }
        here = {user.key for user in self.users if user.spec.node_name == told["node"]}
        wanted = [
            one for one in self.claims_of(asked) if self.driver_of(one) == fact.name and one not in used
        ]
        assert told["node"] in group.nodes
        assert told["limit"] == self.limits[told["node"]][fact.name] < len(used) + len(wanted)
        assert (told["inUse"], told["wanted"]) == (len(used), len(wanted))
        assert set(told["pods"]) == {key for users in used.values() for key in users} & here

    def driver_of(self, claim: str) -> str:
        return self.bound[claim] if claim in self.bound else f"d{self.unbound[claim][0][1]}"

    def check_claim(self, fact: Fact, group: Any, asked: Pod) -> None:
        name = fact.name.removeprefix("default/")
        nodes = [one for one in self.nodes if one.name in group.nodes]
        if name in self.bound:
            assert fact.values["volume"] == f"v-{name}"
            assert fact.nodes == sum(one.metadata.labels.get(ZONE) != self.zones[name] for one in nodes)
            return
        told = fact.values
        assert told["requested"] == f"{self.unbound[name][1]}Gi"
        assert self.unbound[name][0] == told["storageClass"] == "c0"
        size = int(told["largest"].removesuffix("Gi")) * GI if "largest" in told else None
        by_node = [self.largest(one) for one in nodes]
        assert fact.nodes == by_node.count((size, told.get("capacity")))
        assert size is None or size < self.unbound[name][1] * GI

    def largest(self, one: Node) -> tuple[int | None, str | None]:
        """The largest volume that a node may have, and by which object."""
        sizes: list[tuple[int | None, str | None]] = [
            (
                int(str(each.get("maximumVolumeSize", each["capacity"])).removesuffix("Gi")) * GI,
                f"kube-system/cap{at}",
            )
            for at, each in enumerate(self.capacities)
            if each["nodeTopology"]["matchLabels"].items() <= one.metadata.labels.items()
        ]
        return max(sizes, default=(None, None), key=lambda size: (size[0] or 0, size[1] or ""))


def storage_case(seed: int) -> Counter[str]:
    storage = Storage(Random(seed))
    explanation = storage.world.scheduler().ask.explain(storage.asked)
    checks = {"volume-limit": storage.check_limit, "claim": storage.check_claim}
    found = checked(explanation, storage.world, storage.asked, checks)
    for change in explanation.changes:
        if change.kind == "smaller-claim" and storage.is_alone:
            sizes = (int(size.removesuffix("Gi")) for size in (change.values["to"], change.values["from"]))
            for size in range(next(sizes) + 1, next(sizes)):
                assert storage.world.after(replaced(change, values=change.values | {"to": f"{size}Gi"})) == []
    return found


# ---- other pods --------------------------------------------------------------------------------------------

SPACES = {"default": "x", "a": "x", "b": "y"}
"""By namespace, its label ``team``."""


def random_term(random: Random) -> PodAffinityTerm:
    wanted = random.choice(({"app": "x"}, {"app": "x", "v": "1"}, {"v": "2"}))
    expressions = (
        LabelSelectorRequirement("v", "Exists"),
        LabelSelectorRequirement("app", "NotIn", ("y",)),
        LabelSelectorRequirement("app", "In", ("x", "z")),
    )
    where: dict[str, Any] = random.choice(
        ({}, {"namespaces": ("a", "b")}, {"namespace_selector": LabelSelector(match_labels={"team": "y"})})
    )
    keys = ("v",) if "v" not in wanted and random.random() < 0.3 else ()
    extra = () if keys else tuple(random.sample(expressions, random.choice((0, 0, 1))))
    selector = LabelSelector(match_labels=wanted, match_expressions=extra)
    topology = random.choice((HOST, ZONE, ZONE))
    return PodAffinityTerm(label_selector=selector, topology_key=topology, match_label_keys=keys, **where)


def random_affinity(random: Random, both: bool) -> Affinity:
    sides = random.choice((("pod_affinity",), ("pod_anti_affinity",), ("pod_affinity", "pod_anti_affinity")))
    return Affinity(
        **{
            side: PodAffinity(required=tuple(random_term(random) for _ in range(random.choice((1, 1, 2)))))
            for side in (sides if both else ("pod_anti_affinity",))
        }
    )


class Neighbours:
    """Pods of several namespaces, and a pod with terms about them."""

    def __init__(self, random: Random) -> None:
        self.nodes = nodes_of(random)
        self.pods = [self.random_pod(f"b{at}", random, on=True) for at in range(random.randint(0, 8))]
        one = self.random_pod("new", random)
        one = replace(one, spec=replace(one.spec, affinity=random_affinity(random, both=True)))
        spaces = [make("Namespace", name, metadata={"labels": {"team": of}}) for name, of in SPACES.items()]
        self.world = World(self.nodes, self.pods, spaces)
        (self.asked,) = [each for each in build_cluster([one, *spaces]).pods if each.name == "new"]
        (self.pods, self.by_name) = self.read(spaces)

    def read(self, spaces: list[Object]) -> tuple[list[Pod], dict[str, Node]]:
        """The pods as they are read, with the keys of labels in their selectors."""
        listed = build_cluster([*self.nodes, *self.pods, *spaces])
        return listed.pods, {one.name: one for one in listed.nodes}

    def random_pod(self, name: str, random: Random, on: bool = False) -> Pod:
        labels = {key: random.choice("xy") for key in ("app", "name") if random.random() < 0.8}
        labels |= {"v": random.choice("12")} if random.random() < 0.7 else {}
        one = pod(name, on=random.choice(self.nodes).name if on else "", labels=labels)
        affinity = random_affinity(random, both=False) if on and random.random() < 0.2 else None
        meta = replace(one.metadata, namespace=random.choice(sorted(SPACES)) if on else "default")
        return replace(one, metadata=meta, spec=replace(one.spec, affinity=affinity))

    def domain(self, one: Pod, key: str) -> str | None:
        return self.by_name[one.spec.node_name].metadata.labels.get(key)

    def means(self, term: PodAffinityTerm, owner: Pod, one: Pod) -> bool:
        """Whether a term means the namespace of a pod."""
        if term.namespace_selector is None:
            return one.namespace in (term.namespaces or (owner.namespace,))
        wanted = term.namespace_selector.match_labels.get("team", "")
        return SPACES[one.namespace] == wanted or one.namespace in term.namespaces

    def check_repelling(self, fact: Fact, group: Any, asked: Pod) -> None:
        (other,) = [one for one in self.pods if one.key == fact.name]
        owner, one = (other, asked) if fact.values["theirs"] else (asked, other)
        terms = owner.spec.affinity.pod_anti_affinity.required  # type: ignore[union-attr]
        assert any(
            term.topology_key == fact.values["topologyKey"]
            and self.means(term, owner, one)
            and not lacking([term], one.metadata.labels)
            for term in terms
        )
        domain = self.domain(other, fact.values["topologyKey"])
        there = [self.by_name[name].metadata.labels.get(fact.values["topologyKey"]) for name in group.nodes]
        assert (domain is not None, fact.nodes) == (True, there.count(domain))

    def check_missing(self, fact: Fact, group: Any, asked: Pod) -> None:
        terms = asked.spec.affinity.pod_affinity.required  # type: ignore[union-attr]
        there = [self.by_name[name].metadata.labels.get(fact.values["topologyKey"]) for name in group.nodes]
        value = fact.values.get("value")
        assert fact.nodes == there.count(value)
        if value is None:
            assert fact.values["near"] == []
            return
        matching = [
            one
            for one in self.pods
            if all(self.means(term, asked, one) for term in terms) and not lacking(terms, one.metadata.labels)
            if {term.topology_key for term in terms}
            <= self.by_name[one.spec.node_name].metadata.labels.keys()
        ]
        assert value not in [self.domain(one, fact.values["topologyKey"]) for one in matching]
        near = {
            text for one in self.pods for text in self.near(one, terms, fact.values["topologyKey"], value)
        }
        assert set(fact.values["near"]) <= near
        assert len(fact.values["near"]) == min(len(near), 3)

    def near(self, one: Pod, terms: tuple[PodAffinityTerm, ...], key: str, value: str) -> Iterator[str]:
        """What a pod lacks to match in a domain, if it is one thing."""
        domain, labels = self.domain(one, key), one.metadata.labels
        node_labels = self.by_name[one.spec.node_name].metadata.labels
        is_meant = all(self.means(term, self.asked, one) for term in terms)
        has_keys = all(term.topology_key in node_labels for term in terms)
        missing = lacking(terms, labels)
        if not missing and domain is None:
            yield f"pod {one.key} matches, but its node {one.spec.node_name} lacks label {key}"
        elif not missing and domain == value and not (is_meant and has_keys):
            yield f"pod {one.key} is there, but namespace {one.namespace} is not meant"
        elif len(missing) == 1 and domain == value and is_meant and has_keys:
            (key_, _, values) = next(iter(missing))
            met = requirements(terms) - missing
            if any(operator in ("In", "Exists") for _, operator, _ in met) or set(values) & {
                *labels.values()
            }:
                gap = f"its label {key_} is {labels[key_]}" if key_ in labels else f"it has no label {key_}"
                yield f"pod {one.key} is there, but {gap}"


Requirement = tuple[str, str, tuple[str, ...]]


def requirements(terms: Iterable[PodAffinityTerm]) -> set[Requirement]:
    selectors = [term.label_selector or LabelSelector() for term in terms]
    found = {(key, "In", (value,)) for one in selectors for key, value in one.match_labels.items()}
    return found | {(it.key, it.operator, it.values) for one in selectors for it in one.match_expressions}


def lacking(terms: Iterable[PodAffinityTerm], labels: Mapping[str, str]) -> set[Requirement]:
    """The requirements that labels do not meet."""
    met: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
        "Exists": lambda value, values: value is not None,
    }
    return {one for one in requirements(terms) if not met[one[1]](labels.get(one[0]), one[2])}


def neighbour_case(seed: int) -> Counter[str]:
    world = Neighbours(Random(seed))
    checks = {"pod": world.check_repelling, "missing-pod": world.check_missing}
    explanation = world.world.scheduler().ask.explain(world.asked)
    found = checked(explanation, world.world, world.asked, checks)
    facts = [fact for group in explanation.groups for fact in group.evidence]
    found["near"] = sum(len(fact.facts()["near"]) for fact in facts if fact.kind == "missing-pod")
    found["gap"] = sum("its label" in fact.text for fact in facts if fact.kind == "missing-pod")
    return found


# ---- features ----------------------------------------------------------------------------------------------

RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def feature_case(seed: int) -> Counter[str]:
    random = Random(seed)
    nodes = [
        declaring(one, *random.sample((RESTART, USERS), random.randint(0, 2))) for one in nodes_of(random)
    ]
    rules = (ContainerRestartRule(action="RestartAllContainers"),)
    needed = random.sample((RESTART, USERS), random.randint(1, 2))
    spec: dict[str, Any] = {"host_network": True, "host_users": False} if USERS in needed else {}
    containers = (container(restart_policy_rules=rules if RESTART in needed else ()),)
    asked = pod("new", containers=containers, **spec)

    def check(fact: Fact, group: Any, asked: Pod) -> None:
        declared = [one.status.declared_features for one in nodes if one.name in group.nodes]
        assert fact.name in needed
        assert fact.nodes == sum(fact.name not in one for one in declared)

    world = World(nodes)
    explanation = world.scheduler().ask.explain(asked)
    able = [one.name for one in nodes if {*needed} <= {*one.status.declared_features}]
    assert sorted(explanation.feasible) == able
    return checked(explanation, world, asked, {"feature": check})


# ---- tests -------------------------------------------------------------------------------------------------


def many(clusters: int) -> settings:
    """Sixty times as many clusters in nightly runs."""
    return settings(max_examples=60 * clusters if NIGHTLY else SHARE * clusters)


@many(20)
@given(st.integers(0, 2**32))
def test_what_is_said_of_volumes(seed: int) -> None:
    storage_case(seed)


@many(20)
@given(st.integers(0, 2**32))
def test_what_is_said_of_other_pods(seed: int) -> None:
    neighbour_case(seed)


@many(10)
@given(st.integers(0, 2**32))
def test_what_is_said_of_features(seed: int) -> None:
    feature_case(seed)


@pytest.mark.nightly  # of the tests above
def test_the_clusters_are_worth_explaining() -> None:
    found = sum((storage_case(seed) + neighbour_case(seed) for seed in range(300)), Counter[str]())
    for kind in ("volume-limit", "claim", "pod", "missing-pod"):
        assert found[kind] >= 50, kind
    for kind in ("smaller-claim", "add-node", "add-label", "drop", "near", "gap"):
        assert found[kind] >= 5, kind
