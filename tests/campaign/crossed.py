"""Scenarios bred from the vectors, each in two schedulers that have to agree after every run:
`python -m tests.campaign.crossed REPORT [--scenarios N] [--seed S] [--vectors FOLDER]`.

One scheduler places pods together, the other every pod in a cycle of its own. Before a run the other also
runs in a transaction that is rolled back, runs a fork, or explains pods: none may change a later decision.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from moorage import Scheduler
from moorage.errors import MoorageError
from moorage.kube import Pod, decode_object
from tests.conformance.extenders import URL, served
from tests.conformance.upstream.crossing import DRA, FULL, GANG, SAMPLED, crossed, scenarios
from tests.conformance.world import World
from tests.doors.engine import Route, Routes

Json = dict[str, Any]
VECTORS = Path("tests/conformance/data")
KINDS = {"full": FULL, "sampled": SAMPLED, "gang": GANG, "dra": DRA}
DONE: Counter[str] = Counter()
"""How often was done what."""


def bred(folder: Path, kind: str, seed: int, count: int) -> Iterator[Json]:
    """Scenarios of one kind, whose nodes and pods come from those of mode full as well."""
    of_kind = [family for family in KINDS[kind] if (folder / f"{family}.jsonl.gz").exists()]
    full = [family for family in FULL if (folder / f"{family}.jsonl.gz").exists()]
    others = scenarios(folder, full) if kind in ("gang", "sampled") else ()
    return crossed(scenarios(folder, of_kind), seed, count, others)


# ---- the two schedulers --------------------------------------------------------------------------------


def world_of(scenario: Json, seed: int, places_alone: bool) -> World:
    """The cluster of a scenario before its first step."""
    random, config = Random(seed), scenario.get("config", {})
    world = World(
        [],
        preempts=True,
        tie_break=random.choice(["first", "go-heap", "random"]),
        percentage_of_nodes_to_score=random.choice([None, 100]),
        config=config.get("configuration"),
        # A hint depends on which pods were tried together.
        feature_gates=config.get("featureGates", {}) | {"OpportunisticBatching": False},
        seed=seed,
    )
    objects = [decode_object(one) for one in scenario["objects"]]
    for one in sorted(objects, key=lambda one: one.kind != "Namespace"):
        world.add(one)
    if places_alone:
        context = world.scheduler.context
        of_pod, of_class = context._route_of_pod, context._route_of_class
        context.routes = Routes(of_class, lambda pod: int(Route.SIGNED) | of_pod(pod))
    return world


def outcome(scheduler: Scheduler) -> Any:
    """What a run leads to."""
    try:
        result = scheduler.run()
    except (MoorageError, ValueError) as error:
        return type(error).__name__, str(error)
    failures = {key: failure.message for key, failure in result.unschedulable.items()}
    evicted = {key: str(one) for key, one in result.evicted.items()}
    DONE.update(runs=1, placed=len(result.placements), failed=len(failures), evicted=len(evicted))
    return dict(result.placements), failures, evicted


def state(scheduler: Scheduler) -> Any:
    """Pods in the store, and the queue."""
    pods = sorted(
        (pod.key, pod.spec.node_name, pod.status.nominated_node_name, pod.status.conditions)
        for pod in scheduler.client.list(Pod)[0]
    )
    waiting = [sorted(info.pod.key for info in infos) for infos in scheduler.queue.pending_pods()[:3]]
    return pods, waiting


def disturb(scheduler: Scheduler, random: Random) -> Any:
    """Do what has to change no later decision; return the outcome of a fork, if there was one."""
    how = random.choice(["rollback", "fork", "explain", "nothing"])
    DONE[how] += 1
    pods = scheduler.client.list(Pod)[0]
    if how == "rollback":
        with scheduler.transaction():
            outcome(scheduler)
            for pod in scheduler.client.list(Pod)[0][:2]:  # those that are not evicted
                scheduler.client.delete(Pod, pod.name, pod.namespace)
            outcome(scheduler)
    elif how == "fork":
        return outcome(scheduler.fork())
    elif how == "explain":
        for pod in pods[:6]:
            scheduler.ask.explain(pod.key)
    return None


# ---- one scenario ------------------------------------------------------------------------------------------


def difference(scenario: Json, seed: int) -> tuple[Any, Any] | None:
    """Play a scenario; return what differs first."""
    random = Random(seed)
    worlds = [told(world_of, scenario, seed, alone) for alone in (False, True)]
    if not all(isinstance(world, World) for world in worlds):
        DONE["refused"] += 1
        return None if str(worlds[0]) == str(worlds[1]) else (worlds[0], worlds[1])
    together, alone = worlds
    waiting: list[Any] = []

    def run() -> tuple[Any, Any] | None:
        for world in worlds:
            for pod in waiting:
                told(world.add, pod)
        waiting.clear()
        forked = disturb(alone.scheduler, random)
        first, second = outcome(together.scheduler), outcome(alone.scheduler)
        if first != second:
            return first, second
        if forked is not None and forked != second:
            return forked, second
        first, second = state(together.scheduler), state(alone.scheduler)
        return (first, second) if first != second else None

    for step in scenario["steps"]:
        added = [step["pod"]] if step["op"] == "schedule" else step.get("members", ())
        waiting += [waiting_pod(one) for one in added]
        if random.random() < (0.1 if added else 0.7) and (found := run()):
            return found
        if not added:
            first, second = (told(world.apply, step) for world in worlds)
            if first != second:
                return first, second
    return run() or run()


def waiting_pod(manifest: Json) -> Pod:
    """A pod of a scenario as it is before it is scheduled."""
    pod: Any = decode_object(manifest)
    meta = replace(pod.metadata, deletion_timestamp=None)
    waiting: Pod = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""))
    return waiting


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, or the error that it raises."""
    try:
        return function(*arguments)
    except (MoorageError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.campaign.crossed")
    parser.add_argument("report")
    parser.add_argument("--scenarios", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vectors", type=Path, default=VECTORS)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # plugins tell of what is malformed
    found = {}
    for kind in KINDS:
        for number, scenario in enumerate(bred(options.vectors, kind, options.seed, options.scenarios)):
            line = json.dumps(scenario).encode()
            with served(line) as at_our_server:
                differs = difference(json.loads(at_our_server), options.seed * 1_000_003 + number)
            DONE["with extenders" if URL in line else "scenarios"] += 1
            if differs:
                found[scenario["name"]] = [str(one)[:2000] for one in differs]
    Path(options.report).write_text(json.dumps({"done": DONE, "different": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
