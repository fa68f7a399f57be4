"""Plugins of rows: the core's loop, failures of one pod, forks, and groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scheduler.groups.gang_kit import GATES
from tests.scheduler.transactions.interrupts import check_usage, struck
from tests.sim.policies.test_gpu_share import configuration, free, node, pod, scheduler

import moorage as mo
from moorage import RowPlugin
from moorage.engine import framework as fwk
from moorage.sim.scheduling_policies import policies


class Numbered(RowPlugin, fwk.FilterPlugin, fwk.ScorePlugin):
    """Filters and scores by the numbers of rows, and notes about which requests it has been asked."""

    name = "Numbered"
    default_weight = 1
    filter_reason = "node(s) had another number"

    def __init__(self, args: Any = None, handle: fwk.FrameworkHandle | None = None) -> None:
        super().__init__(args, handle)
        self.asked: list[int] = []

    def begin(self) -> None:
        self.asked.append(self.shape.requests[0])
        if self.shape.requests[0] == 3000:
            raise LookupError("nothing is known of three")

    def filter_rows(self, rows: Any) -> Any:
        return (rows > 0) & (self.shape.requests[0] != 4000)

    def score_rows(self, rows: Any) -> Any:
        return rows.astype(np.int64) * self.args.get("factor", 10)


def made(
    folder: Path, pods: list[dict[str, Any]], plugin: type[Numbered] = Numbered, **args: Any
) -> mo.Scheduler:
    config = configuration()
    profile = config["profiles"][0]
    profile["plugins"] = {
        "multiPoint": {"enabled": [{"name": "Numbered"}]},
        "preScore": {"disabled": [{"name": "*"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Numbered"}]},
    }
    profile["pluginConfig"] = [{"name": "Numbered", "args": args}]
    path = folder / "objects.json"
    scheduler(folder, [*(node(f"n{at}", 0) for at in range(3)), *pods], configuration())
    registry = fwk.Registry({"Numbered": plugin})
    return mo.Scheduler(mo.load(path), config=config, registry=registry, tie_break="first")


def plugin_of(scheduler: mo.Scheduler) -> Numbered:
    (plugin,) = (one for one in scheduler.profile.plugins if isinstance(one, Numbered))
    return plugin


def test_the_core_places_pods_by_a_plugin_of_rows(tmp_path: Path) -> None:
    one = made(tmp_path, [pod("p", 0), pod("q", 0, cpu="2"), pod("four", 0, cpu="4")])
    assert one.profile.is_in_core
    result = one.run()
    assert result.placements == {"default/p": "n2", "default/q": "n2"}
    assert result.unschedulable["default/four"].reasons == {Numbered.filter_reason: 3}
    assert {1000, 2000} <= set(plugin_of(one).asked)


def test_an_exception_fails_the_pod_alone(tmp_path: Path) -> None:
    result = made(tmp_path, [pod("p", 0), pod("three", 0, cpu="3"), pod("q", 0)]).run()
    assert set(result.placements) == {"default/p", "default/q"}
    text = str(result.unschedulable["default/three"])
    assert 'plugin "Numbered" raised LookupError: nothing is known of three' in text


@pytest.mark.parametrize("factor", [-1, 51])
def test_a_score_out_of_range_fails_the_pod(tmp_path: Path, factor: int) -> None:
    result = made(tmp_path, [pod("p", 0)], factor=factor).run()
    score = 2 * factor if factor > 0 else factor
    assert f'plugin "Numbered" returns an invalid score {score}' in str(result.unschedulable["default/p"])


class Coded(Numbered):
    """Answers codes, as a plugin in C does: the first node rejects for good."""

    name = "Numbered"

    def filter_rows(self, rows: Any) -> Any:
        return np.where(rows > 0, fwk.Code.SUCCESS, fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def test_a_filter_answers_booleans_or_codes(tmp_path: Path) -> None:
    one = made(tmp_path, [pod("p", 0)], Coded)
    assert one.run().placements == {"default/p": "n2"}
    rejected = one.examine(pod("q", 0)).rejected
    assert rejected["n0"].code == fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_filter_without_a_reason_is_named(tmp_path: Path) -> None:
    one = made(tmp_path, [pod("four", 0, cpu="4")], type("Numbered", (Numbered,), {"filter_reason": ""}))
    assert one.run().unschedulable["default/four"].reasons == {"node(s) didn't satisfy plugin Numbered": 3}


RECORDS = np.zeros(1, dtype=[("row", np.int32), ("score", np.float64)])
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "records": ({"filter_rows": lambda self, rows: self.nodes(RECORDS).names}, "Buffer dtype mismatch"),
    "codes": ({"filter_rows": lambda self, rows: rows + 7}, "neither booleans nor codes of Filter"),
    "a shape of codes": (
        {"filter_rows": lambda self, rows: [True]},
        r"filter_rows of .* answered shape \(1,\)",
    ),
    "a shape": ({"score_rows": lambda self, rows: [1]}, r"scores of shape \(1,\) for 2 nodes"),
    "a fraction": ({"score_rows": lambda self, rows: rows + 0.5}, r"score 1\.5 is not an integer"),
    "normalized ones": ({"normalize_rows": lambda self, scores: scores[:1]}, r"shape \(1,\) for 2 nodes"),
}


@pytest.mark.parametrize(("methods", "text"), WRONG.values(), ids=WRONG)
def test_an_answer_that_is_refused_fails_the_pod(tmp_path: Path, methods: Any, text: str) -> None:
    one = made(tmp_path, [pod("p", 0)], type("Numbered", (Numbered,), methods))
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(str(one.run().unschedulable["default/p"]))
    assert one.plugin_errors


def test_scores_are_shown(tmp_path: Path) -> None:
    one = made(tmp_path, [pod("p", 0)])
    found = one.examine(one.client.get("Pod", "p", "default"))
    assert found.normalized["Numbered"].tolist() == [10, 20]


def test_a_run_that_is_measured_places_the_same(tmp_path: Path) -> None:
    one = made(tmp_path, [pod("p", 0)])
    one.measure()
    assert one.run().placements == {"default/p": "n2"}


def test_a_fork_has_a_plugin_of_its_own(tmp_path: Path) -> None:
    one = made(tmp_path, [pod("p", 0)])
    before = len(plugin_of(one).asked)
    branch = one.fork()
    branch.run()
    assert plugin_of(branch).asked
    assert len(plugin_of(one).asked) == before


def test_pods_of_a_group_see_the_gpus_of_its_other_members(tmp_path: Path) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
    }
    members = [pod(f"m{at}", 600) for at in range(4)]
    for one in members:
        one["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    scheduler(tmp_path, [node("a", 3), group, *members], configuration())
    made = mo.Scheduler(
        mo.load(tmp_path / "objects.json"),
        config=configuration(),
        registry=policies(),
        tie_break="first",
        feature_gates=GATES,
    )
    assert not made.run().placements  # by their sum they would fit
    assert free(made) == {"a": [1000] * 3}


VERBS: dict[str, Callable[[mo.Scheduler], object]] = {
    "run": mo.Scheduler.run,
    "schedule_pods": lambda one: one.schedule_pods(list(one.pods.pending.values())),
    "capacity": lambda one: one.ask.capacity(next(iter(one.pods.pending.values())), max=3),
    "explain": lambda one: one.ask.explain("default/p0"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_interrupt_in_a_policy_is_lost(tmp_path: Path, verb: str) -> None:
    """At any line of it, whatever calls it back."""
    config = configuration("BestFit", {"resources": {"cpu": 64_000}})
    objects = [node("a", 0), node("b", 0), *(pod(f"p{at}", 0) for at in range(2))]
    room, at = str(Path(inspect.getfile(policies)).parent), 1
    one = scheduler(tmp_path, objects, config)
    while struck(partial(VERBS[verb], one), at, room):
        check_usage(one)
        one, at = scheduler(tmp_path, objects, config), at + 9
    assert at > 9


@pytest.mark.parametrize("method", ["filter_rows", "score_rows", "begin"])
def test_an_interrupt_in_a_plugin_ends_the_run(tmp_path: Path, method: str) -> None:
    """At its first call; those after it do what they do."""
    calls: list[object] = []

    def interrupted(plugin: Numbered, *rows: Any) -> Any:
        calls.append(plugin)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return getattr(Numbered, method)(plugin, *rows)

    plugin = type("Interrupted", (Numbered,), {method: interrupted})
    one = made(tmp_path, [pod(f"p{at}", 0) for at in range(3)], plugin)
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert not one.cache.state.pods()
    assert len(one.run().placements) == 3


def test_an_exception_names_the_pod(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = made(tmp_path, [pod("p", 0), pod("three", 0, cpu="3"), pod("q", 0)])
    one.run()
    assert caplog.records[0].getMessage().startswith('pod default/three: plugin "Numbered" raised')
    assert not one.handle.plugin_errors.untold


def test_an_exception_that_does_not_come_again_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As that of a timer: the pod is decided again, and the log has it."""
    answers = [TimeoutError("too slow")]

    class SlowOnce(Numbered):
        def score_rows(self, rows: Any) -> Any:
            if answers:
                raise answers.pop()
            return super().score_rows(rows)

    assert len(made(tmp_path, [pod("p", 0), pod("q", 0, cpu="2")], SlowOnce).run().placements) == 2
    assert "pod default/p: " in caplog.text
