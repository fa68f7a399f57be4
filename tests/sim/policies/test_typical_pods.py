"""Typical pods."""

from __future__ import annotations

from moorage.kube import Pod, decode_object
from tests.doors.sim import typical_pods

from .test_gpu_share import pod

MODEL_LABEL = "alibabacloud.com/gpu-card-model"


def made(milli: int, cpu: str, *models: str) -> Pod:
    document = pod("p", milli, cpu)
    if models:
        term = {"matchExpressions": [{"key": MODEL_LABEL, "operator": "In", "values": list(models)}]}
        required = {"nodeSelectorTerms": [term]}
        document["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
    one = decode_object(document)
    assert isinstance(one, Pod)
    return one


def test_shapes_by_falling_count_until_enough_pods_are_covered() -> None:
    pods = [
        (made(500, "4"), 50),
        (made(2000, "8", "T4", "A10"), 30),
        (made(0, "1"), 16),
        (made(1000, "2"), 4),
    ]
    assert typical_pods(pods) == [
        {"cpu": 4000, "gpuMilli": 500, "models": [], "share": 50 / 96},
        {"cpu": 8000, "gpuMilli": 2000, "models": ["A10", "T4"], "share": 30 / 96},
        {"cpu": 1000, "gpuMilli": 0, "models": [], "share": 16 / 96},
    ]


def test_equal_pods_count_together_and_ties_go_by_size() -> None:
    pods = [(made(500, "4"), 1), (made(500, "4"), 1), (made(500, "8"), 2), (made(700, "4"), 2)]
    assert [(one["cpu"], one["gpuMilli"]) for one in typical_pods(pods, 1.0)] == [
        (8000, 500), (4000, 700), (4000, 500),
    ]  # fmt: skip


def test_lists_that_name_a_model_twice_are_shapes_of_their_own() -> None:
    pods = [(made(500, "4", "A10", "T4", "T4"), 3), (made(500, "4", "A10", "T4"), 4)]
    assert [(one["models"], one["share"]) for one in typical_pods(pods, 1.0)] == [
        (["A10", "T4"], 4 / 7),
        (["A10", "T4", "T4"], 3 / 7),
    ]
