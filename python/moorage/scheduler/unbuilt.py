"""What the decisions leave out because its plugin is not built yet: counted, and said once."""

from __future__ import annotations

from collections import defaultdict

from moorage.errors import NotBuiltError
from moorage.framework.profile import Profile
from moorage.objects.meta import Object
from moorage.objects.pod import Pod


class UnbuiltUses:
    """Counts, per feature, the pods that were decided without it.

    Parameters
    ----------
    strict : bool
        Raise NotBuiltError instead.
    """

    def __init__(self, profile: Profile, strict: bool) -> None:
        self.plugins = profile.plugins
        self.workloads: dict[str, Object] = {}
        self.strict = strict
        self.uses_of_class: dict[int, list[str]] = {}
        self.pods: dict[str, set[str]] = defaultdict(set)
        self.bound: set[str] = set()

    def set_workload(self, workload: Object) -> None:
        """A Service or a controller is there, or has changed."""
        self.workloads[f"{workload.kind}/{workload.key}"] = workload
        self.uses_of_class.clear()

    def drop_workload(self, workload: Object) -> None:
        """A Service or a controller went."""
        self.workloads.pop(f"{workload.kind}/{workload.key}", None)
        self.uses_of_class.clear()

    def note(self, pod: Pod, pod_class: int) -> None:
        """Take note of a pod that is about to be decided. Pods of one class use the same features, except for
        volumes and nominations, which a class does not include."""
        volumes = pod.spec.volumes or pod.status.nominated_node_name
        uses = None if volumes else self.uses_of_class.get(pod_class)
        if uses is None:
            uses = self._uses(pod)
            if not volumes:
                self.uses_of_class[pod_class] = uses
        if self.strict and (uses or self.bound):
            what = f"{uses[0]} (pod {pod.key})" if uses else f"terms of pod {min(self.bound)}"
            raise NotBuiltError(f"not built yet: {what}")
        for use in uses:
            self.pods[use].add(pod.key)

    def note_bound(self, pod: Pod) -> None:
        """Take note of a pod on a node: its affinity terms concern the pods that come after it."""
        if pod.spec.affinity is None:
            return
        for plugin in self.plugins:
            use = plugin.unbuilt_use_of_bound(pod)
            if use:
                self.bound.add(pod.key)
                self.pods[f"{plugin.name}, {use}"].add(pod.key)

    def drop_bound(self, pod: Pod) -> None:
        """A pod on a node went."""
        self.bound.discard(pod.key)

    def _uses(self, pod: Pod) -> list[str]:
        found = []
        for plugin in self.plugins:
            use = plugin.unbuilt_use(pod, tuple(self.workloads.values()))
            if use:
                found.append(f"{plugin.name}, {use}")
        if pod.status.nominated_node_name:
            found.append("nominated nodes")
        return found

    def warnings(self) -> list[str]:
        """One sentence per feature, with its pod count."""
        return [
            f"not built yet and left out of the decision: {use} of {len(keys)} pod{'s'[: len(keys) > 1]}"
            for use, keys in sorted(self.pods.items())
        ]
