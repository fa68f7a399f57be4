"""Profile: the plugins that run, their order, weights and arguments, and which of them a pod needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from moorage._core.decide.plan import REASONS, VERDICT_SHIFT, Plan
from moorage._core.state.cluster_state import ClusterState
from moorage.arguments import check_fields
from moorage.engine import framework as room
from moorage.engine.framework import interface
from moorage.errors import InputError
from moorage.kube.releases import DEFAULT, RELEASES, Release
from moorage.lazy import lazy_attribute

from .claim_plugins import ClaimPlugin, ClaimPlugins
from .extension_points import SCORE_ERROR
from .in_tree_plugins import CorePostFilter, NativePlugin, UnitPlugin
from .interface import (
    BASES,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from .status import Code, Status, error_status

if TYPE_CHECKING:
    from moorage._core.decide.external import External
    from moorage._core.state.pod_class import Shape
    from moorage.kube import Pod


# ---- profile -----------------------------------------------------------------------------------------------

BESIDE_CYCLES = (
    interface.PreEnqueuePlugin,
    interface.QueueSortPlugin,
    interface.PlacementGeneratePlugin,
    interface.PlacementScorePlugin,
    interface.PodGroupPostFilterPlugin,
)
CYCLE_POINTS = tuple(point for base, point in BASES.items() if base not in BESIDE_CYCLES)
NO_ERRORS: Mapping[str, str] = {}
P = TypeVar("P", bound=Plugin)


class CallsPlugins(Protocol):
    """Makes the entries in a plan of plugins outside the core (`search_calls.SearchCalls`)."""

    def external(self, plugin: Plugin) -> External:
        """Return the entry of a plugin."""

    def failing(self, plugin: Plugin, text: str) -> External:
        """Return the entry of a plugin whose filter fails with an error."""


@dataclass
class Profile:
    """A scheduling profile. It is not changed once it is made: what its plugins decide is computed then.

    Raises
    ------
    TypeError
        One of the plugins is something else, such as the class of one.
    InputError
        A plugin has no name, has a misspelt method or lacks one, is unknown at a point, does not extend it,
        or is listed twice; or, without `points`, there is a weight of a plugin that the profile does not
        have, or that does not score.

    Attributes
    ----------
    plugins : sequence of Plugin
        Plugins in order; each takes part at the extension points that it extends. A plugin with state belongs
        to one scheduler; a second scheduler makes copies of the others.
    scheduler_name : str
        Value of ``spec.schedulerName`` of the pods that use the profile.
    weight_overrides : dict of str to int
        Weight by Score plugin, where it differs from the plugin's default.
    placement_weights : dict of str to int
        Weight by PlacementScore plugin, where it differs from the plugin's default.
    percentage_of_nodes_to_score : int or None
        Percent; 0 is adaptive, None uses the setting of the scheduler.
    percentage_of_placements_to_score : int
        Percent of the placements that a group fits to find, since v1.38; 0 is adaptive.
    release : Release
        The release of kube-scheduler that decides; a scheduler replaces it by its own.
    fit_unresolvable : bool
        Whether NodeResourcesFit returns UnschedulableAndUnresolvable where a request exceeds a node's
        allocatable (since v1.34).
    points : mapping of str to sequence of str, optional
        Names of the plugins by extension point, in order, as a configuration names the points; a point that
        is missing has no plugins. By default each plugin is at all points that it extends, in the order of
        `plugins`.
    asks_volume_plugins : bool
        Whether plugins about volumes and claims are called; see `complete`.
    names : frozenset of str
        The names of the plugins.
    claim_plugins : ClaimPlugins
        The plugins about volumes and claims.
    reads_volumes : bool
        Whether it has volume plugins that are skipped.
    missing_state_texts : dict of type to dict of str to str
        Upstream's errors for plugins whose state is missing. Keys are `FilterPlugin` and `ScorePlugin`;
        values map a plugin that is not enabled at PreFilter or PreScore to its error. Score of
        DynamicResources reads what its PreFilter has written.
    pre_filters, pre_scores : list of Plugin
        The plugins that are called at PreFilter and at PreScore.
    pre_filters_are_native, pre_scores_are_native : bool
        Whether all of these have kernels.
    skipping : list of (int, str)
        Those that always return Skip at PreFilter: the number of called plugins before each, and its name.
    not_scoring : set of str
        The names of those that always return Skip at PreScore.
    filters : tuple of FilterPlugin
        The Filter plugins that can reject. Verdicts number them in this order.
    filter_names : tuple of str
        Their names.
    scorers : list of (ScorePlugin, int)
        The Score plugins whose scores can differ between nodes, with their weights.
    missing_state : Status or None
        The Error of the first Score plugin that lacks the state of its PreScore.
    pre_filters_in_core, filters_in_core : bool
        Whether all PreFilter and all Filter plugins are in the core.
    is_in_core : bool
        Whether the core runs whole scheduling cycles, of many pods in one call.
    core_post_filters : tuple of CorePostFilter, or None
        The PostFilter plugins if all of them are in the core.
    has_units : bool
        Whether a plugin makes pods of a group wait for one another at Permit.
    has_out_of_tree_plugins : bool
        Whether out-of-tree plugins take part in cycles; they may read the snapshot.
    """

    plugins: Sequence[Plugin]
    scheduler_name: str = "default-scheduler"
    weight_overrides: dict[str, int] = field(default_factory=dict)
    placement_weights: dict[str, int] = field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None
    percentage_of_placements_to_score: int = 0
    release: Release = RELEASES[DEFAULT]
    fit_unresolvable: bool = True
    points: Mapping[str, Sequence[str]] | None = None
    asks_volume_plugins: bool = False

    def __repr__(self) -> str:
        return f"<Profile {self.scheduler_name}: {len(self.plugins)} plugins>"

    def placements_to_find(self, nodes: Sequence[int]) -> int:
        """Return the number of placements that a group fits after which no further one is tried
        (kube-scheduler v1.38, numFeasiblePlacementsToFind).

        Parameters
        ----------
        nodes : sequence of int
            The number of nodes of each placement.
        """
        if not self.release.placements_are_sampled:
            return len(nodes)
        if not self.at(interface.PlacementScorePlugin):
            return 1
        percentage = self.percentage_of_placements_to_score or max(100 - sum(nodes) * 9 // 500, 5)
        return max(len(nodes) * percentage // 100, 1)

    def __post_init__(self) -> None:
        check_fields(self)
        given: object = self.plugins
        entries = given if isinstance(given, Sequence) else (given,)
        for entry in entries:
            if not isinstance(entry, Plugin):
                what = f"the class {entry.__name__}" if isinstance(entry, type) else repr(entry)
                raise TypeError(f"a profile takes objects of plugin classes, not {what}")
        for plugin in self.plugins:
            if not plugin.name:
                raise InputError(f"plugin class {type(plugin).__qualname__} has no name")
            kind = type(plugin)  # whose hash mypy takes for that of its objects
            is_ours = kind.__module__.startswith("moorage.")
            if not is_ours and (why := room.out_of_tree_plugins.wrong_method(kind)):  # type: ignore[arg-type]
                raise InputError(f"plugin {plugin.name} {why}")
        unknown = set(self.points or ()).difference(BASES.values())
        if unknown:
            raise InputError(f"unknown extension point {min(unknown)}")
        self._lists = self._listed()
        if self.points is None:  # a configuration gives weights to plugins that it disables at the point
            self._check_weights()
        self.names = frozenset([plugin.name for plugin in self.plugins])
        self.claim_plugins = ClaimPlugins(self.plugins)
        self.reads_volumes = bool(self.claim_plugins.plugins) and not self.asks_volume_plugins
        wanted: tuple[type[Plugin], ...] = (ClaimPlugin,) if self.asks_volume_plugins else ()
        self._called = frozenset(
            [plugin for plugin in self.plugins if not plugin.in_core or isinstance(plugin, wanted)]
        )
        # In the core, and called where a pod has a cycle of its own.
        also = [plugin for plugin in self.plugins if plugin.by_class or isinstance(plugin, UnitPlugin)]
        is_active = self._called.union(also).__contains__
        self._active = {point: tuple(filter(is_active, plugins)) for point, plugins in self._lists.items()}
        self.missing_state_texts = self._missing_state_texts()
        self._list_called()
        self._decide_what_is_in_core()

    def _list_called(self) -> None:
        """Decide which plugins are called about a pod."""
        self.pre_filters, self.skipping = self._split_skipping(PreFilterPlugin, "pre_filter")
        self.pre_scores, not_scoring = self._split_skipping(PreScorePlugin, "pre_score")
        self.not_scoring = {name for _, name in not_scoring}
        self.pre_filters_are_native, self.pre_scores_are_native = [
            all(isinstance(plugin, NativePlugin) for plugin in plugins)
            for plugins in (self.pre_filters, self.pre_scores)
        ]
        self.filters, scores = self._planned(FilterPlugin), self._planned(ScorePlugin)
        self.filter_names = tuple([plugin.name for plugin in self.filters])
        self.scorers = [(plugin, self.weight(plugin)) for plugin in scores]
        self.missing_state: Status | None = None
        for plugin, text in self.missing_state_texts[ScorePlugin].items():
            self.missing_state = error_status(SCORE_ERROR.format(plugin), Status(Code.ERROR, (text,)))
            break

    def _split_skipping(self, base: type[P], method: str) -> tuple[list[P], list[tuple[int, str]]]:
        """Split the plugins at an extension point into those to call and those that always return Skip."""
        nothing = getattr(NativePlugin, method)
        called: list[P] = []
        skipping: list[tuple[int, str]] = []
        for plugin in self.at(base):
            if isinstance(plugin, ClaimPlugin) and not self.asks_volume_plugins:
                if plugin.skips(method):
                    skipping.append((len(called), plugin.name))
            elif getattr(type(plugin), method) is not nothing:
                called.append(plugin)
        return called, skipping

    def _planned(self, base: type[P]) -> tuple[P, ...]:
        """The plugins of a plan's list, to which its numbers refer."""
        plugins = self.at(base)
        return tuple([each for each in plugins if isinstance(each, NativePlugin) or each in self._called])

    def _decide_what_is_in_core(self) -> None:
        self.pre_filters_in_core = self._called.isdisjoint(self.at(PreFilterPlugin))
        self.filters_in_core = self._called.isdisjoint(self.at(FilterPlugin))
        at_points = dict.fromkeys(chain.from_iterable(map(self._lists.__getitem__, CYCLE_POINTS)))
        lack_state = self.missing_state_texts[FilterPlugin] or self.missing_state_texts[ScorePlugin]
        self.is_in_core = not lack_state and self._called.isdisjoint(at_points)
        out_of_tree = [
            plugin for plugin in at_points if not (plugin.in_core or isinstance(plugin, ClaimPlugin))
        ]
        self.has_out_of_tree_plugins = bool(out_of_tree)
        post_filters = self.at(interface.PostFilterPlugin)
        in_core = tuple([plugin for plugin in post_filters if isinstance(plugin, CorePostFilter)])
        self.core_post_filters = in_core if len(in_core) == len(post_filters) else None
        at_unit_points = (*self.at(interface.PermitPlugin), *self.at(interface.PreEnqueuePlugin))
        self.has_units = any(isinstance(plugin, UnitPlugin) for plugin in at_unit_points)
        self._rejecting = self._may_reject()

    @lazy_attribute
    def complete(self) -> Profile:
        """The profile for pods for which no plugin is skipped: those with volumes, claims or extended
        resources of device classes. For all other pods the plugins about them are skipped, as upstream skips
        plugins whose PreFilter returns Skip."""
        if not self.reads_volumes:
            return self
        self.claim_plugins.awake()
        return replace(self, asks_volume_plugins=True)

    def _check_weights(self) -> None:
        by_name = {plugin.name: plugin for plugin in self.plugins}
        for point, weights in ("score", self.weight_overrides), ("placementScore", self.placement_weights):
            for name in weights:
                if why := room.configuration.profile_plugins.extension_error(
                    by_name.get(name), name, point, ()
                ):
                    raise InputError(why)

    def _listed(self) -> dict[str, tuple[Any, ...]]:
        """Return the plugins by extension point."""
        by_name = {plugin.name: plugin for plugin in self.plugins}
        lists: dict[str, list[Any]] = {point: [] for point in BASES.values()}
        for plugin in self.plugins:
            for point in lists.keys() & plugin.extension_points:
                lists[point].append(plugin)
        if self.points is not None or len(by_name) < len(self.plugins):
            for point, own in lists.items():
                names = [plugin.name for plugin in own] if self.points is None else self.points.get(point, ())
                for at, name in enumerate(names):
                    named, before = by_name.get(name), names[:at]
                    if why := room.configuration.profile_plugins.extension_error(named, name, point, before):
                        raise InputError(why)
                lists[point] = [by_name[name] for name in names]
        return {point: tuple(plugins) for point, plugins in lists.items()}

    def at(self, base: type[P]) -> tuple[P, ...]:
        """Return the plugins at an extension point, in the order in which they run.

        Parameters
        ----------
        base : type of Plugin
            Base class of the point, for example `FilterPlugin`.
        """
        return self._lists[BASES[base]]

    def active(self, base: type[P]) -> tuple[P, ...]:
        """Return the plugins at an extension point whose work is not done by the core.

        Parameters
        ----------
        base : type of Plugin
            Base class of the point, for example `ReservePlugin`.
        """
        return self._active[BASES[base]]

    def calls(self, plugin: Plugin) -> bool:
        """Whether a plugin is called because the core does not do its work.

        Parameters
        ----------
        plugin : Plugin
            Of the profile.
        """
        return plugin in self._called

    def rejecter(self, verdict: int) -> FilterPlugin:
        """Return the filter that rejects; a verdict is as of `Search.verdicts`."""
        return self.filters[(verdict >> VERDICT_SHIFT) - 1]

    def rejection(self, verdict: int, shape: Shape, statuses: Sequence[Status] = ()) -> Status:
        """Return the status that a verdict stands for.

        Parameters
        ----------
        verdict : int
            See `Search.verdicts`.
        statuses : sequence of Status, optional
            Those of out-of-tree plugins: the reason bits of their verdicts are an index into it.
        """
        plugin = self.rejecter(verdict)
        if isinstance(plugin, NativePlugin):
            return plugin.rejection(verdict, shape)
        return statuses[verdict & REASONS]

    def asks_devices(self, pod: Pod) -> bool:
        """Whether a pod without claims requests an extended resource that a device class provides."""
        plugin = self.claim_plugins.of_devices
        return plugin is not None and plugin.concerns(pod)

    def delegated_resources(self) -> frozenset[str]:
        """Return the extended resources that device classes provide on nodes without them."""
        plugin = self.claim_plugins.of_devices
        return frozenset() if plugin is None else plugin.delegated_resources()

    def may_reject(self, shape: Shape) -> bool:
        """Whether PreFilter or PreScore may reject a pod.

        Parameters
        ----------
        shape : Shape
            Requests and constraints of the pod.
        """
        if self._rejecting is None:
            return True
        for may_reject in self._rejecting:  # noqa: SIM110, as a generator costs as much as the answers
            if may_reject(shape):
                return True
        return False

    def _may_reject(self) -> list[Callable[[Shape], object]] | None:
        """Return whom to ask whether the plugins that are called at PreFilter or PreScore may reject a pod;
        None if one of them does not say so, or lacks its state."""
        conditions: dict[Callable[[Shape], object], None] = {}
        for plugin in (*self.pre_filters, *self.pre_scores):
            if not isinstance(plugin, NativePlugin) or self.missing_state_texts[ScorePlugin]:
                return None
            known = plugin.may_reject_if
            conditions |= dict.fromkeys((plugin.may_reject,) if known is None else known)
        return list(conditions)

    def _missing_state_texts(self) -> dict[type[Plugin], dict[str, str]]:
        texts: dict[type[Plugin], dict[str, str]] = {FilterPlugin: {}, ScorePlugin: {}}
        for base, before in ((FilterPlugin, PreFilterPlugin), (ScorePlugin, interface.PreScorePlugin)):
            earlier = self.at(before)
            for plugin in self.at(base):
                words = plugin.missing_state_text.get(base) if isinstance(plugin, NativePlugin) else None
                if words and plugin not in earlier:
                    texts[base][plugin.name] = f"{words} from cycleState: not found"
        for plugin in self._lists[BASES[ScorePlugin]]:
            if plugin.name == "DynamicResources" and plugin not in self._lists[BASES[PreFilterPlugin]]:
                texts[ScorePlugin][plugin.name] = "not found"
        return texts

    def weight(self, plugin: Plugin) -> int:
        """Return the weight of a Score plugin; 0 counts as 1."""
        return self.weight_overrides.get(plugin.name, plugin.default_weight) or 1

    def placement_weight(self, plugin: Plugin) -> int:
        """Return the weight of a PlacementScore plugin; 0 counts as 1."""
        return self.placement_weights.get(plugin.name, plugin.default_weight) or 1

    @property
    def weights(self) -> dict[str, int]:
        """Score plugin to weight."""
        return {plugin.name: self.weight(plugin) for plugin in self.at(ScorePlugin)}

    def compile(
        self,
        state: ClusterState,
        bridge: Callable[[], CallsPlugins] | None = None,
        before: Plan | None = None,
    ) -> Plan:
        """Compile the plan of this profile.

        Parameters
        ----------
        state : ClusterState
            State of the cluster in the core.
        bridge : callable, optional
            Returns what calls the plugins outside the core.
        before : Plan, optional
            The plan that this one completes (`Plan.complete`).
        """
        arguments: dict[str, Any] = {"fit": [], "balanced": []}
        for plugin in self.plugins:
            if isinstance(plugin, NativePlugin):
                arguments |= plugin.plan_arguments(state)
        scorers, weights = [plugin for plugin, _ in self.scorers], [weight for _, weight in self.scorers]
        narrowing = {plugin.name for plugin in self._lists[BASES[PreFilterPlugin]]}
        return Plan(
            state.table,
            filters=_entries(self.filters, bridge, self.missing_state_texts[FilterPlugin]),
            scores=[*zip(_entries(scorers, bridge), weights, strict=True)],
            balanced_difference=self.release.balance_by_change,
            fit_unresolvable=self.fit_unresolvable,
            exact_shares=self.release.shares_are_exact,
            narrows="NodeAffinity" in narrowing,
            narrows_to_named="NodeName" in narrowing,
            externals=() if before is None else before.externals,
            with_skipped=(lambda plan: self.complete.compile(state, bridge, plan))
            if self.reads_volumes
            else None,
            **arguments,
        )


def _entries(
    plugins: Iterable[Plugin],
    bridge: Callable[[], CallsPlugins] | None,
    errors: Mapping[str, str] = NO_ERRORS,
) -> list[Any]:
    """The entries of plugins in a plan: names of kernels, or objects of the bridge. `errors` are those of
    plugins that fail, by name."""
    entries: list[Any] = []
    for plugin in plugins:
        has_kernel = isinstance(plugin, NativePlugin) and not plugin.by_class
        if bridge is not None and plugin.name in errors:
            entries.append(bridge().failing(plugin, errors[plugin.name]))
        else:
            entries.append(plugin.name if has_kernel or bridge is None else bridge().external(plugin))
    return entries
