"""Runs of PreScore and Score plugins (kube-scheduler v1.36, framework/runtime/framework.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage.errors import PluginError
from moorage.kube import Pod

from ..plugin.cycle_state import CycleState
from ..plugin.interface import MAX_NODE_SCORE, ScorePlugin
from ..plugin.nodes_view import NodesView
from ..plugin.status import Code, Status, error_status
from .call import StatusError, answer_of

Scores = npt.NDArray[np.int64]
WEIGHTS = "applying score defaultWeights on {} plugins"
SCORE_ERROR = 'running Score plugins: plugin "{}" failed with'
NORMALIZE_ERROR = 'running Normalize on Score plugins: plugin "{}" failed with'


def raw_scores(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: NodesView) -> Scores:
    """Run Score of a plugin on nodes.

    Parameters
    ----------
    nodes : NodesView
        The n feasible nodes.

    Returns
    -------
    (n,) int64 array
        Scores before normalization.

    Raises
    ------
    StatusError
        The plugin failed, or returned anything but n integers.
    """
    text = SCORE_ERROR.format(plugin.name)
    if type(plugin).score_all is not ScorePlugin.score_all:
        return _integers(_ask(text, plugin, pod, plugin.score_all, state, pod, nodes), len(nodes), text)
    one_by_one = [
        _ask(text, plugin, pod, plugin.score, state, pod, nodes.node_info(at)) for at in range(len(nodes))
    ]
    return _integers(one_by_one, len(nodes), text)


def normalized_scores(
    plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: NodesView, raw: Scores
) -> Scores:
    """Run NormalizeScore of a plugin.

    Parameters
    ----------
    nodes : NodesView
        The n feasible nodes.
    raw : (n,) int64 array
        The result of `raw_scores`.

    Returns
    -------
    (n,) int64 array
        Scores from 0 to 100.

    Raises
    ------
    StatusError
        The plugin failed, or a score is not in 0 to 100.
    """
    scores = raw
    if type(plugin).normalize_score is not ScorePlugin.normalize_score:
        text = NORMALIZE_ERROR.format(plugin.name)
        answer = _ask(text, plugin, pod, plugin.normalize_score, state, pod, raw.copy())
        scores = _integers(answer, len(nodes), text)
    check_range({plugin.name: scores})
    return scores


def out_of_range(plugin: str, score: int, point: str = "Score") -> StatusError:
    """Return the exception for a plugin's score that is not in 0 to 100.

    Parameters
    ----------
    score : int
        The score.
    point : str, optional
        The extension point.
    """
    return StatusError(Status(Code.ERROR, err=PluginError(invalid_score(plugin, score, point))))


def check_range(columns: Mapping[str, Scores], point: str = "Score") -> None:
    """Check that scores are in 0 to 100.

    Parameters
    ----------
    columns : mapping of str to (n,) int64 array
        Scores by plugin.
    point : str, optional
        The extension point.

    Raises
    ------
    StatusError
        Names the first node with a score out of range, and the first such plugin there.
    """
    firsts = {
        name: int(np.flatnonzero((column < 0) | (column > MAX_NODE_SCORE))[0])
        for name, column in columns.items()
        if len(column) and (column.min() < 0 or column.max() > MAX_NODE_SCORE)
    }
    if firsts:
        plugin = min(firsts, key=firsts.__getitem__)
        raise out_of_range(plugin, int(columns[plugin][firsts[plugin]]), point)


def invalid_score(plugin: str, score: int, point: str = "Score") -> str:
    """Return upstream's message for a plugin's score that is not in 0 to 100.

    Parameters
    ----------
    score : int
        The score.
    point : str, optional
        The extension point.
    """
    text = f'plugin "{plugin}" returns an invalid score {score}, it should in the range of'
    return f"{WEIGHTS.format(point)}: {text} [0, {MAX_NODE_SCORE}] after normalizing"


@dataclass(frozen=True, slots=True)
class NodePluginScores:
    """The scores of one node.

    Attributes
    ----------
    name : str
        Name of the node.
    scores : tuple of (str, int)
        Plugin and weighted score, in profile order.
    total_score : int
        Sum of the weighted scores.
    """

    name: str
    scores: tuple[tuple[str, int], ...]
    total_score: int


def _ask(text: str, plugin: ScorePlugin, pod: Pod, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a plugin's method; StatusError where it fails."""
    answer = answer_of(plugin, pod, function, *arguments)
    if isinstance(answer, Status):
        raise StatusError(error_status(text, answer))
    return answer


def _integers(answer: Any, wanted: int, text: str) -> Scores:
    """The result as one int64 per node; floats are accepted only where all are integers."""

    def fail(why: str) -> StatusError:
        return StatusError(Status(Code.ERROR, err=PluginError(f"{text}: {why}")))

    try:
        scores = np.asarray(answer)
    except ValueError as error:
        raise fail(str(error)) from error
    if scores.shape != (wanted,):
        raise fail(f"scores of shape {scores.shape} for {wanted} nodes")
    if wanted == 0:
        return np.zeros(0, dtype=np.int64)
    if scores.dtype.kind == "f":
        wrong = scores[(scores != np.floor(scores)) | (np.abs(scores) >= 2.0**63)]
        if len(wrong):
            raise fail(f"score {wrong[0]} is not an integer")
    elif scores.dtype.kind == "u":
        if scores.max() >= 2**63:
            raise fail(f"score {scores.max()} is not an integer of 64 bits")
    elif scores.dtype.kind not in "ib":
        wrong = [score for score in scores.tolist() if not isinstance(score, int)]
        what = f"{wrong[0]!r} is not an integer" if wrong else "is not an integer of 64 bits"
        raise fail(f"score {what}")
    return scores.astype(np.int64)
