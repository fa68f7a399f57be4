"""A plugin that notes what happens to a pod between its node and its binding."""

from __future__ import annotations

from typing import Any

from tests.make import pod

import moorage as mo
from moorage import Scheduler
from moorage.kube import Pod

KEY = "default/p"


class Steps(mo.ReservePlugin, mo.PermitPlugin, mo.PreBindPlugin, mo.PostBindPlugin):
    """Writes down what it is asked, and answers as told."""

    name = "Steps"

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        self.answers = answers
        self.log: list[str] = []

    def _step(self, what: str, pod: Pod, node_name: str) -> Any:
        assert pod.spec.node_name == node_name
        self.log.append(f"{what} {pod.name} {node_name}")
        return self.answers.get(what)

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Any:
        assert self.handle is not None
        assert self.handle.cache.is_assumed_pod(pod)
        return self._step("reserve", pod, node_name)

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self._step("unreserve", pod, node_name)

    def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
        return self._step("permit", pod, node_name)

    def pre_bind_pre_flight(self, state: Any, pod: Pod, node_name: str) -> Any:
        return self._step("pre_flight", pod, node_name)

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Any:
        return self._step("pre_bind", pod, node_name)

    def post_bind(self, state: Any, pod: Pod, node_name: str) -> None:
        self._step("post_bind", pod, node_name)


def is_free(one: Scheduler) -> bool:
    """The pod is not in the cache, and waits to be scheduled."""
    return not one.cache.state.has_pod(pod("p")) and list(one.pods.pending) == [KEY]
