"""Frameworks and plugins for tests, from as little as a test wants to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moorage.engine.cache import SchedulerCache
from moorage.engine.framework import Code, Framework, FrameworkHandle, Plugin, Profile, Status
from moorage.kube import Node, Pod
from moorage.kube.releases import DEFAULT_GATES, FeatureGates
from tests.make import node

ERROR, UNSCHEDULABLE, UNRESOLVABLE = Code.ERROR, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE
PENDING, WAIT, SKIPPED = Code.PENDING, Code.WAIT, Code.SKIP


class NoClient:
    """A client that binds nothing."""

    def bind(self, pod: Pod, node: str) -> None:
        raise AssertionError("nothing is to be bound")


def make(base: type[Plugin], name: str, **answers: Any) -> Any:
    """A plugin of one extension point; each method answers what is given, or calls it with its arguments."""
    methods = {"name": name}
    for method, answer in answers.items():
        methods[method] = answer if callable(answer) else _answering(answer)  # type: ignore[assignment]
    return type(name, (base,), methods)()


def _answering(answer: Any) -> Callable[..., Any]:
    def method(self: Plugin, *arguments: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return method


def framework(
    *plugins: Plugin, nodes: Iterable[Node] = (), feature_gates: FeatureGates = DEFAULT_GATES, **settings: Any
) -> Framework:
    """A framework over a cache with these nodes."""
    cache = SchedulerCache()
    for one in nodes or [node("a"), node("b")]:
        cache.add_node(one)
    return Framework(
        Profile(plugins, **settings), FrameworkHandle(cache, NoClient(), feature_gates=feature_gates)
    )


def status(code: Code, *reasons: str) -> Status:
    return Status(code, reasons)


def said(answer: Status | None) -> tuple[Code, str, str] | None:
    """(code, message, plugin) of a status."""
    return None if answer is None else (answer.code, answer.message(), answer.plugin)
