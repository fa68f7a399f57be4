"""The diagnosis of a failed pod as counted reasons, from which the FitError text is made at the first use.

Texts and counting rules: kube-scheduler v1.36, framework/types.go FitError and Diagnosis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from moorage._core.decide.plan import REASONS, UNRESOLVABLE, VERDICT_SHIFT
from moorage.engine.framework.in_tree_plugins import CorePostFilter, NativePlugin
from moorage.engine.framework.interface import Code, Status
from moorage.engine.framework.profile import Profile
from moorage.engine.framework.status import fit_error, with_detail
from moorage.engine.queue.hints import EXTENDER
from moorage.lazy import NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from moorage._core.state.pod_class import Shape

NO_NODES = "no nodes available to schedule pods"


class Rejectors(NamedTuple):
    """Names of the plugins that rejected a pod.

    Attributes
    ----------
    pending : frozenset of str
        Those among them that returned code Pending.
    """

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()


class Diagnosis(Struct, frozen=True):
    """The rejections of one failed pod, counted at its failure.

    Attributes
    ----------
    nodes : int
        Number of nodes in the snapshot.
    profile : Profile
        The pod's profile, whose filters number the verdicts.
    pre_filter : Status or None
        The rejection of a PreFilter plugin, which holds for all nodes.
    verdicts : dict of int to int
        Verdict (see `Search.verdicts`) to number of nodes.
    absent : Status or None
        Status of the nodes that PreFilter left out of the search.
    narrowing : tuple of str
        Names of the PreFilter plugins that left nodes out.
    statuses : tuple of Status
        Statuses of out-of-tree plugins. The reason bits of their verdicts are an index into it.
    extender_statuses : dict of str to Status
        Node name to the status that an extender gave; these nodes have no verdict.
    extender_rejected : bool
        Whether an extender rejected nodes that every plugin found feasible. `Extender` is then among the
        rejectors.
    chosen : Status or None
        The rejection of the chosen node by Reserve, by Permit, or while the pod waited on Permit.
    futile_plugins : tuple of CorePostFilter
        The PostFilter plugins that were not run because they could not have helped. Their message takes the
        place of `post_filter`.
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
        """Number of nodes with code Unschedulable, where eviction might help."""
        if self.pre_filter is not None:
            return self.nodes if self.pre_filter.code == Code.UNSCHEDULABLE else 0
        if not self.statuses and not self.extender_statuses:  # every rejection is by a plugin in the core
            return sum([nodes for verdict, nodes in self.verdicts.items() if not verdict & UNRESOLVABLE])
        counted = [
            (self.profile.rejection(verdict, self.shape, self.statuses), nodes)
            for verdict, nodes in self.verdicts.items()
        ]
        counted += [(status, 1) for status in self.extender_statuses.values()]
        return sum(nodes for status, nodes in counted if status.code == Code.UNSCHEDULABLE)

    def post_filter_message(self) -> str:
        """Return the message of PostFilter, or the one that the plugins in `futile_plugins` would have
        given."""
        if not self.futile_plugins:
            return self.post_filter
        nodes, potential = self.nodes, self.potential
        texts = [plugin.futile_message(self.shape, nodes, potential)[0] for plugin in self.futile_plugins]
        return ", ".join(filter(None, texts))

    def statuses_of_nodes(self) -> Iterator[tuple[Status, int]]:
        """Return the statuses that rejected the pod, each with the number of nodes that have it.

        Yields
        ------
        (Status, int)
            Ordered by plugin, then by verdict. A rejection of the chosen node counts as one node.
        """
        if self.pre_filter is not None:
            yield self.pre_filter, self.nodes
        elif self.chosen is not None:
            yield self.chosen, 1
        else:
            for verdict, nodes in sorted(self.verdicts.items()):
                yield self.profile.rejection(verdict, self.shape, self.statuses), nodes
            for status in self.extender_statuses.values():
                yield status, 1
            left_out = self.nodes - sum(self.verdicts.values()) - len(self.extender_statuses)
            if self.absent is not None and left_out > 0:
                yield self.absent, left_out

    def reasons(self) -> dict[str, int]:
        """Return the number of nodes that gave each reason.

        Returns
        -------
        dict of str to int
            Ordered by plugin, then by verdict.
        """
        if self.pre_filter is not None:
            return dict.fromkeys(self.pre_filter.reasons, self.nodes)
        counts: defaultdict[str, int] = defaultdict(int)
        for status, nodes in self.statuses_of_nodes():
            for reason in status.reasons:
                counts[reason] += nodes
        return dict(counts)

    def rejectors(self) -> Rejectors:
        """Return the plugins that rejected the pod. The events they registered decide what moves it back to
        the queue.

        PostFilter plugins are never among them. Without nodes the result is empty.
        """
        if self.nodes == 0:
            return Rejectors()
        if self.chosen is not None:
            return _rejectors([self.chosen], {self.chosen.plugin})
        if self.pre_filter is None and not (self.narrowing or self.extender_rejected or self.statuses):
            names = self.profile.filter_names
            return Rejectors(frozenset([names[(verdict >> VERDICT_SHIFT) - 1] for verdict in self.verdicts]))
        statuses = [] if self.pre_filter is None else [self.pre_filter]
        plugins = {*self.narrowing, *(status.plugin for status in statuses if status.plugin)}
        if self.extender_rejected:
            plugins.add(EXTENDER)
        for verdict in self.verdicts:
            plugin = self.profile.rejecter(verdict)
            plugins.add(plugin.name)
            if not isinstance(plugin, NativePlugin):
                statuses.append(self.statuses[verdict & REASONS])
        return _rejectors(statuses, plugins)

    def message(self) -> str:
        """Return the FitError text (kube-scheduler v1.36, framework/types.go FitError.Error)."""
        after = self.post_filter_message() if self.nodes else ""
        return f"{self.search_message()} {after}" if after else self.search_message()

    def search_message(self) -> str:
        """Return the FitError text without the message of PostFilter."""
        if self.nodes == 0:
            return NO_NODES
        if self.pre_filter is not None:
            return with_detail(self.nodes, self.pre_filter.message())
        return fit_error(self.nodes, self.reasons())


def explain_verdicts(
    profile: Profile,
    shape: Shape,
    names: Sequence[str],
    verdicts: npt.NDArray[np.uint64],
    statuses: Sequence[Status] = (),
) -> dict[str, Status]:
    """Return the statuses that the verdicts of nodes stand for; see `Profile.rejection`.

    Parameters
    ----------
    verdicts : (n,) uint64 array
        Of the same nodes; none is 0.

    Returns
    -------
    dict of str to Status
        By node, in the order given.
    """
    values = verdicts.tolist()
    statuses_by_verdict = {verdict: profile.rejection(verdict, shape, statuses) for verdict in set(values)}
    return dict(zip(names, map(statuses_by_verdict.__getitem__, values), strict=True))


def _rejectors(statuses: Iterable[Status], plugins: Iterable[str]) -> Rejectors:
    """Return the rejectors; the pending ones are those whose status has code Pending."""
    pending = frozenset(status.plugin for status in statuses if status.code == Code.PENDING)
    return Rejectors(frozenset(plugins), pending)
