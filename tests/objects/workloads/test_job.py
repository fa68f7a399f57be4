"""The pods that a Job would still start; how many says the case `kube/missing_pods`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.objects.make import expand, owned, pod, workload

from moorage.kube import Object

INDEX = "batch.kubernetes.io/job-completion-index"


def run(spec: dict[str, Any], *listed: Object, **status: Any) -> list[Any]:
    """The pods that a Job gets in addition to those listed."""
    result = expand(workload("Job", "j", spec, status=status, metadata={"uid": "u"}), *listed)
    return result.pods[sum(item.name.startswith("x") for item in result.pods) :]


def listed(phase: str, number: int = 0, index: int | None = None, **metadata: Any) -> Object:
    annotations = {} if index is None else {INDEX: str(index)}
    meta = owned("Job", "j", annotations=annotations, **metadata)
    return pod(f"x-{phase.lower()}-{number}-{index or 0}", metadata=meta, status={"phase": phase})


def test_labels_and_owner() -> None:
    (item,) = run({})
    assert item.name.startswith("j-")
    assert item.metadata.labels == {
        "app": "j",
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "job-name": "j",
    }
    assert item.metadata.controller().uid == "u"


def indexes(spec: dict[str, Any], *pods: Object, **status: Any) -> list[int]:
    items = run({"completionMode": "Indexed"} | spec, *pods, **status)
    for item in items:
        index = item.metadata.annotations[INDEX]
        assert item.metadata.labels[INDEX] == index
        assert item.name.startswith(f"j-{index}-")
    return [int(item.metadata.annotations[INDEX]) for item in items]


@pytest.mark.parametrize(
    ("spec", "status", "pods", "expected"),
    [
        ({"completions": 3}, {}, [], [0]),
        ({"completions": 5, "parallelism": 3}, {}, [], [0, 1, 2]),
        ({"completions": 2, "parallelism": 3}, {}, [], [0, 1]),
        ({"completions": 6, "parallelism": 3}, {"completedIndexes": "0,2-3"}, [], [1, 4, 5]),
        (
            {"completions": 6, "parallelism": 3},
            {"completedIndexes": "0", "failedIndexes": "1"},
            [],
            [2, 3, 4],
        ),
        ({"completions": 6, "parallelism": 3}, {}, [listed("Running", index=1)], [0, 2]),
        ({"completions": 6, "parallelism": 3}, {}, [listed("Succeeded", index=0)], [1, 2, 3]),
        ({"completions": 6, "parallelism": 3}, {}, [listed("Failed", index=0)], [0, 1, 2]),
        ({"completions": 2_000_000_000}, {"completedIndexes": "0-1999999998"}, [], [1_999_999_999]),
        ({"completions": 2}, {"completedIndexes": "0-9"}, [], []),
        (
            {"completions": 6, "parallelism": 3, "podReplacementPolicy": "Failed"},
            {},
            [listed("Running", index=1, deletionTimestamp="2024-01-01T00:00:00Z")],
            [0, 2],
        ),
    ],
)
def test_an_indexed_job_makes_the_indexes_that_it_lacks(
    spec: dict[str, Any], status: dict[str, Any], pods: list[Object], expected: list[int]
) -> None:
    assert indexes(spec, *pods, **status) == expected


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.sets(st.integers(0, 14)), st.sets(st.integers(0, 14)))
def test_indexed_against_sets(
    completions: int, parallelism: int, completed: set[int], failed: set[int]
) -> None:
    text = {
        "completedIndexes": ",".join(map(str, sorted(completed))),
        "failedIndexes": ",".join(map(str, failed)),
    }
    free = sorted(set(range(completions)) - completed - failed)
    assert indexes({"completions": completions, "parallelism": parallelism}, **text) == free[:parallelism]
