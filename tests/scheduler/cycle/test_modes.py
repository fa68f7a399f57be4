"""One by one or in batches, with candidates or without, on one thread or several: the decisions are the
same, on made-up clusters whose nodes and pods come, change and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conformance.modes import Mode, every_mode
from tests.core.made_up import Manifest, make_node, make_pod, make_spec
from tests.core.make import pinned
from tests.doors.engine import schedule_one
from tests.make import ZONE, container, in_tree, node, pod, port

from moorage import Scheduler, default_profile
from moorage.engine.scheduler import Profile
from moorage.kube import (
    Affinity,
    Cluster,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
    decode_object,
)

HOSTNAME = "kubernetes.io/hostname"
Outcome = list[tuple[str | None, int | None, int | None]]


def named_node(random: Random, index: int, plain: bool) -> Manifest:
    node = make_node(random, index)
    node["metadata"]["labels"][HOSTNAME] = node["metadata"]["name"]
    if plain:  # no taint that costs score
        node["spec"]["taints"] = [one for one in node["spec"]["taints"] if one["effect"] == "NoSchedule"]
    return node


def selector(random: Random) -> Manifest:
    return {"matchLabels": {"app": random.choice("ab")}}


def term(random: Random) -> Manifest:
    return {"topologyKey": random.choice([HOSTNAME, ZONE, ZONE, "kind"]), "labelSelector": selector(random)}


def make_template(random: Random, nodes: int, plain: bool) -> Manifest:
    """The spec and the labels of equal pods."""
    spec = make_spec(random, nodes)
    if not plain and random.random() < 0.3:
        spec["topologySpreadConstraints"] = [
            term(random)
            | {
                "maxSkew": random.choice([1, 2, 5]),
                "whenUnsatisfiable": random.choice(["DoNotSchedule", "ScheduleAnyway"]),
            }
            for _ in range(random.choice([1, 1, 2]))
        ]
    if not plain and random.random() < 0.3:
        kind = random.choice(["podAffinity", "podAntiAffinity"])
        terms = {
            "requiredDuringSchedulingIgnoredDuringExecution": [term(random)],
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": random.choice([1, 50]), "podAffinityTerm": term(random)}
            ],
        }
        when = random.choice(list(terms))
        spec["affinity"] = spec.get("affinity", {}) | {kind: {when: terms[when]}}
    return {"spec": spec, "labels": {"app": random.choice("abc")}}


class World:
    """A cluster under one scheduler per mode, all told the same."""

    def __init__(self, seed: int, nodes: int, spread: bool, **setting: Any) -> None:
        self.random = Random(seed)
        self.plain = self.random.random() < 0.3  # scores depend on a node alone
        self.nodes = {f"n{at:03}": named_node(self.random, at, self.plain) for at in range(nodes)}
        self.templates = [make_template(self.random, nodes, self.plain) for _ in range(4)]
        self.made = nodes
        bound = [
            self.pod(self.random.choice(list(self.nodes))) for _ in range(self.random.randrange(nodes + 1))
        ]
        self.bound = [pod["metadata"]["name"] for pod in bound]
        manifests = [*self.nodes.values(), *bound]
        self.modes = every_mode()
        self.schedulers = []
        for mode in self.modes:
            objects = [decode_object(one) for one in manifests]
            cluster = Cluster(nodes=objects[:nodes], pods=objects[nodes:])
            self.schedulers.append(
                # No controller deletes the pods of lost nodes: decisions after them are compared, too.
                Scheduler(cluster, profile=profile(spread), seed=seed, controllers=False, **setting)
            )
            mode.set_up(self.schedulers[-1])

    def pod(self, node: str = "", template: Manifest | None = None) -> Manifest:
        self.made += 1
        template = template or self.random.choice(self.templates)
        made = make_pod(f"p{self.made:04}", template["spec"] | ({"nodeName": node} if node else {}))
        made["metadata"]["labels"] = template["labels"]
        return made

    def pods(self) -> list[Manifest]:
        """Runs of equal pods, some of them short."""
        runs = [(self.random.choice(self.templates), self.random.choice([1, 1, 2, 12])) for _ in range(4)]
        return [self.pod(template=template) for template, n in runs for _ in range(n)]

    def outcomes(self, pods: list[Manifest]) -> Iterator[Outcome]:
        """What each mode decides about pods that come now."""
        for mode, scheduler in zip(self.modes, self.schedulers, strict=True):
            decoded = [decode_object(pod) for pod in pods]
            yield in_batch(scheduler, decoded) if mode.batch else one_by_one(scheduler, decoded)

    def change(self, placed: list[str]) -> None:
        """A node comes, goes or changes, or a pod goes."""
        kind = self.random.choice(["add", "remove", "change", "change", "delete", "forget", "none"])
        name = self.random.choice(list(self.nodes))
        if kind == "add":
            self.made += 1
            name = f"n{self.made:03}"
        if kind in ("add", "change"):
            manifest = named_node(self.random, int(name[1:]), self.plain)
            self.nodes[name] = manifest
            for scheduler in self.schedulers:
                node = decode_object(manifest)
                (scheduler.client.create if kind == "add" else scheduler.client.update)(node)
        elif kind == "remove" and len(self.nodes) > 1:
            del self.nodes[name]
            for scheduler in self.schedulers:
                scheduler.client.delete("Node", name)
        elif kind == "delete" and self.bound:
            gone = self.bound.pop(self.random.randrange(len(self.bound)))
            for scheduler in self.schedulers:
                scheduler.client.delete("Pod", gone, "default")
        elif kind == "forget" and placed:
            uid = self.random.choice(placed)
            for scheduler in self.schedulers:
                known = next(pod for pod in scheduler.cache.state.pods() if pod.metadata.uid == uid)
                scheduler.cache.forget_pod(known)
        for scheduler in self.schedulers:
            scheduler.sync()

    def taken(self) -> Counter[str]:
        """Which ways were taken, over all modes."""
        out: Counter[str] = Counter()
        for mode, scheduler in zip(self.modes, self.schedulers, strict=True):
            mode.count(scheduler)
            out.update(mode.taken)
        return out


def profile(spread: bool) -> Profile:
    """The default profile, which signs no pod, or one without default constraints, which does."""
    if spread:
        return default_profile()
    plugins = [one for one in default_profile().plugins if one.name != "PodTopologySpread"]
    return Profile((*plugins, in_tree("PodTopologySpread")({"defaultingType": "List"})))


def one_by_one(scheduler: Scheduler, pods: list[Pod]) -> Outcome:
    decisions = [schedule_one(scheduler.context, pod) for pod in pods]
    return [(d.node, d.start, d.next) for d in decisions]


def in_batch(scheduler: Scheduler, pods: list[Pod]) -> Outcome:
    """In calls of 1, 2, 3… pods: where each search began is known of the first and last of each."""
    out: Outcome = []
    while len(out) < len(pods):
        start = scheduler.placer.decider.start
        some = scheduler.schedule_pods(pods[len(out) : 2 * len(out) + 1])
        last = scheduler.placer.decider.start
        between = [None] * (len(some.nodes) - 1)
        out += list(zip(some.nodes, [start, *between], [*between, last], strict=True))
    return out


def decide_and_change(seed: int, nodes: int, spread: bool, **setting: Any) -> Counter[str]:
    """Pods, a change, pods…: the modes must agree. The ways that they took."""
    world = World(seed, nodes, spread, **setting)
    for _ in range(4):
        pods = world.pods()
        expected, *others = world.outcomes(pods)
        for mode, outcome in zip(world.modes[1:], others, strict=True):
            for (name, start, after), (its_name, its_start, its_after) in zip(outcome, expected, strict=True):
                assert name == its_name, mode
                assert start in (None, its_start), mode
                assert after in (None, its_after), mode
        uids = [pod["metadata"]["uid"] for pod in pods]
        world.change([uid for uid, (node, _, _) in zip(uids, expected, strict=True) if node is not None])
    return world.taken()


# Pods without terms on a node that has just come, for counters that nobody has read since.
@example(418, 2, True, 0, "first")
@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**64),
    st.sampled_from([2, 3, 10, 30, 101, 130]),
    st.booleans(),
    st.sampled_from([0, 10, 100]),
    st.sampled_from(["first", "go-heap", "random"]),
)
def test_all_modes_decide_alike(seed: int, nodes: int, spread: bool, percentage: int, tie_break: str) -> None:
    decide_and_change(seed, nodes, spread, percentage_of_nodes_to_score=percentage, tie_break=tie_break)


@pytest.mark.nightly  # of the test above
def test_the_made_up_clusters_take_every_way() -> None:
    taken: Counter[str] = Counter()
    for seed in range(6):
        taken.update(decide_and_change(seed, 30, True, tie_break="go-heap"))
    assert taken["candidates"] > 50
    assert taken["scans"] > 50


# ---- found by the test above


NODES = [node(f"n{at}", zone=f"z{at % 3}") for at in range(6)]


def placed(pods: list[Pod], how: Mode) -> Outcome:
    scheduler = Scheduler(Cluster(nodes=NODES))
    how.set_up(scheduler)
    return in_batch(scheduler, pods) if how.batch else one_by_one(scheduler, pods)


def test_a_run_of_pods_that_prefer_each_other_before_any_is_there() -> None:
    """Their terms count nothing when totals are made, and the first of them when the second is decided."""
    near = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "b"}), topology_key=ZONE)
    preferred = (WeightedPodAffinityTerm(weight=50, pod_affinity_term=near),)
    spec = {"labels": {"app": "b"}, "affinity": Affinity(pod_affinity=PodAffinity(preferred=preferred))}
    outcomes = [placed([pod(f"p{at}", **spec) for at in range(8)], how) for how in every_mode()]
    nodes = [[node for node, *_ in outcome] for outcome in outcomes]
    assert nodes == [nodes[0]] * len(nodes)


def test_the_last_node_of_a_run_with_host_ports_shows_its_images_as_the_next_cycle_finds_them() -> None:
    image = ("example.com/large:1",), 900 * 2**20
    one = Scheduler(Cluster(nodes=[node("a", images=[image]), node("b", cpu=1)]))
    one.schedule_pods([pod("p", requests={"cpu": 2}, ports=[port(80)])])
    one.client.update(node("b", cpu=1, images=[image]))
    one.sync()
    asking = pod("q", containers=(container(image=image[0][0]),))
    assert one.examine(asking).raw["ImageLocality"].tolist() == [89, 89]


def test_a_search_among_no_nodes_brings_the_start_into_the_list() -> None:
    """kube-scheduler v1.36 takes it modulo the number of nodes after every search (findNodesThatFitPod)."""
    one = Scheduler(Cluster(nodes=NODES))
    one.placer.decider.start = 7
    decision = schedule_one(one.context, pod("p", affinity=pinned("gone")))
    assert (decision.start, decision.next) == (7, 1)
