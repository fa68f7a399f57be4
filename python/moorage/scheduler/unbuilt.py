"""What the decisions leave out because its plugin is not built yet: counted, and said once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from moorage.errors import NotBuiltError
from moorage.framework.profile import Profile
from moorage.objects.pod import Pod


class UnbuiltUses:
    """Counts, per feature, the pods that were decided without it.

    Parameters
    ----------
    strict : bool
        Raise NotBuiltError instead.
    """

    def __init__(self, profiles: Sequence[Profile], strict: bool) -> None:
        self.plugins = {plugin.name: plugin for one in profiles for plugin in one.plugins}.values()
        self.strict = strict
        self.uses_of_class: dict[int, list[str]] = {}
        self.pods: dict[str, set[str]] = defaultdict(set)

    def note(self, pod: Pod, pod_class: int) -> None:
        """Take note of a pod that is about to be decided. Pods of one class use the same features, except for
        volumes, which a class does not include."""
        volumes = pod.spec.volumes
        uses = None if volumes else self.uses_of_class.get(pod_class)
        if uses is None:
            uses = self._uses(pod)
            if not volumes:
                self.uses_of_class[pod_class] = uses
        if self.strict and uses:
            raise NotBuiltError(f"not built yet: {uses[0]} (pod {pod.key})")
        for use in uses:
            self.pods[use].add(pod.key)

    def _uses(self, pod: Pod) -> list[str]:
        found = []
        for plugin in self.plugins:
            use = plugin.unbuilt_use(pod)
            if use:
                found.append(f"{plugin.name}, {use}")
        return found

    def warnings(self) -> list[str]:
        """One sentence per feature, with its pod count."""
        return [
            f"not built yet and left out of the decision: {use} of {len(keys)} pod{'s'[: len(keys) > 1]}"
            for use, keys in sorted(self.pods.items())
        ]
