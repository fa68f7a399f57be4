"""Pods with resource claims in the core's loop: the decisions and writes are those of single cycles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests import make as kit
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice
from tests.doors.engine import Loop, Policy
from tests.framework.make import make as make_plugin
from tests.scheduler.make import by_plugins

from moorage import Cluster, Scheduler, default_profile
from moorage.engine.devices import DeviceState
from moorage.engine.framework import CycleState, ReservePlugin, Status
from moorage.engine.scheduler import Profile
from moorage.kube import Node, Object, Pod, ResourceClaim
from moorage.store import BadRequestError, ObjectStore

KIND = f'device.attributes["{DRIVER}"].kind'
Json = dict[str, Any]
GPU = "example.com/gpu"
CLASS = device_class(extendedResourceName=GPU)
LIKE = "example.com/like"  # of another class with the same devices
SOME = "example.com/some"  # of a class of its own


def node(name: str, cpu: int = 8, **allocatable: str) -> Node:
    return kit.node(name, labels={"zone": name[0]}, cpu=cpu, memory="32Gi", pods="20", **allocatable)


def pod(name: str, *claims: str, template: str = "", cpu: str = "1", on: str = "", **resources: str) -> Pod:
    uses = [{"name": one, "resourceClaimName": one} for one in claims]
    uses += [{"name": "own", "resourceClaimTemplateName": template}] if template else []
    return kit.pod(name, on, {"cpu": cpu} | resources, resourceClaims=uses)


def template(name: str, requests: Sequence[Json], constraints: Sequence[Json] = ()) -> Object:
    devices = {"requests": list(requests), "constraints": list(constraints)}
    made: Object = kit.make("ResourceClaimTemplate", f"default/{name}", {"spec": {"devices": devices}})
    return made


def make(
    others: Sequence[Object],
    pods: Sequence[Pod],
    nodes: int = 3,
    store: ObjectStore | None = None,
    **options: Any,
) -> Scheduler:
    """A scheduler over a store of its own, or this one."""
    there = [node(f"n{at}") for at in range(nodes)] + [one for one in others if isinstance(one, Node)]
    rest = [one for one in others if not isinstance(one, Node)]
    if store is None:
        cluster = Cluster(nodes=there, others=rest, pods=list(pods))
        return Scheduler(cluster, clock=lambda: 0.0, **options)
    store.create_many([*there, *rest, *pods])
    return Scheduler(store, clock=lambda: 0.0, **options)


class Refusing(ObjectStore):
    """Refuses updates of a kind; those of several objects, and by default those of one."""

    def __init__(self, kind: type[Object], of_one: bool = True) -> None:
        super().__init__()
        self.kind: type[Object] | None = kind
        self.of_one = of_one
        self.refused = list[str]()

    def _refuse(self, objects: Iterable[Object]) -> None:
        names = [one.name for one in objects if self.kind is not None and isinstance(one, self.kind)]
        self.refused += names
        if names:
            raise BadRequestError("no")

    def update(self, obj: Object) -> Any:
        if self.of_one:
            self._refuse([obj])
        return super().update(obj)

    def update_many(self, objects: Iterable[Any]) -> None:
        given = list(objects)
        self._refuse(given)
        super().update_many(given)


def requested(one: Scheduler) -> dict[str, Any]:
    """What the pods of each node request."""
    nodes = one.client.list(Node)[0]
    infos = {each.name: one.cache.node_info(each.name) for each in nodes}
    return {name: info and info.requested for name, info in infos.items()}


def outcome(one: Scheduler) -> tuple[dict[str, str], dict[str, str], list[Any]]:
    """Placements, messages, and the claims as they are in the store, with what pods know of those for
    extended resources; these have the names of their pods."""
    result = one.run()
    claims: list[ResourceClaim] = one.client.list(ResourceClaim)[0]
    states: list[Any] = []
    for each in claims:
        key, told = each.key, None
        if "resource.kubernetes.io/extended-resource-claim" in each.metadata.annotations:
            key = each.metadata.owner_references[0].name
            told = one.client.get(Pod, key, "default").status.extended_resource_claim_status
            assert told is not None
            assert told.resource_claim_name == each.name
        states.append((key, each.spec, each.metadata.finalizers, each.status, told and told.request_mappings))
    states.sort(key=itemgetter(0))
    messages = {key: failure.message for key, failure in result.unschedulable.items()}
    return result.placements, messages, states


class Counting(ObjectStore):
    """Counts updates of one object."""

    updates = 0

    def update(self, obj: Object) -> Any:
        self.updates += 1
        return super().update(obj)


class Noting(kit.in_tree("DynamicResources")):  # type: ignore[misc]
    """Notes the pods of which claims are written after the core's loop, of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.written = list[list[str]]()
        default = default_profile()
        plugins = [self if one.name == self.name else one for one in default.plugins]
        self.profile = dataclasses.replace(default, plugins=plugins)

    @property
    def names(self) -> list[str]:
        return [name for names in self.written for name in names]

    def bind_claims(self, pods: Sequence[tuple[Pod, Any]]) -> dict[int, Status]:
        self.written.append([one.name for one, _ in pods])
        return super().bind_claims(pods)


kinds = st.integers(0, 2)
exact = st.builds(
    lambda count, selector, wants_all: request(
        "r",
        0 if wants_all else count,
        *([selector] if selector else []),
        **({"allocationMode": "All"} if wants_all else {}),
    ),
    st.integers(1, 2),
    st.sampled_from(("", f"{KIND} > 0", f"{KIND} == 1", "device.none")),
    st.sampled_from((False, False, False, True)),
)
choice = st.lists(st.sampled_from((f"{KIND} > 0", f"{KIND} == 1")), min_size=1, max_size=2).map(
    lambda selectors: {
        "name": "r",
        "firstAvailable": [
            {
                "name": f"x{at}",
                "deviceClassName": "gpu",
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": one}}],
            }
            for at, one in enumerate(selectors)
        ],
    }
)
constraints = st.sampled_from(([], [], [{"matchAttribute": f"{DRIVER}/kind"}]))


SHARED = (), (), ("shared-a",), ("shared-b",), ("shared-a", "shared-b"), ("none",)


EXTENDED = {}, {}, {GPU: "1"}, {GPU: "2"}, {LIKE: "1"}, {SOME: "1"}, {GPU: "1", SOME: "1"}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Object], list[Pod]]:
    others: list[Object] = [CLASS, device_class("like", extendedResourceName=LIKE)]
    others.append(device_class("some", f"{KIND} > 0", extendedResourceName=SOME))
    for at in range(3):
        drawn = draw(st.lists(kinds, max_size=4))
        devices = [device(f"d{i}", {"kind": kind}) for i, kind in enumerate(drawn)]
        others.append(resource_slice(f"n{at}", devices))
    if draw(st.booleans()):
        counting = [{"counterSet": "s", "counters": {"a": {"value": "2"}}}]
        partitions = [device(f"p{i}", {"kind": 1}, consumesCounters=counting) for i in range(3)]
        counters = [{"name": "s", "counters": {"a": {"value": "4"}}}]
        where: Json = draw(st.sampled_from(({"allNodes": True, "nodeName": None}, {"nodeName": "n1"})))
        others.append(resource_slice("n1", partitions, "shared", sharedCounters=counters, **where))
    for name in "ab":
        others.append(template(name, [draw(exact | choice)], draw(constraints)))
        others.append(claim(f"shared-{name}", [draw(exact)]))
    pods = []
    for at in range(draw(st.integers(1, 8))):
        shared = draw(st.sampled_from(SHARED))
        own = draw(st.sampled_from(("", "a", "b"))) if not shared or draw(st.booleans()) else ""
        cpu, resources = draw(st.sampled_from(("1", "3"))), draw(st.sampled_from(EXTENDED))
        pods.append(pod(f"p{at}", *shared, template=own, cpu=cpu, **resources))
    if draw(st.integers(0, 3)) == 0:
        others.append(node("own", **{draw(st.sampled_from((GPU, SOME))): "1"}))
    return others, pods


@settings(max_examples=60, deadline=None)
@given(clusters(), st.sampled_from(("first", "go-heap")))
def test_decisions_are_those_of_single_cycles(made: tuple[list[Object], list[Pod]], tie_break: str) -> None:
    together = make(*made, tie_break=tie_break)
    alone = make(*made, tie_break=tie_break, profile=by_plugins())
    assert outcome(together) == outcome(alone)
    assert requested(together) == requested(alone)


# ---- single rules ------------------------------------------------------------------------------------------


DEVICES = [resource_slice(f"n{at}", [device("d0"), device("d1")]) for at in range(3)]
OWN = template("own", [request()])


def own(count: int) -> list[Pod]:
    return [pod(f"p{at}", template="own") for at in range(count)]


def test_pods_with_claims_stay_in_the_loop() -> None:
    noting = Noting()
    placements, messages, claims = outcome(
        make([device_class(), *DEVICES, OWN], own(7), profile=noting.profile)
    )
    assert len(placements) == 6
    assert noting.names == [f"p{at}" for at in range(6)]
    assert list(messages) == ["default/p6"]
    assert "3 cannot allocate all claims" in messages["default/p6"]
    taken = [one[3].allocation.devices.results[0] for one in claims if one[3].allocation is not None]
    assert len({(one.pool, one.device) for one in taken}) == 6


def test_pods_that_share_a_spec_and_have_other_labels_keep_their_classes() -> None:
    """The needs of a pod that shares spec and template with the one before are not looked up again."""
    noting = Noting()
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    first = pod("p", template="own")
    spec = replace(first.spec, affinity=kit.pod(affinity=affinity).spec.affinity)
    labels: list[dict[str, str]] = [{}, {}, {"app": "a"}, {"app": "a"}]
    metas = [
        replace(first.metadata, name=f"p{at}", uid=f"u{at}", labels=one) for at, one in enumerate(labels)
    ]
    pods = [replace(first, metadata=meta, spec=spec) for meta in metas]
    placements, messages, _ = outcome(make([device_class(), *DEVICES, OWN], pods, profile=noting.profile))
    assert noting.names == ["p0", "p1"]
    assert sorted(placements) == ["default/p0", "default/p1"]
    assert all("anti-affinity" in one for one in messages.values())


def test_pods_with_extended_resources_stay_in_the_loop() -> None:
    noting = Noting()
    pods = [pod(f"p{at}", **{GPU: "1"}) for at in range(4)]
    placements, messages, claims = outcome(
        make([CLASS, *DEVICES[:2]], [*pods, pod("last", **{GPU: "2"})], profile=noting.profile)
    )
    names = noting.names
    assert names == list(map("p{}".format, range(4)))
    assert list(placements) == [f"default/{name}" for name in names]
    assert "3 cannot allocate all claims" in messages["default/last"]
    assert [claim[0] for claim in claims] == names
    noting = Noting()
    one = make([CLASS, *DEVICES[:2], node("own", **{GPU: "1"})], pods, profile=noting.profile)
    assert len(outcome(one)[0]) == 4
    assert noting.names == [], "a node has the resource itself: plugins decide"


def test_pods_with_different_extended_resources_are_one_class() -> None:
    kinds = [device_class(f"gpu-{at}", extendedResourceName=f"{GPU}-{at}") for at in range(4)]
    pods = [pod(f"p{at}", **{f"{GPU}-{at}": "1"}) for at in range(4)]
    profiles = default_profile(), by_plugins()
    found = [make([*kinds, *DEVICES[:2]], pods, profile=profile) for profile in profiles]
    outcomes = [outcome(one) for one in found]
    (engine,) = found[0].context.rotation.engines
    assert len(engine.search.states.volume_demands) == 1
    assert outcomes[0] == outcomes[1]
    counted = [requested(one) for one in found]
    assert counted[0] == counted[1]
    assert sum(len(amounts.scalar_resources) for amounts in counted[0].values()) == 4


def test_a_pod_that_cannot_be_told_of_its_claim_returns_its_devices() -> None:
    store = Refusing(Pod)
    one = make([CLASS, resource_slice("n0", [device("d0")])], [pod("p", **{GPU: "1"})], store=store)
    _, messages, claims = outcome(one)
    assert messages == {"default/p": messages["default/p"]}
    assert "update pod default/p ExtendedResourceClaimStatus: no" in messages["default/p"]
    assert not claims
    store.kind = None
    one.queue.activate([one.client.get(Pod, "p", "default")])
    assert one.run().placements == {"default/p": "n0"}
    assert len(one.client.list(ResourceClaim)[0]) == 1


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_claim_for_extended_resources_that_no_container_requests_refuses_the_pod(in_loop: bool) -> None:
    """As upstream: there is nothing to tell the pod, so it is not bound, and its claims are given back."""
    asking = pod("p", "c", **({} if in_loop else {GPU: "1"}))
    if in_loop:  # a RuntimeClass would add this
        asking = replace(asking, spec=replace(asking.spec, overhead={GPU: "1"}))
    there = [] if in_loop else [node("own", **{GPU: "1"}), resource_slice("own", [device("d")])]
    devices = DEVICES if in_loop else []
    one = make([CLASS, claim("c", [request()]), *devices, *there], [asking], nodes=3)
    placements, messages, claims = outcome(one)
    assert not placements
    text = "nil or empty request mappings, no update of pod default/p ExtendedResourceClaimStatus"
    assert list(messages.values()) == [f'running PreBind plugin "DynamicResources": {text}']
    assert [(key, status.reserved_for) for key, _, _, status, _ in claims] == [("default/c", ())]


def test_pods_are_told_of_their_claims_as_one_write() -> None:
    pods = [pod(f"p{at}", **{GPU: "1"}) for at in range(4)]
    store = Counting()
    placements, _, claims = outcome(make([CLASS, *DEVICES[:2]], pods, store=store))
    assert store.updates == 0
    assert [f"default/{claim[0]}" for claim in claims] == list(placements) == [one.key for one in pods]
    store = Refusing(Pod, of_one=False)
    found = outcome(make([CLASS, *DEVICES[:2]], pods, store=store))
    assert store.refused == [one.name for one in pods]
    assert found[::2] == (placements, claims), "each is told by itself"


def test_an_interrupted_run_writes_no_claims_later() -> None:
    class Interrupting(Policy):
        def on_tried(self, number: int) -> None:
            run.policy = Policy()
            raise KeyboardInterrupt

    one = make([device_class(), *DEVICES, claim("c", [request()])], [pod("p", "c")])
    run = Loop(one.context, Interrupting())
    with pytest.raises(KeyboardInterrupt):
        run.all()
    version = one.client.get(ResourceClaim, "c", "default").metadata.resource_version
    one.client.delete(Pod, "p", "default")
    one.client.create(pod("q"))
    assert run.all().placements["default/q"]
    assert one.client.get(ResourceClaim, "c", "default").metadata.resource_version == version


def test_claims_are_written_before_plugins_schedule_the_next_pod() -> None:
    def reserve(state: Any, pod: Pod, node_name: str) -> None:
        seen.append(one.client.get(ResourceClaim, "c", "default").status.allocation is not None)

    seen: list[bool] = []
    plugin = make_plugin(ReservePlugin, "Seeing", reserve=lambda self, *rest: reserve(*rest), unreserve=None)
    other = Profile((*default_profile().plugins, plugin), scheduler_name="other")
    last = pod("q")
    last = replace(last, spec=replace(last.spec, scheduler_name="other"))
    objects = [device_class(), *DEVICES, claim("c", [request()])]
    one = make(objects, [pod("p", "c"), last], profiles=[default_profile(), other])
    assert list(one.run().placements) == ["default/p", "default/q"]
    assert seen == [True]


WIDE = resource_slice("n0", [device("w0"), device("w1")], "wide", nodeName=None, allNodes=True)


@pytest.mark.parametrize(
    ("others", "pods", "writes"),
    [
        pytest.param(DEVICES, [pod(f"p{at}", f"c{at // 3}") for at in range(6)], 1, id="in a row"),
        pytest.param(DEVICES, [pod(f"p{at}", f"c{at % 2}") for at in range(4)], 2, id="in turns"),
        pytest.param(
            DEVICES, [pod("p", "c0", cpu="5"), pod("q", "c0", cpu="5"), pod("r", "c0")], 1, id="no room"
        ),
        pytest.param(
            DEVICES[:1], [pod(f"p{at}", f"c{at // 2}") for at in range(6)], 1, id="none for the first"
        ),
        pytest.param([WIDE], [pod(f"p{at}", "c0", cpu="5") for at in range(3)], 1, id="for all nodes"),
        pytest.param(DEVICES, [pod("p", "c0"), pod("q", "c0", "c1"), pod("r", "c0")], 2, id="with another"),
    ],
)
def test_pods_that_share_a_claim_are_placed_in_one_batch(
    others: list[Object], pods: list[Pod], writes: int
) -> None:
    """Other nodes than that of the first pod, and a first pod without a node, are left to plugins."""
    there = [device_class(), *others, *[claim(f"c{at}", [request()]) for at in range(3)]]
    noting = Noting()
    alone = outcome(make(there, pods, profile=by_plugins()))
    assert outcome(make(there, pods, profile=noting.profile)) == alone
    assert len(noting.written) == writes, noting.written


def test_pods_that_share_a_claim_that_cannot_be_written_are_refused() -> None:
    store, pods = Refusing(ResourceClaim), [pod(f"p{at}", "c") for at in range(3)]
    one = make([device_class(), *DEVICES, claim("c", [request()])], pods, store=store)
    placements, messages, _ = outcome(one)
    assert placements == {}
    assert "no" in messages["default/p0"]
    assert "deallocated elsewhere" in messages["default/p1"]
    store.kind = None
    one.queue.activate(one.client.list(Pod)[0])
    assert len(set(one.run().placements.values())) == 1


def test_counters_of_a_pool_that_some_nodes_cannot_use_are_known() -> None:
    """Such nodes never ask what is available of them."""
    noting = Noting()
    where = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    half = [{"counterSet": "c", "counters": {"x": {"value": "1"}}}]
    parts = resource_slice(
        "n0",
        [device(f"d{at}", consumesCounters=half) for at in range(3)],
        nodeName=None,
        nodeSelector={"nodeSelectorTerms": where},
        sharedCounters=[{"name": "c", "counters": {"x": {"value": "2"}}}],
    )
    placements, messages, _ = outcome(make([device_class(), parts, OWN], own(3), profile=noting.profile))
    assert noting.names == ["p0", "p1"]
    assert placements == {"default/p0": "n0", "default/p1": "n0"}
    assert list(messages) == ["default/p2"]


def test_alternatives_that_differ_between_nodes_are_left_to_plugins() -> None:
    """The nodes have scores then, which the core does not know."""
    noting = Noting()
    kinds = [
        {"name": f"x{at}", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        for at, count in enumerate((2, 1))
    ]
    first = template("own", [{"name": "r", "firstAvailable": kinds}])
    slices = [resource_slice("n0", [device("d0")]), resource_slice("n1", [device("d0"), device("d1")])]
    placements, _, _ = outcome(make([device_class(), *slices, first], own(1), profile=noting.profile))
    assert placements == {"default/p0": "n1"}
    assert noting.names == []
    noting = Noting()
    alike = [resource_slice(f"n{at}", [device("d0"), device("d1")]) for at in range(2)]
    outcome(make([device_class(), *alike, first], own(1), profile=noting.profile))
    assert noting.names == ["p0"]


def test_a_claim_that_cannot_be_written_returns_its_devices() -> None:
    class RefusingOnce(Refusing):
        def update(self, obj: Object) -> Any:
            try:
                return super().update(obj)
            finally:
                self.of_one = False

    store, claims = RefusingOnce(ResourceClaim), [claim(f"c{at}", [request()]) for at in range(2)]
    pods = [pod(f"p{at}", f"c{at}") for at in range(2)]
    one = make([device_class(), DEVICES[0], *claims], pods, store=store)
    placements, messages, _ = outcome(one)
    assert placements == {"default/p1": "n0"}
    assert "add finalizer to claim" in messages["default/p0"]
    assert one.cache.state.has_pod(one.client.get(Pod, "p1", "default"))
    assert not one.cache.state.has_pod(one.client.get(Pod, "p0", "default"))
    store.kind = None
    one.queue.activate([one.client.get(Pod, "p0", "default")])
    assert one.run().placements == {"default/p0": "n0"}
    after = one.client.list(ResourceClaim)[0]
    devices = [each.status.allocation.devices.results[0].device for each in after]
    assert sorted(devices) == ["d0", "d1"]


def test_a_rollback_and_a_fork_leave_decisions_as_they_were() -> None:
    made = [device_class(), *DEVICES, OWN]
    one, twin = make(made, own(2)), make(made, own(2))
    one.run()
    twin.run()
    with one.transaction():
        for extra in range(3):
            one.client.create(pod(f"x{extra}", template="own"))
        one.sync()
        one.client.delete(Pod, "p0", "default")
        one.sync()
        one.run()
    branch = one.fork()
    for extra in range(3):
        branch.client.create(pod(f"x{extra}", template="own"))
    assert len(branch.run().placements) == 3
    for each in (one, twin):
        for extra in range(5):
            each.client.create(pod(f"y{extra}", template="own"))
    assert outcome(one) == outcome(twin)


def elsewhere(device: str = "d0") -> ResourceClaim:
    """A claim that has a device of n0, and no pod."""
    results = [{"request": "r", "driver": DRIVER, "pool": "pool-n0", "device": device}]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    given = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    return claim("c", [request()], allocation=given)


def test_a_claim_that_is_deallocated_is_no_longer_where_it_was_for_later_pods() -> None:
    """The second pod fits where the claim is, until the first has it deallocated."""
    pods = [pod("on-n0", on="n0"), pod("p", "c", cpu="8"), pod("q", "c", cpu="1")]
    outcomes = []
    for profile in default_profile(), by_plugins():
        outcomes.append(outcome(make([CLASS, *DEVICES, elsewhere()], pods, nodes=2, profile=profile)))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0]["default/q"]


class NodeByNode(kit.in_tree("DynamicResources")):  # type: ignore[misc]
    """Knows no needs, so that Filter goes node by node."""

    def _ask_all_nodes(self, cycle: Any, demand: Any, asked: Pod) -> None:
        super()._ask_all_nodes(cycle, demand, asked)
        demand.is_alike = False


def test_a_cycle_answers_for_all_nodes_as_node_by_node() -> None:
    """A claim is allocated on n0, beside one whose devices are on n1 alone: n1 cannot use it, so that it is
    deallocated, and the pod fits there then."""
    there = [CLASS, resource_slice("n0", []), resource_slice("n1", [device("d1"), device("d2")])]
    outcomes = []
    for kind in kit.in_tree("DynamicResources"), NodeByNode:
        given = by_plugins()
        plugins = [kind() if plugin.name == kind.name else plugin for plugin in given.plugins]
        objects = [*there, elsewhere(), claim("new", [request()])]
        profile = dataclasses.replace(given, plugins=plugins)
        outcomes.append(outcome(make(objects, [pod("p", "c", "new")], nodes=2, profile=profile)))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == {"default/p": "n1"}


def test_a_node_that_came_since_the_last_snapshot_has_devices() -> None:
    one = make([CLASS, *DEVICES], [], nodes=1)
    demands, framework = one.handle.shared(DeviceState.of).demands, one.context.rotation.engines[0].framework
    for _ in range(2):
        assert demands.refresh(one.cache.state, framework.all_nodes())
    assert [pool.name for pool in demands.view_of(node("n1")).pools] == ["pool-n1"]
    one.cache.add_node(node("n1"))
    assert demands.refresh(one.cache.state, framework.all_nodes())
    assert [pool.name for pool in demands.view_of(node("n1")).pools] == ["pool-n1"]


def test_claims_are_allocated_on_a_node_that_came_since_pre_filter() -> None:
    held = make([CLASS, *DEVICES, claim("held", [request()])], [pod("first", "held")], nodes=2)
    held.run()
    taken = held.client.list(ResourceClaim)[0]
    one = make([CLASS, *DEVICES, *taken, claim("two", [request(count=2)])], [], nodes=0)
    framework, state, asking = one.context.rotation.engines[0].framework, CycleState(), pod("p", "two")
    plugin: Any = next(each for each in one.profile.plugins if each.name == "DynamicResources")
    assert plugin.pre_filter(state, asking, framework.all_nodes()) is None
    answers = {name: plugin.filter(state, asking, held.cache.node_info(name)) for name in ("n0", "n1")}
    (on,) = {one.spec.node_name for one in held.client.list(Pod)[0]}
    assert {name for name, status in answers.items() if status is None} == {"n0", "n1"} - {on}


def test_a_profile_without_a_plugin_about_devices_places_its_pods_beside_others() -> None:
    less = [each for each in default_profile().plugins if each.name != "DynamicResources"]
    profiles = [default_profile(), Profile(less, scheduler_name="less")]
    other = pod("q")
    other = replace(other, spec=replace(other.spec, scheduler_name="less"))
    pods = [pod("p", "c"), other]
    one = make([CLASS, *DEVICES, claim("c", [request()])], pods, nodes=2, profiles=profiles)
    assert one.run().placements.keys() == {"default/p", "default/q"}
