"""TopologyPlacementGenerator: proposes placements of a pod group by a node label."""

from __future__ import annotations

from collections.abc import Sequence

from moorage._core.state.cluster_state import ClusterState
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import AnyGroup, Pod

MOST = 1 << 12
"""Largest number of parents whose placements are remembered."""
NO_DOMAIN = "cannot determine domain for already scheduled pods: {}"


class TopologyPlacementGenerator(fwk.PlacementGeneratePlugin):
    """PlacementGenerate of kube-scheduler v1.37, topologyaware/: one placement for each value of a label.

    Placements are in the order of their first nodes; upstream, in that of a Go map. If pods of the group have
    a node already, their placement is the only one. The placements of a group that belongs to a composite
    group are parts of the one that this group is tried in (v1.37).
    """

    name = "TopologyPlacementGenerator"
    feature_gate = "TopologyAwareWorkloadScheduling"
    in_core = True
    _version = -1
    # By label and parent, with the parent, whose identity counts.
    _placements_of: dict[tuple[str, int], tuple[fwk.Placement, list[fwk.Placement]]]

    def generate_placements(
        self, group: AnyGroup, scheduled: Sequence[Pod], parent: fwk.Placement
    ) -> Sequence[fwk.Placement]:
        keys = group.topology_keys
        if not keys:
            return [parent]
        state, key = self.required_handle().cache.state, keys[0]
        if self._version != state.view.static_version:
            self._version, self._placements_of = state.view.static_version, {}
        known = self._placements_of.get((key, id(parent)))
        if known is None:
            if len(self._placements_of) >= MOST:
                self._placements_of.clear()
            known = self._placements_of[key, id(parent)] = parent, _placements(state, key, parent)
        if not scheduled:
            return known[1]
        domain = self._domain(state, key, scheduled)
        return [placement for placement in known[1] if placement.name == domain]

    def _domain(self, state: ClusterState, key: str, scheduled: Sequence[Pod]) -> str:
        """The label's value on the nodes of some pods; MoorageError for none or several."""
        first: str | None = None
        for pod in scheduled:
            name = state.get_pod(pod).spec.node_name
            row = state.table.find_row(name)
            node = None if row is None else state.table.objects[row]
            if node is None:
                text = f'getting node for pod {pod.key}: nodeinfo not found for node name "{name}"'
                raise MoorageError(NO_DOMAIN.format(text))
            domain = node.metadata.labels.get(key)
            if domain is None:
                raise MoorageError(NO_DOMAIN.format(f"no topology domain found for pod {pod.key}"))
            if first not in (None, domain):
                text = f"more than 1 domain found for pod group: {first}, {domain}"
                raise MoorageError(NO_DOMAIN.format(text))
            first = domain
        return first or ""


def _placements(state: ClusterState, key: str, parent: fwk.Placement) -> list[fwk.Placement]:
    values = state.table.label_column(key)[parent.rows]
    rows, values = parent.rows[values != 0], values[values != 0]
    names = state.symbols.names
    return [
        fwk.Placement(names[symbol] or "", rows[values == symbol])
        for symbol in dict.fromkeys(values.tolist())  # as they come
    ]
