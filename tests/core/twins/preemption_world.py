"""Small clusters in which pods of several priorities stand in each other's way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import declaring, pinned
from tests.doors.engine import ClusterState, Placer, TieBreak
from tests.make import node as make_node
from tests.make import pod as make_pod
from tests.make import port

from moorage import default_profile
from moorage.kube import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSchedulingGroup,
    PodStatus,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    UnitKey,
    group_of,
)

HOSTNAME = "kubernetes.io/hostname"
USERS_IN_HOST_NETWORK = "UserNamespacesHostNetworkSupport"

NAMES = ("n0", "n1", "n2", "n3")
NAMESPACES = ("default", "default", "other")
LABELS_OF_NAMESPACES = {"default": {"team": "x"}, "other": {}}
GPU = "example.com/gpu"
TAINT = Taint(key="a", value="", effect="NoSchedule")

selectors = st.one_of(
    st.none(),
    st.just(LabelSelector()),
    st.builds(LabelSelector, match_labels=st.fixed_dictionaries({"app": st.sampled_from("ab")})),
    st.just(LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Exists"),))),
    st.just(LabelSelector(match_expressions=(LabelSelectorRequirement("app", "NotIn", ("a",)),))),
)
labels = st.one_of(st.just(dict[str, str]()), st.fixed_dictionaries({"app": st.sampled_from("aab")}))
nodes = st.builds(
    lambda more, host, taints, features, **rest: (more, host, taints, features, rest),
    st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["", "x", "y"])),
    st.booleans(),
    st.sampled_from([()] * 7 + [(TAINT,)]),
    st.sampled_from([(), (USERS_IN_HOST_NETWORK,), (USERS_IN_HOST_NETWORK, "Other")]),
    cpu=st.sampled_from(["2", "4"]),
    memory=st.sampled_from(["4", "8"]),
    pods=st.sampled_from(["1", "3", "9"]),
    unschedulable=st.sampled_from([False] * 9 + [True]),
    **{GPU: st.sampled_from(["0", "2", "4"])},
)
constraints = st.lists(
    st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 2),
        topology_key=st.sampled_from([HOSTNAME, "zone", "zone"]),
        when_unsatisfiable=st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        label_selector=selectors,
        min_domains=st.sampled_from([None, None, 2, 3]),
        node_affinity_policy=st.sampled_from([None, "Ignore"]),
        node_taints_policy=st.sampled_from([None, "Honor"]),
    ),
    max_size=2,
).map(tuple)
terms = st.builds(
    PodAffinityTerm,
    label_selector=selectors,
    namespaces=st.sampled_from([(), (), ("other",), ("default", "other")]),
    topology_key=st.sampled_from([HOSTNAME, "zone"]),
    namespace_selector=st.sampled_from(
        [None, None, LabelSelector(), LabelSelector(match_labels={"team": "x"})]
    ),
)
sides = st.one_of(
    st.none(), st.builds(PodAffinity, required=st.lists(terms, min_size=1, max_size=2).map(tuple))
)
starts = st.sampled_from([None, "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"])
ports = st.lists(
    st.builds(port, st.sampled_from([80, 81]), st.sampled_from(["", "10.0.0.1", "10.0.0.2"])), max_size=1
)


priorities_of_groups = st.sampled_from([-5, 0, 1, 3, 7])
group_names = st.sampled_from(["", "", "", "g", "g", "h", "i"])


@st.composite
def pods(draw: st.DrawFn, name: str, constrained: bool = False) -> Pod:
    """One pod; those that are there have few terms, or hardly anything would fit."""
    often = st.booleans() if constrained else st.sampled_from([True, True, True, False])
    plain = draw(often)
    node_affinity = draw(st.sampled_from([None] * 7 + [pinned("n1").node_affinity]))
    own = (None, None) if plain else (draw(sides), draw(sides))
    amounts = st.sampled_from(["0", "1", "1", "2", "3"])
    requests = draw(
        st.fixed_dictionaries({}, optional={"cpu": amounts, "memory": amounts, GPU: st.sampled_from("12")})
    )
    out = make_pod(
        name,
        requests=requests,
        ports=draw(ports) if draw(st.sampled_from([False, False, True])) else (),
        labels=draw(labels),
        topology_spread_constraints=() if plain else draw(constraints),
        affinity=Affinity(node_affinity, *own) if node_affinity or any(own) else None,
        tolerations=draw(st.sampled_from([(), (Toleration(key="a", operator="Exists"),)])),
        node_selector=draw(st.sampled_from([None] * 9 + [{"disk": "x"}])),
        priority=draw(st.sampled_from([None, 0, 0, -5, 3, 7])),
    )
    meta = replace(
        out.metadata,
        namespace=draw(st.sampled_from(NAMESPACES)),
        deletion_timestamp=draw(st.sampled_from([None, None, None, "2026-01-01T00:00:00Z"])),
    )
    if draw(st.sampled_from([False] * 9 + [True])):
        out = replace(out, spec=replace(out.spec, host_network=True, host_users=False))
    return replace(out, metadata=meta, status=PodStatus(start_time=draw(starts)))


@st.composite
def budgets(draw: st.DrawFn, number: int) -> PodDisruptionBudget:
    names = draw(st.lists(st.sampled_from(["p0", "p1", "p2"]), max_size=2))
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=f"b{number}", namespace=draw(st.sampled_from(NAMESPACES))),
        spec=PodDisruptionBudgetSpec(selector=draw(selectors)),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=draw(st.integers(0, 2)), disrupted_pods=dict.fromkeys(names, "")
        ),
    )


class Groups:
    """Groups of the namespace default, with pods in the order of their names: those that are evicted as a
    whole, and others."""

    ranks_members = True

    def __init__(
        self, whole: dict[str, int], pods: Sequence[Pod], single: dict[str, int] | None = None
    ) -> None:
        self.whole = {("default", name): priority for name, priority in whole.items()}
        self.single = {("default", name): priority for name, priority in (single or {}).items()}
        self.over(pods)

    def over(self, pods: Sequence[Pod]) -> Groups:
        """Replace the pods."""
        self.pods = sorted(pods, key=lambda pod: pod.name)
        return self

    @property
    def evicted_with(self) -> dict[UnitKey, UnitKey]:
        return {key: key for key in self.whole}

    def priorities(self) -> object:
        return self.single

    def priority_of(self, key: UnitKey) -> int | None:
        return self.single.get(key)

    def uids(self, key: UnitKey) -> list[str]:
        return [pod.metadata.uid for pod in self.pods if group_of(pod) == key]


@dataclass
class World:
    """A cluster as objects, and the core's."""

    nodes: dict[str, Node]
    pods: dict[str, list[Pod]]
    preemptor: Pod
    nominated: dict[str, list[Pod]] = field(default_factory=dict)
    budgets: list[PodDisruptionBudget] = field(default_factory=list)
    whole: dict[str, int] = field(default_factory=dict)
    stops: bool = False
    single: dict[str, int] = field(default_factory=dict)

    def groups(self) -> Groups:
        return Groups(self.whole, [pod for pods in self.pods.values() for pod in pods], self.single)

    def make(self) -> None:
        self.state = ClusterState()
        for name, said in LABELS_OF_NAMESPACES.items():
            self.state.namespaces.set(name, said)
        for node in self.nodes.values():
            self.state.set_node(node)
        for there in self.pods.values():
            for pod in there:
                self.state.add_pod(pod)
        self.profile = default_profile()
        self.placer = Placer(self.state, self.profile.compile(self.state), TieBreak.FIRST, 100)
        self.placer.search.nominate([(self.row(name), pods) for name, pods in self.before().items()])

    def before(self) -> dict[str, list[Pod]]:
        """The nominated pods that go before the one in question."""
        least = self.preemptor.spec.priority or 0
        found = {
            name: [pod for pod in pods if (pod.spec.priority or 0) >= least]
            for name, pods in self.nominated.items()
        }
        return {name: pods for name, pods in found.items() if pods}

    def row(self, name: str) -> int:
        row = self.state.table.find_row(name)
        assert row is not None
        return row

    def target(self) -> tuple[int, int, int]:
        pod_class = self.state.classes.intern(self.preemptor)
        return pod_class, 0, self.state.classes.pinned_symbol(pod_class, self.preemptor)


def of_group(pod: Pod, name: str) -> Pod:
    """The pod as one of a group; of none for ""."""
    group = PodSchedulingGroup(name) if name else None
    return replace(pod, spec=replace(pod.spec, scheduling_group=group))


def on(pod: Pod, name: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=name))


@st.composite
def worlds(draw: st.DrawFn, most: int = 10, plain: bool = False) -> World:
    """`plain`: no pod is nominated and none terminates."""
    said: Any = draw(st.lists(nodes, min_size=2, max_size=4))
    made = {
        name: declaring(
            make_node(name, labels=more | ({HOSTNAME: name} if host else {}), taints=taints, **rest),
            *features,
        )
        for name, (more, host, taints, features, rest) in zip(NAMES, said, strict=False)
    }
    there: dict[str, list[Pod]] = {name: [] for name in made}
    for number in range(draw(st.integers(1, most))):
        name = draw(st.sampled_from(list(made)))
        there[name].append(on(of_group(draw(pods(f"p{number}")), draw(group_names)), name))
    preemptor = draw(pods("new", constrained=True))
    preemptor = replace(preemptor, spec=replace(preemptor.spec, priority=draw(st.sampled_from([3, 5, 9]))))
    nominated: dict[str, list[Pod]] = {}
    for number in range(0 if plain else draw(st.integers(0, 2))):
        name = draw(st.sampled_from(list(made)))
        nominated.setdefault(name, []).append(draw(pods(f"q{number}")))
    if plain:
        there = {name: [alive(pod) for pod in one] for name, one in there.items()}
        preemptor = alive(preemptor)
    limits = [draw(budgets(number)) for number in range(draw(st.integers(0, 3)))]
    whole = {name: draw(st.sampled_from([-5, 0, 3, 7])) for name in draw(st.sampled_from(["", "g", "gh"]))}
    single = {name: draw(priorities_of_groups) for name in "hi"[len(whole) == 2 : draw(st.integers(0, 2))]}
    world = World(made, there, preemptor, nominated, limits, whole, draw(st.booleans()), single)
    world.make()
    return world


def alive(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=None))


# ---- groups that go whole


A = LabelSelector(match_labels={"app": "a"})
IN_APP = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Exists"),))
few_terms = st.lists(
    st.builds(PodAffinityTerm, label_selector=st.just(A), topology_key=st.sampled_from([HOSTNAME, "zone"])),
    min_size=1,
    max_size=2,
).map(tuple)
few_sides = st.one_of(st.none(), st.builds(PodAffinity, required=few_terms))
few_constraints = st.lists(
    st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 2),
        topology_key=st.sampled_from([HOSTNAME, "zone", "zone"]),
        when_unsatisfiable=st.just("DoNotSchedule"),
        label_selector=st.sampled_from([A, A, LabelSelector()]),
        min_domains=st.sampled_from([None, 3]),
    ),
    max_size=2,
).map(tuple)
seldom = st.sampled_from([False] * 5 + [True])


@st.composite
def members(draw: st.DrawFn, name: str, on: str) -> Pod:
    """A pod on a node, mostly of a group."""
    shy = Affinity(None, None, draw(few_sides)) if draw(seldom) else None
    out = make_pod(
        name,
        on,
        requests={"cpu": draw(st.sampled_from("112"))},
        labels={"app": draw(st.sampled_from("ab"))},
        ports=[port(80, "")] if draw(seldom) else (),
        priority=draw(st.sampled_from([0, 0, 1, 3, 7])),
        affinity=shy,
    )
    end = "2026-01-01T00:00:00Z" if draw(seldom) else None
    out = replace(out, metadata=replace(out.metadata, deletion_timestamp=end))
    return of_group(
        replace(out, status=PodStatus(start_time=draw(starts))), draw(st.sampled_from(["", "g", "g", "h"]))
    )


@st.composite
def worlds_of_groups(draw: st.DrawFn) -> World:
    """Full nodes of two zones. Most pods are of groups that go whole, and the preemptor may count some."""
    names = NAMES[: draw(st.integers(2, 4))]
    made = {
        name: make_node(name, labels={HOSTNAME: name, "zone": "xxyy"[at]}, cpu="4", memory="8")
        for at, name in enumerate(names)
    }
    there: dict[str, list[Pod]] = {name: [] for name in names}
    for number in range(draw(st.integers(2, 12))):
        name = draw(st.sampled_from(names))
        there[name].append(draw(members(f"p{number:02}", name)))
    counts = draw(st.booleans())
    preemptor = make_pod(
        "new",
        requests={"cpu": draw(st.sampled_from("1234"))},
        labels={"app": draw(st.sampled_from("ab"))},
        ports=[port(80, "")] if draw(seldom) else (),
        topology_spread_constraints=draw(few_constraints) if counts else (),
        affinity=Affinity(None, draw(few_sides) if draw(seldom) else None, draw(few_sides))
        if counts
        else None,
        priority=draw(st.sampled_from([2, 5, 9])),
    )
    nominated = {names[0]: [draw(members("q0", names[0]))]} if draw(seldom) else {}
    limits = [
        PodDisruptionBudget(
            metadata=ObjectMeta(name=f"b{number}", namespace="default"),
            spec=PodDisruptionBudgetSpec(selector=draw(st.sampled_from([A, IN_APP]))),
            status=PodDisruptionBudgetStatus(
                disruptions_allowed=draw(st.integers(0, 2)),
                disrupted_pods=dict.fromkeys(draw(st.sets(st.sampled_from(["p00", "p01", "p02"]))), ""),
            ),
        )
        for number in range(draw(st.sampled_from([0, 1, 2])))
    ]
    whole = draw(st.fixed_dictionaries({"g": priorities_of_groups}, optional={"h": priorities_of_groups}))
    single = {} if "h" in whole else draw(st.dictionaries(st.just("h"), priorities_of_groups))
    world = World(made, there, preemptor, nominated, limits, whole, draw(st.booleans()), single)
    world.make()
    return world
