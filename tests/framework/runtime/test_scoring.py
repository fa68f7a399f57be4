"""Score and NormalizeScore: control flow and texts of kube-scheduler v1.36's runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.framework.make import ERROR, UNSCHEDULABLE, framework, make, status
from tests.make import pod

from moorage.engine.framework import CycleState, ScorePlugin

FAILED = 'running Score plugins: plugin "P" failed with: '
NORMALIZE = 'running Normalize on Score plugins: plugin "P" failed with: '
RANGE = (
    'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score {}, '
    "it should in the range of [0, 100] after normalizing"
)


def scored(*plugins: Any, **settings: Any) -> list[Any]:
    """(node, scores by plugin, total) of each node."""
    one = framework(*plugins, **settings)
    records, failed = one.run_score_plugins(CycleState(), pod("p"), one.all_nodes())
    assert failed is None
    return [(record.name, record.scores, record.total_score) for record in records]


def failure(**answers: Any) -> str:
    one = framework(make(ScorePlugin, "P", **answers))
    records, failed = one.run_score_plugins(CycleState(), pod("p"), one.all_nodes())
    assert records == []
    assert failed is not None
    assert (failed.code, failed.plugin) == (ERROR, "")
    return failed.message()


# ---- Score -------------------------------------------------------------------------------------------------


def test_records_are_weighted_and_summed() -> None:
    one = make(ScorePlugin, "One", score=lambda self, state, pod, info: {"a": 10, "b": 20}[info.name])
    two = make(ScorePlugin, "Two", score_all=lambda self, state, pod, nodes: [1] * len(nodes))
    assert scored(one, two, weight_overrides={"One": 3}) == [
        ("a", (("One", 30), ("Two", 1)), 31),
        ("b", (("One", 60), ("Two", 1)), 61),
    ]


def test_normalizing_does_not_change_what_was_scored() -> None:
    kept = np.array([3, 4])

    def normalize(self: Any, state: Any, pod: Any, scores: Any) -> Any:
        scores[:] = 1
        return scores

    scored(make(ScorePlugin, "P", score_all=kept, normalize_score=normalize))
    assert kept.tolist() == [3, 4]


def test_an_error_of_normalizing_is_told_with_its_point() -> None:
    assert failure(score=1, normalize_score=status(UNSCHEDULABLE, "no")) == f"{NORMALIZE}no"
    assert failure(score=1, normalize_score=ValueError("x")) == f'{NORMALIZE}plugin "P" raised ValueError: x'


@pytest.mark.parametrize("score", [-1, 101])
def test_scores_out_of_range(score: int) -> None:
    assert failure(score=score) == RANGE.format(score)
    assert failure(score_all=np.array([5, score])) == RANGE.format(score)
    assert failure(score=5, normalize_score=[5, score]) == RANGE.format(score)


@pytest.mark.parametrize(
    "answer", [np.array([7.0, 9.0]), np.array([7, 9], dtype=np.uint8), [7, 9], (7.0, 9.0)]
)
def test_integral_scores_of_any_type(answer: Any) -> None:
    assert [total for *_, total in scored(make(ScorePlugin, "P", score_all=answer))] == [7, 9]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (np.array([1.0, np.nan]), "score nan is not an integer"),
        (np.array([1.5, 2.0]), "score 1.5 is not an integer"),
        (np.array([np.inf, 2.0]), "score inf is not an integer"),
        (np.array([2.0**63, 0.0]), "score 9.223372036854776e+18 is not an integer"),
        (np.array([2**63, 0], dtype=np.uint64), "score 9223372036854775808 is not an integer of 64 bits"),
        ([2**64, 0], "score is not an integer of 64 bits"),
        (["x", "y"], "score 'x' is not an integer"),
        ([None, 1], "score None is not an integer"),
        (np.array([1, 2, 3]), "scores of shape (3,) for 2 nodes"),
        (np.array([[1], [2]]), "scores of shape (2, 1) for 2 nodes"),
        (5, "scores of shape () for 2 nodes"),
        (None, "scores of shape () for 2 nodes"),
    ],
)
def test_what_is_no_score(answer: Any, text: str) -> None:
    assert failure(score_all=answer) == FAILED + text
    assert failure(score=1, normalize_score=answer) == NORMALIZE + text


def test_what_is_no_score_of_one_node() -> None:
    assert failure(score=1.5) == FAILED + "score 1.5 is not an integer"
    assert failure(score=None) == FAILED + "score None is not an integer"
    assert failure(score=float("nan")) == FAILED + "score nan is not an integer"


def test_the_vectorised_form_serves_single_nodes() -> None:
    plugin = make(ScorePlugin, "P", score_all=lambda s, st, p, nodes: nodes.allocatable["cpu"] // 100)
    one = framework(plugin)
    assert plugin.score(CycleState(), pod("p"), one.all_nodes().node_info(0)) == 40
