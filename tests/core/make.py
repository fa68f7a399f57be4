"""What tests of the core need beside `tests.make`."""

from __future__ import annotations

from msgspec.structs import force_setattr, replace
from tests.doors.engine import ClusterState
from tests.make import pod

from moorage.kube import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
)


def declaring(node: Node, *features: str) -> Node:
    """The node, with declared features."""
    return replace(node, status=replace(node.status, declared_features=features))


def replica(template: Pod, ordinal: int) -> Pod:
    """One of the pods of a template, as the ledger makes it."""
    meta = template.metadata
    base = meta.generate_name or f"{meta.name}-"
    uid = f"{meta.namespace}/{base}#{ordinal}"
    return replace(template, metadata=replace(meta, name=f"{base}{ordinal}", uid=uid))


def pinned(name: str) -> Affinity:
    """Node affinity as a DaemonSet pod has it."""
    need = NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    return Affinity(
        node_affinity=NodeAffinity(
            required=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(need,)),))
        )
    )


def pod_of(state: ClusterState, pod_class: int, pinned_to: int = 0, node_name: int = 0) -> Pod:
    """A pod of a class, which is pinned to a node and names one: symbols, 0 for none."""
    names, _ = state.symbols.names, state.classes.shape_of(pod_class)  # IndexError for no class
    affinity = pinned(names[pinned_to] or "") if pinned_to else None
    one = pod("", on=names[node_name] or "", affinity=affinity)
    force_setattr(one, "interned", state.classes.interned[pod_class])
    return one
