"""Mode queue: the scheduling queue behind the scheduler's informers, by a clock of milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from moorage.engine.framework import NominatingInfo
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler import Rejectors
from moorage.kube.releases import DEFAULT

from .modes import Mode
from .world import STEP_KEYS, World, check_keys

Json = dict[str, Any]

QUEUE_STEPS: dict[str, set[str]] = {
    **{op: keys for op, keys in STEP_KEYS.items() if op != "schedule"},
    "pop": set(),
    "fail": {"namespace", "name", "plugins"},
    "error": {"namespace", "name"},
    "bind": {"namespace", "name", "to"},
    "activate": {"pods"},
    "nominate": {"namespace", "name", "to"},
    "advance": {"milliseconds"},
    "flushBackoff": set(),
    "flushUnschedulable": set(),
}
OPTIONAL_KEYS = {"fail": {"pending", "nominate"}, "error": {"nominate"}}


class QueueWorld(World):
    """A world whose clock moves on before each object that is not a namespace, and before each step."""

    def __init__(self, scenario: Json) -> None:
        config = scenario.get("config", {})
        self.milliseconds = 0
        self.starting = True
        super().__init__(
            scenario["objects"],
            clock=lambda: self.milliseconds / 1000,
            config=config.get("configuration"),
            feature_gates=config.get("featureGates", {}),
            release=scenario.get("release", DEFAULT),
        )
        self.starting = False
        self.queue = self.scheduler.queue

    def add(self, obj: Any) -> None:
        if self.starting and obj.kind != "Namespace":
            self.milliseconds += 1
        super().add(obj)

    def step(self, step: Json) -> Json:
        """Carry out a step; what there is to tell of it besides the state of the queue."""
        check_keys(step, QUEUE_STEPS, OPTIONAL_KEYS)
        self.milliseconds += 1
        op = step["op"]
        carry_out = getattr(self, f"_{op.lower()}", None)
        if carry_out is not None:
            found: Json = carry_out(step)
            return found
        return {"absent": True} if self.apply(step) else {}

    # ---- the steps of this mode ----------------------------------------------------------------------------

    def _pop(self, step: Json) -> Json:
        for info in self.queue.pop():
            return {"popped": {"pod": info.pod.key, "attempts": info.attempts}}
        return {"empty": True}

    def _fail(self, step: Json) -> Json:
        pending = frozenset(step.get("pending", ()))
        return self._give_back(step, Rejectors(pending | frozenset(step["plugins"]), pending))

    def _error(self, step: Json) -> Json:
        return self._give_back(step, Rejectors())

    def _give_back(self, step: Json, rejectors: Rejectors) -> Json:
        info = self._in_flight(step)
        if info is None:
            return {"absent": True}
        self.queue.give_back([info], [self.scheduler.pods.indexer.get(info.pod.key)], [rejectors])
        noop = "nominate" not in step
        nominating = NominatingInfo("" if noop else step["nominate"], noop=noop)
        self.queue.nominator.add_nominated_pod(info.pod, nominating)
        return {"pod": info.pod.key}

    def _bind(self, step: Json) -> Json:
        info = self._in_flight(step)
        if info is None:
            return {"absent": True}
        pod = self.pods.get(info.pod.key)
        if pod is None:
            self.queue.done([info])
            return {"pod": info.pod.key, "absent": True}
        self.scheduler.context.assume(info.pod, step["to"])
        self.queue.done([info])
        self.pods[pod.key] = replace(pod, spec=replace(pod.spec, node_name=step["to"]))
        self._update(self.pods[pod.key])
        return {"pod": info.pod.key}

    def _activate(self, step: Json) -> Json:
        self.queue.activate([self.pods[key] for key in step["pods"] if key in self.pods])
        return {}

    def _nominate(self, step: Json) -> Json:
        pod = self.pods.get(f"{step['namespace']}/{step['name']}")
        if pod is None:
            return {"absent": True}
        self.queue.nominator.add_nominated_pod(pod, NominatingInfo(step["to"]))
        return {}

    def _advance(self, step: Json) -> Json:
        self.milliseconds += step["milliseconds"]
        return {}

    def _flushbackoff(self, step: Json) -> Json:
        self.queue.flush_backoff_completed()
        return {}

    def _flushunschedulable(self, step: Json) -> Json:
        self.queue.flush_unschedulable_left_over()
        return {}

    def _in_flight(self, step: Json) -> QueuedPodInfo | None:
        key = f"{step['namespace']}/{step['name']}"
        return next((info for info in self.queue.in_flight() if info.pod.key == key), None)

    # ---- the state of the queue ----------------------------------------------------------------------------

    def state(self) -> Json:
        """Where everything is."""
        pending = self.queue.pending_pods()
        nominations = {key: self.queue.nominator.nominated_node(pod) for key, pod in self.pods.items()}
        nominated = {key: node for key, node in nominations.items() if node is not None}
        state = {
            "now": self.milliseconds,
            "active": _keys(pending.active),
            "backoff": [self._until(info) for info in pending.backoff],
            "errorBackoff": sorted(map(self._until, pending.error_backoff), key=_until_then_name),
            "unschedulable": sorted(_keys(pending.unschedulable)),
            "gated": sorted(_keys(pending.gated)),
            "inFlight": _keys(self.queue.in_flight()),
        }
        if not self.gate_is_on:
            state["backoff"].sort(key=_until_then_name)
        return state | ({"nominated": nominated} if nominated else {})

    @property
    def gate_is_on(self) -> bool:
        return self.queue.settings.pop_from_backoff

    def _until(self, info: QueuedPodInfo) -> Json:
        until = self.queue.backoff_until(info)
        return {"pod": info.pod.key, "until": None if until is None else round(until * 1000)}


def _keys(infos: list[QueuedPodInfo]) -> list[str]:
    return [info.pod.key for info in infos]


def _until_then_name(entry: Json) -> tuple[int, str]:
    return entry["until"], entry["pod"]


def replay_queue(scenario: Json, how: Mode) -> Iterator[Json]:
    """Yield the result's header, then one result per step."""
    world = QueueWorld(scenario)
    how.set_up(world.scheduler)
    yield {"name": scenario["name"], "mode": scenario["mode"]}
    for step in scenario["steps"]:
        found = world.step(step)
        absent = {"absent": True} if found.pop("absent", False) else {}
        yield {"op": step["op"]} | absent | {"queue": found | world.state()}
