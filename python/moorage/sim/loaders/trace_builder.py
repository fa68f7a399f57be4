"""TraceBuilder: what all loaders do with the pods and nodes of a trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from moorage.kube import (
    Cluster,
    Container,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodSpec,
    Resources,
)
from moorage.kube.model.node import HOSTNAME, NodeStatus
from moorage.kube.model.pod import Affinity, NodeAffinity, ResourceRequirements

from ..timeline.timeline_event import Verb

if TYPE_CHECKING:
    from ..timeline.event_columns import EventColumns

NAMESPACE = "default"
NO_LIMIT = "2147483647"
"""Pods of a node: a trace that does not say how many a machine takes knows no limit."""
_ODD = re.compile(r"[^a-z0-9-]+")


class TraceBuilder:
    """Adds nodes and pods to a timeline, equal pods under one template, and counts what is odd.

    Parameters
    ----------
    timeline : EventColumns
        An empty one.
    """

    def __init__(self, timeline: EventColumns) -> None:
        self.timeline = timeline
        self._nodes: list[Node] = []
        self._node_names: set[str] = set()
        self._templates: dict[object, int] = {}
        self._live: dict[int, float] = {}  # subject of each pod to the end of its time; infinite while open

    def note(self, what: str) -> None:
        """Count something that is left out or repaired."""
        notes = self.timeline.notes
        notes[what] = notes.get(what, 0) + 1

    # ---- nodes ---------------------------------------------------------------------------------------------

    def node(self, name: str, allocatable: Resources, labels: Mapping[str, str] | None = None) -> None:
        """Add a node of the cluster at the start.

        Parameters
        ----------
        allocatable : mapping of str to str
            Quantity by resource.
        """
        name = name_of(name)
        if name in self._node_names:
            self.note("nodes left out: there is one of this name")
            return
        self._node_names.add(name)
        self._nodes.append(make_node(name, allocatable, labels or {}))

    def finish(self) -> None:
        """Set the cluster at the start."""
        if self._nodes:
            self.timeline.start_with(Cluster(nodes=self._nodes))

    # ---- pods ----------------------------------------------------------------------------------------------

    def template(  # noqa: PLR0913
        self,
        shape: object,
        requests: Resources,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        models: tuple[str, ...] = (),
        model_label: str = "",
        priority: int = 0,
    ) -> int:
        """Return the number of a template of pods.

        Parameters
        ----------
        shape : hashable
            What tells the templates of a trace apart; the other arguments follow from it.
        requests : mapping of str to str
            Quantity by resource.
        models : tuple of str, optional
            Values of a label of nodes, one of which the node must have.
        model_label : str, optional
            The key of that label.
        """
        known = self._templates.get(shape)
        if known is None:
            limits = {name: quantity for name, quantity in requests.items() if "/" in name}  # must equal
            resources = ResourceRequirements(requests=dict(requests), limits=limits)
            spec = PodSpec(
                containers=(Container(name="main", resources=resources),),
                priority=priority,
                affinity=_affinity(model_label, models) if models else None,
            )
            meta = ObjectMeta(
                namespace=NAMESPACE, labels=dict(labels or {}), annotations=dict(annotations or {})
            )
            known = self._templates[shape] = self.timeline.template(Pod(metadata=meta, spec=spec))
        return known

    def pod(self, name: str, template: int, created: float, deleted: float | None = None) -> bool:
        """Add a pod, and its deletion if there is one.

        Parameters
        ----------
        created : float
            Seconds.
        deleted : float, optional
            Seconds.

        Returns
        -------
        bool
            False for a pod that is left out, because one of its name exists.
        """
        subject = self.timeline.subject(f"pod/{NAMESPACE}/{name_of(name)}")
        end = float("inf") if deleted is None else deleted
        if self._live.get(subject, -1.0) > created or (subject in self._live and end == float("inf")):
            self.note("pods left out: there is one of this name")
            return False
        if end < created:
            self.note("pods that end before they begin: end at their beginning")
            end = created
        self._live[subject] = end
        self.timeline.add(created, Verb.CREATE, subject, template)
        if deleted is not None:
            self.timeline.add(end, Verb.DELETE, subject)
        return True

    def delete(self, name: str, time: float) -> None:
        """Delete a pod that was added without an end.

        Parameters
        ----------
        time : float
            Seconds.
        """
        subject = self.timeline.subject(f"pod/{NAMESPACE}/{name_of(name)}")
        if self._live.get(subject) != float("inf"):
            self.note("ends left out: there is no pod of this name")
            return
        self._live[subject] = time
        self.timeline.add(time, Verb.DELETE, subject)

    def bind(self, name: str, time: float, node: str) -> None:
        """Record where a pod was put.

        Parameters
        ----------
        time : float
            Seconds.
        """
        self.timeline.bind(time, f"pod/{NAMESPACE}/{name_of(name)}", name_of(node))


def make_node(name: str, allocatable: Resources, labels: Mapping[str, str]) -> Node:
    """Make a node."""
    resources = {"pods": NO_LIMIT} | dict(allocatable)
    meta = ObjectMeta(name=name, uid=f"node/{name}", labels={HOSTNAME: name} | dict(labels))
    return Node(metadata=meta, status=NodeStatus(capacity=resources, allocatable=resources))


def name_of(text: str) -> str:
    """Return a name of Kubernetes for an identifier of a trace: its letters in lower case, digits and
    hyphens.
    """
    return _ODD.sub("-", text.lower()).strip("-")[:253] or "x"


def _affinity(label: str, values: tuple[str, ...]) -> Affinity:
    term = NodeSelectorTerm(
        match_expressions=(NodeSelectorRequirement(key=label, operator="In", values=values),)
    )
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(term,))))
