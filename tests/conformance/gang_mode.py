"""Mode gang: pod groups from the scheduler's queue, cycle by cycle, and the condition that each writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from moorage.engine.framework import FilterPlugin
from moorage.kube import AnyGroup, CompositePodGroup, Condition, Pod, decode_object
from moorage.kube.releases import DEFAULT
from tests.doors.engine import Loop, schedule_one
from tests.scheduler.placing.alone import place_alone

from .modes import Mode
from .world import ANY_STEP, STEP_KEYS, World, check_keys

Json = dict[str, Any]

GANG_STEPS: dict[str, set[str]] = STEP_KEYS | {
    "group": {"object", "members"},
    "hierarchy": {"namespace", "name", "groups", "members"},
}
MOST_ATTEMPTS = 4
OPTIONAL_KEYS: Mapping[str, set[str]] = ANY_STEP | {"group": {"name"}}


def one_cycle(loop: Loop, given: Sequence[str]) -> list[Pod]:
    """Try the next group, and bind those of its pods that got a node; the pods that were tried. Of equal
    priority they come in the order given, not in that of the events that let them into the queue."""
    with loop.recording_evictions():
        infos = loop.take()
        places = {key: at for at, key in enumerate(given)}
        infos.sort(key=lambda info: (-(info.pod.spec.priority or 0), places.get(info.pod.key, len(places))))
        if infos:
            loop.attempt(infos)
            loop.bind()
    return [info.pod for info in infos]


class GangWorld(World):
    """A world whose scheduler tries pod groups; their pods share one call in batches alone."""

    def __init__(self, scenario: Json, how: Mode) -> None:
        config = scenario.get("config", {})
        super().__init__(
            scenario["objects"],
            tie_break="go-heap",
            preempts=True,
            config=config.get("configuration"),
            feature_gates=config.get("featureGates", {}) | {"OpportunisticBatching": False},
            release=scenario.get("release", DEFAULT),
        )
        how.set_up(self.scheduler)
        if not how.batch:
            place_alone(self.scheduler)
        self.last_order: list[str] | None = None
        self.tells_whole = scenario.get("release", DEFAULT) not in ("1.36", "1.37")
        self.written: dict[str, Json] = {}  # by group, the last patch of its condition, which replaced it

    def step(self, step: Json) -> Json:
        """Carry out a step; its result."""
        check_keys(step, GANG_STEPS, OPTIONAL_KEYS)
        match step["op"]:
            case "group":
                found = self._group([decode_object(step["object"])], step["members"])
            case "hierarchy":
                found = self._group(list(map(decode_object, step["groups"])), step["members"])
            case "schedule":
                found = self._schedule(decode_object(step["pod"]))
            case _:
                found = {"absent": True} if self.apply(step) else {}
        return {"op": step["op"]} | found

    # ---- groups --------------------------------------------------------------------------------------------

    def _group(self, groups: Sequence[AnyGroup], objects: Sequence[Json]) -> Json:
        """Try a group, or a tree of groups, until a cycle changes nothing, a few times at most. Members
        without a node go then."""
        for group in groups:
            if not any(held.key == group.key for held in self.store.list(type(group))[0]):
                self.add(group)
        members: list[Pod] = [decode_object(pod) for pod in objects]
        for pod in members:
            self.add(pod)
        queue, attempts = self.scheduler.queue, list[Json]()
        gated = {info.pod.key for info in queue.pending_pods().gated}
        while not attempts or (goes_on(attempts[-1]) and len(attempts) < MOST_ATTEMPTS):
            self.scheduler.sync()  # with the nominations of the attempt before
            queue.activate([self.pods[pod.key] for pod in members if pod.key in self.pods])
            attempt = self._attempt(groups, [pod.key for pod in members])
            if attempt is None:
                break
            attempts.append(attempt)
        result: Json = {"gated": [pod.key for pod in members if pod.key in gated]} if gated else {}
        for pod in members:
            if not self.pods[pod.key].spec.node_name:
                self.remove_pod(pod.key)
        return result | ({"attempts": attempts} if attempts else {})

    def _attempt(self, groups: Sequence[AnyGroup], members: Sequence[str]) -> Json | None:
        """One cycle; None where there is nobody to try."""
        loop = Loop(self.scheduler.context)
        pods = one_cycle(loop, members)
        if not pods:
            return None
        placed = dict(loop.result.placements)
        for key, node in placed.items():
            self.pods[key] = replace(self.pods[key], spec=replace(self.pods[key].spec, node_name=node))
        for key in loop.result.evicted:
            del self.pods[key]
        failed = {key: self._failed(key, one.message) for key, one in loop.result.unschedulable.items()}
        found = {"placed": placed, "failed": failed, "evicted": sorted(loop.result.evicted)}
        conditions: dict[str, Json] = {}
        for group in groups:
            name = f"{group.kind.lower()}/{group.key}"
            written = patch(self.written.get(name, {}), self._condition(group), self.tells_whole)
            if written:
                self.written[name] = conditions[name] = written
        is_tree = isinstance(groups[0], CompositePodGroup)
        found["conditions" if is_tree else "condition"] = conditions if is_tree else conditions.get(name)
        return {key: one for key, one in found.items() if one} | {
            "next": self.scheduler.context.rotation.start
        }

    def _failed(self, key: str, message: str) -> Json:
        node = self.scheduler.handle.nominator.nominated_node(self.pods[key])
        return {"message": message} | ({"nominated": node} if node else {})

    def _condition(self, group: AnyGroup) -> Condition | None:
        conditions = self.store.get(type(group), group.name, group.namespace).status.conditions
        return next((one for one in conditions if one.type.endswith("InitiallyScheduled")), None)

    # ---- pods without a group ------------------------------------------------------------------------------

    def _schedule(self, pod: Pod) -> Json:
        """A cycle of a single pod, without PostFilter."""
        engine = self.scheduler.context.engine_of(pod)
        engine.runs_post_filter = False
        decision = schedule_one(self.scheduler.context, pod)
        engine.runs_post_filter = True
        found: Json = {"start": decision.start, "next": decision.next}
        order = self.scheduler.context.view_order()
        if order != self.last_order:
            self.last_order = order
            found["orderHash"] = sha1("\n".join(order))
        if decision.error:
            return found | {"error": decision.error}
        found["evaluated"] = decision.evaluated
        if decision.node is None:
            return found | {"fitError": decision.fit_error}
        self.place(pod, decision.node)
        # The vectors of this mode tell the positions where one node is feasible; else the digest is of none.
        feasible = decision.feasible.tolist()
        told = ",".join(map(str, feasible)) if len(feasible) == 1 else ""
        counted = {"feasibleCount": len(feasible), "feasibleAtDigest": sha1(told)[:12]}
        return found | {"chosen": decision.node} | counted


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def goes_on(attempt: Json) -> bool:
    """Whether something has changed that the next attempt sees: pods were evicted, or others nominated."""
    return "evicted" in attempt or any("nominated" in one for one in attempt.get("failed", {}).values())


def patch(before: Json, after: Condition | None, whole: bool) -> Json:
    """What is written to a condition: the fields of it that are other ones now, up to 1.37; the recorder of
    these vectors keeps no others."""
    if after is None:
        return {}
    fields = ("status", "reason", "message")
    new = {key: getattr(after, key) for key in fields if getattr(after, key) != before.get(key, "")}
    if new and whole:
        new = {key: getattr(after, key) for key in fields}
    return {"status": "", "reason": ""} | {key: value for key, value in new.items() if value} if new else {}


def replay_gang(scenario: Json, how: Mode) -> Iterator[Json]:
    """Yield the result's header, then one result per step."""
    world = GangWorld(scenario, how)
    profile = world.scheduler.profile
    header = {"name": scenario["name"], "mode": scenario["mode"]}
    yield header | {"filterPlugins": [plugin.name for plugin in profile.at(FilterPlugin)]}
    for step in scenario["steps"]:
        yield how.compared(world.step(step))
    how.count(world.scheduler)
