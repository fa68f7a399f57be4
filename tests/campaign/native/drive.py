"""Runs the native driver: `python -m tests.campaign.native.drive FOLDER REPORT --operations N --seed N`.

The operations are split over clusters, each with a seed of its own. FOLDER has the driver as
`build_driver.py` makes it.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from moorage import default_profile
from moorage.kube import (
    Affinity,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tests.core.placing import place_run
from tests.doors.engine import ClusterState, Placer, TieBreak
from tests.make import ZONE, container, node, pod, port

NODES = [f"n{number}" for number in range(8)]
ZONES = ["x", "y", ""]
PODS = 64
PER_CLUSTER = 1_000_000
"""Operations on one cluster, before the next one starts empty."""
WEB = LabelSelector(match_labels={"app": "web"})


def variants() -> list[Pod]:
    """Pods: small, with an image, a host port, spread, with (anti-)affinity, and of another resource."""
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=WEB
    )
    term = PodAffinityTerm(label_selector=WEB, topology_key=ZONE)
    preferred = PodAffinity(preferred=(WeightedPodAffinityTerm(weight=3, pod_affinity_term=term),))
    host = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "db"}), topology_key=ZONE)
    return [
        pod("p", containers=(container(requests={"cpu": "250m", "memory": 1 << 20}, image="i:1"),)),
        pod("p", ports=[port(80)], labels={"app": "web"}),
        pod("p", requests={"cpu": 1}, labels={"app": "web"}, topology_spread_constraints=(spread,)),
        pod("p", labels={"app": "web"}, affinity=Affinity(pod_affinity=preferred)),
        pod("p", labels={"app": "db"}, affinity=Affinity(pod_anti_affinity=PodAffinity(required=(host,)))),
        pod("p", requests={"memory": (1 << 53) + 1, "example.com/gpu": 1}),
    ]


def node_states() -> list[Node]:
    taint = Taint(key="a", value="1", effect="NoSchedule")
    shapes: list[dict[str, Any]] = [
        {},
        {"taints": [taint], "images": [(["i:1"], 900 << 20)], "cpu": 2},
        {"unschedulable": True, "memory": 1 << 58, "example.com/gpu": 2},
    ]
    return [
        node(name, zone=zone, **shape) for name in NODES for zone, shape in zip(ZONES, shapes, strict=True)
    ]


def pods() -> list[Pod]:
    """The objects of all pods, on all nodes, as all variants."""
    out = []
    for number in range(PODS):
        for name in NODES:
            for one in variants():
                metadata = replace(one.metadata, name=f"p{number}", uid=f"p{number}")
                out.append(replace(one, metadata=metadata, spec=replace(one.spec, node_name=name)))
    return out


def comparison(state: ClusterState) -> Callable[[int, int, bool], None]:
    """Compares placements from candidates with those by scans, and with those of a fork."""
    plan = default_profile().compile(state)
    kept, scans = (Placer(state, plan, TieBreak.FIRST, 100) for _ in range(2))
    scans.decider.keeps_candidates = False

    def placed(placer: Placer, on: ClusterState, pod_class: int, pods: int) -> list[int]:
        placer.decider.start = 0
        mark = on.begin()
        try:
            return place_run(placer, pod_class, pods).tolist()
        finally:
            on.rollback(mark)

    def compare(pod_class: int, pods: int, forks: bool) -> None:
        found = placed(kept, state, pod_class, pods)
        assert placed(scans, state, pod_class, pods) == found
        if forks:
            fork = state.fork()
            assert placed(Placer(fork, plan, TieBreak.FIRST, 100), fork, pod_class, pods) == found

    return compare


COUNTS = ("operations", "checks", "rollbacks", "refusals", "decisions")


def drive(driver_type: Any, operations: int, seed: int) -> dict[str, float]:
    """Run a number of operations.

    Parameters
    ----------
    driver_type : type
        The compiled driver.
    operations : int
    seed : int

    Returns
    -------
    dict of str to float
        Numbers of what was done, and the seconds that it took.
    """
    totals: dict[str, float] = dict.fromkeys(COUNTS, 0)
    made = pods(), node_states()
    begun, at = time.perf_counter(), 0
    while totals["operations"] < operations:
        state = ClusterState()
        driver = driver_type(state, *made, NODES, comparison(state), (seed << 20) + at)
        driver.run(min(PER_CLUSTER, operations - int(totals["operations"])))
        driver.verify()
        for name in COUNTS:
            totals[name] += getattr(driver, name)
        at += 1
    totals["clusters"], totals["seconds"] = at, round(time.perf_counter() - begun, 1)
    totals["operations per second"] = round(totals["operations"] / max(totals["seconds"], 0.1))
    return totals


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("report")
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    gc.set_threshold(100_000)  # most objects are those of the pods, which stay
    logging.disable()  # of pods that expire, or that are bound elsewhere
    sys.path.insert(0, options.folder)
    from native_driver import Driver  # type: ignore[import-not-found]

    totals = drive(Driver, options.operations, options.seed)
    Path(options.report).write_text(json.dumps({"seed": options.seed} | totals, indent=1))


if __name__ == "__main__":
    main()
