"""Capacity counts what the engine places, replica after replica, and leaves the scheduler as it was. What it
prints is in `tests/cases/cli/capacity*.md`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage import Scheduler
from moorage.errors import InputError, MoorageError
from moorage.kube import Pod
from tests.core.make import pinned
from tests.make import ZONE, make, node, pod, port, scheduler, storage_class, volume

SAME = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}


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


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Scheduler, Pod]:
    nodes = []
    for at in range(draw(st.integers(1, 6))):
        taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if draw(st.booleans()) else []
        room = {"cpu": f"{draw(st.integers(0, 8)) * 500}m", "pods": draw(st.integers(0, 7))}
        labels = {"disk": draw(st.sampled_from(["ssd", "hdd"]))}
        zone = draw(st.sampled_from(["", "a", "b"]))
        nodes.append(node(f"n{at}", zone, labels, taints, **{"example.com/x": at % 3}, **room))
    bound = [
        pod(f"p{at}", f"n{at % len(nodes)}", {"cpu": "300m"}, labels={"app": "web"})
        for at in range(draw(st.integers(0, 4)))
    ]
    requests = {"cpu": f"{draw(st.sampled_from([0, 200, 500, 900]))}m"}
    requests |= {"example.com/x": "1"} if draw(st.booleans()) else {}
    spec: dict[str, Any] = {"node_selector": {"disk": "ssd"}} if draw(st.booleans()) else {}
    kind = draw(st.sampled_from(["plain", "DoNotSchedule", "ScheduleAnyway", "anti", "ports"]))
    if kind in ("DoNotSchedule", "ScheduleAnyway"):
        spec["topology_spread_constraints"] = [SAME | {"maxSkew": 1, "whenUnsatisfiable": kind}]
    if kind == "anti":
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [SAME]}
        spec["affinity"] = {"podAntiAffinity": required}
    ports = [port(80)] if kind == "ports" else []
    web = pod("web", requests=requests, labels={"app": "web"}, ports=ports, **spec)
    return scheduler(nodes, bound), web


@settings(deadline=None)
@given(clusters())
def test_it_counts_what_the_engine_places(made: tuple[Scheduler, Pod]) -> None:
    one, template = made
    before = one.fork()
    found = one.ask.capacity(template)
    counts, message = one_by_one(one, template)
    assert (found.count, found.message) == (counts.total(), message)
    if not template.spec.topology_spread_constraints:  # otherwise the order decides which nodes are left over
        assert found.templates[0].nodes == counts
    assert not before.ask.diff(one)


def test_max_ends_the_count() -> None:
    one, web = scheduler(node("a"), node("b")), pod("web", requests={"cpu": 1})
    found = one.ask.capacity(web, max=3)
    assert (found.count, found.failure, found.message, found.failed, found.binding) == (3, None, "", "", ())
    assert sum(found.templates[0].nodes.values()) == 3
    assert [one.ask.capacity(web, max=most).failure is None for most in (0, 8, 9)] == [True, True, False]


def test_evictions_are_told_and_taken_back() -> None:
    one = scheduler(node("a"), pod("low", "a", {"cpu": 3}, priority=0))
    found = one.ask.capacity(pod("web", requests={"cpu": 1}, priority=10))
    assert (found.count, found.failure and found.failure.nominated_node) == (1, "a")
    assert one.client.get(Pod, "low", "default").metadata.deletion_timestamp is None


def test_the_room_of_nominated_pods_is_kept() -> None:
    vip = pod("vip", requests={"cpu": 3}, priority=9, nominated="a")
    one, template = scheduler(node("a"), vip), pod("web", requests={"cpu": 1}, priority=0)
    assert one.ask.capacity(template).count == one_by_one(one, template)[0].total() == 1


def with_volume(storage_class: str) -> Pod:
    claim = {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"]}
    claim["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
    source = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    return pod("web", requests={"cpu": 1}, volumes=[source])


def test_each_replica_may_have_a_claim_of_its_own() -> None:
    one = scheduler(node("a"), storage_class("fast", "example.com"))
    found = one.ask.capacity(with_volume("fast"))
    assert (found.count, found.templates[0].nodes) == (4, {"a": 4})
    assert one.client.list(Pod)[0] == []
    assert one.ask.nodes_needed((with_volume("fast"), 4), like="a").nodes == 0


def test_static_volumes_are_taken_and_the_reasons_are_those_of_the_message() -> None:
    """Of a volume whose phase no controller has set yet."""
    one = scheduler(node("a"), storage_class("local"), volume("v", "local", hostPath={"path": "/v"}))
    found = one.ask.capacity(with_volume("local"))
    assert found.count == 1
    assert [each.reasons for each in found.binding] == [found.reasons]
    plans = [one.ask.nodes_needed((with_volume("local"), count), like="a") for count in (1, 2)]
    assert [plan.status for plan in plans] == ["found", "not found"]


def quota(**hard: Any) -> Any:
    return make("ResourceQuota", "default/q", {"hard": hard})


@pytest.mark.parametrize("ports", [[], [port(80)]])  # all at once, and by the engine
def test_a_quota_bounds_the_count(ports: Any) -> None:
    nodes = [node(f"n{at}") for at in range(9)]
    one, template = scheduler(nodes, quota(pods="5")), pod("web", requests={"cpu": 1}, ports=ports)
    found = one.ask.capacity(template)
    assert (found.count, found.failed, found.failure, found.binding) == (5, "default/web", None, ())
    assert found.message.endswith("exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5")
    assert found.headline() == f"default/web: 5; default/web is refused: {found.message}"
    assert found.to_dict()["next"] == {"template": "default/web", "message": found.message, "reasons": {}}
    assert one.ask.capacity(template, max=5).failed == ""
    assert scheduler(node("a"), quota(pods="99")).ask.capacity(template).failure is not None


@given(st.integers(0, 3_000), st.integers(0, 900))
@settings(max_examples=60, deadline=None)
def test_a_quota_admits_as_many_as_one_by_one(hard: int, request: int) -> None:
    one = scheduler(node("a", cpu=99, pods=99), quota(cpu=f"{hard}m", pods=30))
    found, asked = one.ask.capacity(pod("web", requests={"cpu": f"{request}m"})), {"cpu": f"{request}m"}
    pods = [pod(f"web{at}", requests=asked, metadata={"uid": ""}) for at in range(31)]
    with pytest.raises(InputError, match=f'pods "web{found.count}" is forbidden: exceeded quota') as error:
        one.change.apply(pods)
    assert error.value.message.partition("exceeded")[2] == found.message.partition("exceeded")[2]


def test_templates_share_a_quota() -> None:
    one = scheduler(node("a"), node("b"), quota(pods="5"))
    found = one.ask.capacity([(pod("web", requests={"cpu": 1}), 2), pod("db", requests={"cpu": 1})])
    assert ([each.count for each in found.templates], found.rounds) == ([2, 1], 1)
    assert (found.failed, found.message.startswith('pods "db" is forbidden')) == ("default/db", True)


def test_templates_are_counted_in_rounds() -> None:
    web, db = pod("web", requests={"cpu": 1}), pod("db", requests={"cpu": "1500m"})
    found = scheduler(node("a"), node("b", cpu="3")).ask.capacity([(web, 2), db])
    shares = [(each.name, each.share, each.count) for each in found.templates]
    assert shares == [("default/web", 2, 2), ("default/db", 1, 1)]
    assert (found.rounds, found.count, bool(found.failure)) == (1, 3, True)
    found = scheduler(node("a")).ask.capacity([(web, 3)], max=1)
    assert (found.rounds, found.count) == (1, 3)
    found = scheduler(node("a")).ask.capacity([web, web])
    assert [each.count for each in found.templates] == [2, 2]


# ---- what binds --------------------------------------------------------------------------------------------

CPU = "Insufficient cpu"


@pytest.mark.parametrize(
    ("nodes", "spec", "by", "binding"),
    [
        (
            [node("a", "x", cpu="1"), node("b", "y", pods="2"), node("c")],
            {"requests": {"cpu": "500m"}},
            ZONE,
            [
                ("", "cpu", "Insufficient cpu"),
                ("x", "cpu", "Insufficient cpu"),
                ("y", "pods", "Too many pods"),
            ],
        ),
        (
            [node("a", labels={"pool": "gpu"}), node("b")],
            {"node_selector": {"pool": "gpu"}},
            "pool",
            [("", "", "node(s) didn't match Pod's node affinity/selector"), ("gpu", "pods", "Too many pods")],
        ),
        (  # nodes outside of the search have its reason
            [node("a"), node("b", "z")],
            {"requests": {"cpu": 3}, "affinity": pinned("a")},
            ZONE,
            [("", "cpu", CPU), ("z", "", "node(s) didn't satisfy plugin(s) [NodeAffinity]")],
        ),
    ],
)
def test_the_resource_that_binds_by_a_label(
    nodes: Any, spec: dict[str, Any], by: str, binding: list[tuple[str, str, str]]
) -> None:
    found = scheduler(nodes).ask.capacity(pod("web", **spec), by=by)
    assert [(each.value, each.resource, *each.reasons) for each in found.binding] == binding
    assert [each.nodes for each in found.binding] == [1] * len(binding)


@pytest.mark.parametrize(
    ("template", "settings", "message"),
    [
        ([], {}, "at least one template"),
        ([(pod("web"), 0)], {}, "default/web: share must be a positive whole number, not 0"),
        ([(pod("web"), True)], {}, "not True"),
        (["web"], {}, 'no such file, and no workload or pod is named "web"'),
        ([node("a")], {}, "must be a Pod, not Node"),
        (pod("web"), {"max": -1}, "max must be a whole number from 0 to 2147483647, not -1"),
    ],
)
def test_a_bad_template_or_setting_is_refused(template: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, TypeError)) as error:
        scheduler(node("a")).ask.capacity(template, **settings)
    assert message in str(error.value)


def test_a_store_of_others_is_refused() -> None:
    one = scheduler(node("a"))

    class Foreign:
        def __getattr__(self, name: str) -> Any:
            return getattr(one.client, name)

    with pytest.raises(MoorageError, match="a transaction cannot take back"):
        Scheduler(Foreign()).ask.capacity(pod("web"))  # type: ignore[arg-type]
