"""CalledPlugins: which plugins of a profile are called for a pod, and which are skipped."""

from __future__ import annotations

from ..plugin.interface import FilterPlugin, PreFilterPlugin, PreScorePlugin, ScorePlugin
from ..plugin.status import Code, Status, error_status
from ..profiles.in_core import NativePlugin, split_skipping
from ..profiles.profile import Profile
from .scoring import SCORE_ERROR


class CalledPlugins:
    """The plugins that a framework calls for a pod.

    Attributes
    ----------
    profile : Profile
    pre_filters : list of PreFilterPlugin
        The plugins to call at PreFilter.
    skipping : list of (int, str)
        The others, which always return Skip there: the number of called plugins before each, and its name.
    pre_scores : list of PreScorePlugin
        The plugins to call at PreScore.
    not_scoring : set of str
        The names of the others.
    pre_filters_are_native, pre_scores_are_native : bool
        Whether all called plugins have kernels.
    filters : tuple of FilterPlugin
        The Filter plugins that can reject.
    scorers : list of (ScorePlugin, int)
        The Score plugins whose scores can differ between nodes, with their weights.
    missing_state : Status or None
        The Error of the first Score plugin that lacks the state of its PreScore.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        asks = profile.asks_volume_plugins
        self.pre_filters, self.skipping = split_skipping(profile.at(PreFilterPlugin), "pre_filter", asks)
        self.pre_scores, not_scoring = split_skipping(profile.at(PreScorePlugin), "pre_score", asks)
        self.not_scoring = {name for _, name in not_scoring}
        self.pre_filters_are_native = not [
            plugin for plugin in self.pre_filters if not isinstance(plugin, NativePlugin)
        ]
        self.pre_scores_are_native = not [
            plugin for plugin in self.pre_scores if not isinstance(plugin, NativePlugin)
        ]
        self.filters = profile.planned(FilterPlugin)
        self.scorers = [(plugin, profile.weight(plugin)) for plugin in profile.planned(ScorePlugin)]
        self.missing_state: Status | None = None
        for plugin, text in profile.missing_state_texts[ScorePlugin].items():
            self.missing_state = error_status(SCORE_ERROR.format(plugin), Status(Code.ERROR, (text,)))
            break
