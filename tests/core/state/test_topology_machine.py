"""Nodes, pods, namespaces and services come and go, in transactions too; what the counters then say of a pod
is what a look at every pod says."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.core.make import pinned
from tests.core.placing import enter, place_run
from tests.core.twins.topology_twin import AFFINITY, ANTI, EXISTING, HOSTNAME, MISSING, SKEW, Topology
from tests.doors.engine import ClusterState, Placer, TieBreak
from tests.make import node as make_node
from tests.make import pod as make_pod

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
    Service,
    ServiceSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

NODES = [f"n{number}" for number in range(5)]
PODS = [f"p{number}" for number in range(8)]
NAMESPACES = ["default", "default", "other"]
KEYS = [HOSTNAME, "zone", "topology.kubernetes.io/zone", "nowhere"]
TAINT = Taint(key="a", value="", effect="NoSchedule")
TEAMLESS = LabelSelector(match_expressions=(LabelSelectorRequirement("team", "DoesNotExist"),))
BITS = {MISSING: 2 | 1 << 55, SKEW: 1, AFFINITY: 1 | 1 << 55, ANTI: 2, EXISTING: 4}

selectors = st.one_of(
    st.none(),
    st.builds(LabelSelector, match_labels=st.fixed_dictionaries({"app": st.sampled_from("aab")})),
    st.just(LabelSelector()),
    st.just(LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Exists"),))),
)
labels = st.fixed_dictionaries({"app": st.sampled_from("aab")}, optional={"rev": st.sampled_from("ab")})
nodes = st.builds(
    lambda name, more, host, taints: make_node(
        name, labels=more | ({HOSTNAME: name} if host else {}), taints=taints
    ),
    st.sampled_from(NODES),
    st.dictionaries(
        st.sampled_from(["zone", "topology.kubernetes.io/zone", "disk"]), st.sampled_from(["", "x", "y"])
    ),
    st.booleans(),
    st.sampled_from([(), (TAINT,)]),
)
constraints = st.lists(
    st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 3),
        topology_key=st.sampled_from(KEYS),
        when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        label_selector=selectors,
        min_domains=st.sampled_from([None, 2, 4]),
        node_affinity_policy=st.sampled_from([None, "Honor", "Ignore"]),
        node_taints_policy=st.sampled_from([None, "Honor", "Ignore"]),
        match_label_keys=st.sampled_from([(), ("rev",)]),
    ),
    max_size=2,
).map(tuple)
terms = st.builds(
    PodAffinityTerm,
    label_selector=selectors,
    namespaces=st.sampled_from([(), ("other",), ("default", "other")]),
    topology_key=st.sampled_from(KEYS),
    namespace_selector=st.sampled_from(
        [None, LabelSelector(), LabelSelector(match_labels={"team": "x"}), TEAMLESS]
    ),
)
sides = st.one_of(
    st.none(),
    st.builds(
        PodAffinity,
        required=st.lists(terms, max_size=2).map(tuple),
        preferred=st.lists(
            st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 3), pod_affinity_term=terms), max_size=2
        ).map(tuple),
    ),
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    node_affinity = draw(st.sampled_from([None, None, None, pinned("n1").node_affinity]))
    sides_ = draw(sides), draw(sides)
    affinity = Affinity(node_affinity, *sides_) if node_affinity or any(sides_) else None
    out = make_pod(
        draw(st.sampled_from(PODS)),
        labels=draw(labels),
        topology_spread_constraints=draw(constraints),
        affinity=affinity,
        tolerations=draw(st.sampled_from([(), (Toleration(key="a", operator="Exists"),)])),
        node_selector=draw(st.sampled_from([None, None, {"disk": "x"}])),
    )
    gone = "2026-01-01T00:00:00Z" if draw(st.booleans()) else None
    namespace = draw(st.sampled_from(NAMESPACES))
    return replace(out, metadata=replace(out.metadata, namespace=namespace, deletion_timestamp=gone))


def on(pod: Pod, name: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=name))


class TopologyMachine(RuleBasedStateMachine):
    """`held` is what a look at every pod starts from; open transactions keep what it was before them."""

    @initialize(
        first=st.lists(nodes, min_size=2, max_size=5, unique_by=lambda node: node.name),
        there=st.lists(st.tuples(pods(), st.sampled_from(NODES)), max_size=5),
    )
    def begin(self, first: list[Node], there: list[tuple[Pod, str]]) -> None:
        self.state = ClusterState()
        self.placer = Placer(self.state, default_profile().compile(self.state), TieBreak.FIRST, 100)
        self.held: dict[str, dict[str, Any]] = {"nodes": {}, "pods": {}, "namespaces": {}, "services": {}}
        self.open: list[tuple[Any, dict[str, dict[str, Any]]]] = []
        for one in first:
            self.set_node(one)
        for pod, name in there:
            self.add_pod(pod, name, False)

    @rule(one=nodes)
    def set_node(self, one: Node) -> None:
        self.state.set_node(one)
        self.held["nodes"][one.name] = one

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        if name in self.held["nodes"]:
            self.state.remove_node(name)
            del self.held["nodes"][name]

    @rule(one=pods(), name=st.sampled_from(NODES), assumed=st.booleans())
    def add_pod(self, one: Pod, name: str, assumed: bool) -> None:
        if one.name not in self.held["pods"]:
            (self.state.assume_pod if assumed else self.state.add_pod)(on(one, name))
            self.held["pods"][one.name] = on(one, name), assumed

    @rule(one=pods())
    def update_pod(self, one: Pod) -> None:
        old, assumed = self.held["pods"].get(one.name, (None, True))
        if not assumed:
            new = on(one, old.spec.node_name)
            self.state.update_pod(old, new)
            self.held["pods"][one.name] = new, False

    @rule(name=st.sampled_from(PODS))
    def remove_pod(self, name: str) -> None:
        if name in self.held["pods"]:
            pod, assumed = self.held["pods"].pop(name)
            (self.state.forget_pod if assumed else self.state.remove_pod)(pod)

    @rule(one=pods(), count=st.integers(1, 2))
    def place(self, one: Pod, count: int) -> None:
        """A run of equal pods, which only the names tell apart."""
        names = [name for name in PODS if name not in self.held["pods"]][:count]
        one = replace(one, metadata=replace(one.metadata, deletion_timestamp=None))
        placed = [replace(one, metadata=replace(one.metadata, name=name, uid=name)) for name in names]
        if placed:
            pod_class = self.state.classes.intern(placed[0])
            pinned_to = self.state.classes.pinned_symbol(pod_class, placed[0])
            rows = place_run(self.placer, pod_class, len(placed), 0, pinned_to)
            enter(self.state, placed, rows)
            for pod, row in zip(placed, rows.tolist(), strict=False):
                self.held["pods"][pod.name] = on(pod, self.state.table.row_name(row)), True

    @rule(name=st.sampled_from(NAMESPACES), more=st.dictionaries(st.just("team"), st.sampled_from("xy")))
    def set_namespace(self, name: str, more: dict[str, str]) -> None:
        self.state.namespaces.set(name, more)
        self.held["namespaces"][name] = more

    @rule(name=st.sampled_from(NAMESPACES))
    def remove_namespace(self, name: str) -> None:
        self.state.namespaces.remove(name)
        self.held["namespaces"].pop(name, None)

    @rule(
        name=st.sampled_from("st"),
        namespace=st.sampled_from(NAMESPACES),
        selector=st.one_of(st.none(), labels),
    )
    def set_service(self, name: str, namespace: str, selector: dict[str, str] | None) -> None:
        service = Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(selector))
        self.state.workloads.set(service)
        self.held["services"][namespace, name] = service

    @rule(name=st.sampled_from("st"), namespace=st.sampled_from(NAMESPACES))
    def remove_service(self, name: str, namespace: str) -> None:
        service = self.held["services"].pop((namespace, name), None)
        if service is not None:
            self.state.workloads.remove(service)

    @rule()
    def drop_counters(self) -> None:
        self.state.domains.limit, limit = 0, self.state.domains.limit
        self.state.domains.enforce_limit()
        self.state.domains.limit = limit

    @rule(one=pods())
    def look_in_a_fork(self, one: Pod) -> None:
        """A fork counts from scratch."""
        if not self.open:
            here = self.state, self.placer
            self.state = self.state.fork()
            self.placer = Placer(self.state, self.placer.search.plan, TieBreak.FIRST, 100)
            self.check(one)
            self.state, self.placer = here

    # ---- transactions

    @precondition(lambda self: len(self.open) < 2)
    @rule()
    def begin_transaction(self) -> None:
        self.open.append((self.state.begin(), {what: dict(held) for what, held in self.held.items()}))

    @precondition(lambda self: self.open)
    @rule(commits=st.booleans())
    def end_transaction(self, commits: bool) -> None:
        mark, before = self.open.pop()
        (self.state.commit if commits else self.state.rollback)(mark)
        self.held = self.held if commits else before

    # ---- what the counters say

    @rule(one=pods())
    def look(self, one: Pod) -> None:
        self.check(one)

    @invariant()
    def known_pods_are_judged_alike(self) -> None:
        for pod, _ in list(self.held["pods"].values())[:2]:
            self.check(replace(pod, spec=replace(pod.spec, node_name="")))

    def check(self, pod: Pod) -> None:
        """Verdicts and scores of both plugins, on all nodes."""
        state, order = self.state, self.nodes_in_order()
        twin = Topology(
            [(self.held["nodes"][name], self.pods_on(name)) for name in order],
            self.held["namespaces"],
            list(self.held["services"].values()),
        )
        pod_class = state.classes.intern(pod)
        target = pod_class, 0, state.classes.pinned_symbol(pod_class, pod)
        for plugin, rejects in (
            ("PodTopologySpread", twin.spread_rejects(pod)),
            ("InterPodAffinity", twin.affinity_rejects(pod)),
        ):
            rows, bits = self.placer.search.filter_verdicts(plugin, *target)
            said = {
                state.table.row_name(row): bit for row, bit in zip(rows.tolist(), bits.tolist(), strict=True)
            }
            assert said == {name: BITS[rejects[name]] if name in rejects else 0 for name in said}, plugin
        rows = state.view.rows()
        terms = self.placer.search.terms_of(pod_class, target[2])
        for plugin, scores, skips in (
            ("PodTopologySpread", twin.spread_scores(pod, order), terms.n_soft == 0),
            ("InterPodAffinity", twin.affinity_scores(pod, order), not terms.affinity_scores),
        ):
            raw, normalized = self.placer.search.scores(plugin, rows, *target)
            assert skips == (scores is None), plugin
            if scores is not None:
                assert (raw.tolist(), normalized.tolist()) == scores, plugin

    def nodes_in_order(self) -> list[str]:
        self.state.view.refresh()
        return self.state.view.node_names()

    def pods_on(self, name: str) -> list[Pod]:
        return [pod for pod, _ in self.held["pods"].values() if pod.spec.node_name == name]


TestTopologyMachine = TopologyMachine.TestCase
TestTopologyMachine.settings = settings(deadline=None, max_examples=150, stateful_step_count=30)
