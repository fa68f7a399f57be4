"""Loops of cluster-autoscaler, in the form of their vectors (conformance/CLUSTER_AUTOSCALER.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from moorage.kube import Node, Pod, decode_object
from tests.conformance.compare import differences
from tests.conformance.vectors import MalformedError
from tests.conformance.world import World
from tests.doors.autoscalers import ClusterAutoscaler, Flags, Instance, PodPrices, ScaledGroup
from tests.doors.kube import seconds

Json = dict[str, Any]

FIELDS = {"scenario", "loops", "plays", "classes", "order"}
SEARCHED = ("Successful", "NoOptionsAvailable", "Error")
"""Results of loops that looked for nodes, where vectors tell the templates."""
OF_GROUP = {"zeroOrMaxNodeScaling": "zero_or_max"}


def is_cluster_autoscaler(vector: Json) -> bool:
    """Whether a line is a vector of cluster-autoscaler."""
    return vector.keys() == FIELDS


def check(vector: Json, shown: int) -> Iterator[str]:
    """What is wrong with a vector: in its first loop that differs."""
    produced = played(vector["scenario"], vector["classes"])
    for number, loop in enumerate(vector["loops"]):
        expected = loop["expected"]
        for name in loop["varying"]:
            if name not in expected:
                raise MalformedError(f"malformed line: {name} varies, but is not expected")
        found = list(islice(differences(expected, next(produced)), shown))
        if found:
            yield from (f"loop {number}: {one}" for one in found)
            return


def played(scenario: Json, classes: dict[str, str]) -> Iterator[Json]:
    """The results of the loops of a scenario."""
    start = seconds(scenario["now"])
    flags = flags_of(scenario)
    groups = [group_of(one) for one in scenario["groups"]]
    world = World(scenario["objects"])
    player = ClusterAutoscaler(groups, flags)
    names = Names(classes)
    for loop in scenario.get("loops", [{"at": 0}]):
        for one in loop.get("add", ()):
            world.add(decode_object(one))
        for text in loop.get("remove", ()):
            kind, _, key = text.partition(" ")
            if kind != "pod":
                raise MalformedError(f"cannot remove {text}")
            world.remove_pod(key)
        at = loop.get("at", 0)
        result = player.run_once(world.scheduler, scenario["nodes"], start + at)
        yield {"at": number(at)} | (names.up(result.up) if scenario["mode"] == "up" else names.down(result))


def number(value: float) -> float:
    """A number to nine digits; a whole one as JSON has it."""
    found = round(value, 9)
    return int(found) if found == int(found) else found


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def flags_of(scenario: Json) -> Flags:
    given: Json = {}
    for name, value in scenario["options"].items():
        if name == "expander":
            given["expanders"] = tuple(value)
        elif name == "priorities":
            given["priorities"] = {int(key): tuple(one) for key, one in value.items()}
        else:
            given[snake(name)] = tuple(value) if isinstance(value, list) else value
    if "podPrices" in scenario:
        given["pod_prices"] = PodPrices(**scenario["podPrices"])
    return Flags(**given)


def group_of(given: Json) -> ScaledGroup:
    options = given.get("options", {})
    overrides = {snake(name): value for name, value in options.items() if name not in OF_GROUP}
    requested = given.get("requested")
    return ScaledGroup(
        given["name"],
        node_of(given["template"]) if given.get("template") else None,
        given["min"],
        given["max"],
        given.get("target"),
        given.get("price"),
        tuple(decode_object(one) for one in given.get("templatePods", ())),
        tuple(decode_object(one) for one in given.get("templateSlices", ())),
        tuple(instance_of(one) for one in given.get("instances", ())),
        (requested["nodes"], requested["ago"]) if requested else None,
        overrides,
        options.get("zeroOrMaxNodeScaling", False),
        given.get("failIncrease", False),
    )


def instance_of(given: Json) -> Instance:
    """What runs has no error of its creation."""
    return Instance(given["id"], given.get("error", "") if given["state"] == "creating" else "")


def node_of(given: Json) -> Node:
    node = decode_object(given)
    assert isinstance(node, Node)
    return node


class Names:
    """Writes results with the names of vectors."""

    def __init__(self, classes: dict[str, str]) -> None:
        self._classes = classes

    def counts(self, pods: Iterable[Pod]) -> dict[str, int]:
        return dict(Counter(self._classes.get(pod.key, pod.key) for pod in pods))

    def up(self, made: Any) -> Json:
        remain: Json = {}
        templates = {name: self.template(one) for name, one in made.templates.items()}
        searched = made.result in SEARCHED
        for one in made.remaining:
            for name, count in self.counts(one.pods).items():
                remain[name] = {
                    "count": count + remain.get(name, {"count": 0})["count"],
                    "rejected": {key: sorted(value) for key, value in one.rejected.items()},
                    "skipped": {key: [value] for key, value in one.skipped.items()},
                }
        return {
            "result": made.result,
            "error": made.error,
            "toHelp": self.counts(made.to_help) if searched else {},
            "templates": templates if searched else None,
            "upcoming": made.upcoming if searched else [],
            "estimates": made.estimates,
            "helped": {name: self.counts(pods) for name, pods in made.helped.items()},
            "similar": made.similar,
            "left": [sorted(names) for names in made.left],
            "scaleUps": {one.group: one.new_size - one.size for one in made.growths},
            "triggered": self.counts(made.triggered),
            "awaiting": self.counts(made.awaiting),
            "remain": remain,
        }

    def template(self, made: Any) -> Json:
        node = made.node
        labels = {key: one for key, one in node.metadata.labels.items() if key != "kubernetes.io/hostname"}
        taints = [
            f"{one.key}={one.value}:{one.effect}" if one.value else f"{one.key}:{one.effect}"
            for one in node.spec.taints
        ]
        found: Json = {"labels": labels, "allocatable": dict(node.status.allocatable)}
        found["pods"] = sorted(owner_of(pod) for pod in made.pods)
        return found | ({"taints": taints} if taints else {})

    def down(self, made: Any) -> Json:
        down = made.down
        found: Json = {
            "result": down.result,
            "error": made.up.error,
            "unneeded": sorted(down.unneeded),
            "reasons": down.reasons,
            "blockers": {name: [pod.key, rule] for name, (pod, rule) in down.blockers.items()},
            "utilization": {
                name: {one.resource: number(one.share)}
                for name, one in down.utilization.items()
                if name in down.reasons
            },
            "deleted": {name: "drain" if name in down.drained else "empty" for name in down.deleted},
            "evicted": {name: sorted(pod.key for pod in pods) for name, pods in down.deleted.items()},
        }
        growths = {one.group: one.new_size - one.size for one in made.up.growths}
        return found | ({"scaleUps": growths} if growths else {})


def owner_of(pod: Pod) -> str:
    owner = pod.metadata.controller()
    return f"Pod {pod.namespace}" if owner is None else f"{owner.kind} {pod.namespace}/{owner.name}"
