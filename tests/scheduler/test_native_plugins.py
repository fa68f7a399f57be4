"""Plugins behind the C ABI at work: verdicts, scores, failures, and runs that stay in C."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import schedule_one
from tests.framework.runtime.compiled import compiled
from tests.house.source import ROOT
from tests.make import node, pod
from tests.scheduler.make import scheduler_with, searched

import moorage as mo
from moorage import Scheduler, load_native_plugin
from moorage.engine.framework import Plugin
from moorage.errors import PluginError
from moorage.kube import Pod, PodStatus

GPU = "example.com/gpu"
EXAMPLE = ROOT / "examples" / "native_plugin"
Load = Callable[..., Plugin]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """The probe, compiled with macros."""
    return lambda **macros: load_native_plugin(compiled(tmp_path, **macros))


def pools(**of: str) -> list[Any]:
    return [node(name, labels={"pool": pool}) for name, pool in of.items()]


def breaking(name: str) -> Pod:
    """A pod that failing probes fail for."""
    return pod(name, labels={"app": "break"})


# ---- verdicts and scores -----------------------------------------------------------------------------------


def test_rejections_of_a_native_plugin_have_its_reason(load: Load) -> None:
    one = scheduler_with(
        load(FILTER="by_pool", REASON='"wrong pool"'), nodes=pools(a="bad", b="worse", c="bad")
    )
    assert searched(schedule_one(one.context, pod("p")).fit_error) == "0/3 nodes are available: 3 wrong pool."
    rejected = one.examine(pod("p")).rejected
    assert {name: (int(said.code), said.reasons, said.plugin) for name, said in rejected.items()} == {
        "a": (2, ("wrong pool",), "Probe"),
        "b": (3, ("wrong pool",), "Probe"),
        "c": (2, ("wrong pool",), "Probe"),
    }


def test_the_reason_of_a_plugin_that_gives_none(load: Load) -> None:
    one = scheduler_with(load(FILTER="by_pool"), nodes=pools(a="bad"), pods=[pod("p")])
    message = one.run().unschedulable["default/p"].message
    assert searched(message) == "0/1 nodes are available: 1 node(s) were rejected by plugin Probe."


def test_scores_are_normalized_and_weighted(load: Load) -> None:
    nodes = [node("a", **{GPU: "3"}), node("b", **{GPU: "9"})]
    one = scheduler_with(load(SCORE="by_gpus", NORMALIZE="doubles", WEIGHT=7), nodes=nodes)
    found = one.examine(pod("p"))
    without = scheduler_with(nodes=nodes).examine(pod("p"))
    assert found.raw["Probe"].tolist() == [3, 9]
    assert found.normalized["Probe"].tolist() == [6, 18]
    assert (found.total - without.total).tolist() == [42, 126]
    assert schedule_one(one.context, pod("p")).node == "b"


def test_a_plugin_is_asked_about_one_node(load: Load) -> None:
    """As `Framework` asks plugins for others, such as preemption."""
    nodes = [node("a", labels={"pool": "bad"}), node("b", labels={"pool": "worse"}), node("c", **{GPU: "4"})]
    one = scheduler_with(load(FILTER="by_pool", SCORE="by_gpus"), nodes=nodes)
    framework = one.context.rotation.engines[0].framework
    state = framework.new_state(pod("p"))
    framework.handle.begin_cycle()
    infos = {info.name: info for info in framework.handle.snapshot().node_info_list}
    said = [framework.run_filter_plugins(state, pod("p"), infos[name]) for name in "abc"]
    assert [None if status is None else int(status.code) for status in said] == [2, 3, None]
    scorer: Any = one.profile.plugins[-1]
    assert scorer.score(state, pod("p"), infos["c"]) == 4


# ---- failures ----------------------------------------------------------------------------------------------

WEIGHTS = "applying score defaultWeights on Score plugins: "
INVALID = (
    WEIGHTS
    + 'plugin "Probe" returns an invalid score {}, it should in the range of [0, 100] after normalizing'
)


@pytest.mark.parametrize(
    ("macros", "text"),
    [
        ({"FILTER": "filter_fails"}, 'running "Probe" filter plugin: filter of plugin "Probe" answered 5'),
        (
            {"FILTER": "wrong_code"},
            'running "Probe" filter plugin: '
            'filter of plugin "Probe" answered code 7 for node c, none of 0, 2 and 3',
        ),
        ({"SCORE": "score_fails"}, 'running Score plugins: plugin "Probe" failed with: no idea'),
        (
            {"SCORE": "by_gpus", "NORMALIZE": "normalize_fails"},
            'running Normalize on Score plugins: plugin "Probe" failed with: '
            'normalize of plugin "Probe" answered -3',
        ),
        ({"SCORE": "too_high"}, INVALID.format(101) + " (node c)"),
        ({"SCORE": "too_low"}, INVALID.format(-1) + " (node c)"),
    ],
)
def test_a_failure_is_the_error_of_the_pod_s_cycle(load: Load, macros: dict[str, Any], text: str) -> None:
    pods = [pod("p"), breaking("x"), breaking("y"), pod("q")]
    one = scheduler_with(load(**macros), pods=pods)
    assert one.profile.is_in_core
    assert one.examine(breaking("z")).error == text
    decision = schedule_one(one.context, breaking("z"))
    assert (decision.node, decision.error) == (None, text)
    one.placer.decider.start = 0
    result = one.run()
    assert result.placements.keys() == {"default/p", "default/q"}
    failures = {key: (failure.message, failure.reasons) for key, failure in result.unschedulable.items()}
    assert failures == {"default/x": (text, {}), "default/y": (text, {})}
    assert one.plugin_errors.keys() == {("Probe", "PluginError")}
    with pytest.raises(PluginError, match=re.escape(text)):
        scheduler_with(load(**macros), pods=[breaking("x")], fail_fast=True).run()


def test_a_run_that_fails_half_way_is_the_same_as_one_by_one(load: Load) -> None:
    """The fourth pod finds the scores beyond their range: three GPUs are taken on one node."""
    nodes = [node(name, **{GPU: "9"}) for name in "abc"]
    pods = [pod(f"p{number}", requests={GPU: "1"}) for number in range(6)]
    one = scheduler_with(load(SCORE="by_taken"), nodes=nodes, pods=pods)
    other = scheduler_with(load(SCORE="by_taken"), nodes=nodes)
    result, decisions = one.run(), [schedule_one(other.context, each) for each in pods]
    text = INVALID.format(120) + " (node a)"
    assert result.placements == {"default/p0": "a", "default/p1": "a", "default/p2": "a"}
    assert [decision.node for decision in decisions] == ["a", "a", "a", None, None, None]
    assert [failure.message for failure in result.unschedulable.values()] == [text] * 3
    assert [decision.error for decision in decisions[3:]] == [text] * 3
    assert one.placer.decider.start == other.placer.decider.start
    one.cache.remove_pod(one.cache.get_pod(pods[0]))
    assert set(one.run().placements.values()) == {"a"}


def test_several_schedulers_share_one(load: Load) -> None:
    plugin = load(FILTER="by_pool")
    one = scheduler_with(plugin, nodes=pools(a="bad", b="good"), pods=[pod("p")])
    other = scheduler_with(plugin, nodes=pools(c="good", d="bad"), pods=[pod("q")])
    forks = [one.fork(), other.fork()]
    placed = [each.run().placements for each in (one, other, *forks)]
    assert placed == [{"default/p": "b"}, {"default/q": "c"}] * 2


# ---- runs --------------------------------------------------------------------------------------------------


def test_a_run_stays_in_c(load: Load) -> None:
    one = scheduler_with(load(FILTER="by_pool", SCORE="by_gpus"))
    assert (one.profile.is_in_core, one.plan.needs_python, one.placer.decider.failed) == (True, False, False)


class TwinPack(mo.FilterPlugin, mo.ScorePlugin):
    """examples/native_plugin in Python."""

    name = "TwinPack"
    filter_reason = "node(s) were not in the GPU pool"
    default_weight = 10

    def filter_all(self, state: Any, pod: Pod, nodes: mo.NodesView) -> Any:
        if "nvidia.com/gpu" not in pod.spec.containers[0].resources.requests:
            return np.zeros(len(nodes), dtype=np.int64)
        return np.array([0 if pool == "gpu" else 3 for pool in nodes.labels("pool")])

    def score_all(self, state: Any, pod: Pod, nodes: mo.NodesView) -> Any:
        return nodes.allocatable["nvidia.com/gpu"] - nodes.requested["nvidia.com/gpu"]

    def normalize_score(self, state: Any, pod: Pod, scores: Any) -> Any:
        return 100 - scores * 100 // max(int(scores.max()), 1)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("example"), EXAMPLE / "gpu_pack.c")


NODES = st.lists(st.tuples(st.sampled_from(["gpu", "web", ""]), st.integers(0, 4)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(nodes=NODES, pods=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=12))
def test_the_same_as_in_python(example: Path, nodes: list[Any], pods: list[Any]) -> None:
    def world(plugin: Plugin) -> Scheduler:
        made = [
            node(f"n{at}", labels={"pool": pool} if pool else {}, **{"nvidia.com/gpu": str(gpus)})
            for at, (pool, gpus) in enumerate(nodes)
        ]
        asked = [
            pod(f"p{at}", requests={"nvidia.com/gpu": str(gpus)} if gpus else {}, labels={"a": str(label)})
            for at, (gpus, label) in enumerate(pods)
        ]
        return scheduler_with(plugin, nodes=made, pods=asked)

    native, twin = world(load_native_plugin(example)).run(), world(TwinPack()).run()
    assert native.placements == twin.placements
    assert {key: failure.message for key, failure in native.unschedulable.items()} == {
        key: failure.message for key, failure in twin.unschedulable.items()
    }


def test_two_schedulers_and_a_fork_have_views_of_their_own(load: Load) -> None:
    plugin = load(FILTER="by_pool")
    one = scheduler_with(plugin, nodes=pools(a="bad", b="good"))
    fork = one.cache.fork()
    fork.update_node(pools(a="bad")[0], pools(a="good")[0])
    fork.remove_node(pools(b="good")[0])
    placer = one.placer.clone(fork.state)
    target = one.context.target_of(pod("p"))
    assert fork.state.table.row_name(placer.decider.decide(*target)[0]) == "a"
    assert schedule_one(one.context, pod("p")).node == "b"


# ---- nominated pods ----------------------------------------------------------------------------------------


def test_nominated_pods_are_told_and_taken_back(tmp_path: Path) -> None:
    file = compiled(tmp_path, FILTER="by_count")
    library = ctypes.CDLL(str(file))
    counts = (ctypes.c_int32 * 64).in_dll(library, "moorage_counts")
    told = ctypes.c_int32.in_dll(library, "moorage_told")
    one = scheduler_with(load_native_plugin(file))
    before = replace(pod("m", requests={"cpu": "1"}, priority=5), status=PodStatus(nominated_node_name="a"))
    one.client.create(before)
    one.sync()
    assert [schedule_one(one.context, pod(f"p{number}")).node for number in range(3)] == [
        "b",
        "c",
        "b",
    ]
    assert (list(counts), told.value) == ([0] * 64, 6)


def test_pods_of_a_clone_are_told_and_taken_back(tmp_path: Path) -> None:
    file = compiled(tmp_path, FILTER="by_count")
    counts = (ctypes.c_int32 * 64).in_dll(ctypes.CDLL(str(file)), "moorage_counts")
    one = scheduler_with(load_native_plugin(file), pods=[pod("q", "a", requests={"cpu": "1"})])
    framework = one.context.rotation.engines[0].framework
    framework.handle.begin_cycle()
    info = next(info for info in framework.handle.snapshot().node_info_list if info.name == "a")
    state, clone = framework.new_state(pod("p")), info.clone()
    clone.add_pod(pod("r", requests={"cpu": "2"}))
    said = framework.run_filter_plugins(state, pod("p"), clone)
    assert said is not None
    assert (said.reasons, said.plugin) == (("node(s) were rejected by plugin Probe",), "Probe")
    assert framework.run_filter_plugins(state, pod("p"), info) is None
    counts[0] = 1000  # as if the plugin had counted the pod that is there
    assert framework.run_filter_plugins(state, pod("p"), info) is not None
    clone.remove_pod(clone.pods[0])
    clone.remove_pod(clone.pods[0])
    assert framework.run_filter_plugins(state, pod("p"), clone) is None
    assert list(counts) == [1000] + [0] * 63


# ---- the example -------------------------------------------------------------------------------------------


def test_the_example_of_a_native_plugin_packs_gpus(example: Path) -> None:
    command = [sys.executable, EXAMPLE / "run.py", example, EXAMPLE / "cluster.yaml"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    default, packed = result.stdout.split("with GpuPack:\n")
    nodes = [
        Counter(line.split(" -> ")[1] for line in text.splitlines() if " -> " in line)
        for text in (default, packed)
    ]
    assert nodes == [
        {"lab-1": 2, "gpu-1": 1, "gpu-2": 1, "web-1": 1},
        {"gpu-1": 4, "gpu-2": 1, "web-1": 1},
    ]
