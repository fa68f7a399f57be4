"""Random small clusters with a pod that often fits nowhere, and trying a change out on a fresh scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from msgspec.structs import replace
from tests.doors.answers import document as document_of
from tests.doors.cluster import effective_request
from tests.doors.engine import PodGates
from tests.make import ZONE, container, node, pod, port

from moorage import Explanation, Scheduler
from moorage.answers.explain import HelpfulChange
from moorage.kube import (
    Affinity,
    Cluster,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Object,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    build_cluster,
)

GPU = "nvidia.com/gpu"
TAINTS = (
    Taint(key="dedicated", value="a", effect="NoSchedule"),
    Taint(key="dedicated", value="b", effect="NoExecute"),
    Taint(key="spot", effect="NoSchedule"),
    Taint(key="soft", effect="PreferNoSchedule"),
)


class World:
    """Nodes, the pods on them, and other objects; `fits` asks a fresh scheduler, and, if `runs`, places."""

    runs = True

    def __init__(
        self, nodes: Sequence[Node], bound: Sequence[Pod] = (), others: Sequence[Object] = ()
    ) -> None:
        self.nodes = list(nodes)
        self.bound = list(bound)
        self.others = list(others)

    def scheduler(self, *pending: Pod, nodes: Sequence[Node] | None = None, **settings: Any) -> Scheduler:
        nodes = self.nodes if nodes is None else nodes
        pods, others = [*self.bound, *pending], self.others
        cluster = build_cluster([*nodes, *pods, *others]) if others else Cluster(nodes=list(nodes), pods=pods)
        return Scheduler(cluster, **settings)

    def fits(self, pending: Pod, nodes: Sequence[Node] | None = None) -> list[str]:
        """Nodes that the pod fits; a run places it if there is one."""
        feasible = self.scheduler(nodes=nodes).examine(pending).feasible
        if self.runs and not pending.spec.node_name:
            placed = self.scheduler(pending, nodes=nodes).run().placements
            assert bool(feasible) == (pending.key in placed)
        return feasible

    def with_node(self, changed: Node) -> list[Node]:
        """The nodes with one that replaces its namesake, or is new."""
        names = [each.name for each in self.nodes]
        if changed.name in names:
            return [changed if each.name == changed.name else each for each in self.nodes]
        return [*self.nodes, changed]

    def after(self, change: HelpfulChange) -> list[str]:
        """Nodes that the pod fits after a change."""
        assert change.pod is not None
        if change.kind == "add-node" and change.values.get("label"):
            one = self.scheduler()
            one.change.add_nodes(1, like=change.values["like"], labels=change.values["label"])
            return one.examine(change.pod).feasible
        if (edit := change.edits[0]).about is Node:
            old = next((node for node in self.nodes if node.name == edit.key), None)
            return self.fits(change.pod, self.with_node(edit.change(old)))
        if change.kind == "smaller-claim":
            smaller = World(
                self.nodes, self.bound, self._with_size(change.values["claim"], change.values["to"])
            )
            smaller.runs = self.runs
            return smaller.fits(change.pod)
        return self.fits(change.pod)

    def _with_size(self, claim: str, size: str) -> list[Object]:
        return [
            replace(one, spec=replace(one.spec, resources=ResourceRequirements(requests={"storage": size})))
            if isinstance(one, PersistentVolumeClaim) and one.key == claim
            else one
            for one in self.others
        ]


def random_world(random: Random) -> World:
    nodes = []
    for at in range(random.randint(1, 6)):
        labels = {key: random.choice("xy") for key in ("disk", "rack") if random.random() < 0.6}
        if random.random() < 0.9:
            labels["kubernetes.io/hostname"] = f"n{at}"
        if random.random() < 0.3:
            labels["gen"] = random.choice("357")
        amounts: dict[str, Any] = {
            "cpu": str(random.choice((2, 4, 8))),
            "memory": f"{random.choice((4, 8, 16))}Gi",
            "pods": str(random.choice((2, 10, 10))),
        }
        if random.random() < 0.4:
            amounts[GPU] = "2"
        nodes.append(
            node(
                f"n{at}",
                zone=random.choice(("", "z1", "z2")),
                labels=labels,
                taints=random.sample(TAINTS, random.choice((0, 0, 1, 2))),
                unschedulable=random.random() < 0.15,
                **amounts,
            )
        )
    bound = [
        pod(
            f"b{at}",
            on=random.choice(nodes).name,
            requests={"cpu": f"{random.randrange(100, 2000)}m", "memory": f"{random.randint(1, 3000)}Mi"},
            ports=[port(80)] if random.random() < 0.4 else (),
            labels={"app": random.choice(("web", "db"))},
            affinity=Affinity(pod_anti_affinity=pod_terms(random)) if random.random() < 0.1 else None,
        )
        for at in range(random.randint(0, 8))
    ]
    return World(nodes, bound)


def random_pod(random: Random) -> Pod:
    spec: dict[str, Any] = {}
    if random.random() < 0.3:
        spec["node_selector"] = {random.choice(("disk", "rack", "none")): random.choice("xy")}
    if random.random() < 0.3:
        spec["affinity"] = random_affinity(random)
    if random.random() < 0.3:
        spec["tolerations"] = (Toleration(key="dedicated", operator="Exists"),)
    if random.random() < 0.05:
        spec["node_name"] = random.choice(("n0", "gone"))
    if random.random() < 0.2:
        spec["overhead"] = {"cpu": "100m", "memory": "10Mi"}
    if random.random() < 0.3:
        spec["init_containers"] = tuple(
            container(f"i{at}", random_requests(random), restart_policy=random.choice((None, "Always")))
            for at in range(random.randint(1, 2))
        )
    spec["containers"] = tuple(
        container(f"c{at}", random_requests(random), ports=(port(80),) if random.random() < 0.2 else ())
        for at in range(random.randint(1, 2))
    )
    if random.random() < 0.2:
        spreads = [random_spread(random) for _ in range(random.choice((1, 2)))]
        by_action = {(each.topology_key, each.when_unsatisfiable): each for each in spreads}
        spec["topology_spread_constraints"] = tuple(by_action.values())  # the API server refuses others
    if random.random() < 0.2:
        side = random.choice(("pod_affinity", "pod_anti_affinity"))
        spec["affinity"] = replace(spec.get("affinity") or Affinity(), **{side: pod_terms(random)})
    made = pod("p", labels={"app": "web"}, **spec)
    if random.random() < 0.15:  # not below what the containers add up to, which an API server refuses
        least = effective_request(made, "cpu", PodGates())
        own = ResourceRequirements(requests={"cpu": f"{least + random.randint(0, 900)}m"})
        made = replace(made, spec=replace(made.spec, resources=own))
    return made


def random_requests(random: Random) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if random.random() < 0.8:
        wanted["cpu"] = f"{random.randrange(100, random.choice((1000, 1000, 9000)))}m"
    if random.random() < 0.8:
        wanted["memory"] = f"{random.randint(1, random.choice((2000, 2000, 20000)))}Mi"
    if random.random() < 0.2:
        wanted[GPU] = str(random.randint(1, 3))
    return wanted


def random_affinity(random: Random) -> Affinity:
    def requirement() -> NodeSelectorRequirement:
        key = random.choice(("disk", "rack", "gen", ZONE))
        operator = random.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        values = {
            "In": (random.choice(("x", "y", "z1", "w")),),
            "NotIn": ("x", "z1"),
            "Gt": (random.choice(("4", "x")),),  # the latter is malformed: its term is passed over
            "Lt": ("4",),
        }
        return NodeSelectorRequirement(key=key, operator=operator, values=values.get(operator, ()))

    def names() -> tuple[NodeSelectorRequirement, ...]:
        if random.random() < 0.8:
            return ()
        chosen = random.choice((("n0",), ("n0", "n1"), ("gone",)))
        return (NodeSelectorRequirement(key="metadata.name", operator="In", values=chosen),)

    terms = tuple(
        NodeSelectorTerm(
            match_expressions=tuple(requirement() for _ in range(random.choice((0, 1, 1, 2)))),
            match_fields=names(),
        )
        for _ in range(random.choice((1, 1, 2)))
    )
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=terms)))


def pod_terms(random: Random) -> PodAffinity:
    return PodAffinity(required=(PodAffinityTerm(label_selector=app(random), topology_key=topology(random)),))


def random_spread(random: Random) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=1,
        topology_key=topology(random),
        when_unsatisfiable=random.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        label_selector=app(random),
        min_domains=random.choice((None, None, 3)),
        node_affinity_policy=random.choice((None, "Ignore")),
        node_taints_policy=random.choice((None, "Honor")),
    )


def app(random: Random) -> LabelSelector:
    return LabelSelector(match_labels={"app": random.choice(("web", "db"))})


def topology(random: Random) -> str:
    return random.choice((ZONE, "kubernetes.io/hostname", "rack"))


def renamed(original: Node, name: str, labels: dict[str, str]) -> Node:
    """A copy of a node under another name, as new as can be."""
    if "kubernetes.io/hostname" in labels:
        labels = labels | {"kubernetes.io/hostname": name}
    metadata = ObjectMeta(name=name, uid=name, labels=labels)
    return replace(original, metadata=metadata, spec=replace(original.spec, unschedulable=False))


def document(explanation: Explanation, limit: int | None = 10, **options: Any) -> dict[str, Any]:
    """The document of an explanation as a JSON value."""
    return document_of(explanation, limit, **options).to_dict()
