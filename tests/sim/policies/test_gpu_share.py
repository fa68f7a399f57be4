"""GpuShare in a scheduler: GPUs of pods, their release, transactions and forks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moorage as mo
from moorage.sim.scheduling_policies import policies
from tests import make
from tests.doors.sim import GpuShare
from tests.make import manifest
from tests.words import RESOURCE

MODEL_LABEL = "alibabacloud.com/gpu-card-model"


def node(name: str, gpus: int, model: str = "T4", cpu: int = 64) -> dict[str, Any]:
    amounts = {"cpu": str(cpu), "memory": "256Gi", "pods": "110", RESOURCE: str(1000 * gpus)}
    return manifest(make.node(name, labels={MODEL_LABEL: model}, status={"capacity": amounts}, **amounts))


def pod(name: str, milli: int, cpu: str = "1", on: str = "") -> dict[str, Any]:
    return manifest(make.pod(name, on, {"cpu": cpu} | ({RESOURCE: str(milli)} if milli else {})))


def configuration(policy: str = "", args: dict[str, Any] | None = None, **share: Any) -> dict[str, Any]:
    """One profile with GpuShare, scored by one policy alone."""
    enabled = [{"name": policy, "weight": 1000}] if policy else []
    plugins = {
        "multiPoint": {"enabled": [{"name": "GpuShare"}]},
        "preScore": {"disabled": [{"name": "*"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": enabled},
    }
    config = [{"name": "GpuShare", "args": share}, *([{"name": policy, "args": args}] if args else [])]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins, "pluginConfig": config}],
    }


def scheduler(folder: Path, objects: list[dict[str, Any]], config: dict[str, Any]) -> mo.Scheduler:
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return mo.Scheduler(mo.load(path), config=config, registry=policies(), tie_break="first")


def share_of(made: mo.Scheduler) -> GpuShare:
    """The plugin of a scheduler, brought up to date."""
    (plugin,) = (one for one in made.profile.plugins if isinstance(one, GpuShare))
    plugin.follow()
    return plugin


def free(made: mo.Scheduler) -> dict[str, list[int]]:
    shares = share_of(made).shares
    table = made.table
    return {table.row_name(row): shares.free(row) for row in range(table.used)}


def test_shares_and_whole_gpus(tmp_path: Path) -> None:
    objects = [node("a", 2), pod("half", 500), pod("third", 300), pod("whole", 1000), pod("more", 300)]
    made = scheduler(tmp_path, objects, configuration())
    result = made.run()
    assert set(result.placements) == {"default/half", "default/third", "default/whole"}
    assert result.unschedulable["default/more"].reasons == {f"Insufficient {RESOURCE}": 1}
    assert free(made) == {"a": [200, 0]}
    assert share_of(made).allocations["whole"] == ("a", 1000, (1,))


def test_a_share_does_not_fit_the_sum_of_rests(tmp_path: Path) -> None:
    made = scheduler(tmp_path, [node("a", 2), pod("p", 600), pod("q", 600), pod("r", 600)], configuration())
    result = made.run()
    assert result.unschedulable["default/r"].reasons == {GpuShare.filter_reason: 1}
    assert free(made) == {"a": [400, 400]}


def test_a_share_of_several_gpus_is_refused_by_name(tmp_path: Path) -> None:
    made = scheduler(tmp_path, [node("a", 2), pod("p", 1500)], configuration())
    (reason,) = made.run().unschedulable["default/p"].reasons
    assert reason == f"{RESOURCE}: 1500 must be a share of one GPU or a number of whole GPUs"


def test_gpus_of_a_deleted_pod_are_free_again(tmp_path: Path) -> None:
    made = scheduler(tmp_path, [node("a", 1), pod("p", 700), pod("q", 700)], configuration())
    made.run()
    made.client.delete("Pod", "p", "default")
    made.run()
    assert made.client.get("Pod", "q", "default").spec.node_name == "a"
    assert free(made) == {"a": [300]}


def test_pods_that_others_have_bound_take_the_best_fit(tmp_path: Path) -> None:
    bound = [pod("p", 700, on="a"), pod("q", 200, on="a"), pod("r", 200, on="a")]
    made = scheduler(tmp_path, [node("a", 2), *bound], configuration())
    assert free(made) == {"a": [100, 800]}


def test_preemption_frees_the_gpus_of_its_victims(tmp_path: Path) -> None:
    high = pod("high", 1000)
    high["spec"]["priority"] = 100
    objects = [node("g", 2), pod("whole", 1000, on="g"), pod("share", 600, on="g"), high]
    made = scheduler(tmp_path, objects, configuration())
    result = made.run()
    assert dict(result.placements) == {"default/high": "g"}
    assert result.evicted.keys() == {"default/share"}  # the GPU of the other pod is as large, and not needed
    assert sorted(free(made)["g"]) == [0, 0]


def test_preemption_finds_no_victims_where_single_gpus_stay_too_full(tmp_path: Path) -> None:
    high = pod("high", 2000)
    high["spec"]["priority"] = 100
    kept = pod("kept", 300, on="g")
    kept["spec"]["priority"] = 1000
    made = scheduler(tmp_path, [node("g", 2), pod("low", 1000, on="g"), kept, high], configuration())
    result = made.run()
    assert not result.placements
    assert not result.evicted


def test_a_rollback_gives_gpus_back_and_leaves_later_choices_as_they_were(tmp_path: Path) -> None:
    objects = [node("a", 4), *(pod(f"p{at}", 300) for at in range(6))]
    config = configuration(gpuSelection="random", seed=7)
    one, other = scheduler(tmp_path, objects, config), scheduler(tmp_path, objects, config)
    with one.transaction():
        one.run()
        assert free(one) != free(other)
    assert free(one) == free(other) == {"a": [1000] * 4}
    one.run()
    other.run()
    assert share_of(one).allocations == share_of(other).allocations


def test_a_fork_has_gpus_of_its_own(tmp_path: Path) -> None:
    objects = [node("a", 2), pod("p", 300, on="a"), pod("q", 600)]
    made = scheduler(tmp_path, objects, configuration())
    branch = made.fork()
    branch.run()
    assert free(branch) == {"a": [100, 1000]}
    assert free(made) == {"a": [700, 1000]}


@pytest.mark.parametrize(("rule", "gpu"), [("best", 0), ("worst", 1)])
def test_rules_for_the_gpu_to_share(tmp_path: Path, rule: str, gpu: int) -> None:
    objects = [node("a", 2), pod("p", 400, on="a"), pod("q", 100)]
    made = scheduler(tmp_path, objects, configuration(gpuSelection=rule))
    made.run()
    assert share_of(made).allocations["q"] == ("a", 100, (gpu,))


def test_the_gradient_leaves_room_for_typical_pods(tmp_path: Path) -> None:
    typical = [{"cpu": 1000, "gpuMilli": 600, "share": 1.0}]
    # Of 600 and 1000 free thousandths, 200 from the first one would leave 400 that a typical pod cannot use.
    objects = [node("a", 2), pod("p", 400, on="a"), pod("q", 200)]
    made = scheduler(tmp_path, objects, configuration("FGD", gpuSelection="gradient", typicalPods=typical))
    made.run()
    assert share_of(made).allocations["q"] == ("a", 200, (1,))


def test_shares_are_those_of_the_pods_after_many_changes(tmp_path: Path) -> None:
    names = [f"n{at}" for at in range(5)]
    objects = [node(name, at % 4) for at, name in enumerate(names)]
    made = scheduler(tmp_path, objects, configuration("GpuPacking"))
    random = np.random.default_rng(1)
    alive: list[str] = []
    for step in range(60):
        if alive and random.random() < 0.4:
            made.client.delete("Pod", alive.pop(int(random.integers(len(alive)))), "default")
        else:
            alive.append(f"p{step}")
            one = mo.load(
                _file(tmp_path, pod(alive[-1], int(random.choice([0, 250, 600, 1000, 2000]))))
            ).pods[0]
            made.client.create(one)
        made.run()
        table, shares = made.table, share_of(made).shares
        for row in range(table.used):
            amount, requested = table.row_others(row).get(RESOURCE, (0, 0))
            assert sum(shares.free(row)) == amount - requested
            assert all(0 <= left <= 1000 for left in shares.free(row))


def _file(folder: Path, one: dict[str, Any]) -> Path:
    path = folder / "one.json"
    path.write_text(json.dumps(one))
    return path


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    for share, text in (
        ({"gpuSelection": "first"}, "gpuSelection must be one of"),
        ({"gpuSelector": "best"}, "unknown argument gpuSelector"),
    ):
        with pytest.raises(mo.InputError, match=text):
            scheduler(tmp_path, [node("a", 1)], configuration(**share))


def test_a_node_with_too_many_gpus_is_an_error(tmp_path: Path) -> None:
    made = scheduler(tmp_path, [node("a", 17), pod("p", 100)], configuration())
    assert "node a: 17 GPUs, where 16 are possible" in str(made.run().unschedulable["default/p"])
