"""PreEnqueue: whether plugins keep a pod out of the active queue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import lru_cache

from moorage._core.queue.queued_pods import QueuedPodInfo
from moorage.kube import Pod

from ..framework import PreEnqueuePlugin, Status
from ..framework.plugin.interface import Code
from ..framework.runtime.call import ask_status

logger = logging.getLogger("moorage.queue")

Asked = list[Callable[[Pod], Status | None]]
"""PreEnqueue of several plugins."""
Rule = tuple[list[str], list[Sized], Asked, Asked]
"""What PreEnqueue of a profile reads; see `moorage._core.queue.entrance.Entrance`."""


def rule_of(plugins: Sequence[PreEnqueuePlugin]) -> Rule | None:
    """Return what PreEnqueue reads; None if one of the plugins is not the library's, whose calls are
    observed."""
    fields: list[str] = []
    held: list[Sized] = []
    asked: Asked = []
    asked_by_group: Asked = []
    for plugin in plugins:
        gates = getattr(plugin.pre_enqueue, "gates_only_with", None)
        if gates is not None:
            fields += gates[0]
            held += [getattr(plugin, attribute) for attribute in gates[1]]
        elif plugin.in_core:
            is_alike = getattr(plugin.pre_enqueue, "gates_by_group", False)
            (asked_by_group if is_alike else asked).append(plugin.pre_enqueue)
        else:
            return None
    return fields, held, asked, asked_by_group


@lru_cache(256)  # thousands of pods share a set, which the garbage collector would visit otherwise
def joined(plugins: frozenset[str], name: str) -> frozenset[str]:
    """Return a set of plugins with another one."""
    return plugins | {name}


class Gates:
    """PreEnqueue of all profiles.

    Parameters
    ----------
    plugins : mapping of str to sequence of PreEnqueuePlugin
        By scheduler name.

    Attributes
    ----------
    rules : dict of str to Rule or None
        By scheduler name.
    """

    def __init__(self, plugins: Mapping[str, Sequence[PreEnqueuePlugin]]) -> None:
        self._plugins = plugins
        self.rules = {name: rule_of(of_profile) for name, of_profile in plugins.items()}

    def ask(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue; the first failure gates the pod. The plugin that gated it before runs first."""
        pod = info.pod
        plugins = self._plugins.get(pod.spec.scheduler_name, ())
        if info.gating_plugin:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin)
        for plugin in plugins:
            ask = plugin.pre_enqueue
            status = ask(pod) if plugin.in_core else ask_status(plugin, pod, ask, pod)
            if status is None or status.is_success:
                continue
            info.unschedulable_plugins = joined(info.unschedulable_plugins, plugin.name)
            info.gating_plugin = plugin.name
            if status.code == Code.ERROR:
                logger.error("pod %s: PreEnqueue of %s: %s", pod.key, plugin.name, status.message())
            return True
        info.gating_plugin = ""
        return False
