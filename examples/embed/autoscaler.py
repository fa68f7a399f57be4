"""An autoscaler loop over `Scheduler`: nodes are added for pods that do not fit, and empty ones go.

Each step asks the engine, so that taints, spread, affinity, volumes and devices count as for kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import moorage as mo


@dataclass(frozen=True)
class Group:
    """Nodes that a cloud makes from one template.

    Attributes
    ----------
    template : Node
        A node of the group; its labels tell which nodes belong to it.
    minimum, maximum : int
        Number of nodes.
    """

    template: mo.Node
    minimum: int
    maximum: int

    def owns(self, node: mo.Node) -> bool:
        """Whether a node is one of this group."""
        return node.metadata.labels.get("pool") == self.template.metadata.labels["pool"]


class Autoscaler:
    """Adds and removes nodes of some groups."""

    def __init__(self, scheduler: mo.Scheduler, groups: Sequence[Group]) -> None:
        self.scheduler = scheduler
        self.groups = groups

    def step(self) -> list[str]:
        """Schedule what is pending, then change the number of nodes; return what was done."""
        done = []
        if self.scheduler.run().unschedulable:
            done = [self._add(group) for group in self.groups]
            self.scheduler.run()
        return [line for line in done if line] or self._remove()

    def _nodes(self, group: Group) -> list[mo.Node]:
        return [node for node in self.scheduler.client.list(mo.Node)[0] if group.owns(node)]

    def _add(self, group: Group) -> str:
        """Add the nodes of a group on which pending pods have a place."""
        left = group.maximum - len(self._nodes(group))
        if left <= 0 or not self.scheduler.pods.pending:
            return ""
        needed = self.scheduler.ask.nodes_needed(like=group.template, max=left)
        if needed.nodes == 0:
            return ""
        self.scheduler.change.add_nodes(needed.nodes, group.template)
        return f"{group.template.name}: {needed.nodes} more"

    def _remove(self) -> list[str]:
        """Remove each node whose pods all have a place elsewhere, as a drain and a run show on a fork."""
        removed = []
        for group in self.groups:
            nodes = self._nodes(group)
            for node in sorted(nodes, key=self._pods)[: max(0, len(nodes) - group.minimum)]:
                pending = len(self.scheduler.pods.pending)
                trial = self.scheduler.fork()
                kept = trial.change.drain(node.name).kept
                trial.run()
                if kept or len(trial.pods.pending) > pending:
                    continue
                self.scheduler.change.drain(node.name)
                self.scheduler.run()
                self.scheduler.change.remove_nodes(node.name)
                removed.append(f"{node.name} removed")
        return removed

    def _pods(self, node: mo.Node) -> tuple[int, str]:
        info = self.scheduler.cache.node_info(node.name)
        return (0 if info is None else len(info.pods)), node.name


def main() -> None:
    """A Deployment grows, and shrinks again."""
    size = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    node = {"kind": "Node", "metadata": {"name": "small", "labels": {"pool": "small"}}}
    node["status"] = {"capacity": size, "allocatable": size}
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1500m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    scheduler = mo.Scheduler(mo.load([node, web]))
    autoscaler = Autoscaler(scheduler, [Group(mo.read_object(node, mo.Node), minimum=1, maximum=5)])
    for replicas in (2, 7, 12, 3):
        scheduler.change.scale("deploy/web", replicas)
        print(f"{replicas} replicas:", ", ".join(autoscaler.step()) or "nothing to do")


if __name__ == "__main__":
    main()
