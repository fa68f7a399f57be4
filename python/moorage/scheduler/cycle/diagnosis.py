"""Why a pod fits nowhere, as data; the text is made when somebody reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from moorage._core.decide.plan import REASONS, UNRESOLVABLE, VERDICT_SHIFT
from moorage.framework.plugin.interface import Code, FilterPlugin, Status
from moorage.framework.plugin.status import fit_error, with_detail
from moorage.framework.profiles.in_core import CorePostFilter, NativePlugin
from moorage.framework.profiles.profile import Profile
from moorage.queue.hints import EXTENDER

if TYPE_CHECKING:
    from moorage._core.state.pod_class import Shape

NO_NODES = "no nodes available to schedule pods"


class Rejectors(NamedTuple):
    """The plugins that rejected a pod; those that made it wait (code Pending) are in both."""

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()


class Diagnosis(Struct, frozen=True):
    """The rejections of one failed pod, counted when it failed.

    Attributes
    ----------
    nodes : int
        Nodes in the view.
    pre_filter : Status or None
        The rejection of a PreFilter plugin, which speaks for all nodes.
    verdicts : dict of int to int
        Verdict (see `Search.verdicts`) to number of nodes.
    absent : Status or None
        Status of the nodes that PreFilter left out of the search.
    narrowing : tuple of str
        The PreFilter plugins that left nodes out.
    statuses : tuple of Status
        What plugins outside the core said; their verdicts have the place in here as reason bits.
    extender_statuses : dict of str to Status
        Statuses that extenders gave to nodes by name; those nodes have no verdict.
    extender_rejected : bool
        An extender rejected nodes that every plugin let pass: `Extender` is among what the pod waits for.
    chosen : Status or None
        The rejection of the one node that was chosen, at Reserve, at Permit, or while waiting.
    post_filter : str
        What PostFilter says.
    futile_plugins : tuple of CorePostFilter
        In its stead, the PostFilter plugins that were not asked, as they could not have helped.
    """

    nodes: int
    profile: Profile
    shape: Shape
    pre_filter: Status | None = None
    verdicts: dict[int, int] = {}
    absent: Status | None = None
    narrowing: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ()
    extender_statuses: Mapping[str, Status] = {}
    extender_rejected: bool = False
    chosen: Status | None = None
    post_filter: str = ""
    futile_plugins: tuple[CorePostFilter, ...] = ()

    @property
    def potential(self) -> int:
        """How many nodes were rejected, but not for good."""
        if self.pre_filter is not None:
            return self.nodes if self.pre_filter.code == Code.UNSCHEDULABLE else 0
        counted = [(verdict_code(self.profile, each, self.statuses), n) for each, n in self.verdicts.items()]
        counted += [(status.code, 1) for status in self.extender_statuses.values()]
        return sum(nodes for code, nodes in counted if code == Code.UNSCHEDULABLE)

    def post_filter_message(self) -> str:
        """What PostFilter says, or would have said."""
        if not self.futile_plugins:
            return self.post_filter
        nodes, potential = self.nodes, self.potential
        return ", ".join(
            plugin.futile_message(self.shape, nodes, potential)[0] for plugin in self.futile_plugins
        )

    def reasons(self) -> dict[str, int]:
        """Reason to number of nodes that gave it; by plugin, then by verdict."""
        if self.pre_filter is not None:
            return dict.fromkeys(self.pre_filter.reasons, self.nodes)
        counts: Counter[str] = Counter()
        if self.chosen is not None:
            counts.update(self.chosen.reasons)
            return dict(counts)
        for verdict, nodes in sorted(self.verdicts.items()):
            for reason in explain_verdict(self.profile, self.shape, verdict, self.statuses).reasons:
                counts[reason] += nodes
        for status in self.extender_statuses.values():
            counts.update(status.reasons)
        left_out = self.nodes - sum(self.verdicts.values()) - len(self.extender_statuses)
        if self.absent is not None and left_out > 0:
            counts.update(dict.fromkeys(self.absent.reasons, left_out))
        return dict(counts)

    def rejectors(self) -> Rejectors:
        """Who rejected the pod: what they have registered decides which events bring it back. PostFilter
        plugins never do; where there are no nodes, nobody does."""
        if self.nodes == 0:
            return Rejectors()
        if self.chosen is not None:
            return _rejectors([self.chosen], {self.chosen.plugin})
        statuses = [] if self.pre_filter is None else [self.pre_filter]
        plugins = {*self.narrowing, *(status.plugin for status in statuses if status.plugin)}
        if self.extender_rejected:
            plugins.add(EXTENDER)
        filters = self.profile.planned(FilterPlugin)
        for verdict in self.verdicts:
            plugin = filters[(verdict >> VERDICT_SHIFT) - 1]
            plugins.add(plugin.name)
            if not isinstance(plugin, NativePlugin):
                statuses.append(self.statuses[verdict & REASONS])
        return _rejectors(statuses, plugins)

    def message(self) -> str:
        """The text of upstream's FitError (kube-scheduler v1.36, types.go)."""
        after = self.post_filter_message() if self.nodes else ""
        return f"{self.search_message()} {after}" if after else self.search_message()

    def search_message(self) -> str:
        """The same without what PostFilter says."""
        if self.nodes == 0:
            return NO_NODES
        if self.pre_filter is not None:
            return with_detail(self.nodes, self.pre_filter.message())
        return fit_error(self.nodes, self.reasons())


def verdict_code(profile: Profile, verdict: int, statuses: Sequence[Status] = ()) -> Code:
    """The code of the status that a verdict stands for; `statuses` as in `Diagnosis`."""
    if not isinstance(profile.planned(FilterPlugin)[(verdict >> VERDICT_SHIFT) - 1], NativePlugin):
        return statuses[verdict & REASONS].code
    return Code.UNSCHEDULABLE_AND_UNRESOLVABLE if verdict & UNRESOLVABLE else Code.UNSCHEDULABLE


def explain_verdict(profile: Profile, shape: Shape, verdict: int, statuses: Sequence[Status] = ()) -> Status:
    """The status that a verdict stands for; `statuses` as in `Diagnosis`."""
    plugin = profile.planned(FilterPlugin)[(verdict >> VERDICT_SHIFT) - 1]
    if not isinstance(plugin, NativePlugin):
        return statuses[verdict & REASONS]
    return Status(verdict_code(profile, verdict), plugin.reasons(verdict & REASONS, shape), plugin.name)


def _rejectors(statuses: Iterable[Status], plugins: Iterable[str]) -> Rejectors:
    pending = frozenset(status.plugin for status in statuses if status.code == Code.PENDING)
    return Rejectors(frozenset(plugins), pending)
