"""Placements: sets of nodes, of which all pods of a group go to the nodes of one; how they come about.

kube-scheduler v1.36, framework/runtime/framework.go RunPlacementGeneratePlugins and RunPlacementScorePlugins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from moorage.errors import PluginError
from moorage.framework.plugin.interface import (
    MAX_NODE_SCORE,
    Assignments,
    Placement,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
)
from moorage.framework.plugin.status import Code, Status, error_status
from moorage.framework.profiles.profile import Profile
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup

from .call import StatusError, note_exception
from .scoring import invalid_score


def make_placements(
    profile: Profile, group: PodGroup, scheduled: Sequence[Pod], parent: Placement
) -> Sequence[Placement]:
    """The placements of a group, of which there is one at most if nobody makes any; StatusError where the
    plugin fails."""
    plugins = profile.at(PlacementGeneratePlugin)
    if not plugins:
        return [parent]
    try:
        return plugins[0].generate_placements(group, scheduled, parent)
    except Exception as error:  # a plugin may raise anything
        raise _failure(plugins[0], group, error) from error


def score_placements(
    profile: Profile, group: PodGroup, found: Sequence[Assignments]
) -> npt.NDArray[np.int64]:
    """The weighted total of each placement that the group fits; StatusError where a plugin fails."""
    totals = np.zeros(len(found), dtype=np.int64)
    for plugin in profile.at(PlacementScorePlugin):
        try:
            raw = [plugin.score_placement(group, one) for one in found]
            scores = np.asarray(plugin.normalize_placement_scores(np.array(raw, dtype=np.int64)))
        except Exception as error:  # a plugin may raise anything
            raise _failure(plugin, group, error) from error
        wrong = scores[(scores < 0) | (scores > MAX_NODE_SCORE)]
        if len(wrong):
            text = invalid_score(plugin.name, int(wrong[0]))
            raise StatusError(Status(Code.ERROR, err=PluginError(text)))
        totals += profile.placement_weight(plugin) * scores
    return totals


def _failure(plugin: Plugin, group: PodGroup, error: Exception) -> StatusError:
    note_exception(plugin, f"pod group {group.key}", error)
    return StatusError(error_status(f'plugin "{plugin.name}" failed with', Status(Code.ERROR, err=error)))


def placements_to_find(percentage: int | None, placements: int, nodes: int) -> int:
    """How many placements that suit a group are looked for among so many, which have so many nodes together.

    `percentage` None is all, as in v1.36; 0 is adaptive: from 100 % of very few nodes to 10 % at 5,000, and
    5 % at least (KEP-5732).
    """
    if percentage is None:
        return placements
    if percentage == 0:
        percentage = max(100 - 90 * nodes // 5000, 5)
    return max(placements * percentage // 100, 1)
