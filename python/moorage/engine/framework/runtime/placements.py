"""Placements of a pod group and their scores.

A placement is a set of nodes; all pods of a group go to one placement (kube-scheduler v1.37,
framework/runtime/framework.go, RunPlacementGeneratePlugins and RunPlacementScorePlugins).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from moorage.kube import AnyGroup, Pod

from ..plugin import interface
from ..plugin.status import Code, Status, error_status
from ..profiles.profile import Profile
from .call import StatusError, note_exception
from .scoring import check_range


def make_placements(
    profile: Profile, group: AnyGroup, scheduled: Sequence[Pod], parent: interface.Placement
) -> Sequence[interface.Placement]:
    """Run the PlacementGenerate plugin of a profile.

    Parameters
    ----------
    profile : Profile
        The scheduling profile.
    scheduled : sequence of Pod
        Pods of the group that have a node.
    parent : Placement
        The placement of all nodes.

    Returns
    -------
    sequence of Placement
        `parent` alone where the profile has no such plugin.

    Raises
    ------
    StatusError
        The plugin failed.
    """
    plugins = profile.at(interface.PlacementGeneratePlugin)
    if not plugins:
        return [parent]
    try:
        return plugins[0].generate_placements(group, scheduled, parent)
    except Exception as error:  # an exception of a plugin fails the group
        note_exception(plugins[0], f"pod group {group.key}", error)
        raise StatusError(Status(Code.ERROR, err=error)) from error


def score_placements(
    profile: Profile,
    group: AnyGroup,
    count: int,
    raw: Callable[[interface.PlacementScorePlugin], npt.NDArray[np.int64]],
) -> npt.NDArray[np.int64]:
    """Run the PlacementScore plugins of a profile.

    Parameters
    ----------
    profile : Profile
        The scheduling profile.
    count : int
        Number n of placements that the group fits.
    raw : callable
        Returns the scores of these placements by a plugin, not normalized, as an array of the caller.

    Returns
    -------
    (n,) int64 array
        Weighted totals.

    Raises
    ------
    StatusError
        A plugin failed, or left the range of 0 to 100.
    """
    totals = np.zeros(count, dtype=np.int64)
    for plugin in profile.at(interface.PlacementScorePlugin):
        step = "PlacementScore"
        try:
            own = raw(plugin)
            step = "NormalizePlacementScore on PlacementScore"
            scores = np.asarray(plugin.normalize_placement_scores(own))
        except Exception as error:  # an exception of a plugin fails the group
            note_exception(plugin, f"pod group {group.key}", error)
            text = f'running {step} plugins: plugin "{plugin.name}" failed with'
            raise StatusError(error_status(text, Status(Code.ERROR, err=error))) from error
        values = scores.tolist()  # faster than an array where placements are few
        if min(values) < 0 or max(values) > interface.MAX_NODE_SCORE:
            check_range({plugin.name: scores}, "PlacementScore")
        totals += profile.placement_weight(plugin) * scores
    return totals
