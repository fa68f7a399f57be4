"""Capacity counts what the engine places, replica after replica, and leaves the scheduler as it was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage import Scheduler
from moorage.errors import InputError, MoorageError
from moorage.objects import (
    Affinity,
    Cluster,
    EphemeralVolumeSource,
    LabelSelector,
    ObjectMeta,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceRequirements,
    StorageClass,
    Taint,
    TopologySpreadConstraint,
    Volume,
    decode_object,
)
from tests.core.make import ZONE, node, pinned, pod, port
from tests.doors.kube import Admission
from tests.doors.kube import admission_RefusedError as RefusedError

WEB = {"app": "web"}
SAME = LabelSelector(match_labels=WEB)


def scheduler(*nodes: Any, pods: Any = (), others: Any = (), **settings: Any) -> Scheduler:
    return Scheduler(Cluster(nodes=list(nodes), pods=list(pods), others=list(others)), **settings)


def one_by_one(one: Scheduler, template: Pod) -> tuple[Counter[str], str]:
    """Replicas by node, and why the next one fits nowhere, by cycles of their own."""
    counts: Counter[str] = Counter()
    with one.transaction():
        for number in range(10_000):
            meta = replace(template.metadata, name=f"each-{number}", uid=f"each-{number}")
            result = one.schedule_pods([replace(template, metadata=meta)])
            if result.failure is not None:
                return counts, result.failure.message
            counts.update(result.placements.values())
    raise AssertionError("it never ends")


# ---- one template ------------------------------------------------------------------------------------------


def test_count_nodes_and_reason() -> None:
    one = scheduler(node("a", cpu="2"), node("b"), node("c", taints=[Taint(key="k", effect="NoSchedule")]))
    found = one.capacity(pod("web", requests={"cpu": "1500m"}))
    assert (found.count, found.rounds, found.templates[0].nodes) == (3, 3, {"a": 1, "b": 2})
    assert found.message.startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )
    assert found.failed == "default/web"
    assert found.reasons == {"node(s) had untolerated taint(s)": 1, "Insufficient cpu": 2}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Scheduler, Pod]:
    nodes = []
    for at in range(draw(st.integers(1, 6))):
        taints = [Taint(key="k", value="v", effect="NoSchedule")] if draw(st.booleans()) else []
        sizes = {"cpu": f"{draw(st.integers(0, 8)) * 500}m", "pods": str(draw(st.integers(0, 7)))}
        labels = {"disk": draw(st.sampled_from(["ssd", "hdd"]))}
        nodes.append(
            node(
                f"n{at}",
                draw(st.sampled_from(["", "a", "b"])),
                labels,
                taints,
                **{"example.com/x": at % 3},
                **sizes,
            )
        )
    bound = [
        pod(f"p{at}", on=f"n{at % len(nodes)}", labels=WEB, requests={"cpu": "300m"})
        for at in range(draw(st.integers(0, 4)))
    ]
    requests = {"cpu": f"{draw(st.sampled_from([0, 200, 500, 900]))}m"}
    if draw(st.booleans()):
        requests["example.com/x"] = "1"
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["node_selector"] = {"disk": "ssd"}
    kind = draw(st.sampled_from(["plain", "hard", "soft", "anti", "ports"]))
    if kind in ("hard", "soft"):
        when = "DoNotSchedule" if kind == "hard" else "ScheduleAnyway"
        constraint = TopologySpreadConstraint(
            max_skew=1, topology_key=ZONE, when_unsatisfiable=when, label_selector=SAME
        )
        spec["topology_spread_constraints"] = (constraint,)
    if kind == "anti":
        term = PodAffinityTerm(label_selector=SAME, topology_key=ZONE)
        spec["affinity"] = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    ports = [port(80)] if kind == "ports" else []
    return scheduler(*nodes, pods=bound), pod("web", labels=WEB, requests=requests, ports=ports, **spec)


@settings(deadline=None)
@given(clusters())
def test_it_counts_what_the_engine_places(made: tuple[Scheduler, Pod]) -> None:
    one, template = made
    before = one.fork()
    found = one.capacity(template)
    counts, message = one_by_one(one, template)
    assert (found.count, found.message) == (counts.total(), message)
    if not template.spec.topology_spread_constraints:  # otherwise the order decides which nodes are left over
        assert found.templates[0].nodes == counts
    assert not before.diff(one)


def test_the_scheduler_decides_as_before() -> None:
    one = scheduler(*[node(f"n{at}") for at in range(4)], pods=[pod("waits", requests={"cpu": 1})])
    other = one.fork()
    assert one.capacity(pod("web", requests={"cpu": "1"})).count == 16
    assert one.run().placements == other.run().placements


def test_max_ends_the_count() -> None:
    one = scheduler(node("a"), node("b"))
    found = one.capacity(pod("web", requests={"cpu": 1}), max=3)
    assert (found.count, found.failure, found.message, found.failed, found.binding) == (3, None, "", "", ())
    assert sum(found.templates[0].nodes.values()) == 3
    assert one.capacity(pod("web", requests={"cpu": 1}), max=8).failure is None
    assert one.capacity(pod("web", requests={"cpu": 1}), max=9).failure is not None
    assert one.capacity(pod("web", requests={"cpu": 1}), max=0).count == 0


def test_a_pod_of_the_cluster_is_a_template() -> None:
    running = pod("web", on="a", requests={"cpu": 1})
    found = scheduler(node("a"), pods=[running]).capacity(running)
    assert (found.count, found.templates[0].name) == (3, "default/web")


def test_evictions_are_told_and_taken_back() -> None:
    low = pod("low", on="a", requests={"cpu": 3}, priority=0)
    one = scheduler(node("a"), pods=[low])
    found = one.capacity(pod("web", requests={"cpu": 1}, priority=10))
    assert (found.count, found.failure and found.failure.nominated_node) == (1, "a")
    assert one.client.get(Pod, "low", "default").metadata.deletion_timestamp is None


def test_the_room_of_nominated_pods_is_kept() -> None:
    vip = pod("vip", requests={"cpu": 3}, priority=9)
    vip = replace(vip, status=replace(vip.status, nominated_node_name="a"))
    one = scheduler(node("a"), pods=[vip])
    template = pod("web", requests={"cpu": 1}, priority=0)
    assert one.capacity(template).count == one_by_one(one, template)[0].total() == 1


def with_volume(storage_class: str) -> Pod:
    claim = PersistentVolumeClaimSpec(
        storage_class_name=storage_class,
        access_modes=("ReadWriteOnce",),
        resources=ResourceRequirements(requests={"storage": "1Gi"}),
    )
    source = EphemeralVolumeSource(volume_claim_template=PersistentVolumeClaimTemplate(spec=claim))
    return pod("web", requests={"cpu": 1}, volumes=(Volume(name="data", ephemeral=source),))


def with_local_volumes() -> Scheduler:
    """Return a scheduler with a volume whose phase no controller has set yet."""
    local = StorageClass(
        metadata=ObjectMeta(name="local"),
        provisioner="kubernetes.io/no-provisioner",
        volume_binding_mode="WaitForFirstConsumer",
    )
    volume = decode_object(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "hostPath": {"path": "/v"},
            },
        }
    )
    return scheduler(node("a"), others=[local, volume])


def test_each_replica_may_have_a_claim_of_its_own() -> None:
    fast = StorageClass(
        metadata=ObjectMeta(name="fast"),
        provisioner="example.com",
        volume_binding_mode="WaitForFirstConsumer",
    )
    one = scheduler(node("a"), others=[fast])
    found = one.capacity(with_volume("fast"))
    assert (found.count, found.templates[0].nodes) == (4, {"a": 4})
    assert one.client.list(Pod)[0] == []
    assert one.nodes_needed((with_volume("fast"), 4), like="a").nodes == 0


def test_static_volumes_are_taken_and_the_reasons_are_those_of_the_message() -> None:
    one = with_local_volumes()
    found = one.capacity(with_volume("local"))
    assert found.count == 1
    assert [each.reasons for each in found.binding] == [found.reasons]
    assert [one.nodes_needed((with_volume("local"), n), like="a").status for n in (1, 2)] == [
        "found",
        "not found",
    ]


def quota(**hard: Any) -> ResourceQuota:
    meta = ObjectMeta(name="q", namespace="default")
    return ResourceQuota(metadata=meta, spec=ResourceQuotaSpec(hard=hard))


@pytest.mark.parametrize("ports", [[], [port(80)]])  # all at once, and by the engine
def test_a_quota_bounds_the_count(ports: Any) -> None:
    one = scheduler(*[node(f"n{at}") for at in range(9)], others=[quota(pods="5")])
    template = pod("web", requests={"cpu": 1}, ports=ports)
    found = one.capacity(template)
    assert (found.count, found.failed, found.failure, found.binding) == (5, "default/web", None, ())
    assert found.message.endswith("exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5")
    assert found.headline() == f"default/web: 5; default/web is refused: {found.message}"
    assert found.to_dict()["next"] == {"template": "default/web", "message": found.message, "reasons": {}}
    assert one.capacity(template, max=5).failed == ""
    assert scheduler(node("a"), others=[quota(pods="99")]).capacity(template).failure is not None


def test_a_quota_is_asked_once_for_all_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    admit_many = Admission.admit_many

    def counting(self: Admission, pod: Pod, n: int) -> tuple[Pod, int]:
        asked.append(n)
        return admit_many(self, pod, n)

    monkeypatch.setattr(Admission, "admit_many", counting)
    one = scheduler(*[node(f"n{at}") for at in range(9)], others=[quota(pods="1k")])
    found = one.capacity(pod("web", requests={"cpu": 1}))
    assert found.count > 9
    assert asked == [1, found.count - 1, 1]


@given(st.integers(0, 3_000), st.integers(0, 900), st.integers(1, 40), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_many_are_admitted_as_one_by_one(hard: int, request: int, n: int, charged: int) -> None:
    template, policies = pod("web", requests={"cpu": f"{request}m"}), [quota(cpu=f"{hard}m", pods=30)]
    many, single = Admission(policies, lambda _: ()), Admission(policies, lambda _: ())
    for each in (many, single):
        for _ in range(charged):
            answer(each, template)
    wanted = sum(not answer(single, template) for _ in range(n))
    if wanted:
        assert many.admit_many(template, n)[1] == wanted
    assert answer(many, template) == answer(single, template)


def answer(admission: Admission, template: Pod) -> str:
    try:
        admission.admit(template)
    except RefusedError as error:
        return str(error)
    return ""


def test_templates_share_a_quota() -> None:
    one = scheduler(node("a"), node("b"), others=[quota(pods="5")])
    found = one.capacity([(pod("web", requests={"cpu": 1}), 2), pod("db", requests={"cpu": 1})])
    assert ([each.count for each in found.templates], found.rounds) == ([2, 1], 1)
    assert (found.failed, found.message.startswith('pods "db" is forbidden')) == ("default/db", True)


# ---- several templates -------------------------------------------------------------------------------------


def test_shares_are_placed_in_rounds() -> None:
    one = scheduler(node("a"), node("b", cpu="3"))
    found = one.capacity([(pod("web", requests={"cpu": 1}), 2), pod("db", requests={"cpu": "1500m"})])
    assert [(each.name, each.share, each.count) for each in found.templates] == [
        ("default/web", 2, 2),
        ("default/db", 1, 1),
    ]
    assert (found.rounds, found.count, bool(found.failure)) == (1, 3, True)


def test_rounds_of_one_template() -> None:
    found = scheduler(node("a")).capacity([(pod("web", requests={"cpu": 1}), 3)], max=1)
    assert (found.rounds, found.count) == (1, 3)


def test_two_templates_of_one_name() -> None:
    found = scheduler(node("a")).capacity([pod("web", requests={"cpu": 1}), pod("web", requests={"cpu": 1})])
    assert [each.count for each in found.templates] == [2, 2]


# ---- what binds --------------------------------------------------------------------------------------------


def test_the_resource_that_binds_in_each_zone() -> None:
    one = scheduler(node("a", "x", cpu="1"), node("b", "y", pods="2"), node("c"))
    found = one.capacity(pod("web", requests={"cpu": "500m"}))
    assert [(each.value, each.nodes, each.resource) for each in found.binding] == [
        ("", 1, "cpu"),
        ("x", 1, "cpu"),
        ("y", 1, "pods"),
    ]


def test_the_label_is_a_choice() -> None:
    one = scheduler(node("a", labels={"pool": "gpu"}), node("b"))
    found = one.capacity(pod("web", node_selector={"pool": "gpu"}), by="pool")
    assert [(each.value, each.reasons) for each in found.binding] == [
        ("", {"node(s) didn't match Pod's node affinity/selector": 1}),
        ("gpu", {"Too many pods": 1}),
    ]
    assert found.binding[0].resource == ""


def test_nodes_outside_of_the_search_have_its_reason() -> None:
    one = scheduler(node("a"), node("b", "z"))
    found = one.capacity(pod("web", requests={"cpu": 3}, affinity=pinned("a")))
    assert [(each.value, each.reasons) for each in found.binding] == [
        ("", {"Insufficient cpu": 1}),
        ("z", {"node(s) didn't satisfy plugin(s) [NodeAffinity]": 1}),
    ]


# ---- what a scheduler does not schedule, and bad input -----------------------------------------------------


def test_gated_and_foreign_templates_are_counted_and_told() -> None:
    gated = pod("web", requests={"cpu": 1}, scheduling_gates=(PodSchedulingGate(name="hold"),))
    other = pod("web", requests={"cpu": 1}, scheduler_name="other")
    one = scheduler(node("a"))
    found = [one.capacity(template).templates[0] for template in (gated, other)]
    assert [(each.count, each.skipped) for each in found] == [(4, "gated"), (4, "other scheduler")]


@pytest.mark.parametrize(
    ("template", "settings", "message"),
    [
        ([], {}, "at least one template"),
        ([(pod("web"), 0)], {}, "default/web: share must be a positive whole number, not 0"),
        ([(pod("web"), True)], {}, "not True"),
        (["web"], {}, "web: no such file"),
        ([node("a")], {}, "must be a Pod, not Node"),
        (pod("web"), {"max": -1}, "max must be a whole number from 0 to 2147483647, not -1"),
    ],
)
def test_a_bad_template_or_setting_is_refused(template: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, TypeError)) as error:
        scheduler(node("a")).capacity(template, **settings)
    assert message in str(error.value)


def test_a_store_of_others_is_refused() -> None:
    one = scheduler(node("a"))

    class Foreign:
        def __getattr__(self, name: str) -> Any:
            return getattr(one.client, name)

    with pytest.raises(MoorageError, match="a transaction cannot take back"):
        Scheduler(Foreign()).capacity(pod("web"))  # type: ignore[arg-type]


# ---- shown -------------------------------------------------------------------------------------------------


def test_it_is_shown_and_converted() -> None:
    found = scheduler(node("a"), node("b")).capacity(pod("web", requests={"cpu": 3}))
    assert repr(found).splitlines() == [
        "default/web: 2; default/web fits nowhere: 0/2 nodes are available: 2 Insufficient cpu.",
        "TEMPLATE     NODE  REPLICAS",
        "default/web  a     1",
        "default/web  b     1",
    ]
    assert found.to_dict()["templates"] == [
        {"name": "default/web", "share": 1, "count": 2, "nodes": {"a": 1, "b": 1}}
    ]
    assert found.to_dict()["next"]["reasons"] == {"Insufficient cpu": 2}
    assert found.table().to_dict() == {
        "template": ["default/web"] * 2,
        "node": ["a", "b"],
        "replicas": [1, 1],
    }
