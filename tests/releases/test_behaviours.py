"""Behaviours of releases that no committed scenario tells apart."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests import make
from tests.doors.engine import InterPodAffinity, NodeResourcesFit, PreemptionDryRuns, on, schedule_one
from tests.make import Json

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import ActionType, ClusterEventWithHint, Code, QueueingHint, Status
from moorage.engine.scheduler import Profile
from moorage.errors import InputError
from moorage.kube import Cluster, Node, Pod, PodDisruptionBudget
from moorage.kube.releases import RELEASES, default_gates

ONE, TWO = {"cpu": "1"}, {"cpu": "2"}


def pod(name: str, namespace: str = "default", anti: tuple[Json, ...] = (), **fields: Any) -> Pod:
    terms = [{"topologyKey": "kubernetes.io/hostname"} | term for term in anti]
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    affinity = {"affinity": required} if anti else {}
    labels = fields.pop("labels", {"app": "web", "tier": name})
    return make.pod(f"{namespace}/{name}", labels=labels, **affinity, **fields)


def matching(**labels: str) -> dict[str, object]:
    return {"labelSelector": {"matchLabels": labels}}


@pytest.mark.parametrize(
    ("version", "fits"), [("1.34", False), ("1.35", False), ("1.36", False), ("1.37", True)]
)
def test_a_namespace_selector_with_not_in_alone(version: str, fits: bool) -> None:
    """Up to v1.36 it selects every namespace."""
    selector = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}
    other = make.make("Namespace", "other", metadata={"labels": {"team": "b"}})
    cluster = Cluster(nodes=[node("n1")], pods=[pod("w", "other", on="n1")], namespaces=[other])
    wanted = pod("p", anti=(matching(app="web") | {"namespaceSelector": selector},))
    seen = Scheduler(cluster, kubernetes_version=version).examine(wanted)
    assert (seen.feasible == ["n1"]) is fits


@pytest.mark.parametrize(("version", "wakes"), [("1.36", False), ("1.37", True)])
def test_a_deleted_pod_that_one_of_two_terms_repelled(version: str, wakes: bool) -> None:
    scheduler = Scheduler(kubernetes_version=version)
    plugin = next(one for one in scheduler.profile.plugins if isinstance(one, InterPodAffinity))
    gone = pod("gone", on="n1")
    waiting = pod("waiting", anti=(matching(tier="gone"), matching(tier="nobody")))
    hint = plugin.after_pod_change(waiting, gone, None)
    assert hint is (QueueingHint.QUEUE if wakes else QueueingHint.QUEUE_SKIP)


@pytest.mark.parametrize(("version", "wakes"), [("1.35", False), ("1.36", True)])
def test_a_deleted_pod_that_repelled_the_waiting_one(version: str, wakes: bool) -> None:
    scheduler = Scheduler(kubernetes_version=version)
    plugin = next(one for one in scheduler.profile.plugins if isinstance(one, InterPodAffinity))
    gone = pod("gone", anti=(matching(tier="waiting"),), on="n1")
    hint = plugin.after_pod_change(pod("waiting"), gone, None)
    assert hint is (QueueingHint.QUEUE if wakes else QueueingHint.QUEUE_SKIP)


def node(name: str) -> Node:
    return make.node(name, labels={"kubernetes.io/hostname": name}, cpu="2")


def budget(name: str, allowed: int, **labels: str) -> PodDisruptionBudget:
    spec, status = {"selector": {"matchLabels": labels}, "minAvailable": 1}, {"disruptionsAllowed": allowed}
    made: PodDisruptionBudget = make.make("PodDisruptionBudget", f"default/{name}", spec, status=status)
    return made


@pytest.mark.parametrize(("version", "target", "violations"), [("1.36", "n2", 1), ("1.37", "n1", 0)])
def test_a_pod_counts_against_budgets_up_to_the_first_that_it_violates(
    version: str, target: str, violations: int
) -> None:
    """So that another pod on n1 may go without a violation, and its priority is lower than that on n2."""
    pods = [
        pod("both", requests=ONE, labels={"a": "a", "b": "b"}, priority=2, on="n1"),
        pod("one", requests=ONE, labels={"b": "b"}, priority=0, on="n1"),
        pod("free", requests=TWO, labels={}, priority=1, on="n2"),
    ]
    budgets = [budget("a", 0, a="a"), budget("b", 1, b="b")]
    scheduler = Scheduler(
        Cluster(nodes=[node("n1"), node("n2")], pods=pods, others=budgets), kubernetes_version=version
    )
    scheduler.sync()
    asked = pod("high", requests=ONE, labels={}, priority=9)
    engine = scheduler.engines["default-scheduler"]
    state = engine.framework.new_state(asked)
    engine.framework.run_pre_filter_plugins(state, asked)
    runs = PreemptionDryRuns(engine.handle, state, asked, budgets)
    by_kernels = runs.run(["n1"], 0, 1)[0][0]
    info = scheduler.cache.node_info("n1")
    assert info is not None
    by_filters = runs.select_victims_on_node(info)
    assert [by_kernels.victims.num_pdb_violations, by_filters[1]] == [violations] * 2
    with scheduler.preempt_pods([asked]) as preemption:
        assert scheduler.table.row_name(preemption.rows[0]) == target


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_a_pod_that_evicts_others_is_told(version: str) -> None:
    """In v1.37."""
    low = pod("low", requests=TWO, labels={}, on="n1")
    scheduler = Scheduler(Cluster(nodes=[node("n1")], pods=[low]), kubernetes_version=version)
    high = scheduler.client.create(pod("high", requests=ONE, labels={}, priority=9))
    scheduler.sync()
    decision = schedule_one(scheduler.context, high)
    assert decision.nominating is not None
    assert decision.nominating.nominated_node_name == "n1"
    told = " preemption: found a potential placement for pod on node n1, preempting 1 victims"
    text = "0/1 nodes are available: 1 Insufficient cpu."
    assert decision.fit_error == text + told * (version == "1.37")


class Waiting(mo.FilterPlugin, mo.EnqueueExtensions):
    """Rejects every pod, and wants to hear of changes of the rejected pod itself."""

    name = "Waiting"

    def filter(self, state: object, pod: Pod, node_info: object) -> Status:
        return Status(Code.UNSCHEDULABLE, ("not yet",))

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [on("TargetPod", ActionType.UPDATE_POD_LABEL)]


def test_plugins_register_events_of_the_pod_itself_in_1_37() -> None:
    def scheduler(version: str) -> Scheduler:
        release = RELEASES[version]
        plugins = default_profile(default_gates(release)).plugins
        profile = Profile((*plugins, Waiting()), release=release)
        cluster = Cluster(nodes=[node("n1")], pods=[pod("p"), pod("q")])
        return Scheduler(cluster, profile=profile, kubernetes_version=version)

    with pytest.raises(InputError, match=r'"Waiting": .*: Kubernetes 1\.36 has no events of TargetPod'):
        scheduler("1.36")
    one = scheduler("1.37")
    assert len(one.run().unschedulable) == 2
    changed = pod("q")
    one.client.update(replace(changed, metadata=replace(changed.metadata, labels={"a": "b"})))
    one.sync()
    pending = one.queue.pending_pods()
    assert [[info.pod.name for info in infos] for infos in (pending.backoff, pending.unschedulable)] == [
        ["q"],
        ["p"],
    ]


@pytest.mark.parametrize(("version", "is_lower"), [("1.36", True), ("1.37", False)])
def test_a_resize_that_ends_is_a_lower_request_by_the_rule_of_the_release(
    version: str, is_lower: bool
) -> None:
    """Two containers change places: the sum of their maxima is larger then, the largest sum is not."""

    def cpus(asked: tuple[str, str], allocated: tuple[str, str]) -> Pod:
        resources = [{"requests": {"cpu": cpu}} for cpu in asked]
        containers = [{"name": name, "resources": each} for name, each in zip("ab", resources, strict=True)]
        held = [{"requests": {"cpu": cpu}} for cpu in allocated]
        statuses = [
            {"name": name, "allocatedResources": each["requests"], "resources": each}
            for name, each in zip("ab", held, strict=True)
        ]
        return make.pod("p", "n1", containers=containers, status={"containerStatuses": statuses})

    scheduler = Scheduler(Cluster(nodes=[node("n1")]), kubernetes_version=version)
    old, new = cpus(("1", "3"), ("3", "1")), cpus(("1", "3"), ("1", "3"))
    actions = [event.action for event in scheduler.queue.pod_events.of_update(old, new)]
    assert (ActionType.UPDATE_POD_SCALE_DOWN in actions) is is_lower
    fit = next(one for one in scheduler.profile.plugins if isinstance(one, NodeResourcesFit))
    hint = fit.after_pod_change(pod("waiting", requests=ONE, labels={}), old, new)
    assert (hint is QueueingHint.QUEUE) is is_lower
