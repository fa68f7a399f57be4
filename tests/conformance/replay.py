"""Replays one scenario through the engine; the outcome has the vectors' own format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from moorage import Quantity, Scheduler
from moorage.engine.framework import FilterPlugin, ScorePlugin
from moorage.kube import Node
from moorage.kube.releases import DEFAULT, gates_of, release_named
from tests.doors.engine import schedule_one, uses_volumes

from .dra_mode import DRA_STEPS, STATE, DraCycle, DraWorld
from .dra_mode import OPTIONAL as DRA_OPTIONAL
from .extenders import totals_of_plugins
from .gang_mode import replay_gang
from .modes import Mode
from .preempt_mode import preempt
from .queue_mode import replay_queue
from .vectors import MalformedError
from .world import World, check_keys

SCORE_ERROR = 'running Score plugins: plugin "{}" failed with'

Json = dict[str, Any]

TIE_BREAK = {"full": "first", "sampled": "go-heap", "order": "first", "preempt": "first", "dra": "first"}
ONE_BY_ONE = Mode()
BATCHING = "OpportunisticBatching"
LARGE = Quantity("1T")
SCENARIO_KEYS = {
    *("name", "family", "seed", "mode", "brief", "digest", "batching"),
    *("config", "objects", "steps", "themes", "release"),
}


def replay(scenario: Json, how: Mode = ONE_BY_ONE) -> Iterator[Json]:
    """Yield the result's header (everything but the steps), then one result per step, as far as `how`
    produces it.

    Later steps rest on this engine's own decisions. As long as nothing differs they are those of
    the vector; the comparison ends with the first step that differs.
    """
    mode = scenario.get("mode")
    if mode not in (*TIE_BREAK, "queue", "gang"):
        raise MalformedError(f"unknown mode {mode!r}")
    unknown = scenario.keys() - SCENARIO_KEYS
    if unknown:
        raise MalformedError(f"unknown fields in the scenario: {', '.join(sorted(unknown))}")
    if scenario.get("config", {}).keys() - {"configuration", "featureGates"}:
        raise MalformedError(f"unknown fields in config: {', '.join(sorted(scenario['config']))}")
    if mode == "queue":
        yield from replay_queue(scenario, how)
        return
    if mode == "gang":
        yield from replay_gang(scenario, how)
        return
    gates = scenario.get("config", {}).get("featureGates", {})
    version = scenario.get("release", DEFAULT)
    if not scenario.get("batching") and BATCHING in gates_of(release_named(version)):
        gates = gates | {BATCHING: False}  # upstream's pods were not signed then
    world = (DraWorld if mode == "dra" else World)(
        scenario["objects"],
        from_the_top=mode == "full" and how.batch,
        tie_break=TIE_BREAK[mode],
        percentage_of_nodes_to_score=100 if mode in ("full", "preempt", "dra") else None,
        preempts=mode == "preempt",
        config=scenario.get("config", {}).get("configuration"),
        feature_gates=gates,
        release=version,
    )
    how.set_up(world.scheduler)
    yield header(scenario, world.scheduler)
    recorder = Recorder(scenario, world)
    for in_batch, steps in groupby(
        scenario["steps"], lambda step: how.batch and mode not in ("preempt", "dra") and is_plain(step)
    ):
        if in_batch:
            pods = [world.pod(step) for step in steps]
            how.taken.update(batches=1, pods=len(pods))
            yield from recorder.batch(pods)
        else:
            yield from map(how.compared, map(recorder.step, steps))
    how.count(world.scheduler)


def is_plain(step: Json) -> bool:
    """Whether a step schedules a pod without volumes: those of one pod are bound before the next is tried."""
    return step.get("op") == "schedule" and not step.get("pod", {}).get("spec", {}).get("volumes")


def may_overflow(world: World, pods: list[Any]) -> bool:
    """Whether amounts are so large that scores may leave their range."""
    wanted = [
        amount for pod in pods for one in pod.spec.containers for amount in one.resources.requests.values()
    ]
    there = [amount for node in world.store.list(Node)[0] for amount in node.status.allocatable.values()]
    return any(Quantity(amount) > LARGE for amount in (*wanted, *there))


def from_the_top(pods: list[Any], scheduler: Scheduler) -> Iterator[list[Any]]:
    """Runs of pods after whose searches the next one begins where they did: those over all nodes. In mode
    full each begins at the top, which a search among named nodes, or without scores, would leave."""
    part: list[Any] = []
    for pod in pods:
        part.append(pod)
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
        if not scheduler.context.engine_of(pod).plan.scores or any(term.match_fields for term in terms):
            yield part
            part = []
    yield part


def header(scenario: Json, scheduler: Scheduler) -> Json:
    result = {"name": scenario["name"], "mode": scenario["mode"]}
    if scenario["mode"] == "order":
        return result
    profile = scheduler.profile
    return result | given(
        filterPlugins=[plugin.name for plugin in profile.at(FilterPlugin)],
        scorePlugins=[plugin.name for plugin in profile.at(ScorePlugin)],
        # Upstream's has the plugins too that MultiPoint enables and Score disables.
        weights=profile.weight_overrides | profile.weights,
    )


BETWEEN = "between"
"""Where a search inside a batch began or ended: where the one before ended, or the one after began."""


class Recorder:
    """Carries out the steps and writes down what came of them."""

    def __init__(self, scenario: Json, world: World) -> None:
        self.world = world
        self.mode = scenario["mode"]
        self.brief = scenario.get("brief", False)
        self.digest = scenario.get("digest", False)
        self.last_order: list[str] | None = None

    def step(self, step: Json) -> Json:
        if self.mode == "dra":
            return self.dra(step)
        if step.get("op") != "schedule":
            check_keys(step)
            result = {"op": step["op"]} | given(absent=self.world.apply(step) or None)
            if self.mode == "order" and step.get("snapshot", True):
                result["order"] = list(self.world.scheduler.context.view_order())
            return result
        record = self.sampled if self.mode == "sampled" else self.full
        result = {"op": "schedule"} | record(self.world.pod(step))
        if self.mode == "preempt" and "fitError" in result:
            result["preempt"] = preempt(self.world, self.world.pod(step), step.get("apply", True))
        return result

    def dra(self, step: Json) -> Json:
        """One step in mode dra."""
        world = self.world
        assert isinstance(world, DraWorld)
        before = world.versions()
        check_keys(step, DRA_STEPS, DRA_OPTIONAL)
        if step["op"] != "schedule":
            result = {"op": step["op"]} | given(absent=world.apply(step) or None)
            tells = step["op"] not in ("addObject", "updateObject", "removeObject")
            return result | given(claims=world.changed(before) if tells else None)
        cycle = DraCycle(world, step)
        try:
            result = {"op": "schedule"} | self._dra_cycle(cycle)
        finally:
            cycle.close()
        claim_of_pod = [one["status"]["extendedResourceClaimStatus"] for one in world.pod_patches]
        return result | given(
            writes=world.recording.writes,
            claims=world.changed(before),
            extendedClaim=claim_of_pod[-1] if claim_of_pod and "preBind" not in result else None,
        )

    def _dra_cycle(self, cycle: DraCycle) -> Json:
        world, pod = cycle.world, cycle.pod
        pre_enqueue = cycle.pre_enqueue()
        after = cycle.next_start()
        result = self.full(pod, places=False) | {"next": after}
        if "error" in result:  # the program asked the plugin alone to score
            result["error"] = result["error"].removeprefix(f"{SCORE_ERROR.format(STATE)}: ")
        e, order = result.get("error"), list(world.scheduler.context.view_order())
        if e and "filter plugin" in e:
            result |= given(filter=cycle.rejected_before_error(order))
        result |= given(preEnqueue=pre_enqueue)
        if "fitError" in result:
            result |= {"postFilter": cycle.post_filter()}
        if "feasible" in result:  # even if Score fails with an error
            result |= given(allocations=cycle.allocations(result["feasible"]))
        if "chosen" not in result:
            world.remove_pod(pod.key)
            return result
        result |= cycle.bind(result["chosen"])
        if "preBind" in result or "reserve" in result:
            world.remove_pod(pod.key)
        else:
            world.place(pod, result["chosen"])
        return result

    def batch(self, pods: list[Any]) -> Iterator[Json]:
        """Pods that follow one another, decided in one call; where scores may leave their range in mode
        full, in a call each: that mode scores a single feasible node too, and no cycle does.
        """
        if self.mode != "full" or not may_overflow(self.world, pods):
            yield from self._together(pods)
            return
        for pod in pods:
            seen = self.world.scheduler.examine(pod)
            fails_alone = seen.error and len(seen.feasible) == 1
            yield from [{"op": "schedule"}] if fails_alone else self._together([pod])

    def _together(self, pods: list[Any]) -> Iterator[Json]:
        """Where the pods of one call went, and the rotation."""
        if self.mode == "full":  # a pod's own nominated node has no effect on the search
            asked = [replace(pod, status=replace(pod.status, nominated_node_name="")) for pod in pods]
        else:
            asked = pods
        self.world.announce(asked)
        table, nodes = self.world.scheduler.table, []
        for part in from_the_top(asked, self.world.scheduler) if self.mode == "full" else [asked]:
            start = self.world.scheduler.context.rotation.start
            result = self.world.scheduler.schedule_pods(part)
            nodes += [None if row < 0 else table.row_name(row) for row in result.rows.tolist()]
        after = self.world.scheduler.context.rotation.start
        for pod, node in zip(pods, nodes, strict=True):
            # A cycle has seen what was reported before the last pod: to its node alone is news what follows.
            self.world.scheduler.context.view_order()
            self.world.settle(pod, node)
        for at, node in enumerate(nodes):
            step = {"op": "schedule"} | given(chosen=node)
            if self.mode != "full":  # what lies between is compared with the steps before and after
                step["start"] = start if at == 0 else BETWEEN
                step["next"] = after if at == len(nodes) - 1 else BETWEEN
            yield step

    def full(self, pod: Any, places: bool = True) -> Json:
        """One pod in mode full: every node filtered, all feasible ones scored, the first best chosen."""
        e = self.world.scheduler.examine(pod)
        if e.error:
            found = {"feasible": list(e.feasible), "filter": rejections(e.rejected)}
            return self.order(e.order) | given(error=e.error, skippedFilter=list(e.skipped_filter), **found)
        chosen = e.best[0] if e.best else None
        reserved = {}
        if chosen is not None and places:
            reserved = self.world.reserve_volumes(pod, chosen) if uses_volumes(pod) else {}
            if "reserve" not in reserved:
                self.world.place(pod, chosen)
        result = (
            self.order(e.order)
            | reserved
            | given(
                prefilter=prefilter(e.pre_filter),
                skippedFilter=list(e.skipped_filter),
                skippedScore=list(e.skipped_score),
                chosen=chosen,
                fitError=e.fit_error,
            )
        )
        if self.brief:
            counts = {"feasibleCount": len(e.feasible), "feasibleHash": sha1(e.feasible, "\n")}
            return result | counts | given(totalsHash=sha1(e.total, ",") if len(e.feasible) else None)
        return result | given(
            filter=rejections(e.rejected),
            feasible=list(e.feasible),
            scores=e.feasible
            and {
                "raw": columns(e.raw),
                "normalized": columns(e.normalized),
                "total": integers(e.total),
            },
            best=list(e.best),
        )

    def sampled(self, pod: Any) -> Json:
        """One pod in mode sampled: the real search, from where the last one ended."""
        self.world.announce([pod])
        with totals_of_plugins() as of_plugins:
            d = schedule_one(self.world.scheduler.context, pod)
        order = self.world.scheduler.context.view_order()
        result = self.order(order) | {"start": int(d.start), "next": int(d.next)}
        self.world.settle(pod, d.node)
        if d.error:
            return result | given(error=d.error, evaluated=int(d.evaluated) or None)
        feasible, totals = integers(d.feasible), None if d.totals is None else integers(d.totals)
        if of_plugins:
            (totals,) = map(integers, of_plugins)
        result |= {"evaluated": int(d.evaluated)} | given(
            chosen=d.node, fitError=d.fit_error, feasibleCount=len(feasible) or None, hinted=d.hinted or None
        )
        if not feasible:
            return result
        if self.digest:
            return result | given(
                feasibleAtDigest=sha1(feasible, ",")[:12], totalsDigest=totals and sha1(totals, ",")[:12]
            )
        if self.brief:
            names = [order[position] for position in feasible]
            # A single feasible node is not scored: its hash is that of nothing.
            return result | given(feasibleHash=sha1(names, "\n"), totalsHash=sha1(totals or [], ","))
        return result | given(feasibleAt=feasible, totals=totals)

    def order(self, order: Sequence[str]) -> Json:
        """The node list, if it is not the one given last."""
        names = list(order)
        if names == self.last_order:
            return {}
        self.last_order = names
        return {"orderHash": sha1(names, "\n")} if self.brief or self.digest else {"order": names}


def given(**fields: Any) -> Json:
    """The fields that have a value; the vectors leave out empty ones."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}


def rejections(rejected: dict[str, Any]) -> Json:
    return {
        name: {"plugin": one.plugin, "code": int(one.code), "reasons": list(one.reasons)}
        for name, one in rejected.items()
    }


def prefilter(outcome: Any) -> Json | None:
    if outcome is None:
        return None
    result = {"plugin": outcome.plugin, "code": int(outcome.code), "reasons": list(outcome.reasons)}
    if result["code"]:
        return result | given(plugins=list(outcome.plugins))
    return result | {"nodeNames": list(outcome.node_names), "plugins": list(outcome.plugins)}


def integers(values: Iterable[Any]) -> list[int]:
    return [int(value) for value in values]


def columns(scores: dict[str, Iterable[Any]]) -> dict[str, list[int]]:
    return {plugin: integers(values) for plugin, values in scores.items()}


def sha1(values: Iterable[Any], separator: str) -> str:
    return hashlib.sha1(separator.join(map(str, values)).encode(), usedforsecurity=False).hexdigest()
