"""Profile: which plugins run, in which order, with which weights and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from moorage._core.plan import Plan
from moorage._core.state import ClusterState

from .interface import FILTER, PRE_FILTER, PRE_SCORE, SCORE, NativePlugin, Plugin

BALANCED_ALLOCATIONS = ("1.36", "1.35")


@dataclass(frozen=True)
class Profile:
    """A scheduling profile.

    Attributes
    ----------
    plugins : sequence of Plugin
        In order; a plugin takes part at the extension points that it extends.
    weight_overrides : dict
        Score plugin to weight, where it is not the plugin's default.
    percentage_of_nodes_to_score : int or None
        Overrides the scheduler's own; 0 is adaptive.
    balanced_allocation : {"1.36", "1.35"}
        Formula of NodeResourcesBalancedAllocation: what the pod changes, or (up to 1.35) the balance with it.
    fit_unresolvable : bool
        NodeResourcesFit answers UnschedulableAndUnresolvable where a request exceeds a node's allocatable
        (since 1.34).
    """

    plugins: Sequence[Plugin]
    scheduler_name: str = "default-scheduler"
    weight_overrides: dict[str, int] = field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None
    balanced_allocation: str = "1.36"
    fit_unresolvable: bool = True

    def __post_init__(self) -> None:
        if self.balanced_allocation not in BALANCED_ALLOCATIONS:
            known = ", ".join(BALANCED_ALLOCATIONS)
            raise ValueError(f"balanced_allocation {self.balanced_allocation!r}: one of {known}")

    def at(self, point: str) -> list[Plugin]:
        """The plugins at an extension point, in the order in which they run."""
        return [plugin for plugin in self.plugins if point in plugin.extension_points]

    @property
    def filter_plugins(self) -> list[str]:
        return [plugin.name for plugin in self.at(FILTER)]

    @property
    def score_plugins(self) -> list[str]:
        return [plugin.name for plugin in self.at(SCORE)]

    @cached_property
    def pre_filters(self) -> list[Plugin]:
        return self.at(PRE_FILTER)

    @cached_property
    def pre_scores(self) -> list[Plugin]:
        return self.at(PRE_SCORE)

    def weight(self, plugin: Plugin) -> int:
        """A score plugin's weight; 0 counts as 1."""
        return self.weight_overrides.get(plugin.name, plugin.default_weight) or 1

    @property
    def weights(self) -> dict[str, int]:
        """Weight of every score plugin."""
        return {plugin.name: self.weight(plugin) for plugin in self.at(SCORE)}

    def native(self, point: str) -> list[NativePlugin]:
        """The native plugins at an extension point, in order: the plan's indices count these."""
        return [plugin for plugin in self.at(point) if isinstance(plugin, NativePlugin)]

    def compile(self, state: ClusterState) -> Plan:
        """The plan of this profile over a cluster."""
        fit = next((p for p in self.plugins if p.name == "NodeResourcesFit"), None)
        balanced = next((p for p in self.plugins if p.name == "NodeResourcesBalancedAllocation"), None)
        return Plan(
            state.table,
            filters=[plugin.name for plugin in self.native(FILTER)],
            scores=[(plugin.name, self.weight(plugin)) for plugin in self.native(SCORE)],
            fit=_resources(fit.default_args["scoringStrategy"]["resources"] if fit else ()),
            balanced=_resources(balanced.default_args["resources"] if balanced else ()),
            balanced_difference=self.balanced_allocation == "1.36",
            fit_unresolvable=self.fit_unresolvable,
            default_constraints=SYSTEM_CONSTRAINTS,
        )


def _resources(args: Sequence[dict[str, str | int]]) -> list[tuple[str, int]]:
    return [(str(entry["name"]), int(entry["weight"])) for entry in args]

from moorage.objects.pod import TopologySpreadConstraint
SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(3, "kubernetes.io/hostname", "ScheduleAnyway"),
    TopologySpreadConstraint(5, "topology.kubernetes.io/zone", "ScheduleAnyway"),
)
