"""Schedulers with extenders, and what they are told, for tests of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.doors.engine import schedule_one
from tests.make import configuration, node

from moorage import Scheduler
from moorage.engine.scheduler import Decision
from moorage.kube import Cluster, Node, Pod

ABC = [node("a", cpu=4), node("b", cpu=8), node("c", cpu=16)]
GPU = "example.com/gpu"


def of(url: str, *verbs: str, **fields: Any) -> dict[str, Any]:
    """An extender's configuration; it is sent names."""
    named = {f"{verb}Verb": verb for verb in verbs}
    return {"urlPrefix": url, "nodeCacheCapable": True, "weight": 1} | named | fields


def configured(
    *extenders: dict[str, Any], profile: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return configuration(profiles=[profile or {}], extenders=list(extenders), **more)


def scheduler(
    *extenders: dict[str, Any],
    pods: Iterable[Pod] = (),
    nodes: list[Node] = ABC,
    config: dict[str, Any] | None = None,
    **given: Any,
) -> Scheduler:
    return Scheduler(Cluster(nodes=nodes, pods=list(pods)), config=config or configured(*extenders), **given)


def only(*names: str) -> Callable[[Any], Any]:
    """A filter that lets these pass, in this order."""
    return lambda message: {"NodeNames": [name for name in names if name in message["NodeNames"]]}


def scores(**by_name: int) -> list[dict[str, Any]]:
    return [{"Host": name, "Score": score} for name, score in by_name.items()]


def decide(one: Scheduler, waiting: Pod) -> Decision:
    """A cycle for a pod that has come to the store."""
    one.client.create(waiting)
    one.sync()
    return schedule_one(one.context, waiting)


def why(decision: Decision) -> str:
    """What the search says; PostFilter may add to that."""
    assert decision.diagnosis is not None
    return decision.diagnosis.search_message()
