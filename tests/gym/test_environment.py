"""Environments of Gymnasium: what is observed, what an action does, and when an episode ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import moorage as mo
from moorage.autoscalers import NodeGroup
from moorage.engine import framework as fwk
from moorage.kube import (
    Affinity,
    Cluster,
    Deployment,
    DeploymentSpec,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodTemplateSpec,
    Toleration,
)
from moorage.sim.gym import SchedulingEnv, SchedulingVectorEnv, Transition
from moorage.sim.scheduling_policies import policies
from tests.doors.engine import bound
from tests.doors.sim import AutoscalerSpec, KarpenterTimes
from tests.house.source import ROOT
from tests.make import node, port
from tests.make import pod as pod_of
from tests.sim.policies.test_gpu_share import configuration
from tests.volume.make import uses
from tests.words import RESOURCE

CPU_AND_PODS = ("cpu", "pods")


def pod(name: str, cpu: str = "", other: dict[str, str] | None = None, **spec: Any) -> Pod:
    """A pod that requests cpu, and other resources."""
    return pod_of(name, requests=({"cpu": cpu} if cpu else {}) | (other or {}), **spec)


def timeline(*names: str, pods: int = 0, **allocatable: Any) -> mo.Timeline:
    out = mo.Timeline(Cluster(nodes=[node(name, **allocatable) for name in names]))
    if pods:
        out.add_pods(pod("web", cpu="1"), np.arange(1.0, pods + 1))
    return out


def make(over: mo.Timeline, **options: Any) -> SchedulingEnv:
    return SchedulingEnv(over, **({"resources": CPU_AND_PODS} | options))


def fits(env: SchedulingEnv) -> list[str]:
    """The nodes that the mask allows, and "" for leaving the pod pending."""
    table = episode_of(env).scheduler.table
    rows = np.flatnonzero(env.action_masks()).tolist()
    return sorted("" if row == env.action_space.n - 1 else table.row_name(row) for row in rows)


def episode_of(env: SchedulingEnv) -> Any:
    return env._runner.episode


def pod_at_hand(env: SchedulingEnv) -> Pod:
    found = env._runner._pod
    assert found is not None
    return found


def choose(env: SchedulingEnv, name: str) -> Any:
    """Take the step that places the pod at hand on a node; "" leaves it pending."""
    table = episode_of(env).scheduler.table
    return env.step(env.action_space.n - 1 if not name else table.find_row(name))


# ---- the interface -----------------------------------------------------------------------------------------


def test_gymnasium_s_own_check_passes() -> None:
    for over in timeline("a", "b", pods=300), lambda seed: timeline("a", "b", pods=300 + seed % 3):
        env = gymnasium.make("moorage.sim.gym:moorage/Scheduling-v0", timeline=over)
        assert isinstance(env.unwrapped, SchedulingEnv)
        check_env(env.unwrapped)


def test_observations_are_shares_of_the_largest_node() -> None:
    over = mo.Timeline(Cluster(nodes=[node("a", cpu="8"), node("b", cpu="4", pods="5")]))
    over.create(2.0, pod("web", cpu="2"), "w")
    over.create(3.0, pod("web", cpu="2"), "x")
    env = make(over)
    seen, told = env.reset(seed=1)
    assert env.observation_space.contains(seen)
    assert seen["nodes"].tolist() == [[1.0, 1.0], [0.5, 0.5]]
    assert seen["pod"].tolist() == [0.25, np.float32(0.1)]
    assert seen["mask"].tolist() == [1, 1, 1]
    assert told == {"time": 2.0, "pending": 0}
    later, reward, terminated, truncated, told = env.step(np.int64(0))
    assert (reward, terminated, truncated, told["time"]) == (1.0, False, False, 3.0)
    assert later["nodes"].tolist() == [[0.75, np.float32(0.9)], [0.5, 0.5]]
    assert seen["nodes"][0, 0] == 1.0  # the earlier observation is a copy
    for action in (-1, 3):
        with pytest.raises(
            gymnasium.error.InvalidAction, match=f"{action} is no action: they go from 0 to 2"
        ):
            env.step(np.int64(action))
    last, _, terminated, _, _ = env.step(np.int64(2))
    assert terminated
    assert (last["pod"].tolist(), last["mask"].tolist()) == ([0.0, 0.0], [0, 0, 1])
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(0))
    assert env.reset()[1]["time"] == 2.0


def test_extended_resources_are_columns() -> None:
    over = mo.Timeline(Cluster(nodes=[node("a", **{"example.com/gpu": "4"}), node("b")]))
    over.create(1.0, pod("p", other={"example.com/gpu": "1"}), "p")
    over.create(1.0, pod("p", other={"example.com/gpu": "1"}), "q")
    env = make(over, resources=("example.com/gpu", "none.example.com/x"))
    seen, _ = env.reset()
    assert (seen["nodes"].tolist(), seen["pod"].tolist()) == ([[1.0, 0.0], [0.0, 0.0]], [0.25, 0.0])
    assert fits(env) == ["", "a"]
    assert choose(env, "a")[0]["nodes"].tolist() == [[0.75, 0.0], [0.0, 0.0]]


def test_rewards_are_made_of_transitions() -> None:
    seen: list[Transition] = []

    def reward(one: Transition) -> float:
        seen.append(one)
        return -one.pending * one.elapsed

    env = make(timeline("a", pods=3), reward=reward)
    env.reset()
    assert [choose(env, name)[1] for name in ("", "a", "")] == [-1.0, -1.0, 0.0]
    assert [(one.pod.name, one.node, one.time, one.elapsed, one.pending) for one in seen] == [
        ("web-0", "", 1.0, 1.0, 1),
        ("web-1", "a", 2.0, 1.0, 1),
        ("web-2", "", 3.0, 0.0, 2),
    ]


def test_a_seed_decides_about_the_timeline() -> None:
    drawn: list[int] = []

    def of_seed(seed: int) -> mo.Timeline:
        drawn.append(seed)
        return timeline("a", pods=1 + seed % 5)

    env = SchedulingEnv(of_seed)
    for seed in (7, None, 7):
        env.reset(seed=seed)
    assert drawn[0] == 0  # for the spaces
    assert drawn[1] == drawn[3] != drawn[2]


def test_what_is_wrong_is_named() -> None:
    for options, text in (
        ({"resources": ()}, "resources: must not be empty"),
        ({"nodes": 0}, "nodes: must be at least 1, not 0"),
        ({"clock": lambda: 0.0}, "clock: is virtual in a replay"),
    ):
        with pytest.raises(mo.InputError, match=text):
            make(timeline("a", pods=1), **options)
    with pytest.raises(TypeError, match="timeline must be a Timeline or a callable, not Cluster"):
        make(mo.Cluster())  # type: ignore[arg-type]
    with pytest.raises(mo.InputError, match="no pod of the timeline needs a node"):
        make(timeline("a")).reset()
    over = timeline("a")
    over.create(1.0, pod("p", volumes=(uses(claim="c"),)), "p")
    with pytest.raises(mo.InputError, match=r"Pod default/p: has volumes or resource claims"):
        make(over).reset()
    over = timeline("a", pods=1)
    over.create(0.0, node("b"))
    with pytest.raises(mo.InputError, match="nodes: 2 nodes, where the spaces have room for 1"):
        make(over, nodes=1).reset()
    over = timeline("a", pods=1)
    over.autoscale(AutoscalerSpec(node_groups=[NodeGroup("g", node("b"))]))
    with pytest.raises(mo.InputError, match="autoscaler: only Karpenter makes nodes where an agent chooses"):
        make(over).reset()


def test_pods_that_are_left_pending_get_nodes_of_karpenter() -> None:
    pool = yaml.safe_load((ROOT / "examples/karpenter/replay.yaml").read_text())["spec"]["templates"]["pool"]
    over = mo.Timeline(mo.load(pool))
    over.add_pods(pod("web", cpu="1"), [1.0, 1.0, 30.0])
    types = str(ROOT / "examples/karpenter/instance_types.yaml")
    over.autoscale(AutoscalerSpec(karpenter=KarpenterTimes(instance_types=types)))
    env = make(over, nodes=2)
    env.reset()
    offers = []
    for name in ("", "", "", "general-1", "general-1", "general-1"):
        offers.append((episode_of(env).clock.now, fits(env)))
        _, _, is_over, _, told = choose(env, name if name in fits(env) else "")
    assert offers == [(1.0, [""])] * 2 + [(30.0, [""])] + [(52.0, ["", "general-1"])] * 3
    assert (is_over, told["pending"]) == (True, 0)


def test_pods_that_karpenter_evicts_are_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes go at noon, and the agent chooses where their pods go."""
    monkeypatch.chdir(ROOT)
    env = make(mo.Timeline.read("examples/karpenter/policies.yaml"), nodes=12)
    env.reset()
    offers, is_over = list[float](), False
    while not is_over:
        offers.append(episode_of(env).clock.now)
        names = [name for name in fits(env) if name]
        _, _, is_over, _, told = choose(env, names[0] if names else "")
    removed = [time for time, _, _ in episode_of(env).recorder.disruptions]
    assert removed[0] == 43275
    assert 43275 in offers
    assert told["pending"] == 0


def test_what_environments_do_not_have_is_refused() -> None:
    over = timeline("a", pods=1)
    with pytest.raises(mo.InputError, match="num_envs: must be at least 1, not 0"):
        SchedulingVectorEnv(0, over)
    for env_of in (SchedulingEnv, lambda of, **options: SchedulingVectorEnv(1, of, **options)):
        with pytest.raises(TypeError, match=r"^an environment takes no option rewrd; nearest: reward$"):
            env_of(over, rewrd=1)
    several = SchedulingVectorEnv(2, over)
    with pytest.raises(mo.InputError, match="seed: 1 seeds for 2 environments"):
        several.reset(seed=[1])
    for env in (make(over), several):
        with pytest.raises(mo.InputError, match="options: there is no option reset_mask"):
            env.reset(options={"reset_mask": 1})


def test_pods_that_name_a_node_take_part() -> None:
    """A row that pods name, without a node, is in no mask."""
    over = timeline("a")
    over.create(1.0, pod("p", cpu="1", node_name="nowhere"), "p")
    over.create(1.0, pod("p", cpu="1", node_name="a"), "q")
    over.create(2.0, pod("p", cpu="1"), "r")
    env = make(over)
    seen, _ = env.reset()
    assert env.action_space.n == 3
    assert (seen["nodes"].tolist(), fits(env)) == ([[0.75, np.float32(0.9)], [0.0, 0.0]], ["", "a"])


def test_without_gymnasium_the_extra_is_named() -> None:
    code = "import sys; sys.modules['gymnasium'] = None\nimport moorage.sim.gym"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        result.stderr.splitlines()[-1]
        == "ImportError: gymnasium is missing (extra rl): pip install gymnasium"
    )


# ---- the cluster -------------------------------------------------------------------------------------------


def test_a_pod_that_is_left_pending_comes_again_when_something_is_freed() -> None:
    over = timeline("a", cpu="2")
    for at, (name, priority) in enumerate([("p", 0), ("q", 0), ("r", 0), ("s", 5)]):
        over.create(float(at), pod(name, cpu="2", priority=priority), name)
    over.delete(10.0, "pod/p")
    over.delete(20.0, "pod/r")
    env = make(over)
    env.reset()
    assert choose(env, "a")[4]["pending"] == 0
    assert [choose(env, "")[4]["pending"] for _ in range(2)] == [1, 2]
    assert fits(env) == [""]  # s is offered for the first time, though it fits nowhere
    env.step(np.int64(0))  # an action that is excluded leaves the pod pending
    assert episode_of(env).clock.now == 10.0
    assert episode_of(env).pending == 3
    assert pod_at_hand(env).name == "s"  # of the highest priority
    assert choose(env, "a")[2]  # nothing else is freed: r is deleted while it is pending
    assert episode_of(env).recorder.live.keys() == {"default/q", "default/s"}
    assert list(episode_of(env).recorder.pending) == ["default/q"]


def test_nodes_come_and_go() -> None:
    over = timeline("a", "b")
    web = pod("web", cpu="1")
    over.create(1.0, web, "p0")
    over.leave(2.0, "a")
    over.create(3.0, web, "p1")
    over.create(4.0, node("c"))
    over.cordon(4.5, "b")
    over.create(5.0, web, "p2")
    over.patch(5.5, "pod/p2", {"metadata": {"labels": {"x": "y"}}})
    over.create(6.0, web, "p3")
    env = make(over)
    assert env.action_space.n == 4
    env.reset()
    choose(env, "a")
    assert fits(env) == ["", "b"]
    choose(env, "b")
    assert fits(env) == ["", "c"]
    choose(env, "")
    assert (pod_at_hand(env).name, pod_at_hand(env).metadata.labels) == ("p2", {"x": "y"})
    choose(env, "c")
    assert pod_at_hand(env).name == "p3"
    live = episode_of(env).recorder.live
    assert live.keys() == {"default/p1", "default/p2", "default/p3"}
    assert {one.name for one in episode_of(env).store.list(Pod)[0]} >= {"p1", "p2"}


def test_pods_of_workloads_are_offered() -> None:
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "web"}), spec=pod("web", cpu="1").spec)
    spec = DeploymentSpec(replicas=2, selector=LabelSelector(match_labels={"app": "web"}), template=template)
    over = timeline("a")
    over.apply(1.0, Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=spec))
    over.scale(2.0, "deploy/web", 3)
    env = make(over)
    env.reset()
    found = []
    for _ in range(3):
        found.append((pod_at_hand(env).name.partition("-")[0], episode_of(env).clock.now))
        ended = choose(env, "a")[2]
    assert ended
    assert found == [("web", 1.0), ("web", 1.0), ("web", 2.0)]
    assert not list(episode_of(env).queue.in_flight())
    assert [one.spec.node_name for one in episode_of(env).store.list(Pod)[0]] == ["a"] * 3


KINDS = (
    pod("plain", cpu="1"),
    pod("large", cpu="3", other={"memory": "4Gi"}),
    pod("port", cpu="1", ports=(port(80),)),
    pod("tolerant", cpu="1", tolerations=(Toleration(key="k", operator="Exists"),)),
    pod(
        "apart",
        labels={"app": "apart"},
        affinity=Affinity(
            pod_anti_affinity=PodAffinity(
                required=(
                    PodAffinityTerm(
                        label_selector=LabelSelector({"app": "apart"}),
                        topology_key="kubernetes.io/hostname",
                    ),
                )
            )
        ),
    ),
    pod("zonal", cpu="1", node_selector={"topology.kubernetes.io/zone": "z1"}),
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), min_size=1, max_size=25),
    st.randoms(use_true_random=False),
)
def test_the_mask_is_what_the_filters_pass(plan: list[tuple[int, int, bool]], random: Any) -> None:
    """Against a scheduler that is made anew over the same nodes and pods, for each pod at hand."""
    host = "kubernetes.io/hostname"
    nodes = [node(f"n{at}", zone=f"z{at % 2}", labels={host: f"n{at}"}) for at in range(4)]
    over = mo.Timeline(Cluster(nodes=nodes))
    for at, (kind, lifetime, cordons) in enumerate(plan):
        over.create(at, KINDS[kind], f"p{at}")
        if lifetime:
            over.delete(at + 2.0 * lifetime + 0.5, f"pod/p{at}")
        if cordons:
            (over.cordon if at % 2 else over.uncordon)(at + 0.25, f"n{at % 4}")
    env = make(over)
    env.reset()
    running: dict[str, tuple[Pod, str]] = {}
    ended = False
    while not ended:
        episode, at_hand = episode_of(env), pod_at_hand(env)
        running = {key: one for key, one in running.items() if key in episode.recorder.live}
        objects = [one for one in episode.scheduler.table.objects if one is not None]
        twin = mo.Scheduler(Cluster(nodes=objects, pods=[bound(*one) for one in running.values()]))
        expected = sorted(twin.can_schedule_pod(at_hand).nodes)
        assert fits(env) == ["", *expected]
        node_name = random.choice(["", *expected])
        if node_name:
            running[at_hand.key] = at_hand, node_name
        ended = choose(env, node_name)[2]


def test_reserve_plugins_choose_devices() -> None:
    """The worst fit puts two small shares on two GPUs, so that no whole GPU is left."""
    over = mo.Timeline(Cluster(nodes=[node("a", **{RESOURCE: "2000"})]))
    for at, milli in enumerate(("400", "400", "1000")):
        over.create(float(at), pod("p", cpu="100m", other={RESOURCE: milli}), f"p{at}")
    for rule, left in (("worst", [""]), ("best", ["", "a"])):
        config = configuration(gpuSelection=rule)
        env = make(over, config=config, registry=policies(), resources=(RESOURCE,))
        env.reset()
        choose(env, "a")
        choose(env, "a")
        assert fits(env) == left


class Picky(fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin):
    """Answers by the names of pods, and passes no node b."""

    name = "Picky"

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> fwk.Status | None:
        code = {"never": fwk.Code.UNSCHEDULABLE, "broken": fwk.Code.ERROR}.get(pod.name)
        return None if code is None else fwk.Status(code, ("not this one",))

    def filter(self, state: Any, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        assert node_info.node is not None
        return fwk.Status(fwk.Code.UNSCHEDULABLE, ("not here",)) if node_info.node.name == "b" else None

    def reserve(self, state: Any, pod: Pod, node_name: str) -> fwk.Status | None:
        return fwk.Status(fwk.Code.UNSCHEDULABLE, ("taken",)) if pod.name == "refused" else None

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        pass


def picky(*pods: str) -> SchedulingEnv:
    """An environment of three nodes with a plugin outside the core, and pods that come one by one."""
    config = configuration()
    config["profiles"][0]["plugins"]["multiPoint"] = {"enabled": [{"name": "Picky"}]}
    config["profiles"][0]["pluginConfig"] = []
    over = timeline("a", "b", "c")
    for at, name in enumerate(pods):
        over.create(float(at), pod("p", cpu="3"), name)
    return make(over, config=config, registry=fwk.Registry({"Picky": Picky}))


def test_plugins_outside_the_core_filter_and_reject() -> None:
    env = picky("first", "never", "second")
    env.reset()
    assert fits(env) == ["", "a", "c"]
    choose(env, "a")
    assert fits(env) == [""]
    choose(env, "")
    assert fits(env) == ["", "c"]  # the core's filters count too: there is no room on a
    assert choose(env, "c")[2]


def test_a_plugin_outside_the_core_that_fails_ends_the_episode() -> None:
    env = picky("first", "broken")
    env.reset()
    with pytest.raises(mo.MoorageError, match="not this one"):
        choose(env, "a")
    env = picky("first", "refused", "second")
    env.reset()
    choose(env, "a")
    with pytest.raises(mo.MoorageError, match=r"^Pod default/refused on node c: .*taken$"):
        choose(env, "c")


# ---- several environments ----------------------------------------------------------------------------------


def test_several_environments_are_as_single_ones() -> None:
    over = mo.Timeline(mo.synthetic(nodes=5))
    times = mo.poisson(rate=1, until=40, seed=3)
    over.add_pods(pod("web", cpu="2"), times, mo.exponential(mean=20, count=len(times), seed=3))
    several, singles = SchedulingVectorEnv(3, over, copy=False), [SchedulingEnv(over) for _ in range(3)]
    seen, _ = several.reset(seed=5)
    alone = [one.reset(seed=5 + at)[0] for at, one in enumerate(singles)]
    ended = [False] * 3
    random = np.random.default_rng(2)
    for _ in range(2 * len(times)):
        for name, values in seen.items():
            assert (values == np.stack([one[name] for one in alone])).all()
        assert several.observation_space.contains(seen)
        choices = [np.flatnonzero(mask) for mask in seen["mask"]]
        actions = np.array([random.choice(some) for some in choices])
        seen, rewards, terminations, truncations, told = several.step(actions)
        for at, env in enumerate(singles):
            if ended[at]:  # an episode begins again one step after its end
                alone[at], reward, ended[at] = env.reset()[0], 0.0, False
            else:
                alone[at], reward, ended[at], _, info = env.step(actions[at])
                assert (told["time"][at], told["pending"][at]) == (info["time"], info["pending"])
            assert rewards[at] == reward
        assert terminations.tolist() == ended
        assert not truncations.any()


def test_seeds_of_several_environments() -> None:
    several = SchedulingVectorEnv(2, lambda seed: timeline("a", "b", pods=1 + seed % 97))
    first = several.reset(seed=4)[0]

    def lengths() -> list[int]:
        return [len(one.episode.timeline) for one in several._runners]

    count = lengths()
    assert several.reset(seed=[4, 5])[0]["pod"].tolist() == first["pod"].tolist()
    assert lengths() == count
    several.reset()
    assert lengths() != count
