"""Each policy's choice on clusters of a few nodes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import moorage as mo
from tests.words import RESOURCE

from .test_gpu_share import configuration, node, pod, scheduler

CAPACITIES = {"resources": {"cpu": 64_000, RESOURCE: 8000}}
# Nodes by how full they are; the pod that is scheduled shares 300 thousandths of a GPU.
CLUSTER = [
    node("empty", 8),
    node("half", 8),
    node("small", 1, cpu=8),
    *(pod(f"h{at}", 500, cpu="4", on="half") for at in range(8)),
]


def chosen(folder: Path, policy: str, args: dict[str, Any] | None, objects: list[dict[str, Any]]) -> str:
    made = scheduler(folder, objects, configuration(policy, args))
    made.run()
    return made.client.get("Pod", "p", "default").spec.node_name


@pytest.mark.parametrize(
    ("policy", "args", "name"),
    [
        ("BestFit", CAPACITIES, "small"),
        ("WorstFit", CAPACITIES, "empty"),
        ("DotProduct", CAPACITIES, "small"),
        ("Tetris", CAPACITIES, "empty"),
        ("GpuPacking", None, "half"),
        ("GpuClustering", None, "half"),
    ],
)
def test_the_node_that_a_policy_prefers(tmp_path: Path, policy: str, args: Any, name: str) -> None:
    assert chosen(tmp_path, policy, args, [*CLUSTER, pod("p", 300)]) == name


def test_clustering_keeps_kinds_apart(tmp_path: Path) -> None:
    objects = [node("a", 8), node("b", 8), pod("w", 1000, on="b"), pod("s", 400, on="a")]
    assert chosen(tmp_path, "GpuClustering", None, [*objects, pod("p", 1000)]) == "b"
    assert chosen(tmp_path, "GpuClustering", None, [*objects, pod("p", 300)]) == "a"


def test_fgd_avoids_fragments(tmp_path: Path) -> None:
    typical = [{"cpu": 1000, "gpuMilli": 1000, "share": 0.5}, {"cpu": 1000, "gpuMilli": 500, "share": 0.5}]
    objects = [node("a", 1), node("b", 1), pod("s", 400, on="b"), pod("p", 500)]
    made = scheduler(tmp_path, objects, configuration("FGD", typicalPods=typical))
    made.run()
    # On a, 500 remain that half of the pods cannot use; on b, 100 of what they could not use before.
    assert made.client.get("Pod", "p", "default").spec.node_name == "b"


def test_random_fit_is_uniform_and_seeded(tmp_path: Path) -> None:
    objects = [node(name, 0, cpu=200) for name in "abcd"] + [pod(f"p{at}", 0) for at in range(400)]
    first = scheduler(tmp_path, objects, configuration("RandomFit", {"seed": 3})).run().placements
    again = scheduler(tmp_path, objects, configuration("RandomFit", {"seed": 3})).run().placements
    other = scheduler(tmp_path, objects, configuration("RandomFit", {"seed": 4})).run().placements
    assert first == again != other
    assert all(70 < count < 130 for count in Counter(first.values()).values())


@pytest.mark.parametrize("policy", ["FGD", "GpuPacking", "GpuClustering"])
def test_policies_for_gpus_want_gpu_share(tmp_path: Path, policy: str) -> None:
    config = configuration(policy)
    config["profiles"][0]["plugins"]["multiPoint"]["enabled"] = []
    config["profiles"][0]["pluginConfig"] = []
    result = scheduler(tmp_path, [*CLUSTER, pod("p", 0)], config).run()
    assert "the profile has no plugin GpuShare" in str(result.unschedulable["default/p"])


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    for args, text in (
        ({"resource": {}}, "unknown argument resource"),
        ({"resources": {"cpu": 0}}, "resources: cpu: 0 is not above 0"),
    ):
        with pytest.raises(mo.InputError, match=text):
            scheduler(tmp_path, CLUSTER, configuration("BestFit", args))
